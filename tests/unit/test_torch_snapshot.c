/* Torch snapshots as a log: every layout, starts in the middle of a run, damage. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lab/logs/log.h"
#include "lab/logs/torch_snapshot.h"
#include "lab/logs/torch_start.h"
#include "tests/support/chaos.h"
#include "tests/support/pickle_writer.h"

#define MIB (UINT64_C(1) << 20)

/* Records as text: a line each. */
struct told {
    char text[8192];
    size_t length;
    uint64_t count[LOG_OPERATIONS];
    uint64_t before;
    uint64_t stop_after; /* records, 0: never */
    uint64_t records;
    struct log_facts facts;
    struct log_problem problem;
};

static int tell(void *context, const struct log_record *record)
{
    static const char *const names[LOG_OPERATIONS] = {
        [LOG_ALLOCATE] = "allocate",    [LOG_FREE] = "free",
        [LOG_REFUSED] = "refused",      [LOG_SEGMENT_ALLOCATE] = "segment",
        [LOG_SEGMENT_FREE] = "release", [LOG_SEGMENT_MAP] = "map",
        [LOG_SEGMENT_UNMAP] = "unmap",
    };
    struct told *told = context;
    assert_true(record->place > 0);
    assert_non_null(names[record->operation]);
    assert_true(record->address == LOG_NO_ADDRESS || record->address == record->key);
    told->count[record->operation]++;
    told->before += record->before;
    if (told->length < sizeof(told->text))
        told->length += (size_t)snprintf(
            told->text + told->length, sizeof(told->text) - told->length,
            "%s%s device %" PRIu32 " key %" PRIu64 " bytes %" PRIu64 " stream %" PRIu64
            " at %" PRIu64 "\n",
            record->before ? "before: " : "", names[record->operation], record->device, record->key,
            record->bytes, record->stream, record->time_us);
    return ++told->records == told->stop_after ? LOG_STOPPED : LOG_FINE;
}

static int read_with(struct told *told, const void *bytes, size_t length,
                     const struct worsegpu_memory *memory)
{
    struct log_source *source;
    uint64_t stop_after = told->stop_after;
    memset(told, 0, sizeof(*told));
    told->stop_after = stop_after;
    int status = log_source_open_bytes(bytes, length, memory, &source, &told->problem);
    if (status != LOG_FINE)
        return status;
    const struct log_sink sink = {told, tell};
    status = log_read(source, NULL, memory, &sink, &told->facts, &told->problem);
    log_source_close(source);
    return status;
}

/* Reads and releases the pickle. */
static int read_pickle(struct told *told, struct pickle_writer *writer)
{
    told->stop_after = 0;
    int status = read_with(told, writer->bytes, writer->length, memory_system());
    pickle_release(writer);
    return status;
}

static void expect_bad(struct pickle_writer *writer, const char *sentence)
{
    struct told told;
    assert_int_equal(read_pickle(&told, writer), LOG_BAD);
    if (!strstr(told.problem.text, sentence) || memcmp(told.problem.text, "byte ", 5) != 0)
        fail_msg("expected \"%s\" in \"%s\"", sentence, told.problem.text);
}

/* A whole run: a segment of 20 MiB at 1000 MiB, two allocations, one of them freed. */
static void write_run(struct pickle_writer *writer, unsigned int protocol)
{
    snapshot_begin(writer, protocol);
    snapshot_segment(writer, 1000 * MIB, 20 * MIB, 0, 0);
    snapshot_block(writer, 1000 * MIB, 2 * MIB, 2 * MIB - 5, true);
    snapshot_block(writer, 1002 * MIB, 18 * MIB, 0, false);
    snapshot_segment_end(writer);
    snapshot_traces(writer);
    snapshot_event(writer, "segment_alloc", 1000 * MIB, 20 * MIB, 0, 5000);
    snapshot_event(writer, "alloc", 1000 * MIB, 2 * MIB - 5, 0, 5001);
    snapshot_event(writer, "alloc", 1002 * MIB, 3 * MIB, 0, 5010);
    snapshot_event(writer, "free_requested", 1002 * MIB, 3 * MIB, 0, 5020);
    snapshot_event(writer, "free_completed", 1002 * MIB, 3 * MIB, 0, 5021);
    snapshot_event(writer, "snapshot", 0, 123, 0, 5022);
    snapshot_end(writer);
}

