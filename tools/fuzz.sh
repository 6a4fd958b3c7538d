#!/bin/sh
# Runs fuzz targets with libFuzzer, JOBS at once, and says of each what it has done.
#
#   BUILD=folder TIME=seconds JOBS=n tools/fuzz.sh target...
#
# The targets are BUILD/fuzz/target. What they find gathers in BUILD/fuzz/corpus; what makes one fail is written beside
# it, and its log is shown. WRAPPER (may be empty) stands before each command.
set -eu

: "${BUILD:?}" "${TIME:?}" "${JOBS:?}"
folder=$BUILD/fuzz

sh tests/fuzz/dictionary.sh >"$folder/dictionary"
for target; do
    mkdir -p "$folder/corpus/$target"
done

export CMOCKA_TEST_ABORT=1 UBSAN_OPTIONS=print_stacktrace=1
# A busy machine is no reason to call an input slow.
status=0
printf '%s\n' "$@" | xargs -P "$JOBS" -I @ sh -c "
    ${WRAPPER:-} '$folder/@' -max_total_time=$TIME -timeout=120 -report_slow_units=60 -rss_limit_mb=1024 \
        -detect_leaks=1 -print_final_stats=1 -dict='$folder/dictionary' -artifact_prefix='$folder/@-' \
        '$folder/corpus/@' 'tests/fuzz/corpus/@' >'$folder/@.log' 2>&1 ||
        { tail -n 40 '$folder/@.log'; echo '@: failed'; exit 1; }" || status=$?

statistic() # target name
{
    sed -n "s/^stat::$2: *//p" "$folder/$1.log"
}

# The last of the figures that a log tells again and again.
progress() # target name
{
    sed -n "s/^#[0-9].* $2: \([0-9]*\).*/\1/p" "$folder/$1.log" | tail -n 1
}

printf '%-22s %14s %8s %10s %10s\n' target executions edges features 'peak MB'
for target; do
    printf '%-22s %14s %8s %10s %10s\n' "$target" "$(statistic "$target" number_of_executed_units)" \
        "$(progress "$target" cov)" "$(progress "$target" ft)" "$(statistic "$target" peak_rss_mb)"
done
exit "$status"
