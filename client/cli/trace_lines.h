/* The document that `trace --json` prints, {"events":[...],...}, as one event a line; everything
 * else passes as it is. Holds no more than a few bytes of it. Lives for one file. */
#ifndef TRACE_LINES_H
#define TRACE_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TRACE_LINES_ROOM = 32 /* bytes before a chunk that trace_lines_cut may write to */
};

struct trace_lines {
    enum {
        TRACE_LINES_BEGIN,   /* at the start of the file: it may be such a document */
        TRACE_LINES_EVENTS,  /* within the array */
        TRACE_LINES_TAIL,    /* behind it, up to the end of its line */
        TRACE_LINES_AS_IT_IS /* lines */
    } state;
    char held[TRACE_LINES_ROOM]; /* what may be the beginning of a document */
    size_t held_length;
    size_t matched; /* of the beginning */
    size_t depth;   /* of brackets within the array */
    bool in_string;
    bool escaped;
};

void trace_lines_init(struct trace_lines *lines);

/* Rewrites the chunk in place. Where the result begins, with its length in *length; that may be up
 * to TRACE_LINES_ROOM before `chunk`, which must be writable. */
char *trace_lines_cut(struct trace_lines *lines, char *chunk, size_t *length);

/* What is still held at the end of the file, to be read as it is; *length 0 when nothing is. */
const char *trace_lines_rest(struct trace_lines *lines, size_t *length);

/* Whether the file has ended before its document did. */
bool trace_lines_unfinished(const struct trace_lines *lines);

#endif
