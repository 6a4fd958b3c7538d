/* Bytes -> lines, held against a splitter that sees the whole stream at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proto/framing.h"
#include "tests/support/chaos.h"

enum {
    LOG_BYTES = 1 << 20
};

/* What was told of a stream: "L" length line for a line, "T" for one too long. */
struct told {
    char bytes[LOG_BYTES];
    size_t length;
};

static struct told *new_told(void)
{
    struct told *told = malloc(sizeof(*told));
    assert_non_null(told);
    told->length = 0;
    return told;
}

static void tell_line(struct told *told, const char *line, size_t length)
{
    assert_true(told->length + 1 + sizeof(length) + length <= LOG_BYTES);
    told->bytes[told->length++] = 'L';
    memcpy(told->bytes + told->length, &length, sizeof(length));
    told->length += sizeof(length);
    memcpy(told->bytes + told->length, line, length);
    told->length += length;
}

static void tell_too_long(struct told *told)
{
    assert_true(told->length < LOG_BYTES);
    told->bytes[told->length++] = 'T';
}

static void assert_told(const struct told *got, const struct told *expected)
{
    assert_int_equal(got->length, expected->length);
    assert_memory_equal(got->bytes, expected->bytes, got->length);
}

/* The naive splitter. */
static void split(const char *stream, size_t length, size_t max_line_bytes, struct told *told)
{
    size_t start = 0;
    while (start < length) {
        size_t end = start;
        while (end < length && stream[end] != '\n')
            end++;
        if (end - start >= max_line_bytes)
            tell_too_long(told);
        else if (end < length)
            tell_line(told, stream + start,
                      end - start - (end > start && stream[end - 1] == '\r' ? 1 : 0));
        start = end + 1;
    }
}

/* Takes at most `most` lines; FRAMING_MORE when there is none left. A failure is met once. */
static enum framing_result take(struct framing *framing, struct chaos *chaos, struct told *told,
                                size_t most)
{
    enum framing_result result = FRAMING_LINE;
    for (size_t i = 0; i < most && result != FRAMING_MORE; i++) {
        const char *line;
        size_t length;
        result = framing_next(framing, &line, &length);
        if (result == FRAMING_NO_MEMORY) {
            assert_true(chaos->failed);
            chaos->fail_at = 0;
        } else if (result == FRAMING_LINE) {
            tell_line(told, line, length);
        } else if (result == FRAMING_TOO_LONG) {
            tell_too_long(told);
        }
    }
    return result;
}

static void keep(struct framing *framing, struct chaos *chaos)
{
    while (framing_keep(framing)) {
        assert_true(chaos->failed);
        chaos->fail_at = 0;
    }
}

/* Sends a stream in pieces of random length (`most_piece` at most), sometimes ending a loan before
 * all lines were taken. Each piece lies in memory of its own, which is gone after the loan. */
static void send(struct framing *framing, struct chaos *chaos, const char *stream, size_t length,
                 uint32_t seed, size_t most_piece, struct told *told)
{
    for (size_t at = 0; at < length;) {
        seed = seed * 1664525u + 1013904223u;
        size_t piece = (seed >> 8) % most_piece + 1;
        if (piece > length - at)
            piece = length - at;
        char *chunk = malloc(piece);
        assert_non_null(chunk);
        memcpy(chunk, stream + at, piece);
        framing_feed(framing, chunk, piece);
        at += piece;
        bool in_line = stream[at - 1] != '\n';
        assert_int_equal(framing_in_line(framing), in_line);
        take(framing, chaos, told, (seed >> 4) % 4 == 0 ? (seed >> 6) % 3 : SIZE_MAX);
        assert_int_equal(framing_in_line(framing), in_line);
        keep(framing, chaos);
        free(chunk);
        take(framing, chaos, told, SIZE_MAX);
        assert_int_equal(framing_in_line(framing), in_line);
        assert_true(framing->held_capacity <= framing->max_line_bytes + most_piece);
        if (!in_line)
            assert_int_equal(framing->held_capacity, 0);
    }
}

static void fill_stream(char *stream, size_t length, uint32_t seed, unsigned newline_one_in)
{
    for (size_t i = 0; i < length; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t draw = seed >> 10;
        stream[i] = draw % newline_one_in == 0 ? '\n' : "ab\r"[draw / newline_one_in % 3];
    }
}

