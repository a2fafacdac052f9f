"""Parts of a result, selected by JMESPath under a budget of steps, and the reason why nothing was selected."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any

from jmespath.exceptions import IncompleteExpressionError, JMESPathTypeError, LexerError
from jmespath.functions import Functions
from jmespath.parser import Parser
from jmespath.visitor import TreeInterpreter

from agent_utilities.errors import InputError
from agent_utilities.results.content import written_size
from agent_utilities.results.shape import key_of, quoted
from agent_utilities.selection.model import nearest

_MAX_CHARACTERS, _MAX_TRANSLATED = 2_000, 500
_MAX_STEPS, _MAX_COUNTED = 200_000, 8 << 20
"""Nodes visited, or 8 bytes made, in 0.1 s. A value adds as many as its JSON has characters, of which 8 Mi count."""
_COSTS = {"multi_select_dict": 24, "multi_select_list": 10, "function_expression": 8}
_UNREAD = {"length", "not_null", "to_array", "type"}
_MAX_SORTED, _MAX_TEXT = 100_000, 4 << 20
"""What one call into C, in which no other thread runs, does in some 60 ms."""
_N_KEYS, _N_VALUES, _N_SHOWN, _MAX_SAID = 12, 5, 60, 1_000
_LITERALS = "text stands in single quotes, and numbers, true, false and null in backticks"
_SUCH_AS = "it is JMESPath, such as issues[?state=='open'].{number: number, title: title}"
_NULLS = "leave null out before, as in [?body && contains(body, 'x')]"
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_PROJECTIONS = {"flatten", "projection", "filter_projection", "value_projection"}
_KINDS = {str: "text", bool: "a boolean", type(None): "null", dict: "an object", int: "a number", float: "a number"}
_QUOTED = r"""(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)"""
_RULES = (  # what is nearly JMESPath, as of JSONPath, SQL and simple jq, and how JMESPath has it
    (r"^\s*\$\.?(?=[\w\[*])", ""),
    (r"\[\s*[\"']([^\"'\[\]]+)[\"']\s*\]", r'."\1"'),
    (r"\]\s*\|\s*(?:\.(?=\w)|(?=\{))", "]."),
    (r"\.(?=\[[\]?*:\d-])", ""),
    (r"(^|[|(,:{\[?&!=<>]\s*)\.(?=[\"\w])", r"\1"),
    (r"([{,]\s*)(\w+)(?=\s*[,}])", r"\1\2: \2"),
    (r"(?<![=!<>~])=(?![=~])", "=="),
    (r"([=<>]\s*)\"([^\"\\]*)\"", r"\1'\2'"),
    (r"([=<>]\s*)(-?\d+(?:\.\d+)?)\b", r"\1`\2`"),
    (r"\s+and\s+", " && "),
    (r"\s+or\s+", " || "),
    (r"([@$][^\W\d]\w*|\b[^\W\d]\w*(?:-\w+)+|\b[A-Za-z_]*[^\W\x00-\x7f]\w*)", r'"\1"'),
)


def select(expression: str, value: Any) -> Any:
    """Return what a JMESPath expression selects from a JSON value, and shares with it.

    What it visits, reads and makes is counted, since `[@,@][] | [@,@][] | …` doubles at every step. What would be
    written is counted, too: `[@,@] | [@,@] | …` is a small graph, and an endless text.

    Raises:
        InputError: the expression is malformed, does not fit the value, or takes too much.
    """
    with _explained(expression, value):
        interpreter = _Interpreter(value)
        result = interpreter.visit(_tree(expression), value)
        if result is not value:
            interpreter.pay_for(result)
    return result


def parsed(expression: str) -> Any:
    """Return an expression's syntax tree, by `jmespath`; raises `InputError`."""
    with _explained(expression):
        return _tree(expression)


def _tree(expression: str) -> Any:
    if len(expression) > _MAX_CHARACTERS:
        raise ValueError(f"it has more than {_MAX_CHARACTERS:,} characters")
    parser = Parser()
    vars(parser)["_CACHE"] = {}  # the class' own keeps the expressions of all callers
    return parser.parse(expression).parsed


@contextmanager
def _explained(expression: str, value: Any = None) -> Iterator[None]:
    """Raise `InputError` for what fails in the block, with a hint."""
    try:
        yield
    except JMESPathTypeError as error:  # its own text has the value in it, which may be endless
        what = f"{error.function_name}() takes {' or '.join(error.expected_types)}, not {error.actual_type}"
        hint = missing(expression, value, None) or (_NULLS if error.actual_type in ("null", "NoneType") else _SUCH_AS)
        raise InputError(what, expression, "read_result: select", hint) from None
    except (RecursionError, ValueError, TypeError, ArithmeticError, Warning) as error:  # it warns of text in backticks
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
        if isinstance(error, IncompleteExpressionError | LexerError):
            what = f"{what.removesuffix(':')} at column {error.lex_position}"
        what = what.removesuffix(", for expression:")[:200]
        raise InputError(what, expression, "read_result: select", _translated(expression)) from None


