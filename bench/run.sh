#!/bin/sh
# Everything `./do bench` measures, as rows of out/bench.json (names and form: docs/benchmarks.md).
#   bench/run.sh            all        bench/run.sh NAME...   only the programs whose name contains a word
set -eu
cd "$(dirname "$0")/.."
mkdir -p out
rows=out/bench.rows
: >$rows
words=$*

wanted() {
    [ -n "$words" ] || return 0
    for word in $words; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

measure() { # measure NAME PROGRAM... : appends the JSON rows the program prints
    name=$1
    shift
    wanted "$name" || return 0
    printf '%s ...\n' "$name" >&2
    if "$@" >out/bench-"$name".log 2>out/bench-"$name".err; then
        grep '^{' out/bench-"$name".log >>$rows || echo "$name printed no rows" >&2
    elif [ $? -eq 77 ]; then
        cat out/bench-"$name".err >&2 # what it needs is not here
    else
        echo "$name failed; see out/bench-$name.err" >&2
        tail -n 3 out/bench-"$name".err >&2
    fi
}

measure core build/bench/bench_core
measure mig build/bench/bench_mig
measure journal build/bench/bench_journal
measure slurm python3 bench/bench_slurm.py build
measure start build/bench/bench_start
measure quant build/bench/bench_quant
measure reduce build/bench/bench_reduce
measure member build/bench/bench_member
measure join build/bench/bench_join
measure goodput build/bench/bench_goodput
measure shard build/bench/bench_shard
measure ckpt build/bench/bench_ckpt
measure trainer build/bench/bench_trainer bench/peer_torch.py
measure sim build/bench/bench_sim
measure whatif build/bench/bench_whatif
measure fgd bench/fgd_rows.sh
measure sia bench/sia_rows.sh
measure gavel bench/gavel_rows.sh
measure spot bench/spot_rows.sh
measure diagnosis build/src/worker/worker_diagnose_test 1000
measure diagnosis_cost build/bench/bench_diagnosis

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
kernel=$(uname -sr)
compiler=$(gcc --version | head -n 1)
{
    printf '{"machine": {"cpu": "%s", "cores": %s, "memory_kib": %s, "kernel": "%s", "compiler": "%s"},\n"rows": [\n' \
        "$cpu" "$(nproc)" "$memory_kib" "$kernel" "$compiler"
    sed '$!s/$/,/' $rows
    printf ']}\n'
} >out/bench.json.tmp
mv out/bench.json.tmp out/bench.json
rm -f $rows
jq -r '(["name","value","unit","peer","peer value","ratio","better"] | @tsv),
       (.rows[] | [.name, .value, .unit, .peer // "-", .peer_value // "-", .ratio // "-", .better] | @tsv)' \
    out/bench.json | column -t -s "$(printf '\t')"
