#!/bin/sh
# test_cases: docs/cases.md is what the table of public cases says, and each command on it works.
set -eu

build=$(cd "${WORSEGPU_BUILD:-build}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/worsegpu-cases-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

WORSEGPU_BUILD="$build" tools/cases_page.sh >"$work/cases.md"
diff docs/cases.md "$work/cases.md" >"$work/difference" || {
    head -n 20 "$work/difference"
    echo "docs/cases.md is not what lab/cases.def says; to make it anew: tools/cases_page.sh >docs/cases.md" >&2
    exit 1
}

# The commands of each case, as one session; each is shown before it runs.
grep '^    worsegpu-lab ' docs/cases.md >"$work/commands"
cases=$(grep -c '^## .*: \[' docs/cases.md)
[ "$(grep -c ' generate case:' "$work/commands")" -eq "$cases" ] || {
    echo "docs/cases.md: $cases cases, but not as many commands that make them" >&2
    exit 1
}
(cd "$work" && PATH="$build:$PATH" sh -ex commands >output 2>&1) || {
    tail -n 20 "$work/output"
    echo "docs/cases.md: a command failed" >&2
    exit 1
}
