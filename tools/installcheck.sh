#!/bin/sh
# Installs into a temporary folder, looks at what is there, uses it as a stranger would, uninstalls. Called by
# `make installcheck`, after a build, with BUILD, VERSION, ABI and MAKE in the environment.
set -eu
cd "$(dirname "$0")/.."
: "${BUILD:?}" "${VERSION:?}" "${ABI:?}"
MAKE=${MAKE:-make}

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
trap 'exit 130' INT TERM HUP
prefix=$room/usr
failed=

ok() {
    echo "  fine    $*"
}
wrong() {
    echo "  WRONG   $*"
    failed=yes
}
check() { # WHAT COMMAND...: what it says is shown only when it fails
    what=$1
    shift
    if "$@" >"$room/said" 2>&1; then
        ok "$what"
    else
        wrong "$what"
        sed 's/^/          /' "$room/said"
    fi
}
make_with() { # FOLDERS... TARGET, quietly
    "$MAKE" --no-print-directory BUILD="$BUILD" "$@" >"$room/made" 2>&1 || {
        cat "$room/made"
        exit 1
    }
}
files_below() { # FOLDER
    (cd "$1" && find . ! -type d | LC_ALL=C sort)
}

echo "installcheck: into $prefix"
make_with PREFIX="$prefix" install
files_below "$prefix" >"$room/files"
cat >"$room/wanted" <<END
./bin/worse-gpu-benchmark
./bin/worse-gpu-demo
./bin/worsegpu-cli
./bin/worsegpu-lab
./etc/worsegpu/worsegpu.conf
./include/worsegpu.h
./include/worsegpu_client.h
./include/worsegpu_client_rules.h
./include/worsegpu_memory.h
./lib/libworsegpu-client.a
./lib/libworsegpu-client.so
./lib/libworsegpu-client.so.$ABI
./lib/libworsegpu-client.so.$VERSION
./lib/libworsegpu.a
./lib/libworsegpu.so
./lib/libworsegpu.so.$ABI
./lib/libworsegpu.so.$VERSION
./lib/pkgconfig/libworsegpu-client.pc
./lib/pkgconfig/libworsegpu.pc
./lib/systemd/system/worsegpud.service
./lib/systemd/system/worsegpud.socket
./lib/systemd/user/worsegpud.service
./lib/systemd/user/worsegpud.socket
./lib/sysusers.d/worsegpu.conf
./lib/tmpfiles.d/worsegpu.conf
./sbin/worsegpud
./share/bash-completion/completions/worsegpu-cli
./share/bash-completion/completions/worsegpu-lab
./share/bash-completion/completions/worsegpud
./share/doc/worsegpu/LICENSE
./share/doc/worsegpu/PROTOCOL.md
./share/doc/worsegpu/README.md
./share/doc/worsegpu/jobs/README.md
./share/doc/worsegpu/jobs/sweep-parallel.sh
./share/doc/worsegpu/jobs/sweep.ini
./share/doc/worsegpu/jobs/sweep.slurm
./share/man/man1/worse-gpu-benchmark.1
./share/man/man1/worse-gpu-demo.1
./share/man/man1/worsegpu-cli.1
./share/man/man1/worsegpu-lab.1
./share/man/man3/libworsegpu.3
./share/man/man5/worsegpu.conf.5
./share/man/man7/worsegpu-protocol.7
./share/man/man8/worsegpud.8
./share/zsh/site-functions/_worsegpu-cli
./share/zsh/site-functions/_worsegpu-lab
./share/zsh/site-functions/_worsegpud
END
check "exactly the files that belong there" diff "$room/wanted" "$room/files"

# The same below a DESTDIR, with nothing outside it.
make_with DESTDIR="$room/stage" PREFIX=/opt/worsegpu install
files_below "$room/stage/opt/worsegpu" >"$room/staged"
check "the same below DESTDIR" diff "$room/files" "$room/staged"
check "DESTDIR is not written into pkg-config files" \
    grep -qx 'prefix=/opt/worsegpu' "$room/stage/opt/worsegpu/lib/pkgconfig/libworsegpu.pc"
make_with DESTDIR="$room/stage" PREFIX=/opt/worsegpu uninstall
check "nothing left below DESTDIR" test -z "$(find "$room/stage" ! -type d)"

