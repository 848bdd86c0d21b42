#!/bin/sh
# The arrows of the house (ARCHITECTURE.md): which folder may include headers of which. Fails on any other arrow.
set -eu
cd "$(dirname "$0")/.."

allowed() { # allowed FOLDER -> the folders, or single headers, its files may include from
    case $1 in
    core) echo "core" ;;
    base) echo "base core/assert.h" ;;
    codec) echo "codec core base" ;;
    page) echo "page base" ;;
    whatif) echo "whatif page sim/queue.h sim/random.h codec core base" ;;
    sim) echo "sim core codec base" ;;
    worker/core) echo "worker/core core/assert.h" ;;
    worker/store) echo "worker/store base core/assert.h" ;;
    worker/link) echo "worker/link worker/core base core/assert.h" ;;
    worker/ckpt) echo "worker/ckpt worker/store worker/core worker/job.h base core/assert.h" ;;
    worker) echo "worker worker/core worker/store worker/link worker/ckpt base core/assert.h" ;;
    driver) echo "driver codec core base worker/status.h" ;;
    agent) echo "agent codec core base worker/status.h worker/host.h worker/protocol.h" ;;
    server) echo "server driver codec core base" ;;
    cli) echo "cli base core/assert.h codec/price_feed.h server/server.h agent/agent.h sim/sim.h whatif/whatif.h whatif/advise_main.h worker/ckpt/ckpt_main.h" ;;
    *) echo "" ;;
    esac
}

folder_of() { # src/worker/core/x.c -> worker/core, src/cli/x.c -> cli
    case $1 in
    src/worker/*/*) echo "worker/$(echo "$1" | cut -d/ -f3)" ;;
    *) echo "$1" | cut -d/ -f2 ;;
    esac
}

wrong=0
files=0
for file in $(git ls-files 'src/*.c' 'src/*.h' 'src/*/*.c' 'src/*/*.h'); do
    case $file in *_test.c) continue ;; esac # a test may look anywhere below it
    files=$((files + 1))
    folder=$(folder_of "$file")
    rules=$(allowed "$folder")
    for header in $(sed -n 's/^#include "\([a-z_/0-9]*\.h\)".*/\1/p' "$file"); do
        case $header in shoal.h) continue ;; esac
        ok=no
        for rule in $rules; do
            case $rule in
            *.h) [ "$header" = "$rule" ] && ok=yes ;;
            *) [ "$(dirname "$header")" = "$rule" ] && ok=yes ;;
            esac
        done
        if [ $ok = no ]; then
            echo "$file: includes \"$header\", but $folder may only include from: $rules"
            wrong=$((wrong + 1))
        fi
    done
done
[ "$files" -gt 0 ] || { echo "no sources found: run from a git checkout"; exit 1; }
echo "$files files, $wrong wrong arrows"
[ $wrong = 0 ]
