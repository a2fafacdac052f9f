"""A request without what looks like a secret: it is written down in no other form.

What several words say together, such as `the password is ...`, is one table of rules over the text (`_RULES`); what a
word looks like by itself is told in `secret_words.py`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from agent_utilities.usage.secret_words import long_numbers, without_secret_part

LONGEST_REQUEST = 500
"""Characters of a request that are kept."""

_MOST_READ = 4_096
_KEY_BLOCK = re.compile(r"-{2,}\s*BEGIN\b.*?(?:-{2,}\s*END\b[^-]*-{2,}|\Z)", re.DOTALL)
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\u180f")

# -- what secrets are called, what leads to them, and what they look like ---------------------------------------------

_EDGES = r"[\"'`()\[\]{}<>,.;:!?*-]*"
_PASSWORD = (
    r"pass[- ]?phrases?|passw(?:or)?ds?|passcodes?|pwd|passwort|kennwort|contraseña|senha|wachtwoord|пароль"
    r"|密码|密碼|パスワード|비밀번호"
)
_FIGURES = "pin|otp|cvv|cvc"
"""What has figures: `the pin is bent` tells none."""
_NAMED = (
    rf"{_PASSWORD}|secret|token|credentials?|(?:api|access|secret|private)[-_ ]?key|authorization|session[-_]?id|sid"
    rf"|(?:license|encryption|signing|auth)[-_]?key|ssn|iban|{_FIGURES}"
)
_KEY = rf"(?:{_NAMED}|key|pass|auth|cookie)"
"""What is a key where a sign says so; the last ones are ordinary words besides."""
_PHRASE = (
    rf"(?:{_PASSWORD}|mnemonic|(?:seed|recovery|secret|wallet) (?:phrase|words)|(?:mot|mots) de passe|phrase secrète)"
)
"""What announces words."""
_CODE = (
    r"(?:(?:verification|security|recovery|backup|one-time|2fa|mfa|access|login|log-in|sign-in|door|gate|alarm|unlock"
    r"|entry|confirmation|pin|sms|reset|safe) (?:codes?|keys?|combination)"
    r"|(?:licen[cs]e|product|activation|setup|serial) (?:key|number|code)"
    r"|serial|passcode|otp|pin|(?:app|application) password)"
)
"""What announces figures and groups."""
_BESIDE = "for|of|to|on|pour|für|para|do|du|de|voor"
_END = (
    rf"{_EDGES}(?:{_BESIDE}|and|or|but|then|in|at|with|by|from|please|now|today|again|here|so|when|which|that|because"
    rf"|as|into|via){_EDGES}(?!\S)"
)
"""A word that ends a secret: what follows it is the request again."""
_STATES = (
    r"(?:not|no|never|too|still|being|asked|older|newer|only|also|always|already|wrong|missing|empty|invalid|incorrect"
    r"|weak|strong|hidden|shown|sent|set|stored|known|kept|broken|lost|late|case-sensitive|oublié|vergessen|hasta"
    r"|\w+(?:ed|é))"
)
_NO_STATE = (
    rf"(?:(?=[\"'`])|(?!{_EDGES}{_STATES}{_EDGES}(?: than\b| {_END}|$)|(?=\S{{1,5}}(?!\S)){_STATES}{_EDGES}(?!\S)))"
)
"""Not how a secret is: `the password is expired` announces none."""
_ABOUT = (
    r"(?:rotation|policy|strength|generator|prompt|field|column|page|file|files|reset|manager|length|rules?|hash\w*"
    r"|screen|warning|backup|guide|detection|devices?|techniques?|changes?|changer|entry|input|dialog|form|check\w*"
    r"|require\w*|protect\w*|expir\w*|recovery|storage|text|must|should|can|may|does|do|has|have|will|appears?|works?"
    rf"|fails?|is|are|was|were|oublié|vergessen|ändern|\w+ing){_EDGES}(?!\S)"
)
"""What may follow a secret's name where the secret itself is spoken of."""
_LINKS = "(?:is:?|are:?|was|ist|lautet|est|es|é|[:=-]|:=|[=-]>) "
_LINK = rf"(?:(?<=[:=]) (?:is )?|(?: (?:{_BESIDE})(?: \S+){{0,3}}?)? {_LINKS})"
"""What leads from a secret's name to the secret: `the PIN of the card is 1234`."""
_SCHEME = "(?:bearer|basic|token|digest|apikey|negotiate)"
_NO_WORD = r"(?=\S{4})(?=\S*(?:[\d@#$%^&+=~|\\]|\w[!*<>?]\w))"
"""Before what has a figure or a sign that words have not."""
_SENTENCE = rf"(?!{_END})\S+(?: (?!{_END})\S*[^\s,;!?.](?!\S)){{0,24}}(?: (?!{_END})\S+)?"
_FIGURED = r"(?=\S*\d(?:\S*\d|\S* \S*\d){2})\S*\d\S*(?: \S*\d\S*)*"
"""Words with figures, three at least."""
_GROUPS = "(?-i:{})".format(
    "|".join(
        rf"(?<![A-Za-z0-9]){kind}{{{n}}}(?: (?!{_END}){kind}{{{n}}}){{2,}}(?![A-Za-z0-9])"
        for n in range(3, 7)
        for kind in ("[A-Z0-9]", "[a-z0-9]")
    )
)
"""Groups of one length and case, three at least: `AKIA IOSF ODNN 7EXA MPLE`."""
_VALUE = rf"""(?:{_SCHEME}{_EDGES} \S+|{_NO_WORD}{_GROUPS}|[{{[(]*(?:"[^"]*"?|'[^']*'?|`[^`]*`?)|\S+)"""

