#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program in two processes with the libraries of two releases and the plugins of one, in both directions:
#     mixed.sh <program> <folder of libraries> <other folder of libraries> <folder of the plugins>
# docs/upgrading.md says that they talk to each other.
. "$(dirname "$0")/common.sh"

program=$1
export NA_PLUGIN_PATH=$4

# Usage: call <libraries of the target> <those of the origin>
call() {
    local pid address answer
    coproc target { LD_LIBRARY_PATH=$1 exec "$program"; }
    pid=$target_PID
    read -r -t 30 address <&"${target[0]}" || fail "no target over the libraries in $1"
    answer=$(LD_LIBRARY_PATH=$2 timeout 60 "$program" "$address") || true
    [ "$answer" = "2 + 3 = 5" ] || {
        fail "an origin over the libraries in $2 gets '$answer' from a target over those in $1"
        kill "$pid" 2>/dev/null || true
    }
    wait "$pid" || fail "the target over the libraries in $1 ended with $?"
}

[ -e "$2/libamalgam-hg.so.1" ] || skip "there are no libraries in $2"
call "$2" "$3"
call "$3" "$2"
finish "both directions"
