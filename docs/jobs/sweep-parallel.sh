#!/bin/sh
# A sweep of worsegpu-lab under GNU parallel, on this machine or on many, and the merge at the end.
#
#   sweep-parallel.sh SPEC FOLDER SHARDS [OPTION OF parallel...]
#
# On this machine parallel starts one shard a core. With --sshlogin HOST,HOST or --sshloginfile FILE it starts them
# there: SPEC, its logs and FOLDER must be in the same place on all of them (a shared folder), and worsegpu-lab installed.
# What was stopped goes on where it was when the same line is run again.
set -eu

[ $# -ge 3 ] || {
    echo "usage: sweep-parallel.sh SPEC FOLDER SHARDS [OPTION OF parallel...]" >&2
    exit 2
}
command -v parallel >/dev/null || {
    echo "sweep-parallel.sh: there is no GNU parallel; on Debian: apt-get install parallel" >&2
    exit 1
}
spec=$1
folder=$2
shards=$3
shift 3

mkdir -p "$folder"
seq 1 "$shards" | parallel --will-cite --halt soon,fail=1 "$@" \
    worsegpu-lab sweep "$spec" --shard "{}/$shards" --jobs 1 --output "$folder/part-{}.ndjson"

# Their names in order, however many there are; parts of an earlier sweep with more shards are not among them.
set --
for shard in $(seq 1 "$shards"); do
    set -- "$@" "$folder/part-$shard.ndjson"
done
worsegpu-lab merge "$@" --output "$folder/results.ndjson" --csv "$folder/results.csv"
