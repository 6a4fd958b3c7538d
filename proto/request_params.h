/* The long way's judgement of parameters, and how a refusal is worded. For request.c alone. */
#ifndef REQUEST_PARAMS_H
#define REQUEST_PARAMS_H

#include "proto/request.h"

enum {
    REQUEST_SHOWN_BYTES = 64, /* how much of a client's text a message shows, NUL included */
    REQUEST_LIST_BYTES = 256  /* room for a list of names */
};

/* One request while it is read: its tree, and where to put what is found. */
struct request_reading {
    struct json_document *document;
    struct request *request;
    struct request_problem *problem;
};

/* Reads the parameters of reading->request->method from the member `params`, NULL when there is
 * none: first all names, then all values, then what is missing. REQUEST_FINE or REQUEST_REFUSED. */
enum request_result request_params_read(const struct request_reading *reading, const cJSON *params);

/* Words a refusal, without a member of data. Returns REQUEST_REFUSED. */
__attribute__((format(printf, 3, 4))) enum request_result
request_refuse(struct request_problem *problem, enum error_kind kind, const char *format, ...);

/* Adds the member of data that names what was wrong. Returns REQUEST_REFUSED. */
enum request_result request_naming(struct request_problem *problem, const char *data_name,
                                   const char *name);

/* What a value is, for "..., not <this>". May use `text`. */
const char *request_shown(const struct request_reading *reading, const cJSON *value,
                          char text[REQUEST_SHOWN_BYTES]);

/* Adds a name to a list, with a comma before it when it is not the first. */
void request_append_name(char list[REQUEST_LIST_BYTES], const char *name);

/* A plain integer within +-(2^53 - 1); -0 is 0. */
bool request_read_safe_integer(const struct request_reading *reading, const cJSON *item,
                               int64_t *value);

#endif
