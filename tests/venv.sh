#!/bin/sh
# A Python environment for tests that need packages of the registry: made once, kept in out/venv/NAME.
#   tests/venv.sh NAME PACKAGE...    prints its python; exit 1: it cannot be made here
set -eu
name=$1
shift
dir=$(cd "$(dirname "$0")/.." && pwd)/out/venv/$name
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
if [ "$(cat "$dir/made" 2>/dev/null)" != "$*" ]; then
    { python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check "$@"; } >&2
    echo "$*" >"$dir/made"
fi
echo "$dir/bin/python"
