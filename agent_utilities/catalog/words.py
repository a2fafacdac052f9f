"""Tokenizing of text in any script, stop words, and removal of a request's negated clauses.

Rankers, plain matches and the graph share these rules. Languages are known by their function words alone: a library
that segments every script well (ICU) weighs more than all else that is installed.
"""

# ruff: noqa: RUF001 - letters of other scripts are meant

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator
from functools import cache

from agent_utilities.catalog.document import split_identifier

PARTICLES = frozenset("on off in out up down over under before after above below back again all".split())
"""English stop words that distinguish `turn on` from `turn off`: they break ties."""
_ENGLISH = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further get give had has have having he help her here
    hers him his how i if in into is it its itself just know let lets like ll looking make may me might more most my
    need no nor not now of off on once only or other our out over own please provide re s same she should show so some
    such t tell than that the their them then there these they this those through to too under until up us use using
    ve very want was we were what when where which while who whom why will with would you your find
    """.split()
)
_OTHERS = frozenset(
    """
    aber als auch auf aus bei bitte das dass dem den der des die dies diese ein eine einem einen einer es gib hat ich
    ist kann kannst man mein meine meinen mich mir mit nach nicht oder sie sind um und uns vom von vor was welche wie
    wir zu zum zur au aux avec ce ces cette dans de du elle en est et il ils je la le les leur ma mes moi mon nous ou
    par pas pour quel quelle quels que qui sa ses son sont sur tu un une veux vous al como con del el esta este esto hay
    las lo los mi mis para por quiero se su sus una unos y che chi ci dei della delle di e gli ho ka nel per quali
    questo sono voglio ao aos as com da do dos eu mais meu meus minha na nas no nos o os pelo quais quero seu sua uma
    van het een mij mijn op naar voor met ik wat welke zijn att av det ett jag med mig min mitt och som till vad ska ja
    nie od w z za moje jak jest bir bu ile mu ve ne bana benim aku anda apa dan dari ini itu ke pada saya tolong untuk
    yang ada adalah cho trong
    """.split()
)
"""Function words of other languages, those in ASCII letters."""
_FOREIGN = _OTHERS - _ENGLISH
_SINGLE = frozenset(string.ascii_lowercase + string.digits)
STOPWORDS = _ENGLISH | _SINGLE
"""Stop words of an English text; they are words in others: `in` is Vietnamese for to print."""
OTHER_STOPWORDS = _OTHERS | _SINGLE
_JOINERS = "\u200c\u200d"
_WORD = re.compile(r"[^\W_]+")
_PIECE = re.compile(
    r"(?P<unspaced>[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f\u3040-\u30ff\u3400-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff\u3099\u309a]+)|(?P<hangul>[\uac00-\ud7a3]+)"
)
# They join the next consonant to the one before, beneath which it is written.
_STACKERS = "\u1039\u17d2"


@cache
def _marked() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a word and of a letter with their marks, such as Hindi's vowels and Arabic's points."""
    ranges = (range(0x300, 0x3100), range(0xA600, 0xAC00), range(0xFB00, 0x1E950), range(0xE0100, 0xE01F0))
    marks = "".join(chr(code) for codes in ranges for code in codes if unicodedata.category(chr(code))[0] == "M")
    word = rf"[^\W_](?:[^\W_]|[{marks}{_JOINERS}])*"
    return re.compile(word), re.compile(rf".(?:[{_STACKERS}].|[{marks}{_JOINERS}])*")


def tokens(text: str) -> list[str]:
    """Split a text into runs of letters and digits, with their marks."""
    return _WORD.findall(text) if text.isascii() else _marked()[0].findall(unicodedata.normalize("NFKC", text))


def words(text: str) -> list[str]:
    """Split a text into folded words; identifiers into their parts, unspaced scripts into pairs of letters.

    Korean words are whole and in pairs: their nouns carry particles.

    >>> words("List EventHubs, 查看日志")
    ['list', 'event', 'hubs', '查看', '看日', '日志']
    """
    return [word for token in tokens(text) for word in parts(token)]


