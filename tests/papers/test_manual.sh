#!/bin/sh
# test_manual: manual pages, --help and completions say what the tables of the code say, each example in the pages runs, and
# the completions complete.
#
# The tables are read from the .def files with the compiler's preprocessor, not with the program that writes the pages.
set -eu
build=$(cd "${WORSEGPU_BUILD:-build}" && pwd)
top=$(pwd)
room=$(mktemp -d "${TMPDIR:-/tmp}/worsegpu-manual-XXXXXX")
trap 'rm -rf "$room"' EXIT
mkdir "$room/run"
PATH=$build:$PATH
XDG_RUNTIME_DIR=$room/run
export PATH XDG_RUNTIME_DIR
unset WORSEGPU_SOCKET
failures=0

wrong() {
    echo "WRONG: $*"
    failures=$((failures + 1))
}

# --------------------------------------------------------------------------------------- tables

# table DEF 'MACRO(PARAMETERS) WORDS'...: one line for each row, strings without their quotes
table() {
    def=$1
    shift
    for macro in "$@"; do
        printf '#define %s\n' "$macro"
    done >"$room/table.c"
    printf '#include "%s"\n' "$def" >>"$room/table.c"
    "${CC:-gcc}" -E -P -I. -x c "$room/table.c" | tr -s ' \n' ' ' | sed 's/ *@@ */\n/g' | sed 's/"//g; s/ *$//; /^ *$/d'
}
cli_option='OPTION(name, text, type, placeholder, meaning)'
cli_command='COMMAND(name, text, reading, operands, least, most, summary, details, example)'
lab_command='COMMAND(name, operands, least, most, summary, details, example)'
table client/cli/commands.def "$cli_option @@ name text" >"$room/cli-option-names"
table client/cli/commands.def "$cli_command @@ name text" >"$room/cli-command-names"
table lab/commands.def "$cli_option @@ name text" >"$room/lab-option-names"
table lab/commands.def "$lab_command @@ name name" >"$room/lab-command-names"
for program in cli lab; do
    def=lab/commands.def
    [ $program = lab ] || def=client/cli/commands.def
    table "$def" 'GLOBAL(option) @@ option' >"$room/$program-global-names"
    table "$def" 'TAKES(command, option) @@ command option' >"$room/$program-takes-names"
    # With the words as they are typed.
    awk 'FILENAME ~ /option-names/ { option[$1] = $2; next } { print "--" option[$1] }' \
        "$room/$program-option-names" "$room/$program-global-names" | sort >"$room/$program-globals"
    awk 'FILENAME ~ /option-names/ { option[$1] = $2; next } FILENAME ~ /command-names/ { command[$1] = $2; next }
         { print command[$1], "--" option[$2] }' \
        "$room/$program-option-names" "$room/$program-command-names" "$room/$program-takes-names" |
        sort >"$room/$program-takes"
    awk '{ print $2 }' "$room/$program-command-names" | sort >"$room/$program-commands"
    if [ ! -s "$room/$program-takes" ] || [ ! -s "$room/$program-globals" ]; then
        wrong "the table of worsegpu-$program was not read"
    fi
done
daemon_row='OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help) @@ scope flag'
table daemon/options.def "$daemon_row" >"$room/daemon-rows"
# What only the command line has.
{ awk '{ print "--" $2 }' "$room/daemon-rows" && printf -- '--%s\n' config inject run help version; } |
    sort >"$room/daemon-flags"
awk '{ print $2 }' "$room/daemon-rows" | sort >"$room/daemon-keys"
table proto/methods.def 'METHOD(name, summary, result) @@ name' 'TAKES(method, parameter, need) @@ method.parameter' |
    sort >"$room/methods"
table proto/errors.def 'ERROR(name, code, kind, when) @@ code kind' | sort >"$room/errors"
for rows in daemon-keys methods errors; do
    [ "$(wc -l <"$room/$rows")" -ge 10 ] || wrong "the table of $rows was not read"
done
# The two commands with a table of their own, and the words of rules.
workload_flags() { # demo|benchmark
    sed -nE 's/^ +\[FLAG_[A-Z]+\] = \{"(--[a-z]+)".*/\1/p' client/cli/workload_options.c |
        grep -vx -- "$([ "$1" = demo ] && echo --capacity || echo --delay)"
}
rule_words() {
    sed -nE 's/^ +\{(\{)?"(--[a-z-]+)",.*/\2/p' proto/inject_words.c
}
[ "$(workload_flags demo | wc -l)" -eq 5 ] || wrong "the table of client/cli/workload_options.c was not read"
[ "$(rule_words | wc -l)" -ge 10 ] || wrong "the table of proto/inject_words.c was not read"

