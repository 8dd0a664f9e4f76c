#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the Debian and RPM packages of this tree in build/packages, checks them, and installs the
# Debian packages in a clean root; arguments choose stages:
#     scripts/packages.sh [deb] [root] [rpm]
. "$(dirname "$0")/lib.sh"

version=$(sed -nE 's/^project\(amalgam VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
work="$root/build/packages"
source="$work/amalgam-$version"

main() {
    local stage stages="${*:-deb root rpm}" start
    install_missing build packages docs
    mkdir -p "$work"
    for stage in $stages; do
        start=$SECONDS
        case $stage in
        deb) build_deb ;;
        root) try_in_clean_root ;;
        rpm) build_rpm ;;
        *) die "unknown stage '$stage'; there are deb, root and rpm" ;;
        esac
        echo "$stage: $((SECONDS - start)) s"
    done
}

# Copies the files that git tracks, with uncommitted changes; outside of a repository all files.
export_source() {
    rm -rf "$source"
    mkdir -p "$source"
    list_files | while read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done |
        tar -c --files-from=- | tar -x -C "$source"
}

list_files() {
    git ls-files -co --exclude-standard 2>/dev/null ||
        find . -path ./build -prune -o -type f -print
}

build_deb() {
    say "Debian packages of $version"
    rm -rf "$work/deb"
    export_source
    mkdir "$work/deb"
    tar -C "$work" -cJf "$work/deb/amalgam_$version.orig.tar.xz" "amalgam-$version"
    mv "$source" "$work/deb/"
    cp -r packaging/debian "$work/deb/amalgam-$version/debian"
    (cd "$work/deb/amalgam-$version" && dpkg-buildpackage -us -uc -j"$jobs") \
        >"$work/deb.log" 2>&1 || {
        tail -n 40 "$work/deb.log"
        die "dpkg-buildpackage failed, see $work/deb.log"
    }
    (cd "$work/deb" && ls ./*.deb)
    lintian --allow-root --fail-on error "$work"/deb/*.changes || die "lintian finds errors"
    build_client
    dpkg-deb -x "$work"/deb/libamalgam-doc_*.deb "$work/deb/doc"
    check_pages "$work/deb/doc" libamalgam-doc
}

# Builds a program with nothing but the files of the packages.
build_client() {
    local prefix="$work/deb/prefix" package
    for package in libamalgam1 libamalgam-dev amalgam-plugin-sm; do
        dpkg-deb -x "$work/deb/${package}_$version"-*.deb "$prefix"
    done
    (
        export PKG_CONFIG_PATH
        PKG_CONFIG_PATH=$(echo "$prefix"/usr/lib/*/pkgconfig)
        gcc -std=c11 -Wall -Wextra -Werror -o "$prefix/client" tests/install/client.c \
            $(pkg-config --cflags --libs amalgam-hg)
        LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") "$prefix/client"
    ) || die "no program can be built with libamalgam-dev"
}

# Usage: check_pages <folder> <package>; <folder> has the files of the package. Checks that the targets of all links of
# the pages, the site and a manual page are there.
check_pages() {
    local file
    bash tests/docs/check.sh links "$1/usr/share/doc/$2" || die "pages of $2 link to nothing"
    for file in "$1"/usr/share/doc/*/html/index.html "$1"/usr/share/man/man3/HG_Forward.3*; do
        [ -s "$file" ] || die "$2 has no ${file#"$1"}"
    done
}

try_in_clean_root() {
    local suite
    say "The Debian packages in a clean root"
    ls "$work"/deb/*.deb >/dev/null || die "there are no packages: build them first (stage deb)"
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    PACKAGES="$work/deb" CLIENT="$root/tests/install/mercury_client.c" mmdebstrap --quiet --variant=apt --format=null \
        --customize-hook="$root/packaging/clean_root.sh" "$suite" - || die "see above"
}

build_rpm() {
    say "RPM packages of $version"
    rm -rf "$work/rpm"
    export_source
    mkdir -p "$work/rpm/SOURCES"
    tar -C "$work" -czf "$work/rpm/SOURCES/amalgam-$version.tar.gz" "amalgam-$version"
    rm -rf "$source"
    # The required packages have names of RPM distributions, which this machine cannot resolve.
    rpmbuild --nodeps --define "_topdir $work/rpm" --define "debug_package %{nil}" \
        --define "_smp_mflags -j$jobs" -ba packaging/rpm/amalgam.spec >"$work/rpm.log" 2>&1 || {
        tail -n 40 "$work/rpm.log"
        die "rpmbuild failed, see $work/rpm.log"
    }
    rpm -qp --provides "$work"/rpm/RPMS/*/amalgam-libs-*.rpm >"$work/rpm/provides"
    grep -qx 'amalgam-plugin-abi-1 = .*' "$work/rpm/provides" ||
        die "amalgam-libs does not provide amalgam-plugin-abi-1"
    rpm -qp --requires "$work"/rpm/RPMS/*/amalgam-plugin-sm-*.rpm >"$work/rpm/requires"
    grep -qx 'amalgam-plugin-abi-1' "$work/rpm/requires" ||
        die "amalgam-plugin-sm does not require amalgam-plugin-abi-1"
    mkdir "$work/rpm/doc"
    rpm2cpio "$work"/rpm/RPMS/noarch/amalgam-doc-*.rpm | cpio -idm --quiet -D "$work/rpm/doc"
    check_pages "$work/rpm/doc" amalgam-doc
    (cd "$work/rpm" && ls RPMS/*/*.rpm SRPMS/*.rpm)
}

main "$@"
