#!/bin/sh
# docs/cases.md, made from the lab's own table of public cases. A test compares the two.
#
#   tools/cases_page.sh >docs/cases.md
#
# WORSEGPU_BUILD (default: build) holds worsegpu-lab.
set -eu
cd "$(dirname "$0")/.."
lab=${WORSEGPU_BUILD:-build}/worsegpu-lab

cat <<'END'
# Public cases, told again

Reports of GPU memory that ran out or was wasted, as runs that anyone can make on a machine without a GPU. For each:
what was reported, what the models do with it, and what cures it. A test holds every number on this page.

`worsegpu-lab generate case:NAME` writes a case as a trace; with `variant=NAME` it is told the other way. `worsegpu-lab
list cases` shows this page in the terminal. Sizes are those of the report where it gives any; where it gives only
totals, the pieces are made up, and the text says so.

END

"$lab" list cases | awk '
    function command(    line, usual) {
        # The first run that is told, under all the policies that are tried on the same capacity in the same way.
        line = "    worsegpu-lab generate case:" name
        if (variant[1] != "") line = line " variant=" variant[1]
        print line " --output case.ndjson"
        line = "    worsegpu-lab compare case.ndjson --quick --no-time --capacity " capacity[1]
        for (i = 1; i <= runs; i++) {
            if (variant[i] != variant[1] || capacity[i] != capacity[1]) continue
            line = line " --policy " (policy[i] ~ / / ? "\047" policy[i] "\047" : policy[i])
        }
        print line
    }
    function finish() {
        if (name == "") return
        print ""
        command()
        print ""
    }
    /^case:/ {
        finish()
        name = substr($1, 6); runs = 0
        link = $NF
        source = $0; sub(/^case:[^ ]+  /, "", source); sub(/  http.*$/, "", source)
        print "## " name ": [" source "](" link ")\n"
        next
    }
    /^  - / {
        if (runs == 0) print ""
        runs++
        text = substr($0, 5)
        split(text, halves, ": ")
        where = text; sub(/: (allocation|nothing) .*$/, "", where)
        outcome = substr(text, length(where) + 3)
        variant[runs] = ""
        if (where ~ /^[a-z-]+, /) { variant[runs] = where; sub(/, .*$/, "", variant[runs]); sub(/^[a-z-]+, /, "", where) }
        capacity[runs] = where; sub(/^.* on /, "", capacity[runs])
        policy[runs] = where; sub(/ on [^ ]+$/, "", policy[runs])
        print "- " (variant[runs] != "" ? variant[runs] ", " : "") "`" policy[runs] "` on " capacity[runs] ": " outcome
        next
    }
    /^  Cure: / { print ""; print "Cure: " substr($0, 9); next }
    /^  variant=: / { print "Told as `variant=`: " substr($0, 13) "."; next }
    /^  / { print substr($0, 3) }
    END { finish() }'

cat <<'END'
## Left out, and why

- pytorch #123548: setting `max_split_size_mb` together with expandable segments failed in `release_block`. PyTorch
  2.6, which the model follows, passes over `max_split_size_mb` there, so nothing happens any more.
- pytorch #110194 and rmm #1245: `cudaMallocAsync`'s own pool has no model here.
- pytorch #159674: private pools of PyTorch have no model here.
- rmm #496: the rule by which a pool grew then has been replaced; the model has today's, which serves both requests.
- VMA #231: how VMA sizes its blocks is not modelled, only what happens inside one.
- The recording with a flush at event 2045 is a log, not a story: `worsegpu-lab verify` replays such logs.
END