def parts(token: str) -> list[str]:
    """Split a run of letters and digits into folded words."""
    if not token.isascii():
        return list(_in_pieces(token.casefold()))
    if token.islower() or token.isdecimal():
        return [token]
    split = split_identifier(token).lower().split()
    return [token.lower()] if len(split) == len(token) else split  # aLtErNaTiNg case is one word


def _in_pieces(word: str) -> Iterator[str]:
    """Yield runs of unspaced script as pairs of letters with their marks, Hangul also whole, and the rest."""
    end = 0
    for run in _PIECE.finditer(word):
        yield from filter(None, (word[end : run.start()],))
        end = run.end()
        letters = _marked()[1].findall(run.group())
        if run["hangul"] and len(letters) > 2:
            yield run.group()
        yield from ("".join(letters[start : start + 2]) for start in range(max(1, len(letters) - 1)))
    yield from filter(None, (word[end:],))


_POINTS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u093c\u09bc\u0a3c\u200c\u200d]"
)
_SAME_LETTERS = str.maketrans("đłøıكيىة", "dloiکییه")


def bare(word: str) -> str:
    """Return a word without the marks that people often don't type: accents, points, joiners.

    >>> bare("Übermaß".casefold()), bare("facturación")
    ('ubermass', 'facturacion')
    """
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", _POINTS.sub("", unicodedata.normalize("NFD", word))).translate(_SAME_LETTERS)


_N_SAMPLE = 300
"""The characters of a text by which its language is detected."""


def stopwords_of(text: str) -> frozenset[str]:
    """Return the stop words of a text's language: those of English, or those of all others.

    A text is English where it has at least as many English function words as words that can't be English: function
    words of other languages, and words with letters beyond ASCII. So a text of neither is English.
    """
    sample = set(tokens(text[:_N_SAMPLE].casefold()))
    if text.isascii() and _FOREIGN.isdisjoint(sample):
        return STOPWORDS
    n_others = sum(word in _FOREIGN or not word.isascii() for word in sample)
    return STOPWORDS if len(_ENGLISH & sample) >= n_others else OTHER_STOPWORDS


_EVERYTHING = re.compile(
    r"\W*\*\W*|(?:please )?(?:(?:show|list|tell)(?: me)?|what|which)(?: (?:all|the|your|my|available|kind of))*"
    r" tools?(?: (?:are|is|there|do|you|i|we|have|got|can|use|available|exist))*\W*"
    r"|welche (?:tools|werkzeuge) (?:gibt es|hast du)\W*|quels (?:sont (?:les|tes) )?outils[\w' -]{0,30}\W*"
    r"|(?:qu[eé] herramientas|quais ferramentas|quali strumenti)[\w ]{0,30}\W*|какие (?:есть )?инструменты(?: есть)?\W*"
    r"|有(?:什么|哪些)工具\W*|(?:どんな|何の)?ツール(?:一覧|は何がありますか)\W*|(?:어떤 )?도구(?: 목록|가 있나요)\W*",
    re.IGNORECASE,
)


def asks_for_everything(text: str) -> bool:
    """Whether a request is for all tools: `*`, or `what tools are there`."""
    return len(text) <= _N_SAMPLE and _EVERYTHING.fullmatch(text.strip()) is not None


def is_one_letter(text: str) -> bool:
    """Whether a request is one letter or digit, which nearly every text has; a Chinese one is a word."""
    letter = text.strip()
    return len(letter) == 1 and letter.isalnum() and _PIECE.match(letter) is None


