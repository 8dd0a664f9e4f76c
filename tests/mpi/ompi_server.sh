#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The server by which jobs of Open MPI find each other: ompi_server.sh start|stop FILE. The server
# writes its address to FILE, for OMPI_MCA_pmix_server_uri=file:FILE.
set -u
file=$2

case $1 in
start)
    rm -f "$file"
    ompi-server --no-daemonize -r "$file" </dev/null >/dev/null 2>&1 &
    echo $! >"$file.pid"
    for ((i = 0; i < 200; i++)); do
        [ ! -s "$file" ] || exit 0
        sleep 0.05
    done
    echo "ompi-server does not start" >&2
    exit 1
    ;;
stop)
    kill "$(cat "$file.pid")"
    rm -f "$file" "$file.pid"
    ;;
*)
    echo "usage: ompi_server.sh start|stop FILE" >&2
    exit 2
    ;;
esac
