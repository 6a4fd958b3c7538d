#!/bin/sh
# Our own tools, tried on made-up trees: a checker that never finds anything would not be noticed otherwise.
set -eu
top=$(pwd)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failures=0

wrong() {
    echo "WRONG: $*"
    failures=$((failures + 1))
}

# A tree with our tools in it and nothing else.
new_tree() {
    rm -rf "$room/tree"
    mkdir -p "$room/tree/tools" "$room/tree/build/obj" "$room/tree/tests/unit"
    cp "$top"/tools/*.sh "$room/tree/tools"
    cd "$room/tree"
}

run_tests() { # FILE...: its output is in $room/said
    status=0
    WORSEGPU_BUILD=build JOBS=2 V='' WRAPPER='' sh tools/run_tests.sh "$@" >"$room/said" 2>&1 || status=$?
}
ends_with() { # STATUS LAST_LINE
    [ "$status" -eq "$1" ] || wrong "run_tests.sh ended with $status, not $1"
    [ "$(tail -n 1 "$room/said")" = "$2" ] || {
        wrong "run_tests.sh ended with another line than '$2':"
        cat "$room/said"
    }
}

test_run_tests_counts_what_passed_failed_and_was_skipped() {
    new_tree
    echo 'exit 0' >tests/good.sh
    echo 'echo all is lost; exit 3' >tests/bad.sh
    echo 'exit 77' >tests/skipped.sh
    run_tests tests/good.sh tests/good.sh
    ends_with 0 '2 passed, 0 failed, 0 skipped'
    run_tests tests/good.sh tests/bad.sh tests/skipped.sh
    ends_with 1 '1 passed, 1 failed, 1 skipped'
    grep -q 'all is lost' "$room/said" || wrong "the output of a failed test is not shown"
}

test_run_tests_fails_without_tests() {
    new_tree
    run_tests
    ends_with 1 '0 passed, 1 failed, 0 skipped'
}

test_run_tests_fails_a_missing_program() {
    new_tree
    run_tests tests/unit/nothing_here
    ends_with 1 '0 passed, 1 failed, 0 skipped'
}

# A program that looks like one of cmocka's.
program() { # NAME SHELL_LINES
    printf '#!/bin/sh\n%s\n' "$2" >"tests/unit/$1"
    chmod +x "tests/unit/$1"
}

test_run_tests_reads_what_cmocka_says() {
    new_tree
    program fine 'echo "[==========] 3 test(s) run."'
    program none 'echo "[==========] 0 test(s) run."'
    program silent 'true'
    program skipped 'printf "[==========] 2 test(s) run.\n[  SKIPPED ] 2 test(s), listed below:\n"'
    program crash 'echo "[==========] 3 test(s) run."; kill -SEGV $$'
    run_tests tests/unit/fine tests/unit/none tests/unit/silent tests/unit/skipped tests/unit/crash
    ends_with 1 '1 passed, 3 failed, 1 skipped'
}

test_run_tests_fails_a_test_that_leaves_files() {
    new_tree
    # shellcheck disable=SC2016  # the test's own TMPDIR
    echo 'touch "$TMPDIR/forgotten"' >tests/messy.sh
    run_tests tests/messy.sh
    ends_with 1 '0 passed, 1 failed, 0 skipped'
    grep -q 'left behind: forgotten' "$room/said" || wrong "what was left behind is not named"
}

test_run_tests_shows_no_daemon_of_the_user() {
    new_tree
    # shellcheck disable=SC2016  # the test's own variable
    echo '[ -z "${WORSEGPU_SOCKET:-}" ]' >tests/alone.sh
    WORSEGPU_SOCKET=/somewhere run_tests tests/alone.sh
    ends_with 0 '1 passed, 0 failed, 0 skipped'
}

# One file for each piece of code, then one look at all of them.
write_code() { # FOLDER CODE
    pieces=$((pieces + 1))
    mkdir -p "$1"
    printf '/* A file. */\n%s\n' "$2" >"$1/piece_$pieces.c"
}
refused() { # REASON FOLDER CODE
    write_code "$2" "$3"
    printf '%s\t%s\n' "$2/piece_$pieces.c" "$1" >>"$room/expected"
}

