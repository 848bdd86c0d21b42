#!/bin/sh
# compare.sh PROGRAM FILE: the digests that PROGRAM (the simulator) gives now against those in FILE.
set -eu
now=$(mktemp)
trap 'rm -f "$now"' EXIT INT TERM
"$1" --seeds 1..100 --digests >"$now" || { echo "a check failed: run shoal sim --seeds 1..100"; exit 1; }
cmp -s "$now" "$2" && exit 0
echo "the decisions of the core changed: see tests/golden/README.md. First differences (golden, now):"
diff "$2" "$now" | head -n 6
exit 1
