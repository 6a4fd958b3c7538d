/* The lines that clients send; see asked.h. */
#include "tests/simulation/asked.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/world.h"

void world_bytes_add(struct world_bytes *bytes, const char *more, size_t length)
{
    if (bytes->length + length > bytes->capacity) {
        bytes->capacity = 2 * (bytes->length + length);
        bytes->data = realloc(bytes->data, bytes->capacity);
        if (!bytes->data)
            abort();
    }
    if (length > 0)
        memcpy(bytes->data + bytes->length, more, length);
    bytes->length += length;
}

void world_bytes_drop(struct world_bytes *bytes, size_t length)
{
    bytes->length -= length;
    if (bytes->length > 0)
        memmove(bytes->data, bytes->data + length, bytes->length);
}

__attribute__((format(printf, 2, 3))) static void add(struct world_bytes *line, const char *format,
                                                      ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof(text))
        abort();
    world_bytes_add(line, text, (size_t)length);
}

/* ---------------------------------------------------------------------------- parts of a line */

/* What a request is made of: its members in any order, some blanks where JSON allows them. */
struct writing {
    struct world *world;
    struct world_bytes params;
    bool some;
};

/* One more parameter, as JSON. */
__attribute__((format(printf, 3, 4))) static void
parameter(struct writing *writing, const char *name, const char *format, ...)
{
    char value[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof(value), format, arguments);
    va_end(arguments);
    const char *blank = draw_chance(&writing->world->draw, 5) ? " " : "";
    add(&writing->params, "%s\"%s\":%s%s%s", writing->some ? "," : "", name, blank, value, blank);
    writing->some = true;
}

/* A text, at times written with an escape. */
static void text_parameter(struct writing *writing, const char *name, const char *text)
{
    if (draw_chance(&writing->world->draw, 10))
        parameter(writing, name, "\"\\u%04x%s\"", (unsigned)(unsigned char)text[0], text + 1);
    else
        parameter(writing, name, "\"%s\"", text);
}

static const char *method_name(enum asked_kind kind)
{
    static const char *const names[] = {
        [ASKED_ALLOCATE] = "allocate",
        [ASKED_FREE] = "free",
        [ASKED_RECORD_STREAM] = "record_stream",
        [ASKED_EVENT_DONE] = "event_done",
        [ASKED_EMPTY_CACHE] = "empty_cache",
        [ASKED_SNAPSHOT] = "snapshot",
        [ASKED_VALIDATE] = "validate",
        [ASKED_LIST] = "list",
        [ASKED_CLIENTS] = "clients",
        [ASKED_TRACE] = "trace",
        [ASKED_TRACE_CLEAR] = "trace_clear",
        [ASKED_MAP] = "map",
        [ASKED_STATISTICS] = "statistics",
        [ASKED_INFO] = "info",
        [ASKED_HELLO] = "hello",
        [ASKED_OPEN] = "open",
        [ASKED_CLOSE] = "close",
        [ASKED_RESIZE] = "resize",
        [ASKED_SUBSCRIBE] = "subscribe",
        [ASKED_UNSUBSCRIBE] = "unsubscribe",
        [ASKED_INJECT] = "inject",
        [ASKED_RULES] = "rules",
        [ASKED_RULES_CLEAR] = "rules_clear",
    };
    return names[kind];
}

