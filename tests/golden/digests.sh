#!/bin/sh
# The same worlds must come out the same, to the bit, whoever compiles them: builds core, codec and
# simulator with gcc and clang at -O0 and -O3 and compares the digests with tests/golden/sim-digests.txt.
#   tests/golden/digests.sh            compare
#   tests/golden/digests.sh --write    write the file anew (after a change of decisions, see README.md)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
golden=$root/tests/golden/sim-digests.txt
seeds=1..100
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

build() { # build COMPILER LEVEL: prints the program
    program=$work/sim-$1$2
    # The parsers of configuration files are not part of a run: only names and records are. testing.c and
    # audit.c belong to tests of the core.
    sources=$(find "$root/src/core" "$root/src/sim" "$root/src/base" -name '*.c' ! -name '*_test.c' \
        ! -name 'testing.c' ! -name 'audit.c')
    # shellcheck disable=SC2086
    "$1" "$2" -std=c17 -D_GNU_SOURCE -ffp-contract=off -I"$root/src" -o "$program" $sources \
        "$root/src/codec/names.c" "$root/src/codec/record.c" -lxxhash -lpthread
    echo "$program"
}

status=0
for compiler in gcc clang; do
    for level in -O0 -O3; do
        program=$(build "$compiler" "$level")
        "$program" --seeds "$seeds" --digests >"$work/digests" || status=1
        if [ "${1:-}" = --write ]; then
            cp "$work/digests" "$golden"
            echo "wrote $golden"
            exit "$status"
        fi
        if cmp -s "$work/digests" "$golden"; then
            echo "$compiler $level: the $(wc -l <"$golden") golden digests"
        else
            echo "$compiler $level: differs from $golden:"
            diff "$golden" "$work/digests" | head -6
            status=1
        fi
    done
done
exit "$status"
