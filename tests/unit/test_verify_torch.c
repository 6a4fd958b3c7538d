/* Checking torch snapshots against the model: snapshots whose right answers are worked out by hand
 * from the rules of golden-allocators/README.md, and the same with one thing wrong.
 *
 * Rules that are used here: up to 1 MiB comes from segments of 2 MiB, in steps of 512 bytes; above,
 * up to 10 MiB, from segments of 20 MiB; else the segment is the request rounded up to 2 MiB. A
 * rest of 1 MiB or less stays with a block of more than 1 MiB. Best fit, lowest address. When the
 * device is full, all segments without a used block go back. */
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
#include "lab/verify.h"
#include "tests/support/chaos.h"
#include "tests/support/pickle_writer.h"

#define MIB (UINT64_C(1) << 20)
#define KIB (UINT64_C(1) << 10)

static struct verify_result result;
static struct log_problem problem;

static int verify_with(const struct pickle_writer *writer, const struct worsegpu_memory *memory)
{
    struct log_source *source;
    int status = log_source_open_bytes(writer->bytes, writer->length, memory, &source, &problem);
    if (status != LOG_FINE)
        return status;
    status = verify_torch(source, memory, &result, &problem);
    log_source_close(source);
    return status;
}

static void verify(struct pickle_writer *writer)
{
    int status = verify_with(writer, memory_system());
    pickle_release(writer);
    if (status != LOG_FINE)
        fail_msg("%s", problem.text);
}

static void expect_count(const char *name, uint64_t equal, uint64_t all)
{
    for (size_t i = 0; i < result.count; i++) {
        if (strcmp(result.counts[i].name, name) != 0)
            continue;
        assert_int_equal(result.counts[i].equal, equal);
        assert_int_equal(result.counts[i].all, all);
        return;
    }
    assert_int_equal(all, 0);
}

static void expect_all_equal(uint64_t addresses, uint64_t segments, uint64_t releases)
{
    if (result.mismatches > 0)
        fail_msg("%s", result.mismatch);
    assert_string_equal(result.mismatch, "");
    expect_count("addresses", addresses, addresses);
    expect_count("segments", segments, segments);
    expect_count("releases", releases, releases);
}

static void expect_mismatch(const char *text)
{
    assert_true(result.mismatches > 0);
    if (!strstr(result.mismatch, text))
        fail_msg("expected \"%s\" in \"%s\"", text, result.mismatch);
}

static void event(struct pickle_writer *writer, const char *action, uint64_t address,
                  uint64_t bytes)
{
    snapshot_event(writer, action, address, bytes, 0, 1);
}

static void take(struct pickle_writer *writer, uint64_t address, uint64_t bytes)
{
    event(writer, "alloc", address, bytes);
}

static void give(struct pickle_writer *writer, uint64_t address, uint64_t bytes)
{
    event(writer, "free_requested", address, bytes);
    event(writer, "free_completed", address, bytes);
}

static void begin(struct pickle_writer *writer)
{
    snapshot_begin(writer, 4);
    snapshot_traces(writer);
}

/* A segment of the start that is free as a whole at the end. */
static void free_segment(struct pickle_writer *writer, uint64_t address, uint64_t bytes)
{
    snapshot_segment(writer, address, bytes, 0, 0);
    snapshot_block(writer, address, bytes, 0, false);
    snapshot_segment_end(writer);
}

/* ------------------------------------------------------------------------------ whole runs */

