#!/bin/sh
# spot_rows.sh: rows of out/bench.json from bench/spot: mean cost of ours (24 h jobs, 12 minutes of changeover,
# four deadlines, 200 starts) against longest-up, in percent of on-demand: all zones of a clock, regions, single zones.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$here/spot" --group 'availability' --hours 24 --changeovers 12 --starts 200 --policy longest_up shoal --json |
    jq -r '.rows | map(. + {count: (.zones | split("+") | length), clock: (.group | split(" ") | .[0])})
        | (group_by(.clock) | map((map(.count) | max) as $most
             | map(. + {name: "\(.clock).\(if .count == 1 then "single" elif .count == $most then "all" else "regions" end)"}))
           | add) | group_by(.name)[]
        | (map(select(.policy == "shoal").cost_pct) | add / length) as $ours
        | (map(select(.policy == "longest_up").cost_pct) | add / length) as $peer
        | {name: "spot_cost_pct.\(.[0].name)", value: $ours, unit: "%", peer: "longest-up, same starts", peer_value: $peer,
           ratio: ($ours / $peer), better: "lower", runs: (map(select(.policy == "shoal").runs) | add)} | tojson'
