"""200 results like those of real tools, made by seed, and 300 questions whose answers stand in them.

A result is what a server sends for `tools/call`. Its shape is a public one: GitHub's issues, a Kubernetes list, a log,
a page of HTML. Its words are drawn by seed, a vocabulary for each result. Half of the results are held out: they have
words, phrases of questions and a few kinds that the other half lacks.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, Literal

Half = Literal["development", "held out"]
HALVES: tuple[Half, ...] = ("development", "held out")
N_RESULTS = 200
BYTES_PER_TOKEN = 3.8
_NEAR = 3_000
"""The most characters between the first and the last place of a gold value."""

_KINDS = Path(__file__).with_name("result_kinds.txt")

_SYLLABLES = (
    "bar bel bor cal cor dal den dor el fen fir gar gil hal har hol im jor kar kel kin lan lar lem lis lo lun mar mel "
    "mir mon nar nel nor or pel per pim quil ra ren ril ro san sel sor tal tam tel tor ul val vel ver vin wal wen yar"
).split()
_ENGLISH = (
    "the of to and a in is for that with as on by it this are be from an at or not when which can has was will all "
    "after before request server client time data error file value user service update change new first page test "
    "build release version queue worker cache retry limit token report export import list order invoice payment were "
    "region cluster node disk memory network socket reader writer index search result field column table row batch "
    "schedule daily late slow fast missing wrong empty broken stale loses keeps drops shows hides returns fails run "
    "while during under over without until across between again only still never always sometimes breaks job account"
).split()


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to know of a result, and the text in the result that answers it."""

    text: str
    gold: str


@dataclass(frozen=True, slots=True)
class Made:
    """A result as it is on the wire (`CallToolResult`), and the questions about it."""

    kind: str
    result: dict[str, Any]
    questions: tuple[Question, ...]

    @property
    def text(self) -> str:
        """All of its text."""
        return "\n".join(block["text"] for block in self.result["content"])


@dataclass
class _Part:
    text: str
    asks: list[tuple[str, str]] = field(default_factory=list)


_COLUMNS = (
    "amount_due=money;shippedAt=time;contact_email=email;TrackingCode=code;region=one eu-west|us-east|ap-south;"
    "note=prose 4 12;unit_price=money;warehouse_slot=code;apiKeyId=hex 16;quantity=number 2"
).split(";")


def _value(text: str) -> float | str:
    return float(text) if re.fullmatch(r"\d+\.\d\d", text) else text


@cache
def _kinds(half: Half) -> dict[str, dict[str, _Part]]:
    """Return the parts of each kind by name; that of the name "" is the whole."""
    seen, unseen = _KINDS.read_text(encoding="utf-8").split("\n#### held out")
    head, *shared = seen.split("\n## ")
    common = dict(line[2:].split(" ", 1) for line in head.splitlines() if line.startswith(": "))
    kinds: dict[str, dict[str, _Part]] = {}
    for kind in [*(unseen.split("\n## ")[1:] if half == "held out" else ()), *shared]:
        title, *lines = kind.splitlines()
        kinds[title] = parts = {name: _Part(text) for name, text in common.items()} | {"": (last := _Part(""))}
        for line in lines:
            if line.startswith(": "):
                name, _, text = line[2:].partition(" ")
                parts[name] = last = _Part(text)
            elif line.startswith("? "):
                phrases, _, gold = line[2:].rpartition(" = ")
                last.asks.append((phrases, gold))
            else:
                last.text += line.removeprefix("  ")
    return kinds


