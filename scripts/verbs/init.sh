#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The first process of a guest of scripts/verbs.sh: makes an RDMA device over the network card, mounts the
# host's tree, runs the job and switches the machine off.

main() {
    export HOME=/root PATH=/usr/sbin:/usr/bin LC_ALL=C
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t devtmpfs dev /dev
    mkdir -p /dev/shm /tmp /run /root /exchange
    mount -t tmpfs shm /dev/shm
    mount -t tmpfs tmp /tmp
    load_modules
    read_command_line
    mkdir -p "$tree"
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro tree "$tree" &&
        mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072,cache=none exchange /exchange &&
        make_device && run_job
    sync
    echo o >/proc/sysrq-trigger
    sleep 60
}

# The modules are in the order of their dependencies.
load_modules() {
    local module
    for module in /modules/*.ko; do
        insmod "$module"
    done
}

# Exports tree, build, host, job and fabrics.
read_command_line() {
    local word
    for word in $(cat /proc/cmdline); do
        case $word in
        tree=* | build=* | host=* | job=* | fabrics=*) export "${word?}" ;;
        esac
    done
}

# The device uses frames of 4 KiB if the network allows them.
make_device() {
    hostname "amalgam$host"
    # librdmacm resolves the host's own name.
    printf '127.0.0.1 localhost\n10.7.0.1 amalgam1\n10.7.0.2 amalgam2\n' >/etc/hosts
    echo 'hosts: files' >/etc/nsswitch.conf
    ip link set lo up
    ip link set eth0 mtu 4200 up &&
        ip address add "10.7.0.$host/24" dev eth0 &&
        rdma link add rxe0 type rxe netdev eth0
}

run_job() {
    cd "$tree" || return
    ulimit -l unlimited
    ulimit -n 8192
    bash "$tree/scripts/verbs/job.sh" "$job" >"/exchange/$host.out" 2>&1 </dev/null
    echo $? >"/exchange/$host.status"
}

main
