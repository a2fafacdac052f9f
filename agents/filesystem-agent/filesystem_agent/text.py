"""Bytes and text: is it text, in which encoding, with which line ends; nothing is garbled on the way."""

from __future__ import annotations

import codecs
from typing import Literal

from filesystem_agent.errors import refusal

N_SAMPLE_BYTES = 8192
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
WIDE = frozenset({"utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"})
ENCODINGS = WIDE | {
    *("utf-8", "ascii", "latin-1", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9", "iso8859-15"),
    *("cp437", "cp850", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("koi8-r", "koi8-u", "mac-roman", "shift_jis", "cp932", "euc_jp", "euc_kr", "big5", "gbk", "gb18030"),
}
BINARY_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\v\f\r\b\x1b"))
BINARY_CONTROL_SHARE = 0.01

LineEnding = Literal["lf", "crlf", "mixed", "none"]


def bom_encoding(sample: bytes) -> str | None:
    """Return the encoding a byte order mark announces."""
    return next((name for mark, name in BOMS if sample.startswith(mark)), None)


def is_binary(sample: bytes) -> bool:
    """Tell whether bytes are no text: NUL outside UTF-16/32, or neither UTF-8 nor free of control bytes."""
    if bom_encoding(sample):
        return False
    if b"\0" in sample:
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        n_controls = len(sample) - len(sample.translate(None, BINARY_CONTROLS))
        return n_controls > len(sample) * BINARY_CONTROL_SHARE
    return False


def choose_encoding(asked: str | None, sample: bytes) -> str:
    """Return the encoding to use: the one asked for, else a byte order mark's, else UTF-8.

    Raises:
        ToolError: the encoding asked for is not one of the supported text encodings.
    """
    if asked is None:
        return bom_encoding(sample) or "utf-8"
    name = asked.strip().lower()
    if name in ("utf-16", "utf-32"):
        mark = bom_encoding(sample)
        return mark if mark in WIDE and mark.startswith(name) else f"{name}-le"
    for candidate in (name, name.replace("_", "-"), name.replace("-", "_")):
        if candidate in ENCODINGS:
            return candidate
    if name in ("utf8", "latin1"):
        return {"utf8": "utf-8", "latin1": "latin-1"}[name]
    raise refusal("unknown text encoding", asked, f"one of: {', '.join(sorted(ENCODINGS))}")


def decode(data: bytes, encoding: str) -> str:
    """Return text that `encode` turns back into the same bytes; undecodable bytes become lone surrogates.

    Raises:
        ToolError: UTF-16 or UTF-32 data is malformed, for which there is no such way back.
    """
    try:
        return data.decode(encoding, "strict" if encoding in WIDE else "surrogateescape")
    except UnicodeDecodeError as error:
        raise refusal("file is not valid text in this encoding", encoding, "use as_base64") from error


def encode(text: str, encoding: str) -> bytes:
    """Return the bytes of `text`.

    Raises:
        ToolError: a character does not exist in the encoding.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        bad = text[error.start : error.start + 1]
        raise refusal(f"text has a character that {encoding} can't hold", bad, "choose another encoding") from error


def encode_back(text: str, encoding: str) -> bytes:
    """Return the bytes of text that came from `decode`, undecodable ones as they were."""
    return text.encode(encoding, "strict" if encoding in WIDE else "surrogateescape")


def printable(text: str) -> str:
    """Return decoded text for a result: each undecodable byte as `\\xNN`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def n_undecodable(text: str) -> int:
    """Return how many bytes `decode` could not decode."""
    return 0 if text.isascii() else sum("\udc80" <= char <= "\udcff" for char in text)


def line_ending(text: str) -> LineEnding:
    """Return how lines end; a lone carriage return is no line end."""
    n_lf = text.count("\n")
    n_crlf = text.count("\r\n")
    if n_lf == 0:
        return "none"
    return "lf" if n_crlf == 0 else "crlf" if n_crlf == n_lf else "mixed"


def split_lines(text: str) -> list[str]:
    """Return lines with their ends; only a line feed ends a line, so that numbers agree with other tools."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def without_mark(text: str) -> str:
    """Return text without the byte order mark it may start with."""
    return text.removeprefix("\ufeff")


def require_text(sample: bytes, shown: str) -> None:
    """Raise for bytes that are no text.

    Raises:
        ToolError: the sample looks binary.
    """
    if is_binary(sample):
        raise refusal("file is binary", shown, "use view_file with as_base64")