static const char run_told[] = "segment device 0 key 1048576000 bytes 20971520 stream 0 at 0\n"
                               "allocate device 0 key 1048576000 bytes 2097147 stream 0 at 1\n"
                               "allocate device 0 key 1050673152 bytes 3145728 stream 0 at 10\n"
                               "free device 0 key 1050673152 bytes 0 stream 0 at 21\n";

static void test_a_run_is_told_from_protocol_2_to_5(void **state)
{
    (void)state;
    for (unsigned int protocol = 2; protocol <= 5; protocol++) {
        struct pickle_writer writer;
        struct told told;
        char version[32];
        write_run(&writer, protocol);
        assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
        assert_string_equal(told.text, run_told);
        assert_string_equal(told.facts.format, "torch-snapshot");
        snprintf(version, sizeof(version), "protocol %u", protocol);
        assert_string_equal(told.facts.version, version);
        assert_false(told.facts.rounded);
        assert_true(told.facts.times);
    }
}

static void test_the_order_of_keys_on_top_does_not_matter(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_dict(&writer);
    pickle_text(&writer, "device_traces");
    pickle_list(&writer);
    pickle_list(&writer);
    snapshot_event(&writer, "free_completed", 1000 * MIB, 2 * MIB, 0, 7);
    pickle_list_end(&writer);
    pickle_list_end(&writer);
    pickle_text(&writer, "segments");
    pickle_list(&writer);
    snapshot_segment(&writer, 1000 * MIB, 20 * MIB, 0, 0);
    snapshot_block(&writer, 1000 * MIB, 4 * MIB, 0, false);
    snapshot_block(&writer, 1004 * MIB, 16 * MIB, 15 * MIB + 1, true);
    snapshot_segment_end(&writer);
    pickle_list_end(&writer);
    pickle_dict_end(&writer);
    pickle_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    /* Freed in the trace: it was there. In use at the end, and never allocated: it was there. */
    assert_string_equal(told.text,
                        "before: allocate device 0 key 1048576000 bytes 2097152 stream 0 at 0\n"
                        "before: allocate device 0 key 1052770304 bytes 15728641 stream 0 at 0\n"
                        "free device 0 key 1048576000 bytes 0 stream 0 at 0\n");
}

static void test_an_address_used_again_in_the_trace_was_there_only_once(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    snapshot_begin(&writer, 4);
    snapshot_segment(&writer, 1000 * MIB, 20 * MIB, 0, 0);
    snapshot_block(&writer, 1000 * MIB, 20 * MIB, 20 * MIB, true);
    snapshot_segment_end(&writer);
    snapshot_traces(&writer);
    snapshot_event(&writer, "free_completed", 1000 * MIB, 19 * MIB, 0, 1);
    snapshot_event(&writer, "alloc", 1000 * MIB, 18 * MIB, 0, 2);
    snapshot_event(&writer, "free_completed", 1000 * MIB, 18 * MIB, 0, 3);
    snapshot_event(&writer, "alloc", 1000 * MIB, 20 * MIB, 0, 4);
    snapshot_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_string_equal(told.text,
                        "before: allocate device 0 key 1048576000 bytes 19922944 stream 0 at 0\n"
                        "free device 0 key 1048576000 bytes 0 stream 0 at 0\n"
                        "allocate device 0 key 1048576000 bytes 18874368 stream 0 at 1\n"
                        "free device 0 key 1048576000 bytes 0 stream 0 at 2\n"
                        "allocate device 0 key 1048576000 bytes 20971520 stream 0 at 3\n");
}

