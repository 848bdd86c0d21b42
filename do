#!/bin/sh
# Sets everything up from a bare Debian 12 and runs one verb. Each verb is a few lines over Meson.
set -eu
cd "$(dirname "$0")"

build_packages="build-essential meson ninja-build pkg-config libuv1-dev libmicrohttpd-dev libcurl4-openssl-dev
 libjansson-dev libyaml-dev libsqlite3-dev libssl-dev libxxhash-dev libopenblas-dev libcmocka-dev
 ca-certificates bible-kjv bible-kjv-text"
test_packages="clang llvm-14 libclang-rt-14-dev curl jq python3 python3-venv python3-torch procps"
bench_packages="openmpi-bin libopenmpi-dev libgloo-dev jq bsdextrautils python3 python3-torch
 libopenblas0-openmp slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libslurm-dev procps"
lint_packages="clang-format shellcheck"

usage() {
    cat <<'TEXT'
usage: ./do VERB [ARGUMENT...]
  demo   train a real model on an emulated spot market, losses and all
         (--data FILE: on your own text)
  test   set up and run every test; last line "N passed, N failed"
  bench  measure against peers and limits; writes out/bench.json
  chaos  long trouble: kills, outages, thousands of schedules
         (chaos WORD...: some of it)
  fmt    format the sources        lint   formatting and shell scripts
  clean  remove build/ and out/    shell  a shell with build/ on the PATH
TEXT
}

need() { # installs the packages that are missing, says which
    missing=""
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    echo "installing (apt):$missing"
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

build() { # build DIR [MESON OPTION...]
    dir=$1
    shift
    [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@" >/dev/null
    told=$(ninja -C "$dir" build.ninja 2>&1) || { # configures anew after a change of meson.build
        echo "$told" >&2
        exit 1
    }
    ninja -C "$dir" --quiet
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
demo)
    # shellcheck disable=SC2086
    need $build_packages
    echo "building ..."
    build build --buildtype=release
    exec build/examples/demo/demo "$@"
    ;;
test)
    # shellcheck disable=SC2086
    need $build_packages $test_packages
    exec tests/run.sh "$@"
    ;;
bench)
    # shellcheck disable=SC2086
    need $build_packages $bench_packages
    build build --buildtype=release
    exec bench/run.sh "$@"
    ;;
chaos)
    # shellcheck disable=SC2086
    need $build_packages $test_packages
    build build --buildtype=release
    exec tests/chaos/run.sh "$@"
    ;;
fmt)
    # shellcheck disable=SC2086
    need $lint_packages
    git ls-files '*.[ch]' | xargs clang-format -i
    ;;
lint)
    # shellcheck disable=SC2086
    need $lint_packages
    git ls-files '*.[ch]' | xargs clang-format --dry-run --Werror
    git ls-files -z -- "do" '*.sh' .ci/run | xargs -0 shellcheck -S warning
    ;;
clean) rm -rf build build-* out ;;
shell)
    # shellcheck disable=SC2086
    need $build_packages
    build build --buildtype=release
    PATH="$PWD/build:$PATH" exec "${SHELL:-/bin/sh}"
    ;;
-h | --help | help | "") usage ;;
*)
    echo "do: unknown verb \"$verb\"" >&2
    usage >&2
    exit 2
    ;;
esac
