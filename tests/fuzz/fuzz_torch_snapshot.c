/* Fuzz target: a pickle as a torch snapshot, as a log and through the check against the model. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/logs/log.h"
#include "lab/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool holds)
{
    if (!holds)
        abort();
}

static int take_record(void *context, const struct log_record *record)
{
    uint64_t *records = context;
    insist((unsigned int)record->operation < LOG_OPERATIONS);
    insist(record->operation != LOG_FREE || record->bytes == 0);
    insist(record->operation != LOG_ALLOCATE || record->bytes > 0);
    insist(record->place > 0);
    ++*records;
    return LOG_FINE;
}

static struct log_source *open_data(const uint8_t *data, size_t size)
{
    struct log_problem problem;
    struct log_source *source;
    return log_source_open_bytes(data, size, memory_system(), &source, &problem) == LOG_FINE
               ? source
               : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct log_format *format = log_format_find("torch-snapshot");
    insist(format != NULL);
    struct log_problem problem = {.text = ""};
    struct log_source *source = open_data(data, size);
    if (source) {
        uint64_t records = 0;
        struct log_facts facts;
        const struct log_sink sink = {.context = &records, .record = take_record};
        int status = log_read(source, format, memory_system(), &sink, &facts, &problem);
        insist(status == LOG_FINE || (status == LOG_BAD && strlen(problem.text) > 0));
        log_source_close(source);
    }
    source = open_data(data, size);
    if (source) {
        static struct verify_result result; /* too large for the stack of some */
        problem.text[0] = '\0';
        int status = verify_torch(source, memory_system(), &result, &problem);
        insist(status == LOG_FINE || (status == LOG_BAD && strlen(problem.text) > 0));
        for (size_t i = 0; status == LOG_FINE && i < result.count; i++)
            insist(result.counts[i].equal <= result.counts[i].all);
        insist(status != LOG_FINE || (result.mismatches > 0) == (result.mismatch[0] != '\0'));
        log_source_close(source);
    }
    return 0;
}
