#!/bin/sh
# Installs the Debian packages into a clean root, uses them there, and removes them again without a trace. Called by
# `make debcheck`, as root.
#
#   tools/debcheck.sh FOLDER     where the packages are
#
# The clean root is made with debootstrap from where this machine's apt gets its packages.
set -eu
folder=$(cd "${1:?the folder of the packages}" && pwd)
[ "$(id -u)" -eq 0 ] || {
    echo "debcheck: needs root, for a root folder of its own" >&2
    exit 1
}
room=$(mktemp -d)
root=$room/root
trap 'rm -rf "$room"' EXIT
trap 'exit 130' INT TERM HUP
failed=

check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@" >"$room/said" 2>&1; then
        echo "  fine    $what"
    else
        echo "  WRONG   $what"
        sed 's/^/          /' "$room/said"
        failed=yes
    fi
}
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./var/cache -o \
    -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./tmp -o -path ./run/systemd \) -prune -o -print | LC_ALL=C sort); }

# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016  # apt's own variables
site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
    awk -v suite="$suite" '$2 == suite { print $1; exit }')
echo "debcheck: making a clean root of $suite"
debootstrap --variant=minbase "$suite" "$root" "$site" >"$room/debootstrap" 2>&1 || {
    tail -20 "$room/debootstrap" >&2
    exit 1
}
for place in /etc/apt/apt.conf.d /etc/apt/apt.conf /etc/resolv.conf /etc/hosts; do
    [ ! -e "$place" ] || cp -rL "$place" "$root$(dirname "$place")/"
done
mkdir "$root/packages"
cp "$folder"/*.deb "$root/packages/"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # nothing is started in there
chmod 755 "$root/usr/sbin/policy-rc.d"

inside apt-get -q update >"$room/said" 2>&1 || {
    cat "$room/said" >&2
    exit 1
}
# What the packages need is installed first, so that what they leave behind can be told from it.
needed=$(dpkg-deb -f "$folder"/worsegpud_*.deb Depends && dpkg-deb -f "$folder"/worsegpu-tools_*.deb Depends &&
    dpkg-deb -f "$folder"/libworsegpu-dev_*.deb Depends && dpkg-deb -f "$folder"/libworsegpu0_*.deb Depends)
needed=$(echo "$needed" | tr ',' '\n' | sed 's/|.*//; s/(.*)//; s/ //g' | grep -v -e '^libworsegpu' -e '^$' | sort -u)
# shellcheck disable=SC2086  # a list of words
inside apt-get -q -y --no-install-recommends install $needed gcc libc6-dev pkg-config systemd >"$room/said" 2>&1 || {
    tail -20 "$room/said" >&2
    exit 1
}
files >"$room/before"

install_all() { inside sh -c 'apt-get -q -y --no-install-recommends install /packages/*.deb'; }
check "the packages install" install_all
check "the daemon says its version" inside worsegpud --version
check "a client allocates on it" inside worsegpud --seed 7 --run worsegpu-cli alloc 4096
check "the user worsegpu is there" inside getent passwd worsegpu
check "the configuration is one that the daemon takes" inside sh -c \
    'worsegpud --config /etc/worsegpu/worsegpu.conf --run worsegpu-cli info'
check "the unit is one that systemd takes" inside systemd-analyze verify --man=no worsegpud.service worsegpud.socket
printf '#include <stdio.h>\n#include <worsegpu.h>\nint main(void) { return puts(worsegpu_version()) < 0; }\n' >"$root/tmp/use.c"
# shellcheck disable=SC2016  # the shell inside is to expand it
check "a C program builds with the development files" inside sh -c \
    'gcc -o /tmp/use /tmp/use.c $(pkg-config --cflags --libs libworsegpu)'
check "... and runs" inside /tmp/use
rm -f "$root"/tmp/use*
check "the packages go again" inside apt-get -q -y purge worsegpud worsegpu-tools libworsegpu0 libworsegpu-dev
files >"$room/after"
# A user stays, as is the custom: files of it could be left somewhere.
check "nothing is left behind" diff "$room/before" "$room/after"

[ -z "$failed" ] || {
    echo "debcheck: FAILED"
    exit 1
}
echo "debcheck: all fine"
