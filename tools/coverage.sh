#!/bin/sh
# Prints how many lines and branches the tests ran, for each folder and for each file, and judges them.
#
#   tools/coverage.sh BUILD      where a build with --coverage and its tests have run
#
# Lines and branches are gcov's, of a build without optimisation: each operand of && and || is a branch of its own, both
# ways. Left out are only those that the compiler itself puts on lines without code (gcovr's unreachable branches). No
# line of the code is marked as not to be counted.
#
# Exit 1 when one of the folders of the goals is below them, or a file that is much below them (90 % of lines, 80 %
# of branches) is not explained in tests/COVERAGE.md. BUILD/coverage.txt names each line left.
set -eu
cd "$(dirname "$0")/.."
build=$1
goals='lib proto daemon client'
goal_lines=95
goal_branches=90
explained=tests/COVERAGE.md

# READINGS is for the tests of this script: a table as gcovr writes it.
readings=${READINGS:-}
if [ -z "$readings" ]; then
    readings=$build/coverage.csv
    gcovr --root . --object-directory "$build/obj" --exclude 'tests/' --exclude 'manual/' \
        --exclude-unreachable-branches --csv "$readings" --txt "$build/coverage.txt" "$build/obj"
fi

echo
awk -F, -v goals="$goals" -v goal_lines="$goal_lines" -v goal_branches="$goal_branches" -v explained="$explained" '
    function share(part, whole) { return whole ? 100 * part / whole : 100 }
    function row(name, lines, of_lines, branches, of_branches) {
        return sprintf("%-34s lines %5.1f%% %11s   branches %5.1f%% %11s", name, share(lines, of_lines),
            lines "/" of_lines, share(branches, of_branches), branches "/" of_branches)
    }
    function below(less, more, lines, of_lines, branches, of_branches) {
        return share(lines, of_lines) < less || share(branches, of_branches) < more
    }
    BEGIN {
        while ((getline line <explained) > 0)
            if (line ~ /^\| [a-z_\/]+\.[ch] \|/) { split(line, cell, " *\\| *"); reason[cell[2]] = cell[3] }
        count = split(goals, wanted, " ")
        for (i = 1; i <= count; i++) has_goal[wanted[i]] = 1
    }
    FNR == 1 { next } # the headings
    {
        folder = $1
        sub(/\/.*/, "", folder)
        if (!(folder in lines)) order[++folders] = folder
        lines[folder] += $3; of_lines[folder] += $2; branches[folder] += $6; of_branches[folder] += $5
        if (folder in has_goal && below(90, 80, $3, $2, $6, $5)) {
            low[++lows] = row($1, $3, $2, $6, $5)
            if (reason[$1] == "") { unknown[++unknowns] = $1 }
        } else if ($1 in reason) {
            spare[++spares] = $1
        }
    }
    END {
        for (i = 1; i <= folders; i++) {
            f = order[i]
            print row(f, lines[f], of_lines[f], branches[f], of_branches[f])
            if (f in has_goal && below(goal_lines, goal_branches, lines[f], of_lines[f], branches[f], of_branches[f]))
                failed[++failures] = f
        }
        if (lows) print "\nfiles below 90 % of lines or 80 % of branches:"
        for (i = 1; i <= lows; i++) print low[i]
        print ""
        for (i = 1; i <= spares; i++) print "needs no words any more in " explained ": " spare[i]
        for (i = 1; i <= unknowns; i++) print "not explained in " explained ": " unknown[i]
        for (i = 1; i <= count; i++)
            if (!(wanted[i] in lines)) { print "nothing was counted: " wanted[i]; failures++ }
        for (i in failed) print "below the goals: " failed[i]
        if (failures || unknowns) exit 1
        print "coverage: each of " goals " has at least " goal_lines " % of its lines and " goal_branches \
            " % of its branches"
    }' "$readings"
