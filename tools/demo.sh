#!/bin/sh
# Shows the main job in a few seconds: a daemon on a private socket, the demo over it, three processes that share
# one fake GPU, the benchmark. Called by `make demo`, after a build; leaves nothing behind.
#
#   WORSEGPU_BUILD=build tools/demo.sh
set -eu
cd "$(dirname "$0")/.."
build=${WORSEGPU_BUILD:-build}
for program in worsegpud worsegpu-cli worse-gpu-demo worse-gpu-benchmark; do
    [ -x "$build/$program" ] || {
        echo "tools/demo.sh: there is no $build/$program; run make first" >&2
        exit 1
    }
done

room=$(mktemp -d "${TMPDIR:-/tmp}/wgdemo.XXXXXX")
WORSEGPU_SOCKET=$room/socket
export WORSEGPU_SOCKET
daemon=
holders=
clean_up() {
    # shellcheck disable=SC2086  # $holders is a list of process numbers
    [ -z "$holders$daemon" ] || kill $holders $daemon 2>/dev/null || true
    wait
    rm -rf "$room"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

say() {
    printf '\n== %s\n' "$*"
}
wait_until() { # WHAT COMMAND...: up to 10 s
    what=$1
    shift
    tries=100
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || {
            echo "tools/demo.sh: $what did not happen within 10 s" >&2
            cat "$room"/*.log >&2
            exit 1
        }
        sleep 0.1
    done
}

say "A daemon with a fake GPU of 32 MiB, seed 7, on a private socket"
"$build/worsegpud" --socket "$WORSEGPU_SOCKET" --capacity 32MiB --seed 7 2>"$room/daemon.log" &
daemon=$!
wait_until "the daemon's first answer" "$build/worsegpu-cli" info
cat "$room/daemon.log"

say "The demo, over its socket"
"$build/worse-gpu-demo" --delay 0

say "Three processes take memory on the one shared GPU, and hold it"
hold() { # NAME SIZE
    "$build/worsegpu-cli" alloc "$2" --tag "$1" --hold >"$room/$1.log" 2>&1 &
    holders="$holders $!"
    wait_until "the allocation of $1" grep -qE 'Ctrl-C|^worsegpu-cli:' "$room/$1.log"
    sed "s/^/$1: /" "$room/$1.log"
    grep -q 'Ctrl-C' "$room/$1.log" || exit 1 # it said why
}
hold alice 1MiB
hold bob 300KiB
hold carol 2.5MiB

say "A fourth process looks: worsegpu-cli list"
"$build/worsegpu-cli" list
say "worsegpu-cli snapshot"
"$build/worsegpu-cli" snapshot

say "They end, and what they held is freed (some of it is forgotten: that is the joke)"
# shellcheck disable=SC2086  # $holders is a list of process numbers
kill $holders
for holder in $holders; do
    wait "$holder" || true
done
holders=
"$build/worsegpu-cli" snapshot | grep -E '^(metric|gpu_(used|free|forgotten)) '
"$build/worsegpu-cli" validate

say "How much worse it is than an honest allocator: the benchmark"
"$build/worse-gpu-benchmark"

say "The daemon stops"
kill "$daemon"
wait "$daemon" || {
    echo "tools/demo.sh: the daemon ended with $?" >&2
    cat "$room/daemon.log" >&2
    exit 1
}
daemon=
tail -n 1 "$room/daemon.log"
