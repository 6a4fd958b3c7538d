#!/bin/sh
# test_screens: the pictures that the README shows are those that the programs draw today.
set -eu
command -v tmux >/dev/null || {
    echo "test_screens: skipped, there is no tmux"
    exit 0
}
room=$(mktemp -d "${TMPDIR:-/tmp}/worsegpu-test-screens-XXXXXX")
trap 'rm -rf "$room"' EXIT
tools/screens.sh "$room"
status=0
for name in smi.txt smi.svg top.txt top.svg; do
    cmp "$room/$name" "docs/$name" || {
        diff "docs/$name" "$room/$name" | head -n 20 || true
        echo "test_screens: docs/$name is another picture; make it again: tools/screens.sh docs"
        status=1
    }
done
for name in smi.svg top.svg; do
    grep -q "docs/$name" README.md || {
        echo "test_screens: README.md does not show docs/$name"
        status=1
    }
done
exit $status
