#!/bin/sh
# spot_check.sh PROGRAM: on every set of zones there is data for: no deadline is missed, nobody is below the
# optimum, and ours is within half a point of the better of greedy and longest-up. With --beyond on fewer starts: the
# same, ours is at most what it is without a warm agent or an owned node, loses no more than half a point by looking
# at prices or holding a second zone, and the rows without are the same to the byte. Without data: skipped (77).
set -eu
program=$1
SHOAL_DATA=${SHOAL_DATA:-$(cd "$(dirname "$0")/.." && pwd)/../shared/data}
export SHOAL_DATA
rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT INT TERM
replay() { # replay FILE OPTION...
    file=$1
    shift
    status=0
    "$program" --hours 24 --changeovers 12 --ratios 1.5 --zones all --group 'availability' --json "$@" >"$rows/$file" || status=$?
    [ $status = 0 ] || exit $status
}
judge() { # judge FILE
    jq -r '.rows | map(select(.variation != "several")) | group_by([.group, .zones, .variation])[] | (map({key: .policy, value: .}) | from_entries) as $p
        | ([$p.greedy.cost_pct, $p.longest_up.cost_pct] | min) as $least
        | [.[0].zones, $p.shoal.cost_pct, $least, $p.clairvoyant.cost_pct,
           (if (map(.missed) | add) > 0 or $p.shoal.cost_pct > $least + 0.5
               or (map(.cost_pct) | min) < $p.clairvoyant.cost_pct - 0.001 then "wrong" else "good" end),
           .[0].variation // ""] | @tsv' "$rows/$1" |
        awk '{ printf "%-5s ours %6.2f, greedy or longest-up %6.2f, optimum %6.2f: %s %s\n", $5, $2, $3, $4, $1, $6
               wrong += $5 == "wrong" }
             END { exit wrong > 0 || NR == 0 }'
}
replay plain --starts 2000
judge plain
replay beyond --starts 30 --beyond all
judge beyond
replay without --starts 30
jq -c '.rows[]' "$rows/without" >"$rows/a"
jq -c '.rows[] | select(.variation == "none") | del(.variation)' "$rows/beyond" >"$rows/b"
cmp "$rows/a" "$rows/b"
jq -e '.rows | (map(.missed) | add) == 0 and (map(select(.policy == "shoal")) | group_by([.group, .zones])
    | map((map({key: .variation, value: .cost_pct}) | from_entries)
        | .several <= .none + 0.5 and .warm <= .none and .owned < .none and (.prices == null or .prices <= .prices_unseen + 0.5))
    | all and length > 0)' "$rows/beyond" >/dev/null || {
    echo "wrong: a variation costs ours more than it may"
    exit 1
}
