#!/bin/sh
# The core is pure: purity.sh LIBCORE.A fails if it needs anything from outside but memory copies and the
# assert handler, or if it has a writable byte of its own. `nm` sees what a review can miss.
set -eu
archive=${1:?usage: purity.sh LIBCORE.A}
# bcmp is what clang makes of a memcmp() that is only compared with 0.
allowed='memcpy memmove memset memcmp bcmp pool_assert_failed'

defined=$(nm --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort -u)
status=0
for symbol in $(nm -u "$archive" | awk '$1 == "U" { print $2 }' | sort -u); do
    case " $allowed _GLOBAL_OFFSET_TABLE_ " in
    *" $symbol "*) continue ;;
    esac
    if ! printf '%s\n' "$defined" | grep -qx "$symbol"; then
        echo "$archive: needs $symbol from outside; the core may use only: $allowed"
        status=1
    fi
done
writable=$(nm "$archive" | awk 'NF == 3 && $2 ~ /^[bBdDC]$/ { print $3 }')
if [ -n "$writable" ]; then
    echo "$archive: writable data, the core must keep all state in its block: $writable"
    status=1
fi
[ -n "$defined" ] || { echo "$archive: no symbols, is this the core?"; status=1; }
exit $status
