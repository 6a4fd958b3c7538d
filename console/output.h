/* All that the programs print goes through here: text, one JSON document, colour, and the check
 * that it really was written. Lives as long as the program. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum output_style {
    OUTPUT_PLAIN,
    OUTPUT_BOLD,
    OUTPUT_GOOD,
    OUTPUT_WARNING,
    OUTPUT_BAD
};

struct output {
    FILE *out;
    FILE *errors;
    bool json;          /* one JSON document instead of text for people */
    bool out_colour;    /* whether `out` shows colour */
    bool errors_colour; /* whether `errors` does */
    int failure;        /* errno of the first write that failed; 0: none */
};

/* Colour is for terminals, unless NO_COLOR is set and not empty (https://no-color.org) or TERM is
 * "dumb". */
void output_init(struct output *output, FILE *out, FILE *errors);

/* To `out`. */
__attribute__((format(printf, 2, 3))) void output_text(struct output *output, const char *format,
                                                       ...);
void output_bytes(struct output *output, const char *bytes, size_t length);
void output_styled(struct output *output, enum output_style style, const char *text);

/* A text that came from someone else: control characters are shown as \x1b, so that it cannot move
 * the cursor or colour the terminal. */
void output_foreign(struct output *output, const char *text);

/* To `errors`: the program's name, the sentence, a line end. Foreign texts in it are made harmless.
 */
__attribute__((format(printf, 3, 4))) void
output_complaint(struct output *output, const char *program, const char *format, ...);
/* A line after a complaint that says what to do next. */
__attribute__((format(printf, 2, 3))) void output_advice(struct output *output, const char *format,
                                                         ...);

/* Hands everything over. 0, or the errno of the first write that failed. */
int output_flush(struct output *output);

/* Writes `text` into `harmless` of `size` bytes with control characters shown as \x1b; cut if need
 * be. */
void output_make_harmless(const char *text, char *harmless, size_t size);

#endif