test_check_source_finds_each_breach() {
    new_tree
    pieces=0
    : >"$room/expected"
    refused 'a forbidden function' daemon 'int n = atoi(text);'
    refused 'a forbidden function' tests/unit 'sprintf(text, "x");'
    refused 'depends on the locale' proto 'double d = strtod(text, NULL);'
    refused 'no clock here' lib 'time_t now = time(NULL);'
    refused 'memory comes through' lib 'free(p);'
    refused 'not for a library' proto 'exit(1);'
    refused 'an arrow that points up' lib '#include "proto/request.h"'
    refused 'an arrow that points up' lib '#include "worsegpu_client.h"'
    refused 'an arrow that points up' proto '#include "lib/worsegpu.h"'
    refused 'an arrow that points up' proto '#include "worsegpu.h"'
    refused 'an arrow that points up' client '#include "daemon/options.h"'
    refused 'an arrow that points up' client '#include "worsegpu.h"'
    refused 'an arrow that points up' base '#include "lib/trace.h"'
    refused 'must not know this header' proto '#include <uv.h>'
    refused 'must not know this header' lib '#include <cjson/cJSON.h>'
    refused 'a tab' lib "$(printf '\tint n;')"
    refused 'blanks at the end' lib 'int n; '
    refused 'unfinished' lib "/* TO""DO */"
    refused 'wants a second room' lib "$(awk 'BEGIN { for (i = 0; i < 600; i++) print "/**/" }')"
    write_code lib ''
    echo 'int n;' >"lib/piece_$pieces.c"
    printf '%s\t%s\n' "lib/piece_$pieces.c" 'the first line' >>"$room/expected"
    sh tools/check_source.sh build >"$room/said" 2>&1 && wrong "breaches end with 0"
    while IFS="$(printf '\t')" read -r file reason; do
        grep -F "$file:" "$room/said" | grep -qF "$reason" || wrong "not found in $(tail -n 1 "$file"): $reason"
    done <"$room/expected"
}

test_check_source_accepts_what_only_looks_like_a_breach() {
    new_tree
    pieces=0
    write_code lib 'const char *text = "strcpy(a, b)"; /* strcpy(a, b) */'
    write_code lib 'allocator->free(p); snprintf(text, sizeof(text), "x");'
    write_code lib '#include "base/memory.h"'
    write_code daemon '#include "lib/worsegpu.h"'
    write_code client '#include "worsegpu_client.h"'
    sh tools/check_source.sh build >"$room/said" 2>&1 || {
        wrong "refused what is fine:"
        cat "$room/said"
    }
}

test_check_source_finds_globals_that_can_change() {
    new_tree
    mkdir -p lib build/obj/lib
    printf '/* A file. */\nint f(void);\nint f(void)\n{\n    static int calls;\n    return ++calls;\n}\n' >lib/file.c
    "${CC:-gcc}" -fPIC -c -o build/obj/lib/file.o lib/file.c
    sh tools/check_source.sh build >"$room/said" 2>&1 || true
    grep -q '^lib/file\.c: calls.* in \.bss' "$room/said" || wrong "a static counter was not found"
    printf '/* A file. */\nstatic const char *const names[] = {"a", "b"};\nconst char *f(int n);\n%s\n' \
        'const char *f(int n) { return names[n]; }' >lib/file.c
    "${CC:-gcc}" -fPIC -c -o build/obj/lib/file.o lib/file.c
    sh tools/check_source.sh build >"$room/said" 2>&1 || wrong "a constant table was refused"
}

test_deps_names_what_is_missing() {
    new_tree
    mkdir bin
    for needed in sh awk sort tr id; do
        ln -s "$(command -v "$needed")" bin/
    done
    status=0
    PATH=$room/tree/bin sh tools/deps.sh build test >"$room/said" 2>&1 || status=$?
    [ "$status" -eq 1 ] || wrong "deps.sh ended with $status although nothing is there"
    for package in gcc libuv1-dev libcjson-dev libcmocka-dev; do
        grep -qw -- "$package" "$room/said" || wrong "deps.sh does not name $package"
    done
    grep -q 'no apt-get here' "$room/said" || wrong "deps.sh does not say that there is no apt-get"
}

test_run_tests_starts_the_slowest_first_and_names_them() {
    new_tree
    echo 'exit 0' >tests/short.sh
    echo 'exit 0' >tests/long.sh
    echo 'sleep 2' >tests/unknown.sh
    mkdir -p build/tests
    printf '1 short.sh\n50 long.sh\n7 another.sh\n' >build/tests/seconds
    status=0
    WORSEGPU_BUILD=build JOBS=1 V='' WRAPPER='' sh tools/run_tests.sh tests/short.sh tests/unknown.sh \
        tests/long.sh >"$room/said" 2>&1 || status=$?
    ends_with 0 '3 passed, 0 failed, 0 skipped'
    order=$(sed -n 's/^passed *\([a-z]*\)\.sh .*/\1/p' "$room/said" | tr '\n' ' ')
    [ "$order" = 'unknown long short ' ] || wrong "run_tests.sh began in the order $order"
    grep -q '^slowest: unknown\.sh [0-9]* s$' "$room/said" || wrong "the slowest test is not named"
    grep -q '^7 another\.sh$' build/tests/seconds || wrong "the time of a test that did not run was lost"
    ! grep -q '^50 long' build/tests/seconds || wrong "the time of a test was not renewed"
}

