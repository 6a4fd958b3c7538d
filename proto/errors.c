/* The kinds of error on the wire as a constant table; see errors.h. */
#include "proto/errors.h"

#include <string.h>

struct error_info {
    int code;
    const char *kind;
    const char *when;
};

static const struct error_info ERROR_TABLE[ERROR_KINDS] = {
#define ERROR(name, code, kind, when) [ERROR_##name] = {code, kind, when},
#include "proto/errors.def"
};

int error_code(enum error_kind kind)
{
    return ERROR_TABLE[kind].code;
}

const char *error_kind_name(enum error_kind kind)
{
    return ERROR_TABLE[kind].kind;
}

const char *error_when(enum error_kind kind)
{
    return ERROR_TABLE[kind].when;
}

enum error_kind error_kind_from_name(const char *name)
{
    unsigned kind = 0;
    while (kind < ERROR_KINDS && strcmp(ERROR_TABLE[kind].kind, name) != 0)
        kind++;
    return (enum error_kind)kind;
}
