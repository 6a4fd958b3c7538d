/* inject, rules and rules_clear: failing on purpose.
 *
 * Who may change what is shared may make any rule and sees and clears all. Everybody else may make
 * rules about the private allocators of the own connection, and sees and clears those. */
#include <inttypes.h>

#include "daemon/handlers.h"
#include "daemon/rule_request.h"

/* Rules are told apart by whose allocator they are about: another connection's private one is not
 * the peer's. */
static bool may_touch(const struct call *call, const struct rule *rule)
{
    const struct hosted *hosted = rule->wish.hosted;
    return call->connection->peer.admin ||
           (hosted && !hosted->shared && hosted->holding.client == call->connection->number);
}

static void write_when(const struct rule_wish *wish, struct json_writer *out)
{
    switch (wish->when) {
    case RULE_NTH:
        json_writer_member_u64(out, "nth", wish->count);
        break;
    case RULE_EVERY:
        json_writer_member_u64(out, "every", wish->count);
        break;
    case RULE_PROBABILITY:
        json_writer_member_double(out, "probability", wish->probability);
        json_writer_member_u64(out, "rule_seed", wish->seed);
        break;
    }
    if (wish->times)
        json_writer_member_u64(out, "times", wish->times);
    else
        json_writer_member_null(out, "times");
}

static void write_conditions(const struct rule_wish *wish, struct json_writer *out)
{
    const struct {
        enum rule_condition condition;
        const char *name;
        uint64_t value;
    } numbers[] = {
        {RULE_MIN_SIZE, "min_size", wish->min_size},
        {RULE_MAX_SIZE, "max_size", wish->max_size},
        {RULE_STREAM, "stream", wish->stream},
        {RULE_PROCESS, "process", wish->process},
        {RULE_USER, "user", wish->user},
        {RULE_CLIENT, "client", wish->client},
    };
    if (wish->conditions & RULE_METHOD)
        json_writer_member_text(out, "method", method_info(wish->method)->name);
    for (size_t index = 0; index < sizeof(numbers) / sizeof(numbers[0]); index++)
        if (wish->conditions & numbers[index].condition)
            json_writer_member_u64(out, numbers[index].name, numbers[index].value);
    if (wish->conditions & RULE_TAG_PREFIX)
        json_writer_member_string(out, "tag_prefix", wish->tag_prefix, wish->tag_prefix_bytes);
}

/* A rule as members of the object that is open. */
static void write_rule(const struct rule *rule, struct json_writer *out)
{
    const struct rule_wish *wish = &rule->wish;
    json_writer_member_u64(out, "rule", rule->number);
    json_writer_member_text(out, "action", worsegpu_fault_action_name(wish->action));
    if (wish->action == WORSEGPU_FAULT_DELAY)
        json_writer_member_u64(out, "delay_ms", wish->delay_ms);
    write_when(wish, out);
    write_conditions(wish, out);
    if (wish->hosted)
        json_writer_member_text(out, "allocator", wish->hosted->name);
    else
        json_writer_member_null(out, "allocator");
    json_writer_member_u64(out, "matched", rule->matched);
    json_writer_member_u64(out, "fired", rule->fired);
    json_writer_member_bool(out, "spent", rule_is_spent(rule));
}

const struct answered *handle_inject(struct call *call)
{
    /* Left out, it is about all allocators, not only the first shared one. */
    const struct hosted *hosted =
        request_has(call->request, PARAMETER_allocator) ? call->hosted : NULL;
    struct rule_refusal refusal;
    if (!call_may_change(call, hosted))
        return call_not_admin(call);
    struct rule *rule = rule_request_add(call->server, call->request, hosted, &refusal);
    if (!rule && refusal.kind == ERROR_INVALID_PARAMS)
        return reply_error_text(&call->reply, refusal.kind, "param", refusal.param, "%s",
                                refusal.message);
    if (!rule && refusal.kind == ERROR_LIMIT_EXCEEDED)
        return reply_error_u64(&call->reply, refusal.kind, "limit", refusal.limit, "%s",
                               refusal.message);
    if (!rule)
        return reply_error(&call->reply, refusal.kind, "%s", refusal.message);
    reply_begin_result(&call->reply);
    write_rule(rule, call->reply.out);
    return reply_end_result(&call->reply);
}

const struct answered *handle_rules(struct call *call)
{
    const struct request *request = call->request;
    struct json_writer *out = call->reply.out;
    uint64_t next = request_has(request, PARAMETER_after) ? request->params.after : 0;
    uint64_t left = request_has(request, PARAMETER_limit) ? request->params.limit : PROTO_MAX_PAGE;
    const struct rule *rule;
    bool more = false;
    reply_begin_result(&call->reply);
    json_writer_key(out, "rules");
    json_writer_begin_array(out);
    TAILQ_FOREACH(rule, &call->server->rules.list, link)
    {
        if (rule->number <= next || !may_touch(call, rule))
            continue;
        more = left == 0 || !call_fits(call);
        if (more)
            break;
        json_writer_begin_object(out);
        write_rule(rule, out);
        json_writer_end_object(out);
        next = rule->number;
        left--;
    }
    call->cost += call->server->rules.count / CALL_WALKED_PER_REQUEST;
    json_writer_end_array(out);
    json_writer_member_u64(out, "next", next);
    json_writer_member_bool(out, "more", more);
    return reply_end_result(&call->reply);
}

static uint64_t clear_all(struct call *call)
{
    struct rules *rules = &call->server->rules;
    uint64_t cleared = 0;
    struct rule *rule = TAILQ_FIRST(&rules->list);
    while (rule) {
        struct rule *next = TAILQ_NEXT(rule, link);
        if (may_touch(call, rule)) {
            rules_remove(rules, call->server->memory, rule);
            cleared++;
        }
        rule = next;
    }
    return cleared;
}

const struct answered *handle_rules_clear(struct call *call)
{
    uint64_t cleared = 1;
    if (request_has(call->request, PARAMETER_rule)) {
        uint64_t number = call->request->params.rule;
        struct rule *rule = rules_find(&call->server->rules, number);
        if (!rule)
            return reply_error_text(&call->reply, ERROR_INVALID_PARAMS, "param", "rule",
                                    "there is no rule %" PRIu64 "; rules lists those there are",
                                    number);
        if (!may_touch(call, rule))
            return call_not_admin(call);
        rules_remove(&call->server->rules, call->server->memory, rule);
    } else {
        cleared = clear_all(call);
    }
    reply_begin_result(&call->reply);
    json_writer_member_u64(call->reply.out, "cleared", cleared);
    return reply_end_result(&call->reply);
}