only_ours() { # NAMES_COMMAND... FILE: every name it shows begins with worsegpu_, and there are some
    "$@" | awk 'NF >= 2 && $(NF - 1) != "A" { name = $NF; sub(/@.*/, "", name); print name }' >"$room/names"
    test -s "$room/names" && ! grep -v '^worsegpu_' "$room/names"
}
named() { # LIBRARY NAME
    readelf -Wd "$1" | grep -qF "Library soname: [$2]"
}
check "programs and libraries are hardened" tools/hardening.sh "$prefix"/sbin/worsegpud "$prefix"/bin/worse* \
    "$prefix"/lib/libworsegpu.so "$prefix"/lib/libworsegpu-client.so
for library in libworsegpu libworsegpu-client; do
    check "$library.so shows only worsegpu_ names" only_ours nm -D --defined-only "$prefix/lib/$library.so"
    check "$library.a shows only worsegpu_ names" only_ours nm -g --defined-only "$prefix/lib/$library.a"
    check "$library.so is called $library.so.$ABI" named "$prefix/lib/$library.so" "$library.so.$ABI"
done

check "the unit starts the daemon that was installed" \
    grep -q "^ExecStart=$prefix/sbin/worsegpud --config $prefix/etc/worsegpu/" "$prefix/lib/systemd/system/worsegpud.service"
check "the daemon takes the configuration that was installed" \
    "$prefix/sbin/worsegpud" --config "$prefix/etc/worsegpu/worsegpu.conf" --run "$prefix/bin/worsegpu-cli" info
# A configuration that someone has changed is theirs: neither a second install nor uninstall takes it away.
changed=$room/changed
make_with DESTDIR="$changed" PREFIX=/usr install
echo '# mine' >>"$changed/usr/etc/worsegpu/worsegpu.conf"
make_with DESTDIR="$changed" PREFIX=/usr install
make_with DESTDIR="$changed" PREFIX=/usr uninstall
check "a changed configuration stays as it is" grep -qx '# mine' "$changed/usr/etc/worsegpu/worsegpu.conf"
check "and nothing else does" test "$(files_below "$changed")" = ./usr/etc/worsegpu/worsegpu.conf

PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
for library in libworsegpu libworsegpu-client; do
    check "$library.pc says version $VERSION" test "$(pkg-config --modversion "$library")" = "$VERSION"
done

strict='-Wall -Wextra -Wpedantic -Werror'
static_links=$(pkg-config --libs --static libworsegpu libworsegpu-client |
    sed -E 's/-l(worsegpu[a-z-]*)/-l:lib\1.a/g')
build_user() { # COMPILER LINKS OUTPUT
    # shellcheck disable=SC2046,SC2086  # lists of words
    $1 $strict $(pkg-config --cflags libworsegpu libworsegpu-client) -o "$3" tests/installcheck/use_both.c \
        -x none $2
}
run_user() { # PROGRAM
    env LD_LIBRARY_PATH="$prefix/lib" "$prefix/sbin/worsegpud" --run "$1" >"$room/printed" &&
        grep -qxF "$VERSION $VERSION" "$room/printed"
}
without_libraries() { # PROGRAM: needs none of our shared libraries
    ! readelf -Wd "$1" | grep -q 'NEEDED.*worsegpu'
}
shared_links=$(pkg-config --libs libworsegpu libworsegpu-client)
try_language() { # NAME COMPILER
    check "a $1 program builds with the shared libraries" build_user "$2" "$shared_links" "$room/shared"
    check "... and runs" run_user "$room/shared"
    check "a $1 program builds with the static libraries" build_user "$2" "$static_links" "$room/static"
    check "... needs none of ours at run time" without_libraries "$room/static"
    check "... and runs" run_user "$room/static"
    rm -f "$room/shared" "$room/static"
}
try_language C 'gcc -std=c11'
try_language C++ 'g++ -std=c++17 -x c++'

make_with PREFIX="$prefix" uninstall
check "uninstall leaves no file" test -z "$(find "$prefix" ! -type d)"
check "uninstall removes the folder of its own" test ! -e "$prefix/share/doc/worsegpu"

[ -z "$failed" ] || {
    echo "installcheck: FAILED"
    exit 1
}
echo "installcheck: all fine"
