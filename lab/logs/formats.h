/* What the readers of lab/logs share: their declarations, made from formats.def, and small things
 * that every text format needs. For this folder only. */
#ifndef LOGS_FORMATS_H
#define LOGS_FORMATS_H

#include "lab/logs/log.h"

#define FORMAT(function, name, summary)                                                            \
    bool log_##function##_detect(const unsigned char *head, size_t bytes);                         \
    int log_##function##_read(struct log_source *source, const struct worsegpu_memory *memory,     \
                              const struct log_sink *sink, struct log_facts *facts,                \
                              struct log_problem *problem);
#include "lab/logs/formats.def"
#undef FORMAT

/* Foreign bytes made fit for a sentence: printable ASCII as it is, the rest as \x1b; cut with "..."
 * where `room` (NUL included, at least 16) does not hold it. */
void log_printable(const void *bytes, size_t length, char *text, size_t room);

#endif
