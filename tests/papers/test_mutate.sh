#!/bin/sh
# test_mutate: tools/mutate.py on a small file whose mutants are known: it tells which of them the tests kill, which survive,
# and which lines of a list of explained survivors are no longer true.
set -eu
for program in python3 clang cc; do
    command -v "$program" >/dev/null 2>&1 || {
        echo "skipped: there is no $program here"
        exit 77
    }
done
root=$PWD
room=$(mktemp -d "${TMPDIR:-/tmp}/mutate.XXXXXX")
trap 'rm -rf "$room"' EXIT
cd "$room"

cat >limit.h <<'END'
int limit(int value);
int never(int value);
END
cat >limit.c <<'END'
#include "limit.h"

enum { MOST = 10 };

int limit(int value)
{
    static const int unused = 3 + 4;
    if (value > MOST)
        return MOST;
    while (value < unused - 10)
        value++;
    return value;
}

int never(int value)
{
    return value + 2;
}
END
cat >check.c <<'END'
#include "limit.h"

int main(void)
{
    return limit(9) == 9 && limit(10) == 10 && limit(11) == 10 && limit(12) == 10 && limit(-9) == -3 ? 0 : 1;
}
END
# Two that nobody can tell apart, what no test comes by, and one line that is wrong.
cat >explained.md <<'END'
limit.c:8 limit #1 relational (> to >=): value > MOST
limit.c:8 limit #1 constant (minus 1): MOST
limit.c:10 limit #1 relational (< to <=): value < unused - 10
limit.c:17 never #1 return (0): value + 2
limit.c:17 never #1 arithmetic (+ to -): value + 2
limit.c:17 never #1 constant (plus 1): 2
limit.c:17 never #1 constant (minus 1): 2
END

mutate() { # OPTIONS...
    # $MUTANT_CC is for the shell that builds.
    # shellcheck disable=SC2016
    PYTHONDONTWRITEBYTECODE=1 python3 "$root/tools/mutate.py" --work work --build '$MUTANT_CC -o check limit.c check.c' \
        --sources limit.c --tests ./check --compiler cc --explained explained.md "$@" -- -I. >said 2>&1
}
fail() {
    echo "WRONG: $*"
    cat said
    exit 1
}
expect() { # TEXT
    grep -qF "$1" said || fail "it does not say: $1"
}

test_a_listed_survivor_that_is_killed_is_stale() {
    status=0
    mutate || status=$?
    [ "$status" -eq 1 ] || fail "it ends with $status"
    expect 'stale: limit.c:10 limit #1 relational (< to <=): value < unused - 10 (killed now)'
}

test_a_listed_survivor_that_is_gone_is_stale() {
    sed -i 's/^limit.c:10 .*/limit.c:10 limit #2 constant (plus 1): 11/' explained.md
    status=0
    mutate || status=$?
    [ "$status" -eq 1 ] || fail "it ends with $status"
    expect 'stale: limit.c:10 limit #2 constant (plus 1): 11 (gone)'
}

test_every_mutant_of_the_small_file_is_judged_right() {
    sed -i '/^limit.c:10 /d' explained.md
    mutate --fresh || fail "it ends with $?"
    expect '12 of 18 mutants killed: 66.7 %; without the 6 explained survivors 100.0 %'
    [ "$(grep -c '^explained limit.c:17 never' work/survivors.txt)" -eq 4 ] || fail "survivors.txt has other lines"
    [ "$(grep -c '"verdict": "unreached"' work/results.ndjson)" -eq 4 ] || fail "other mutants were not reached"
}

test_less_than_asked_for_is_a_failure() {
    status=0
    mutate --least 67 || status=$?
    [ "$status" -eq 1 ] || fail "it ends with $status"
}

test_a_listed_survivor_that_is_killed_is_stale
test_a_listed_survivor_that_is_gone_is_stale
test_every_mutant_of_the_small_file_is_judged_right
test_less_than_asked_for_is_a_failure
