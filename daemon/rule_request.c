/* From a request to a rule; see rule_request.h. */
#include "daemon/rule_request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/inject_words.h"

/* Where a condition stands in a request. */
static const struct {
    enum parameter parameter;
    enum rule_condition condition;
} conditions[] = {
    {PARAMETER_method, RULE_METHOD},
    {PARAMETER_min_size, RULE_MIN_SIZE},
    {PARAMETER_max_size, RULE_MAX_SIZE},
    {PARAMETER_stream, RULE_STREAM},
    {PARAMETER_tag_prefix, RULE_TAG_PREFIX},
    {PARAMETER_process, RULE_PROCESS},
    {PARAMETER_user, RULE_USER},
    {PARAMETER_client, RULE_CLIENT},
    {PARAMETER_allocator, RULE_ALLOCATOR},
};

__attribute__((format(printf, 3, 4))) static int
refuse(struct rule_refusal *refusal, enum parameter parameter, const char *format, ...)
{
    va_list arguments;
    refusal->kind = ERROR_INVALID_PARAMS;
    refusal->param = parameter_info(parameter)->name;
    va_start(arguments, format);
    vsnprintf(refusal->message, sizeof(refusal->message), format, arguments);
    va_end(arguments);
    return 1;
}

/* ---------------------------------------------------------------------------------- what it says
 */

static int read_action(const struct request *request, struct rule_wish *wish,
                       struct rule_refusal *refusal)
{
    const struct request_text *name = &request->params.action;
    if (!rule_action_from_name(name->bytes, name->length, &wish->action))
        return refuse(refusal, PARAMETER_action, "action must be one of: %s",
                      "out_of_memory, quota_exceeded, host_fallback, forget, delay, "
                      "disconnect_before, disconnect_after");
    bool delayed = request_has(request, PARAMETER_delay_ms);
    if (delayed != (wish->action == WORSEGPU_FAULT_DELAY))
        return refuse(refusal, PARAMETER_delay_ms, "%s",
                      delayed ? "delay_ms goes with the action delay only"
                              : "the action delay needs delay_ms, how long it waits");
    if (delayed)
        wish->delay_ms = request->params.delay_ms;
    return 0;
}

static int read_when(const struct request *request, struct rule_wish *wish,
                     struct rule_refusal *refusal)
{
    static const enum parameter whens[] = {PARAMETER_nth, PARAMETER_every, PARAMETER_probability};
    enum parameter given = PARAMETERS;
    for (size_t index = 0; index < sizeof(whens) / sizeof(whens[0]); index++) {
        if (!request_has(request, whens[index]))
            continue;
        if (given != PARAMETERS)
            return refuse(refusal, whens[index], "%s does not go with %s: a rule has one of them",
                          parameter_info(whens[index])->name, parameter_info(given)->name);
        given = whens[index];
    }
    bool seeded = request_has(request, PARAMETER_rule_seed);
    if (seeded && given != PARAMETER_probability)
        return refuse(refusal, PARAMETER_rule_seed,
                      "rule_seed goes with probability only: nothing else is drawn");
    wish->when = RULE_NTH;
    wish->count = 1;
    if (given == PARAMETER_nth)
        wish->count = request->params.nth;
    if (given == PARAMETER_every) {
        wish->when = RULE_EVERY;
        wish->count = request->params.every;
    }
    if (given == PARAMETER_probability) {
        wish->when = RULE_PROBABILITY;
        wish->probability = request->params.probability;
        wish->seed = seeded ? request->params.rule_seed : 0;
    }
    wish->times =
        request_has(request, PARAMETER_times) ? request->params.times : wish->when == RULE_NTH;
    return 0;
}

static void read_conditions(const struct request *request, const struct hosted *hosted,
                            struct rule_wish *wish)
{
    const struct request_params *params = &request->params;
    for (size_t index = 0; index < sizeof(conditions) / sizeof(conditions[0]); index++)
        if (request_has(request, conditions[index].parameter))
            wish->conditions |= conditions[index].condition;
    if (wish->conditions & RULE_METHOD)
        wish->method = method_from_name(params->method.bytes, params->method.length);
    if (wish->conditions & RULE_MIN_SIZE)
        wish->min_size = params->min_size;
    if (wish->conditions & RULE_MAX_SIZE)
        wish->max_size = params->max_size;
    if (wish->conditions & RULE_STREAM)
        wish->stream = params->stream;
    if (wish->conditions & RULE_TAG_PREFIX) {
        wish->tag_prefix_bytes = params->tag_prefix.length;
        memcpy(wish->tag_prefix, params->tag_prefix.bytes, wish->tag_prefix_bytes);
    }
    if (wish->conditions & RULE_PROCESS)
        wish->process = params->process;
    if (wish->conditions & RULE_USER)
        wish->user = params->user;
    if (wish->conditions & RULE_CLIENT)
        wish->client = params->client;
    wish->hosted = hosted;
}

/* ---------------------------------------------------------------------------- what goes together
 */

