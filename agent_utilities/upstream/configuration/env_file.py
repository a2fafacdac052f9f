"""A file of environment variables beside a config, as `envFile` names one."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from agent_utilities.upstream.configuration.config_text import read_bytes, refuse


def read_env_file(path: Path) -> Mapping[str, str]:
    """Return the variables of a file of `NAME=value` lines; quotes, `export` and comments are as in any `.env`.

    Values are taken as they stand: `$NAME` in one is no variable, so that a password may have a dollar.

    Raises:
        ConfigError: there is no such file, or it can't be read.
    """
    from dotenv import dotenv_values

    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(f"not UTF-8 at byte {error.start}", path, "save it as UTF-8")
    if "\0" in text:
        refuse("has a NUL character", path, "name a text file")
    return {name: value or "" for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()}
