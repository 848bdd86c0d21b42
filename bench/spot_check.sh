#!/bin/sh
# spot_check.sh PROGRAM: on every set of zones there is data for: no deadline is missed, nobody is below the
# optimum, and ours is within half a point of the better of greedy and longest-up. Without data: skipped (77).
set -eu
program=$1
SHOAL_DATA=${SHOAL_DATA:-$(cd "$(dirname "$0")/.." && pwd)/../shared/data}
export SHOAL_DATA
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT INT TERM
status=0
"$program" --hours 24 --changeovers 12 --ratios 1.5 --zones all --group 'availability' --starts 2000 --json >"$rows" || status=$?
[ $status = 0 ] || exit $status
jq -r '.rows | group_by([.group, .zones])[] | (map({key: .policy, value: .}) | from_entries) as $p
    | ([$p.greedy.cost_pct, $p.longest_up.cost_pct] | min) as $least
    | [.[0].zones, $p.shoal.cost_pct, $least, $p.clairvoyant.cost_pct,
       (if (map(.missed) | add) > 0 or $p.shoal.cost_pct > $least + 0.5
           or (map(.cost_pct) | min) < $p.clairvoyant.cost_pct - 0.001 then "wrong" else "good" end)] | @tsv' "$rows" |
    awk '{ printf "%-5s ours %6.2f, greedy or longest-up %6.2f, optimum %6.2f: %s\n", $5, $2, $3, $4, $1
           wrong += $5 == "wrong" }
         END { exit wrong > 0 || NR == 0 }'
