#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a program over one core and one plugin:
#     pair.sh <program> <init> <folder of the core> <folder of the plugin> <folder of today's RPC>
# A folder of a core that has no RPC library is used with today's.
. "$(dirname "$0")/common.sh"

program=$1 init=$2 core=$3 plugin=$4 rpc=$5
[ -e "$core/libamalgam-na.so.1" ] || skip "there is no core in $core"
LD_LIBRARY_PATH="$core:$rpc" NA_PLUGIN_PATH="$plugin" "$program" "$init" "$core" "$plugin" ||
    fail "$init over the core in $core ended with $?"
finish "$init"
