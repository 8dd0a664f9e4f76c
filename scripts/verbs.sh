#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the programs of the gcc build over soft RoCE, an RDMA device in software of Debian's kernel, in
# virtual machines that are made once and kept in build/verbs:
#     scripts/verbs.sh [smoke] [some] [select] [two] [conformance] [soak]
#     scripts/verbs.sh check            prints the reason if this machine cannot run the guests
#     scripts/verbs.sh run COMMAND      runs COMMAND in a guest, in the top folder of this tree
# FABRICS replaces ofi+verbs ucx+rc ucx+ud ucx+all, PRESET replaces the build gcc, and ACCELERATOR=tcg
# emulates even where KVM is available.
. "$(dirname "$0")/lib.sh"

fabrics=${FABRICS:-ofi+verbs ucx+rc ucx+ud ucx+all}
build="$root/build/${PRESET:-gcc}"
work="$root/build/verbs"
suite=bookworm

# The libraries of our programs, the tools that make the device, and little else.
packages=bash,coreutils,diffutils,grep,sed,gawk,mount,hostname,procps,kmod,util-linux,iproute2,rdma-core
packages+=,ibverbs-providers,ibverbs-utils,libfabric1,libucx0,libcmocka0,libjson-c5,libsodium23
packages+=,libxxhash0,libhwloc15,linux-image-amd64
modules="crc32_generic virtio_pci virtio_net 9pnet_virtio 9p ipv6 ib_uverbs rdma_ucm rdma_rxe"

guests=() # process ids, by number
is_trial= # of the accelerator
trap 'end_guests' EXIT

main() {
    local job failed=0
    [ $# -gt 0 ] || set -- smoke select two
    case $1 in
    check) check; exit ;;
    run) ;;
    *)
        for job in "$@"; do
            [[ " smoke some select two conformance soak " = *" $job "* ]] ||
                die "unknown job '$job'; there are smoke, some, select, two, conformance, soak, check and run"
        done
        ;;
    esac
    for job in $fabrics; do
        [[ $job =~ ^(ofi|ucx)\+[a-z0-9_]+$ ]] || die "'$job' in FABRICS is no fabric, such as ofi+verbs"
    done
    check || exit 77
    install_missing verbs
    mkdir -p "$work/exchange"
    exec 9>"$work/lock"
    flock -n 9 || die "another run has the guests of this tree, $work; wait for its end"
    make_image
    choose_accelerator
    if [ "$1" = run ]; then
        shift
        printf '%s\n' "$*" >"$work/exchange/script"
        run_job run "${LIMIT:-600}" || die "the command failed"
        return
    fi
    [ -x "$build/bin/hg_perf" ] || die "build the tree first: cmake --preset gcc && cmake --build build/gcc"
    for job in "$@"; do
        say "Soft RoCE ($accelerator): $job"
        case $job in
        two) run_two 2400 || failed=$((failed + 1)) ;;
        smoke | some) run_job "$job" 480 || failed=$((failed + 1)) ;;
        select) run_job select 1800 || failed=$((failed + 1)) ;;
        *) run_job "$job" 14400 || failed=$((failed + 1)) ;;
        esac
    done
    [ $failed -eq 0 ] || die "$failed of the jobs failed, see above"
}

