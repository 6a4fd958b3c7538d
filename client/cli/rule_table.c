/* Rules as a table; see rule_table.h. */
#include "client/cli/rule_table.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/bytes_text.h"

static const struct table_column COLUMNS[] = {
    {"rule", true},    {"action", false}, {"when", false},  {"times", true},
    {"matched", true}, {"fired", true},   {"state", false}, {"conditions", false},
};
enum {
    COLUMN_COUNT = sizeof(COLUMNS) / sizeof(COLUMNS[0]),
    TEXT_SIZE = 512 /* more than all conditions at once need */
};

/* A text that grows by parts, cut when it is full. */
struct text {
    char bytes[TEXT_SIZE];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof(text->bytes) - text->length;
    va_start(arguments, format);
    int length = vsnprintf(text->bytes + text->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->length += (size_t)length < room ? (size_t)length : room - 1;
}

static void add_size(struct text *text, const char *name, uint64_t bytes)
{
    char size[BYTES_TEXT_SIZE];
    bytes_to_text(bytes, false, size);
    if (bytes > 0)
        add(text, " %s %s", name, size);
}

static void add_number(struct text *text, const char *name, bool given, uint64_t number)
{
    if (given)
        add(text, " %s %" PRIu64, name, number);
}

/* In the words of `inject`. */
static void add_conditions(struct text *text, const struct worsegpu_client_rule *rule)
{
    if (rule->method[0] != '\0')
        add(text, " method %s", rule->method);
    add_size(text, "min-size", rule->min_size);
    add_size(text, "max-size", rule->max_size);
    add_number(text, "stream", rule->stream_given, rule->stream);
    if (rule->tag_prefix[0] != '\0')
        add(text, " tag-prefix %s", rule->tag_prefix);
    add_number(text, "process", rule->process > 0, rule->process);
    add_number(text, "user", rule->user_given, rule->user);
    add_number(text, "client", rule->client > 0, rule->client);
    if (rule->allocator[0] != '\0')
        add(text, " allocator %s", rule->allocator);
}

static void add_when(struct text *text, const struct worsegpu_client_rule *rule)
{
    if (rule->probability_given)
        add(text, "probability %.6g, seed %" PRIu64, rule->probability, rule->rule_seed);
    else if (rule->every > 0)
        add(text, "every %" PRIu64, rule->every);
    else
        add(text, "nth %" PRIu64, rule->nth);
}

void rule_table_add(struct table *table, const struct worsegpu_client_rule *rule)
{
    struct text action = {.length = 0};
    struct text when = {.length = 0};
    struct text conditions = {.length = 0};
    add(&action, "%s", rule->action);
    if (rule->delay_ms > 0)
        add(&action, " %" PRIu64 " ms", rule->delay_ms);
    add_when(&when, rule);
    add_conditions(&conditions, rule);
    table_number(table, rule->rule);
    table_text(table, action.bytes);
    table_text(table, when.bytes);
    if (rule->times > 0)
        table_number(table, rule->times);
    else
        table_text(table, "no end");
    table_number(table, rule->matched);
    table_number(table, rule->fired);
    table_text(table, rule->spent ? "spent" : "armed");
    table_text(table, conditions.length > 0 ? conditions.bytes + 1 : "-");
}

void rule_table_init(struct cli *cli, struct table *table)
{
    table_init(table, cli->memory, &cli->output, COLUMNS, COLUMN_COUNT);
}