_AT_WORD = r"(?<![^\W_])"
_RULES = tuple(
    re.compile(rule, re.IGNORECASE)
    for rule in (
        # A name with a sign: `password=...`, `"api_key": ...`, `Authorization: Bearer ...`
        rf"(?:{_AT_WORD}|(?<=[a-z])(?=passw|secret|token)){_KEY}[\"'`\])}}]*(?::=|=>|[:=]) ?(?P<secret>{_VALUE})",
        rf"{_AT_WORD}(?!(?:{_FIGURES}){_EDGES} \S+ (?!{_NO_WORD}))"
        rf"{_KEY}{_EDGES} (?:[:=-]|:=|[=-]>|is|was) {_NO_STATE}(?P<secret>{_VALUE})",
        # An option, or a name before what is no word: `--token ...`, `with password hunter2`
        rf"(?<!\S)--\S*?{_AT_WORD}{_KEY} (?P<secret>{_VALUE})",
        rf"{_AT_WORD}(?:{_NAMED}){_EDGES} {_NO_WORD}(?P<secret>{_VALUE})",
        r"(?<!\S)(?:-u|--user) (?P<secret>\S*:\S*)",
        r"\bmysql\S* (?:\S+ )*?(?P<secret>-p\S{3,})",
        rf"{_AT_WORD}bearer{_EDGES} (?!(?:tokens?|auth(?:entication|orization)?|of|and|or|scheme)\b)(?P<secret>\S+)",
        rf"{_AT_WORD}basic (?=\S*(?:(?-i:[a-z][A-Z])|\d|=))(?P<secret>(?:[a-z0-9+/]{{4}}){{2,}}=*)",
        # A name that a verb or a sign leads on from: `the passphrase of the vault is ...`, `PIN 7734`
        rf"{_AT_WORD}{_PHRASE}{_EDGES}{_LINK}{_NO_STATE}(?P<secret>{_NO_WORD}(?:{_GROUPS}|\S+)|{_SENTENCE})",
        rf"{_AT_WORD}{_PHRASE}{_EDGES} (?!{_LINKS}){_NO_STATE}(?!(?:(?!{_END})\S+ ){{0,3}}{_EDGES}{_ABOUT})"
        rf"(?P<secret>(?=\S+ (?!{_END})\S){_SENTENCE})",
        rf"{_AT_WORD}{_CODE}{_EDGES}{_LINK}(?P<secret>{_GROUPS})",
        rf"{_AT_WORD}{_CODE}{_EDGES}(?:{_LINK}| )(?P<secret>{_FIGURED})",
        # What is given as one: `use ... as the password`
        *(
            rf"(?<!\S){lead}(?P<secret>\S+) as (?:(?:the|a|my|your|new) )*(?:{_PHRASE}|{_CODE})\b"
            for lead in ("(?:use|enter|type|set) ", _NO_WORD)
        ),
    )
)
"""What words around a secret tell of it: the words that `secret` touches are dropped."""
_GROUPED = re.compile(
    rf"{_GROUPS}|(?<![^\W_])(?:(?:[A-Z0-9]{{3,6}}-){{2,}}[A-Z0-9]{{3,6}}|(?:[a-z0-9]{{4,6}}-){{2,}}[a-z0-9]{{4,6}})\b"
)
_FEWEST_OF_GROUPS = 12
"""Characters of a key in groups, at least."""