static void test_a_small_run_is_repeated(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer);
    event(&writer, "segment_alloc", 10 * MIB, 2 * MIB);
    take(&writer, 10 * MIB, 1000);       /* 1024 bytes */
    take(&writer, 10 * MIB + 1024, 1);   /* 512 */
    take(&writer, 10 * MIB + 1536, 512); /* 512 */
    give(&writer, 10 * MIB + 1024, 1);
    give(&writer, 10 * MIB, 1000);        /* one free block of 1536 */
    take(&writer, 10 * MIB + 2048, 1537); /* 2048: it does not fit in there */
    take(&writer, 10 * MIB, 1025);        /* 1536: it does */
    event(&writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(&writer, 100 * MIB, 3 * MIB);
    take(&writer, 103 * MIB, 9 * MIB); /* 8 MiB left */
    event(&writer, "segment_alloc", 50 * MIB, 12 * MIB);
    take(&writer, 50 * MIB, 11 * MIB); /* 1 MiB stays with it */
    give(&writer, 50 * MIB, 11 * MIB);
    take(&writer, 50 * MIB, 12 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(9, 3, 0);
    assert_string_equal(result.model, "torch");
}

static void test_a_wrong_address_is_explained(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer);
    event(&writer, "segment_alloc", 10 * MIB, 2 * MIB);
    take(&writer, 10 * MIB, 1000);
    take(&writer, 10 * MIB + 512, 1000); /* not there: the first one has 1024 bytes */
    snapshot_end(&writer);
    verify(&writer);
    expect_count("addresses", 1, 2);
    assert_int_equal(result.mismatches, 1);
    expect_mismatch("device 0, event 3 (byte ");
    expect_mismatch("alloc of 1000 bytes, stream 0): expected 10486272, got 10486784");
    expect_mismatch("free: 2095104 bytes at 10487808");
}

static void test_a_segment_of_the_wrong_size_is_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer);
    event(&writer, "segment_alloc", 100 * MIB, 22 * MIB);
    take(&writer, 100 * MIB, 9 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_count("segments", 0, 1);
    expect_count("addresses", 1, 1);
    expect_mismatch("event 1: expected a segment of 23068672 bytes, got one of 20971520");
}

static void test_a_segment_that_is_not_needed_is_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer);
    event(&writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(&writer, 100 * MIB, 5 * MIB);
    event(&writer, "segment_alloc", 200 * MIB, 20 * MIB);
    take(&writer, 200 * MIB, 5 * MIB); /* it would go beside the first one */
    snapshot_end(&writer);
    verify(&writer);
    expect_count("segments", 1, 2);
    expect_count("addresses", 1, 2);
    expect_mismatch("expected 209715200, got 110100480");
}

static void test_a_segment_that_the_record_does_without_is_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer);
    take(&writer, 100 * MIB, 5 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_count("addresses", 0, 1);
    expect_mismatch("expected no new segment, got one of 20971520 bytes");
}

static void test_a_block_serves_its_own_stream_alone(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer);
    snapshot_event(&writer, "segment_alloc", 100 * MIB, 20 * MIB, 0, 1);
    snapshot_event(&writer, "alloc", 100 * MIB, 5 * MIB, 0, 1);
    snapshot_event(&writer, "segment_alloc", 200 * MIB, 20 * MIB, 7777, 1);
    snapshot_event(&writer, "alloc", 200 * MIB, 5 * MIB, 7777, 1);
    snapshot_event(&writer, "alloc", 105 * MIB, 5 * MIB, 0, 1);
    snapshot_event(&writer, "alloc", 205 * MIB, 5 * MIB, 7777, 1);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(4, 2, 0);
}

static void test_each_device_is_a_run_of_its_own(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer);
    event(&writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(&writer, 100 * MIB, 5 * MIB);
    pickle_list_end(&writer);
    pickle_list(&writer);
    event(&writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(&writer, 100 * MIB, 6 * MIB);
    take(&writer, 106 * MIB, 5 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(3, 2, 0);
}

/* ------------------------------------------------------------------------------ a full device */

/* 20 MiB at 100 and 30 MiB at 200 are free; 2 MiB at 10 has a used block; 40 MiB are wanted. */
static void write_full(struct pickle_writer *writer)
{
    begin(writer);
    event(writer, "segment_alloc", 10 * MIB, 2 * MIB);
    take(writer, 10 * MIB, 100);
    event(writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(writer, 100 * MIB, 5 * MIB);
    event(writer, "segment_alloc", 200 * MIB, 30 * MIB);
    take(writer, 200 * MIB, 30 * MIB);
    give(writer, 100 * MIB, 5 * MIB);
    give(writer, 200 * MIB, 30 * MIB);
}

static void test_the_model_flushes_and_tries_again_as_recorded(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB); /* in whatever order */
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_alloc", 300 * MIB, 40 * MIB);
    take(&writer, 300 * MIB, 40 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(4, 4, 2);
}

static void test_a_release_too_few_is_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB);
    event(&writer, "segment_alloc", 300 * MIB, 40 * MIB);
    take(&writer, 300 * MIB, 40 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_count("releases", 1, 1);
    expect_count("addresses", 4, 4);
    expect_mismatch("the model gave back 20971520 bytes at 104857600, which the record keeps");
}

static void test_a_release_of_a_segment_in_use_is_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 10 * MIB, 2 * MIB);
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB);
    event(&writer, "segment_alloc", 300 * MIB, 40 * MIB);
    take(&writer, 300 * MIB, 40 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_count("releases", 2, 3);
    expect_count("segments", 4, 4);
    expect_count("addresses", 4, 4);
    expect_mismatch("(a release of 2097152 bytes at 10485760): expected, but the model has nothing "
                    "there to give back");
}

