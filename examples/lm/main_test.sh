#!/bin/sh
# main_test.sh LM TEXT_SH: the program as a user meets it: same weights for any number of threads, text
# at the end, and one line that says what to do for each thing that can be wrong.
set -eu
lm=$(realpath "$1")
text_sh=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset SHOAL_STEPS SHOAL_SLOTS SHOAL_CHECKPOINT_DIR SHOAL_AGENT_FD

fail() {
    echo "main_test.sh: $1" >&2
    exit 1
}

refused() { # refused STATUS TEXT ARGUMENT... : exit status, one line, containing the text
    wanted=$1
    text=$2
    shift 2
    status=0
    "$@" >out 2>err </dev/null || status=$?
    [ "$status" = "$wanted" ] || fail "$*: status $status instead of $wanted: $(cat err)"
    [ "$(wc -l <err)" = 1 ] || fail "$*: not one line: $(cat err)"
    grep -qF -e "$text" err || fail "$*: \"$text\" is not in: $(cat err)"
}

weights() { # weights ARGUMENT... : the digest of the final weights
    "$lm" --data text --steps 4 --slots 3 --width 32 --heads 2 "$@" | sed -n 's/^weights sha256 //p'
}

seq 1 3000 >text
first=$(weights --threads 1)
[ "${#first}" = 64 ] || fail "no digest: \"$first\""
[ "$(weights --threads 1)" = "$first" ] || fail "two runs differ"
[ "$(weights --threads 2)" = "$first" ] || fail "1 and 2 threads differ"
[ "$(weights --seed 2)" != "$first" ] || fail "the seed changes nothing"
[ "$(SHOAL_STEPS=4 SHOAL_SLOTS=3 "$lm" --data text --width 32 --heads 2 | sed -n 's/^weights sha256 //p')" = "$first" ] ||
    fail "SHOAL_STEPS and SHOAL_SLOTS are not --steps and --slots"
"$lm" --data text --steps 1 --slots 1 --width 32 --heads 2 --sample 64 >out
[ "$(wc -c <out)" -gt 128 ] || fail "no sample: $(cat out)"
# A run that goes on from a checkpoint ends with the weights of one that never stopped; a damaged
# checkpoint is passed over for the one before; a finished one only writes its text.
[ "$(weights --checkpoint saved --checkpoint-every 2 2>err)" = "$first" ] || fail "checkpoints change the weights"
for step in 2 4; do
    [ -d saved/step-00000$step ] || fail "no checkpoint of step $step: $(ls saved) $(cat err)"