same() { # WHAT FILE_WITH_WHAT_IS_WANTED: stdin has what is there
    sort >"$room/is"
    diff "$2" "$room/is" >"$room/difference" || {
        wrong "$1: not what the table says (< table, > there)"
        cat "$room/difference"
    }
}

# --------------------------------------------------------------------------------------- pages

# page NAME: its roff, with scdoc's precautions taken out
page() {
    sed 's/\\&//g; s/\\e/\\/g; s/\\-/-/g' "$build/manual/$1"
}
bold_options() {
    sed -nE 's/^\\fB(--[a-z-]+)\\fR.*/\1/p'
}
section() { # NAME: of the page on stdin
    awk -v name="$1" '/^\.SH / { inside = $0 == ".SH " name; next } inside'
}

test_pages_say_what_the_tables_say() {
    page worsegpud.8 | section OPTIONS | bold_options | same worsegpud.8 "$room/daemon-flags"
    page worsegpu.conf.5 | sed -nE 's/^\\fB([a-z-]+)\\fR = .*/\1/p' | same worsegpu.conf.5 "$room/daemon-keys"
    page worsegpu-protocol.7 | section METHODS | awk '
        match($0, /^\\fB[a-z_]+\\fR$/) { method = substr($0, 4, length($0) - 6); print method; next }
        match($0, /^\\fB[a-z_]+\\fR/) { print method "." substr($0, 4, RLENGTH - 6) }' |
        same "worsegpu-protocol.7, methods" "$room/methods"
    page worsegpu-protocol.7 | section ERRORS | sed -nE 's/^\\fB(-?[0-9]+)\\fR (.*)/\1 \2/p' |
        same "worsegpu-protocol.7, errors" "$room/errors"
    for program in cli lab; do
        page "worsegpu-$program.1" | section OPTIONS | bold_options |
            same "worsegpu-$program.1, options" "$room/$program-globals"
        page "worsegpu-$program.1" | section COMMANDS | sed -nE 's/^\.SS ([a-z-]+).*/\1/p' |
            same "worsegpu-$program.1, commands" "$room/$program-commands"
        page "worsegpu-$program.1" | section COMMANDS | awk '
            /^\.SS / { command = $2 }
            command != "demo" && command != "benchmark" && match($0, /^\\fB--[a-z-]+\\fR/) {
                print command, substr($0, 4, RLENGTH - 6) }' |
            same "worsegpu-$program.1, options of commands" "$room/$program-takes"
    done
    rule_words | sort >"$room/words"
    page worsegpu-cli.1 | section RULES | bold_options | same "worsegpu-cli.1, rules" "$room/words"
    for command in demo benchmark; do
        workload_flags $command | sort >"$room/words"
        page worsegpu-cli.1 | section COMMANDS | awk -v name=$command '/^\.SS / { inside = $2 == name } inside' |
            bold_options | same "worsegpu-cli.1, $command" "$room/words"
    done
}

# The numbers of an enum's names that begin so.
exits() { # FILE PREFIX
    sed -nE "s/^ +$2[A-Z_]+ = ([0-9])([^0-9].*)?\$/\1/p" "$1" | sort >"$room/exits"
    [ "$(wc -l <"$room/exits")" -ge 3 ] || wrong "no exit codes found in $1"
}
test_pages_and_help_have_every_exit_code() {
    exits client/cli/cli.h CLI_
    page worsegpu-cli.1 | section 'EXIT STATUS' | sed -nE 's/^\\fB([0-9]+)\\fR$/\1/p' |
        same "exit codes in worsegpu-cli.1" "$room/exits"
    worsegpu-cli help | tr '\n' ' ' | grep -oE 'Exit status: .*One command' | grep -oE '\b[0-9]\b' |
        same "exit codes in worsegpu-cli help" "$room/exits"
    exits lab/lab.h LAB_
    page worsegpu-lab.1 | section 'EXIT STATUS' | grep -v '^\.' | grep -oE '\b[0-9]\b' | same "exit codes in worsegpu-lab.1" "$room/exits"
    exits daemon/main.c EXIT_
    page worsegpud.8 | section 'EXIT STATUS' | sed -nE 's/^\\fB([0-9]+)\\fR$/\1/p' |
        same "exit codes in worsegpud.8" "$room/exits"
}

