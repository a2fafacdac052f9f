"""Removes what looks like a secret from requests, before they are written to a log.

A table of rules over the text (`_RULES`) recognises secrets by the words around them, such as `the password is ...`. A
single word is recognised by its shape, and by whether its letters follow one another as in a language.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from urllib.parse import unquote

from agent_utilities.runtime.issued_tokens import ISSUED

LONGEST_REQUEST = 500
"""Characters of a request that are kept."""

_KEY_BLOCK = re.compile(r"(?<!-)-{2,}\s*BEGIN\b.*?(?:(?<!-)-{2,}\s*END\b[^-]*-{2,}|\Z)", re.DOTALL)
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\u180f")

# -- names of secrets, words that lead to them, and their shapes -------------------------------------------------------

_EDGES = r"[\"'`()\[\]{}<>,.;:!?*-]*"
_PASSWORD = (
    r"pass[- ]?phrases?|passw(?:or)?ds?|passcodes?|pwd|passwort|kennwort|contraseña|senha|wachtwoord|пароль"
    r"|密码|密碼|パスワード|비밀번호"
)
_FIGURES = "pin|otp|cvv|cvc"
"""Names of secrets made of figures: `the pin is bent` holds none."""
_NAMED = (
    rf"{_PASSWORD}|secret|token|credentials?|(?:api|access|secret|private)[-_ ]?key|authorization|session[-_]?id|sid"
    rf"|(?:license|encryption|signing|auth)[-_]?key|ssn|iban|{_FIGURES}"
)
_KEY = rf"(?:{_NAMED}|key|pass|auth|cookie)"
"""Names of keys before a sign such as `=`; the last ones are ordinary words elsewhere."""
_PHRASE = (
    rf"(?:{_PASSWORD}|mnemonic|(?:seed|recovery|secret|wallet) (?:phrase|words)|(?:mot|mots) de passe|phrase secrète)"
)
"""Names of secrets made of words."""
_CODE = (
    r"(?:(?:verification|security|recovery|backup|one-time|2fa|mfa|access|login|log-in|sign-in|door|gate|alarm|unlock"
    r"|entry|confirmation|pin|sms|reset|safe) (?:codes?|keys?|combination)"
    r"|(?:licen[cs]e|product|activation|setup|serial) (?:key|number|code)"
    r"|serial|passcode|otp|pin|(?:app|application) password)"
)
"""Names of secrets made of figures or of groups."""
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
"""Excludes what describes a secret: `the password is expired` holds none."""
_ABOUT = (
    r"(?:rotation|policy|strength|generator|prompt|field|column|page|file|files|reset|manager|length|rules?|hash\w*"
    r"|screen|warning|backup|guide|detection|devices?|techniques?|changes?|changer|entry|input|dialog|form|check\w*"
    r"|require\w*|protect\w*|expir\w*|recovery|storage|text|must|should|can|may|does|do|has|have|will|appears?|works?"
    rf"|fails?|is|are|was|were|oublié|vergessen|ändern|\w+ing){_EDGES}(?!\S)"
)
"""Words after a secret's name where the text is about secrets and holds none."""
_LINKS = "(?:is:?|are:?|was|ist|lautet|est|es|é|[:=-]|:=|[=-]>) "
_LINK = rf"(?:(?<=[:=]) (?:is )?|(?: (?:{_BESIDE})(?: \S+){{0,3}}?)? {_LINKS})"
"""Words between a secret's name and the secret: `the PIN of the card is 1234`."""
_SCHEME = "(?:bearer|basic|token|digest|apikey|negotiate)"
_NO_WORD = r"(?=\S{4})(?=\S*(?:[\d@#$%^&+=~|\\]|\w[!*<>?]\w))"
"""Looks ahead for a figure, or for a sign that ordinary words don't have."""
_SENTENCE = rf"(?!{_END})\S+(?: (?!{_END})\S*[^\s,;!?.](?!\S)){{0,24}}(?: (?!{_END})\S+)?"
_FIGURED = r"(?=\S*\d(?:\S*\d|\S* \S*\d){2})\S*\d\S*(?: \S*\d\S*)*"
"""Words with figures, three at least."""
_GROUPS = "(?-i:{})".format(
    "|".join(
        rf"(?<![A-Za-z0-9]){kind}{{{n}}}(?: {no_end}{kind}{{{n}}}){{2,}}(?![A-Za-z0-9])"
        for n in range(3, 7)
        for kind, no_end in (("[A-Z0-9]", ""), ("[a-z0-9]", rf"(?!{_END})"))
    )
)
"""Groups of one length and case, three at least: `AKIA IOSF ODNN 7EXA MPLE`."""
_VALUE = rf"""(?:{_SCHEME}{_EDGES} \S+|{_NO_WORD}{_GROUPS}|[{{[(]*(?:"[^"]*"?|'[^']*'?|`[^`]*`?)|\S+)"""

