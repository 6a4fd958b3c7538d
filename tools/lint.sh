#!/bin/sh
# Everything that can be said about the source, and about what was built of it, without running it. Called by
# `make lint`, after a build.
#
#   BUILD=build JOBS=2 tools/lint.sh COMPILER_FLAG...
#
# TIDY_NODES (50000): how far clang's analyzer looks into one function. Its own bound, 225000, takes up to four times as
# long for what gcc's analyzer looks at as well: TIDY_NODES=225000 make lint.
#
# Goes on after a finding, so that one run shows them all. Exit 0 when there is none.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
JOBS=${JOBS:-2}
TIDY_NODES=${TIDY_NODES:-50000}

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
trap 'exit 130' INT TERM HUP
tools/list_files.sh '*.c' >"$room/c"
tools/list_files.sh '*.c' '*.h' >"$room/ch"
grep -v '^tests/' "$room/c" >"$room/products"
tools/list_files.sh '*.sh' .ci/run >"$room/sh"
found=

stage() { # NAME COMMAND...: runs it, shows what it said only when it found something
    name=$1
    shift
    started=$(date +%s)
    if "$@" >"$room/said" 2>&1; then
        verdict=fine
    else
        verdict=FOUND
        found="$found $name"
    fi
    printf '  %-14s %s (%d s)\n' "$name" "$verdict" $(($(date +%s) - started))
    # clang counts what it left out in headers of others: no finding.
    [ "$verdict" = fine ] || sed -E '/^[0-9]+ warnings? (and [0-9]+ errors? )?generated\.$/d; s/^/    /' "$room/said"
}

layout() {
    # It says a lot about each place; the name of the file is enough.
    xargs clang-format --dry-run -Werror <"$room/ch" 2>"$room/layout" || {
        sed -nE 's/^([^ :]+):[0-9]+:[0-9]+: error: .*/\1: not laid out as .clang-format says: make format/p' \
            "$room/layout" | sort -u
        return 1
    }
}

other_compiler() {
    xargs clang -fsyntax-only "$@" <"$room/c"
}

# The analyzer's deep walk takes most of the time: it is for the products. Tests get all the other checks.
tidy() {
    tidied=0
    xargs -P "$JOBS" -I '{}' clang-tidy --quiet --extra-arg=-Xclang --extra-arg=-analyzer-config \
        --extra-arg=-Xclang --extra-arg="max-nodes=$TIDY_NODES" '{}' -- "$@" <"$room/products" || tidied=1
    grep '^tests/' "$room/c" | xargs -P "$JOBS" -I '{}' clang-tidy --quiet --checks='-clang-analyzer-*' '{}' -- "$@" ||
        tidied=1
    return "$tidied"
}

paths() { # gcc's own walk along the paths of each function; of the products, where it matters
    xargs -P "$JOBS" -I '{}' gcc "$@" -O1 -fanalyzer -c -o /dev/null '{}' <"$room/products"
}

second_opinion() {
    # readdirCalled: readdir_r is the worse of the two, and deprecated.
    # varFuncNullUB: POSIX promises that NULL is a pointer.
    # accept4 may be told to forget the address; cppcheck's own description of it is wrong.
    cppcheck --quiet --error-exitcode=1 -j "$JOBS" --std=c11 --library=posix,gnu --inline-suppr \
        --enable=warning,performance,portability --suppress=missingInclude --suppress=missingIncludeSystem \
        --suppress=readdirCalled --suppress=varFuncNullUB --suppress=nullPointer:daemon/listener.c \
        --include=tools/cppcheck_macros.h \
        -I. -Ibase -Ilib -Iclient -DWORSEGPU_VERSION='"0"' --file-list="$room/c"
}

hardening() {
    tools/hardening.sh "$BUILD/worsegpud" "$BUILD/worsegpu-cli" "$BUILD/worsegpu-lab" "$BUILD/worse-gpu-demo" \
        "$BUILD/worse-gpu-benchmark" "$BUILD/libworsegpu.so" "$BUILD/libworsegpu-client.so"
}

scripts() {
    xargs shellcheck <"$room/sh"
}

echo "lint: $(wc -l <"$room/ch") C files, $(wc -l <"$room/sh") scripts"
stage our-rules tools/check_source.sh "$BUILD"
stage clang-format layout
stage shellcheck scripts
stage hardening hardening
stage clang other_compiler "$@"
stage cppcheck second_opinion
stage gcc-analyzer paths "$@"
stage clang-tidy tidy "$@"
[ -z "$found" ] || {
    echo "lint: findings in:$found"
    exit 1
}
echo "lint: clean"