static void test_a_release_of_the_wrong_size_is_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_free", 200 * MIB, 32 * MIB);
    event(&writer, "segment_alloc", 300 * MIB, 40 * MIB);
    take(&writer, 300 * MIB, 40 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_count("releases", 1, 2);
    expect_count("addresses", 4, 4);
    expect_mismatch("the model gave back 31457280 bytes at 209715200, which the record keeps");
}

static void test_a_refusal_after_a_flush_is_repeated(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB);
    event(&writer, "oom", 12345, 40 * MIB);
    event(&writer, "oom", 12345, 40 * MIB); /* there is nothing more to give back */
    take(&writer, 10 * MIB + 512, 100);     /* small ones still fit */
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(4, 3, 2);
    expect_count("refusals", 2, 2);
}

static void test_a_refusal_of_what_fits_is_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "oom", 0, 20 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_count("refusals", 0, 1);
    expect_mismatch("expected a refusal, got 104857600");
}

/* ------------------------------------------------------------------------------ empty_cache */

static void test_releases_without_an_allocation_behind_empty_the_cache(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB);
    give(&writer, 10 * MIB, 100);
    take(&writer, 10 * MIB, 200);
    give(&writer, 10 * MIB, 200);
    event(&writer, "segment_free", 10 * MIB, 2 * MIB); /* and at the end of the trace */
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(4, 3, 3);
}

static void test_releases_before_an_allocation_from_the_cache_empty_it(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB);
    take(&writer, 10 * MIB + 512, 300); /* beside the used one */
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(4, 3, 2);
}

/* The cached 20 MiB would have served: so they went before, and not because the device was full. */
static void test_an_emptied_cache_does_not_serve_the_allocation_behind(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB);
    event(&writer, "segment_alloc", 400 * MIB, 20 * MIB);
    take(&writer, 400 * MIB, 5 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(4, 4, 2);
}

/* ------------------------------------------------------------------------------ mid-run starts */

/* A block of 4 MiB at 100 has half a MiB more, which was not cut off: what is allocated meanwhile
 * begins behind it. Without the look ahead the model would say 104 MiB. */
