#!/usr/bin/env bash
# dep: astral-sh/uv
# description: uv with uvx, which starts servers that are published on PyPI
# check: uvx

set -euo pipefail

command -v uvx >/dev/null && exit 0

if command -v brew >/dev/null; then
  brew install uv
elif command -v pipx >/dev/null; then
  pipx install uv
elif command -v python3 >/dev/null; then
  python3 -m pip install --user uv
else
  echo "neither brew, pipx nor python3 is here: install uv by hand" >&2
  exit 1
fi

# The user's own folder of programs may not be on the path of this process yet.
PATH="$HOME/.local/bin:$PATH" command -v uvx >/dev/null || {
  echo "uv is installed, and uvx is not on the PATH: add the folder that its installer named" >&2
  exit 1
}
