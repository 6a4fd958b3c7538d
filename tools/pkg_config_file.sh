#!/bin/sh
# Prints the pkg-config file of one library.
#
#   tools/pkg_config_file.sh NAME VERSION PREFIX LIBDIR INCLUDEDIR PRIVATE_LIBS DESCRIPTION
set -eu
[ $# -eq 7 ] || {
    sed -n '2,4p' "$0" >&2
    exit 2
}
name=$1 version=$2 prefix=$3 private=$6 about=$7

below_prefix() { # so that the whole can be moved: pkg-config --define-prefix
    case $1 in
    "$prefix"/*) printf '%s%s' "\${prefix}" "${1#"$prefix"}" ;;
    *) printf '%s' "$1" ;;
    esac
}

cat <<END
prefix=$prefix
libdir=$(below_prefix "$4")
includedir=$(below_prefix "$5")

Name: $name
Description: $about
Version: $version
Libs: -L\${libdir} -l${name#lib}
Libs.private: $private
Cflags: -I\${includedir}
END
