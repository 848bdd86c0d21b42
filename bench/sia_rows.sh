#!/bin/sh
# sia_rows.sh: rows of out/bench.json from bench/sia: mean completion time of ours against Sia (elastic jobs)
# and Gavel (rigid jobs) in the same simulator, and the longest mean round against its budget.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
row() { # row NAME OURS PEER: two policies of one file of rows
    jq -r --arg name "$1" --arg ours "$2" --arg peer "$3" '
        .rows as $rows | [$rows[] | {key: "\(.trace) \(.policy)", value: .}] | from_entries as $all
        | [$rows[] | .trace] | unique | .[] as $t | $all["\($t) \($ours)"] as $a | $all["\($t) \($peer)"] as $b
        | {name: "\($name).\($t)", value: $a.jct_mean_h, unit: "h", peer: ($peer + ", same simulator"), peer_value: $b.jct_mean_h,
           ratio: ($a.jct_mean_h / $b.jct_mean_h), better: "lower", runs: $a.workloads} | tojson'
}
round() { # round NAME BUDGET_US: the slowest mean of ours
    jq -r --arg name "$1" --argjson budget "$2" '[.rows[] | select(.policy | startswith("shoal"))] | max_by(.round_us)
        | {name: $name, value: .round_us, unit: "us", peer: "budget", peer_value: $budget, ratio: (.round_us / $budget),
           better: "lower", runs: 1} | tojson'
}
rows=$("$here/sia" --json --policy shoal sia shoal_rigid gavel)
echo "$rows" | row sia_jct_h shoal sia
echo "$rows" | row sia_rigid_jct_h shoal_rigid gavel
echo "$rows" | round sia_round_us.64 2000
"$here/sia" --json --policy shoal shoal_rigid --trace rate_50 --seeds 1 --copies 32 | round sia_round_us.2048 20000
