/* methods.def as constant tables; see methods.h. Everything here lives for ever and never changes.
 */
#include "proto/methods.h"

#include <string.h>

_Static_assert(PARAMETERS <= 64, "a set of parameters is a uint64_t with a bit for each");

static const struct parameter_info PARAMETER_TABLE[PARAMETERS] = {
#define PARAMETER(name, type, minimum, maximum, default_text, meaning)                             \
    [PARAMETER_##name] = {#name,                                                                   \
                          PARAMETER_TYPE_##type,                                                   \
                          UINT64_C(minimum),                                                       \
                          UINT64_C(maximum),                                                       \
                          default_text,                                                            \
                          meaning},
#include "proto/methods.def"
};

/* clang-format off: each entry below is opened by METHOD and grows by the TAKES that follow it. */
#define NEED_REQUIRED UINT64_C(1)
#define NEED_OPTIONAL UINT64_C(0)
static const struct method_info METHOD_TABLE[METHODS + 1] = {
    [METHODS].name = "", /* only so that each entry may begin with a comma */
#define METHOD(method_name, method_summary, method_result)                                         \
    [METHOD_##method_name].name = #method_name, [METHOD_##method_name].summary = method_summary,   \
    [METHOD_##method_name].result = method_result,
#include "proto/methods.def"
    [METHODS].takes = 0
#define METHOD(method_name, method_summary, method_result) , [METHOD_##method_name].takes = 0
#define TAKES(method, parameter, need) | UINT64_C(1) << PARAMETER_##parameter
#include "proto/methods.def"
    ,
    [METHODS].required = 0
#define METHOD(method_name, method_summary, method_result) , [METHOD_##method_name].required = 0
#define TAKES(method, parameter, need) | NEED_##need << PARAMETER_##parameter
#include "proto/methods.def"
};
/* clang-format on */

/* A name's length and first byte in one number: rules out nearly all others with one comparison. */
#define NAME_KEY(length, first) ((uint16_t)((length) << 8 | (unsigned char)(first)))

static const uint16_t METHOD_KEYS[METHODS] = {
#define METHOD(name, summary, result) [METHOD_##name] = NAME_KEY(sizeof(#name) - 1, #name[0]),
#include "proto/methods.def"
};

static const uint16_t PARAMETER_KEYS[PARAMETERS] = {
#define PARAMETER(name, type, minimum, maximum, default_text, meaning)                             \
    [PARAMETER_##name] = NAME_KEY(sizeof(#name) - 1, #name[0]),
#include "proto/methods.def"
};

static const struct {
    enum method method;
    enum parameter parameter;
} TAKEN[] = {
#define TAKES(method, parameter, need) {METHOD_##method, PARAMETER_##parameter},
#include "proto/methods.def"
};

const struct parameter_info *parameter_info(enum parameter parameter)
{
    return &PARAMETER_TABLE[parameter];
}

const struct method_info *method_info(enum method method)
{
    return &METHOD_TABLE[method];
}

enum method method_from_name(const char *name, size_t length)
{
    if (length == 0 || length > UINT8_MAX)
        return METHODS;
    uint16_t key = NAME_KEY(length, name[0]);
    for (unsigned i = 0; i < METHODS; i++)
        if (METHOD_KEYS[i] == key && memcmp(METHOD_TABLE[i].name, name, length) == 0)
            return (enum method)i;
    return METHODS;
}

enum parameter parameter_from_name(const char *name, size_t length)
{
    if (length == 0 || length > UINT8_MAX)
        return PARAMETERS;
    uint16_t key = NAME_KEY(length, name[0]);
    for (unsigned i = 0; i < PARAMETERS; i++)
        if (PARAMETER_KEYS[i] == key && memcmp(PARAMETER_TABLE[i].name, name, length) == 0)
            return (enum parameter)i;
    return PARAMETERS;
}

enum parameter method_parameter(enum method method, size_t index)
{
    for (size_t i = 0; i < sizeof(TAKEN) / sizeof(TAKEN[0]); i++)
        if (TAKEN[i].method == method && index-- == 0)
            return TAKEN[i].parameter;
    return PARAMETERS;
}
