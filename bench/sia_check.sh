#!/bin/sh
# sia_check.sh PROGRAM: the simulator of the Sia protocol against what was published (data/sia/published.csv:
# Gavel on the saturn workloads) within 10 %, and Shoal against Sia in the same simulator; and the
# pool ends every job of these workloads.
set -eu
program=$1
SHOAL_DATA=${SHOAL_DATA:-$(cd "$(dirname "$0")/.." && pwd)/../shared/data}
export SHOAL_DATA
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT INT TERM
status=0
"$program" --trace saturn --policy gavel sia shoal shoal_pool >"$rows" || status=$?
[ $status = 0 ] || exit $status # 77: no data
awk -F, '
    NR == FNR { if ($1 == "saturn") published[$5] = $6; next }
    FNR == 1 { n = split($0, head, / +/); for (i = 1; i <= n; i++) at[head[i]] = i; next }
    { split($0, cell, / +/); jct[cell[2]] = cell[at["jct_mean_h"]]; p99[cell[2]] = cell[at["jct_p99_h"]]
      makespan[cell[2]] = cell[at["makespan_h"]]; gpu[cell[2]] = cell[at["gpu_h_per_job"]] }
    function near(what, ours, theirs) {
        printf "%-22s %8.3f published %8.3f %+6.1f %%\n", what, ours, theirs, 100 * (ours / theirs - 1)
        if (ours > 1.1 * theirs || ours < 0.9 * theirs) wrong = 1
    }
    END {
        near("gavel jct_mean_h", jct["gavel"], published["avg_jct"])
        near("gavel jct_p99_h", p99["gavel"], published["p99_jct"])
        near("gavel makespan_h", makespan["gavel"], published["avg_makespan"])
        near("gavel gpu_h_per_job", gpu["gavel"], published["gpu_hours_mean_per_job"])
        near("sia jct_mean_h", jct["sia"], 0.7) # the paper, one digit
        printf "shoal / sia            %8.3f\n", jct["shoal"] / jct["sia"]
        if (jct["shoal"] >= jct["sia"]) wrong = 1
        printf "shoal_pool / shoal     %8.3f\n", jct["shoal_pool"] / jct["shoal"]
        if (jct["shoal_pool"] <= 0) wrong = 1
        exit wrong
    }' "$SHOAL_DATA/sia/published.csv" "$rows"
