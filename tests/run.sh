#!/bin/sh
# Everything `./do test` runs. One line per check, logs in out/test/, last line "N passed, N failed".
#   tests/run.sh            all of it
#   tests/run.sh NAME...    only the checks whose name contains one of the words (see the list below)
set -u
cd "$(dirname "$0")/.." || exit 1
logs=out/test
mkdir -p $logs
passed=0
failed=0
words=$*
fuzz_seconds=${FUZZ_SECONDS:-60} # shared by all fuzzers

wanted() {
    [ -n "$words" ] || return 0
    for word in $words; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

check() { # check NAME COMMAND... : one check, its output in out/test/NAME.log
    name=$1
    shift
    wanted "$name" || return 0
    started=$(date +%s)
    if "$@" >$logs/"$name".log 2>&1; then
        passed=$((passed + 1))
        echo "ok    $name ($(($(date +%s) - started)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL  $name: the end of $logs/$name.log:"
        tail -n 25 $logs/"$name".log
    fi
}

meson_tests() { # meson_tests NAME DIR ARGUMENT... : counts each test of a Meson run
    name=$1
    dir=$2
    shift 2
    wanted "$name" || return 0
    started=$(date +%s)
    status=0
    meson test -C "$dir" --no-rebuild --print-errorlogs "$@" >$logs/"$name".log 2>&1 || status=$?
    ok=$(sed -n 's/^Ok: *//p' $logs/"$name".log | tr -d ' ')
    bad=$(($(sed -n 's/^Fail: *//p; s/^Unexpected Pass: *//p; s/^Timeout: *//p' $logs/"$name".log | tr '\n' '+')0))
    [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1 # a run that broke before its summary
    passed=$((passed + ${ok:-0}))
    failed=$((failed + bad))
    if [ "$bad" = 0 ]; then
        echo "ok    $name: ${ok:-0} tests ($(($(date +%s) - started)) s)"
        grep -hs '^SKIPPED' "$dir"/meson-logs/testlog.txt | sort -u | sed 's/^/      /' # what could not be tested here
    else
        echo "FAIL  $name: $bad of $((${ok:-0} + bad)); see $logs/$name.log:"
        grep -E '^ *[0-9]+/[0-9]+ .*(FAIL|TIMEOUT|ERROR)' $logs/"$name".log | head -n 20
        tail -n 40 $logs/"$name".log
    fi
}

programs() { # programs DIR SUITE: what Meson builds for the tests of a suite, as Ninja targets
    meson introspect "$1" --tests >$logs/introspected.json || return 1
    meson introspect "$1" --targets | jq -r --arg root "$(realpath "$1")/" --arg suite "$2" --slurpfile tests $logs/introspected.json '
        [$tests[0][] | select(any(.suite[]; . == "shoal:" + $suite)) | .depends[]] as $needed
        | .[] | select(.id as $id | $needed | index($id)) | .filename[0] | ltrimstr($root)'
}

build() { # build DIR COMPILER WHAT OPTION... : WHAT is a Ninja target, or suite=NAME
    dir=$1
    compiler=$2
    targets=$3
    shift 3
    [ -f "$dir/build.ninja" ] || CC=$compiler meson setup "$dir" "$@" || return 1
    case $targets in suite=*) targets=$(programs "$dir" "${targets#suite=}") || return 1 ;; esac
    # shellcheck disable=SC2086
    ninja -C "$dir" $targets
}

fuzz() { # every fuzzer, its share of the time
    count=0
    for program in build-fuzz/tests/fuzz/fuzz_*; do
        [ -x "$program" ] && [ -f "$program" ] && count=$((count + 1))
    done
    [ $count -gt 0 ] || { echo "no fuzzers were built"; return 1; }
    share=$(((fuzz_seconds + count - 1) / count))
    for program in build-fuzz/tests/fuzz/fuzz_*; do
        [ -x "$program" ] && [ -f "$program" ] || continue
        fuzzer=${program##*/fuzz_} # "name" is that of the check
        mkdir -p $logs/corpus/"$fuzzer"
        echo "--- $fuzzer, $share s"
        "$program" -max_total_time=$share -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
            -artifact_prefix=$logs/crash-"$fuzzer"- $logs/corpus/"$fuzzer" tests/fuzz/corpus/"$fuzzer" || return 1
    done
}

sanitizers="-Db_sanitize=address,undefined -Db_lundef=false"
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1

check layers tests/layers.sh
check build-gcc build build gcc all --buildtype=release
check unused tests/unused.sh build
meson_tests test-gcc build --no-suite slow
check build-clang build build-clang clang all --buildtype=debugoptimized
meson_tests test-clang build-clang --suite unit
# shellcheck disable=SC2086
check build-asan build build-asan clang suite=unit --buildtype=debugoptimized $sanitizers
meson_tests test-asan build-asan --suite unit --timeout-multiplier 4
check build-tsan build build-tsan clang suite=threads --buildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false
meson_tests test-tsan build-tsan --suite threads --timeout-multiplier 4
check sim-500-seeds build/shoal sim --seeds 1..500 --all-marks
check golden-digests tests/golden/digests.sh
# shellcheck disable=SC2086
check build-fuzz build build-fuzz clang fuzzers --buildtype=debugoptimized -Dfuzz=true $sanitizers
check fuzz fuzz
check docs-commands tests/e2e/docs_commands.py

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