_AT_WORD = r"(?<![^\W_])"
_RULES = (
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
    # A word named as one: `use ... as the password`
    *(
        rf"(?<!\S){lead}(?P<secret>\S+) as (?:(?:the|a|my|your|new) )*(?:{_PHRASE}|{_CODE})\b"
        for lead in ("(?:use|enter|type|set) ", _NO_WORD)
    ),
)
"""Patterns of secrets with the words around them; words that the group `secret` touches are dropped."""
_GROUPED = (
    rf"{_GROUPS}|(?<![^\W_])(?:(?:[A-Z0-9]{{3,6}}-){{2,}}[A-Z0-9]{{3,6}}|(?:[a-z0-9]{{4,6}}-){{2,}}[a-z0-9]{{4,6}})\b"
)
_FEWEST_OF_GROUPS = 12
"""Characters of a key in groups, at least."""

# -- single words ------------------------------------------------------------------------------------------------------

_LONGEST_WORD = 200
"""Characters of the longest word that is taken for one."""

_FEWEST_DIGITS = 9
"""From here a number is a phone's, a card's, an account's."""
_MOST_BESIDE_YEARS = 5
"""Digits that may stand among years: `v2 2024 2025 10-15`."""
_ADDRESS = re.compile(r"[^\s@]@[^\W\d]|://[^/\s@]*@")
"""Mail addresses, and URLs that a user's name or password stands in."""
_QUERY_SECRET = re.compile(r"[?&#;](?:code|state|sig|key|jwt|sid|pass|pwd|auth|x-amz-[a-z-]+)=", re.IGNORECASE)
_IPV4 = re.compile(r"(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d)")
_IPV6 = re.compile(
    r"(?<![A-Za-z0-9:])(?:(?:[A-Fa-f0-9]{1,4}:){7}[A-Fa-f0-9]{1,4}|(?=[A-Fa-f0-9:]*::)[A-Fa-f0-9:]{3,39})"
    r"(?:%\w+)?(?![A-Za-z0-9:])"
)
_MAC = re.compile(r"(?<![A-Fa-f0-9])[A-Fa-f0-9]{2}(?:[:-][A-Fa-f0-9]{2}){5}(?![A-Fa-f0-9])")
_SHAPES = (ISSUED, _ADDRESS, _QUERY_SECRET, _IPV4, _IPV6, _MAC)
_ORDINARY_DIGITS = re.compile(
    r"""(?<![\d.]) (?: (?:19|20)\d\d([-/.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])   # a date, its year first
    | (?:0?[1-9]|[12]\d|3[01])([-/.])(?:0?[1-9]|[12]\d|3[01])\2(?:19|20)\d\d             # or last
    | T?\d\d?:\d\d(?::\d\d(?:\.\d+)?)?                                                   # a time
    | \d\d[01]\d\.\d{5} ) (?![\d.]*\d)                                                   # a paper on arXiv""",
    re.VERBOSE,
)
_DIGITS = re.compile(r"\d(?:[-._/()+:*# ]{0,3}\d)*")
_GROUP = re.compile(r"\d+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_HEX = re.compile(r"[A-Fa-f0-9]{16}|[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{8}")
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{10,}")
_UNBROKEN_RUN = re.compile(r"[A-Za-z0-9]{10,}")
_HOST = re.compile(r"https?://[A-Za-z][A-Za-z0-9.-]*(?=[/?#])", re.IGNORECASE)
_ASCII_PART = re.compile(r"([!-~]+)")
_PAIRS = frozenset(
    row[0] + second
    for row in (
        "abcdgiklmnprstuvyz baeilorsuy cacehiklorstu dadeiorsu eabcdefgilmnopqrstvwxy faefiortu gaeghinorsu haeiotu "
        "iabcdefglmnoprstvz je keins ladeilopstuy maeimopuy nacdefgilnostvy oabcdfgiklmnoprstuvw padehiloprstu qlu "
        "racdegiklmnorstuvy sacehikopqstuy tacehilorstuy uabcdegilmnprst vaei waehiors xpt ynops zeu"
    ).split()
    for second in row[1:]
)
"""The letters that follow one another in 97 of 100 places of the names and texts of tools; by chance 37 would."""


def without_secrets(text: str, most: int = 4_096) -> str:
    """Return a request without its words that look like a secret, at most 500 characters of it.

    Dropped are keys, tokens and what else follows no language; what stands after `password:`, `token=`, `Bearer` and
    the like; mail and network addresses; of URLs that hold one of these all but the host; numbers of nine digits or
    more, in groups too. A password that is an ordinary word, and that nothing announces, is not recognised.

    What is left is in Unicode's compatibility form, one space between words.

    Args:
        text: the request.
        most: the characters of it that are read, in whatever form: whoever wrote it has no more work done than that.
    """
    words = _words(text, most)
    ends = list(accumulate(len(word) + 1 for word in words))
    dropped: set[int] = set()
    for start, end in _secrets(" ".join(words)):
        dropped.update(range(bisect_right(ends, start), bisect_right(ends, end - 1) + 1))
    left = (_without_secret_part(word) for place, word in enumerate(words) if place not in dropped)
    return _first(filter(None, left))


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets that only the words around them, or several words together, show."""
    # Compiled with the first request that is written, in the log's thread: that takes some 80 ms.
    for rule in _RULES:
        yield from (match.span("secret") for match in re.finditer(rule, text, re.IGNORECASE))
    yield from (match.span() for match in re.finditer(_GROUPED, text) if _is_key(re.split("[ -]", match[0])))
    yield from _long_numbers(text)


def _is_key(groups: list[str]) -> bool:
    """Return whether groups form one key: figures and letters mixed, without a pattern."""
    shapes = ["".join("9" if letter.isdigit() else "a" for letter in group) for group in groups]
    n_mixed = sum("9" in shape and "a" in shape for shape in shapes)
    n_wanted = 1 if all(group.upper() == group for group in groups) else (len(groups) + 1) // 2
    return len(set(shapes)) > 1 and n_mixed >= n_wanted and sum(map(len, groups)) >= _FEWEST_OF_GROUPS


def _words(text: str, most: int) -> list[str]:
    read = unicodedata.normalize("NFKC", text[:most])
    visible = unicodedata.normalize("NFKC", "".join(map(_seen, read[:most])))
    words = _KEY_BLOCK.sub(" ", visible).split()
    if max(len(text), len(read)) > most:  # the last words may be no more than the beginning of a secret
        words = words[:-1]
        while words and (words[-1].isupper() or any(map(str.isdigit, words[-1]))):
            words.pop()  # groups of one number or key
    return words


def _seen(letter: str) -> str:
    """Return a character as readers see it: one dash for every kind, nothing for invisible ones."""
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


def _looks_secret(word: str) -> bool:
    """Return whether a word looks like a key, a token, an address, or a number that is somebody's."""
    if len(word) > _LONGEST_WORD:
        return True
    spelt = _without_marks(word)
    forms = {spelt, unquote(spelt)} if "%" in spelt else {spelt}
    return any(
        any(shape.search(form) for shape in _SHAPES) or any(_long_numbers(form)) or _is_random(form) for form in forms
    )


def _without_secret_part(word: str) -> str:
    """Return what of a word does not look like a secret: all, nothing, a URL's host, or what is not ASCII around one.

    Languages that put no space between words would lose a sentence for each secret in it.
    """
    if not _looks_secret(word):
        return word
    if (url := _HOST.match(word)) and "@" not in word:
        return "" if _looks_secret(url[0]) else url[0]
    if not any(unicodedata.category(letter) == "Lo" for letter in word):
        return ""
    rest = "".join(part for part in _ASCII_PART.split(word) if part and not _looks_secret(part))
    return "" if _looks_secret(rest) else rest


def _long_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield where numbers of nine digits or more begin and end, in groups too; dates, times and years are none."""
    rest = _ORDINARY_DIGITS.sub(lambda match: "~" * len(match[0]), text)
    for number in _DIGITS.finditer(rest):
        groups = _GROUP.findall(number[0])
        n_digits = sum(map(len, groups))
        n_of_years = 4 * sum(_YEAR.fullmatch(group) is not None for group in groups)
        if n_digits >= _FEWEST_DIGITS and n_digits - n_of_years > _MOST_BESIDE_YEARS:
            yield number.span()


def _without_marks(word: str) -> str:
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if unicodedata.category(letter)[0] != "M")


def _is_random(word: str) -> bool:
    """Return whether letters and digits follow one another as chance has them, and not as in a language."""
    if _HEX.search(word):
        return True
    for run in _UNBROKEN_RUN.findall(word):
        n_kinds = any(map(str.isupper, run)) + any(map(str.islower, run)) + any(map(str.isdigit, run))
        if len(run) < 16 and n_kinds == 3 and _strangeness(run) > 0.7:
            return True
    return any(
        len(part) >= fewest and _strangeness(part) > most
        for runs, fewest, most in ((_UNBROKEN_RUN, 16, 0.4), (_RUN, 20, 0.5))
        for run in runs.findall(word)
        for part in _windows(run)
    )


def _windows(run: str) -> Iterator[str]:
    """Yield a run's parts of 20 characters, so that words around a key do not hide it."""
    yield run
    for start in range(0, max(0, len(run) - 20) + 1, 5):
        yield run[start : start + 20]


def _strangeness(run: str) -> float:
    """Return the share of a run's neighbours that are strangers: rare pairs of letters, a letter beside a digit."""
    n_pairs = n_strange = 0
    for first, second in pairwise(run):
        if not (first.isalnum() and second.isalnum()) or (first.islower() and second.isupper()):
            continue
        n_pairs += 1
        if first.isdigit() and second.isdigit():
            continue
        n_strange += (first + second).lower() not in _PAIRS
    return n_strange / n_pairs if n_pairs >= 6 else 0.0
