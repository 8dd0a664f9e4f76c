#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The order of the layers (tools -> hg -> proc -> bulk -> engine -> na -> table -> plugin), checked
# by the includes of every source file.
. "$(dirname "$0")/common.sh"
cd "$AMALGAM_SOURCE_DIR"

sources() {
    find "$@" -name '*.[ch]' 2>/dev/null | sort
}

# Usage: includes <folder>...; prints each file with each of its includes, without brackets or
# quotes.
includes() {
    sources "$@" | xargs -r awk '/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
        split($0, part, /[<">]/)
        print FILENAME, part[2]
    }'
}

# Usage: forbid <layer> <pattern> <folder>...; no file of the folders may include a match.
forbid() {
    local who="$1" pattern="$2" file header
    shift 2
    while read -r file header; do
        [[ ! $header =~ $pattern ]] || fail "$file includes $header, which $who may not"
    done < <(includes "$@")
}

inside='na|engine|bulk|proc|hg|metrics|request'
forbid "a layer above the core" '(^|/)na/' \
    sdk/src/engine sdk/src/bulk sdk/src/proc sdk/src/hg sdk/src/request
forbid "what all layers share" "(^|/)($inside)/" sdk/src/util
forbid "the core" '(^|/)(engine|bulk|proc|hg|request)/|^mercury(_.*)?\.h$' sdk/src/na
forbid "the engine" '(^|/)(bulk|proc|hg|request)/' sdk/src/engine
forbid "the bulk layer" '(^|/)(proc|hg|request)/' sdk/src/bulk
forbid "the proc layer" '(^|/)(hg|request)/' sdk/src/proc
forbid "the RPC layer" '(^|/)(metrics|request)/' sdk/src/hg
forbid "what is beside the RPC layer" "(^|/)($inside)/" sdk/src/metrics sdk/src/request
forbid "a public header" "^($inside|util)/" sdk/include
forbid "a tool" "(^|/)($inside|util)/|^na_plugin(_.*)?\.h$" \
    tools/common tools/hg_cp tools/hg_info tools/hg_perf
forbid "an example" "(^|/)($inside|util)/|^na_plugin(_.*)?\.h$" examples
forbid "what certifies plugins" "(^|/)($inside|util)/|^(na|na_ext|mercury.*)\.h$" \
    tools/na_conformance

# Of our headers, a plugin includes only na_plugin.h and its extensions; besides these, the kit, its
# own files, and headers of the system.
while read -r file header; do
    folder=${file#*/}
    folder=${file%%/*}/${folder%%/*}
    path="${file%/*}/$header"
    [[ $header != *..* ]] || path=$(realpath -m --relative-to=. "$path")
    if [[ -f $path ]]; then
        [[ $path == "$folder"/* ]] ||
            fail "$file includes $path, which is not of its plugin"
    elif [[ -f sdk/include/$header && ! $header =~ ^na_plugin(_.*)?\.h$ ]]; then
        fail "$file includes $header; of ours a plugin includes na_plugin.h and its extensions alone"
    fi
done < <(includes plugins plugin-template)

# The core names no plugin, except in comments.
while read -r line; do
    fail "the core names a plugin: $line"
done < <(sources sdk/src/na | xargs -r grep -nE '"(na_)?(sm|ofi|ucx|mpi|bmi|fault)"' |
    matching -v '^[^:]*:[0-9]+: */?\*')

while read -r file; do
    fail "$file does not begin with its licence"
done < <(sources sdk plugins plugin-template examples tools tests |
    xargs awk 'FNR == 1 && $0 != "/* SPDX-License-Identifier: BSD-3-Clause */" { print FILENAME }')
finish "$(sources sdk plugins plugin-template examples tools tests | wc -l) files"