/* A kind of request, as often as clients send it. */
static enum asked_kind draw_kind(struct draw *draw, bool unruly)
{
    static const struct {
        unsigned char weight;
        enum asked_kind kind;
    } kinds[] = {
        {70, ASKED_ALLOCATE},  {48, ASKED_FREE},       {4, ASKED_RECORD_STREAM},
        {4, ASKED_EVENT_DONE}, {2, ASKED_EMPTY_CACHE}, {4, ASKED_SNAPSHOT},
        {2, ASKED_VALIDATE},   {4, ASKED_LIST},        {3, ASKED_CLIENTS},
        {3, ASKED_TRACE},      {1, ASKED_TRACE_CLEAR}, {1, ASKED_MAP},
        {1, ASKED_STATISTICS}, {1, ASKED_INFO},        {1, ASKED_HELLO},
        {5, ASKED_OPEN},       {2, ASKED_CLOSE},       {2, ASKED_RESIZE},
        {6, ASKED_SUBSCRIBE},  {2, ASKED_UNSUBSCRIBE}, {3, ASKED_INJECT},
        {1, ASKED_RULES},      {2, ASKED_RULES_CLEAR}, {2, ASKED_BLANK},
    };
    uint64_t total = 0;
    if (unruly && draw_chance(draw, 40))
        return draw_chance(draw, 15) ? ASKED_TOO_LONG : ASKED_WRONG;
    for (size_t index = 0; index < sizeof(kinds) / sizeof(kinds[0]); index++)
        total += kinds[index].weight;
    uint64_t at = draw_below(draw, total);
    size_t index = 0;
    while (at >= kinds[index].weight)
        at -= kinds[index++].weight;
    return kinds[index].kind;
}

/* Names an allocator, or none. */
static void draw_allocator(struct writing *writing, struct world_client *client,
                           struct asked *asked)
{
    struct draw *draw = &writing->world->draw;
    const struct model_allocator *named[32];
    size_t count = 0;
    if (draw_chance(draw, 40))
        return;
    for (const struct model_allocator *allocator = writing->world->model.allocators;
         allocator && count < 32; allocator = allocator->next)
        if (!allocator->ended && (allocator->owner == 0 || allocator->owner == client->number))
            named[count++] = allocator;
    const char *name = named[draw_below(draw, count)]->name;
    if (draw_chance(draw, 3))
        name = "p1"; /* perhaps there, perhaps another's */
    snprintf(asked->allocator, sizeof(asked->allocator), "%s", name);
    text_parameter(writing, "allocator", name);
}

/* A handle: its own, another's, a dead or a made-up one, of this allocator or another. */
static void draw_handle(struct writing *writing, struct world_client *client, struct asked *asked)
{
    struct world *world = writing->world;
    struct draw *draw = &world->draw;
    const struct model_allocator *allocator =
        model_find(&world->model, asked->allocator, client->number);
    if (draw_chance(draw, 5))
        allocator = world->model.allocators;
    if (!allocator || allocator->count == 0 || draw_chance(draw, 2)) {
        static const char *const forged[] = {"1-00000000000000000000000000000000", "7", "",
                                             "18446744073709551616-0", "01-x"};
        snprintf(asked->handle, sizeof(asked->handle), "%s",
                 forged[draw_below(draw, sizeof(forged) / sizeof(forged[0]))]);
        parameter(writing, "handle", "\"%s\"", asked->handle);
        asked->tag[0] = '\0';
        return;
    }
    /* The first one at or after a drawn place that it made itself; a few are anybody's. */
    size_t at = (size_t)draw_below(draw, allocator->count);
    for (size_t tried = 0; tried < allocator->count; tried++) {
        const struct model_allocation *allocation = &allocator->allocations[at];
        if (draw_chance(draw, 3) || (allocation->live && allocation->client == client->number))
            break;
        at = (at + 1) % allocator->count;
    }
    const struct model_allocation *allocation = &allocator->allocations[at];
    if (allocation->tag[0] && allocation->client == client->number && draw_chance(draw, 60)) {
        snprintf(asked->tag, sizeof(asked->tag), "%s", allocation->tag);
        text_parameter(writing, "tag", asked->tag);
        return;
    }
    snprintf(asked->handle, sizeof(asked->handle), "%s", allocation->handle);
    parameter(writing, "handle", "\"%s\"", asked->handle);
}

/* -------------------------------------------------------------------------------- the methods */

