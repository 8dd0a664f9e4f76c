#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a test of NA as rank 0; the other ranks are agents, which act as peers when the test requests
# it: run_agents.sh MPIEXEC INIT_STRING PEERS PEER TEST
set -u
mpiexec=$1 init=$2 peers=$3 peer=$4 test=$5

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
options=()
case $("$mpiexec" --version 2>&1) in
*OpenRTE* | *"Open MPI"* | *PRRTE*)
    options=(--oversubscribe)
    [ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)
    ;;
esac
AMALGAM_TEST_INIT=$init AMALGAM_TEST_AGENTS=$folder \
    "$mpiexec" "${options[@]}" -n 1 "$test" : -n "$peers" "$peer" "$init" agent "$folder" </dev/null
