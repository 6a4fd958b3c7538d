/* What an inspection found, as text and as JSON; see inspect.h. */
#include "lab/inspect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/bytes_text.h"
#include "console/table.h"

enum {
    COUNTED_SIZE = 64
};

static const char *const OPERATION_WORDS[LOG_OPERATIONS] = {
    [LOG_ALLOCATE] = "allocate",
    [LOG_FREE] = "free",
    [LOG_REFUSED] = "allocate_failed",
    [LOG_RECORD_STREAM] = "record_stream",
    [LOG_EVENT_DONE] = "event_done",
    [LOG_EMPTY_CACHE] = "empty_cache",
    [LOG_SEGMENT_ALLOCATE] = "segment_allocate",
    [LOG_SEGMENT_FREE] = "segment_free",
    [LOG_SEGMENT_MAP] = "segment_map",
    [LOG_SEGMENT_UNMAP] = "segment_unmap",
};

/* The least number of a bucket. */
static uint64_t bucket_start(size_t bucket)
{
    return bucket == 0 ? 0 : UINT64_C(1) << (bucket - 1);
}

/* ------------------------------------------------------------------------------ as text */

__attribute__((format(printf, 3, 4))) static void line(struct lab *lab, const char *title,
                                                       const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    output_text(&lab->output, "%-20s", title);
    output_foreign(&lab->output, text);
    output_text(&lab->output, "\n");
}

/* "32.0 MiB (33554432 bytes)" */
static const char *size_text(uint64_t bytes, char text[96])
{
    char human[BYTES_TEXT_SIZE];
    char exact[LAB_NUMBER_SIZE];
    bytes_to_text(bytes, false, human);
    snprintf(text, 96, "%s (%s bytes)", human, lab_number(bytes, exact));
    return text;
}

/* "1 free", "2,000 frees" */
static const char *counted(uint64_t count, const char *what, char text[COUNTED_SIZE])
{
    char number[LAB_NUMBER_SIZE];
    snprintf(text, COUNTED_SIZE, "%s %s%s", lab_number(count, number), what, count == 1 ? "" : "s");
    return text;
}

static void duration_text(uint64_t time_us, char text[40])
{
    if (time_us >= 1000000)
        snprintf(text, 40, "%.3f s", (double)time_us / 1e6);
    else if (time_us >= 1000)
        snprintf(text, 40, "%.3f ms", (double)time_us / 1e3);
    else
        snprintf(text, 40, "%" PRIu64 " us", time_us);
}

static void print_start(struct lab *lab, const struct events_facts *facts)
{
    char before[COUNTED_SIZE];
    char unknown[COUNTED_SIZE];
    counted(facts->before, "allocation", before);
    counted(facts->unknown_frees, "free", unknown);
    const char *verb = facts->unknown_frees == 1 ? "names" : "name";
    if (facts->before > 0 && facts->unknown_frees > 0)
        line(lab, "starts", "mid-run, with %s; %s %s others (left out)", before, unknown, verb);
    else if (facts->before > 0)
        line(lab, "starts", "mid-run, with %s", before);
    else if (facts->unknown_frees > 0)
        line(lab, "starts", "perhaps mid-run: %s %s what it never allocated (left out)", unknown,
             verb);
    else
        line(lab, "starts", "with nothing allocated");
}

