#!/bin/sh
# test_readme: every command and every C program in README.md works when it is pasted.
#
# The ```sh blocks are run as one shell session from the top of the checkout, as a reader would; the ```c blocks
# are compiled against the built libraries and run inside a daemon. `make` is told where the build is; `make test`
# and `make deb` are only asked what they would do, since this script is a part of the one, and the other is a stage of its
# own. The ```console blocks are for a machine with systemd: they must be commands, and about units and files that there
# are.
set -eu

build=$(cd "${WORSEGPU_BUILD:-build}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/worsegpu-readme-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/run" "$work/tmp"

# block LANGUAGE: the lines of all blocks of that language, each block after a line of its number.
block() {
    awk -v language="$1" '
        /^```/ { if (inside) inside = 0; else if ($0 == "```" language) { inside = 1; print "#block " ++count } ; next }
        inside { print }' README.md
}

make_program=$(command -v make)
cat >"$work/bin/make" <<END
#!/bin/sh
case \${1:-} in test | deb) set -- -n "\$@" ;; esac
exec "$make_program" --no-print-directory BUILD="$build" "\$@"
END
chmod +x "$work/bin/make"

fail() {
    echo "README.md: $*" >&2
    exit 1
}

# The shell blocks.
{
    echo 'set -eu'
    block sh | sed "s|\$PWD/build|$build|g; s|^#block \(.*\)|echo \"--- block \1\"|"
} >"$work/session.sh"
[ "$(block sh | grep -c '^#block')" -ge 6 ] || fail "the shell blocks were not found"
env -u WORSEGPU_SOCKET -u MAKEFLAGS -u MAKELEVEL PATH="$work/bin:$build:$PATH" XDG_RUNTIME_DIR="$work/run" \
    TMPDIR="$work/tmp" sh "$work/session.sh" >"$work/output" 2>&1 </dev/null || {
    cat "$work/output"
    fail "a command failed"
}

# What they print, where the README says what to expect.
grep -q 'exit status 4' "$work/output" || fail "the full GPU did not end with exit status 4"
grep -qx 'gpu' "$work/output" || fail "the raw socket did not answer gpu"
[ -z "$(ls -A "$work/run")" ] || fail "something was left in the runtime folder: $(ls -A "$work/run")"

# What a service manager is needed for.
block console | grep -v '^#block' >"$work/console" || fail "there are no console blocks"
sed 's/^\$ //' "$work/console" >"$work/console.sh"
grep -qv '^\$ ' "$work/console" && fail "a line of a console block is no command"
sh -n "$work/console.sh" || fail "a console block is no shell"
grep -oE 'worsegpud\.(socket|service)|^man .*|adduser .*' "$work/console.sh" >"$work/things"
while read -r first second third; do
    case $first in
    man) [ -s "$(echo "$build/manual/$second".[1-9])" ] || fail "there is no manual page $second" ;;
    adduser) grep -q "^[ug] $third " systemd/worsegpu.sysusers || fail "there is no group $third" ;;
    *) [ -f "systemd/$first" ] || [ -f "systemd/$first.in" ] || fail "there is no unit $first" ;;
    esac
done <"$work/things"

# The C blocks: each is a program.
block c | awk -v folder="$work" '/^#block/ { name = folder "/program" $2 ".c"; next } { print > name }'
programs=0
for source in "$work"/program*.c; do
    programs=$((programs + 1))
    ${CC:-cc} -std=c17 -Wall -Wextra -Werror -Ilib -Iclient -Ibase -o "${source%.c}" "$source" \
        -L"$build" -lworsegpu -lworsegpu-client -Wl,-rpath,"$build" || fail "a C program does not compile"
    env -u WORSEGPU_SOCKET TMPDIR="$work/tmp" XDG_RUNTIME_DIR="$work/run" \
        "$build/worsegpud" --seed 7 --run "${source%.c}" >"$work/output" 2>&1 || {
        cat "$work/output"
        fail "a C program failed"
    }
    [ -s "$work/output" ] || fail "a C program printed nothing"
done
[ "$programs" -eq 2 ] || fail "expected 2 C programs, found $programs"
echo "README.md: $(block sh | grep -vc '^#block') lines of shell, $programs C programs"