# Prints the reason if this machine cannot run the guests.
check() {
    if [ "$(uname -m)" != x86_64 ]; then
        echo "the guests are of x86_64, this machine is of $(uname -m)"
    elif [ -z "$(missing_packages verbs)" ]; then
        return 0
    elif ! command -v apt-get >/dev/null; then
        echo "missing (names of Debian packages):" $(missing_packages verbs)
    elif [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "missing:" $(missing_packages verbs)"; neither root nor sudo to install them"
    else
        return 0
    fi
    return 1
}

# Makes the guests' kernel and root file system: an archive that the kernel unpacks into memory.
make_image() {
    local stamp release file count=100
    stamp="$suite $packages $modules $(sha256sum <scripts/verbs/init.sh)"
    [ "$(cat "$work/stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "A virtual machine for soft RoCE"
    rm -rf "$work/root" "$work/stamp" "$work/accelerator"
    mkdir -p "$work/root"
    mmdebstrap --quiet --variant=extract --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
        --include="$packages" "$suite" - 2>"$work/image.log" |
        tar -x -C "$work/root" --exclude='./dev/*' || die "no root was made, see $work/image.log"
    release=$(ls "$work/root/lib/modules")
    mv "$work/root/boot/vmlinuz-$release" "$work/vmlinuz"
    PATH=$PATH:/sbin depmod -b "$work/root" "$release"
    mkdir "$work/root/modules"
    modules_of "$release" | while read -r file; do
        cp "$file" "$work/root/modules/$((count++))-$(basename "$file")"
    done
    # Installing the package would make this link, by the system of alternatives.
    ln -s libpsm1/libpsm_infinipath.so.1.16 "$work/root/usr/lib/libpsm_infinipath.so.1"
    rm -rf "$work"/root/{boot,lib/modules,usr/share,var/lib,var/cache}
    install -m 755 scripts/verbs/init.sh "$work/root/init"
    PATH=$PATH:/sbin ldconfig -r "$work/root"
    (cd "$work/root" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/initrd"
    rm -rf "$work/root"
    echo "$stamp" >"$work/stamp"
}

# Usage: modules_of <release>; prints the modules in the order of their dependencies.
modules_of() {
    local module
    for module in $modules; do
        PATH=$PATH:/sbin modprobe -d "$work/root" -S "$1" --show-depends "$module"
    done | sed -nE 's/^insmod ([^ ]*) .*/\1/p' | awk '!seen[$0]++'
}

# /dev/kvm may exist and still start no kernel, so a guest is tried.
choose_accelerator() {
    accelerator=${ACCELERATOR:-}
    [ -z "$accelerator" ] || return 0
    if [ ! -e "$work/accelerator" ]; then
        accelerator=kvm is_trial=yes
        if [ ! -w /dev/kvm ] || ! boot 1 30 user,id=n nothing || ! wait_guest 1; then
            accelerator=tcg
        fi
        is_trial=
        echo "$accelerator" >"$work/accelerator"
    fi
    accelerator=$(cat "$work/accelerator")
}

# Usage: run_job <job> <seconds>
run_job() {
    boot 1 "$2" user,id=n "$1"
    wait_guest 1
}

# Usage: run_two <seconds>; runs two guests, the targets in the second.
run_two() {
    local socket="$work/network" status=0
    rm -rf "$socket" "$work"/exchange/two.*
    boot 1 "$1" "stream,id=n,server=on,addr.type=unix,addr.path=$socket" two_origins
    until [ -S "$socket" ] || ! kill -0 "${guests[1]}" 2>/dev/null; do sleep 0.1; done
    boot 2 "$1" "stream,id=n,server=off,addr.type=unix,addr.path=$socket" two_targets
    wait_guest 1 || status=1
    wait_guest 2 || status=1
    return $status
}

# Usage: boot <number> <seconds> <network> <job>
boot() {
    local number=$1 limit=$2 network=$3 cpu=max
    [ -z "$is_trial" ] || cpu=qemu64,enforce
    rm -f "$work/exchange/$number".*
    timeout "$limit" nice qemu-system-x86_64 -accel "$accelerator" -cpu $cpu -smp 1 -m 1536 \
        -nodefaults -no-user-config -display none -no-reboot -serial "file:$work/$number.console" \
        -kernel "$work/vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 \
net.ifnames=0 tree=$root build=$build host=$number job=$4 fabrics=${fabrics// /,}" \
        -virtfs "local,path=$root,mount_tag=tree,security_model=none,readonly=on,multidevs=remap" \
        -virtfs "local,path=$work/exchange,mount_tag=exchange,security_model=none" \
        -netdev "$network" -device "virtio-net-pci,netdev=n,mac=52:54:00:00:07:0$number" \
        2>"$work/$number.log" 9>&- &
    guests[number]=$!
}

# Usage: wait_guest <number>; prints the output of its job.
wait_guest() {
    local out="$work/exchange/$1.out" status="$work/exchange/$1.status"
    wait "${guests[$1]}" || true
    unset "guests[$1]"
    [ ! -e "$out" ] || sed "s/^/guest $1: /" "$out"
    [ -e "$status" ] || [ -n "$is_trial" ] || {
        echo "guest $1 ended before its job, see $work/$1.log and these, the last lines of $1.console:"
        tail -n 5 "$work/$1.console" || true
    }
    [ "$(cat "$status" 2>/dev/null)" = 0 ]
}

end_guests() {
    local pid
    for pid in "${guests[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
}

main "$@"