static void print_summary(struct lab *lab, const struct inspect_findings *found)
{
    const struct events_facts *facts = found->facts;
    char one[COUNTED_SIZE];
    char two[LAB_NUMBER_SIZE];
    char size[96];
    char span[40];
    line(lab, "log", "%s", lab->line.operands[0]);
    line(lab, "format", "%s%s%s%s", facts->log.format, facts->log.version[0] != '\0' ? ", " : "",
         facts->log.version, facts->log.rounded ? "; sizes are those of blocks" : "");
    line(lab, "device", "%" PRIu32 "%s", facts->device,
         facts->devices > 1 ? ", the others are left out: see --device" : "");
    if (facts->devices > 1)
        line(lab, "devices", "%" PRIu32 " allocate something", facts->devices);
    if (facts->log.capacity_bytes > 0)
        line(lab, "capacity", "%s", size_text(facts->log.capacity_bytes, size));
    line(lab, "events", "%s", lab_number(facts->events, two));
    for (size_t i = 0; i < LOG_OPERATIONS; i++) {
        char title[40];
        snprintf(title, sizeof(title), "  %s", OPERATION_WORDS[i]);
        if (facts->count[i] > 0)
            line(lab, title, "%s", lab_number(facts->count[i], two));
    }
    duration_text(facts->span_us, span);
    line(lab, "span", "%s", facts->log.times ? span : "the log has no times");
    line(lab, "streams", "%s", lab_number(facts->streams, two));
    print_start(lab, facts);
    if (facts->unknown_uses > 0)
        line(lab, "unknown uses", "%s of what it never allocated (left out)",
             counted(facts->unknown_uses, "record_stream", one));
    if (facts->doubled > 0)
        line(lab, "doubled", "%s where one was live already, which is taken as freed",
             counted(facts->doubled, "allocation", one));
    if (facts->peak_id > 0)
        line(lab, "live peak",
             "%s in %s, at event %" PRIu64 ", allocation %" PRIu64 ", line or byte %" PRIu64,
             size_text(facts->peak_bytes, size), counted(found->peak_count, "allocation", one),
             found->peak_event, facts->peak_id, facts->peak_place);
    line(lab, "most at once", "%s", counted(facts->peak_live, "allocation", one));
    if (facts->live_at_end > 0)
        line(lab, "live at the end",
             "%s, %s; the largest has %s bytes: allocation %" PRIu64 ", line or byte %" PRIu64,
             counted(facts->live_at_end, "allocation", one), size_text(found->leaked_bytes, size),
             lab_number(found->largest_leak.bytes, two), found->largest_leak.id,
             found->largest_leak.place);
    else
        line(lab, "live at the end", "nothing");
    if (found->elsewhere > 0)
        line(lab, "freed elsewhere", "%s, on another stream than allocated",
             counted(found->elsewhere, "allocation", one));
    if (facts->count[LOG_REFUSED] > 0)
        line(lab, "refused", "%s, for %s in all",
             counted(facts->count[LOG_REFUSED], "request", one),
             size_text(found->refused_bytes, size));
    else
        line(lab, "refused", "no request");
}

static void share_text(uint64_t part, uint64_t all, char text[16])
{
    snprintf(text, 16, "%.1f%%", all > 0 ? 100.0 * (double)part / (double)all : 0.0);
}

static int print_sizes(struct lab *lab, const struct inspect_findings *found)
{
    static const struct table_column COLUMNS[] = {
        {"size from", true}, {"count", true}, {"share", true}, {"bytes", true}};
    struct table table;
    char text[LAB_NUMBER_SIZE];
    char share[16];
    table_init(&table, lab->memory, &lab->output, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (size_t i = 0; i < INSPECT_BUCKETS; i++) {
        if (found->size_count[i] == 0)
            continue;
        table_size(&table, bucket_start(i));
        table_text(&table, lab_number(found->size_count[i], text));
        share_text(found->size_count[i], found->facts->count[LOG_ALLOCATE], share);
        table_text(&table, share);
        table_size(&table, found->size_bytes[i]);
    }
    int status = table_end(&table);
    table_release(&table);
    return status == 0 ? LAB_FINE : lab_no_memory(lab);
}

static int print_lives(struct lab *lab, const struct inspect_findings *found, const char *title,
                       const uint64_t buckets[INSPECT_BUCKETS], bool time)
{
    const struct table_column columns[] = {{title, true}, {"count", true}, {"share", true}};
    struct table table;
    char text[LAB_NUMBER_SIZE];
    char from[40];
    char share[16];
    table_init(&table, lab->memory, &lab->output, columns, 3);
    for (size_t i = 0; i < INSPECT_BUCKETS; i++) {
        if (buckets[i] == 0)
            continue;
        if (time)
            duration_text(bucket_start(i), from);
        else
            lab_number(bucket_start(i), from);
        table_text(&table, from);
        table_text(&table, lab_number(buckets[i], text));
        share_text(buckets[i], found->freed, share);
        table_text(&table, share);
    }
    output_text(&lab->output, "\n");
    int status = table_end(&table);
    table_release(&table);
    return status == 0 ? LAB_FINE : lab_no_memory(lab);
}

int inspect_print_text(struct lab *lab, const struct inspect_findings *found)
{
    int status = LAB_FINE;
    print_summary(lab, found);
    if (found->facts->count[LOG_ALLOCATE] > 0) {
        output_text(&lab->output, "\n");
        status = print_sizes(lab, found);
    }
    if (status == LAB_FINE && found->freed > 0)
        status = print_lives(lab, found, "life in events from", found->event_life, false);
    if (status == LAB_FINE && found->freed > 0 && found->facts->log.times)
        status = print_lives(lab, found, "life in time from", found->time_life, true);
    return status;
}

/* ------------------------------------------------------------------------------ as JSON */

static void write_buckets(struct json_writer *writer, const char *name, const char *from,
                          const uint64_t counts[INSPECT_BUCKETS], const uint64_t *bytes)
{
    json_writer_key(writer, name);
    json_writer_begin_array(writer);
    for (size_t i = 0; i < INSPECT_BUCKETS; i++) {
        if (counts[i] == 0)
            continue;
        json_writer_begin_object(writer);
        json_writer_member_u64(writer, from, bucket_start(i));
        json_writer_member_u64(writer, "count", counts[i]);
        if (bytes)
            json_writer_member_u64(writer, "bytes", bytes[i]);
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
}

static void write_leaks(struct json_writer *writer, const struct inspect_findings *found)
{
    json_writer_key(writer, "live_at_end");
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "count", found->facts->live_at_end);
    json_writer_member_u64(writer, "bytes", found->leaked_bytes);
    if (found->largest_leak.id > 0) {
        json_writer_member_u64(writer, "largest_bytes", found->largest_leak.bytes);
        json_writer_member_u64(writer, "largest_allocation", found->largest_leak.id);
        json_writer_member_u64(writer, "largest_place", found->largest_leak.place);
    }
    json_writer_end_object(writer);
}

static void write_peak(struct json_writer *writer, const struct inspect_findings *found)
{
    const struct events_facts *facts = found->facts;
    json_writer_key(writer, "live_peak");
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "bytes", facts->peak_bytes);
    json_writer_member_u64(writer, "count", found->peak_count);
    json_writer_member_u64(writer, "event", found->peak_event);
    json_writer_member_u64(writer, "allocation", facts->peak_id);
    json_writer_member_u64(writer, "place", facts->peak_place);
    json_writer_end_object(writer);
}

