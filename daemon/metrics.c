/* What the daemon knows of itself as text for Prometheus; see metrics.h.
 *
 * Formats: OpenMetrics 1.0.0 (github.com/OpenObservability/OpenMetrics) and the text format 0.0.4
 * (prometheus.io/docs/instrumenting/exposition_formats). */
#include "daemon/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/version.h"
#include "daemon/memory_budget.h"

#define METRICS_NONE UINT64_MAX

enum type {
    GAUGE,
    COUNTER,
    HISTOGRAM
};

enum labels {
    ALONE,
    ALLOCATOR,
    METHOD,
    TIMED,
    KIND,
    REFUSAL,
    BUILD
};

/* A shared allocator's figures, taken once for all metrics. */
struct figures {
    const struct hosted *hosted;
    struct worsegpu_snapshot snapshot;
    uint64_t largest_free;
};

/* What a value is of. */
struct metrics_source {
    const struct server *server;
    struct moment now;
    size_t index; /* of a method, a kind of error, a refusal */
    const char *allocator;
    const char *policy;
    const struct worsegpu_snapshot *snapshot;
    uint64_t largest_free;
    uint64_t fragmentation_thousandths;
    uint64_t host_capacity;
};

static uint64_t budget_used(const struct metrics_source *of)
{
    return of->server->budget ? of->server->budget->used_bytes : METRICS_NONE;
}

static uint64_t budget_limit(const struct metrics_source *of)
{
    return of->server->budget ? of->server->budget->limit_bytes : METRICS_NONE;
}

#define METRIC(name, type, unit, labels, decimals, value, help)                                    \
    static uint64_t value_of_##name(const struct metrics_source *of)                               \
    {                                                                                              \
        (void)of;                                                                                  \
        return value;                                                                              \
    }
#include "daemon/metrics.def"

struct metric {
    const char *name;
    enum type type;
    const char *unit;
    enum labels labels;
    unsigned decimals;
    uint64_t (*value)(const struct metrics_source *of);
    const char *help;
};

