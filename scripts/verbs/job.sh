#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The job of a guest of scripts/verbs.sh: checks, each with a line for its result.
# Usage: job.sh <job>; needs tree, build, host and fabrics from the guest's first process.

set -u
failures=0
export NA_PLUGIN_PATH="$build/lib/amalgam/abi-1" PATH="$build/bin:$PATH"

main() {
    local fabric
    case $1 in
    nothing) ;;
    run) bash /exchange/script ;;
    *)
        [ -n "${fabrics//,/}" ] || failures=1
        for fabric in ${fabrics//,/ }; do
            "job_$1" "$fabric"
        done
        [ $failures -eq 0 ]
        ;;
    esac
}

# Usage: check <name> <seconds> <command>...
check() {
    local name=$1 limit=$2 start=$SECONDS status=0
    shift 2
    (cd /tmp && timeout -k 5 "$limit" bash -c '"$@"' check "$@") >/tmp/out 2>&1 || status=$?
    case $status in
    0) echo "ok $name, $((SECONDS - start)) s" ;;
    77) echo "ok $name # skipped: $(grep -im 1 skip /tmp/out)" ;;
    *)
        failures=$((failures + 1))
        echo "not ok $name: status $status after $((SECONDS - start)) s"
        grep -vE '^\[ +(OK|RUN) ' /tmp/out | tail -n "${LINES_OF_FAILURE:-25}" | sed 's/^/# /'
        ;;
    esac
}

# Usage: fails <command>...; true if the command fails by itself.
fails() {
    "$@"
    [ $? -eq 1 ]
}
export -f fails

job_smoke() {
    check "$1 rpc" 60 hg_perf rpc --init "$1" --seconds 0.5
    check "$1 pull" 60 hg_perf bulk --init "$1" --seconds 0.5
    check "$1 push" 60 hg_perf bulk --push --init "$1" --seconds 0.5
    check "$1 copy" 60 copy "$1"
    check "$1 hg_info --check" 60 hg_info --check "$1"
    case $1 in
    ofi+verbs) check_addresses ;;
    ucx+ud) check "$1 and a device whose addresses change" 30 stays_silent "$1" ;;
    esac
}

# UCX's own thread prints events of the device, which do not belong to the standard output.
stays_silent() {
    local pid
    hg_perf rpc --listen --init "$1" >/tmp/said 2>/tmp/log &
    pid=$!
    until [ -s /tmp/said ]; do sleep 0.1; done
    ip address add 10.8.0.1/24 dev eth0
    sleep 1
    ip address del 10.8.0.1/24 dev eth0
    sleep 1
    kill -TERM $pid
    wait $pid
    ! grep UCX /tmp/said
}
export -f stays_silent

# libfabric replaces an address that its device does not have by another one, and lists providers that it cannot open.
check_addresses() {
    check "ofi+verbs at an address of the device" 20 listens 10.7.0.1:7010
    check "ofi+verbs at an address of another one" 20 fails hg_info --listen --init ofi+verbs://127.0.0.1:7010
    check "ofi+verbs at an address of another one, IPv6" 20 fails hg_info --listen --init 'ofi+verbs://[::1]:7014'
    check "ofi+verbs without a host" 60 tells_absence ofi+verbs 10.7.0.77:7000
    check "ofi+verbs offers nothing that cannot be opened" 20 offers_no 'rxe0-dgram\|verbs;ofi_rxd'
    check "ofi+verbs names the addresses that there are" 20 names_addresses
    check "ofi+verbs is described" 20 is_described
}

listens() {
    hg_info --listen --init "ofi+verbs://$1" | tee /tmp/listens && grep -q "$1" /tmp/listens
}

# Usage: tells_absence <fabric> <address where no process listens>
tells_absence() {
    hg_perf rpc --target "$1://$2" --init "$1" --seconds 50 2>&1 | tee /tmp/absence
    grep -q 'an RPC failed: HG_HOSTUNREACH' /tmp/absence && ! grep 'killed by signal' /tmp/absence
}

offers_no() {
    hg_info >/tmp/offers && grep -q rxe0 /tmp/offers && ! grep "$1" /tmp/offers
}

names_addresses() {
    hg_info --check ofi+verbs://127.0.0.1:7010 2>&1 | tee /tmp/named
    grep -q 'it has: rxe0 at 10.7.0.1' /tmp/named
}

is_described() {
    hg_info | grep -A 1 'verbs on rxe0' | grep 'native RMA; registration: FI_MR_'
}
export -f listens tells_absence offers_no names_addresses is_described

# Usage: copy <fabric>; copies a file of several pieces to another process.
copy() {
    head -c 9000001 /dev/urandom >/tmp/source
    rm -f /tmp/destination
    hg_cp --init "$1" /tmp/source /tmp/destination && cmp /tmp/source /tmp/destination
}
export -f copy