int inspect_print_json(struct lab *lab, const struct inspect_findings *found)
{
    const struct events_facts *facts = found->facts;
    struct json_writer writer;
    lab_begin_json(lab, &writer);
    json_writer_begin_object(&writer);
    json_writer_member_text(&writer, "format", facts->log.format);
    lab_member_foreign(&writer, "version", facts->log.version);
    json_writer_member_bool(&writer, "sizes_of_blocks", facts->log.rounded);
    json_writer_member_u64(&writer, "device", facts->device);
    json_writer_member_u64(&writer, "devices", facts->devices);
    if (facts->log.capacity_bytes > 0)
        json_writer_member_u64(&writer, "capacity_bytes", facts->log.capacity_bytes);
    json_writer_member_u64(&writer, "events", facts->events);
    json_writer_key(&writer, "operations");
    json_writer_begin_object(&writer);
    for (size_t i = 0; i < LOG_OPERATIONS; i++)
        json_writer_member_u64(&writer, OPERATION_WORDS[i], facts->count[i]);
    json_writer_end_object(&writer);
    if (facts->log.times)
        json_writer_member_u64(&writer, "span_us", facts->span_us);
    else
        json_writer_member_null(&writer, "span_us");
    json_writer_member_u64(&writer, "streams", facts->streams);
    json_writer_member_bool(&writer, "starts_midway",
                            facts->before > 0 || facts->unknown_frees > 0);
    json_writer_member_u64(&writer, "there_before", facts->before);
    json_writer_member_u64(&writer, "unknown_frees", facts->unknown_frees);
    json_writer_member_u64(&writer, "unknown_uses", facts->unknown_uses);
    json_writer_member_u64(&writer, "doubled", facts->doubled);
    write_peak(&writer, found);
    json_writer_member_u64(&writer, "most_at_once", facts->peak_live);
    write_leaks(&writer, found);
    json_writer_member_u64(&writer, "freed_on_another_stream", found->elsewhere);
    json_writer_member_u64(&writer, "refused", facts->count[LOG_REFUSED]);
    json_writer_member_u64(&writer, "refused_bytes", found->refused_bytes);
    write_buckets(&writer, "sizes", "from_bytes", found->size_count, found->size_bytes);
    write_buckets(&writer, "life_in_events", "from_events", found->event_life, NULL);
    if (facts->log.times)
        write_buckets(&writer, "life_in_time", "from_us", found->time_life, NULL);
    json_writer_end_object(&writer);
    return lab_print_json(lab, &writer);
}
