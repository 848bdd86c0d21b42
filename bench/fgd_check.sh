#!/bin/sh
# fgd_check.sh: FGD's published results, reproduced and compared with those of our policy.
# Prints each difference to targets.csv (mean of ten seeds there) and fails when FGD, BestFit or Random is
# further than 0.5 points off. Needs jq, and $SHOAL_DATA; without the data it is skipped (77).
#   bench/fgd_check.sh [OPTION of bench/fgd...]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
targets=${SHOAL_DATA:-$here/../../shared/data}/openb_fgd/targets.csv
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT INT TERM
"$here/fgd" --at 95 100 110 130 --json "$@" >"$rows"
jq -r '.rows[] | [.variant, .policy, .arrived_pct, .alloc_pct_mean] | @csv' "$rows" | tr -d '"' |
    awk -F, '
        NR == FNR {
            if (FNR == 1) for (i = 1; i <= NF; i++) column[$i] = i
            else for (p = 95; p <= 130; p += p < 100 ? 5 : p < 110 ? 10 : 20)
                target[$1, tolower($2), p] = $column["alloc_at_" p "_mean"]
            next
        }
        {
            off = ($1, $2, $3) in target
            peer = off ? $2 : "fgd"
            if (!(($1, peer, $3) in target)) next
            difference = $4 - target[$1, peer, $3]
            printf "%-12s %-8s %3d %%  %7.3f  published %-8s %7.3f  %+.3f\n", $1, $2, $3, $4, peer, target[$1, peer, $3], difference
            if (off && (difference > 0.5 || difference < -0.5)) wrong++
        }
        END {
            if (wrong) print wrong " cells are more than 0.5 points off"
            exit wrong > 0
        }' "$targets" -