job_some() {
    case $1 in
    ofi+verbs) run_tests "$1" hg/test_hg_{forward,revoked} bulk/test_bulk_transfer transport/test_transport_rma ;;
    ucx+rc) run_tests "$1" ucx/test_ucx_ends hg/test_hg_{forward,revoked} bulk/test_bulk_transfer transport/test_transport_{messages,rma} ;;
    ucx+ud) run_tests "$1" bulk/test_bulk_transfer ;;
    esac
}

job_select() {
    run_tests "$1" transport/test_transport_{addresses,contexts,messages,rma,cancel,death} \
        hg/test_hg_{forward,revoked} bulk/test_bulk_{transfer,wire} integration/test_integration_kill
    # A 0 from the user would cause a crash while an endpoint closes.
    [ "$1" != ofi+verbs ] ||
        FI_OFI_RXM_USE_SRX=0 check "$1 integration_kill without shared receives" 300 \
            env AMALGAM_TEST_INIT="$1" "$build/tests/integration/test_integration_kill"
}

# Usage: run_tests <fabric> <program>...
run_tests() {
    local fabric=$1 test
    shift
    for test in "$@"; do
        AMALGAM_TEST_INIT=$fabric check "$fabric ${test##*/test_}" 300 "$build/tests/$test"
    done
}

job_conformance() {
    local plugin=${1%%+*}
    LINES_OF_FAILURE=200 check "$1 na_conformance" 7200 na_conformance --patience 5 \
        --plugin "$NA_PLUGIN_PATH/na_$plugin.so" --init "$1"
}

job_soak() {
    HG_LOG_LEVEL=none check "$1 soak" 14000 "$build/tests/integration/test_integration_soak" \
        --rpcs=100000 --bulks=10000 --kills=10 --seed=7 --seconds=0 "$1"
}

# The origin's side of two nodes. The other side waits for the files that this one writes to the exchange.
job_two_origins() {
    local address
    await "/exchange/two.address.$1" || return
    address=$(cat "/exchange/two.address.$1")
    check "$1 rpc to another node" 180 hg_perf rpc --target "$address" --init "$1" --seconds 1
    check "$1 pull from another node" 180 hg_perf bulk --target "$address" --init "$1" --seconds 1
    check "$1 push to another node" 180 hg_perf bulk --push --target "$address" --init "$1" --seconds 1
    echo kill >"/exchange/two.kill.$1"
    check "$1 death of a peer on another node" 60 fails hg_perf rpc --target "$address" --init "$1" --seconds 50
    check "$1 absence of a peer on another node" 60 fails hg_perf rpc --target "$address" --init "$1" --seconds 50
    copy_to "$1"
}

copy_to() {
    local address
    await "/exchange/two.copy.$1" || return
    address=$(cat "/exchange/two.copy.$1")
    head -c 9000001 /dev/urandom >/exchange/two.source
    check "$1 copy to another node" 60 hg_cp --init "$1" --to "$address" /exchange/two.source
    echo compare >"/exchange/two.compare.$1"
    await "/exchange/two.done.$1"
}

# The other side has the targets; the first is killed while it is called.
job_two_targets() {
    local pid
    hg_perf rpc --listen --init "$1" >/tmp/address 2>/tmp/log &
    pid=$!
    publish "/exchange/two.address.$1"
    await "/exchange/two.kill.$1"
    sleep 4
    kill -KILL $pid
    wait $pid 2>/dev/null
    rm -rf /tmp/copies
    mkdir /tmp/copies
    (cd /tmp/copies && exec hg_cp --listen --init "$1") >/tmp/address 2>/tmp/log &
    pid=$!
    publish "/exchange/two.copy.$1"
    await "/exchange/two.compare.$1"
    check "$1 the copy from another node" 20 cmp /exchange/two.source /tmp/copies/two.source
    kill -TERM $pid
    wait $pid
    echo done >"/exchange/two.done.$1"
}

# Usage: publish <file>; publishes the address that a target has printed.
publish() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        [ ! -s /tmp/address ] || break
        sleep 0.1
    done
    grep -oE '[a-z_;+]+://[^ ]+' /tmp/address | head -n 1 >"$1.part"
    mv "$1.part" "$1"
    : >/tmp/address
}

# Usage: await <file>; runs in this shell, which counts the failure.
await() {
    local tries
    for ((tries = 0; tries < 1800; tries++)); do
        [ ! -e "$1" ] || return 0
        sleep 0.2
    done
    echo "not ok $1: the other guest did not write it" >&2
    failures=$((failures + 1))
    return 1
}

main "$@"
