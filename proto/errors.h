/* The kinds of error on the wire, from errors.def. */
#ifndef ERRORS_H
#define ERRORS_H

enum error_kind {
#define ERROR(name, code, kind, when) ERROR_##name,
#include "proto/errors.def"
    ERROR_KINDS /* how many there are */
};

int error_code(enum error_kind kind);              /* -32700, 1, ... */
const char *error_kind_name(enum error_kind kind); /* "parse_error", ... */
const char *error_when(enum error_kind kind);      /* the table's sentence */

/* The kind of that name, ERROR_KINDS when there is none. */
enum error_kind error_kind_from_name(const char *name);

#endif
