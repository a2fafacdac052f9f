"""Tokenizers that count what a model is shown, where one is installed; else the stated estimate, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_utilities.catalog.tokens import ESTIMATE, n_tokens, text_for_models
from agent_utilities.errors import InputError

_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """What counts tokens.

    Args:
        name: what it is, in words.
        count: returns how many tokens a tool's definition or a text takes.
    """

    name: str
    count: Callable[[Mapping[str, Any] | str], int]


def tokenizer_of(model: str) -> Tokenizer:
    """Return the tokenizer of a model, or the estimate, whose name then says why it is no better.

    Args:
        model: a model's name, which `tiktoken` may know, or a `tokenizer.json`, or the folder that it is in.

    Raises:
        InputError: the file is not there, or can't be read as a tokenizer.
    """
    path = Path(model).expanduser()
    if path.suffix == ".json" or path.is_dir():
        return _from_file(path / _FILE if path.is_dir() else path)
    return _from_tiktoken(model)


def _from_file(path: Path) -> Tokenizer:
    if not path.is_file():
        raise InputError("no such file", str(path), "option --model", f"give a {_FILE}, or a model's name")
    try:
        from tokenizers import Tokenizer as Loaded
    except ModuleNotFoundError:
        return _estimate("tokenizers is not installed: pip install tokenizers")
    try:
        loaded = Loaded.from_file(str(path))
    except Exception as error:  # it raises no narrower one
        reason = " ".join(str(error).split())
        raise InputError(f"not a tokenizer ({reason})", str(path), "option --model", f"give a {_FILE}") from None
    return _counting(f"tokenizers, {path}", lambda text: len(loaded.encode(text, add_special_tokens=False).ids))


def _from_tiktoken(model: str) -> Tokenizer:
    try:
        tiktoken = import_module("tiktoken")
    except ModuleNotFoundError:
        return _estimate("tiktoken is not installed: pip install tiktoken")
    try:
        encoding = tiktoken.encoding_for_model(model)
    except KeyError:
        return _estimate(f"tiktoken knows no model {model!r}")
    except Exception as error:  # it downloads the vocabulary, which may fail in any way
        return _estimate(f"tiktoken has no vocabulary for {model!r}: {type(error).__name__}")
    return _counting(f"tiktoken, {encoding.name}", lambda text: len(encoding.encode_ordinary(text)))


def _counting(name: str, count: Callable[[str], int]) -> Tokenizer:
    """Return a tokenizer that is given text which UTF-8 can hold: half a surrogate pair is counted as `?`."""
    return Tokenizer(name, lambda shown: count(text_for_models(shown).encode("utf-8", "replace").decode()))


def _estimate(reason: str) -> Tokenizer:
    return Tokenizer(f"{ESTIMATE} ({reason})", n_tokens)
