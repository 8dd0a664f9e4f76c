#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Usage: commands.sh <page>; runs its blocks of shell one after the other, as they stand there but for
# the prefix, in a folder that has the examples and the first block of C of the page as sum.c.
. "$(dirname "$0")/../install/common.sh"

page=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cp -r "$AMALGAM_SOURCE_DIR/examples" .
awk '/^```$/ { exit in_block = 0 } in_block { print } /^```c$/ { in_block = 1 }' "$page" >sum.c
awk '/^```$/ { in_block = 0 } in_block { print } /^```sh$/ { in_block = 1 }' "$page" |
    sed "s|/opt/amalgam|$AMALGAM_PREFIX|g" >shown
[ -s shown ] || fail "$page has no commands"
{
    echo "trap 'kill \$(jobs -p) 2>/dev/null || true' EXIT" # what is left when a command fails
    cat shown
} >commands

# Lines of the form "command   # prints: TEXT" say what comes out.
sed -nE 's/.*# prints: (.*)/\1/p' shown >expected
unset PKG_CONFIG_PATH
export PATH=$AMALGAM_PREFIX/bin:$PATH
# Open MPI's mpiexec, where root runs the tests or there are few cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
timeout 800 bash -eu commands >printed 2>errors </dev/null || {
    cat printed errors
    fail "the commands of $page end with an error"
}
while read -r line; do
    grep -qF -e "$line" printed || {
        cat printed errors
        fail "the commands of $page do not print '$line'"
    }
done <expected
finish "$(grep -c . shown) lines"