test_pages_please_the_formatter() {
    for name in "$build"/manual/*.[1-9]; do
        if command -v groff >/dev/null 2>&1; then
            groff -man -ww -K utf8 -T utf8 -z "$name" >"$room/said" 2>&1 || wrong "groff fails on $name"
            [ ! -s "$room/said" ] || wrong "groff complains about ${name##*/}: $(head -n 3 "$room/said")"
        fi
        title=$(sed -n 's/^\.TH "\([^"]*\)" "\([^"]*\)".*/\1.\2/p' "$name")
        [ "$title" = "${name##*/}" ] || wrong "${name##*/} calls itself $title"
    done
    # Each program has a page, and a page that another one names is there.
    for program in worsegpud.8 worsegpu-cli.1 worsegpu-lab.1 worse-gpu-demo.1 worse-gpu-benchmark.1; do
        [ -s "$build/manual/$program" ] || wrong "there is no page $program"
    done
    cat "$build"/manual/*.[1-9] | grep -oE '\\fB[a-z.-]+\\fR\([1-9]\)' |
        sed -E 's/\\fB(.*)\\fR\((.)\)/\1.\2/' | sort -u >"$room/named"
    while read -r named; do
        case $named in
        worse* | libworse*) [ -s "$build/manual/$named" ] || wrong "a page names $named, which there is not" ;;
        esac
    done <"$room/named"
}

# --------------------------------------------------------------------------------------- --help

test_help_says_what_the_tables_say() {
    worsegpud --help | grep -oE '^  --[a-z-]+|, --version' | tr -d ' ,' | same "worsegpud --help" "$room/daemon-flags"
    for program in cli lab; do
        "worsegpu-$program" --help >"$room/help"
        grep -oE '^  --[a-z-]+' "$room/help" | tr -d ' ' | same "worsegpu-$program --help, options" "$room/$program-globals"
        sed -n '/^Commands$/,/^$/p' "$room/help" | sed -nE 's/^  ([a-z-]+) .*/\1/p' |
            same "worsegpu-$program --help, commands" "$room/$program-commands"
        while read -r command; do
            { sed -n "s/^$command //p" "$room/$program-takes" && cat "$room/$program-globals"; } >"$room/words"
            case $program:$command in
            cli:demo | cli:benchmark) workload_flags "$command" >"$room/words" ;;
            cli:inject) rule_words >>"$room/words" ;;
            esac
            sort -o "$room/words" "$room/words"
            "worsegpu-$program" help "$command" >"$room/help"
            # What the text says of an option begins a line with it, two blanks in.
            grep -oE '^  (-h, )?--[a-z-]+ ' "$room/help" | sed 's/-h, //' | tr -d ' ' | grep -vx -- '--user' >"$room/shown" || true
            grep -vx -- --user "$room/words" >"$room/wanted" || true
            same "worsegpu-$program help $command" "$room/wanted" <"$room/shown"
        done <"$room/$program-commands"
    done
}

# --------------------------------------------------------------------------------------- completions

# offers PROGRAM WORD...: what bash offers for the last word
offers() {
    # shellcheck disable=SC2016  # bash's own variables
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        "$(complete -p "$1" | sed "s/.* -F \([^ ]*\) .*/\1/")"; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$build/completions/$1.bash" "$@" | sed '/^$/d'
}

test_bash_completes_what_the_tables_have() {
    offers worsegpud -- | same "completion of worsegpud" "$room/daemon-flags"
    [ "$(offers worsegpud --capa)" = --capacity ] || wrong "worsegpud --capa is not completed"
    touch "$room/one.file"
    [ "$(offers worsegpud --config "$room/on")" = "$room/one.file" ] || wrong "worsegpud --config offers no files"
    for program in cli lab; do
        offers "worsegpu-$program" '' | grep -v '^-' | same "completion of worsegpu-$program" "$room/$program-commands"
        offers "worsegpu-$program" -- | same "completion of worsegpu-$program --" "$room/$program-globals"
        while read -r command; do
            { sed -n "s/^$command //p" "$room/$program-takes" && cat "$room/$program-globals"; } >"$room/words"
            case $program:$command in
            cli:inject) rule_words >>"$room/words" ;;
            cli:demo | cli:benchmark) workload_flags "$command" >>"$room/words" ;;
            esac
            sort -u -o "$room/words" "$room/words"
            offers "worsegpu-$program" "$command" -- | sort -u | same "completion of worsegpu-$program $command" "$room/words"
        done <"$room/$program-commands"
        [ "$(offers "worsegpu-$program" --json he)" = help ] || wrong "an option before the command hides it"
    done
    [ "$(offers worsegpu-cli --socket x alloc --co)" = --count ] || wrong "--socket's value is taken for a command"
    [ "$(offers worsegpu-cli inject oo)" = oom ] || wrong "actions of rules are not completed"
    [ "$(offers worsegpu-cli help vali)" = validate ] || wrong "help completes no commands"
    [ "$(offers worsegpu-cli run "$room/on")" = "$room/one.file" ] || wrong "run offers no files"
    [ "$(offers worsegpu-lab inspect "$room/on")" = "$room/one.file" ] || wrong "worsegpu-lab inspect offers no files"
}

