#!/bin/sh
# spot_bad.sh PROGRAM: what bench/spot says about traces it cannot read: one line that names the place, and 1.
set -eu
program=$1
SHOAL_DATA=$(mktemp -d)
export SHOAL_DATA
folder=$SHOAL_DATA/spot_availability
trap 'rm -rf "$SHOAL_DATA"' EXIT INT TERM
mkdir "$folder"
heads=series_id,kind,zone,instance_type,nodes_requested,step_seconds,t_start,n_steps
wrong=0

data() { # data SERIES-LINES SEGMENT-LINES: both with \n
    printf "$heads\\n$1\\n" >"$folder/skypilot_series.csv"
    printf "series_id,start_step,n_steps,value\\n$2\\n" >"$folder/skypilot_segments.csv"
}
says() { # says STATUS TEXT [OPTION...]
    status=0
    wanted=$1
    text=$2
    shift 2
    out=$("$program" --hours 1 --changeovers 6 --ratios 1.5 --json "$@" 2>&1) || status=$?
    case "$status $out" in
    "$wanted "*"$text"*) ;;
    *)
        echo "expected $wanted, \"$text\"; got $status, $out"
        wrong=1
        ;;
    esac
}
good='a,availability,z1,gpu,1,300,2024-01-01,100'

data "$good" 'a,0,60,1\na,60,40,0'
says 0 '"zones": "z1"' --starts 3
says 1 'no group holds' --zones z2
says 1 'is not a number' --starts 0
says 2 'is not known' --policy nonsense
data "$good\nb,availability,z2,gpu,1,300,2024-01-01,90" 'a,0,100,1\nb,0,90,0'
says 0 '"zones": "z1+z2"' --starts 3
data "$good\nb,availability,z2,gpu,1,600,2024-01-01,90" 'a,0,100,1\nb,0,90,0' # another clock: not together
says 0 '"zones": "z2"' --starts 3
prices() { # prices LINES
    mkdir -p "$SHOAL_DATA/prices"
    printf "zone,instance_type,t_utc,usd_per_hour\\n$1\\n" >"$SHOAL_DATA/prices/aws_spot_price_history_2019-12_2020-03.csv"
}
says 2 'is not known' --beyond nonsense
says 77 'prices' --starts 3 --beyond prices
says 0 '"variation": "owned"' --starts 3 --beyond owned
prices 'z1,gpu,2020-01-01T00:00:00Z,1\nz1,gpu,2020-01-01T05:00:00Z,2'
says 0 '"variation": "prices_unseen"' --starts 3 --beyond all
prices 'z1,gpu,2020-01-01 00:00,1'
says 1 '2020-03.csv:2: t_utc is YYYY' --beyond prices
prices 'z1,gpu,2020-01-01T05:00:00Z,1\nz1,gpu,2020-01-01T00:00:00Z,2'
says 1 '2020-03.csv:3: t_utc is before' --beyond prices
prices 'z1,gpu,2020-01-01T00:00:00Z,0'
says 1 '2020-03.csv:2: usd_per_hour is 0' --beyond prices
data "$good" 'a,0,60,1\na,61,39,0'
says 1 'segments.csv:3: a: step 61 follows step 60: a gap'
data "$good" 'a,0,60,1\na,40,60,0'
says 1 'segments.csv:3: a: step 40 follows step 60: not in order of time'
data "$good" 'a,-5,105,1'
says 1 'segments.csv:2: start_step is -5'
data "$good" 'a,0,0,1\na,0,100,1'
says 1 'segments.csv:2: n_steps is 0'
data "$good" 'a,0,100,-1'
says 1 'segments.csv:2: value is -1'
data "$good" 'a,0,101,1'
says 1 'goes beyond its 100 steps'
data "$good" 'a,0,99,1'
says 1 'a ends at step 99 of 100'
data "$good" 'b,0,100,1'
says 1 'series "b" is not in'
data "$good\n$good" 'a,0,100,1'
says 1 'series a is there twice'
data "$good\nb,availability,z1,gpu,1,300,2024-01-01,90" 'a,0,100,1'
says 1 'zone z1 is twice in'
data 'a,guess,z1,gpu,1,300,2024-01-01,100' 'a,0,100,1'
says 1 'kind is availability or preemption, not "guess"'
data 'a,availability,z1,gpu,1,0,2024-01-01,100' 'a,0,100,1'
says 1 'step_seconds is 0'
data 'a,availability,z1,gpu,1,x,2024-01-01,100' 'a,0,100,1'
says 1 'step_seconds is not a number: "x"'
data 'a,availability,z1,gpu,1,300,yesterday,100' 'a,0,100,1'
says 1 't_start is a day YYYY-MM-DD, not "yesterday"'
data "$good" 'a,0,100'
says 1 '3 cells under 4 heads'
data "$good" 'a,0,100,1'
echo 'when,what' >"$folder/skypilot_series.csv"
says 1 'no series'
printf 'when,what\n1,2\n' >"$folder/skypilot_series.csv"
says 1 'no column "series_id"'
exit $wrong
