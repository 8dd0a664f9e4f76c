#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Usage: run.sh <folder of the built examples> <example> <init string>; starts its target, calls it,
# ends it by SIGTERM, and compares what the origin printed.
set -euo pipefail
programs=$1 example=$2 init=$3
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; rm -rf "$dir"' EXIT

fail() {
    echo "FAIL: $example over $init: $*" >&2
    exit 1
}

# Usage: start <program> [argument]...; sets address, and url if the target printed one.
start() {
    local line
    url=
    coproc target { exec "$programs/$1" --listen "$init" "${@:2}"; }
    pid=$target_PID
    while read -r -t 60 line <&"${target[0]}"; do
        case $line in
        http:*) url=$line ;;
        *) address=$line && return ;;
        esac
    done
    fail "the target printed no address"
}

# Usage: origin <program> [argument]...; what it prints is in the file "printed".
origin() {
    timeout 120 "$programs/$1" "$address" "${@:2}" >"$dir/printed" || fail "the origin ended with $?"
}

expect() {
    diff -u - "$dir/printed" >&2 || fail "other words were expected"
}

stop() {
    kill -TERM "$pid"
    wait "$pid" || fail "the target ended with $?"
    pid=
}

ranks() {
    local mpiexec
    mpiexec=$(command -v mpiexec.openmpi || command -v orterun) || exit 77
    timeout 120 "$mpiexec" --allow-run-as-root --oversubscribe -n 3 "$programs/mpi_bootstrap" "$init" \
        >"$dir/printed" || fail "mpiexec ended with $?"
    expect <<<"2 ranks called, their sum is 3"
}

case $example in
mpi_bootstrap)
    ranks
    echo "ok: $example over $init"
    exit
    ;;
stream_file) start "$example" "$dir/copy" ;;
*) start "$example" ;;
esac

case $example in
hello)
    origin hello Ada
    expect <<<"Hello, Ada."
    ;;
types)
    origin types 5
    expect <<<"5 numbers from 0.5 to 4.5, mean 2.5"
    # These do not fit a message.
    origin types 100000
    expect <<<"100000 numbers from 0.5 to 99999.5, mean 50000.0"
    ;;
bulk | pipelined_bulk)
    origin bulk
    expect <<<"16777216 bytes, sum correct"
    ;;
stream_file)
    head -c 7654321 /dev/urandom >"$dir/file"
    origin stream_file "$dir/file"
    expect <<<"7654321 bytes sent"
    cmp "$dir/file" "$dir/copy" || fail "the copy differs"
    ;;
events)
    origin events
    expect <<<"10000 events handled"
    ;;
threads)
    origin threads
    expect <<<"8 clients, the last answer was 4000"
    ;;
deadline)
    origin deadline
    expect <<'END'
deadline of 50 ms: HG_TIMEOUT
cancelled: HG_CANCELED
the same handle again: HG_SUCCESS
END
    ;;
auto_sm)
    origin auto_sm
    expect <<'END'
100 of 100 requests through shared memory
the peer is reached through shared memory
END
    ;;
prometheus)
    origin prometheus
    port=${url#http://127.0.0.1:}
    exec 3<>"/dev/tcp/127.0.0.1/${port%/metrics}"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    timeout 60 cat <&3 >"$dir/printed"
    grep -q '^HTTP/1.0 200 OK' "$dir/printed" || fail "no answer at $url"
    grep -E '^amalgam_[a-z_]*request[a-z_]*received[a-z_]*\{.*class="example".*\} 10$' "$dir/printed" ||
        fail "the counters do not say that ten requests came: $(cat "$dir/printed")"
    ;;
raii)
    origin raii
    expect <<<"7 * 7 = 49"
    ;;
*) fail "this test does not know the example" ;;
esac
stop
echo "ok: $example over $init"
