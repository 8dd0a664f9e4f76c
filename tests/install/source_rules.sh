#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The arrows between the layers (tools -> hg, bulk, proc -> na -> table -> plugin), by the includes
# of every source file.
. "$(dirname "$0")/common.sh"
cd "$AMALGAM_SOURCE_DIR"

sources() {
    find "$@" -name '*.[ch]' 2>/dev/null | sort
}

# Usage: includes <file>; prints what it includes, without brackets and quotes.
includes() {
    sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^>"]+)[>"].*/\1/p' "$1"
}

# Usage: forbid <who> <pattern> <folder>...; no file of the folders includes a match.
forbid() {
    local who="$1" pattern="$2" file header
    shift 2
    while read -r file; do
        while read -r header; do
            fail "$file includes $header, which $who may not"
        done < <(includes "$file" | matching "$pattern")
    done < <(sources "$@")
}

forbid "a layer above the core" '(^|/)na/' \
    sdk/src/hg sdk/src/bulk sdk/src/proc sdk/src/request
forbid "the core" '(^|/)(hg|bulk|proc|request)/|^mercury(_.*)?\.h$' sdk/src/na
forbid "what all layers share" '(^|/)(na|hg|bulk|proc|request)/' sdk/src/util
forbid "a public header" '^(na|hg|bulk|proc|request|util)/' sdk/include
forbid "a tool" '(^|/)(na|hg|bulk|proc|request|util)/|^na_plugin\.h$' \
    tools/common tools/hg_cp tools/hg_info tools/hg_perf
forbid "what certifies plugins" '(^|/)(na|hg|bulk|proc|request|util)/|^(na|na_ext|mercury.*)\.h$' \
    tools/na_conformance

# A plugin includes na_plugin.h of ours, its own files, and the system's.
while read -r file; do
    folder=$(cut -d/ -f1-2 <<<"$file")
    while read -r header; do
        path=$(realpath -m --relative-to=. "$(dirname "$file")/$header")
        if [[ -f $path ]]; then
            [[ $path == "$folder"/* || $path == plugins/twosided/* ]] ||
                fail "$file includes $path, which is not of its plugin"
        elif [[ -f sdk/include/$header && $header != na_plugin.h ]]; then
            fail "$file includes $header; of ours a plugin includes na_plugin.h alone"
        fi
    done < <(includes "$file")
done < <(sources plugins)

# The core never names a plugin, but in comments.
while read -r line; do
    fail "the core names a plugin: $line"
done < <(sources sdk/src/na | xargs -r grep -nE '"(na_)?(sm|ofi|ucx|mpi|bmi|fault)"' |
    matching -v '^[^:]*:[0-9]+: */?\*')

while read -r file; do
    [ "$(head -n 1 "$file")" = '/* SPDX-License-Identifier: BSD-3-Clause */' ] ||
        fail "$file does not begin with its licence"
done < <(sources sdk plugins tools tests)
finish "$(sources sdk plugins tools tests | wc -l) files"
