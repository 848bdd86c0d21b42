#!/bin/sh
# unused.sh BUILD: functions that are global but used by no other object file should be static, or go.
# `nm` over the objects of a finished build sees what a review can miss.
set -eu
build=${1:?usage: unused.sh BUILD}
# Parts of an interface that reads better whole: faultable calls of io.h; an invariant check like its sisters;
# a call of shoal.h that only the Python package makes.
allowed='io_fsync io_rename member_check shoal_ended'
[ -d "$build" ] || { echo "$build: no such build; make it first: tests/run.sh build-gcc"; exit 1; }
symbols=$(mktemp)
trap 'rm -f "$symbols"' EXIT INT TERM
find "$build" -name '*.o' -exec nm -g -A {} + >"$symbols"
grep -q ' T pool_step$' "$symbols" || { echo "$build: no objects of the core; build it first"; exit 1; }
# "FILE:ADDRESS T NAME" defines, "FILE: U NAME" uses. Only the project's libraries are judged.
awk -v allowed=" $allowed " '
    $(NF - 1) == "U" { used[$NF] = 1 }
    $(NF - 1) == "T" && $1 ~ /lib[a-z_]*\.a\.p\// { where[$NF] = $1 }
    END {
        for (name in where)
            if (!(name in used) && index(allowed, " " name " ") == 0) {
                split(where[name], part, ":")
                print part[1] ": " name "() is used by its own file alone; make it static or remove it"
                wrong++
            }
        exit wrong > 0
    }' "$symbols"