done
rm -r saved/step-000004
[ "$(weights --checkpoint saved --checkpoint-every 2 2>err)" = "$first" ] || fail "resumed to other weights"
grep -q 'step 2' err || fail "did not resume: $(cat err)"
for shard in saved/step-000004/*.safetensors; do truncate -s -1 "$shard"; done
[ "$(weights --checkpoint saved --checkpoint-every 2 2>err)" = "$first" ] || fail "a damaged checkpoint was used"
grep -q 'step 2' err || fail "did not fall back to step 2: $(cat err)"
# A file that cannot grow, as on a full disk, costs that checkpoint: it is said, the run goes on, the older one stays.
cp -r saved full
rm -r full/step-000004
[ "$(trap '' XFSZ; ulimit -f 8; weights --checkpoint full --checkpoint-every 2 2>err)" = "$first" ] || fail "full: $(cat err)"
grep -q 'checkpoint failed: .*File too large; training goes on and older checkpoints stay' err || fail "full: $(cat err)"
cmp saved/step-000002/manifest.json full/step-000002/manifest.json || fail "the older checkpoint is gone"
[ ! -e full/step-000004/manifest.json ] || fail "half a checkpoint looks whole"
"$lm" --data text --steps 4 --slots 3 --width 32 --heads 2 --checkpoint saved --sample 64 >out 2>err
grep -q 'step 4' err || fail "did not find the finished checkpoint: $(cat err)"
[ "$(wc -c <out)" -gt 128 ] || fail "no sample from a checkpoint: $(cat out)"
if grep -q '^step ' out; then fail "trained again: $(cat out)"; fi
# What a run with other options left is not gone on from, and not touched.
for other in "--seed 2" "--lr 0.001" "--batch 3" "--steps 6"; do
    # shellcheck disable=SC2086
    straight=$(weights $other)
    rm -rf mixed
    cp -r saved mixed
    # shellcheck disable=SC2086
    [ "$(weights --checkpoint mixed $other 2>err)" = "$straight" ] || fail "$other: resumed another run: $(cat err)"
    [ "$(grep -c 'step-000004: skipped, a checkpoint of another run (.*, not ' err)" = 1 ] || fail "$other: $(cat err)"
done
grep -q 'steps 4, not 6; identity' err || fail "does not say what differs: $(cat err)"
cmp saved/step-000002/manifest.json mixed/step-000002/manifest.json
seq 1 3001 >text
weights --checkpoint saved 2>err >out
grep -q 'step-000004: skipped' err || fail "another text: resumed: $(cat err)"
seq 1 3000 >text

# All of it together: pairs of bytes, dropout, an evaluation split; threads and a resume change nothing,
# and the checkpoint alone is enough to write text.
full="--tokenizer bpe --vocab 300 --dropout 0.1 --eval-every 2 --weight-decay 0.2 --warmup 1"
# shellcheck disable=SC2086
straight=$(weights $full --threads 1)
# shellcheck disable=SC2086
[ "$(weights $full --threads 2 --checkpoint bpe --checkpoint-every 2 2>err)" = "$straight" ] || fail "$full: threads differ: $(cat err)"
rm -r bpe/step-000004
# shellcheck disable=SC2086
[ "$(weights $full --checkpoint bpe --checkpoint-every 2 2>err)" = "$straight" ] || fail "$full: resumed to other weights"
grep -q 'step 2' err || fail "$full: did not resume: $(cat err)"
# shellcheck disable=SC2086
"$lm" --data text --steps 4 --slots 3 --width 32 --heads 2 $full >out
[ "$(grep -c '^eval ' out)" = 3 ] || fail "not three evaluations: $(cat out)"
grep -q '^eval after step 2: loss [0-9.]* on [0-9]* held-out windows' out || fail "no evaluation: $(cat out)"
for option in "--dropout 0.2" "--eval-every 3" "--held-out 7" "--vocab 301"; do
    # shellcheck disable=SC2086
    weights $full $option --checkpoint bpe 2>err >other
    grep -q 'step-000004: skipped, a checkpoint of another run' err || fail "$option: resumed another run: $(cat err)"
done
"$lm" --generate 20 --checkpoint bpe --prompt 12 --seed 4 --top-k 5 >out
[ "$(head -c 2 out)" = 12 ] || fail "the text does not begin with the prompt: $(cat out)"
"$lm" --generate 20 --checkpoint bpe --prompt 12 --seed 4 --top-k 5 | cmp - out || fail "another text by the same seed"
refused 1 'nothing: no checkpoint there; train with --checkpoint nothing' "$lm" --generate 5 --checkpoint nothing
for shard in bpe/step-000004/*.safetensors; do truncate -s -1 "$shard"; done
"$lm" --generate 20 --checkpoint bpe >out 2>err || fail "no text by the older checkpoint: $(cat err)"
grep -q 'step-000004.*; trying an older checkpoint' err || fail "does not say which is damaged: $(cat err)"

"$lm" --help | grep -q '^example: ' || fail "--help has no example"

refused 1 'missing: cannot open: No such file or directory; give --data' "$lm" --data missing
refused 1 'not a file' "$lm" --data .
printf short >short
refused 1 'short: 5 tokens to train on are too few for --context 64' "$lm" --data short
refused 1 'text: --held-out 2 % are 277 tokens, too few for --context 300' "$lm" --data text --context 300 --held-out 2 --eval-every 1
refused 1 'text: the text has pairs for ' "$lm" --data text --tokenizer bpe --vocab 60000
refused 1 '--heads 5: must divide --width 96' "$lm" --data text --heads 5
refused 1 '--threads 3: use 1 to --parts 2' "$lm" --data text --threads 3
refused 1 '--checkpoint-every needs --checkpoint DIR' "$lm" --data text --checkpoint-every 2
refused 1 '--checkpoint: /proc/none' "$lm" --data text --checkpoint /proc/none --checkpoint-every 2
refused 1 '--checkpoint' "$lm" --data text --checkpoint text --checkpoint-every 2
"$lm" --data text --steps 1 --slots 1 --width 48 --heads 2 --checkpoint saved >out 2>err
grep -q 'step-000004: skipped, a checkpoint of another run (another model: tensor 1 is param tokens \[256, 32\], not param tokens \[256, 48\]' err ||
    fail "does not name the first tensor that differs: $(cat err)"
refused 1 'SHOAL_STEPS=many' env SHOAL_STEPS=many "$lm" --data text
refused 1 'SHOAL_SLOTS=99999999999' env SHOAL_SLOTS=99999999999 "$lm" --data text
refused 2 '--data FILE is needed' "$lm"
refused 2 '--vocab "70000": give a whole number from 256 to 65536' "$lm" --data text --tokenizer bpe --vocab 70000
refused 2 '--widht: unknown option' "$lm" --data text --widht 3

refused 1 'give one file to write' "$text_sh"
ln -s "$(command -v sh)" sh
refused 1 'apt-get install bible-kjv bible-kjv-text' env PATH="$folder" "$folder/sh" "$text_sh" out.txt
[ ! -e out.txt ] || fail "text.sh left a file behind"
if command -v bible >/dev/null; then
    "$text_sh" one.txt 2>/dev/null
    "$text_sh" two.txt 2>/dev/null
    cmp one.txt two.txt
    [ "$(head -n 1 one.txt)" = "In the beginning God created the heaven and the earth." ] ||
        fail "text.sh: another first line"
fi
