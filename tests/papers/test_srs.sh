#!/bin/sh
# test_srs: SRS.md is true: every test it names exists, every requirement names one, and the reference's numbers are all
# there. A test is a function test_... in tests/, or a script of tests/papers or tests/acceptance named by its
# file.
set -eu

fail() {
    echo "SRS.md: $*" >&2
    exit 1
}

names=$(grep -oE '\btest_[a-z0-9_]+(\.sh)?' SRS.md | sort -u)
[ -n "$names" ] || fail "names no test"
for name in $names; do
    case $name in
    *.sh) [ -f "tests/papers/$name" ] || fail "there is no script tests/papers/$name" ;;
    *) grep -rqE "^(static )?void $name\(" tests/unit tests/integration tests/simulation tests/faults || fail "there is no test $name" ;;
    esac
done

number=1
while [ "$number" -le 13 ]; do
    id=$(printf '%02d' "$number")
    [ "$number" -gt 12 ] || grep -q "^| FR-$id " SRS.md || fail "FR-$id is missing"
    grep -q "^| NFR-$id " SRS.md || fail "NFR-$id is missing"
    number=$((number + 1))
done

unproven=$(grep -E '^\| [A-Z]+-[0-9]+ ' SRS.md | grep -vE 'test_[a-z0-9_]+|make [a-z]+' || true)
[ -z "$unproven" ] || fail "no test is named for: $unproven"

twice=$(grep -oE '^\| [A-Z]+-[0-9]+ ' SRS.md | sort | uniq -d)
[ -z "$twice" ] || fail "numbered twice: $twice"
echo "SRS.md: $(printf '%s\n' "$names" | wc -l) tests named, $(grep -cE '^\| [A-Z]+-[0-9]+ ' SRS.md) requirements"
