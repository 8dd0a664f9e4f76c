#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing, builds and installs to build/demo/prefix, shows the transports, copies
# 256 MiB from one process to another over shared memory, and measures. Arguments are options of CMake.
. "$(dirname "$0")/lib.sh"

prefix="$root/build/demo/prefix"
work=
target=

main() {
    install_missing build
    build "$@"
    export PATH="$prefix/bin:$PATH"
    trap clean_up EXIT
    trap 'exit 1' INT TERM
    work=$(mktemp -d)

    say "hg_info: the transports that are there"
    hg_info
    copy_file
    measure
}

build() {
    say "Building into build/demo"
    mkdir -p build
    cmake -S . -B build/demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DAMALGAM_BUILD_TESTS=OFF \
        -DCMAKE_INSTALL_PREFIX="$prefix" "$@" >build/demo.log || die "cmake failed, see build/demo.log"
    cmake --build build/demo -j "$jobs" -- --quiet
    cmake --install build/demo >>build/demo.log
    echo "installed in $prefix"
}

clean_up() {
    [ -z "$target" ] || {
        kill "$target" 2>/dev/null || true
        wait "$target" || true
    }
    rm -rf "$work"
}

copy_file() {
    local waited=0
    say "hg_cp: 256 MiB from one process to another over na+sm"
    mkdir "$work/from" "$work/to"
    head -c 256M /dev/urandom >"$work/from/data"
    hg_cp --listen --init na+sm --dir "$work/to" --address-file "$work/address" --quiet &
    target=$!
    until [ -s "$work/address" ]; do
        kill -0 "$target" 2>/dev/null && [ "$waited" -lt 200 ] || die "the target did not start"
        waited=$((waited + 1))
        sleep 0.1
    done
    echo "target: process $target at $(cat "$work/address")"
    hg_cp --init na+sm --to "$(cat "$work/address")" "$work/from/data"
    kill "$target"
    wait "$target" || true
    target=
    (cd "$work" && sha256sum from/data to/data)
    cmp "$work/from/data" "$work/to/data"
    echo "both files are the same"
}

measure() {
    say "hg_perf: two processes on this machine ($(nproc) cores)"
    hg_perf limits
    printf '\n%-40s %12s %9s %9s %9s\n' 'na+sm' 'per second' 'p50 us' 'p99 us' 'MB/s'
    measure_line '8-byte RPC, busy, 1 in flight' rpc --busy
    measure_line '8-byte RPC, busy, 32 in flight' rpc --busy --in-flight 32
    measure_line '8-byte RPC, 1 in flight' rpc
    measure_line '8-byte RPC, 32 in flight' rpc --in-flight 32
    measure_line 'bulk pull of 64 KiB' bulk --size 64k
    measure_line 'bulk pull of 1 MiB' bulk --size 1M
    measure_line 'bulk pull of 4 MiB' bulk --size 4M
    measure_line 'bulk pull of 16 MiB' bulk --size 16M
}

# Usage: measure_line <title> <arguments of hg_perf>...
measure_line() {
    local title="$1" json rate p50 p99 bandwidth
    shift
    json=$(hg_perf "$@" --seconds 1 --json) || die "hg_perf $* failed"
    rate=$(number "$json" rate_per_s)
    p50=$(number "$json" p50)
    p99=$(number "$json" p99)
    bandwidth=$(number "$json" bandwidth_MBps)
    printf '%-40s %12.0f %9.2f %9.2f %9.0f\n' "$title" "$rate" "$p50" "$p99" "$bandwidth"
}

# Usage: number <json> <member>
number() {
    [[ $1 =~ \"$2\":\ *([0-9.eE+-]+) ]] || die "hg_perf printed no $2"
    echo "${BASH_REMATCH[1]}"
}

main "$@"