def _translated(expression: str) -> str:
    """Return a hint: an expression of another language as JMESPath, where that can be parsed."""
    text = expression
    for pattern, replacement in _RULES if len(text) <= _MAX_TRANSLATED else ():
        text = re.sub(f"{pattern}|{_QUOTED}", partial(_replaced, replacement), text)
    with suppress(RecursionError, ValueError, Warning):
        if text != expression and _tree(text):
            return f"{_LITERALS if '`' in text else 'in JMESPath'}: {text[:300]}"
    return _SUCH_AS


def _replaced(template: str, found: re.Match[str]) -> str:
    return found["quoted"] or found.expand(template)


_EXPRESSION = type(Parser().parse("&a").search(None))
"""What stands for an expression after `&`, such as the key of `sort_by`."""


class _Interpreter(TreeInterpreter):
    """The interpreter of `jmespath`, which ends where it visited, read or made too much."""

    _functions: Any

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value, self._left, self._visits = value, _MAX_STEPS, dict[str, Any]()

    def visit(self, node: Any, value: Any = None) -> Any:
        kind = node["type"]
        self._left -= _COSTS.get(kind, 1)
        if self._left < 0:
            self.pay(0)
        if (visit := self._visits.get(kind)) is None:
            visit = self._visits[kind] = getattr(self, f"visit_{kind}")
        return visit(node, value)

    def pay(self, n_steps: int) -> None:
        if n_steps > self._left and self._value is not None:  # counted once it is needed: that takes a while
            self._left, self._value = self._left + min(written_size(self._value, _MAX_COUNTED), _MAX_COUNTED), None
        self._left -= n_steps
        if self._left < 0:
            raise ValueError("it takes too much: select from less, such as issues[:100]")

    def pay_for(self, value: Any) -> int:
        """Pay for what is read or written whole; return how many characters it takes."""
        n = written_size(value, self._left * 8)
        if n > self._left * 8 and self._value is not None:
            self.pay(self._left + 1)
            return self.pay_for(value)
        self.pay(n // 8 + 1)
        return n

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        name, values = node["value"], [self.visit(child, value) for child in node["children"]]
        kinds, n = [type(each).__name__ for each in values], 0
        if name not in _UNREAD:
            n = self.pay_for([each for each in values if name == "to_string" or type(each) is not _EXPRESSION])
        if name == "merge":  # an entry takes a hundred bytes
            self.pay(n // 2)
        if name == "join" and kinds == ["str", "list"]:
            self.pay(len(values[0]) * len(values[1]) // 8)
        n_sorted = len(values[0]) if name in ("sort", "sort_by") and kinds[:1] == ["list"] else 0
        if n_sorted > _MAX_SORTED or (name == "to_string" and n > _MAX_TEXT):
            raise ValueError(f"{name}() takes less at once: select from less, such as issues[:1000]")
        if name == "contains" and kinds[:1] == ["str"] != kinds[1:]:
            return False  # as specified: jmespath raises TypeError
        return self._functions.call_function(name, values)

    def visit_comparator(self, node: Any, value: Any) -> Any:
        left, right = (self.visit(child, value) for child in node["children"])
        kinds = {type(left), type(right)}
        if kinds == {list} or kinds == {dict}:
            self.pay_for(left)
        elif kinds == {str}:
            self.pay(len(left) >> 8)
        if node["value"] in ("eq", "ne") or kinds == {str} or kinds <= {int, float}:
            return self.COMPARATOR_FUNC[node["value"]](left, right)
        return None  # as specified: jmespath raises TypeError for a text and a number

    def visit_flatten(self, node: Any, value: Any) -> Any:
        base: Any = self.visit(node["children"][0], value)
        self.pay(sum(len(each) if isinstance(each, list) else 1 for each in base) if isinstance(base, list) else 0)
        flat: Any = {"children": [{"type": "literal", "value": base}]}
        return super().visit_flatten(flat, None)

    def visit_slice(self, node: Any, value: Any) -> Any:
        taken = super().visit_slice(node, value)
        self.pay(len(taken or ()))
        return taken


def missing(expression: str, value: Any, result: Any) -> str:
    """Return why a result has nothing, in a sentence; empty where each part of the expression selected something.

    JMESPath answers null, or an empty list, for a field that is not there as for a filter that nothing matches.
    """
    rows, tracer = result if isinstance(result, list) else [result], _Tracer(value)
    for row in rows:  # which is empty, or has something that is
        if row and None not in (row.values() if isinstance(row, dict) else row if isinstance(row, list) else ()):
            return ""
    with suppress(RecursionError, ValueError, TypeError, ArithmeticError):
        tracer.visit(_tree(expression), value)
    return tracer.reason()[:_MAX_SAID]


class _Tracer(_Interpreter):
    """Notes which parts of an expression never had anything to select from, in the order in which they were tried."""

    def __init__(self, value: Any) -> None:
        super().__init__(None)  # what it costs is not worth more steps for a longer value
        self._hits, self._misses = set[int](), dict[int, tuple[Any, Any]]()
        self._texts, self._seen = set[int](), dict[int, Counter[str]]()
        self._paths = dict[int, tuple[str, Any]]()
        self._name(value, "")

    def _name(self, value: Any, path: str) -> None:
        """Note the path of a value and, of an array, that of its first item."""
        while isinstance(value, dict | list) and id(value) not in self._paths:
            self._paths[id(value)] = path, value
            value, path = value[0] if value and isinstance(value, list) else None, f"{path}[0]"

    def visit(self, node: Any, value: Any = None) -> Any:
        kind, key, found = node["type"], node.get("value"), super().visit(node, value)
        is_hit, base = True, value
        if kind == "field":
            is_hit = isinstance(value, dict) and key in value
        elif kind == "index":
            is_hit = isinstance(value, list) and -len(value) <= key < len(value)
        elif kind == "comparator":
            is_hit = bool(found)
            self._seen.setdefault(id(node), Counter())[_literal(super().visit(node["children"][0], value))] += 1
        elif kind in _PROJECTIONS and not found:
            base = super().visit(node["children"][0], value)
            has_matched = kind != "filter_projection" or id(node["children"][1]) in self._hits
            is_hit = found == [] and (base == [] or has_matched)
        if kind in ("comparator", "function_expression"):
            self._texts |= {id(child) for child in node["children"][1:]}
        if kind in ("field", "index") and id(value) in self._paths:
            path = self._paths[id(value)][0]
            self._name(found, f"{path}[{key}]" if kind == "index" else f"{path}.{_key(key)}".removeprefix("."))
        if is_hit:
            self._hits.add(id(node))
        else:
            self._misses.setdefault(id(node), (node, base))
        return found

    def reason(self) -> str:
        """Return the first part that never had anything, and what there is instead."""
        missed = [each for key, each in self._misses.items() if key not in self._hits]
        told = (self._values(each) for each, _ in missed if each["type"] == "comparator")
        for node, base in missed:
            kind, key = node["type"], node.get("value")
            names = list(islice(base, 1_000)) if isinstance(base, dict) else []
            at = self._paths.get(id(base), ("an item" if isinstance(base, dict) else "what stands before it", 0))[0]
            place = f"in {at}" if at else "at the top"
            keys = ", ".join([*map(_key, names[:_N_KEYS]), *("…" for _ in names[_N_KEYS : _N_KEYS + 1])]) or "no keys"
            if kind == "field" and isinstance(base, dict):
                near = nearest(key, [each for each in names if len(each) <= _N_SHOWN])
                meant = f"; did you mean {_key(near)}?" if near else ""
                return f"no {_key(key)} {place}: it has {keys}{f'; {_LITERALS}' if id(node) in self._texts else meant}"
            if kind == "index" and isinstance(base, list):
                return f"no [{key}] {place}: it has {len(base):,} items"
            if kind == "filter_projection" and isinstance(base, list):
                return next(told, f"the filter matches none of {len(base):,} items {place}")
            if kind != "comparator":
                wanted = "object" if kind in ("field", "value_projection") else "array"
                has = f"; it has {keys}" if names else "; [] goes over its items" if isinstance(base, list) else ""
                has = f"; {key}(@) is a function" if key in Functions.FUNCTION_TABLE else has
                return f"{at or 'the whole'} is {_kind(base)}, not an {wanted}{has}"
        return next(told, "") if self._left < 0 else ""

    def _values(self, node: Any) -> str:
        """Return which values the left side of a comparison had, which never was true."""
        seen, (left, right) = self._seen[id(node)], map(_written, node["children"])
        values = ", ".join(value for value, _ in seen.most_common(_N_VALUES))
        more = f" and {len(seen) - _N_VALUES:,} more" if len(seen) > _N_VALUES else ""
        items = f"{'the first ' if self._left < 0 else ''}{seen.total():,} items"
        return f"none of {items} has {left}{_SIGNS[node['value']]}{right}: {left} is {values}{more}"


def _written(node: Any) -> str:
    """Return a path or a literal as JMESPath has it; nothing is told of anything else."""
    if node["type"] == "subexpression":
        return ".".join(map(_written, node["children"]))
    if node["type"] == "literal":
        return _literal(node["value"])
    return _key(node["value"]) if node["type"] == "field" else "@" if node["type"] == "current" else "…"


def _kind(value: Any) -> str:
    return f"an array of {len(value):,} items" if isinstance(value, list) else _KINDS.get(type(value), "nothing")


def _key(name: str) -> str:
    return key_of(name if len(name) <= _N_SHOWN else f"{name[: _N_SHOWN - 1]}…")


def _literal(value: Any) -> str:
    if isinstance(value, dict | list):
        return _kind(value)
    text = value if isinstance(value, str) else json.dumps(value)
    text = text if len(text) <= _N_SHOWN else f"{text[: _N_SHOWN - 1]}…"
    return f"'{quoted(text)[1:-1]}'" if isinstance(value, str) else f"`{text}`"