def without_secrets(text: str) -> str:
    """Return a request without its words that look like a secret, at most 500 characters of it.

    Dropped are keys, tokens and what else follows no language; what stands after `password:`, `token=`, `Bearer` and
    the like; mail and network addresses; of URLs that hold one of these all but the host; numbers of nine digits or
    more, in groups too. A password that is an ordinary word, and that nothing announces, can't be told from one.

    What is left is in Unicode's compatibility form, one space between words. The first 4,096 characters are read.
    """
    words = _words(text)
    ends = list(accumulate(len(word) + 1 for word in words))
    dropped: set[int] = set()
    for start, end in _secrets(" ".join(words)):
        dropped.update(range(bisect_right(ends, start), bisect_right(ends, end - 1) + 1))
    left = (without_secret_part(word) for place, word in enumerate(words) if place not in dropped)
    return _first(filter(None, left))


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield where secrets begin and end that no word tells by itself."""
    for rule in _RULES:
        yield from (found.span("secret") for found in rule.finditer(text))
    yield from (found.span() for found in _GROUPED.finditer(text) if _is_key(re.split("[ -]", found[0])))
    yield from long_numbers(text)


def _is_key(groups: list[str]) -> bool:
    """Return whether groups are those of one key: figures and letters among each other, in no pattern."""
    shapes = ["".join("9" if letter.isdigit() else "a" for letter in group) for group in groups]
    n_mixed = sum("9" in shape and "a" in shape for shape in shapes)
    n_wanted = 1 if all(group.upper() == group for group in groups) else (len(groups) + 1) // 2
    return len(set(shapes)) > 1 and n_mixed >= n_wanted and sum(map(len, groups)) >= _FEWEST_OF_GROUPS


def _words(text: str) -> list[str]:
    visible = "".join(map(_seen, unicodedata.normalize("NFKC", text[:_MOST_READ])))
    words = _KEY_BLOCK.sub(" ", unicodedata.normalize("NFKC", visible)).split()
    if len(text) > _MOST_READ:  # the last words may be no more than the beginning of a secret
        words = words[:-1]
        while words and any(map(str.isdigit, words[-1])):
            words.pop()  # groups of one number
    return words


def _seen(letter: str) -> str:
    """Return a character as it is read: every dash as one, nothing for what is not seen."""
    if letter.isspace() or letter.isascii():
        return letter if letter.isspace() or letter.isprintable() else ""
    if letter in _INVISIBLE or "\ufe00" <= letter <= "\ufe0f":
        return ""
    category = unicodedata.category(letter)
    return "-" if category == "Pd" else "" if category in ("Cf", "Cc", "Cs") else letter


def _first(words: Iterable[str]) -> str:
    taken: list[str] = []
    free = LONGEST_REQUEST
    for word in words:
        if len(word) > free:
            break
        taken.append(word)
        free -= len(word) + 1
    return " ".join(taken)
