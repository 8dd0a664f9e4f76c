#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the packages in a root that has nothing else of ours, and uses them there. A hook of
# mmdebstrap, which passes the root; PACKAGES is the folder of the packages, CLIENT a program for
# Mercury.

set -euo pipefail
root=$1

main() {
    mkdir -p "$root/packages/dev"
    cp "$PACKAGES"/*.deb "$root/packages/"
    rm -f "$root"/packages/*-dbgsym_*.deb
    mv "$root"/packages/*-dev_*.deb "$root/packages/dev/"
    install_packages '/packages/*.deb'
    echo "installed: $(in_root dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' '*amalgam*' |
        awk '$1 == "ii" { print $2 }' | xargs)"

    expect_plugins "all" bmi fault mpi mpich ofi sm ucx
    call na+sm
    call ofi+tcp
    call ucx+tcp
    call bmi+tcp
    call "fault+na+sm://?delay_us=10"

    build_for_mercury

    in_root dpkg -r amalgam-plugin-ofi >/dev/null
    expect_plugins "without ofi" bmi fault mpi mpich sm ucx
    call na+sm
    call ucx+tcp
    expect_refusal ofi+tcp "ofi"

    # What the plugins depend on is the ABI's major, which the libraries provide.
    ! in_root dpkg --simulate -r libamalgam1 >"$PACKAGES/remove.log" 2>&1 ||
        die "libamalgam1 can be removed below its plugins"
    grep -qE "amalgam-plugin-sm(:[a-z0-9]+)? depends on amalgam-plugin-abi-" \
        "$PACKAGES/remove.log" || {
        cat "$PACKAGES/remove.log"
        die "the plugins do not depend on the ABI's virtual package"
    }
    in_root dpkg -r amalgam-plugin-bmi amalgam-plugin-fault amalgam-plugin-mpi amalgam-plugin-mpich \
        amalgam-plugin-sm amalgam-plugin-ucx amalgam-tools libamalgam-util1 libamalgam1 >/dev/null
    left=$(find "$root/usr" -name '*amalgam*' -not -path '*/doc/*')
    [ -z "$left" ] || die "left behind: $left"
    echo "removed, and nothing is left behind"
}

die() {
    echo "clean_root.sh: $*" >&2
    exit 1
}

in_root() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        DEBIAN_FRONTEND=noninteractive "$@"
}

# Usage: install_packages <pattern or name>...
install_packages() {
    in_root sh -c "apt-get -qq install -y --no-install-recommends \
        -o Dpkg::Options::=--force-unsafe-io $*" >"$PACKAGES/install.log" 2>&1 || {
        cat "$PACKAGES/install.log"
        die "$* cannot be installed"
    }
}

# A program that was written for Mercury, by what the packages for developers bring, and nothing
# but the packages of its run time afterwards.
build_for_mercury() {
    install_packages '/packages/dev/*.deb' gcc libc6-dev pkg-config
    cp "$CLIENT" "$root/packages/client.c"
    in_root sh -c 'gcc -std=c11 -Wall -Wextra -Werror -o /packages/client /packages/client.c \
        $(pkg-config --cflags --libs mercury)' || die "no program for Mercury can be built"
    in_root dpkg -r libamalgam-mercury-dev libamalgam-dev >/dev/null
    in_root /packages/client || die "the program for Mercury ended with $?"
    echo "built by pkg-config mercury: a program for Mercury makes an RPC"
}

# Usage: expect_plugins <what> <name>...; hg_info shows exactly these.
expect_plugins() {
    local what=$1 shown
    shift
    shown=$(in_root hg_info | awk '$1 == "plugin" && NF == 2 { print $2 }' | sort | xargs)
    [ "$shown" = "$*" ] || die "$what: hg_info shows '$shown', and not '$*'"
    echo "hg_info, $what: $shown"
}

# Usage: call <init string>; RPCs from one process to another.
call() {
    local report rate
    report=$(in_root hg_perf rpc --seconds 1 --init "$1" --json) || die "hg_perf over $1 failed"
    [[ $report =~ \"rate_per_s\":\ *([0-9]+) ]] && rate=${BASH_REMATCH[1]} ||
        die "hg_perf over $1 printed no rate: $report"
    [ "$rate" -gt 0 ] || die "hg_perf over $1 made no call"
    echo "hg_perf over $1: $rate RPCs per second between two processes"
}

# Usage: expect_refusal <init string> <text>
expect_refusal() {
    local report
    ! report=$(in_root hg_info --init "$1" 2>&1) || die "$1 can still be opened"
    grep -q "$2" <<<"$report" || die "$1 is refused, but not with '$2': $report"
    echo "hg_info --init $1: $(head -n 1 <<<"$report" | cut -c1-160)"
}

main
