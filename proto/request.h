/* Line -> request. Decides what a line is and whether its parameters are of the right form; what
 * they mean (which allocator, whether it is full) is for the daemon.
 *
 * Two ways lead through it. The short one (request_short.c) reads a line of the usual shape in
 * place. Any line that is in the least unusual (escapes, bytes above 127, fractions, nesting,
 * unknown names, any error) goes the long way: strict_json, cJSON, the table. A test holds that
 * both agree on every line. */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/errors.h"
#include "proto/json_document.h"
#include "proto/json_writer.h"
#include "proto/limits.h"
#include "proto/methods.h"

/* Decoded UTF-8, not NUL-terminated. Valid until the next request is decoded, and only while the
 * line is: it may lie in it. */
struct request_text {
    const char *bytes;
    size_t length;
};

struct request_seed {
    struct request_text decimal; /* -?[0-9]+ */
    bool given;                  /* false for null: draw one */
    bool is_string;              /* how it was written, for the echo */
};

#define REQUEST_C_INTEGER uint64_t
#define REQUEST_C_PROBABILITY double
#define REQUEST_C_BOOLEAN bool
#define REQUEST_C_TEXT struct request_text
#define REQUEST_C_NAME struct request_text
#define REQUEST_C_SEED struct request_seed

/* A field for each parameter of methods.def; only those with their bit in `given` are filled in. */
struct request_params {
#define PARAMETER(name, type, minimum, maximum, default_text, meaning) REQUEST_C_##type name;
#include "proto/methods.def"
};

enum request_id_kind {
    REQUEST_ID_NONE,
    REQUEST_ID_INTEGER,
    REQUEST_ID_STRING
};

struct request_id {
    enum request_id_kind kind; /* NONE: null in an answer */
    int64_t integer;
    size_t length;
    char string[PROTO_MAX_ID_BYTES];
};

struct request {
    struct request_id id;
    bool notification; /* a method and no id: carried out, never answered */
    enum method method;
    uint64_t given; /* bit 1 << PARAMETER_x */
    struct request_params params;
};

/* Why a line was refused, enough to write the error. */
struct request_problem {
    enum error_kind kind;
    char message[PROTO_MAX_ERROR_TEXT];
    const char *data_name;    /* "param" or "method", NULL for no such member */
    struct request_text data; /* its value, at most PROTO_MAX_ECHO_BYTES, whole characters */
};

struct request_decoder {
    struct json_document document;
    bool long_way_only; /* for tests that compare the two ways; false */
};

enum request_result {
    REQUEST_NO_MEMORY = -1, /* internal_error; `id` is what could be read by then */
    REQUEST_FINE = 0,
    REQUEST_REFUSED = 1, /* answer `problem` under request->id, unless request->notification */
    REQUEST_EMPTY = 2    /* nothing but spaces and tabs: ignore it */
};

void request_decoder_init(struct request_decoder *decoder, const struct worsegpu_memory *memory);
void request_decoder_release(struct request_decoder *decoder);

/* Decodes one line (without LF and CR). `request` is always filled in as far as it could be read;
 * `problem` only with REQUEST_REFUSED. */
enum request_result request_decode(struct request_decoder *decoder, const char *line, size_t length,
                                   struct request *request, struct request_problem *problem);

/* Whether a parameter was given. */
static inline bool request_has(const struct request *request, enum parameter parameter)
{
    return (request->given >> parameter & 1u) != 0;
}

/* Writes an id as a JSON value: the integer, the string, or null. */
void request_id_write(struct json_writer *writer, const struct request_id *id);

#endif
