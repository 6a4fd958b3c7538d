#!/bin/sh
# Builds the Debian packages from what git knows of this folder, and has lintian look at them. Called by `make deb`.
#
#   tools/deb.sh FOLDER      the packages are in FOLDER afterwards
#
# Exit: 0 built and free of errors, else not.
set -eu
cd "$(dirname "$0")/.."
folder=${1:?the folder for the packages}

version=$(cat VERSION)
packaged=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
[ "$version" = "$packaged" ] || {
    echo "deb: VERSION says $version, debian/changelog $packaged" >&2
    exit 1
}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
rm -rf "$folder/source" "$folder/look" "$folder"/*.deb "$folder"/*.buildinfo "$folder"/*.changes
mkdir "$folder/source"
# As it stands here, changes included.
tools/list_files.sh '*' | tar -cf - -T - | tar -xf - -C "$folder/source"
(
    cd "$folder/source"
    unset MAKEFLAGS MFLAGS MAKEOVERRIDES BUILD
    dpkg-buildpackage --build=binary --no-sign -j"${JOBS:-2}" >"$folder/log" 2>&1
) || {
    tail -40 "$folder/log" >&2
    echo "deb: dpkg-buildpackage failed; all it said is in $folder/log" >&2
    exit 1
}
rm -rf "$folder/source"
lintian --fail-on error --suppress-tags bad-distribution-in-changes-file "$folder"/*.changes
# What is in the packages, as it will be on the user's disk.
mkdir "$folder/look"
for package in "$folder"/*.deb; do
    dpkg-deb -x "$package" "$folder/look"
done
find "$folder/look" -type f \( -path '*bin/*' -o -name '*.so.*' \) ! -path '*/debug/*' -exec tools/hardening.sh '{}' +
rm -rf "$folder/look"
ls "$folder"/*.deb
