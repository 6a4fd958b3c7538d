#!/bin/sh
# Prints the project's own files whose names match a pattern, one a line, from the top of the tree:
#
#   tools/list_files.sh '*.c' '*.h'
#
# Asks git where there is a checkout (files not yet added count, ignored ones do not), else find: a source
# archive has no git.
set -eu
cd "$(dirname "$0")/.."

if top=$(git rev-parse --show-toplevel 2>/dev/null) && [ "$top" = "$(pwd -P)" ]; then
    git ls-files --cached --others --exclude-standard -- "$@"
else
    for pattern in "$@"; do
        find . \( -name .git -o -path ./build \) -prune -o -type f -name "$pattern" -print
    done | sed 's,^\./,,'
fi | LC_ALL=C sort -u | while read -r file; do
    # What is deleted but not yet committed is still in git's list.
    [ ! -f "$file" ] || printf '%s\n' "$file"
done