static void test_segments_that_were_there_are_found_as_well(void **state)
{
    struct pickle_writer writer;
    struct log_source *source;
    struct log_problem problem;
    struct torch_snapshot *snapshot;
    struct torch_start start;
    (void)state;
    snapshot_begin(&writer, 4);
    snapshot_segment(&writer, 3000 * MIB, 20 * MIB, 9, 0);
    snapshot_block(&writer, 3000 * MIB, 20 * MIB, 0, false);
    snapshot_segment_end(&writer);
    snapshot_segment(&writer, 2000 * MIB, 22 * MIB, 0, 0);
    snapshot_block(&writer, 2000 * MIB, 22 * MIB, 0, false);
    snapshot_segment_end(&writer);
    snapshot_traces(&writer);
    snapshot_event(&writer, "segment_free", 1000 * MIB, 2 * MIB, 0, 1);
    snapshot_event(&writer, "segment_alloc", 2000 * MIB, 22 * MIB, 0, 2);
    snapshot_end(&writer);
    assert_int_equal(
        log_source_open_bytes(writer.bytes, writer.length, memory_system(), &source, &problem),
        LOG_FINE);
    assert_int_equal(torch_snapshot_load(source, memory_system(), &snapshot, &problem), LOG_FINE);
    assert_int_equal(torch_start_find(snapshot, 0, memory_system(), &start, &problem), LOG_FINE);
    /* The one given back, and the one of the picture that the trace did not take. */
    assert_int_equal(start.segment_count, 2);
    assert_int_equal(start.segments[0].address, 1000 * MIB);
    assert_true(start.segments[0].small);
    assert_int_equal(start.segments[1].address, 3000 * MIB);
    assert_int_equal(start.segments[1].stream, 9);
    assert_false(start.segments[1].small);
    torch_start_release(&start);
    torch_snapshot_release(snapshot);
    log_source_close(source);
    pickle_release(&writer);
}

static void test_several_devices_come_one_after_the_other(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_dict(&writer);
    pickle_text(&writer, "segments");
    pickle_list(&writer);
    snapshot_segment(&writer, 1000 * MIB, 2 * MIB, 77, 2);
    snapshot_block(&writer, 1000 * MIB, 2 * MIB, 1000, true);
    snapshot_segment_end(&writer);
    pickle_list_end(&writer);
    pickle_text(&writer, "device_traces");
    pickle_list(&writer);
    pickle_list(&writer);
    snapshot_event(&writer, "alloc", 5 * MIB, 100, 4242, 1000);
    pickle_list_end(&writer);
    pickle_list(&writer); /* device 1 has no events */
    pickle_list_end(&writer);
    pickle_list(&writer);
    snapshot_event(&writer, "alloc", 6 * MIB, 200, 4242, 990);
    pickle_list_end(&writer);
    pickle_list_end(&writer);
    pickle_dict_end(&writer);
    pickle_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    /* Times count from the earliest event of all, streams in the order in which they are told. */
    assert_string_equal(told.text,
                        "allocate device 0 key 5242880 bytes 100 stream 1 at 10\n"
                        "before: allocate device 2 key 1048576000 bytes 1000 stream 2 at 0\n"
                        "allocate device 2 key 6291456 bytes 200 stream 1 at 0\n");
}

static void test_a_bare_list_of_segments_is_a_picture(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_list(&writer);
    snapshot_segment(&writer, 1000 * MIB, 2 * MIB, 0, 0);
    snapshot_block(&writer, 1000 * MIB, MIB, 999, true);
    snapshot_block(&writer, 1001 * MIB, MIB, 0, false);
    snapshot_segment_end(&writer);
    pickle_list_end(&writer);
    pickle_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_string_equal(told.text,
                        "before: allocate device 0 key 1048576000 bytes 999 stream 0 at 0\n");
    assert_false(told.facts.times);
}