static void write_allocate(struct writing *writing, struct world_client *client,
                           struct asked *asked)
{
    struct draw *draw = &writing->world->draw;
    asked->bytes = draw_size(draw, draw_chance(draw, 3) ? 40 : 17);
    parameter(writing, "requested_bytes", "%" PRIu64, asked->bytes);
    if (draw_chance(draw, 40)) {
        /* A new one, or one that is likely to be taken. */
        uint64_t tag = draw_chance(draw, 85) ? ++client->next_tag : 1 + draw_below(draw, 3);
        snprintf(asked->tag, sizeof(asked->tag), "t%" PRIu64, tag);
        text_parameter(writing, "tag", asked->tag);
    }
    if (draw_chance(draw, 15))
        parameter(writing, "stream", "%" PRIu64, draw_below(draw, 4));
    if (draw_chance(draw, 10))
        parameter(writing, "alignment", "%" PRIu64, UINT64_C(1) << draw_below(draw, 14));
    if (draw_chance(draw, 5))
        parameter(writing, "upper", "true");
    asked->detached = draw_chance(draw, 15);
    if (asked->detached)
        parameter(writing, "detached", "true");
}

static void write_open(struct writing *writing, struct asked *asked)
{
    struct draw *draw = &writing->world->draw;
    size_t policies = 0;
    while (worsegpu_policy_name(policies))
        policies++;
    snprintf(asked->name, sizeof(asked->name), "p%" PRIu64, 1 + draw_below(draw, 5));
    snprintf(asked->policy, sizeof(asked->policy), "%s",
             worsegpu_policy_name(draw_chance(draw, 40) ? 0 : draw_below(draw, policies)));
    asked->bytes = draw_between(draw, 65536, 1048576);
    asked->fallback = draw_chance(draw, 70);
    asked->max_request = draw_chance(draw, 30) ? draw_between(draw, 1000, 100000) : 1048576;
    asked->trace_limit = draw_chance(draw, 50) ? draw_below(draw, 30) : 0;
    text_parameter(writing, "name", asked->name);
    text_parameter(writing, "policy", asked->policy);
    parameter(writing, "gpu_capacity", "%" PRIu64, asked->bytes);
    parameter(writing, "fallback_on_oom", "%s", asked->fallback ? "true" : "false");
    parameter(writing, "max_request_bytes", "%" PRIu64, asked->max_request);
    parameter(writing, "trace_limit", "%" PRIu64, asked->trace_limit);
    parameter(writing, "seed", "%" PRIu64, draw_below(draw, 1000));
}

static void write_inject(struct writing *writing, struct world_client *client, struct asked *asked)
{
    struct draw *draw = &writing->world->draw;
    static const char *const methods[] = {"snapshot", "clients", "allocate", "free"};
    asked->action = (enum worsegpu_fault_action)draw_below(draw, WORSEGPU_FAULT_ACTIONS);
    text_parameter(writing, "action", worsegpu_fault_action_name(asked->action));
    if (asked->action == WORSEGPU_FAULT_DELAY)
        parameter(writing, "delay_ms", "%" PRIu64, draw_between(draw, 1, 3000));
    uint64_t when = draw_below(draw, 4);
    asked->times = when == 1 || when == 0;
    if (when == 1)
        parameter(writing, "nth", "%" PRIu64, draw_between(draw, 1, 8));
    if (when == 2)
        parameter(writing, "every", "%" PRIu64, draw_between(draw, 2, 9));
    if (when == 3)
        parameter(writing, "probability", "0.%02u", (unsigned)draw_below(draw, 40));
    if (draw_chance(draw, 50)) {
        asked->times = draw_between(draw, 1, 6);
        parameter(writing, "times", "%" PRIu64, asked->times);
    }
    if (asked->action >= WORSEGPU_FAULT_DELAY && draw_chance(draw, 30))
        parameter(writing, "method", "\"%s\"",
                  methods[draw_below(draw, *asked->allocator ? 1 : 2)]);
    else if (draw_chance(draw, 20))
        parameter(writing, "min_size", "%" PRIu64, draw_size(draw, 14));
    if (draw_chance(draw, 20))
        parameter(writing, "user", "%u", (unsigned)client->peer.uid);
}