static void test_a_block_freed_later_is_as_long_as_what_follows_tells(void **state)
{
    struct pickle_writer writer;
    (void)state;
    snapshot_begin(&writer, 4);
    free_segment(&writer, 100 * MIB, 20 * MIB);
    snapshot_traces(&writer);
    take(&writer, 104 * MIB + 512 * KIB, 3 * MIB);
    give(&writer, 100 * MIB, 4 * MIB);
    take(&writer, 100 * MIB, 4 * MIB + 512 * KIB);
    give(&writer, 100 * MIB, 4 * MIB + 512 * KIB);
    give(&writer, 104 * MIB + 512 * KIB, 3 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(2, 0, 0);
}

/* Once it is free, what is allocated there says nothing about it: 4 MiB were free behind it. */
static void test_what_is_allocated_after_its_free_tells_nothing(void **state)
{
    struct pickle_writer writer;
    (void)state;
    snapshot_begin(&writer, 4);
    free_segment(&writer, 100 * MIB, 20 * MIB);
    snapshot_traces(&writer);
    take(&writer, 104 * MIB, 16 * MIB); /* right behind it */
    give(&writer, 100 * MIB, 4 * MIB);
    give(&writer, 104 * MIB, 16 * MIB);
    take(&writer, 100 * MIB, 4 * MIB + 512 * KIB);
    take(&writer, 104 * MIB + 512 * KIB, 3 * MIB);
    give(&writer, 100 * MIB, 4 * MIB + 512 * KIB);
    give(&writer, 104 * MIB + 512 * KIB, 3 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(3, 0, 0);
}

/* Blocks of the picture that the trace does not touch are as long as the picture says, and a gap
 * of up to 1 MiB belongs to the block before it: there the only free place is 6 MiB at 114. */
static void test_the_picture_and_the_gaps_tell_what_is_free(void **state)
{
    struct pickle_writer writer;
    (void)state;
    snapshot_begin(&writer, 4);
    snapshot_segment(&writer, 100 * MIB, 20 * MIB, 0, 0);
    snapshot_block(&writer, 100 * MIB, 5 * MIB, 0, false);
    snapshot_block(&writer, 105 * MIB, 9 * MIB, 8 * MIB + 5, true);
    snapshot_block(&writer, 114 * MIB, 6 * MIB, 6 * MIB, true);
    snapshot_segment_end(&writer);
    snapshot_traces(&writer);
    take(&writer, 114 * MIB, 6 * MIB);
    give(&writer, 100 * MIB, 4 * MIB + 1);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(1, 0, 0);
}

static void test_segments_released_in_the_trace_are_there_at_its_start(void **state)
{
    struct pickle_writer writer;
    (void)state;
    snapshot_begin(&writer, 4);
    free_segment(&writer, 300 * MIB, 40 * MIB);
    snapshot_traces(&writer);
    take(&writer, 10 * MIB, 2 * MIB); /* from the middle of nowhere: a segment of the start */
    give(&writer, 10 * MIB, 2 * MIB);
    event(&writer, "segment_free", 10 * MIB, 20 * MIB);
    event(&writer, "segment_alloc", 300 * MIB, 40 * MIB);
    take(&writer, 300 * MIB, 40 * MIB);
    give(&writer, 300 * MIB, 40 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_all_equal(2, 1, 1);
}

static void expect_bad(struct pickle_writer *writer, const char *sentence)
{
    assert_int_equal(verify_with(writer, memory_system()), LOG_BAD);
    pickle_release(writer);
    if (!strstr(problem.text, sentence))
        fail_msg("expected \"%s\" in \"%s\"", sentence, problem.text);
}

static void test_a_start_that_cannot_be_is_refused(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin(&writer); /* no picture tells in which segment it was */
    give(&writer, 100 * MIB, 4 * MIB);
    event(&writer, "segment_alloc", 10 * MIB, 2 * MIB);
    take(&writer, 10 * MIB, 1);
    snapshot_end(&writer);
    expect_bad(&writer, "a block that lies in no known segment at 104857600");
    snapshot_begin(&writer, 4);
    free_segment(&writer, 100 * MIB, 20 * MIB);
    free_segment(&writer, 110 * MIB, 20 * MIB);
    snapshot_traces(&writer);
    take(&writer, 100 * MIB, 4 * MIB);
    snapshot_end(&writer);
    expect_bad(&writer, "two segments lie on each other");
    snapshot_begin(&writer, 4);
    free_segment(&writer, 100 * MIB, 20 * MIB);
    snapshot_traces(&writer);
    give(&writer, 100 * MIB, 21 * MIB);
    take(&writer, 100 * MIB, 4 * MIB);
    snapshot_end(&writer);
    expect_bad(&writer, "a block that has no room where it should be");
}

/* ------------------------------------------------------------------------------ settings */

/* The dict on top up to the first event, with settings. */
static void begin_with(struct pickle_writer *writer, const char *conf, uint64_t max_split,
                       bool expandable, uint64_t divisions)
{
    pickle_begin(writer, 4);
    pickle_dict(writer);
    pickle_text(writer, "allocator_settings");
    pickle_dict(writer);
    snapshot_word(writer, "PYTORCH_CUDA_ALLOC_CONF", conf);
    pickle_text(writer, "max_split_size");
    if (max_split > 0)
        pickle_number(writer, max_split);
    else
        pickle_bytes(writer, "J\xff\xff\xff\xff", 5); /* -1 */
    pickle_text(writer, "expandable_segments");
    pickle_op(writer, expandable ? 0x88 : 0x89);
    pickle_text(writer, "roundup_power2_divisions");
    pickle_dict(writer);
    for (unsigned int i = 0; i < 16; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", 1U << i);
        snapshot_number(writer, name, divisions);
    }
    pickle_dict_end(writer);
    pickle_dict_end(writer);
    pickle_text(writer, "device_traces");
    pickle_list(writer);
    pickle_list(writer);
}

/* 80 MiB are too much for 45 and are not split; the device is full; they alone go back, since they
 * are enough; the 40 MiB stay and serve the next one. */
static void test_with_a_largest_size_to_split_one_segment_goes_back(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin_with(&writer, "max_split_size_mb:32", 32 * MIB, false, 0);
    event(&writer, "segment_alloc", 100 * MIB, 40 * MIB);
    take(&writer, 100 * MIB, 40 * MIB);
    event(&writer, "segment_alloc", 200 * MIB, 80 * MIB);
    take(&writer, 200 * MIB, 80 * MIB);
    give(&writer, 100 * MIB, 40 * MIB);
    give(&writer, 200 * MIB, 80 * MIB);
    event(&writer, "segment_free", 200 * MIB, 80 * MIB);
    event(&writer, "segment_alloc", 300 * MIB, 46 * MIB);
    take(&writer, 300 * MIB, 45 * MIB);
    take(&writer, 100 * MIB, 40 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    assert_string_equal(result.model, "torch alloc_conf=max_split_size_mb:32");
    expect_all_equal(4, 3, 1);
}

/* 5 MiB and a byte, in quarters of 4 MiB: 6 MiB. */
static void test_divisions_round_as_recorded(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin_with(&writer, "roundup_power2_divisions:4", 0, false, 4);
    event(&writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(&writer, 100 * MIB, 5 * MIB + 1);
    take(&writer, 106 * MIB, 5 * MIB + 1);
    snapshot_end(&writer);
    verify(&writer);
    assert_string_equal(result.model, "torch alloc_conf=roundup_power2_divisions:4");
    expect_all_equal(2, 1, 0);
}

/* Pages of 2 MiB for small ones and of 20 MiB for large ones. The free 17 MiB at 5003 grow by a
 * page for the 18 MiB that are wanted; and all pages without a used block go when it is emptied. */
static void test_expandable_segments_grow_as_recorded(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin_with(&writer, "expandable_segments:True", 0, true, 0);
    event(&writer, "segment_map", 1000 * MIB, 2 * MIB);
    take(&writer, 1000 * MIB, 1000);
    event(&writer, "segment_map", 5000 * MIB, 20 * MIB);
    take(&writer, 5000 * MIB, 3 * MIB);
    event(&writer, "segment_map", 5020 * MIB, 20 * MIB);
    take(&writer, 5003 * MIB, 18 * MIB);
    give(&writer, 5003 * MIB, 18 * MIB);
    event(&writer, "segment_unmap", 5020 * MIB, 20 * MIB);
    give(&writer, 1000 * MIB, 1000);
    snapshot_end(&writer);
    verify(&writer);
    assert_string_equal(result.model, "torch alloc_conf=expandable_segments:True");
    expect_all_equal(3, 0, 0);
    expect_count("mappings", 3, 3);
    expect_count("unmappings", 1, 1);
}

static void test_pages_elsewhere_are_found(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin_with(&writer, "expandable_segments:True", 0, true, 0);
    event(&writer, "segment_map", 5000 * MIB, 20 * MIB);
    take(&writer, 5000 * MIB, 3 * MIB);
    event(&writer, "segment_map", 5040 * MIB, 20 * MIB);
    take(&writer, 5003 * MIB, 18 * MIB);
    snapshot_end(&writer);
    verify(&writer);
    expect_count("mappings", 1, 2);
    expect_mismatch("expected 20971520 bytes mapped at 5284823040, got 20971520 bytes at "
                    "5263851520");
}

static void test_settings_that_torch_does_not_know_are_an_error(void **state)
{
    struct pickle_writer writer;
    (void)state;
    begin_with(&writer, "", 3 * MIB, false, 0);
    event(&writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(&writer, 100 * MIB, 5 * MIB);
    snapshot_end(&writer);
    expect_bad(&writer, "the recorded settings are no settings of torch");
}

/* ------------------------------------------------------------------------------ pictures */

static void test_a_picture_must_cover_its_segments(void **state)
{
    struct pickle_writer writer;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_list(&writer);
    free_segment(&writer, 100 * MIB, 20 * MIB);
    snapshot_segment(&writer, 200 * MIB, 20 * MIB, 0, 0);
    snapshot_block(&writer, 200 * MIB, 5 * MIB, 5 * MIB, true);
    snapshot_block(&writer, 206 * MIB, 14 * MIB, 5 * MIB, true);
    snapshot_segment_end(&writer);
    pickle_list_end(&writer);
    pickle_end(&writer);
    verify(&writer);
    expect_count("pictured segments", 1, 2);
    assert_int_equal(result.mismatches, 1);
    expect_mismatch("the blocks of the segment at 209715200 do not cover it");
}

/* ------------------------------------------------------------------------------ damage */

static void test_a_snapshot_cut_off_at_any_byte_is_refused(void **state)
{
    struct pickle_writer writer;
    (void)state;
    write_full(&writer);
    snapshot_end(&writer);
    size_t length = writer.length;
    for (writer.length = 0; writer.length < length; writer.length++)
        assert_int_equal(verify_with(&writer, memory_system()), LOG_BAD);
    pickle_release(&writer);
}

static void test_a_snapshot_with_any_byte_changed_does_no_harm(void **state)
{
    struct pickle_writer writer;
    (void)state;
    snapshot_begin(&writer, 4);
    free_segment(&writer, 100 * MIB, 20 * MIB);
    snapshot_traces(&writer);
    take(&writer, 104 * MIB + 512 * KIB, 3 * MIB);
    give(&writer, 100 * MIB, 4 * MIB);
    event(&writer, "segment_free", 500 * MIB, 2 * MIB);
    event(&writer, "segment_alloc", 600 * MIB, 30 * MIB);
    take(&writer, 600 * MIB, 30 * MIB);
    event(&writer, "oom", 0, 30 * MIB);
    snapshot_end(&writer);
    for (size_t at = 0; at < writer.length; at++) {
        unsigned char before = writer.bytes[at];
        for (unsigned int bit = 0; bit < 8; bit++) {
            writer.bytes[at] = (unsigned char)(before ^ 1U << bit);
            int status = verify_with(&writer, memory_system());
            assert_true(status == LOG_FINE || status == LOG_BAD);
        }
        writer.bytes[at] = before;
    }
    pickle_release(&writer);
}

static bool verify_under_chaos(struct chaos *chaos, void *context)
{
    int status = verify_with(context, &chaos->memory);
    assert_true(status == LOG_FINE || status == LOG_NO_MEMORY);
    if (status == LOG_FINE)
        expect_all_equal(6, 4, 2);
    return status == LOG_FINE;
}

static void test_checking_ends_cleanly_when_memory_runs_out(void **state)
{
    struct pickle_writer writer;
    (void)state;
    snapshot_begin(&writer, 4);
    free_segment(&writer, 500 * MIB, 20 * MIB);
    snapshot_segment(&writer, 700 * MIB, 20 * MIB, 0, 0);
    snapshot_block(&writer, 700 * MIB, 4 * MIB, 4 * MIB, true);
    snapshot_block(&writer, 704 * MIB, 16 * MIB, 16 * MIB, true);
    snapshot_segment_end(&writer);
    pickle_list_end(&writer);
    pickle_text(&writer, "device_traces");
    pickle_list(&writer);
    pickle_list(&writer);
    take(&writer, 500 * MIB, 9 * MIB);
    take(&writer, 509 * MIB, 11 * MIB);
    event(&writer, "segment_alloc", 10 * MIB, 2 * MIB);
    take(&writer, 10 * MIB, 100);
    event(&writer, "segment_alloc", 100 * MIB, 20 * MIB);
    take(&writer, 100 * MIB, 5 * MIB);
    event(&writer, "segment_alloc", 200 * MIB, 30 * MIB);
    take(&writer, 200 * MIB, 30 * MIB);
    give(&writer, 100 * MIB, 5 * MIB);
    give(&writer, 200 * MIB, 30 * MIB);
    give(&writer, 500 * MIB, 9 * MIB);
    event(&writer, "segment_free", 200 * MIB, 30 * MIB);
    event(&writer, "segment_free", 100 * MIB, 20 * MIB);
    event(&writer, "segment_alloc", 300 * MIB, 40 * MIB);
    take(&writer, 300 * MIB, 40 * MIB);
    snapshot_end(&writer);
    assert_true(chaos_loop(verify_under_chaos, &writer) > 20);
    pickle_release(&writer);
}

/* ------------------------------------------------------------------------------ recorded runs */

static void test_recorded_runs_are_repeated_address_by_address(void **state)
{
    static const struct {
        const char *name;
        uint64_t addresses;
        uint64_t segments;
    } files[] = {
        {"course-small", 36, 9},          {"decomfl", 7946, 61},
        {"course-forward-128", 681, 0},   {"medium-128-inference", 1280, 0},
        {"medium-512-training", 7591, 1}, {"course-magma", 1721, 0},
    };
    const char *shared = getenv("WORSEGPU_SHARED");
    size_t read = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[4096];
        struct log_source *source;
        snprintf(path, sizeof(path), "%s/logs/torch/%s.pickle", shared ? shared : "../shared",
                 files[i].name);
        if (log_source_open(path, memory_system(), &source, &problem) != LOG_FINE)
            continue;
        read++;
        int status = verify_torch(source, memory_system(), &result, &problem);
        log_source_close(source);
        if (status != LOG_FINE)
            fail_msg("%s: %s", files[i].name, problem.text);
        expect_all_equal(files[i].addresses, files[i].segments, 0);
    }
    if (read == 0) {
        print_message("no recorded snapshots in $WORSEGPU_SHARED/logs/torch: skipped\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_small_run_is_repeated),
        cmocka_unit_test(test_a_wrong_address_is_explained),
        cmocka_unit_test(test_a_segment_of_the_wrong_size_is_found),
        cmocka_unit_test(test_a_segment_that_is_not_needed_is_found),
        cmocka_unit_test(test_a_segment_that_the_record_does_without_is_found),
        cmocka_unit_test(test_a_block_serves_its_own_stream_alone),
        cmocka_unit_test(test_each_device_is_a_run_of_its_own),
        cmocka_unit_test(test_the_model_flushes_and_tries_again_as_recorded),
        cmocka_unit_test(test_a_release_too_few_is_found),
        cmocka_unit_test(test_a_release_of_a_segment_in_use_is_found),
        cmocka_unit_test(test_a_release_of_the_wrong_size_is_found),
        cmocka_unit_test(test_a_refusal_after_a_flush_is_repeated),
        cmocka_unit_test(test_a_refusal_of_what_fits_is_found),
        cmocka_unit_test(test_releases_without_an_allocation_behind_empty_the_cache),
        cmocka_unit_test(test_releases_before_an_allocation_from_the_cache_empty_it),
        cmocka_unit_test(test_an_emptied_cache_does_not_serve_the_allocation_behind),
        cmocka_unit_test(test_a_block_freed_later_is_as_long_as_what_follows_tells),
        cmocka_unit_test(test_what_is_allocated_after_its_free_tells_nothing),
        cmocka_unit_test(test_the_picture_and_the_gaps_tell_what_is_free),
        cmocka_unit_test(test_segments_released_in_the_trace_are_there_at_its_start),
        cmocka_unit_test(test_a_start_that_cannot_be_is_refused),
        cmocka_unit_test(test_with_a_largest_size_to_split_one_segment_goes_back),
        cmocka_unit_test(test_divisions_round_as_recorded),
        cmocka_unit_test(test_expandable_segments_grow_as_recorded),
        cmocka_unit_test(test_pages_elsewhere_are_found),
        cmocka_unit_test(test_settings_that_torch_does_not_know_are_an_error),
        cmocka_unit_test(test_a_picture_must_cover_its_segments),
        cmocka_unit_test(test_a_snapshot_cut_off_at_any_byte_is_refused),
        cmocka_unit_test(test_a_snapshot_with_any_byte_changed_does_no_harm),
        cmocka_unit_test(test_checking_ends_cleanly_when_memory_runs_out),
        cmocka_unit_test(test_recorded_runs_are_repeated_address_by_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
