#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: rename.sh NEWNAME [FOLDER]
# Gives the plugin its name: the file na_<name>.so, the init string <name>+unix, the names in the
# source. Run it once, on a copy of this folder or of raw: FOLDER, or the folder of this file.
set -eu

die() {
    echo "rename.sh: $*" >&2
    exit 1
}

[ $# -eq 1 ] || [ $# -eq 2 ] || die "usage: rename.sh NEWNAME [FOLDER]"
name=$1
case $name in
template) die "that is its name" ;;
na_plugin*) die "the names that $name would get are those of the SDK's na_plugin.h" ;;
na) die "na+sm would no longer be found: the class name na is that of Amalgam's na_sm.so" ;;
bmi | fault | mpi | mpich | ofi | sm | ucx) die "na_$name.so is a plugin of Amalgam's" ;;
eventfd | pthread | so | timespec) die "the system's headers have names that begin with ${name}_" ;;
kit | kit_*) die "the kit has names that begin with kit_" ;;
auto | break | case | char | const | continue | default | do | double | else | enum | extern | \
    float | for | goto | if | inline | int | long | register | restrict | return | short | \
    signed | sizeof | static | struct | switch | typedef | union | unsigned | void | volatile | \
    while | alignas | alignof | bool | constexpr | false | nullptr | static_assert | \
    thread_local | true | typeof)
    die "'$name' is a word of C" ;;
[a-z]*) ;;
*) die "'$name' does not begin with a lower-case letter" ;;
esac
[ "$(printf %s "$name" | tr -d 'a-z0-9_')" = '' ] ||
    die "'$name' has other characters than lower-case letters, digits and _"

[ ${#name} -le 24 ] || die "'$name' is longer than 24 characters"

folder=${2-$(dirname "$0")}
cd "$folder"
[ -f src/template.h ] || [ -f src/template.c ] ||
    die "there is no src/template.h or src/template.c in $folder: it has a name already"
upper=$(printf %s "$name" | tr a-z A-Z)
for file in CMakeLists.txt src/*.[ch]; do
    sed -e "s/template/$name/g" -e "s/TEMPLATE/$upper/g" "$file" >"$file.renamed"
    mv "$file.renamed" "$file"
done
sed -e "s/na_template/na_$name/g" -e "s/template+unix/$name+unix/g" README.md >README.md.renamed
mv README.md.renamed README.md
for file in src/template.[ch]; do
    [ ! -f "$file" ] || mv "$file" "src/$name.${file##*.}"
done
echo "The plugin is na_$name.so, and opened by $name+unix"