static const struct metric metrics[] = {
#define METRIC(name, type, unit, labels, decimals, value, help)                                    \
    {"worsegpu_" #name, type, unit, labels, decimals, value_of_##name, help},
#include "daemon/metrics.def"
};

/* ----------------------------------------------------------------------------------- the table */

#define SUFFIX_GAUGE ""
#define SUFFIX_COUNTER "_total"
#define SUFFIX_HISTOGRAM ""
#define TYPE_GAUGE "gauge"
#define TYPE_COUNTER "counter"
#define TYPE_HISTOGRAM "histogram"
#define LABELS_ALONE ""
#define LABELS_ALLOCATOR "allocator, policy"
#define LABELS_METHOD "method"
#define LABELS_TIMED "method"
#define LABELS_KIND "kind"
#define LABELS_REFUSAL "kind"
#define LABELS_BUILD "version, protocol"

static const struct metrics_info infos[] = {
#define METRIC(name, type, unit, labels, decimals, value, help)                                    \
    {"worsegpu_" #name SUFFIX_##type, TYPE_##type, unit, LABELS_##labels, help},
#include "daemon/metrics.def"
};

enum {
    METRICS = sizeof(metrics) / sizeof(metrics[0])
};

size_t metrics_count(void)
{
    return METRICS;
}

const struct metrics_info *metrics_info(size_t index)
{
    return index < METRICS ? &infos[index] : NULL;
}

static const struct {
    const char *name;
    const char *content_type;
} formats[METRICS_FORMATS] = {
    [METRICS_OPENMETRICS] = {"openmetrics",
                             "application/openmetrics-text; version=1.0.0; charset=utf-8"},
    [METRICS_PROMETHEUS] = {"prometheus", "text/plain; version=0.0.4; charset=utf-8"},
};

const char *metrics_format_name(enum metrics_format format)
{
    return formats[format].name;
}

enum metrics_format metrics_format_from_name(const char *name, size_t length)
{
    size_t format = 0;
    while (format < METRICS_FORMATS && (strlen(formats[format].name) != length ||
                                        memcmp(formats[format].name, name, length) != 0))
        format++;
    return (enum metrics_format)format;
}

const char *metrics_content_type(enum metrics_format format)
{
    return formats[format].content_type;
}

/* ------------------------------------------------------------------------------------- samples */

static void add_labels(struct metrics_text *text, enum labels labels,
                       const struct metrics_source *of)
{
    static const enum error_kind refusals[METRICS_REFUSALS] = {
        [METRICS_REFUSED_FULL] = ERROR_LIMIT_EXCEEDED,
        [METRICS_REFUSED_POOR] = ERROR_INTERNAL_ERROR,
    };
    switch (labels) {
    case ALONE:
        break;
    case ALLOCATOR:
        metrics_text_label(text, true, "allocator", of->allocator);
        metrics_text_label(text, false, "policy", of->policy);
        break;
    case METHOD:
    case TIMED:
        metrics_text_label(text, true, "method",
                           of->index < METHODS ? method_info((enum method)of->index)->name
                                               : "none");
        break;
    case KIND:
        metrics_text_label(text, true, "kind", error_kind_name((enum error_kind)of->index));
        break;
    case REFUSAL:
        metrics_text_label(text, true, "kind", error_kind_name(refusals[of->index]));
        break;
    case BUILD:
        metrics_text_label(text, true, "version", WORSEGPU_VERSION);
        metrics_text_add(text, ",protocol=\"%d\"", WORSEGPU_PROTOCOL);
        break;
    }
}

static void add_number(struct metrics_text *text, uint64_t value, unsigned decimals)
{
    uint64_t one = 1;
    for (unsigned digit = 0; digit < decimals; digit++)
        one *= 10;
    if (decimals > 0)
        metrics_text_add(text, " %" PRIu64 ".%0*" PRIu64 "\n", value / one, (int)decimals,
                         value % one);
    else
        metrics_text_add(text, " %" PRIu64 "\n", value);
}

static void add_sample(struct metrics_text *text, const struct metric *metric, const char *suffix,
                       const struct metrics_source *of, unsigned decimals, uint64_t value)
{
    metrics_text_add(text, "%s%s", metric->name, suffix);
    if (metric->labels != ALONE) {
        metrics_text_add(text, "{");
        add_labels(text, metric->labels, of);
        metrics_text_add(text, "}");
    }
    add_number(text, value, decimals);
}

static void add_histogram(struct metrics_text *text, const struct metric *metric,
                          const struct metrics_source *of)
{
    const struct metrics_latency *latency = &of->server->counts.latency[of->index];
    uint64_t count = 0;
    for (size_t bucket = 0; bucket <= METRICS_BUCKETS; bucket++) {
        count += latency->counts[bucket];
        metrics_text_add(text, "%s_bucket{", metric->name);
        add_labels(text, metric->labels, of);
        metrics_text_label(text, false, "le",
                           bucket < METRICS_BUCKETS ? metrics_bucket_seconds(bucket) : "+Inf");
        metrics_text_add(text, "}");
        add_number(text, count, 0);
    }
    add_sample(text, metric, "_sum", of, metric->decimals, metric->value(of));
    add_sample(text, metric, "_count", of, 0, count);
}

static void add_one(struct metrics_text *text, const struct metric *metric,
                    const struct metrics_source *of)
{
    uint64_t value = metric->value(of);
    if (metric->type == HISTOGRAM)
        add_histogram(text, metric, of);
    else if (value != METRICS_NONE)
        add_sample(text, metric, metric->type == COUNTER ? "_total" : "", of, metric->decimals,
                   value);
}

/* ------------------------------------------------------------------------------------ families */

static void add_head(struct metrics_text *text, const struct metric *metric,
                     const struct metrics_info *info, enum metrics_format format)
{
    const char *name = format == METRICS_OPENMETRICS ? metric->name : info->name;
    metrics_text_add(text, "# HELP %s %s\n", name, info->help);
    metrics_text_add(text, "# TYPE %s %s\n", name, info->type);
    if (*metric->unit && format == METRICS_OPENMETRICS)
        metrics_text_add(text, "# UNIT %s %s\n", name, metric->unit);
}

static void add_each_index(struct metrics_text *text, const struct metric *metric,
                           struct metrics_source of, size_t count)
{
    for (of.index = 0; of.index < count; of.index++)
        add_one(text, metric, &of);
}

static void add_each_allocator(struct metrics_text *text, const struct metric *metric,
                               struct metrics_source of, const struct figures *figures,
                               size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const struct worsegpu_snapshot *snapshot = &figures[index].snapshot;
        of.allocator = figures[index].hosted->name;
        of.policy = worsegpu_configuration(figures[index].hosted->engine)->policy;
        of.snapshot = snapshot;
        of.largest_free = figures[index].largest_free;
        of.fragmentation_thousandths = (uint64_t)lround(snapshot->fragmentation * 1000);
        of.host_capacity = figures[index].hosted->host_capacity;
        add_one(text, metric, &of);
    }
}

static size_t take_figures(const struct server *server, struct figures figures[OPTIONS_MOST_GPUS])
{
    size_t count = 0;
    const struct hosted *hosted;
    TAILQ_FOREACH(hosted, &server->shared, link)
    {
        struct figures *one = &figures[count++];
        assert(count <= OPTIONS_MOST_GPUS);
        one->hosted = hosted;
        worsegpu_snapshot(hosted->engine, &one->snapshot);
        if (!worsegpu_largest_free(hosted->engine, &one->largest_free))
            one->largest_free = METRICS_NONE;
    }
    return count;
}

void metrics_write(const struct server *server, struct moment now, enum metrics_format format,
                   struct metrics_text *text, uint64_t *blocks)
{
    static const size_t counts[] = {
        [ALONE] = 1,          [METHOD] = METHODS + 1,       [TIMED] = METHODS,
        [KIND] = ERROR_KINDS, [REFUSAL] = METRICS_REFUSALS, [BUILD] = 1};
    struct figures figures[OPTIONS_MOST_GPUS];
    size_t allocators = take_figures(server, figures);
    const struct metrics_source of = {.server = server, .now = now};
    for (size_t index = 0; index < METRICS; index++) {
        const struct metric *metric = &metrics[index];
        bool clock_missing = metric->labels == TIMED && !server->counts.now_ns;
        if (clock_missing)
            continue;
        add_head(text, metric, &infos[index], format);
        if (metric->labels == ALLOCATOR)
            add_each_allocator(text, metric, of, figures, allocators);
        else
            add_each_index(text, metric, of, counts[metric->labels]);
    }
    metrics_text_add(text, "# EOF\n");
    for (size_t index = 0; blocks && index < allocators; index++)
        *blocks += figures[index].snapshot.gpu_blocks;
}
