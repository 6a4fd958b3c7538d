/* Named figures of each GPU; see smi_query.h. */
#include "client/cli/smi_query.h"

#include <inttypes.h>
#include <string.h>

#include "base/suggest.h"
#include "client/cli/report.h"

enum field_kind {
    NUMBER,
    NUMBER_OR_NONE, /* 0 stands for none where the policy has no such thing */
    WORD,
    DECIMAL /* a number as the daemon wrote it */
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset; /* in struct gpu */
};

#define FIGURE(field)                                                                              \
    {                                                                                              \
#field, NUMBER, offsetof(struct gpu, snapshot.field)                                       \
    }
#define DETAIL(field)                                                                              \
    {                                                                                              \
#field, NUMBER, offsetof(struct gpu, snapshot.detail.field)                                \
    }

static const struct field FIELDS[] = {
    {"name", WORD, offsetof(struct gpu, name)},
    {"policy", WORD, offsetof(struct gpu, snapshot.detail.policy)},
    {"scan", WORD, offsetof(struct gpu, snapshot.detail.scan)},
    FIGURE(gpu_capacity),
    FIGURE(gpu_reserved),
    FIGURE(gpu_unreserved),
    FIGURE(gpu_used),
    FIGURE(gpu_free),
    FIGURE(gpu_forgotten),
    FIGURE(gpu_blocks),
    FIGURE(cpu_bytes),
    FIGURE(active_allocations),
    FIGURE(trace_events),
    {"fragmentation", DECIMAL, offsetof(struct gpu, snapshot.fragmentation_text)},
    DETAIL(blocks_scanned),
    DETAIL(gpu_allocations),
    DETAIL(cpu_allocations),
    DETAIL(gpu_requested),
    DETAIL(gpu_forgotten_blocks),
    DETAIL(peak_gpu_used),
    DETAIL(peak_cpu_bytes),
    DETAIL(allocate_calls),
    DETAIL(free_calls),
    DETAIL(oom_fallbacks),
    DETAIL(oom_failures),
    DETAIL(faults),
    DETAIL(last_sequence),
    {"gpu_largest_free", NUMBER_OR_NONE, offsetof(struct gpu, snapshot.detail.gpu_largest_free)},
    DETAIL(gpu_pending),
    DETAIL(gpu_segments),
    DETAIL(device_calls),
    DETAIL(device_retries),
};
enum {
    FIELD_COUNT = sizeof(FIELDS) / sizeof(FIELDS[0]),
    LONGEST_LIST = 700,
    LONGEST_FIELD = 64
};

/* ------------------------------------------------------------------------------ reading */

static int complain(struct cli *cli, const char *name)
{
    const char *names[FIELD_COUNT];
    char problem[160];
    char advice[LONGEST_LIST];
    size_t length = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        names[i] = FIELDS[i].name;
    const char *nearest = suggest_nearest(name, names, FIELD_COUNT);
    if (nearest)
        snprintf(problem, sizeof(problem), "smi has no field '%s'; did you mean '%s'?", name,
                 nearest);
    else
        snprintf(problem, sizeof(problem), "smi has no field '%s'", name);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        int written = snprintf(advice + length, sizeof(advice) - length, "%s%s",
                               i == 0 ? "fields: " : ", ", FIELDS[i].name);
        if (written < 0 || (size_t)written >= sizeof(advice) - length)
            break;
        length += (size_t)written;
    }
    return report_usage(cli, problem, advice);
}

static size_t find(const char *name)
{
    size_t index = 0;
    while (index < FIELD_COUNT && strcmp(FIELDS[index].name, name) != 0)
        index++;
    return index;
}

int smi_query_read(struct cli *cli, const char *text, struct smi_query *query)
{
    query->count = 0;
    for (const char *rest = text; rest;) {
        char name[LONGEST_FIELD];
        size_t length = strcspn(rest, ",");
        snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name)),
                 rest);
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
        size_t field = find(name);
        if (field == FIELD_COUNT)
            return complain(cli, name);
        if (query->count == SMI_QUERY_MOST)
            return report_usage(cli, "smi takes at most 64 fields at once", NULL);
        query->fields[query->count++] = field;
    }
    return CLI_FINE;
}

/* ------------------------------------------------------------------------------ printing */

static const void *value_of(const struct gpu *gpu, const struct field *field)
{
    return (const char *)gpu + field->offset;
}

static bool is_none(const struct gpu *gpu, const struct field *field)
{
    return field->kind == NUMBER_OR_NONE && !gpu->snapshot.detail.gpu_largest_free_given;
}

static void print_plain(struct cli *cli, const struct gpu *gpu, const struct field *field)
{
    const void *value = value_of(gpu, field);
    if (field->kind == NUMBER || field->kind == NUMBER_OR_NONE)
        output_text(&cli->output, "%" PRIu64, *(const uint64_t *)value);
    else
        output_foreign(&cli->output, value);
}

void smi_query_print_titles(struct cli *cli, const struct smi_query *query)
{
    for (size_t i = 0; i < query->count; i++)
        output_text(&cli->output, "%s%s", i == 0 ? "" : ",", FIELDS[query->fields[i]].name);
    output_text(&cli->output, "\n");
}

void smi_query_print_csv(struct cli *cli, const struct smi_query *query, const struct gpus *gpus)
{
    for (size_t g = 0; g < gpus->count; g++) {
        const struct gpu *gpu = &gpus->items[g];
        for (size_t i = 0; i < query->count; i++) {
            const struct field *field = &FIELDS[query->fields[i]];
            output_text(&cli->output, "%s", i == 0 ? "" : ",");
            if (!is_none(gpu, field))
                print_plain(cli, gpu, field);
        }
        output_text(&cli->output, "\n");
    }
}

void smi_query_print_json(struct cli *cli, const struct smi_query *query, const struct gpus *gpus)
{
    output_text(&cli->output, "[");
    for (size_t g = 0; g < gpus->count; g++) {
        const struct gpu *gpu = &gpus->items[g];
        output_text(&cli->output, "%s{", g == 0 ? "" : ",");
        for (size_t i = 0; i < query->count; i++) {
            const struct field *field = &FIELDS[query->fields[i]];
            /* Names of allocators, policies and scans need no escape. */
            const char *quote = field->kind == WORD ? "\"" : "";
            output_text(&cli->output, "%s\"%s\":%s", i == 0 ? "" : ",", field->name, quote);
            if (is_none(gpu, field))
                output_text(&cli->output, "null");
            else
                print_plain(cli, gpu, field);
            output_text(&cli->output, "%s", quote);
        }
        output_text(&cli->output, "}");
    }
    output_text(&cli->output, "]\n");
}
