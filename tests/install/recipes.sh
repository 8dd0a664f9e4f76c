#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The recipes of packaging/ agree with the build in versions, options, dependencies and packages,
# and leave the lists of installed files to CMake. Needs neither a network nor a package manager.
. "$(dirname "$0")/common.sh"
cd "$AMALGAM_SOURCE_DIR"

spack=packaging/spack/spack_repo/amalgam/packages/amalgam/package.py
easyconfig=$(echo packaging/easybuild/Amalgam-*.eb)
container=packaging/container/Containerfile
control=packaging/debian/control
rules=packaging/debian/rules
spec=packaging/rpm/amalgam.spec
version=$(sed -nE 's/^project\(amalgam VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
checks=0

# The modules that CMake looks for by pkg-config, and their names in the recipes. BMI is part of its
# plugin, and only the tests need cmocka.
names() {
    cat <<'END'
libxxhash  xxhash     xxHash     libxxhash-dev
libsodium  libsodium  libsodium  libsodium-dev
json-c     json-c     json-c     libjson-c-dev
libfabric  libfabric  libfabric  libfabric-dev
hwloc      hwloc      hwloc      libhwloc-dev
ucx        ucx        UCX        libucx-dev
ompi-c     mpi        gompi      libopenmpi-dev
mpich      mpi        -          libmpich-dev
END
}

main() {
    versions
    options
    dependencies
    syntax
    packages_of_the_container
    no_lists_of_files
    pages
    [ "$checks" -ge 150 ] || fail "only $checks checks were made: the patterns fit the recipes no more"
    finish "$checks checks of the recipes"
}

# Usage: expect <text> <command>...; the command succeeds.
expect() {
    local text=$1
    shift
    checks=$((checks + 1))
    "$@" >/dev/null || fail "$text"
}

# The test docs_versions compares the versions of the .deb and the .rpm.
versions() {
    [ -n "$version" ] || fail "CMakeLists.txt states no version"
    expect "$spack: its newest version is not $version" \
        test "$(sed -nE 's/^ +version\("([^"]+)".*/\1/p' $spack | head -n 1)" = "$version"
    expect "$spack has no address of the class's own for $version, without which Spack looks for no archive" \
        grep -qE "^    url = .*/amalgam-$version\.tar\.gz\"" $spack
    expect "$easyconfig is not of version $version" grep -qx "version = '$version'" "$easyconfig"
    expect "the name of $easyconfig is not of version $version" \
        test "${easyconfig#packaging/easybuild/Amalgam-"$version"-}" != "$easyconfig"
}

# Prints the options of the build, one per line, with their possible values if these are listed.
declared_options() {
    cat CMakeLists.txt cmake/*.cmake sdk/CMakeLists.txt plugins/*/CMakeLists.txt tests/CMakeLists.txt |
        tr '\n' ' ' | sed -E 's/(option|set|set_property)\(/\n\1(/g' |
        sed -nE 's/^option\(([A-Z_]+) .*/\1 ON OFF True False/p
            s/^set_property\(CACHE ([A-Z_]+) PROPERTY STRINGS ([^)]*)\).*/\1 \2 True False/p'
}

# Usage: used_options <recipe>; prints each option that the recipe sets, with its value if that is a
# literal.
used_options() {
    grep -oE '(-D|define(_from_variant)?\(")(AMALGAM|NA)_[A-Z_]+("?, |=)?[A-Za-z]*' "$1" |
        sed -E 's/^(-D|define(_from_variant)?\(")//; s/("?, |=)/ /; s/ self$//'
}

options() {
    local recipe name value values
    declared_options >"$scratch/declared"
    for recipe in $spack "$easyconfig" $rules $spec; do
        used_options "$recipe" >"$scratch/used"
        while read -r name value; do
            expect "$recipe sets $name, which is no option of the build" \
                grep -qE "^$name( |$)" "$scratch/declared"
            values=$(sed -nE "s/^$name //p" "$scratch/declared")
            [ -z "$value" ] ||
                expect "$recipe sets $name to $value, and not to one of $values" \
                    grep -qwF -e "$value" <<<"$values"
        done <"$scratch/used"
        # Each recipe turns every optional transport on or off, so that the result does not depend
        # on the machine.
        while read -r name; do
            expect "$recipe does not decide on $name" grep -qE "^$name( |$)" "$scratch/used"
        done < <(grep -hoE '^set\(NA_[A-Z]+ ' plugins/*/CMakeLists.txt | tr -d ' ' | sed 's/^set(//')
    done
    while read -r value; do
        expect "$spack has the value $value, which no option of a transport has" \
            grep -qE "^NA_.* $value( |$)" "$scratch/declared"
    done < <(grep -oE '(return |else )"[A-Za-z]+"|"[A-Za-z]+" if' $spack | sed -E 's/.*"(.*)".*/\1/')
}

# Prints each module that the build looks for, with the minimum version if there is one.
wanted_modules() {
    sed -nE 's/^ *pkg_(check|search)_modules?\(//p' CMakeLists.txt plugins/*/CMakeLists.txt \
        tools/common/CMakeLists.txt | tr -d ')' |
        sed -E 's/^[A-Z_]+ //; s/(REQUIRED|IMPORTED_TARGET|GLOBAL) //g; s/^ompi-c ompi$/ompi-c/' |
        grep -vx bmi | sed 's/>=/ /'
}

# Usage: least <version> <version>; succeeds if the first one is not newer than the second.
least() {
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

dependencies() {
    local module minimum in_spack in_eb in_debian
    wanted_modules >"$scratch/modules"
    while read -r module minimum; do
        expect "CMake looks for $module, of which $0 has no names" \
            grep -qE "^$module " <(names)
        read -r in_spack in_eb in_debian < <(names | sed -nE "s/^$module +//p")
        dependency "$module" "$minimum"
    done <"$scratch/modules"
    while read -r module _; do
        expect "$0 names $module, for which CMake does not look" grep -qE "^$module( |$)" "$scratch/modules"
    done < <(names)

    # The recipes have no further dependencies.
    while read -r module; do
        expect "$spack depends on $module, for which CMake does not look" \
            grep -qxF -e "$module" <(names | awk '{ print $2 }' && printf '%s\n' c cmake pkgconfig boost)
    done < <(sed -nE 's/^ +depends_on\("([a-z0-9-]+).*/\1/p' $spack)
    while read -r module; do
        expect "$easyconfig depends on $module, for which CMake does not look" \
            grep -qxF -e "$module" <(names | awk '{ print $3 }' && printf '%s\n' CMake Ninja pkgconf)
    done < <(sed -nE "s/^ +\('([A-Za-z0-9-]+)', .*/\1/p" "$easyconfig")
}

# Usage: dependency <module> <minimum version or nothing>; uses the names that the caller has read.
dependency() {
    local from=$2 stated
    expect "$spack does not depend on $in_spack" grep -qE "depends_on\(\"$in_spack[\"@]" $spack
    expect "$control does not depend on $in_debian" grep -qE "^ +$in_debian[ ,]" $control
    expect "$spec does not depend on $1" grep -qE "pkgconfig\($1\)" $spec
    if [ "$in_eb" != - ]; then
        stated=$(sed -nE "s/^ +\('$in_eb', '([0-9.]+)'\),/\1/p; s/.*'name': '$in_eb', 'version': '([^']+)'.*/\1/p" \
            "$easyconfig")
        expect "$easyconfig does not depend on $in_eb" test -n "$stated"
        [ -z "$from" ] || expect "$easyconfig takes $in_eb $stated, and the build wants $from" least "$from" "$stated"
    fi
    [ -n "$from" ] || return 0
    expect "$spack does not take $in_spack from ${from%.0} on" \
        grep -qE "depends_on\(\"$in_spack@${from%.0}:" $spack
    [ "$1" = hwloc ] || { # no distribution with the other packages has an older hwloc
        expect "$control does not take $in_debian from $from on" grep -qE "$in_debian \(>= $from\)" $control
        expect "$spec does not take $1 from $from on" grep -qE "pkgconfig\($1\) >= $from" $spec
    }
}

syntax() {
    local recipe
    command -v python3 >/dev/null || return 0
    for recipe in $spack "$easyconfig"; do
        expect "$recipe is no Python" python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$recipe"
    done
}

# The container installs packages by name, and each of its transports has a package.
packages_of_the_container() {
    local name
    while read -r name; do
        expect "$container takes the package $name, which $control has not" \
            grep -qx "Package: $name" $control
    done < <({
        grep -oE '\./[a-z0-9-]+_\*\.deb' $container | sed -E 's/^\.\///; s/_\*\.deb$//'
        sed -nE 's/^ARG TRANSPORTS="(.*)"/\1/p' $container | tr ' ' '\n' | sed 's/^/amalgam-plugin-/'
    })
}

no_lists_of_files() {
    local recipe
    for recipe in $spack "$easyconfig" $container; do
        expect "$recipe lists files that CMake installs" \
            test -z "$(grep -E '(na_|lib)[a-z_-]+\.(so|a)|\.(pc|h)\b' "$recipe")"
    done
}

# Pages link to each other, so that the .deb and the .rpm contain the whole folder of pages, and the
# site and the manual pages that scripts/docs.sh creates.
pages() {
    local recipe folder list
    for recipe in $rules $spec; do
        expect "$recipe does not say where pages are installed" test -n "$(folder_of_pages $recipe)"
        expect "$recipe does not make the site" grep -qE '^\s*scripts/docs\.sh build/docs$' $recipe
    done
    folder=$(folder_of_pages $rules)
    list=packaging/debian/${folder##*/}
    expect "$list.install does not take all of usr/$folder" grep -qxF -e "usr/$folder" "$list.install"
    expect "$list.docs does not take the site" grep -qxF 'build/docs/html' "$list.docs"
    expect "$list.manpages does not take the manual pages" grep -qxF 'build/docs/man/man3/*.3' "$list.manpages"

    folder=$(folder_of_pages $spec)
    list="%{_datadir}/${folder#share/}"
    sed -n '/^%files doc$/,/^$/p' $spec >"$scratch/doc"
    expect "$spec does not take all of $list" grep -qxF "%doc $list" "$scratch/doc"
    expect "$spec does not take the manual pages" grep -qxF '%{_mandir}/man3/*' "$scratch/doc"
    expect "$spec does not put the site into $list" grep -qxF "cp -r build/docs/html %{buildroot}$list/" $spec
    expect "$spec does not put the manual pages into man3" grep -qxF 'cp -r build/docs/man/man3 %{buildroot}%{_mandir}/' $spec
}

# Usage: folder_of_pages <recipe>; prints the folder of the pages, relative to the prefix.
folder_of_pages() {
    sed -nE 's/.*-DCMAKE_INSTALL_DOCDIR=([^ ]+).*/\1/p' "$1"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
main
