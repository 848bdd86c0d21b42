#!/bin/sh
# gavel_rows.sh: rows of out/bench.json from bench/gavel: mean completion time of our policies on the single
# stream of seed 0, against the published results of Gavel (least attained service, heterogeneity-aware;
# with space sharing against the same with space sharing). Where a load was not published: no row.
#   gavel_rows.sh --check    no rows: that FIFO on the fastest type is within 3 % of what was published, and
#                            ours below published Gavel
set -eu
here=$(cd "$(dirname "$0")" && pwd)
published=${SHOAL_DATA:-$here/../../shared/data}/gavel/published_continuous_seed0.csv
gavel=${GAVEL:-$here/gavel}
[ -f "$published" ] || {
    echo "no $published: skipped"
    exit 77
}
rows=$(mktemp)
ours=$(mktemp)
trap 'rm -f "$rows" "$ours"' EXIT INT TERM
if [ "${1:-}" = --check ]; then
    "$gavel" --stream single --seeds 0 --policy fifo_perf --rates 0.4 2.0 4.0 4.4 4.8 5.2 --json >"$rows"
    "$gavel" --stream single --seeds 0 --policy shoal shoal_sharing --rates 4.8 5.2 --json >"$ours"
else
    "$gavel" --stream single --seeds 0 --policy shoal shoal_sharing --json >"$rows"
fi
jq -r '.rows[] | [.policy, .jobs_per_hour, .jct_mean_h] | @csv' "$rows" "$ours" | tr -d '"' |
    awk -F, -v check="${1:-}" '
        NR == FNR {
            if ($1 == "continuous_jobs" && $3 == "avg_jct_hours") target[$5, $4 * 100] = $6
            next
        }
        BEGIN {
            peer["shoal"] = "max_min_fairness_perf"
            peer["shoal_sharing"] = "max_min_fairness_packed"
            peer["fifo_perf"] = "fifo_perf"
        }
        !((peer[$1], $2 * 100) in target) { next }
        {
            other = target[peer[$1], $2 * 100]
            if (check != "") {
                printf "%s %.1f jobs/h: %.2f h, published %.2f, %+.1f %%\n", $1, $2, $3, other, 100 * ($3 / other - 1)
                if ($1 == "fifo_perf" ? ($3 > 1.03 * other || $3 < 0.97 * other) : $3 > other) wrong++
            } else
                printf "{\"name\": \"gavel_jct_h.%s.%.1f\", \"value\": %.3f, \"unit\": \"h\", \"peer\": \"Gavel, published\", " \
                       "\"peer_value\": %.3f, \"ratio\": %.4f, \"better\": \"lower\", \"runs\": 1}\n", $1, $2, $3, other, $3 / other
        }
        END { exit wrong > 0 }' "$published" -