/* PyTorch 2.0: blocks without addresses follow each other; what was asked for is in the history. */
static void test_the_old_layout_walks_along_the_sizes(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_dict(&writer);
    pickle_text(&writer, "segments");
    pickle_list(&writer);
    pickle_dict(&writer);
    snapshot_number(&writer, "address", 1000 * MIB);
    snapshot_number(&writer, "total_size", 2 * MIB);
    pickle_text(&writer, "blocks");
    pickle_list(&writer);
    for (unsigned int i = 0; i < 3; i++) {
        pickle_dict(&writer);
        snapshot_number(&writer, "size", i == 2 ? 2 * MIB - 4096 - 512 : i == 1 ? 4096 : 512);
        snapshot_word(&writer, "state", i == 1 ? "active_pending_free" : "active_allocated");
        if (i < 2) {
            pickle_text(&writer, "history");
            pickle_list(&writer);
            pickle_dict(&writer);
            snapshot_number(&writer, "addr", 1);
            snapshot_number(&writer, "real_size", i == 1 ? 4000 : 7);
            pickle_dict_end(&writer);
            pickle_list_end(&writer);
        }
        pickle_dict_end(&writer);
    }
    pickle_list_end(&writer);
    pickle_dict_end(&writer);
    pickle_list_end(&writer);
    pickle_dict_end(&writer);
    pickle_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_string_equal(told.text,
                        "before: allocate device 0 key 1048576000 bytes 7 stream 0 at 0\n"
                        "before: allocate device 0 key 1048576512 bytes 4000 stream 0 at 0\n"
                        "before: allocate device 0 key 1048580608 bytes 2092544 stream 0 at 0\n");
}

static void test_events_blocks_and_frames_may_be_shared_by_memo(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    snapshot_begin(&writer, 4);
    snapshot_traces(&writer);
    uint64_t alloc = snapshot_event(&writer, "alloc", 5 * MIB, 100, 0, 10);
    uint64_t freed = snapshot_event(&writer, "free_completed", 5 * MIB, 100, 0, 10);
    pickle_dict(&writer); /* frames by memo: a string, which nobody looks at */
    snapshot_word(&writer, "action", "alloc");
    snapshot_number(&writer, "addr", 6 * MIB);
    snapshot_number(&writer, "size", 50);
    pickle_text(&writer, "frames");
    pickle_get(&writer, alloc + 1);
    pickle_dict_end(&writer);
    pickle_get(&writer, alloc);
    pickle_get(&writer, freed);
    snapshot_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_string_equal(told.text, "allocate device 0 key 5242880 bytes 100 stream 0 at 0\n"
                                   "free device 0 key 5242880 bytes 0 stream 0 at 0\n"
                                   "allocate device 0 key 6291456 bytes 50 stream 0 at 0\n"
                                   "allocate device 0 key 5242880 bytes 100 stream 0 at 0\n"
                                   "free device 0 key 5242880 bytes 0 stream 0 at 0\n");
}

static void test_dicts_may_be_filled_pair_by_pair(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    pickle_begin(&writer, 2);
    pickle_op(&writer, '}');
    pickle_text(&writer, "device_traces");
    pickle_op(&writer, ']');
    pickle_op(&writer, ']');
    pickle_op(&writer, '}');
    uint64_t event = pickle_put(&writer);
    snapshot_number(&writer, "addr", 5 * MIB);
    pickle_op(&writer, 's');
    snapshot_number(&writer, "size", 100);
    pickle_op(&writer, 's');
    snapshot_word(&writer, "action", "alloc");
    pickle_op(&writer, 's');
    pickle_op(&writer, 'a');
    pickle_get(&writer, event);
    pickle_op(&writer, 'a');
    pickle_op(&writer, 'a');
    pickle_op(&writer, 's');
    pickle_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_string_equal(told.text, "allocate device 0 key 5242880 bytes 100 stream 0 at 0\n"
                                   "allocate device 0 key 5242880 bytes 100 stream 0 at 0\n");
}

static void test_requested_frees_count_where_no_free_is_completed(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    snapshot_begin(&writer, 4);
    snapshot_traces(&writer);
    snapshot_event(&writer, "alloc", 5 * MIB, 100, 0, 10);
    snapshot_event(&writer, "free_requested", 5 * MIB, 100, 0, 12);
    snapshot_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_int_equal(told.count[LOG_FREE], 1);
    /* Where one is, a block whose free is only requested is still in use. */
    snapshot_begin(&writer, 4);
    snapshot_traces(&writer);
    snapshot_event(&writer, "alloc", 5 * MIB, 100, 0, 10);
    snapshot_event(&writer, "alloc", 6 * MIB, 100, 0, 10);
    snapshot_event(&writer, "free_requested", 5 * MIB, 100, 0, 12);
    snapshot_event(&writer, "free_requested", 6 * MIB, 100, 0, 13);
    snapshot_event(&writer, "free_completed", 6 * MIB, 100, 0, 14);
    snapshot_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_int_equal(told.count[LOG_FREE], 1);
    assert_non_null(strstr(told.text, "free device 0 key 6291456 bytes 0 stream 0 at 4"));
}

