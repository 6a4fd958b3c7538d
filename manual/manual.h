/* What the manual pages and the completions take from the tables of the code: fragments of scdoc(5)
 * and of shell, one function each, so that no table is written down twice.
 *
 * The program reads a page's source and puts a fragment in the place of each line
 * `%include NAME`. Used while building; nothing of it is installed. */
#ifndef MANUAL_H
#define MANUAL_H

#include <stdio.h>

struct manual_fragment {
    const char *name;
    void (*write)(FILE *out);
};

/* By file: the daemon's options, the commands of worsegpu-cli and of worsegpu-lab, the wire, the
 * engine. Each list ends with a NULL name. */
extern const struct manual_fragment manual_of_daemon[];
extern const struct manual_fragment manual_of_cli[];
extern const struct manual_fragment manual_of_lab[];
extern const struct manual_fragment manual_of_wire[];
extern const struct manual_fragment manual_of_engine[];

/* Writes a text with what scdoc would take for markup escaped. */
void manual_text(FILE *out, const char *text);

/* The same for a specification of zsh's _arguments or _describe, inside single quotes. */
void manual_zsh_text(FILE *out, const char *text);

#endif
