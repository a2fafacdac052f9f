#!/usr/bin/env bash
# dep: nodejs/node
# description: Node.js with npx, which starts servers that are published on npm
# check: npx

set -euo pipefail

command -v npx >/dev/null && exit 0

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

if command -v brew >/dev/null; then
  brew install node
elif command -v apt-get >/dev/null; then
  as_root apt-get update && as_root apt-get install -y nodejs npm
elif command -v dnf >/dev/null; then
  as_root dnf install -y nodejs npm
elif command -v apk >/dev/null; then
  as_root apk add nodejs npm
else
  echo "no package manager here that is known to have Node.js: install version 20 or newer by hand" >&2
  exit 1
fi

command -v npx >/dev/null