static void test_refusals_pages_and_releases_are_told(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    snapshot_begin(&writer, 4);
    snapshot_traces(&writer);
    snapshot_event(&writer, "segment_map", 100 * MIB, 2 * MIB, 0, 1);
    snapshot_event(&writer, "segment_unmap", 100 * MIB, 2 * MIB, 0, 2);
    snapshot_event(&writer, "segment_alloc", 200 * MIB, 2 * MIB, 0, 3);
    snapshot_event(&writer, "segment_free", 200 * MIB, 2 * MIB, 0, 4);
    snapshot_event(&writer, "oom", 12345, 700 * MIB, 3, 5);
    snapshot_event(&writer, "something_new", 1, 1, 0, 6);
    snapshot_end(&writer);
    assert_int_equal(read_pickle(&told, &writer), LOG_FINE);
    assert_string_equal(told.text, "map device 0 key 104857600 bytes 2097152 stream 0 at 0\n"
                                   "unmap device 0 key 104857600 bytes 2097152 stream 0 at 1\n"
                                   "segment device 0 key 209715200 bytes 2097152 stream 0 at 2\n"
                                   "release device 0 key 209715200 bytes 2097152 stream 0 at 3\n"
                                   "refused device 0 key 0 bytes 734003200 stream 1 at 4\n");
}

/* More events than are kept in a piece of the packed store, in several runs. */
static void test_long_traces_keep_their_order(void **state)
{
    struct pickle_writer writer;
    struct told told;
    uint64_t index[500];
    (void)state;
    snapshot_begin(&writer, 4);
    snapshot_traces(&writer);
    for (uint64_t i = 0; i < 500; i++)
        index[i] = snapshot_event(&writer, "segment_alloc", i * 2 * MIB, i + 1, i * i, i * 1000);
    for (uint64_t i = 500; i > 0; i--)
        pickle_get(&writer, index[i - 1]);
    snapshot_end(&writer);
    struct log_source *source;
    struct torch_snapshot *snapshot;
    struct torch_walk walk;
    assert_int_equal(
        log_source_open_bytes(writer.bytes, writer.length, memory_system(), &source, &told.problem),
        LOG_FINE);
    assert_int_equal(torch_snapshot_load(source, memory_system(), &snapshot, &told.problem),
                     LOG_FINE);
    assert_int_equal(torch_snapshot_events(snapshot, 0), 1000);
    assert_int_equal(torch_walk_begin(snapshot, 0, &walk), 0);
    struct torch_event event;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t number = i < 500 ? i : 999 - i;
        assert_int_equal(torch_walk_next(&walk, &event, &told.problem), LOG_FINE);
        assert_int_equal(event.addr, number * 2 * MIB);
        assert_int_equal(event.size, number + 1);
        assert_int_equal(event.stream, number * number);
        assert_int_equal(event.time_us, number * 1000);
    }
    assert_int_equal(torch_walk_next(&walk, &event, &told.problem), LOG_STOPPED);
    torch_walk_end(&walk);
    torch_snapshot_release(snapshot);
    log_source_close(source);
    pickle_release(&writer);
}

