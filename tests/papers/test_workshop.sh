#!/bin/sh
# test_workshop: every command of docs/workshop.md works when it is pasted, and prints what the page shows.
#
# The ```console blocks are one session: a line with `$ ` is a command, the lines below it are what it prints, `...`
# stands for any lines. The ```sh block only says where the programs are.
set -eu

build=$(cd "${WORSEGPU_BUILD:-build}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/worsegpu-workshop-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/run" "$work/class" "$work/said"

# session.sh runs each command into said/N; expected/N is what the page shows.
awk -v work="$work" '
    /^```/ { inside = !inside && $0 == "```console"; next }
    !inside { next }
    /^\$ / {
        count++
        command = substr($0, 3)
        print "{ " command (command ~ /&$/ ? "" : ";") " } >\"" work "/said/" count "\" 2>&1 </dev/null || :" > (work "/session.sh")
        printf "" > (work "/expected." count)
        print command > (work "/command." count)
        next
    }
    { print > (work "/expected." count) }
    END { print count > (work "/count") }' docs/workshop.md
(cd "$work/class" && env -u WORSEGPU_SOCKET PATH="$build:$PATH" XDG_RUNTIME_DIR="$work/run" sh "$work/session.sh")

count=$(cat "$work/count")
[ "$count" -ge 15 ] || {
    echo "docs/workshop.md: only $count commands were found" >&2
    exit 1
}
failed=
number=1
while [ "$number" -le "$count" ]; do
    # `...` matches as few lines as will do; there are not many of them on a page.
    awk -v said="$work/said/$number" '
        function matches(line, at,    next_at) {
            if (line > lines) return at > saids
            if (expected[line] != "...") return at <= saids && expected[line] == text[at] && matches(line + 1, at + 1)
            for (next_at = at; next_at <= saids + 1; next_at++)
                if (matches(line + 1, next_at)) return 1
            return 0
        }
        { expected[++lines] = $0 }
        END {
            while ((getline one < said) > 0) { sub(/[ \t]+$/, "", one); text[++saids] = one }
            exit !matches(1, 1)
        }' "$work/expected.$number" || {
        failed=yes
        echo "docs/workshop.md shows something else than this command prints: $(cat "$work/command.$number")"
        diff "$work/expected.$number" "$work/said/$number" | head -n 20 || :
    }
    number=$((number + 1))
done
[ -z "$failed" ]
