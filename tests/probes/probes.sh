#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Usage: probes.sh <readelf> <page> <library>; compares name and number of arguments of the probes.
set -euo pipefail

# Commas within parentheses separate no arguments.
documented=$(sed -nE 's/^\| `([a-z_]+)` \|.*\| ([^|]+) \|$/\1\t\2/p' "$2" | sed -E 's/\([^)]*\)//g' |
    awk -F '\t' '{print $1, split($2, arguments, ",")}' | sort)
# An argument is written size@place; a place in memory may have blanks in it, but no @.
built=$("$1" -n "$3" | awk '$1 == "Provider:" { ours = $2 == "amalgam" }
    $1 == "Name:" && ours { name = $2 }
    $1 == "Arguments:" && ours { print name, gsub("@", "") }' | sort -u)
[ "$(wc -l <<<"$documented")" -ge 9 ] || {
    echo "$2 lists $(wc -l <<<"$documented") probes; is its table as it was?" >&2
    exit 1
}
diff <(echo "$documented") <(echo "$built") || {
    echo "< is in $2, > in $3: probe, number of arguments" >&2
    exit 1
}
sites=$("$1" -n "$3" | grep -c 'Provider: amalgam')
echo "$(wc -l <<<"$built") probes at $sites places"
