/* An allocator's configuration: its defaults, and one table of what each member may be. */
#include <stdio.h>
#include <string.h>

#include "lib/knobs.h"
#include "lib/policy.h"
#include "lib/worsegpu.h"

void worsegpu_config_default(struct worsegpu_config *config)
{
    *config = (struct worsegpu_config){
        .policy = "worse",
        .knobs = NULL,
        .gpu_capacity = UINT64_C(64) << 20,
        .gpu_probability = 0.65,
        .forget_probability = 0.20,
        .fallback_on_oom = true,
        .max_request_bytes = UINT64_C(1) << 40,
        .trace_limit = 0,
        .seed = NULL,
        .scan = WORSEGPU_SCAN_ACCOUNTED,
        .max_live_allocations = 1000000,
        .single_threaded = false,
        .memory = NULL,
    };
}

enum kind {
    POLICY_NAME,
    KNOBS,
    COUNT,
    PROBABILITY,
    SEED,
    SCAN,
    MEMORY
};

struct rule {
    const char *field;
    size_t offset;
    enum kind kind;
    uint64_t lowest; /* of a COUNT */
    uint64_t highest;
    const char *expected;
};

#define AT(member) #member, offsetof(struct worsegpu_config, member)

/* In the order of the header, but for the knobs, which may be about the others; every value of a
 * bool is fine. */
static const struct rule rules[] = {
    {AT(policy), POLICY_NAME, 0, 0, "the name of a policy"},
    {AT(gpu_capacity), COUNT, 1, WORSEGPU_MAX_BYTES, "1 to 9007199254740991 bytes"},
    {AT(gpu_probability), PROBABILITY, 0, 0, "a number from 0 to 1"},
    {AT(forget_probability), PROBABILITY, 0, 0, "a number from 0 to 1"},
    {AT(max_request_bytes), COUNT, 1, WORSEGPU_MAX_BYTES, "1 to 9007199254740991 bytes"},
    {AT(trace_limit), COUNT, 0, WORSEGPU_MAX_TRACE_LIMIT, "0 to 1000000"},
    {AT(seed), SEED, 0, 0, "a decimal integer of at most 4300 digits"},
    {AT(scan), SCAN, 0, 0, "accounted or walked"},
    {AT(max_live_allocations), COUNT, 1, WORSEGPU_MAX_LIVE_LIMIT, "1 to 1000000000"},
    {AT(memory), MEMORY, 0, 0, "a source of memory with a resize function"},
    {AT(knobs), KNOBS, 0, 0, "NAME=VALUE words that the policy knows"},
};

static bool seed_is_fine(const char *seed)
{
    if (!seed)
        return true;
    if (*seed == '-')
        seed++;
    size_t digits = 0;
    while (seed[digits] >= '0' && seed[digits] <= '9' && digits <= WORSEGPU_MAX_SEED_DIGITS)
        digits++;
    return digits > 0 && digits <= WORSEGPU_MAX_SEED_DIGITS && seed[digits] == '\0';
}

_Static_assert((int)WORSEGPU_PROBLEM_SIZE == (int)KNOBS_PROBLEM_SIZE,
               "the public room is the one inside");

int worsegpu_knobs_check(const struct worsegpu_config *config, char problem[WORSEGPU_PROBLEM_SIZE])
{
    const struct policy_operations *operations = policy_find(config->policy);
    struct knob_value values[KNOBS_MAX];
    size_t length = config->knobs ? strlen(config->knobs) : 0;
    if (length > WORSEGPU_MAX_KNOBS_BYTES) {
        snprintf(problem, WORSEGPU_PROBLEM_SIZE, "knobs may have %d bytes, not %zu",
                 WORSEGPU_MAX_KNOBS_BYTES, length);
        return WORSEGPU_INVALID_ARGUMENT;
    }
    /* So that the text can be shown anywhere as it is. */
    for (size_t i = 0; i < length; i++) {
        if (config->knobs[i] >= ' ' && config->knobs[i] <= '~')
            continue;
        snprintf(problem, WORSEGPU_PROBLEM_SIZE,
                 "knobs must be printable ASCII, which byte %zu of them is not", i + 1);
        return WORSEGPU_INVALID_ARGUMENT;
    }
    return knobs_read(operations, config, config->knobs, values, problem)
               ? WORSEGPU_OK
               : WORSEGPU_INVALID_ARGUMENT;
}

static bool rule_holds(const struct rule *rule, const struct worsegpu_config *config)
{
    const char *member = (const char *)config + rule->offset;
    uint64_t count;
    double number;
    char problem[WORSEGPU_PROBLEM_SIZE];
    switch (rule->kind) {
    case POLICY_NAME:
        return config->policy && policy_find(config->policy);
    case KNOBS:
        return worsegpu_knobs_check(config, problem) == WORSEGPU_OK;
    case COUNT:
        memcpy(&count, member, sizeof(count));
        return count >= rule->lowest && count <= rule->highest;
    case PROBABILITY:
        memcpy(&number, member, sizeof(number));
        return number >= 0.0 && number <= 1.0; /* also false for what is no number */
    case SEED:
        return seed_is_fine(config->seed);
    case SCAN:
        return worsegpu_scan_name(config->scan) != NULL;
    case MEMORY:
        return !config->memory || config->memory->resize;
    }
    return false;
}

int worsegpu_config_check(const struct worsegpu_config *config, const char **field,
                          const char **expected)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rule_holds(&rules[i], config))
            continue;
        if (field)
            *field = rules[i].field;
        if (expected)
            *expected = rules[i].expected;
        return WORSEGPU_INVALID_ARGUMENT;
    }
    return WORSEGPU_OK;
}
