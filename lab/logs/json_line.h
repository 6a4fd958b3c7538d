/* One JSON object of a log, strictly read, with the place it came from: a line of its own, or a
 * piece of a larger document. What is missing or of another kind in it is LOG_BAD with a sentence.
 */
#ifndef LOGS_JSON_LINE_H
#define LOGS_JSON_LINE_H

#include "lab/logs/text.h"
#include "proto/json_document.h"

struct json_line {
    struct json_document document;
    struct log_problem *problem;
    bool binary; /* `place` is a byte */
    uint64_t place;
};

void json_line_init(struct json_line *line, const struct worsegpu_memory *memory,
                    struct log_problem *problem);
void json_line_release(struct json_line *line);

/* Reads a text that must be an object. */
int json_line_read(struct json_line *line, struct log_piece text, bool binary, uint64_t place);

/* The object of the next line that is not blank (nor, with `comments`, begins with #). *end: there
 * is none. */
int json_line_next(struct json_line *line, struct log_source *source, bool comments, bool *end);

const cJSON *json_line_root(const struct json_line *line);

/* A member that is an integer from 0 to 2^64 - 1. `missing`: what it is where it is not there, or
 * NULL where it must be. */
int json_line_u64(const struct json_line *line, const cJSON *object, const char *name,
                  const uint64_t *missing, uint64_t *value);
/* The same for a text; it belongs to the line. Where `optional` and not there: NULL. */
int json_line_text(const struct json_line *line, const cJSON *object, const char *name,
                   bool optional, const char **text);
/* And for true or false; false where it is not there. */
int json_line_bool(const struct json_line *line, const cJSON *object, const char *name,
                   bool *value);
/* And for an address: a text of hex digits with 0x or without. */
int json_line_pointer(const struct json_line *line, const cJSON *object, const char *name,
                      uint64_t *value);

#endif