static int check_method(const struct request *request, const struct rule_wish *wish,
                        struct rule_refusal *refusal)
{
    static const enum parameter of_allocations[] = {PARAMETER_min_size, PARAMETER_max_size,
                                                    PARAMETER_stream, PARAMETER_tag_prefix};
    const struct request_text *name = &request->params.method;
    if (!(wish->conditions & RULE_METHOD))
        return 0;
    if (wish->method == METHODS)
        return refuse(refusal, PARAMETER_method, "there is no method of this name");
    if (!rule_action_suits(wish->action, wish->method))
        return refuse(refusal, PARAMETER_method, "%s cannot happen to %.*s",
                      worsegpu_fault_action_name(wish->action), (int)name->length, name->bytes);
    if ((wish->conditions & RULE_ALLOCATOR) &&
        !(method_info(wish->method)->takes >> PARAMETER_allocator & 1u))
        return refuse(refusal, PARAMETER_allocator, "%.*s is about no allocator", (int)name->length,
                      name->bytes);
    if (wish->method == METHOD_allocate || wish->method == METHOD_free)
        return 0;
    for (size_t index = 0; index < sizeof(of_allocations) / sizeof(of_allocations[0]); index++)
        if (request_has(request, of_allocations[index]))
            return refuse(refusal, of_allocations[index], "%s goes with allocate and free only",
                          parameter_info(of_allocations[index])->name);
    return 0;
}

static int check_sizes(const struct rule_wish *wish, struct rule_refusal *refusal)
{
    unsigned both = RULE_MIN_SIZE | RULE_MAX_SIZE;
    if ((wish->conditions & both) != both || wish->min_size <= wish->max_size)
        return 0;
    return refuse(refusal, PARAMETER_min_size, "min_size is %" PRIu64 ", above max_size, %" PRIu64,
                  wish->min_size, wish->max_size);
}

/* 0, or 1 with `refusal`. */
static int read_wish(const struct request *request, const struct hosted *hosted,
                     struct rule_wish *wish, struct rule_refusal *refusal)
{
    memset(wish, 0, sizeof(*wish));
    if (read_action(request, wish, refusal) != 0 || read_when(request, wish, refusal) != 0)
        return 1;
    read_conditions(request, hosted, wish);
    return check_method(request, wish, refusal) != 0 || check_sizes(wish, refusal) != 0;
}

struct rule *rule_request_add(struct server *server, const struct request *request,
                              const struct hosted *hosted, struct rule_refusal *refusal)
{
    struct rule_wish wish;
    uint64_t limit = server->options->max_rules;
    if (read_wish(request, hosted, &wish, refusal) != 0)
        return NULL;
    if (server->rules.count >= limit) {
        refusal->kind = ERROR_LIMIT_EXCEEDED;
        refusal->limit = limit;
        snprintf(refusal->message, sizeof(refusal->message),
                 "there are %" PRIu64 " rules, as many as there may be; clear some first", limit);
        return NULL;
    }
    struct rule *rule = rules_add(&server->rules, server->memory, &wish);
    if (!rule) {
        refusal->kind = ERROR_INTERNAL_ERROR;
        snprintf(refusal->message, sizeof(refusal->message),
                 "the daemon is out of memory; try again later");
    }
    return rule;
}

/* ----------------------------------------------------------------------------- words of --inject
 */

static int refuse_text(const char *text, const char *why, char *message, size_t message_size)
{
    snprintf(message, message_size, "--inject '%.100s': %s", text, why);
    return WORSEGPU_INVALID_ARGUMENT;
}

static int out_of_memory(char *message, size_t message_size)
{
    snprintf(message, message_size, "not enough memory for the rules of --inject");
    return WORSEGPU_NO_MEMORY;
}

/* `line` is the request that the text stands for. */
static int add_line(struct server *server, const char *text, const struct json_writer *line,
                    char *message, size_t message_size)
{
    struct request request;
    struct request_problem problem;
    switch (request_decode(&server->decoder, line->data, line->length, &request, &problem)) {
    case REQUEST_NO_MEMORY:
        return out_of_memory(message, message_size);
    case REQUEST_REFUSED:
        return refuse_text(text, problem.message, message, message_size);
    case REQUEST_FINE:
    case REQUEST_EMPTY:
        break;
    }
    const struct hosted *hosted = NULL;
    if (request_has(&request, PARAMETER_allocator)) {
        const struct request_text *name = &request.params.allocator;
        hosted = hosted_find(&server->shared, name->bytes, name->length);
        if (!hosted)
            return refuse_text(text, "there is no shared allocator of this name", message,
                               message_size);
    }
    struct rule_refusal refusal;
    if (rule_request_add(server, &request, hosted, &refusal))
        return WORSEGPU_OK;
    if (refusal.kind == ERROR_INTERNAL_ERROR)
        return out_of_memory(message, message_size);
    return refuse_text(text, refusal.message, message, message_size);
}

int rule_request_add_text(struct server *server, const char *text, char *message,
                          size_t message_size)
{
    char why[INJECT_WORDS_MESSAGE_SIZE];
    struct json_writer line;
    json_writer_init(&line, server->memory, PROTO_MAX_LINE_BYTES);
    json_writer_begin_object(&line);
    json_writer_member_text(&line, "method", method_info(METHOD_inject)->name);
    json_writer_key(&line, "params");
    enum inject_words_result result = inject_words_write_text(text, &line, why);
    json_writer_end_object(&line);
    int status;
    if (result == INJECT_WORDS_WRONG)
        status = refuse_text(text, why, message, message_size);
    else if (result == INJECT_WORDS_NO_MEMORY || line.failure != JSON_WRITER_FINE)
        status = out_of_memory(message, message_size);
    else
        status = add_line(server, text, &line, message, message_size);
    json_writer_release(&line);
    return status;
}