class _Writer:
    """Writes one result of a kind, in a vocabulary of its own."""

    def __init__(self, seed: str, parts: Mapping[str, _Part], size: int) -> None:
        self.rng = Random(seed)
        self._parts, self._size, self._i = parts, size, 0
        self._now = self.rng.randrange(1_600_000_000, 1_750_000_000)
        syllables = self.rng.sample(_SYLLABLES, 26)
        several = ("".join(self.rng.sample(syllables, self.rng.choice((2, 2, 3)))) for _ in range(900))
        self._nouns = list(dict.fromkeys(several))
        self._words = _ENGLISH * 3 + self._nouns[:150]
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def part(self, name: str, names: Mapping[str, str]) -> str:
        """Return the text of a part, and note what may be asked of it."""
        own = dict(names)
        text = self.expand(self._parts[name].text, own)
        self.asked += ((phrases, gold, own) for phrases, gold in self._parts[name].asks)
        return text

    def expand(self, template: str, names: dict[str, str]) -> str:
        """Return a template with everything written; `names` gets what is called by a name."""
        return re.sub("«([^»]*)»", lambda found: self._written(found[1], names), template.replace("¶", "\n"))

    def _written(self, call: str, names: dict[str, str]) -> str:
        if call in names:
            return names[call]
        name, told, maker = call.partition("=") if re.match(r"\w+=", call) and call[:4] != "each" else ("", "", call)
        word, _, rest = maker.partition(" ")
        if word in ("fill", "many", "each", "any", "json"):
            text = str(getattr(self, f"_{word}")(names, rest.replace("¶", "\n")))
        else:
            text = self.part(word, names) if word in self._parts else str(getattr(self, f"_{word}")(rest))
        if told:
            names[name] = text
        return text

    def _fill(self, names: dict[str, str], rest: str) -> str:
        (sep, _, part), left = rest.rpartition(" "), self._size
        made: list[str] = []
        while left > 0:
            made.append(self.part(part, names))
            self._i = len(made)
            left -= len(made[-1])
        return sep.strip(" ").join(made)

    def _many(self, names: dict[str, str], rest: str) -> str:
        least, most, sep, part = (*rest.split(" ", 2)[:2], *rest.split(" ", 2)[2].rsplit(" ", 1))
        return sep.strip(" ").join(self.part(part, names) for _ in range(self.rng.randint(int(least), int(most))))

    def _each(self, names: dict[str, str], rest: str) -> str:
        (name, _, of), sep, part = rest.split(" ")[0].partition("="), *rest.split(" ")[1:]
        if of.startswith("nouns/"):
            of = ",".join(self._nouns[: max(3, self._size // int(of[6:]))])
        elif of.startswith("versions/"):
            of = ",".join(f"{i // 40}.{i // 5 % 8}.{i % 5}" for i in range(self._size // int(of[9:])))
        return sep.join(self.part(part, names | {name: one}) for one in of.split(","))

    def _any(self, names: dict[str, str], rest: str) -> str:
        return self.part(self.rng.choice(rest.split(" ")), names)

    def _json(self, names: dict[str, str], part: str) -> str:
        return json.dumps(self.part(part, names), ensure_ascii=False)[1:-1]

    def _one(self, of: str) -> str:
        return self.rng.choice(of.split("|"))

    def _noun(self, _: str = "") -> str:
        return self.rng.choice(self._nouns)

    def _slug(self, rest: str) -> str:
        return rest[:1].join(self.rng.choices(self._nouns, k=int(rest[1:].strip() or 2)))

    def _Noun(self, _: str) -> str:
        return self._noun().title()

    def _constant(self, _: str) -> str:
        return f"{self._one('MAX|MIN|DEFAULT')}_{self._slug('_').upper()}"

    def _prose(self, rest: str) -> str:
        least, most = map(int, rest.split())
        return " ".join(self.rng.choices(self._words, k=self.rng.randint(least, most))).capitalize() + "."

    def _text(self, rest: str) -> str:
        least, most = map(int, rest.split())
        return " ".join(self._prose("6 16") for _ in range(self.rng.randint(least, most)))

    def _title(self, _: str) -> str:
        return f"{self._noun().capitalize()} {self._prose('3 7')[:-1].lower()} {self._noun()}"

    def _accented(self, _: str) -> str:
        return self._prose("3 9")[:-1].replace("a", self.rng.choice("äáãå")) + self.rng.choice("…!✓")

    def _number(self, digits: str) -> str:
        return str(self.rng.randrange(10 ** (int(digits) - 1), 10 ** int(digits)))

    def _serial(self, rest: str) -> str:
        start, step = map(int, rest.split())
        return str(start + step * self._i)

    def _float(self, rest: str) -> str:
        most, digits = map(int, rest.split())
        return str(round(self.rng.uniform(0.1, most), digits))

    def _hex(self, n: str) -> str:
        return f"{self.rng.getrandbits(4 * int(n)):0{n}x}"

    def _base64(self, _: str) -> str:
        return base64.b64encode(self.rng.randbytes(self.rng.randint(100, 900))).decode()

    def _time(self, part: str = "") -> str:
        text = self._iso(self.rng.randrange(10**8))
        return {"": text, "day": text[:10], "hour": text[11:]}[part]

    def _later(self, _: str) -> str:
        self._now += self.rng.randint(1, 90)
        return self._iso(0)

    def _later_s(self, _: str) -> str:
        self._now += 15
        return str(self._now)

    def _iso(self, more: int) -> str:
        return datetime.fromtimestamp(self._now + more, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _table(self, form: str) -> str:
        """Return a table, with columns, a key and names drawn by seed."""
        drawn = self.rng.sample(_COLUMNS, self.rng.randint(5, len(_COLUMNS)))
        columns, makers = zip(*(column.split("=") for column in drawn), strict=True)
        key, thing = self.rng.choice((("id", "row"), ("order_id", "order"), ("accountNo", "account"), ("SKU", "SKU")))
        numbers, rows, size = self.rng.random() < 0.5, list[list[Any]](), 0
        while size < self._size:
            it = 417_203 + 3 * len(rows)
            values = [self.expand(f"«{maker}»", {}) for maker in makers]
            row = [it if numbers else f"{thing[:2].upper()}{it}{self._hex('2')}", *map(_value, values)]
            rows.append(row)
            size += len(
                json.dumps(row if form in ("csv", "tsv", "columns") else dict(zip(columns, row[1:], strict=True)))
            )
            for column, value in zip(columns, row[1:], strict=True):
                spoken = re.sub("_|(?=[A-Z])", " ", column).strip().lower()
                one = f"{thing} {row[0]}"
                phrases = f"What is the {spoken} of {one}?|Which {spoken} has {one}?|{row[0]}: {spoken}?"
                self.asked.append((phrases, str(value), {}))
        names = [key, *columns]
        records = [dict(zip(names, row, strict=True)) for row in rows]
        if form in ("csv", "tsv"):
            written = io.StringIO()
            csv.writer(written, "excel" if form == "csv" else "excel-tab", lineterminator="\n").writerows(
                [names, *rows]
            )
            return written.getvalue()
        if form == "lines":
            return "\n".join(json.dumps({"level": "info"} | record) for record in records)
        return json.dumps({"columns": names, "rows": rows, "truncated": False} if form == "columns" else records)


def _tokens(rng: Random, i: int) -> int:
    """Return about how many tokens a result takes: mostly 20,000 to 250,000, some fewer, some 1 MB and more."""
    if i % 20 == 7:
        return rng.randrange(9_000, 20_000)
    return rng.randrange(260_000, 500_000) if i % 33 == 11 else rng.randrange(20_000, 250_000)


def _wire(rng: Random, text: str) -> dict[str, Any]:
    """Return a result as servers send it: text alone, a block an item, or with `structuredContent`, as FastMCP does."""
    if text[:1] not in "[{" or not text.endswith(("}", "]")) or "\n" in text[:3_000]:
        return _block(text) | (rng.choice(({}, {"structuredContent": {"result": text}})))
    value = json.loads(text)
    several = isinstance(value, list)
    form = rng.choice(("compact", "compact", "indented", "structured", "blocks" if several else "structured"))
    compact = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    if form == "blocks":
        return {"content": [{"type": "text", "text": compact(item)} for item in value], "isError": False}
    if form == "structured":
        return _block(compact(value)) | {"structuredContent": {"result": value} if several else value}
    return _block(json.dumps(value, ensure_ascii=False, indent=2) if form == "indented" else compact(value))


def _block(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


def _questions(writer: _Writer, text: str, n: int, half: Half) -> Iterator[Question]:
    for phrases, gold, names in writer.rng.sample(writer.asked, len(writer.asked)):
        gold = writer.expand(gold, names)
        several = writer.expand(phrases, names).split("|")
        first, last = text.find(gold), text.rfind(gold)
        if first < 0 or last - first > _NEAR or gold in several[0]:
            continue  # what stands in several places answers no question, nor does what JSON writes otherwise
        yield Question(writer.rng.choice(several[:-1] if half == "development" else several), gold)
        n -= 1
        if not n:
            return


def sized(kind: str, n_bytes: int) -> dict[str, Any]:
    """Return a result of a kind and of about so many bytes, as FastMCP sends it where it is JSON."""
    text = _Writer(f"{kind} {n_bytes}", _kinds("development")[kind], n_bytes).part("", {})
    return _block(text) | ({"structuredContent": json.loads(text)} if text[:1] == "{" else {})


def made(half: Half, i: int) -> Made:
    """Return the i-th result of a half, with one question where i is odd and two where it is even."""
    kinds = _kinds(half)
    kind = list(kinds)[i % len(kinds)]
    rng = Random(f"{half}, {i}")
    writer = _Writer(f"{half}, {i}", kinds[kind], round(_tokens(rng, i) * BYTES_PER_TOKEN))
    one = Made(kind, _wire(rng, writer.part("", {})), ())
    return Made(kind, one.result, tuple(_questions(writer, one.text, 2 - i % 2, half)))


def results(half: Half, n: int = N_RESULTS // 2) -> Iterator[Made]:
    """Return so many results of a half, each made as it is taken; few are spread over all kinds."""
    step = N_RESULTS // 2 // n
    return (made(half, i * step + (i % 2 if step > 1 else 0)) for i in range(n))
