#!/bin/sh
# Usage, help, suggestions and exit codes of the command itself. No server is started or needed.
#   cli_test.sh PATH/shoal
set -u
shoal=$(realpath "$1")
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset SHOAL_SERVER SHOAL_TOKEN_FILE

expect() { # expect STATUS TEXT ARGUMENT... : exit status, and a text in the output
    status=$1
    text=$2
    shift 2
    "$shoal" "$@" >out 2>&1 </dev/null
    got=$?
    if [ "$got" != "$status" ] || ! grep -qiF -- "$text" out; then
        echo "FAIL: shoal $*: status $got, wanted $status and \"$text\"; it said:"
        cat out
        failed=1
    fi
}

expect 0 "usage: shoal VERB"
expect 0 "usage: shoal VERB" --help
expect 0 "shoal 0." --version
expect 2 'did you mean "jobs"?' jbos
expect 2 'unknown verb "xyzzy"' xyzzy
"$shoal" --help | sed -n 's/^  \([a-z]*\) .*/\1/p' >verbs
[ "$(wc -l <verbs)" -ge 12 ] || { echo "FAIL: few verbs"; failed=1; }
while read -r verb; do
    expect 0 "usage: shoal $verb" "$verb" --help
    expect 0 "example:" "$verb" --help
    expect 0 "usage: shoal $verb" help "$verb"
    expect 2 "shoal" "$verb" --nosuch
done <verbs
expect 2 'did you mean "--detach"?' run --detahc job.yaml
expect 2 "needs job.yaml" run
expect 2 'unexpected argument "b"' why a b
expect 2 "a value is missing after" nodes --data
expect 2 'no grouping "colour"' cost --by colour
expect 1 "no server at http://127.0.0.1:1; start one with: shoal up" jobs --server http://127.0.0.1:1
expect 1 "job.yaml" plan job.yaml
expect 2 "shoal market import FILE" market export x
expect 1 "x.csv: cannot open" market import x.csv
echo "time,zone,price" >x.csv
expect 1 "x.csv: no column instance_type (or instance, type)" market import x.csv
printf 'time,zone,type,price\n2020-01-01,z,i,0.5\n2020-01-02,z,i,-1\n' >x.csv
expect 0 "2 rows: 1 prices, 0 said again, 0 about something else, 1 malformed" market import x.csv --out y.csv
expect 0 'row 3: not a price: "-1"' market import x.csv
expect 0 '"malformed":1,"faults":[{"row":3,' market import x.csv --json
grep -q '^z,i,spot,2020-01-01T00:00:00Z,0.500000$' y.csv || { echo "FAIL: market import --out"; failed=1; }
printf 'time,zone,type,price\n2020-01-01,z,i,0.5\n2020-01-02,z,i,0.3\n' >x.csv
expect 0 "█▁" market import x.csv # the last price is seen
ln -s y.csv link
expect 1 "link: not a file, so it is not replaced" market import x.csv --out link
[ -L link ] || { echo "FAIL: market import --out replaced a link"; failed=1; }
jobs=$(dirname "$shoal")/../examples/jobs
expect 0 "→ a swarm" advise "$jobs/finetune_70b.yaml" --market "$jobs/prices.csv" --server http://127.0.0.1:1
expect 0 "does not fit: 1120 GB" advise "$jobs/finetune_70b.yaml" --market "$jobs/prices.csv"
expect 0 "→ one node: a swarm takes" advise "$jobs/finetune_7b.yaml" --market "$jobs/prices.csv"
expect 0 "what would change it to a swarm:" advise "$jobs/finetune_7b.yaml" --market "$jobs/prices.csv"
expect 0 '"verdict":"swarm"' advise "$jobs/finetune_70b.yaml" --market "$jobs/prices.csv" --json
expect 0 "list prices of the catalog" advise "$jobs/finetune_7b.yaml" --server http://127.0.0.1:1
expect 1 "work_per_slot" advise "$jobs/hello.yaml"
expect 1 "x.csv: no type in it is a model of the catalog" advise "$jobs/finetune_7b.yaml" --market x.csv
expect 2 '--overhead takes 0 to 90, not "much"' advise "$jobs/finetune_7b.yaml" --overhead much
expect 2 "is no node number" drain abc
expect 2 "is no node number" drain ""
expect 2 "is no node number" drain 17x
expect 1 "no server at" drain 17 --server http://127.0.0.1:1
expect 2 'listen address "nonsense": expected HOST:PORT' server --listen nonsense --data here
[ ! -e here ] || { echo "FAIL: a server with a wrong address made a data folder"; failed=1; }
expect 1 "shoal.yaml: No such file" up
expect 2 'not "lst"; see shoal ckpt --help' ckpt lst .
expect 2 "a folder is needed" ckpt verify
expect 2 "a verb and a folder are needed" ckpt
expect 2 'not "-1"' ckpt ls . --step -1
expect 2 'not "99999999999999999999"' ckpt ls . --step 99999999999999999999
expect 2 "--out is needed" ckpt merge .
expect 2 "--shards takes 1 to" ckpt reshard . --out x
expect 2 'one folder at a time; what is "b"' ckpt verify a b
expect 1 "nowhere/journal.db: cannot open the journal" replay --data nowhere
expect 2 '"--to" is not an option, or its value is missing or wrong' replay --to x
expect 2 '"--seeds" is not an option, or its value is missing or wrong' replay --policy spot --seeds 0
expect 2 '"--from" is not an option, or its value is missing or wrong' replay --from yesterday
expect 1 "nowhere/journal.db: cannot open the journal" replay --data nowhere --policy spot --from 2026-01-31
for ckpt_verb in ls verify diff merge reshard digest gc; do
    expect 0 "example: shoal ckpt $ckpt_verb" ckpt "$ckpt_verb" --help
done
for ckpt_verb in ls verify diff digest; do
    expect 1 "no checkpoint here" ckpt "$ckpt_verb" nowhere
done
expect 1 "nowhere --step 40" ckpt ls nowhere/step-000040
expect 0 "0 leftovers" ckpt gc nowhere
expect 1 "checkpoints go to a folder" ckpt ls ftp://host/x
expect 2 "at most 10000 of them" sim world.yaml --seeds 1..20000
expect 2 "at most 100000" plan --ncu 100000.001
expect 1 "no server" plan --ncu 100000
expect 0 "1 seed" sim --seeds 18446744073709551615..18446744073709551615
# a full disk behind the output is told
if [ -w /dev/full ]; then
    "$shoal" --help >/dev/full 2>out && { echo "FAIL: /dev/full unnoticed"; failed=1; }
fi
exit $failed