static void test_the_settings_are_read(void **state)
{
    struct pickle_writer writer;
    struct log_source *source;
    struct log_problem problem;
    struct torch_snapshot *snapshot;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_dict(&writer);
    pickle_text(&writer, "segments");
    pickle_list(&writer);
    pickle_list_end(&writer);
    pickle_text(&writer, "allocator_settings");
    pickle_dict(&writer);
    snapshot_word(&writer, "PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64");
    snapshot_number(&writer, "max_split_size", 64 * MIB);
    pickle_text(&writer, "garbage_collection_threshold");
    pickle_bytes(&writer, "G\x3f\xe8\x00\x00\x00\x00\x00\x00", 9); /* 0.75 */
    pickle_text(&writer, "expandable_segments");
    pickle_op(&writer, 0x88);
    pickle_text(&writer, "roundup_power2_divisions");
    pickle_dict(&writer);
    snapshot_number(&writer, "1", 4);
    snapshot_number(&writer, "32768", 8);
    pickle_dict_end(&writer);
    pickle_dict_end(&writer);
    pickle_dict_end(&writer);
    pickle_end(&writer);
    assert_int_equal(
        log_source_open_bytes(writer.bytes, writer.length, memory_system(), &source, &problem),
        LOG_FINE);
    assert_int_equal(torch_snapshot_load(source, memory_system(), &snapshot, &problem), LOG_FINE);
    const struct torch_snapshot_settings *settings = torch_snapshot_settings(snapshot);
    assert_true(settings->known);
    assert_string_equal(settings->conf, "max_split_size_mb:64");
    assert_true(settings->has_max_split);
    assert_int_equal(settings->max_split_bytes, 64 * MIB);
    assert_true(settings->collection_threshold > 0.74 && settings->collection_threshold < 0.76);
    assert_true(settings->expandable);
    assert_int_equal(settings->divisions[0], 4);
    assert_int_equal(settings->divisions[1], 0);
    assert_int_equal(settings->divisions[15], 8);
    torch_snapshot_release(snapshot);
    log_source_close(source);
    pickle_release(&writer);
}

/* A snapshot with one event that is written by hand. */
static void one_event(struct pickle_writer *writer, const char *action, bool has_addr,
                      uint64_t addr, bool has_size, uint64_t size)
{
    snapshot_begin(writer, 4);
    snapshot_traces(writer);
    pickle_dict(writer);
    snapshot_word(writer, "action", action);
    if (has_addr)
        snapshot_number(writer, "addr", addr);
    if (has_size)
        snapshot_number(writer, "size", size);
    pickle_dict_end(writer);
    snapshot_end(writer);
}

static void test_events_that_cannot_be_are_refused(void **state)
{
    struct pickle_writer writer;
    (void)state;
    one_event(&writer, "alloc", false, 0, true, 5);
    expect_bad(&writer, "an event has no \"addr\"");
    one_event(&writer, "free_completed", true, 5, false, 0);
    expect_bad(&writer, "an event has no \"size\"");
    one_event(&writer, "alloc", true, 5, true, 0);
    expect_bad(&writer, "an event has no \"size\"");
    one_event(&writer, "alloc", true, UINT64_MAX - 4, true, 5);
    expect_bad(&writer, "which no device has");
    one_event(&writer, "segment_alloc", true, 0, true, UINT64_MAX);
    expect_bad(&writer, "which no device has");
}

static void one_segment(struct pickle_writer *writer, uint64_t address, uint64_t bytes,
                        uint64_t device, uint64_t block, uint64_t block_bytes)
{
    snapshot_begin(writer, 4);
    snapshot_segment(writer, address, bytes, 0, device);
    snapshot_block(writer, block, block_bytes, block_bytes, true);
    snapshot_segment_end(writer);
    snapshot_traces(writer);
    snapshot_end(writer);
}

static void test_pictures_that_cannot_be_are_refused(void **state)
{
    struct pickle_writer writer;
    (void)state;
    one_segment(&writer, MIB, MIB, 0, MIB - 1, 1);
    expect_bad(&writer, "lies outside of its segment");
    one_segment(&writer, MIB, MIB, 0, MIB, MIB + 1);
    expect_bad(&writer, "lies outside of its segment");
    one_segment(&writer, MIB, MIB, 0, UINT64_MAX - 1, 1);
    expect_bad(&writer, "lies outside of its segment");
    one_segment(&writer, MIB, MIB, 0, MIB, 0);
    expect_bad(&writer, "a block has no \"size\"");
    one_segment(&writer, UINT64_MAX, MIB, 0, MIB, 1);
    expect_bad(&writer, "which no device has");
    one_segment(&writer, MIB, MIB, UINT64_C(1) << 40, MIB, 1);
    expect_bad(&writer, "a segment has no \"device\" below 128");
    one_segment(&writer, MIB, MIB, 0, 0, 1);
    expect_bad(&writer, "lies outside of its segment");
}

