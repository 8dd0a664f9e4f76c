#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs programs as two jobs of Open MPI that find each other through an ompi-server: run_jobs.sh
# MPIEXEC INIT_STRING PEER TEST [ARG]... PEER serves until TEST has ended.
set -u
mpiexec=$1 init=$2 peer=$3
shift 3

work=$(mktemp -d)
here=$(dirname "$0")
"$here/ompi_server.sh" start "$work/server" || exit 1
trap '"$here/ompi_server.sh" stop "$work/server"; rm -rf "$work"' EXIT
options=(--oversubscribe --ompi-server "file:$work/server" -n 1)
[ "$(id -u)" != 0 ] || options=(--allow-run-as-root "${options[@]}")
printf '#!/bin/sh\necho $$ >"%s/pid"\nexec "$@"\n' "$work" >"$work/peer"
chmod +x "$work/peer"

# The peer ends when its input does.
mkfifo "$work/input"
"$mpiexec" "${options[@]}" "$work/peer" "$peer" "$init" ${PEER_OPTION-plain} \
    <"$work/input" >"$work/address" &
job=$!
exec 7>"$work/input"
for ((i = 0; i < 200; i++)); do
    [ ! -s "$work/address" ] || break
    sleep 0.05
done
AMALGAM_TEST_PEER_ADDRESS=$(head -n 1 "$work/address")
[ -n "$AMALGAM_TEST_PEER_ADDRESS" ] || exit 1
export AMALGAM_TEST_PEER_ADDRESS

AMALGAM_TEST_INIT=$init AMALGAM_TEST_RESULT=$work/result AMALGAM_TEST_PEER_PID=$work/pid \
    "$mpiexec" "${options[@]}" "$@" 7>&-
status=$?
exec 7>&-
wait "$job"
job_status=$?
[ -e "$work/result" ] || exit "$status"
result=$(cat "$work/result")
[ "$result" != 0 ] || [ -n "${RECOVER-}" ] || exit "$((status != 0 ? status : job_status))"
exit "$result"
