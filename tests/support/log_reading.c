/* Reading logs in tests; see log_reading.h. */
#include "tests/support/log_reading.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/chaos.h"

static const char *const words[LOG_OPERATIONS] = {
    "allocate",         "free",         "refused",     "record_stream", "event_done", "empty_cache",
    "segment_allocate", "segment_free", "segment_map", "segment_unmap"};

static int take_record(void *context, const struct log_record *record)
{
    struct log_reading *reading = context;
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    assert_non_null(out);
    assert_true((unsigned int)record->operation < LOG_OPERATIONS);
    fprintf(out, "%s", words[record->operation]);
    if (record->operation == LOG_ALLOCATE || record->operation == LOG_FREE ||
        record->operation == LOG_RECORD_STREAM)
        fprintf(out, " 0x%" PRIx64, record->key);
    if (record->operation != LOG_FREE && record->bytes == UINT64_MAX)
        fprintf(out, " all");
    else if (record->bytes)
        fprintf(out, " %" PRIu64 " bytes", record->bytes);
    if (record->address != LOG_NO_ADDRESS)
        fprintf(out, " at 0x%" PRIx64, record->address);
    if (record->stream == LOG_OWN_STREAM)
        fprintf(out, " own stream");
    else if (record->stream)
        fprintf(out, " stream %" PRIu64, record->stream);
    if (record->device)
        fprintf(out, " device %" PRIu32, record->device);
    if (record->alignment)
        fprintf(out, " alignment %" PRIu64, record->alignment);
    fprintf(out, "%s%s%s", record->upper ? " upper" : "", record->before ? " before" : "",
            record->newest ? " newest" : "");
    if (record->time_us)
        fprintf(out, " time %" PRIu64, record->time_us);
    fprintf(out, " place %" PRIu64 "\n", record->place);
    assert_int_equal(fclose(out), 0);
    if (reading->capacity <= reading->length + length) {
        reading->capacity = 2 * (reading->length + length) + 1;
        reading->text = realloc(reading->text, reading->capacity);
        assert_non_null(reading->text);
    }
    memcpy(reading->text + reading->length, line, length + 1);
    reading->length += length;
    free(line);
    reading->records++;
    return reading->records == reading->stop_after ? LOG_STOPPED : LOG_FINE;
}

void log_reading_bytes(struct log_reading *reading, const char *format, const void *bytes,
                       size_t length, const struct worsegpu_memory *memory)
{
    uint64_t stop_after = reading->stop_after;
    memset(reading, 0, sizeof(*reading));
    reading->stop_after = stop_after;
    reading->capacity = 1;
    reading->text = calloc(1, reading->capacity);
    assert_non_null(reading->text);
    const struct log_format *found = format ? log_format_find(format) : NULL;
    assert_true(!format || found);
    struct log_source *source;
    reading->status = log_source_open_bytes(bytes, length, memory, &source, &reading->problem);
    if (reading->status != LOG_FINE)
        return;
    struct log_sink sink = {.context = reading, .record = take_record};
    reading->status = log_read(source, found, memory, &sink, &reading->facts, &reading->problem);
    log_source_close(source);
}

void log_reading_text(struct log_reading *reading, const char *format, const char *text)
{
    reading->stop_after = 0;
    log_reading_bytes(reading, format, text, strlen(text), memory_system());
}

void log_reading_release(struct log_reading *reading)
{
    free(reading->text);
    reading->text = NULL;
}

void assert_log_records(const char *format, const char *text, const char *records)
{
    for (size_t i = 0; log_format_at(i); i++)
        assert_int_equal(log_format_at(i)->detect((const unsigned char *)text, strlen(text)),
                         strcmp(log_format_at(i)->name, format) == 0);
    struct log_reading reading;
    log_reading_text(&reading, NULL, text);
    if (reading.status != LOG_FINE)
        print_message("%s\n", reading.problem.text);
    assert_int_equal(reading.status, LOG_FINE);
    assert_string_equal(reading.facts.format, format);
    assert_string_equal(reading.text, records);
    log_reading_release(&reading);
}

