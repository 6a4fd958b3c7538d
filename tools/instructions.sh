#!/bin/sh
# Counts the instructions that a request takes in the daemon, and holds them against a budget.
#
#   tools/instructions.sh [--budget]
#
# Runs BUILD/tests/bench/instructions under callgrind, whose counts are the same to the digit each time. A scenario
# more than 3 % above tests/bench/instructions.budget fails. --budget writes what was measured into that file.
# Another compiler, processor family or C library makes other instructions: there the figures are only shown.
# Environment: BUILD (default build), CC (default gcc).
set -eu
cd "$(dirname "$0")/.."

budget=tests/bench/instructions.budget
program=${BUILD:-build}/tests/bench/instructions
write=
case ${1:-} in
'') ;;
--budget) write=yes ;;
*)
    echo 'usage: tools/instructions.sh [--budget]' >&2
    exit 2
    ;;
esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT HUP INT TERM

# Which version of memcpy runs must not depend on the processor.
GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512F,-ERMS valgrind -q --tool=callgrind \
    --callgrind-out-file="$folder/count" --collect-atstart=no \
    --toggle-collect='counted_turn*' --toggle-collect='counted_end_of_turn*' \
    --dump-after='instructions_counted*' "$program" >"$folder/names"

here="$(${CC:-gcc} --version | sed -n 1p), $(uname -m), $(getconf GNU_LIBC_VERSION 2>/dev/null || echo 'another C library')"

counted() { # PART: how many instructions callgrind counted for it
    sed -n 's/^totals: //p' "$folder/count.$1"
}

part=1
while IFS='	' read -r requests name; do
    # The first part is the warming up; twice the requests minus once the requests is the steady state.
    once=$(counted $((part + 1)))
    twice=$(counted $((part + 2)))
    printf '%s\t%s\n' $(((twice - once) / requests)) "$name"
    part=$((part + 3))
done <"$folder/names" >"$folder/measured"

if [ -n "$write" ]; then
    sed -n '/^#/p' "$budget" >"$folder/budget"
    { cat "$folder/budget" && echo "measured with: $here" && cat "$folder/measured"; } >"$budget"
fi
there=$(sed -n 's/^measured with: //p' "$budget")
awk -F '\t' '
FNR == NR { if (NF == 2) allowed[$2] = $1; next }
{
    if (!($2 in allowed)) {
        printf "%7d         %s: not in the budget\n", $1, $2
        missing = 1
        next
    }
    share = 100 * ($1 / allowed[$2] - 1)
    printf "%7d %+6.1f %% %s\n", $1, share, $2
    if (share > 3) over = 1
    if (share < -3) under = 1
    seen[$2] = 1
}
END {
    for (name in allowed) if (!(name in seen)) missing = 1
    exit over ? 3 : missing ? 4 : under ? 5 : 0
}' "$budget" "$folder/measured" && verdict=0 || verdict=$?

if [ "$here" != "$there" ]; then
    echo "instructions: not judged. This is $here; the budget was measured with $there."
    exit 0
fi
case $verdict in
0) echo 'instructions: within the budget' ;;
5) echo "instructions: within the budget; some take 3 % less now: tools/instructions.sh --budget lowers it" ;;
4)
    echo "instructions: the scenarios are not those of $budget: tools/instructions.sh --budget writes it anew" >&2
    exit 1
    ;;
*)
    {
        echo "instructions: more than 3 % above the budget. To see which functions it is:"
        echo "    valgrind --tool=callgrind --collect-atstart=no --toggle-collect='counted_turn*' $program"
        echo "    callgrind_annotate callgrind.out.*"
        echo "If they are worth it: tools/instructions.sh --budget, and commit $budget together with the"
        echo "change, saying why."
    } >&2
    exit 1
    ;;
esac
