#!/bin/sh
# The rules of this house that no compiler knows. Prints each breach as FILE:LINE: text.
#
#   tools/check_source.sh [BUILD]
#
# BUILD (default: build) holds the objects, which are asked for globals that can change.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
trap 'exit 130' INT TERM HUP
: >"$room/breaches"

breach() { # WHY: each line of stdin is one
    sed "s|\$|    <- $1|" >>"$room/breaches"
}

tools/list_files.sh '*.c' '*.h' '*.def' >"$room/c"
[ -s "$room/c" ] || {
    echo "tools/check_source.sh: no source found" >&2
    exit 1
}

# Comments and strings may say anything: they are blanked, line for line.
xargs -n 1 dirname <"$room/c" | sort -u | sed "s,^,$room/code/," | xargs mkdir -p
# shellcheck disable=SC2016  # awk's own $0
xargs awk -v code="$room/code/" '
    FNR == 1 { if (file) close(file); file = code FILENAME; inside = 0 }
    {
        line = $0; shown = ""
        while (line != "") {
            if (inside) {
                end = index(line, "*/")
                if (!end) break
                line = substr(line, end + 2); inside = 0
            } else if (match(line, /^[^\/"\047]+/)) {
                shown = shown substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1)
            } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^\047([^\047\\]|\\.)*\047/)) {
                # The name in an #include is asked for below.
                shown = shown ($0 ~ /^ *# *include/ ? substr(line, 1, RLENGTH) : "\"\"")
                line = substr(line, RLENGTH + 1)
            } else if (substr(line, 1, 2) == "/*") {
                inside = 1; line = substr(line, 3)
            } else if (substr(line, 1, 2) == "//") {
                break
            } else {
                shown = shown substr(line, 1, 1); line = substr(line, 2)
            }
        }
        print shown > file
    }' <"$room/c"

in_code() { # EXTENDED_REGEX FOLDER...: where the code of these folders matches, FILE:LINE: text
    pattern=$1
    shift
    (
        cd "$room/code"
        grep -rnE "$pattern" "$@" 2>/dev/null || true # a folder need not be there
    )
}
call() { # NAMES separated by |: a pattern for calls of them
    printf '(^|[^A-Za-z0-9_.>])(%s) *\\(' "$1"
}
products="base lib proto console daemon client lab"

# Calls that have no bound, keep hidden state, or swallow errors.
# shellcheck disable=SC2086  # $products is a list of words
in_code "$(call 'v?sprintf|strcpy|stpcpy|strcat|strncat|gets|strtok|alloca|s?rand|s?random|[dl]rand48|ato[fil]|atoll')" \
    $products tests | breach "a forbidden function"
# shellcheck disable=SC2086
in_code "$(call 'setlocale|strtod|strtof|strtold|sscanf|fscanf|scanf')" $products |
    grep -v '^proto/json_writer\.c:' | # reads back what snprintf has just written, in the same locale
    breach "depends on the locale or on luck: use base/bytes_text.h"
in_code "$(call 'localtime|gmtime|ctime|asctime|strerror|setenv|putenv|exit|abort|signal|sigaction')" base lib proto |
    breach "not for a library that threads share"
in_code "$(call 'time|clock|clock_gettime|gettimeofday|timespec_get')" base lib proto |
    breach "no clock here: time is a parameter"
in_code "$(call 'malloc|calloc|realloc|free|strdup|strndup|asprintf|reallocarray')" base lib proto console daemon client lab |
    grep -v '^base/memory_system\.c:' | breach "memory comes through base/memory.h"

# Arrows point down: what each folder may include.
may_include() { # FOLDER "FOLDERS IT MAY USE" "SYSTEM HEADERS IT MAY NOT"
    [ -d "$room/code/$1" ] || return 0
    allowed=$(printf '%s' "$2" | tr ' ' '|')
    in_code '^ *# *include *"' "$1" |
        grep -vE "\"(($allowed)/[a-z_/]+\.(h|def)|worsegpu(_memory|_client|_client_rules)?\.h)\"" |
        breach "an arrow that points up: $1 may use $2"
    [ -z "$3" ] || in_code "^ *# *include *<($3)>" "$1" | breach "$1 must not know this header"
    case $1 in
    base | proto) in_code '^ *# *include *"worsegpu(_client|_client_rules)?\.h"' "$1" ;;
    client) in_code '^ *# *include *"worsegpu\.h"' "$1" ;;
    lib) in_code '^ *# *include *"worsegpu_client(_rules)?\.h"' "$1" ;;
    esac | breach "an arrow that points up"
}
may_include base "base" "uv\.h|cjson/cJSON\.h|ini\.h"
may_include lib "base lib" "uv\.h|cjson/cJSON\.h|ini\.h"
may_include proto "base proto" "uv\.h|ini\.h"
may_include console "base console" "uv\.h|cjson/cJSON\.h|ini\.h"
may_include client "base proto console client" "uv\.h|ini\.h"
may_include daemon "base proto lib daemon" "none"
may_include lab "base lib proto console lab" "uv\.h"

# How a file looks.
# shellcheck disable=SC2016  # awk's own $0
xargs awk '
    FNR == 1 && !/^\/\*/ { print FILENAME ":1: " $0 }' <"$room/c" |
    breach "the first line says what the file is for"
xargs awk '
    FNR == 601 && FILENAME !~ /^tests\// { print FILENAME ":601: past 600 lines" }' <"$room/c" |
    breach "wants a second room"
xargs grep -nHE "$(printf '\t')" <"$room/c" | breach "a tab"
tools/list_files.sh '*.c' '*.h' '*.def' '*.sh' '*.md' '*.map' Makefile .ci/run VERSION |
    grep -v '^tests/golden/' >"$room/all" || true
unfinished='TO''DO|FIX''ME|X''XX|HA''CK'
xargs grep -nHE '[[:blank:]]+$' <"$room/all" | breach "blanks at the end of the line"
xargs grep -nHwE "$unfinished" <"$room/all" | breach "unfinished"
while read -r file; do
    [ -z "$(tail -c 1 "$file")" ] || echo "$file: the last line does not end"
done <"$room/all" | breach "no newline at the end"

# Globals that can change, outside main.c: what the objects keep in .data, .bss and thread-local memory.
# .data.rel.ro is constant: the loader alone writes it.
if [ -d "$build/obj" ]; then
    for folder in $products; do
        [ ! -d "$build/obj/$folder" ] || find "$build/obj/$folder" -name '*.o' ! -name main.o ! -name '*_main.o'
    done | while read -r object; do
        source=${object#"$build/obj/"}
        source=${source%.o}.c
        # An object whose source is gone is not part of the program any more.
        [ -f "$source" ] || continue
        objdump -t "$object" | awk -v source="$source" '
            # VALUE FLAGS SECTION<tab>SIZE NAME. An O among the flags is an object, nothing in its place one
            # of a thread; the sections themselves have a d.
            match($0, /^[0-9a-f]+ .....[^d][O ] [^\t]+\t/) {
                split(substr($0, RSTART, RLENGTH), word); section = word[length(word)]
                if (section ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && section !~ /^\.data\.rel\.ro/)
                    print source ": " $NF " in " section
            }'
    done | breach "a global that can change"
else
    echo "$build/obj: not built, so nothing is known about globals" | breach "build first"
fi

if [ -s "$room/breaches" ]; then
    sort -u "$room/breaches"
    exit 1
fi
