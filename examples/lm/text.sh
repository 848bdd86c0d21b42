#!/bin/sh
# text.sh OUT: writes the King James text of the Debian packages bible-kjv and bible-kjv-text as plain
# text, one verse a line, without the references. The same packages give the same bytes.
set -eu

fail() {
    echo "text.sh: $1" >&2
    exit 1
}

[ $# -eq 1 ] || fail "give one file to write, for example: examples/lm/text.sh text.txt"
out=$1
command -v bible >/dev/null 2>&1 ||
    fail "the program \"bible\" is missing: install it with: apt-get install bible-kjv bible-kjv-text"

echo "text.sh: writing the text to $out" >&2
temporary=$out.tmp.$$
trap 'rm -f "$temporary"' EXIT
trap 'exit 1' INT TERM
# -f: one verse a line. The folder of the data file is named, since bible looks in the current folder first.
bible -f -p /usr/lib gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >"$temporary" ||
    fail "cannot write $out: is the folder there and the disk not full?"
bytes=$(wc -c <"$temporary")
[ "$bytes" -gt 4000000 ] ||
    fail "bible printed $bytes bytes instead of 4 MB: reinstall bible-kjv-text"
mv "$temporary" "$out"
echo "text.sh: $bytes bytes" >&2
