#!/bin/sh
# Makes the pictures of `worsegpu-cli smi` and `worsegpu-cli top` that the README shows, from the real programs:
#
#   tools/screens.sh FOLDER       writes smi.txt, smi.svg, top.txt and top.svg into it
#
# The programs are those of $WORSEGPU_BUILD (default build), the terminal is tmux. The same code gives the same bytes:
# the seed is fixed, and the numbers of processes are replaced.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
[ $# -eq 1 ] || {
    echo "usage: tools/screens.sh FOLDER" >&2
    exit 2
}
folder=$1
build=$(cd "${WORSEGPU_BUILD:-$top/build}" && pwd)
room=$(mktemp -d "${TMPDIR:-/tmp}/worsegpu-screens-XXXXXX")
WORSEGPU_SOCKET=$room/socket
export WORSEGPU_SOCKET
processes=
clean() {
    # shellcheck disable=SC2086  # a list of words
    kill $processes 2>/dev/null || true
    for name in smi top; do
        tmux -S "$room/tmux-$name" kill-server 2>/dev/null || true
    done
    rm -rf "$room"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

until_there() { # COMMAND...: waits until it works, for a minute at most
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || {
            echo "tools/screens.sh: waited in vain for: $*" >&2
            exit 1
        }
        sleep 0.1
    done
}

# Connection numbers are given in turn, so whoever asks whether the daemon is there uses one up: only its socket is looked at.
"$build/worsegpud" --socket "$WORSEGPU_SOCKET" --seed 11 --capacity 64MiB --gpu-probability 0.95 \
    --forget-probability 0.4 --trace-limit 1000 2>"$room/log" &
daemon=$!
processes=$daemon
until_there test -S "$WORSEGPU_SOCKET"

hold() { # NAME SIZE...
    name=$1
    shift
    "$build/worsegpu-cli" --name "$name" alloc "$@" --hold >/dev/null 2>"$room/$name" &
    processes="$processes $!"
    until_there grep -q holding "$room/$name"
}
hold trainer 1.5MiB 4MiB 3MiB 2MiB 6MiB
trainer=${processes##* }
"$build/worsegpu-cli" --name loader alloc 1MiB 2MiB 2MiB 1MiB 3MiB 2MiB >/dev/null
hold server 1MiB 8MiB 700KiB 5MiB
server=${processes##* }
"$build/worsegpu-cli" free --all-detached >/dev/null
hold notebook 3MiB 512KiB
notebook=${processes##* }

# Numbers of processes and users differ; what stands for them has the same width.
anonymous() {
    sed -e "s/process $daemon */process 4000/" \
        -e "$(number "$trainer" 4101)" -e "$(number "$server" 4102)" -e "$(number "$notebook" 4103)" \
        -e 's/\(410[123]\) *[0-9]* /\1  1000 /'
}
number() { # NUMBER OTHER: a column of 7
    printf 's/%7d /%7d /' "$1" "$2"
}

command -v tmux >/dev/null || {
    echo "tools/screens.sh: there is no tmux" >&2
    exit 1
}
show() { # NAME COLUMNS ROWS COMMAND: each in a tmux of its own
    tmux -f /dev/null -S "$room/tmux-$1" new-session -d -x "$2" -y "$3" "env TERM=screen-256color NO_COLOR= $4"
}
capture() { # NAME TMUX_OPTION...
    name=$1
    shift
    tmux -S "$room/tmux-$name" capture-pane -p "$@"
}
keep() { # NAME: with its colours, and without
    capture "$1" -e >"$room/$1"
    capture "$1" >"$room/$1.plain"
}
# Rates are known, and nothing happens any more.
top_is_settled() {
    capture top | grep -q '^0\.0 allocations, 0\.0 frees, 0\.0 full, 0\.0 requests '
}
smi_is_there() {
    capture smi | grep -q notebook
}
show top 100 28 "$build/worsegpu-cli top --interval 0.5"
until_there top_is_settled
keep top
tmux -S "$room/tmux-top" kill-server
show smi 100 10 "$build/worsegpu-cli smi; sleep 60"
until_there smi_is_there
keep smi

mkdir -p "$folder"
for name in smi top; do
    anonymous <"$room/$name.plain" | sed 's/ *$//' >"$folder/$name.txt"
    anonymous <"$room/$name" | awk -f "$top/tools/screen_to_svg.awk" >"$folder/$name.svg"
done
