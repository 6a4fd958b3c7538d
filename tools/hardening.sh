#!/bin/sh
# Looks at finished programs and shared libraries for what the hardening flags must have left in them.
#
#   tools/hardening.sh FILE...
#
# Of each: addresses are bound before main and read-only from then on (full RELRO), no stack and no other part that is
# writable can be executed, the code needs no change when it is loaded, no place to look for libraries is built in, and the
# stack protector is at work. Of each program: it can be loaded anywhere (PIE). Of all together: calls of the C library are
# checked for their sizes (FORTIFY); one file alone may have none worth a check.
#
# Quiet when all is there; else exit 1 and one line for each thing that is missing. Links are followed.
set -eu
[ $# -gt 0 ] || {
    echo 'usage: tools/hardening.sh FILE...' >&2
    exit 2
}
command -v readelf >/dev/null 2>&1 || {
    echo 'tools/hardening.sh: there is no readelf here (package binutils)' >&2
    exit 1
}
missing=0
checked_calls=0

lacks() { # FILE WHAT
    echo "$1: $2"
    missing=$((missing + 1))
}

for file in "$@"; do
    head=$(readelf -Wh "$file" 2>/dev/null) || {
        lacks "$file" 'is no program and no library'
        continue
    }
    parts=$(readelf -Wl "$file")
    dynamic=$(readelf -Wd "$file")
    names=$(readelf -W --dyn-syms "$file")

    echo "$head" | grep -qE '^ *Type: +DYN' || lacks "$file" 'cannot be loaded anywhere: it is not linked with -pie or -shared'
    case $file in
    *.so | *.so.*) ;;
    *) echo "$dynamic" | grep -qE '\(FLAGS_1\).*PIE' || lacks "$file" 'is not marked as position-independent' ;;
    esac
    echo "$parts" | grep -q GNU_RELRO || lacks "$file" 'has no part that becomes read-only (-z relro)'
    echo "$dynamic" | grep -qE '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW' || lacks "$file" 'binds late (-z now)'
    echo "$parts" | awk '$1 == "GNU_STACK" { found = 1; if ($7 ~ /E/) bad = 1 } END { exit !found || bad }' ||
        lacks "$file" 'has an executable stack (-z noexecstack)'
    # Flags are written R, RW, R E, RWE.
    if echo "$parts" | grep -E '^ *LOAD' | grep -q 'RWE'; then
        lacks "$file" 'has a part that is writable and executable'
    fi
    if echo "$dynamic" | grep -q '(TEXTREL)'; then
        lacks "$file" 'has code that is changed when it is loaded'
    fi
    if echo "$dynamic" | grep -qE '\((RPATH|RUNPATH)\)'; then
        lacks "$file" 'says where libraries are looked for'
    fi
    echo "$names" | grep -q '__stack_chk_fail' || lacks "$file" 'is without the stack protector'
    if echo "$names" | grep -qE ' __[a-z]+_chk(@|$)'; then
        checked_calls=$((checked_calls + 1))
    fi
done
[ "$checked_calls" -gt 0 ] || lacks 'all of them' 'not one call of the C library is checked (_FORTIFY_SOURCE)'
[ "$missing" -eq 0 ]
