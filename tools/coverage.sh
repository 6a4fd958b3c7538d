#!/bin/sh
# Prints how many lines and branches the tests ran, for each folder and in all.
#
#   tools/coverage.sh BUILD      where a build with --coverage and its tests have run
set -eu
cd "$(dirname "$0")/.."
build=$1

# One reading of the raw data; the folders are only cut out of it.
gcovr --root . --object-directory "$build/obj" --exclude 'tests/' --exclude-unreachable-branches \
    --json "$build/coverage.json" "$build/obj"

row() { # NAME FILTER: one line from gcovr's three of summary
    gcovr --root . --add-tracefile "$build/coverage.json" --filter "$2" --print-summary --output "$build/table.txt" |
        awk -v name="$1" '
            /^lines:/ { lines = $2 " " $3 " " $4 " " $5 " " $6 }
            /^branches:/ { branches = $2 " " $3 " " $4 " " $5 " " $6 }
            END { printf "%-10s lines %-26s branches %s\n", name, lines, branches }'
}

echo
for folder in base lib proto console daemon client lab; do
    row "$folder" "$folder/"
done
row all '(base|lib|proto|daemon|client)/'