_CLAUSE = re.compile(
    r"(?<=[,;:.!?\n])\s+|[\u3001\u3002\uff0c\uff01\uff1b\uff1f\u060c\u0964]|(?<!\s)\s+[-\u2013\u2014]\s+"
    r"|(?<=말고)\s+|(?<=しないで)(?!ください)|(?<!\s)\s+(?=(?:but|and only|just|only|rather"
    r"|sondern|aber|nur|mais|seulement|sino|pero|solo|s\u00f3lo|mas|ma|maar|alleen|но|а|только)\b)",
    re.IGNORECASE,
)
_LEAD = (
    r"(?:(?:please|but|and|so|just|also|ok|i|we|you|should|must|may|bitte|aber|und|mais|et|por favor"
    r"|pero|y|mas|e|per favore|ma|пожалуйста|но|и|请|但|但是)\W*){0,6}"
)
_NEGATED = re.compile(
    rf"\s*{_LEAD}(?:"
    r"(?:(?:never|(?:do not|don['\u2019]?t)(?: ever)?)\s+(?!forget|hesitate|worry|mind|fail|miss|only|just"
    r"|know|think|have|need|care|see|understand|wait|stop|be\b)|not\s+to\s+(?!exceed)|avoid\s+\w+ing\b)"
    r"|(?:\w+\s+)?(?:niemals|nie)\b|(?:nicht|keine?n?)\s+(?!vergessen|nur|mehr|l\u00e4nger|sp\u00e4ter|sorge|ahnung)"
    r"|(?:ne\s+|n['\u2019])(?!oublie|h\u00e9site)(?=.*\b(?:pas|jamais|rien)\b)"
    r"|(?:nunca|jam\u00e1s)\s|no\s+(?:env[ií]|borr|cambi|hag|hac|toqu|ejecut|escrib|compart|(?:mand|elimin|us|cre)(?:ar|es)\b"
    r"|(?:publi|modifi)(?:car|ques)\b)"
    r"|(?:n\u00e3o|nunca)\s+(?!esque|se esque|mais|s\u00f3|apenas)|(?:non|mai)\s+(?!dimentic|pi\u00f9|solo|so\b)"
    r"|(?:niet|nooit|geen)\s+(?!vergeten|meer|langer|alleen)"
    r"|(?:не|никогда\s+не)\s+(?!забу|более|больше|только|позднее|знаю)"
    r"|(?:不要|别|勿|切勿|禁止)(?!忘|超过|只|再等)).*"
    r"|.*(?:しないで|するな|せずに|지\s?(?<!잊지)(?<!잊지 )(?:말|마)).*",
    re.IGNORECASE | re.DOTALL,
)
"""A clause that says what is not wanted. A description (`it does not start`) begins with its subject, and is kept."""
_WITHOUT = re.compile(
    r"\b(?:without(?:\s+ever)?\s+\w+ing\b|(?:instead of|rather than)\s|ohne\s+(?:\w+\s+){0,4}zu\b"
    r"|sans\s+\w+(?:er|ir|re)\b|sin\s+\w+(?:ar|er|ir)\b|sem\s+\w+(?:ar|er|ir)\b|senza\s+\w+(?:are|ere|ire)\b).*",
    re.IGNORECASE | re.DOTALL,
)
_NEGATORS = frozenset(
    "don dont not never avoid without instead rather nie niemals nicht kein keine keinen ohne ne n sans nunca no sin "
    "sem non mai senza niet nooit geen".split()
)
"""Every ASCII clause that `_NEGATED` or `_WITHOUT` matches has one of these words."""
_LIMITS = re.compile(r"\b(?:more|less|fewer|later|longer)\s+than\b|\b(?:until|unless)\b", re.IGNORECASE)


def without_negated(text: str) -> str:
    """Return a request without its negated clauses.

    >>> without_negated("never send mail, only read"), without_negated("don't forget to send it")
    ('only read', "don't forget to send it")
    """
    if text.isascii() and _NEGATORS.isdisjoint(_WORD.findall(text.lower())):
        return text
    clauses = [clause for clause in _CLAUSE.split(text) if clause]
    kept = [_WITHOUT.sub("", clause) for clause in clauses if _LIMITS.search(clause) or not _NEGATED.fullmatch(clause)]
    return text if kept == clauses else " ".join(kept)
