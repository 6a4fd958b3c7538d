#!/bin/sh
# Writes the words of the wire, of the options and of the policies as a dictionary for libFuzzer, from the tables of
# the code: so that it need not guess them. Run from the top of the tree.
set -eu

# Names in quotes, as JSON has them.
sed -n 's/^\(METHOD\|PARAMETER\)(\([a-z_]*\),.*/"\\"\2\\""/p' proto/methods.def
sed -n 's/^ERROR([a-z_A-Z]*, *-*[0-9]*, *"\([a-z_]*\)".*/"\\"\1\\""/p' proto/errors.def
printf '"\\"%s\\""\n' jsonrpc id method params result error code message data kind event 2.0

# Flags, as a configuration file has them.
sed -n 's/^\(OPTION\|LIMIT\)([a-z_]*, "\([a-z-]*\)".*/"\2="/p' daemon/options.def
printf '"%s"\n' '[gpu0]' '[b]' '\x0a' '\x0a[c]\x0a' '# '

# Policies, knobs and the words of rules.
sed -n 's/^ *\.name = "\([a-z_]*\)".*/"\1"/p' lib/policies/*.c
sed -n 's/.*{"\([a-z_]*\)", KNOB_[A-Z]*, .*/"\1="/p' lib/policies/*.c
sed -n 's/.*{"\(-*[a-z-]*\)", ".*/"\1 "/p' proto/inject_words.c

printf '"%s"\n' true false null 0 -0 1 1.0 1e9 9007199254740991 18446744073709551615 18446744073709551616 \
    '{' '}' '[' ']' ':' ',' '\"' '{\"id\":1,' '\"params\":{' '}}\x0a' '\\u0061' '\\ud834\\udd1e' '\xc3\xa9' '\x0d\x0a' \
    '@0' '@1' KiB MiB none
