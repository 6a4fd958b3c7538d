/* Fuzz target: telling a log's format by its content, and each reader of lab/logs.
 *
 * The first byte chooses the reader by a letter; with any other byte the format is told by what
 * follows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/logs/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    uint8_t letter;
    const char *format;
} readers[] = {{'k', "kineto"},       {'r', "rmm-csv"},   {'u', "umpire"},
               {'n', "nsys-csv"},     {'c', "csapp-rep"}, {'o', "ostep-list"},
               {'m', "glibc-mtrace"}, {'g', "golden"},    {'w', "worsegpu-trace"}};

static void insist(bool holds)
{
    if (!holds)
        abort();
}

static int take_record(void *context, const struct log_record *record)
{
    uint64_t *last_us = context;
    insist((unsigned int)record->operation < LOG_OPERATIONS);
    insist(record->operation != LOG_FREE || record->bytes == 0);
    insist(record->operation != LOG_ALLOCATE || record->bytes > 0);
    insist(record->time_us >= *last_us);
    insist(record->place > 0);
    *last_us = record->time_us;
    return LOG_FINE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct log_format *format = NULL;
    if (size == 0)
        return 0;
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
        if (data[0] == readers[i].letter)
            insist((format = log_format_find(readers[i].format)) != NULL);
    size_t told = 0;
    size_t head = size - 1 < LOG_HEAD_BYTES ? size - 1 : LOG_HEAD_BYTES;
    for (size_t i = 0; head > 0 && log_format_at(i); i++)
        told += log_format_at(i)->detect(data + 1, head);
    /* Hostile JSON may have the names of several. */
    insist(told <= 1 || memchr(data + 1, '{', size - 1) != NULL);

    if (!format && head > 0 && log_format_find("torch-snapshot")->detect(data + 1, head))
        return 0; /* they have a target of their own */

    struct log_problem problem = {.text = ""};
    struct log_source *source;
    int status = log_source_open_bytes(data + 1, size - 1, memory_system(), &source, &problem);
    if (status == LOG_FINE) {
        uint64_t last_us = 0;
        struct log_facts facts;
        struct log_sink sink = {.context = &last_us, .record = take_record};
        status = log_read(source, format, memory_system(), &sink, &facts, &problem);
        log_source_close(source);
    }
    insist(status == LOG_FINE || status == LOG_BAD);
    insist(status == LOG_FINE || strncmp(problem.text, "line ", 5) == 0 ||
           strncmp(problem.text, "byte ", 5) == 0);
    return 0;
}