static void test_any_cut_of_a_stream_gives_the_same_lines(void **state)
{
    (void)state;
    enum {
        STREAM_BYTES = 3000
    };
    static char stream[STREAM_BYTES];
    struct told *expected = new_told();
    struct told *got = new_told();
    for (uint32_t seed = 1; seed <= 400; seed++) {
        size_t max_line_bytes = seed % 13 + 1;
        fill_stream(stream, STREAM_BYTES, seed, seed % 9 + 2);
        expected->length = got->length = 0;
        split(stream, STREAM_BYTES, max_line_bytes, expected);
        struct chaos calm;
        struct framing framing;
        chaos_init(&calm);
        framing_init(&framing, &calm.memory, max_line_bytes);
        send(&framing, &calm, stream, STREAM_BYTES, seed, seed % 40 + 1, got);
        framing_release(&framing);
        assert_told(got, expected);
        assert_int_equal(calm.live_bytes, 0);
    }
    free(expected);
    free(got);
}

/* Feeds one text, takes all lines, ends the loan. */
static void send_text(struct framing *framing, const char *text, struct told *told)
{
    struct chaos calm;
    chaos_init(&calm);
    framing_feed(framing, text, strlen(text));
    take(framing, &calm, told, SIZE_MAX);
    assert_int_equal(framing_keep(framing), 0);
}

static void assert_lines(const char *text, size_t max_line_bytes, const char *const *lines)
{
    struct told *expected = new_told();
    struct told *got = new_told();
    for (; *lines; lines++) {
        if (strcmp(*lines, "TOO LONG") == 0)
            tell_too_long(expected);
        else
            tell_line(expected, *lines, strlen(*lines));
    }
    struct framing framing;
    framing_init(&framing, memory_system(), max_line_bytes);
    send_text(&framing, text, got);
    framing_release(&framing);
    assert_told(got, expected);
    free(expected);
    free(got);
}

static void test_one_carriage_return_is_dropped(void **state)
{
    (void)state;
    assert_lines("a\r\nb\r\r\n\r\nc\rd\n", 100, (const char *[]){"a", "b\r", "", "c\rd", NULL});
}

static void test_empty_lines_are_given_out(void **state)
{
    (void)state;
    assert_lines("\n\n \n", 100, (const char *[]){"", "", " ", NULL});
}

static void test_a_line_of_exactly_the_limit_is_fine(void **state)
{
    (void)state;
    assert_lines("1234567\n123456\r\n", 8, (const char *[]){"1234567", "123456", NULL});
}

static void test_a_line_one_byte_longer_is_too_long(void **state)
{
    (void)state;
    assert_lines("12345678\nok\n1234567\r\nok\n", 8,
                 (const char *[]){"TOO LONG", "ok", "TOO LONG", "ok", NULL});
}

static void test_too_long_is_told_before_the_line_ends(void **state)
{
    (void)state;
    assert_lines("1234567", 8, (const char *[]){NULL});
    assert_lines("12345678", 8, (const char *[]){"TOO LONG", NULL});
}

static void test_too_long_is_told_once(void **state)
{
    (void)state;
    struct framing framing;
    struct told *told = new_told();
    framing_init(&framing, memory_system(), 8);
    for (int i = 0; i < 10; i++) {
        send_text(&framing, "12345678901234567890", told);
        assert_true(framing_in_line(&framing));
        assert_int_equal(framing.held_capacity, 0);
    }
    assert_int_equal(told->length, 1);
    send_text(&framing, "end\n", told);
    assert_int_equal(told->length, 1);
    assert_false(framing_in_line(&framing));
    framing_release(&framing);
    free(told);
}

static void test_whole_lines_are_given_in_place(void **state)
{
    (void)state;
    const char text[] = "first\nsecond\n";
    const char *line;
    size_t length;
    struct chaos chaos;
    chaos_init(&chaos);
    struct framing framing;
    framing_init(&framing, &chaos.memory, 100);
    framing_feed(&framing, text, sizeof(text) - 1);
    assert_int_equal(framing_next(&framing, &line, &length), FRAMING_LINE);
    assert_ptr_equal(line, text);
    assert_int_equal(framing_next(&framing, &line, &length), FRAMING_LINE);
    assert_ptr_equal(line, text + 6);
    assert_int_equal(framing_next(&framing, &line, &length), FRAMING_MORE);
    assert_int_equal(framing_keep(&framing), 0);
    assert_int_equal(chaos.requests, 0);
    framing_release(&framing);
}

