/* The policy's figures against the members of a line, as they are told; see golden_figures.h. */
#include "lab/golden_figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lab/mismatch.h"
#include "lib/statistics.h"

/* The policy's figures against the members of the line, as they are told. */
struct figures {
    const struct json_document *line;
    const struct policy *policy;
    struct verify_result *result;
    const char *place;
    const cJSON *list; /* the one whose rows are told */
    const cJSON *row;  /* the next of them */
    const char *list_name;
    uint64_t met; /* members of the line that were told */
    bool equal;
};

static const cJSON *figure(struct figures *figures, const char *name)
{
    const cJSON *item = json_document_member(figures->line->root, name);
    figures->met += item != NULL;
    return item;
}

static void figure_differs(struct figures *figures, const char *name, const char *got)
{
    figures->equal = false;
    const cJSON *item = json_document_member(figures->line->root, name);
    size_t length = 0;
    const char *spelling =
        cJSON_IsNumber(item) ? json_document_spelling(figures->line, item, &length) : "";
    mismatch_note(figures->result, figures->policy, figures->place, "%s: expected %.*s, got %s",
                  name, length > 0 ? (int)length : (int)strlen("something else"),
                  length > 0 ? spelling : "something else", got);
}

static void take_count(void *context, const char *name, uint64_t value)
{
    struct figures *figures = context;
    const cJSON *item = figure(figures, name);
    uint64_t expected;
    if (!item || (json_document_u64(figures->line, item, &expected) && expected == value))
        return;
    char got[24];
    snprintf(got, sizeof(got), "%" PRIu64, value);
    figure_differs(figures, name, got);
}

static void take_number(void *context, const char *name, double value)
{
    struct figures *figures = context;
    const cJSON *item = figure(figures, name);
    if (!item || (cJSON_IsNumber(item) && item->valuedouble == value))
        return;
    char got[32];
    snprintf(got, sizeof(got), "%.17g", value);
    figure_differs(figures, name, got);
}

static void take_none(void *context, const char *name)
{
    struct figures *figures = context;
    const cJSON *item = figure(figures, name);
    if (item && !cJSON_IsNull(item))
        figure_differs(figures, name, "null");
}

static bool same_row(const struct json_document *line, const cJSON *row, const char *const *names,
                     const uint64_t *values, size_t length)
{
    if (names ? !cJSON_IsObject(row) : !cJSON_IsArray(row))
        return false;
    const cJSON *item = row->child;
    for (size_t i = 0; i < length; i++) {
        uint64_t expected;
        const cJSON *member = names ? json_document_member(row, names[i]) : item;
        if (!json_document_u64(line, member, &expected) || expected != values[i])
            return false;
        item = item ? item->next : NULL;
    }
    return item == NULL;
}

static void take_values(void *context, const char *name, const uint64_t *values, size_t length)
{
    struct figures *figures = context;
    const cJSON *item = figure(figures, name);
    if (item && !same_row(figures->line, item, NULL, values, length))
        figure_differs(figures, name, "other values");
}

static void take_list_begin(void *context, const char *name)
{
    struct figures *figures = context;
    figures->list = figure(figures, name);
    figures->list_name = name;
    figures->row = figures->list ? figures->list->child : NULL;
}

static void take_row(void *context, const char *const *names, const uint64_t *values, size_t length)
{
    struct figures *figures = context;
    if (!figures->list)
        return;
    if (!figures->row) {
        figure_differs(figures, figures->list_name, "more rows");
        figures->list = NULL;
        return;
    }
    if (!same_row(figures->line, figures->row, names, values, length)) {
        figure_differs(figures, figures->list_name, "another row");
        figures->list = NULL;
        return;
    }
    figures->row = figures->row->next;
}

static void take_list_end(void *context)
{
    struct figures *figures = context;
    if (figures->list && figures->row)
        figure_differs(figures, figures->list_name, "fewer rows");
    figures->list = NULL;
}

bool golden_figures_equal(const struct json_document *line, size_t skipped,
                          const struct policy *policy, struct verify_result *result,
                          const char *place)
{
    struct figures figures = {
        .line = line, .policy = policy, .result = result, .place = place, .equal = true};
    struct statistics_sink sink = {
        .context = &figures,
        .lists = true,
        .count = take_count,
        .number = take_number,
        .none = take_none,
        .values = take_values,
        .list_begin = take_list_begin,
        .row = take_row,
        .list_end = take_list_end,
    };
    if (policy->operations->statistics)
        policy->operations->statistics(policy, &sink);
    uint64_t members = 0;
    for (const cJSON *member = line->root->child; member; member = member->next)
        members++;
    if (figures.met + skipped != members) {
        figures.equal = false;
        mismatch_note(result, policy, place, "the model tells %" PRIu64 " of %" PRIu64 " figures",
                      figures.met, members - skipped);
    }
    return figures.equal;
}
