#!/bin/sh
# Finds out which packages are missing for a task, and installs them where apt-get is.
#
#   tools/deps.sh [--check] SET...       SET: a word of the table below, or `all`
#
# --check only says what is missing and how to install it. It looks for the programs and headers themselves,
# so it works on any system; only the package names are those of Debian and Ubuntu. Silent when all is there.
# Exit: 0 all is there (now), 1 something is missing, 2 usage.
set -eu

# set  package  program or header that proves it is there
table='
build        gcc              program gcc
build        libc6-dev        header  stdio.h
build        make             program make
build        pkg-config       program pkg-config
build        libuv1-dev       header  uv.h
build        libcjson-dev     header  cjson/cJSON.h
build        libinih-dev      header  ini.h
build        libbsd-dev       header  bsd/sys/tree.h
build        libsystemd-dev   header  systemd/sd-daemon.h
build        libncurses-dev   header  ncurses.h
build        zlib1g-dev       header  zlib.h
build        scdoc            program scdoc
test         libcmocka-dev    header  cmocka.h
test         tmux             program tmux
lint         clang            program clang
lint         clang-format     program clang-format
lint         clang-tidy       program clang-tidy
lint         cppcheck         program cppcheck
lint         shellcheck       program shellcheck
fuzz         clang            program clang
mutation     clang            program clang
mutation     python3          program python3
valgrind     valgrind         program valgrind
coverage     gcovr            program gcovr
bench        redis-tools      program redis-check-rdb
jobs         parallel         program parallel
acceptance   python3          program python3
metrics      prometheus       program promtool
page         chromium         program chromium
page         nodejs           program node
page         npm              program npm
deb          debhelper        program dh
deb          lintian          program lintian
deb          dpkg-dev         program dpkg-buildpackage
debcheck     debootstrap      program debootstrap
unitcheck    systemd          program systemd-analyze
installcheck g++              program g++
installcheck pkg-config       program pkg-config
'

usage() {
    echo "usage: tools/deps.sh [--check] SET..." >&2
    printf 'SET: all' >&2
    printf '%s\n' "$table" | awk 'NF && !seen[$1]++ { printf ", %s", $1 }' >&2
    echo >&2
    exit 2
}

have() { # program NAME | header NAME
    case $1 in
    program) command -v "$2" >/dev/null 2>&1 ;;
    header)
        # cmocka.h wants its neighbours to be there first; only its presence matters.
        printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$2" |
            "${compiler}" -E -x c - >/dev/null 2>&1
        ;;
    esac
}

missing_packages() {
    printf '%s\n' "$table" | while read -r set package kind name; do
        [ -n "$set" ] || continue
        case " $sets " in
        *" all "* | *" $set "*) ;;
        *) continue ;;
        esac
        have "$kind" "$name" || printf '%s\n' "$package"
    done | sort -u | tr '\n' ' '
}

check_only=
[ "${1:-}" = --check ] && {
    check_only=yes
    shift
}
[ $# -gt 0 ] || usage
for set in "$@"; do
    [ "$set" = all ] || printf '%s\n' "$table" | awk -v set="$set" '$1 == set { found = 1 } END { exit !found }' || {
        echo "tools/deps.sh: there is no set '$set'" >&2
        usage
    }
done
sets=$*
compiler=gcc
command -v gcc >/dev/null 2>&1 || compiler=${CC:-cc}

missing=$(missing_packages)
[ -n "$missing" ] || exit 0

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
install_command="${as_root:+$as_root }apt-get install -y --no-install-recommends ${missing% }"

if [ -n "$check_only" ] || ! command -v apt-get >/dev/null 2>&1; then
    {
        echo "worsegpu: missing for '$sets' (package names of Debian and Ubuntu): ${missing% }"
        if command -v apt-get >/dev/null 2>&1; then
            echo "worsegpu: install them with:  $install_command"
        else
            echo "worsegpu: there is no apt-get here: install what these are called on your system, then try again"
        fi
    } >&2
    exit 1
fi
if [ -n "$as_root" ] && ! command -v sudo >/dev/null 2>&1; then
    {
        echo "worsegpu: missing for '$sets': ${missing% }"
        echo "worsegpu: there is no sudo here; as root:  ${install_command#sudo }"
    } >&2
    exit 1
fi

apt() { # the words after apt-get
    # A machine that has just been started may still be updating itself: wait for its lock.
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Use-Pty=0 "$@" </dev/null
}
update() {
    echo "worsegpu: ${as_root:+$as_root }apt-get update"
    apt update
}
all_known() { # whether the package lists know every missing package
    for package in $missing; do
        apt-cache show "$package" >/dev/null 2>&1 || return 1
    done
}
install_missing() {
    # shellcheck disable=SC2086  # $missing is a list of words
    apt install -y --no-install-recommends $missing
}

echo "worsegpu: missing for '$sets', installing: ${missing% }"
updated=
all_known || {
    update
    updated=yes
}
echo "worsegpu: $install_command"
if ! install_missing; then
    # The lists may name versions that the mirror no longer has.
    [ -z "$updated" ] || exit 1
    update
    install_missing
fi

missing=$(missing_packages)
[ -z "$missing" ] || {
    echo "worsegpu: still missing after the installation: ${missing% }" >&2
    exit 1
}
