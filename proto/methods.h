/* The methods and parameters of methods.def as C. */
#ifndef METHODS_H
#define METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum method {
#define METHOD(name, summary, result) METHOD_##name,
#include "proto/methods.def"
    METHODS /* how many there are */
};

enum parameter {
#define PARAMETER(name, type, minimum, maximum, default_text, meaning) PARAMETER_##name,
#include "proto/methods.def"
    PARAMETERS /* how many there are, at most 64 */
};

enum parameter_type {
    PARAMETER_TYPE_INTEGER,
    PARAMETER_TYPE_PROBABILITY,
    PARAMETER_TYPE_BOOLEAN,
    PARAMETER_TYPE_TEXT,
    PARAMETER_TYPE_NAME,
    PARAMETER_TYPE_SEED
};

struct parameter_info {
    const char *name;
    enum parameter_type type;
    uint64_t minimum;
    uint64_t maximum;
    const char *default_text;
    const char *meaning;
};

struct method_info {
    const char *name;
    const char *summary;
    const char *result;
    uint64_t takes;    /* bit 1 << PARAMETER_x for each parameter it takes */
    uint64_t required; /* those that must be given */
};

const struct parameter_info *parameter_info(enum parameter parameter);
const struct method_info *method_info(enum method method);

/* By name of `length` bytes; METHODS or PARAMETERS when there is none. */
enum method method_from_name(const char *name, size_t length);
enum parameter parameter_from_name(const char *name, size_t length);

/* The parameters of a method in the order in which they are shown: PARAMETERS after the last. */
enum parameter method_parameter(enum method method, size_t index);

#endif