test_zsh_has_what_the_tables_have() {
    sed -nE "s/^ +'\*?(--[a-z-]+)\[.*/\1/p" "$build/completions/_worsegpud" | same "zsh, worsegpud" "$room/daemon-flags"
    for program in cli lab; do
        file=$build/completions/_worsegpu-$program
        sed -n '/commands=(/,/^ *)/p' "$file" | sed -nE "s/^ +'([a-z-]+):.*/\1/p" |
            same "zsh, commands of worsegpu-$program" "$room/$program-commands"
        sed -nE "/_arguments -C/,/'1:command/s/^ +'\*?(--[a-z-]+)\[.*/\1/p" "$file" |
            same "zsh, options of worsegpu-$program" "$room/$program-globals"
        cp "$room/$program-takes" "$room/words"
        [ $program = lab ] || {
            rule_words | sed 's/^/inject /'
            workload_flags demo | sed 's/^/demo /'
            workload_flags benchmark | sed 's/^/benchmark /'
        } >>"$room/words"
        sort -o "$room/words" "$room/words"
        awk '/^    [a-z-]+\) _arguments/ { command = substr($1, 1, length($1) - 1) }
            command && match($0, /^ +\047\*?--[a-z-]+\[/) {
                text = substr($0, RSTART, RLENGTH); gsub(/[ \047*[]/, "", text); print command, text }' "$file" |
            same "zsh, options of worsegpu-$program's commands" "$room/words"
    done
    command -v zsh >/dev/null 2>&1 || {
        echo "no zsh here: its completions are not parsed"
        return
    }
    for file in "$build"/completions/_*; do
        zsh -n "$file" >"$room/said" 2>&1 || wrong "zsh does not understand ${file##*/}: $(head -n 3 "$room/said")"
    done
}

# --------------------------------------------------------------------------------------- examples

# blocks PAGE: its literal blocks, each after a line #block N
blocks() {
    page "$1" | awk '/^\.nf/ { inside = 1; print "#block " ++count; next } /^\.fi/ { inside = 0 }
        inside && !/^\.(RS|RE)/' | sed "s/\\\\(aq/'/g; s/\\\\\\\\/\\\\/g"
}

# try COMMAND_LINE: in the examples' folder, with a daemon of its own that has allocations and rules to talk about
try() {
    line=$1
    case $line in
    *--follow* | *--hold* | *--loop* | 'worsegpu-cli top'*) line="timeout --preserve-status -s INT 1 $line" ;;
    # What stands here for a snapshot is none of a real allocator: it differs, and that is told.
    *verify*.pickle) line="{ $line || [ \$? -eq 1 ]; }" ;;
    esac
    (
        cd "$room/examples"
        worsegpud --gpu-probability 1 --forget-probability 0 --seed 7 --run sh -c "
            worsegpu-cli alloc 4096 --count 8 >/dev/null
            for rule in 1 2 3; do worsegpu-cli inject host --nth 1000 >/dev/null; done
            $line"
    ) >"$room/said" 2>&1 || {
        wrong "this example ends with $?: $1"
        cat "$room/said"
    }
}

