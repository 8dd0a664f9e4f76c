#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The arrows between the layers (tools -> hg, bulk, proc -> na -> table -> plugin), by the includes
# of every source file.
. "$(dirname "$0")/common.sh"
cd "$AMALGAM_SOURCE_DIR"

sources() {
    find "$@" -name '*.[ch]' 2>/dev/null | sort
}

# Usage: includes <folder>...; prints each file and what it includes, without brackets and quotes.
includes() {
    sources "$@" | xargs -r awk '/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
        split($0, part, /[<">]/)
        print FILENAME, part[2]
    }'
}

# Usage: forbid <who> <pattern> <folder>...; no file of the folders includes a match.
forbid() {
    local who="$1" pattern="$2" file header
    shift 2
    while read -r file header; do
        [[ ! $header =~ $pattern ]] || fail "$file includes $header, which $who may not"
    done < <(includes "$@")
}

forbid "a layer above the core" '(^|/)na/' \
    sdk/src/hg sdk/src/bulk sdk/src/proc sdk/src/request
forbid "the core" '(^|/)(hg|bulk|proc|request)/|^mercury(_.*)?\.h$' sdk/src/na
forbid "what all layers share" '(^|/)(na|hg|bulk|proc|request)/' sdk/src/util
forbid "a public header" '^(na|hg|bulk|proc|request|util)/' sdk/include
forbid "a tool" '(^|/)(na|hg|bulk|proc|request|util)/|^na_plugin\.h$' \
    tools/common tools/hg_cp tools/hg_info tools/hg_perf
forbid "an example" '(^|/)(na|hg|bulk|proc|request|util)/|^na_plugin\.h$' examples
forbid "what certifies plugins" '(^|/)(na|hg|bulk|proc|request|util)/|^(na|na_ext|mercury.*)\.h$' \
    tools/na_conformance

# A plugin includes na_plugin.h of ours, the kit, its own files, and the system's.
while read -r file header; do
    folder=${file#*/}
    folder=${file%%/*}/${folder%%/*}
    path="${file%/*}/$header"
    [[ $header != *..* ]] || path=$(realpath -m --relative-to=. "$path")
    if [[ -f $path ]]; then
        [[ $path == "$folder"/* ]] ||
            fail "$file includes $path, which is not of its plugin"
    elif [[ -f sdk/include/$header && $header != na_plugin.h ]]; then
        fail "$file includes $header; of ours a plugin includes na_plugin.h alone"
    fi
done < <(includes plugins plugin-template)

# The core never names a plugin, but in comments.
while read -r line; do
    fail "the core names a plugin: $line"
done < <(sources sdk/src/na | xargs -r grep -nE '"(na_)?(sm|ofi|ucx|mpi|bmi|fault)"' |
    matching -v '^[^:]*:[0-9]+: */?\*')

while read -r file; do
    fail "$file does not begin with its licence"
done < <(sources sdk plugins plugin-template examples tools tests |
    xargs awk 'FNR == 1 && $0 != "/* SPDX-License-Identifier: BSD-3-Clause */" { print FILENAME }')
finish "$(sources sdk plugins plugin-template examples tools tests | wc -l) files"
