#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Usage: two_processes.sh <program>; a target, and an origin that calls it.
coproc target { exec "$1"; }
pid=$target_PID
read -r -t 30 address <&"${target[0]}"
"$1" "$address" && wait "$pid" && echo "both ended"
