#!/bin/sh
# test_build: what the Makefile promises, as far as it is cheap to look: its help, and one version number everywhere.
set -eu
build=${WORSEGPU_BUILD:-build}
failures=0

wrong() {
    echo "WRONG: $*"
    failures=$((failures + 1))
}

# Targets that only other targets use.
internal='FORCE thread-tests fuzz-programs mutation-tests'

test_make_help_lists_every_target() {
    listed=$(make help)
    targets=$(sed -n 's/^\.PHONY: //p' Makefile)
    [ -n "$targets" ] || wrong "no targets found in the Makefile"
    for target in $targets; do
        case " $internal " in
        *" $target "*) continue ;;
        esac
        printf '%s\n' "$listed" | grep -qE "^make $target +[^ ]" || wrong "make help does not say what $target does"
    done
}

test_every_version_is_that_of_the_file() {
    version=$(cat VERSION)
    printf '%s\n' "$version" | grep -qxE '[0-9]+\.[0-9]+\.[0-9]+' || wrong "VERSION holds '$version'"
    for program in worsegpud worsegpu-cli worsegpu-lab; do
        said=$("$build/$program" --version) || wrong "$program --version ends with $?"
        [ "$said" = "$program $version" ] || wrong "$program --version says '$said', not '$program $version'"
    done
    for library in libworsegpu libworsegpu-client; do
        grep -sqxF "Version: $version" "$build/$library.pc" || wrong "$library.pc has another version"
        [ -f "$build/$library.so.$version" ] || wrong "there is no $library.so.$version"
    done
    top=$(grep -s -m 1 '^## ' CHANGELOG.md) || wrong "CHANGELOG.md has no entry"
    case $top in
    *"$version"*) ;;
    *) wrong "the first entry of CHANGELOG.md is '$top', not $version" ;;
    esac
}

test_make_help_lists_every_target
test_every_version_is_that_of_the_file
[ "$failures" -eq 0 ]