static void test_what_is_no_snapshot_is_refused(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_op(&writer, 'N');
    pickle_end(&writer);
    expect_bad(&writer, "no torch snapshot");
    pickle_begin(&writer, 4);
    pickle_dict(&writer);
    snapshot_word(&writer, "weight", "bias");
    pickle_dict_end(&writer);
    pickle_end(&writer);
    expect_bad(&writer, "no torch snapshot");
    pickle_begin(&writer, 4);
    pickle_list(&writer);
    pickle_number(&writer, 1);
    pickle_list_end(&writer);
    pickle_end(&writer);
    expect_bad(&writer, "\"segments\" is not a list");
    /* An event where a segment should be, and a trace with a number in it. */
    pickle_begin(&writer, 4);
    pickle_list(&writer);
    snapshot_event(&writer, "alloc", 1, 1, 0, 0);
    pickle_list_end(&writer);
    pickle_end(&writer);
    expect_bad(&writer, "\"segments\" has something else in it");
    snapshot_begin(&writer, 4);
    snapshot_traces(&writer);
    snapshot_event(&writer, "alloc", 1, 1, 0, 0);
    pickle_number(&writer, 1);
    snapshot_end(&writer);
    expect_bad(&writer, "has 1 elements that are no events");
    /* Something that would run. */
    static const char hostile[] = "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.";
    told.stop_after = 0;
    assert_int_equal(read_with(&told, hostile, sizeof(hostile) - 1, memory_system()), LOG_BAD);
    assert_non_null(strstr(told.problem.text, "byte 15: the opcode STACK_GLOBAL is refused"));
}

static void test_a_snapshot_cut_off_at_any_byte_tells_nothing(void **state)
{
    (void)state;
    for (unsigned int protocol = 2; protocol <= 5; protocol++) {
        struct pickle_writer writer;
        struct told told;
        write_run(&writer, protocol);
        for (size_t length = 0; length < writer.length; length++) {
            told.stop_after = 0;
            assert_int_equal(read_with(&told, writer.bytes, length, memory_system()), LOG_BAD);
            assert_int_equal(told.records, 0);
            assert_true(strlen(told.problem.text) > 10);
        }
        pickle_release(&writer);
    }
}

/* Whatever a byte becomes, there is an answer, and it is a sentence or a log. */
static void test_a_snapshot_with_any_byte_changed_does_no_harm(void **state)
{
    struct pickle_writer writer;
    struct told told;
    (void)state;
    write_run(&writer, 4);
    for (size_t at = 0; at < writer.length; at++) {
        unsigned char before = writer.bytes[at];
        for (unsigned int bit = 0; bit < 8; bit++) {
            writer.bytes[at] = (unsigned char)(before ^ 1U << bit);
            told.stop_after = 0;
            int status = read_with(&told, writer.bytes, writer.length, memory_system());
            assert_true(status == LOG_FINE || status == LOG_BAD);
        }
        writer.bytes[at] = before;
    }
    pickle_release(&writer);
}

static void test_a_sink_that_wants_no_more_ends_the_reading(void **state)
{
    struct pickle_writer writer;
    struct told told = {.stop_after = 2};
    (void)state;
    write_run(&writer, 4);
    assert_int_equal(read_with(&told, writer.bytes, writer.length, memory_system()), LOG_STOPPED);
    assert_int_equal(told.records, 2);
    pickle_release(&writer);
}

static bool read_under_chaos(struct chaos *chaos, void *context)
{
    const struct pickle_writer *writer = context;
    struct told told = {.stop_after = 0};
    int status = read_with(&told, writer->bytes, writer->length, &chaos->memory);
    assert_true(status == LOG_FINE || status == LOG_NO_MEMORY);
    return status == LOG_FINE;
}

