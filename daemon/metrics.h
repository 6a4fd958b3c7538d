/* What the daemon knows of itself as text for Prometheus: every counter and gauge, and how long
 * each method takes.
 *
 * It is written from one table (metrics.def) in two formats, since none satisfies everybody:
 * OpenMetrics names a counter's family without _total, the older text format with it. Of private
 * allocators, tags and clients nothing is told but how many there are. */
#ifndef METRICS_H
#define METRICS_H

#include <stddef.h>

#include "daemon/metrics_text.h"
#include "daemon/server.h"

enum metrics_format {
    METRICS_OPENMETRICS, /* OpenMetrics 1.0.0 */
    METRICS_PROMETHEUS,  /* Prometheus' text format 0.0.4, which the textfile collector reads */
    METRICS_FORMATS
};

/* "openmetrics", "prometheus"; METRICS_FORMATS for another name. */
const char *metrics_format_name(enum metrics_format format);
enum metrics_format metrics_format_from_name(const char *name, size_t length);

/* Its media type. */
const char *metrics_content_type(enum metrics_format format);

/* Writes all of it; whether there was memory stands in `text`. `blocks` (may be NULL) is raised by
 * how many blocks may have been looked at. */
void metrics_write(const struct server *server, struct moment now, enum metrics_format format,
                   struct metrics_text *text, uint64_t *blocks);

/* The table, for those who show or compare it. */
struct metrics_info {
    const char *name; /* as samples have it, without a histogram's _bucket, _sum and _count */
    const char *type; /* "gauge", "counter", "histogram" */
    const char *unit;
    const char *labels; /* their names as they stand, "" for none */
    const char *help;
};
size_t metrics_count(void);
const struct metrics_info *metrics_info(size_t index);

#endif