static void test_an_idle_connection_holds_nothing(void **state)
{
    (void)state;
    struct chaos chaos;
    struct told *told = new_told();
    chaos_init(&chaos);
    struct framing framing;
    framing_init(&framing, &chaos.memory, 100);
    send_text(&framing, "half", told);
    assert_true(framing.held_capacity >= 4);
    assert_true(chaos.live_bytes >= 4);
    send_text(&framing, " a line\n", told);
    assert_int_equal(framing.held_capacity, 0);
    assert_int_equal(chaos.live_bytes, 0);
    framing_release(&framing);
    free(told);
}

static void test_lines_kept_unread_are_given_out_later(void **state)
{
    (void)state;
    struct chaos calm;
    struct framing framing;
    struct told *got = new_told();
    struct told *expected = new_told();
    chaos_init(&calm);
    split("a\nb\nc\nd", 7, 100, expected);
    framing_init(&framing, &calm.memory, 100);
    char chunk[] = "a\nb\nc\nd";
    framing_feed(&framing, chunk, sizeof(chunk) - 1);
    take(&framing, &calm, got, 1);
    assert_int_equal(framing_keep(&framing), 0);
    memset(chunk, '#', sizeof(chunk));
    assert_int_equal(take(&framing, &calm, got, SIZE_MAX), FRAMING_MORE);
    assert_told(got, expected);
    framing_release(&framing);
    free(got);
    free(expected);
}

static void test_a_long_line_byte_by_byte_is_looked_at_once(void **state)
{
    (void)state;
    enum {
        BYTES = 65535
    };
    struct chaos chaos;
    chaos_init(&chaos);
    struct framing framing;
    framing_init(&framing, &chaos.memory, 65536);
    const char *line;
    size_t length;
    for (size_t i = 0; i < BYTES; i++) {
        framing_feed(&framing, "x", 1);
        assert_int_equal(framing_next(&framing, &line, &length), FRAMING_MORE);
        assert_int_equal(framing_keep(&framing), 0);
        assert_int_equal(framing.held_scanned, i + 1);
    }
    assert_true(chaos.requests < 20); /* it grew by doubling */
    framing_feed(&framing, "\n", 1);
    assert_int_equal(framing_next(&framing, &line, &length), FRAMING_LINE);
    assert_int_equal(length, BYTES);
    assert_int_equal(framing_keep(&framing), 0);
    framing_release(&framing);
}

static bool send_with_failures(struct chaos *chaos, void *context)
{
    enum {
        STREAM_BYTES = 300,
        MAX_LINE_BYTES = 20
    };
    char stream[STREAM_BYTES];
    struct told *got = context;
    struct told *expected = new_told();
    struct framing framing;
    fill_stream(stream, STREAM_BYTES, 5, 8);
    split(stream, STREAM_BYTES, MAX_LINE_BYTES, expected);
    got->length = 0;
    framing_init(&framing, &chaos->memory, MAX_LINE_BYTES);
    send(&framing, chaos, stream, STREAM_BYTES, 11, 7, got);
    framing_release(&framing);
    assert_told(got, expected);
    free(expected);
    return true;
}

static void test_no_byte_is_lost_when_memory_runs_out(void **state)
{
    (void)state;
    struct told *got = new_told();
    assert_true(chaos_loop(send_with_failures, got) > 0);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut_of_a_stream_gives_the_same_lines),
        cmocka_unit_test(test_one_carriage_return_is_dropped),
        cmocka_unit_test(test_empty_lines_are_given_out),
        cmocka_unit_test(test_a_line_of_exactly_the_limit_is_fine),
        cmocka_unit_test(test_a_line_one_byte_longer_is_too_long),
        cmocka_unit_test(test_too_long_is_told_before_the_line_ends),
        cmocka_unit_test(test_too_long_is_told_once),
        cmocka_unit_test(test_whole_lines_are_given_in_place),
        cmocka_unit_test(test_an_idle_connection_holds_nothing),
        cmocka_unit_test(test_lines_kept_unread_are_given_out_later),
        cmocka_unit_test(test_a_long_line_byte_by_byte_is_looked_at_once),
        cmocka_unit_test(test_no_byte_is_lost_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