/* The parameters of one kind. */
static void write_params(struct writing *writing, struct world_client *client, struct asked *asked)
{
    struct draw *draw = &writing->world->draw;
    switch (asked->kind) {
    case ASKED_ALLOCATE:
        write_allocate(writing, client, asked);
        break;
    case ASKED_FREE:
    case ASKED_RECORD_STREAM:
        draw_handle(writing, client, asked);
        if (draw_chance(draw, 20))
            parameter(writing, "stream", "%" PRIu64, draw_below(draw, 4));
        break;
    case ASKED_EVENT_DONE:
        if (draw_chance(draw, 50))
            parameter(writing, "stream", "%" PRIu64, draw_below(draw, 4));
        break;
    case ASKED_LIST:
        asked->orphans = draw_chance(draw, 20);
        if (asked->orphans)
            parameter(writing, "orphans", "true");
        break;
    case ASKED_OPEN:
        write_open(writing, asked);
        break;
    case ASKED_RESIZE:
        asked->bytes = draw_between(draw, 32768, 2097152);
        parameter(writing, "gpu_capacity", "%" PRIu64, asked->bytes);
        break;
    case ASKED_SUBSCRIBE:
    case ASKED_TRACE:
        asked->after_given = draw_chance(draw, 60);
        if (asked->after_given) {
            asked->after = draw_chance(draw, 50) ? 0 : draw_below(draw, 60);
            parameter(writing, "after", "%" PRIu64, asked->after);
        }
        break;
    case ASKED_INJECT:
        write_inject(writing, client, asked);
        break;
    case ASKED_RULES_CLEAR:
        if (draw_chance(draw, 50) && writing->world->model.rule_count > 0) {
            asked->rule = draw_between(draw, 1, writing->world->model.rule_count + 1);
            parameter(writing, "rule", "%" PRIu64, asked->rule);
        }
        break;
    case ASKED_HELLO:
        text_parameter(writing, "name", "somebody");
        break;
    default:
        break;
    }
    if (asked->kind == ASKED_LIST || asked->kind == ASKED_CLIENTS || asked->kind == ASKED_TRACE) {
        asked->limit = draw_chance(draw, 30) ? draw_between(draw, 1, 20) : 0;
        if (asked->limit)
            parameter(writing, "limit", "%" PRIu64, asked->limit);
    }
}

static bool takes_allocator(enum asked_kind kind)
{
    switch (kind) {
    case ASKED_CLIENTS:
    case ASKED_INFO:
    case ASKED_HELLO:
    case ASKED_OPEN:
    case ASKED_RULES:
    case ASKED_RULES_CLEAR:
        return false;
    default:
        return true;
    }
}

/* A request as JSON: the order of its members is drawn. */
static void write_request(struct world *world, struct asked *asked,
                          const struct world_bytes *params, struct world_bytes *line)
{
    struct draw *draw = &world->draw;
    unsigned first = (unsigned)draw_below(draw, 3);
    const char *comma = "";
    add(line, "{");
    for (unsigned index = 0; index < 3; index++) {
        unsigned part = (first + index) % 3;
        if (part == 0 && !asked->silent) {
            add(line, "%s\"id\":%s", comma, asked->id);
        } else if (part == 1) {
            add(line, "%s\"method\":\"%s\"", comma, method_name(asked->kind));
        } else if (part == 2 && (params->length > 0 || draw_chance(draw, 20))) {
            add(line, "%s\"params\":{", comma);
            world_bytes_add(line, params->data, params->length);
            add(line, "}");
        } else {
            continue;
        }
        comma = ",";
    }
    if (draw_chance(draw, 20))
        add(line, "%s\"jsonrpc\":\"2.0\"", comma);
    add(line, "}");
}

/* ------------------------------------------------------------------------------ what is wrong */

