/* inject, rules and rules_clear: failing on purpose. */
#include <math.h>
#include <string.h>

#include "client/parameters.h"
#include "client/typed_results.h"

static int check_wish(const struct worsegpu_client_wish *wish, struct worsegpu_client_error *error)
{
    if (wish->probability_given && !isfinite(wish->probability))
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "a probability must be a number from 0 to 1");
    int status = parameters_check_texts(wish->allocator, wish->action, PARAMETER_action, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = parameters_check_text(wish->method, "method", error);
    return status == WORSEGPU_CLIENT_OK
               ? parameters_check_text(wish->tag_prefix, "tag_prefix", error)
               : status;
}

static void put_wish(worsegpu_client *client, const struct worsegpu_client_wish *wish)
{
    parameters_put_text(client, PARAMETER_action, wish->action);
    parameters_put_u64(client, PARAMETER_nth, wish->nth > 0, wish->nth);
    parameters_put_u64(client, PARAMETER_every, wish->every > 0, wish->every);
    parameters_put_double(client, PARAMETER_probability, wish->probability_given,
                          wish->probability);
    parameters_put_u64(client, PARAMETER_rule_seed, wish->rule_seed > 0, wish->rule_seed);
    parameters_put_u64(client, PARAMETER_times, wish->times > 0, wish->times);
    parameters_put_text(client, PARAMETER_method, wish->method);
    parameters_put_u64(client, PARAMETER_min_size, wish->min_size > 0, wish->min_size);
    parameters_put_u64(client, PARAMETER_max_size, wish->max_size > 0, wish->max_size);
    parameters_put_u64(client, PARAMETER_stream, wish->stream_given, wish->stream);
    parameters_put_text(client, PARAMETER_tag_prefix, wish->tag_prefix);
    parameters_put_u64(client, PARAMETER_process, wish->process > 0, wish->process);
    parameters_put_u64(client, PARAMETER_user, wish->user_given, wish->user);
    parameters_put_u64(client, PARAMETER_client, wish->client > 0, wish->client);
    parameters_put_text(client, PARAMETER_allocator, wish->allocator);
    parameters_put_u64(client, PARAMETER_delay_ms, wish->delay_ms > 0, wish->delay_ms);
}

/* A rule fires by exactly one of nth, every and probability. */
static void read_when(struct reader *reader, struct worsegpu_client_rule *rule)
{
    unsigned ways = 0;
    ways += reader_u64_if_given(reader, "nth", &rule->nth);
    ways += reader_u64_if_given(reader, "every", &rule->every);
    const cJSON *probability = json_document_member(reader->object, "probability");
    if (probability && !cJSON_IsNull(probability)) {
        ways++;
        rule->probability_given = true;
        rule->probability = reader_double(reader, "probability");
        rule->rule_seed = reader_u64(reader, "rule_seed");
    }
    if (ways != 1)
        reader_miss(reader, "nth");
}

static void read_rule(struct reader *reader, struct worsegpu_client_rule *rule)
{
    memset(rule, 0, sizeof(*rule));
    rule->rule = reader_u64(reader, "rule");
    reader_text(reader, "action", rule->action, sizeof(rule->action));
    read_when(reader, rule);
    reader_u64_if_given(reader, "times", &rule->times);
    reader_text_if_given(reader, "method", rule->method, sizeof(rule->method));
    reader_u64_if_given(reader, "min_size", &rule->min_size);
    reader_u64_if_given(reader, "max_size", &rule->max_size);
    rule->stream_given = reader_u64_if_given(reader, "stream", &rule->stream);
    reader_text_if_given(reader, "tag_prefix", rule->tag_prefix, sizeof(rule->tag_prefix));
    reader_u64_if_given(reader, "process", &rule->process);
    rule->user_given = reader_u64_if_given(reader, "user", &rule->user);
    reader_u64_if_given(reader, "client", &rule->client);
    reader_text_if_given(reader, "allocator", rule->allocator, sizeof(rule->allocator));
    reader_u64_if_given(reader, "delay_ms", &rule->delay_ms);
    rule->matched = reader_u64(reader, "matched");
    rule->fired = reader_u64(reader, "fired");
    rule->spent = reader_bool(reader, "spent");
}

int worsegpu_client_read_rule(worsegpu_client *client, struct worsegpu_client_rule *rule,
                              struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    read_rule(&reader, rule);
    return reader_end(client, &reader, error);
}

int worsegpu_client_inject(worsegpu_client *client, const struct worsegpu_client_wish *wish,
                           struct worsegpu_client_rule *rule, struct worsegpu_client_error *error)
{
    int status = check_wish(wish, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_inject);
    put_wish(client, wish);
    status = client_draft_call(client, draft, error);
    struct worsegpu_client_rule ignored;
    return status == WORSEGPU_CLIENT_OK
               ? worsegpu_client_read_rule(client, rule ? rule : &ignored, error)
               : status;
}

static int read_rules(worsegpu_client *client, uint64_t after, struct worsegpu_client_rules *page,
                      struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    void *items;
    int status = reader_page(client, &reader, "rules", sizeof(struct worsegpu_client_rule), &items,
                             &page->count, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct worsegpu_client_rule *rules = items;
    page->rules = rules;
    reader_page_end(&reader, after, &page->next, &page->more);
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_document_member(client->result_item, "rules"))
    {
        reader.object = item;
        if (rules)
            read_rule(&reader, &rules[index++]);
    }
    return reader_end(client, &reader, error);
}

int worsegpu_client_rules(worsegpu_client *client, uint64_t after, uint64_t limit,
                          struct worsegpu_client_rules *page, struct worsegpu_client_error *error)
{
    struct client_draft draft = client_draft_begin(client, METHOD_rules);
    parameters_put_u64(client, PARAMETER_after, true, after);
    parameters_put_u64(client, PARAMETER_limit, true, limit);
    int status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? read_rules(client, after, page, error) : status;
}

int worsegpu_client_rules_clear(worsegpu_client *client, uint64_t rule, uint64_t *cleared,
                                struct worsegpu_client_error *error)
{
    struct client_draft draft = client_draft_begin(client, METHOD_rules_clear);
    parameters_put_u64(client, PARAMETER_rule, rule > 0, rule);
    int status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_count(client, "cleared", cleared, error)
                                        : status;
}
