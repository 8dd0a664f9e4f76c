#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs programs as ranks of one MPI_COMM_WORLD: run_ranks.sh MPIEXEC INIT_STRING PEER TEST [ARG]...
# Rank 0 is PEER, which serves until TEST, rank 1, has written its result to the file that
# AMALGAM_TEST_RESULT names. TEST writes it before it ends, because ranks wait for each other in
# MPI_Finalize(). With RECOVER=1 the job survives a rank that is killed, and only TEST's result
# counts.
set -u
mpiexec=$1 init=$2 peer=$3
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(-n)
case $("$mpiexec" --version 2>&1) in
*OpenRTE* | *"Open MPI"* | *PRRTE*)
    options=(--oversubscribe -n)
    [ "$(id -u)" != 0 ] || options=(--allow-run-as-root "${options[@]}")
    [ -z "${RECOVER-}" ] || options=(--enable-recovery "${options[@]}")
    ;;
*)
    [ -z "${RECOVER-}" ] || options=(-disable-auto-cleanup "${options[@]}")
    ;;
esac
printf '#!/bin/sh\necho $$ >"%s/pid"\nexec "$@"\n' "$work" >"$work/peer"
chmod +x "$work/peer"

# The peer ends when its input does, which mpiexec passes to rank 0.
{
    for ((i = 0; i < 2400; i++)); do
        [ ! -e "$work/result" ] || break
        sleep 0.05
    done
} | AMALGAM_TEST_INIT=$init AMALGAM_TEST_RESULT=$work/result AMALGAM_TEST_PEER_PID=$work/pid \
    "$mpiexec" "${options[@]}" 1 "$work/peer" "$peer" "$init" ${PEER_OPTION-plain} : -n 1 "$@"
status=$?
[ -e "$work/result" ] || exit "$status"
result=$(cat "$work/result")
[ "$result" != 0 ] || [ -n "${RECOVER-}" ] || exit "$status"
exit "$result"
