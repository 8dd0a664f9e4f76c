# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder. The variables are set in CMakeLists.txt, beside this file.

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
failures=0

# The tests use the installed prefix alone, so that nothing may lead back to the build tree.
unset NA_PLUGIN_PATH LD_LIBRARY_PATH
export PKG_CONFIG_PATH="${AMALGAM_LIBDIR}/pkgconfig"

fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}

finish() {
    [ "$failures" -eq 0 ] || {
        echo "$failures failure(s)" >&2
        exit 1
    }
    echo "ok: $*"
}

# Prints the lines of stdin that match the pattern; unlike with grep, no match is not an error.
matching() {
    grep -E "$@" || [ $? -eq 1 ]
}

fresh_directory() {
    rm -rf "$1"
    mkdir -p "$1"
}
