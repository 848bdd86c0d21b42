#!/bin/sh
# fgd_rows.sh: rows of out/bench.json from bench/fgd: our policy at 100 % asked for, against the published
# results of FGD (mean of ten seeds), and the time of the slowest variant's seed against its limit.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
targets=${SHOAL_DATA:-$here/../../shared/data}/openb_fgd/targets.csv
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT INT TERM
"$here/fgd" --policy shoal --at 100 --json >"$rows"
jq -r '.rows[] | [.variant, .alloc_pct_mean, .seeds, .wall_s] | @csv' "$rows" | tr -d '"' |
    awk -F, '
        NR == FNR {
            if (FNR == 1) for (i = 1; i <= NF; i++) column[$i] = i
            else if ($2 == "FGD") target[$1] = $column["alloc_at_100_mean"]
            next
        }
        $4 > slowest { slowest = $4 }
        $1 in target {
            printf "{\"name\": \"fgd_alloc_pct.%s\", \"value\": %.3f, \"unit\": \"%%\", \"peer\": \"FGD, published\", " \
                   "\"peer_value\": %.3f, \"ratio\": %.4f, \"better\": \"higher\", \"runs\": %d}\n", $1, $2, target[$1], $2 / target[$1], $3
            runs = $3
        }
        END {
            printf "{\"name\": \"fgd_seed_s\", \"value\": %.4f, \"unit\": \"s\", \"peer\": \"budget\", \"peer_value\": 0.1, " \
                   "\"ratio\": %.3f, \"better\": \"lower\", \"runs\": %d}\n", slowest, slowest / 0.1, runs
        }' "$targets" -