# The files that examples speak of.
make_files() {
    mkdir -p "$room/examples/golden/bfc"
    corpus=$top/tests/fuzz/corpus
    # The first byte is for the fuzz target: which format it is.
    tail -c +2 "$corpus/fuzz_log/rmm-old" >"$room/examples/rmm_log.csv"
    sed -n 's/^.*Alloc,0,/Alloc,1,/p' "$room/examples/rmm_log.csv" >"$room/device-1" # a second GPU
    cat "$room/device-1" >>"$room/examples/rmm_log.csv"
    tail -c +2 "$corpus/fuzz_log/golden" >"$room/examples/golden/bfc/one.ndjson"
    cp "$corpus/fuzz_torch_snapshot/picture" "$room/examples/decomfl.pickle"
    cp "$corpus/fuzz_torch_snapshot/picture" "$room/examples/log.pickle"
    printf 'log = decomfl.pickle\npolicy = buddy\nseed = 0, 1\n' >"$room/examples/sweep.ini"
    for shard in 1 2; do
        worsegpu-lab sweep "$room/examples/sweep.ini" --shard "$shard/2" \
            --output "$room/examples/shard-$shard.ndjson" >"$room/said"
    done
    # shellcheck disable=SC2016  # the script's own exit status
    printf '#!/bin/sh\nworsegpu-cli alloc 4096\n[ $? -eq 4 ]\n' >"$room/examples/my-test"
    chmod +x "$room/examples/my-test"
}

test_every_example_of_a_command_runs() {
    make_files
    tried=0
    for name in worsegpu-cli.1 worsegpu-lab.1 worsegpud.8; do
        blocks "$name" | grep -E '^(echo .*\| )?worse' | sort -u >"$room/lines" || true
        while read -r line; do
            try "$line"
            tried=$((tried + 1))
        done <"$room/lines"
    done
    [ "$tried" -ge 25 ] || wrong "only $tried examples were found in the pages"
    # What needs a service manager is at least a command of a shell.
    blocks worsegpud.8 | grep -E '^(systemctl|adduser)' >"$room/lines"
    sh -n "$room/lines" || wrong "worsegpud.8 has commands that are none"
}

test_the_example_of_a_configuration_is_one() {
    blocks worsegpu.conf.5 | grep -v '^#block' >"$room/example.conf"
    [ -s "$room/example.conf" ] || wrong "worsegpu.conf.5 has no example"
    worsegpud --config "$room/example.conf" --run worsegpu-cli info >"$room/said" 2>&1 ||
        wrong "the daemon does not take the example of worsegpu.conf.5: $(cat "$room/said")"
    grep -q gpu1 "$room/said" || wrong "the example of worsegpu.conf.5 has no second GPU"
}

test_the_programs_of_the_library_page_work() {
    blocks libworsegpu.3 | awk -v folder="$room" '/^#block/ { name = folder "/page" $2 ".c"; next } { print > name }'
    programs=0
    for source in "$room"/page*.c; do
        programs=$((programs + 1))
        "${CC:-gcc}" -std=c17 -Wall -Wextra -Werror -Ilib -Iclient -Ibase -o "${source%.c}" "$source" \
            -L"$build" -lworsegpu -lworsegpu-client -Wl,-rpath,"$build" || wrong "a program of libworsegpu.3 does not compile"
        worsegpud --seed 7 --run "${source%.c}" >"$room/said" 2>&1 || wrong "a program of libworsegpu.3 fails"
        [ -s "$room/said" ] || wrong "a program of libworsegpu.3 prints nothing"
    done
    [ "$programs" -eq 2 ] || wrong "expected 2 programs in libworsegpu.3, found $programs"
}

test_the_request_of_the_protocol_page_is_answered_with_these_members() {
    blocks worsegpu-protocol.7 | grep -v '^#block' >"$room/conversation"
    head -n 1 "$room/conversation" >"$room/request"
    worsegpud --gpu-probability 1 --seed 7 --run worsegpu-cli run "$room/request" >"$room/said"
    sed 1d "$room/conversation" | grep -oE '"[a-z_]+":' >"$room/members"
    while read -r member; do
        grep -q "$member" "$room/said" || wrong "the answer has no member $member as in worsegpu-protocol.7"
    done <"$room/members"
}

test_pages_say_what_the_tables_say
test_pages_and_help_have_every_exit_code
test_pages_please_the_formatter
test_help_says_what_the_tables_say
test_bash_completes_what_the_tables_have
test_zsh_has_what_the_tables_have
test_every_example_of_a_command_runs
test_the_example_of_a_configuration_is_one
test_the_programs_of_the_library_page_work
test_the_request_of_the_protocol_page_is_answered_with_these_members
[ "$failures" -eq 0 ] || exit 1
echo "manual pages: $tried examples run, $(wc -l <"$room/methods") methods and parameters, $(wc -l <"$room/cli-takes") options of commands"