static void test_reading_ends_cleanly_when_memory_runs_out(void **state)
{
    struct pickle_writer writer;
    (void)state;
    snapshot_begin(&writer, 4);
    for (uint64_t i = 0; i < 20; i++) {
        snapshot_segment(&writer, (100 + i * 2) * MIB, 2 * MIB, i, 0);
        snapshot_block(&writer, (100 + i * 2) * MIB, MIB, MIB, true);
        snapshot_block(&writer, (101 + i * 2) * MIB, MIB, MIB, false);
        snapshot_segment_end(&writer);
    }
    snapshot_traces(&writer);
    uint64_t index = 0;
    for (uint64_t i = 0; i < 40; i++) {
        if (i % 3 == 2)
            pickle_get(&writer, index);
        else
            index = snapshot_event(&writer, i % 2 ? "free_completed" : "alloc", i * MIB, 77, i, i);
    }
    snapshot_event(&writer, "segment_free", 5000 * MIB, 2 * MIB, 0, 50);
    snapshot_end(&writer);
    assert_true(chaos_loop(read_under_chaos, &writer) > 20);
    pickle_release(&writer);
}

/* What Python's own pickle counts in the recorded files. */
static void test_recorded_snapshots_are_told_whole(void **state)
{
    static const struct {
        const char *name;
        uint64_t allocations, frees, segments, before;
    } files[] = {
        {"course-small", 36, 26, 9, 0},
        {"decomfl", 7946, 7549, 61, 0},
        {"course-forward-128", 681, 681, 0, 137},
        {"medium-128-inference", 1280, 1280, 0, 223},
        {"medium-512-training", 7591, 7370, 1, 664},
        {"course-magma", 1721, 1721, 0, 229},
        {"legacy-oom", 0, 0, 0, 460},
        {"segments-only", 0, 1, 0, 840},
        {"segments-only-2", 0, 0, 0, 2799},
    };
    const char *shared = getenv("WORSEGPU_SHARED");
    size_t read = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[4096];
        struct log_source *source;
        static struct told told;
        memset(&told, 0, sizeof(told));
        snprintf(path, sizeof(path), "%s/logs/torch/%s.pickle", shared ? shared : "../shared",
                 files[i].name);
        if (log_source_open(path, memory_system(), &source, &told.problem) != LOG_FINE)
            continue;
        read++;
        const struct log_sink sink = {&told, tell};
        assert_int_equal(log_read(source, NULL, memory_system(), &sink, &told.facts, &told.problem),
                         LOG_FINE);
        log_source_close(source);
        assert_int_equal(told.count[LOG_ALLOCATE] - told.before, files[i].allocations);
        assert_int_equal(told.before, files[i].before);
        assert_int_equal(told.count[LOG_FREE], files[i].frees);
        assert_int_equal(told.count[LOG_SEGMENT_ALLOCATE], files[i].segments);
    }
    if (read == 0) {
        print_message("no recorded snapshots in $WORSEGPU_SHARED/logs/torch: skipped\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_is_told_from_protocol_2_to_5),
        cmocka_unit_test(test_the_order_of_keys_on_top_does_not_matter),
        cmocka_unit_test(test_an_address_used_again_in_the_trace_was_there_only_once),
        cmocka_unit_test(test_segments_that_were_there_are_found_as_well),
        cmocka_unit_test(test_several_devices_come_one_after_the_other),
        cmocka_unit_test(test_a_bare_list_of_segments_is_a_picture),
        cmocka_unit_test(test_the_old_layout_walks_along_the_sizes),
        cmocka_unit_test(test_events_blocks_and_frames_may_be_shared_by_memo),
        cmocka_unit_test(test_dicts_may_be_filled_pair_by_pair),
        cmocka_unit_test(test_requested_frees_count_where_no_free_is_completed),
        cmocka_unit_test(test_refusals_pages_and_releases_are_told),
        cmocka_unit_test(test_long_traces_keep_their_order),
        cmocka_unit_test(test_the_settings_are_read),
        cmocka_unit_test(test_events_that_cannot_be_are_refused),
        cmocka_unit_test(test_pictures_that_cannot_be_are_refused),
        cmocka_unit_test(test_what_is_no_snapshot_is_refused),
        cmocka_unit_test(test_a_snapshot_cut_off_at_any_byte_tells_nothing),
        cmocka_unit_test(test_a_snapshot_with_any_byte_changed_does_no_harm),
        cmocka_unit_test(test_a_sink_that_wants_no_more_ends_the_reading),
        cmocka_unit_test(test_reading_ends_cleanly_when_memory_runs_out),
        cmocka_unit_test(test_recorded_snapshots_are_told_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
