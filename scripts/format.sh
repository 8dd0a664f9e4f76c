#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Formats every C and C++ file; with --check it only lists the files that are not formatted.
. "$(dirname "$0")/lib.sh"

case ${1-} in
'') action=-i ;;
--check) action='--dry-run -Werror' ;;
*) die "usage: format.sh [--check]" ;;
esac

install_missing format
version=$(clang-format --version | grep -oE '[0-9]+' | head -n 1)
[ "$version" = 14 ] || die "clang-format is version $version; .clang-format is written for 14"
sources=$(find sdk plugins plugin-template examples dropin tools tests abi-tests -path 'abi-tests/v*' -prune -o -name '*.[ch]' -print -o \
    -name '*.[ch]pp' -print | sort)
clang-format $action $sources

# clang-format does not wrap comments, so their width is checked here.
! grep -nE '^.{101,}$' $sources || die "the lines above are longer than 100 columns"
