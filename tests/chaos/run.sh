#!/bin/sh
# Long forms of the checks that ./do test does in short: trouble for minutes to hours.
#   tests/chaos/run.sh            all        tests/chaos/run.sh WORD...   only sections whose name contains a word
# The last line says how many sections passed. Needs build/ (./do chaos makes it).
set -u
cd "$(dirname "$0")/../.." || exit 1
mkdir -p out/chaos
words=$*
passed=0
failed=0

wanted() {
    [ -n "$words" ] || return 0
    for word in $words; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

section() { # section NAME COMMAND... : its output is kept in out/chaos/NAME.log
    name=$1
    shift
    wanted "$name" || return 0
    printf '%s ... ' "$name"
    began=$(date +%s)
    if "$@" >out/chaos/"$name".log 2>&1; then
        passed=$((passed + 1))
        echo "passed in $(($(date +%s) - began)) s: $(grep -v '^\[' out/chaos/"$name".log | tail -n 1)"
    else
        failed=$((failed + 1))
        echo "FAILED, see out/chaos/$name.log"
        tail -n 5 out/chaos/"$name".log
    fi
}

outage() { # the server away for half a minute and for two, with and without the death of a reporter
    for seconds in 30 120; do
        OUTAGE_S=$seconds SHOAL=$PWD/build/shoal python3 tests/e2e/server_durability.py Outage || return 1
    done
}

torch() { # the PyTorch examples under a server whose market kills machines
    for program in lm finetune; do
        tests/python/with_torch.sh tests/python/torch_run_test.py build $program 300 || [ $? = 77 ] || return 1
    done
}

goodput() { # fails below the budgets; at the speed of life, seven minutes
    build/bench/bench_goodput 64 120 1 | tee out/chaos/goodput.rows &&
        ! grep -o 'kill.*"ratio": 0\.[0-9]*' out/chaos/goodput.rows
}

ckpt() { # power cuts and failing calls, two seeds apart at a time
    build/src/worker/worker_ckpt_crash_test 50000 1 >out/chaos/ckpt.1 &
    first=$!
    build/src/worker/worker_ckpt_crash_test 50000 100001 && wait $first && cat out/chaos/ckpt.1
}

deadlines() { # flapping spot markets under every policy; and what the learned one costs
    DEADLINE_SEEDS=20000 DEADLINE_WORLDS=2000 build/src/core/core_deadline_test
}

links() { # each kind of link under kills, mostly in the middle of a transfer
    for kind in shm tcp tls; do
        SHOAL_LINK=$kind build/tests/chaos/chaos_kills 8 60 || return 1
    done
}

fuzz_core() { # ten million events, every victim and reason checked on a copy; a failing seed is told
    bad=0
    events=0
    for seed in $(seq "${FIRST:-1}" "${LAST:-4300}"); do
        if build/src/core/core_audit_test "$seed" "$seed" alone >out/chaos/fuzz-core.seed 2>&1; then
            events=$((events + $(sed -n 's/^marks.*, \([0-9]*\) events$/\1/p' out/chaos/fuzz-core.seed)))
            continue
        fi
        echo "seed $seed: $(grep -E 'audit:|ERROR|assert' out/chaos/fuzz-core.seed | head -n 1)"
        bad=$((bad + 1))
    done
    echo "$events events; $bad seeds failed"
    [ "$bad" -eq 0 ]
}

section fuzz-core fuzz_core
section membership build/src/worker/worker_member_sim_test 1 10000
section splits build/src/worker/worker_member_sim_test 2000001 1000
section alarms build/src/worker/worker_liveness_test 30000
section kills build/tests/chaos/chaos_kills 32 180
section slowdown build/tests/chaos/chaos_slowdown
section deadlines deadlines
section links links
section goodput goodput
section outage outage
section torch torch
section ckpt ckpt
section ckpt_reshard build/src/worker/worker_ckpt_reshard_test 5000
section diagnosis build/src/worker/worker_diagnose_test 10000

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