test_hardening_finds_each_thing_that_is_missing() {
    new_tree
    # shellcheck disable=SC2016  # C, not shell
    printf '#include <stdio.h>\n#include <string.h>\nint main(int n, char **v)\n{\n    char text[64];\n%s\n}\n' \
        '    strcpy(text, v[n - 1]); return puts(text);' >program.c
    compile() { # NAME FLAG...
        name=$1
        shift
        "${CC:-gcc}" -w -O2 -o "$name" "$@" program.c
    }
    compile good -fPIE -pie -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now
    sh tools/hardening.sh good >"$room/said" 2>&1 || {
        wrong "hardening.sh refused a hardened program:"
        cat "$room/said"
    }
    compile bad -fno-PIE -no-pie -fno-stack-protector -U_FORTIFY_SOURCE -Wl,-z,norelro,-z,lazy,-z,execstack \
        -Wl,-rpath,/nowhere
    ! sh tools/hardening.sh bad >"$room/said" 2>&1 || wrong "hardening.sh took a program with nothing"
    for lack in 'cannot be loaded anywhere' 'not marked as position-independent' 'no part that becomes read-only' \
        'binds late' 'executable stack' 'where libraries are looked for' 'without the stack protector' \
        'not one call of the C library is checked'; do
        grep -q "$lack" "$room/said" || wrong "hardening.sh does not say: $lack"
    done
    # One thing alone is enough.
    compile lazy -fPIE -pie -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,lazy
    ! sh tools/hardening.sh good lazy >"$room/said" 2>&1 || wrong "hardening.sh took a program that binds late"
    [ "$(cat "$room/said")" = 'lazy: binds late (-z now)' ] || wrong "hardening.sh says more than is wrong"
    ! sh tools/hardening.sh program.c >"$room/said" 2>&1 || wrong "hardening.sh took a text for a program"
}

test_coverage_judges_folders_and_asks_for_reasons() {
    new_tree
    judge() { # ROW...: its output is in $room/said
        printf '%s\n' filename,line_total,line_covered,line_percent,branch_total,branch_covered,branch_percent \
            lib/a.c,100,99,0,100,95,0 proto/a.c,100,96,0,100,91,0 daemon/a.c,100,100,0,100,100,0 \
            lab/a.c,100,1,0,100,1,0 "$@" >readings.csv
        status=0
        READINGS=readings.csv sh tools/coverage.sh build >"$room/said" 2>&1 || status=$?
    }
    judge client/a.c,100,95,0,100,90,0
    [ "$status" -eq 0 ] || wrong "coverage.sh refused folders that reach their goals"
    grep -q '^client .* 95\.0% .* 90\.0%' "$room/said" || wrong "coverage.sh does not print the folder"
    judge client/a.c,1000,949,0,100,95,0
    grep -q '^below the goals: client$' "$room/said" || wrong "too few lines were not seen"
    [ "$status" -eq 1 ] || wrong "coverage.sh ended with $status with too few lines"
    judge client/a.c,100,99,0,1000,899,0
    [ "$status" -eq 1 ] || wrong "coverage.sh ended with $status with too few branches"
    judge
    grep -q '^nothing was counted: client$' "$room/said" || wrong "a folder that is gone was not missed"
    [ "$status" -eq 1 ] || wrong "coverage.sh ended with $status although a folder is gone"
    # A file far below needs words.
    judge client/a.c,900,900,0,900,900,0 client/low.c,20,17,0,20,20,0
    grep -q '^not explained in tests/COVERAGE\.md: client/low\.c$' "$room/said" || wrong "a low file went unseen"
    [ "$status" -eq 1 ] || wrong "coverage.sh ended with $status although a low file is not explained"
    printf '| client/low.c | it is only run when the moon is full |\n| lib/a.c | old |\n' >tests/COVERAGE.md
    judge client/a.c,900,900,0,900,900,0 client/low.c,20,17,0,20,20,0
    [ "$status" -eq 0 ] || wrong "coverage.sh refused a low file that is explained"
    grep -q 'needs no words any more .*: lib/a\.c' "$room/said" || wrong "words that are not needed went unseen"
}

test_run_tests_counts_what_passed_failed_and_was_skipped
test_run_tests_starts_the_slowest_first_and_names_them
test_hardening_finds_each_thing_that_is_missing
test_coverage_judges_folders_and_asks_for_reasons
test_run_tests_fails_without_tests
test_run_tests_fails_a_missing_program
test_run_tests_reads_what_cmocka_says
test_run_tests_fails_a_test_that_leaves_files
test_run_tests_shows_no_daemon_of_the_user
test_check_source_finds_each_breach
test_check_source_accepts_what_only_looks_like_a_breach
test_check_source_finds_globals_that_can_change
test_deps_names_what_is_missing
[ "$failures" -eq 0 ]