void assert_log_bad(const char *format, const char *text, const char *sentence)
{
    struct log_reading reading;
    log_reading_text(&reading, format, text);
    assert_int_equal(reading.status, LOG_BAD);
    assert_string_equal(reading.problem.text, sentence);
    log_reading_release(&reading);
}

static void assert_has_place(const struct log_reading *reading)
{
    if (strncmp(reading->problem.text, "line ", 5) != 0 &&
        strncmp(reading->problem.text, "byte ", 5) != 0)
        print_message("no place: %s\n", reading->problem.text);
    assert_true(strncmp(reading->problem.text, "line ", 5) == 0 ||
                strncmp(reading->problem.text, "byte ", 5) == 0);
}

void assert_log_survives_cuts(const char *format, const void *bytes, size_t length, bool sorted)
{
    struct log_reading whole = {0};
    log_reading_bytes(&whole, format, bytes, length, memory_system());
    assert_int_equal(whole.status, LOG_FINE);
    char *piece = malloc(length + 1);
    assert_non_null(piece);
    for (size_t cut = 0; cut < length; cut++) {
        struct log_reading part = {0};
        /* A copy of its own, so that reading beyond it is seen by a sanitizer. */
        char *exact = malloc(cut + 1);
        assert_non_null(exact);
        memcpy(exact, bytes, cut);
        log_reading_bytes(&part, NULL, exact, cut, memory_system());
        if (part.status != LOG_FINE) {
            assert_int_equal(part.status, LOG_BAD);
            assert_has_place(&part);
        }
        assert_true(part.records <= whole.records);
        if (!sorted && part.status == LOG_FINE)
            assert_memory_equal(part.text, whole.text, part.length);
        log_reading_release(&part);
        free(exact);
    }
    for (size_t at = 0; at < length; at++) {
        static const char others[] = {0, '9', '"', '\n', ',', (char)0xff};
        memcpy(piece, bytes, length);
        piece[at] = others[at % sizeof(others)];
        struct log_reading changed = {0};
        log_reading_bytes(&changed, format, piece, length, memory_system());
        assert_true(changed.status == LOG_FINE || changed.status == LOG_BAD);
        if (changed.status == LOG_BAD)
            assert_has_place(&changed);
        log_reading_release(&changed);
    }
    free(piece);
    log_reading_release(&whole);
}

struct chaotic {
    const char *format;
    const char *text;
};

static bool read_in_chaos(struct chaos *chaos, void *context)
{
    const struct chaotic *chaotic = context;
    struct log_reading reading = {0};
    chaos_hook_cjson(chaos);
    log_reading_bytes(&reading, chaotic->format, chaotic->text, strlen(chaotic->text),
                      &chaos->memory);
    chaos_hook_cjson(NULL);
    assert_true(reading.status == LOG_FINE || reading.status == LOG_NO_MEMORY);
    bool fine = reading.status == LOG_FINE;
    log_reading_release(&reading);
    return fine;
}

void assert_log_survives_chaos(const char *format, const char *text)
{
    struct chaotic chaotic = {.format = format, .text = text};
    assert_true(chaos_loop(read_in_chaos, &chaotic) > 0);
}

char *shared_log(const char *name, size_t *length)
{
    const char *shared = getenv("WORSEGPU_SHARED");
    char path[4096];
    snprintf(path, sizeof(path), "%s/logs/%s", shared ? shared : "../shared", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        print_message("%s is not here: nothing to test\n", path);
        return NULL;
    }
    char *bytes = NULL;
    FILE *copy = open_memstream(&bytes, length);
    assert_non_null(copy);
    char piece[65536];
    for (size_t got; (got = fread(piece, 1, sizeof(piece), file)) > 0;)
        fwrite(piece, 1, got, copy);
    fclose(file);
    assert_int_equal(fclose(copy), 0);
    return bytes;
}