/* A line that is refused whatever there is. */
static void write_wrong(struct world *world, struct asked *asked, struct world_bytes *line)
{
    static const struct {
        const char *text; /* %s stands for the id */
        enum error_kind kind;
        bool has_id;
    } lines[] = {
        {"}{\"id\":%s", ERROR_PARSE_ERROR, false},
        {"{\"id\":%s,}", ERROR_PARSE_ERROR, false},
        {"{\"id\":%s,\"id\":%s}", ERROR_PARSE_ERROR, false},
        {"\"%s\xff\"", ERROR_PARSE_ERROR, false},
        {"[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]", ERROR_PARSE_ERROR, false},
        {"[%s]", ERROR_INVALID_REQUEST, false},
        {"{\"id\":%s}", ERROR_INVALID_REQUEST, true},
        {"{\"id\":null,\"method\":\"info\"}", ERROR_INVALID_REQUEST, false},
        {"{\"id\":%s,\"method\":\"info\",\"jsonrpc\":\"1.0\"}", ERROR_INVALID_REQUEST, true},
        {"{\"id\":%s,\"method\":\"Allocate\"}", ERROR_METHOD_NOT_FOUND, true},
        {"{\"id\":%s,\"method\":\"allocate\"}", ERROR_INVALID_PARAMS, true},
        {"{\"id\":%s,\"method\":\"free\"}", ERROR_INVALID_PARAMS, true},
        {"{\"method\":\"snapshot\",\"params\":[],\"id\":%s}", ERROR_INVALID_PARAMS, true},
        {"{\"id\":%s,\"method\":\"allocate\",\"params\":{\"requested_bytes\":0}}",
         ERROR_INVALID_PARAMS, true},
        {"{\"id\":%s,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1e3}}",
         ERROR_INVALID_PARAMS, true},
        {"{\"id\":%s,\"method\":\"snapshot\",\"params\":{\"colour\":1}}", ERROR_INVALID_PARAMS,
         true},
    };
    size_t index = (size_t)draw_below(&world->draw, sizeof(lines) / sizeof(lines[0]));
    for (const char *at = lines[index].text; *at; at++) {
        if (at[0] == '%' && at[1] == 's') {
            world_bytes_add(line, asked->id, strlen(asked->id));
            at++;
        } else {
            world_bytes_add(line, at, 1);
        }
    }
    asked->wrong = lines[index].kind;
    if (!lines[index].has_id)
        snprintf(asked->id, sizeof(asked->id), "null");
}

static void write_too_long(struct world *world, struct asked *asked, struct world_bytes *line)
{
    size_t more = (size_t)(world->fixed.line_bytes + draw_below(&world->draw, 3000));
    for (size_t index = 0; index < more; index++)
        world_bytes_add(line, "x", 1);
    snprintf(asked->id, sizeof(asked->id), "null");
}

/* ---------------------------------------------------------------------------------- all of it */

static bool may_be_silent(enum asked_kind kind)
{
    return kind == ASKED_ALLOCATE || kind == ASKED_FREE || kind == ASKED_SNAPSHOT;
}

struct asked *asked_draw(struct world *world, struct world_client *client, struct world_bytes *line)
{
    struct draw *draw = &world->draw;
    struct asked *asked = calloc(1, sizeof(*asked));
    struct writing writing = {.world = world};
    if (!asked)
        abort();
    asked->kind = draw_kind(draw, client->unruly);
    asked->silent = may_be_silent(asked->kind) && draw_chance(draw, 6);
    snprintf(asked->id, sizeof(asked->id), draw_chance(draw, 70) ? "%" PRIu64 : "\"q%" PRIu64 "\"",
             ++client->next_id);
    if (asked->kind == ASKED_BLANK) {
        add(line, "%s", draw_chance(draw, 50) ? " \t" : "");
    } else if (asked->kind == ASKED_TOO_LONG) {
        write_too_long(world, asked, line);
    } else if (asked->kind == ASKED_WRONG) {
        write_wrong(world, asked, line);
    } else {
        if (takes_allocator(asked->kind))
            draw_allocator(&writing, client, asked);
        write_params(&writing, client, asked);
        write_request(world, asked, &writing.params, line);
    }
    add(line, "%s", draw_chance(draw, 10) ? "\r\n" : "\n");
    free(writing.params.data);
    return asked;
}
