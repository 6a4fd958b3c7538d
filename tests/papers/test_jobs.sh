#!/bin/sh
# test_jobs: the job files of docs/jobs work: a sweep as a job array, and under GNU parallel, gives the bytes of one that was
# not cut up; and the example of a specification is one.
#
# Slurm itself is not needed: its tasks are played, one after the other, with the variables that it sets. Without GNU parallel
# that part is skipped, and this ends with 77.
set -eu
build=$(cd "${WORSEGPU_BUILD:-build}" && pwd)
top=$(pwd)
room=$(mktemp -d "${TMPDIR:-/tmp}/worsegpu-jobs-XXXXXX")
trap 'rm -rf "$room"' EXIT
PATH=$build:$PATH
export PATH
failures=0

wrong() {
    echo "WRONG: $*"
    failures=$((failures + 1))
}

cd "$room"
printf '+1000,+70000,-0,+3000000,+500,-1,+90000\n' >one
cp "$top/docs/jobs/sweep.ini" example.ini
printf 'log = one\npolicy = all\nvary = max_split_size_mb=default,32\ncapacity = unlimited, 1.5x\nseed = 0, 1\n' >spec.ini
worsegpu-lab sweep spec.ini --output whole.ndjson --csv whole.csv >said

test_the_example_is_a_specification() {
    cp one decomfl.pickle
    worsegpu-lab sweep example.ini --output example.ndjson >said || wrong "docs/jobs/sweep.ini: $(cat said)"
    [ "$(wc -l <example.ndjson)" -gt 100 ] || wrong "docs/jobs/sweep.ini has few points"
}

# task ID COUNT: one task of a job array
task() {
    env SLURM_ARRAY_TASK_ID="$1" SLURM_ARRAY_TASK_COUNT="$2" SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX="$2" \
        SLURM_CPUS_PER_TASK=1 sh "$top/docs/jobs/sweep.slurm" spec.ini array
}
test_a_job_array_gives_the_same_bytes() {
    for id in 3 1 7 2 6 5 4; do
        task "$id" 7 >said || wrong "task $id of the job array: $(cat said)"
    done
    worsegpu-lab merge array/part-*.ndjson --output array.ndjson --csv array.csv >said
    cmp whole.ndjson array.ndjson || wrong "seven tasks of a job array give other bytes"
    cmp whole.csv array.csv || wrong "seven tasks of a job array give another CSV"
    if SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=7 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=6 \
        sh "$top/docs/jobs/sweep.slurm" spec.ini array >said 2>&1; then
        wrong "an array that begins at 0 is taken"
    fi
    if sh "$top/docs/jobs/sweep.slurm" spec.ini >said 2>&1; then
        wrong "sweep.slurm runs outside of Slurm"
    fi
}

test_parallel_gives_the_same_bytes() {
    for shards in 1 7; do
        HOME=$room sh "$top/docs/jobs/sweep-parallel.sh" spec.ini "under-$shards" "$shards" --jobs 2 >said 2>&1 ||
            wrong "sweep-parallel.sh with $shards: $(cat said)"
        cmp whole.ndjson "under-$shards/results.ndjson" || wrong "$shards shards under parallel give other bytes"
        cmp whole.csv "under-$shards/results.csv" || wrong "$shards shards under parallel give another CSV"
    done
}

test_the_example_is_a_specification
test_a_job_array_gives_the_same_bytes
skipped=
if command -v parallel >/dev/null; then
    test_parallel_gives_the_same_bytes
else
    skipped=yes
    echo "skipped: there is no GNU parallel (tools/deps.sh jobs)"
fi
[ "$failures" -eq 0 ] || exit 1
[ -z "$skipped" ] || exit 77
echo "docs/jobs: $(wc -l <whole.ndjson) points, as 7 tasks and as 1 and 7 shards"
