# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the other scripts: the root of the repository, messages, and installing what is missing.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=$(nproc)

say() {
    printf '\n== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Prints the Debian packages that are missing for the named purposes: build, test, clang, tsan,
# abi, packages, docs, pictures, words, format, verbs, compare. A tool is found by running it, so that the check works on
# other systems, too.
missing_packages() {
    local purpose
    for purpose in "$@"; do
        case $purpose in
        build)
            compiles gcc c '' || echo gcc libc6-dev
            command -v cmake >/dev/null || echo cmake
            command -v ninja >/dev/null || echo ninja-build
            command -v pkg-config >/dev/null || echo pkg-config
            has_module libxxhash || echo libxxhash-dev
            has_module json-c || echo libjson-c-dev
            has_module libsodium || echo libsodium-dev
            has_header sys/sdt.h || echo systemtap-sdt-dev
            has_module libfabric || echo libfabric-dev
            has_module ucx || echo libucx-dev
            has_module hwloc || echo libhwloc-dev
            has_module ompi-c || echo libopenmpi-dev
            has_module mpich || echo libmpich-dev
            ;;
        test)
            compiles g++ c++ '' || echo g++
            has_module cmocka || echo libcmocka-dev
            command -v meson >/dev/null || echo meson
            command -v curl >/dev/null || echo curl
            command -v ompi-server >/dev/null || echo openmpi-bin
            command -v mpiexec.mpich >/dev/null || command -v mpiexec.hydra >/dev/null || echo mpich
            has_header boost/preprocessor.hpp || echo libboost-dev
            command -v ip >/dev/null || [ -x /sbin/ip ] || echo iproute2
            ;;
        clang) compiles clang c '' && compiles clang++ c++ '' || echo clang ;;
        tsan) compiles clang c -fsanitize=thread || echo libclang-rt-14-dev ;;
        abi)
            command -v abidw >/dev/null || echo abigail-tools
            command -v git >/dev/null || echo git
            ;;
        packages)
            dpkg-query -W -f '${db:Status-Status}' build-essential 2>/dev/null | grep -qx installed ||
                echo build-essential
            command -v dpkg-buildpackage >/dev/null || echo dpkg-dev
            command -v dh >/dev/null || echo debhelper
            command -v lintian >/dev/null || echo lintian
            command -v mmdebstrap >/dev/null || echo mmdebstrap
            command -v rpmbuild >/dev/null || echo rpm
            command -v cpio >/dev/null || echo cpio
            ;;
        verbs)
            command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
            command -v mmdebstrap >/dev/null || echo mmdebstrap
            command -v cpio >/dev/null || echo cpio
            command -v depmod >/dev/null || [ -x /sbin/depmod ] || echo kmod
            ;;
        compare)
            compiles g++ c++ '' || echo g++
            command -v python3 >/dev/null || echo python3-minimal
            command -v mpiexec.openmpi >/dev/null || echo openmpi-bin
            command -v chrt >/dev/null || echo util-linux
            command -v protoc >/dev/null || echo protobuf-compiler
            command -v grpc_cpp_plugin >/dev/null || echo protobuf-compiler-grpc
            command -v capnp >/dev/null || echo capnproto
            has_module grpc++ || echo libgrpc++-dev
            has_module protobuf || echo libprotobuf-dev
            has_module capnp-rpc || echo libcapnp-dev
            has_module libzmq || echo libzmq3-dev
            has_header nng/nng.h || echo libnng-dev
            ;;
        docs) command -v doxygen >/dev/null || echo doxygen ;;
        pictures)
            command -v dot >/dev/null || echo graphviz
            command -v python3 >/dev/null || echo python3-minimal
            ;;
        words) command -v codespell >/dev/null || echo codespell ;;
        format) command -v clang-format >/dev/null || echo clang-format ;;
        esac
    done
}

# Usage: compiles <compiler> <language> <flag>; the headers show that libc6-dev or libstdc++ is there.
compiles() {
    local header=stdio.h
    [ "$2" = c ] || header=string
    command -v "$1" >/dev/null &&
        printf '#include <%s>\nint main() { return 0; }\n' "$header" |
        "$1" -x "$2" ${3:+"$3"} -o /dev/null - 2>/dev/null
}

has_header() {
    command -v gcc >/dev/null && echo "#include <$1>" | gcc -E -o /dev/null - 2>/dev/null
}

has_module() {
    command -v pkg-config >/dev/null && pkg-config --exists "$1"
}

# Usage: install_missing <purpose>...; calls apt only if something is missing.
install_missing() {
    local packages as_root=
    packages=$(missing_packages "$@" | sort -u | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    say "Installing $packages"
    command -v apt-get >/dev/null || die "missing (names of Debian packages): $packages"
    [ "$(id -u)" -eq 0 ] || {
        command -v sudo >/dev/null || die "missing: $packages; neither root nor sudo to install them"
        as_root=sudo
    }
    $as_root apt-get -qq update
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends $packages >/dev/null
    packages=$(missing_packages "$@" | tr '\n' ' ')
    [ -z "$packages" ] || die "still missing after the installation: $packages"
}
