#!/bin/sh
# Runs test programs side by side and counts them.
#
#   tools/run_tests.sh PROGRAM|SCRIPT.sh...
#
# One line for each; what a test printed is shown only when it failed (V=1: always). The last line is
# `N passed, N failed, N skipped`, counting programs. A program that ran no test at all has failed; so has one
# that left files in its temporary folder. Skipped is a program whose tests were all skipped, or that ended
# with 77. Exit: 0 when none failed, else 1.
#
# The slowest are named at the end. How long each took is kept in WORSEGPU_BUILD/tests/seconds; the next time the
# slowest start first, so that no long one runs alone at the end. A build that has run no tests yet may take the
# order of another one: ORDER_FROM names that one's file.
#
# Environment: JOBS (2) how many at once; TEST_SECONDS (600) after which a hanging program is ended;
# WRAPPER, a command to run each under, such as valgrind; V. The tests themselves see WORSEGPU_BUILD,
# WORSEGPU_SHARED, WORSEGPU_GOLDEN, a TMPDIR of their own, and no daemon of the user's.
set -eu

work=${RUN_TESTS_WORK:-}

count() { # EXTENDED_REGEX FILE: sum of the numbers that the group \1 of the pattern finds
    sed -nE "s/$1/\\1/p" "$2" | awk '{ sum += $1 } END { print sum + 0 }'
}

run_one() { # the worker: runs one program, prints its line and notes the verdict
    program=$1
    name=${program##*/tests/}
    name=${name#tests/}
    # Short, because sockets are made in it and their paths may not be long.
    room=$(mktemp -d "$work/tXXXXXX")
    chmod 711 "$room" # tests that play other users go through it
    mkdir "$room/t"
    output=$room/output
    started=$(date +%s)
    status=0
    # In the foreground, so that Ctrl-C reaches the test as well.
    # shellcheck disable=SC2086  # $WRAPPER is a command and its options
    case $program in
    *.sh) TMPDIR=$room/t XDG_RUNTIME_DIR=$room/t timeout --foreground -k 10 "$TEST_SECONDS" \
        sh "$program" >"$output" 2>&1 </dev/null || status=$? ;;
    *) TMPDIR=$room/t XDG_RUNTIME_DIR=$room/t timeout --foreground -k 10 "$TEST_SECONDS" \
        ${WRAPPER:-} "$program" >"$output" 2>&1 </dev/null || status=$? ;;
    esac
    seconds=$(($(date +%s) - started))

    detail=
    case $program in
    *.sh) verdict=passed ;;
    *)
        ran=$(count '^\[==========\] ([0-9]+) test\(s\) run\..*' "$output")
        skipped=$(count '^\[  SKIPPED \] ([0-9]+) test\(s\), listed below:.*' "$output")
        detail="$ran tests, "
        [ "$skipped" -eq 0 ] || detail="$ran tests, $skipped of them skipped, "
        verdict=passed
        [ "$ran" -eq 0 ] || [ "$ran" -ne "$skipped" ] || verdict=skipped
        [ "$ran" -ne 0 ] || [ "$status" -ne 0 ] || {
            verdict=failed
            detail="ran no test, "
        }
        ;;
    esac
    case $status in
    0) ;;
    77) verdict=skipped ;;
    124 | 137)
        verdict=failed
        detail="${detail}ended after $TEST_SECONDS s, "
        ;;
    *)
        verdict=failed
        detail="${detail}exit status $status, "
        ;;
    esac
    left=$(ls -A "$room/t")
    [ -z "$left" ] || {
        verdict=failed
        detail="${detail}left behind: $(printf '%s' "$left" | tr '\n' ' '), "
    }

    echo "$verdict" >"$room/verdict"
    echo "$seconds $name" >"$room/seconds"
    {
        printf '%-7s %s (%s%s s)\n' "$verdict" "$name" "$detail" "$seconds"
        if [ "$verdict" = failed ] || [ -n "${V:-}" ]; then
            sed 's/^/        /' "$output"
        elif [ "$verdict" = skipped ]; then
            tail -n 3 "$output" | sed 's/^/        /'
        fi
    } >"$room/shown"
    cat "$room/shown" # in one piece, so that two workers do not mix their lines
}

if [ "${1:-}" = --one ]; then
    run_one "$2"
    exit 0
fi

[ $# -gt 0 ] || {
    echo "no tests found" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
WORSEGPU_BUILD=$(CDPATH='' cd -- "${WORSEGPU_BUILD:-build}" && pwd)
WORSEGPU_SHARED=${WORSEGPU_SHARED:-../shared}
WORSEGPU_GOLDEN=${WORSEGPU_GOLDEN:-tests/golden}
TEST_SECONDS=${TEST_SECONDS:-600}
export WORSEGPU_BUILD WORSEGPU_SHARED WORSEGPU_GOLDEN TEST_SECONDS
unset WORSEGPU_SOCKET MAKEFLAGS MFLAGS MAKELEVEL CMOCKA_MESSAGE_OUTPUT CMOCKA_TEST_FILTER CMOCKA_SKIP_FILTER CMOCKA_XML_FILE

work=$(mktemp -d "${TMPDIR:-/tmp}/wg.XXXXXX")
chmod 711 "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
RUN_TESTS_WORK=$work
export RUN_TESTS_WORK

seconds_file=$WORSEGPU_BUILD/tests/seconds
slowest_first() { # PROGRAM...: one a line; what nobody has timed yet comes first, it may be long
    known=$seconds_file
    [ -f "$known" ] || known=${ORDER_FROM:-/dev/null}
    [ -f "$known" ] || known=/dev/null
    printf '%s\n' "$@" | awk -v known="$known" '
        BEGIN { while ((getline line <known) > 0) { split(line, word, " "); seconds[word[2]] = word[1] } }
        { name = $0; sub(/^.*\/tests\//, "", name); sub(/^tests\//, "", name)
          print (name in seconds ? seconds[name] : 999999), $0 }' | sort -s -k1,1nr | cut -d ' ' -f 2-
}
remember_seconds() { # replaces what has run now, keeps what was known of others
    mkdir -p "$WORSEGPU_BUILD/tests"
    find "$work" -mindepth 2 -maxdepth 2 -name seconds -exec cat {} + | sort -k2 >"$work/new"
    [ ! -f "$seconds_file" ] || cat "$seconds_file" >"$work/old"
    touch "$work/old"
    awk 'FNR == NR { fresh[$2] = 1; print; next } !($2 in fresh)' "$work/new" "$work/old" >"$seconds_file.$$"
    mv "$seconds_file.$$" "$seconds_file"
}

slowest_first "$@" | tr '\n' '\0' | xargs -0 -n 1 -P "${JOBS:-2}" sh "$0" --one || true

remember_seconds
sort -s -k1,1nr "$work/new" | awk '
    NR <= 10 && $1 >= 2 { line = line (line == "" ? "" : ", ") $2 " " $1 " s" }
    END { if (line != "") print "slowest: " line }'

verdicts=$(find "$work" -mindepth 2 -maxdepth 2 -name verdict -exec cat {} +)
passed=$(printf '%s\n' "$verdicts" | grep -c '^passed$' || true)
skipped=$(printf '%s\n' "$verdicts" | grep -c '^skipped$' || true)
# A worker that broke down left no verdict: whatever is not known to be good has failed.
failed=$(($# - passed - skipped))
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
