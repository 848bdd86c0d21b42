#!/bin/sh
# bench/fgd, bench/gavel, bench/sia, bench/spot: builds the program of that name when needed, then runs it.
# Without $SHOAL_DATA the data is looked for beside the repository.
set -eu
name=$(basename "$0")
root=$(cd "$(dirname "$0")/.." && pwd)
[ -f "$root/build/build.ninja" ] || meson setup "$root/build" "$root" --buildtype=release >/dev/null
told=$(ninja -C "$root/build" "bench/$name" 2>&1) || {
    echo "$told" >&2
    exit 1
}
SHOAL_DATA=${SHOAL_DATA:-$root/../shared/data}
export SHOAL_DATA
exec "$root/build/bench/$name" "$@"
