/* The bytes of a log: files, memory, gzip, lines, reading again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/memory.h"
#include "lab/logs/log.h"
#include "tests/support/chaos.h"

enum {
    LARGE_BYTES = 3000000 /* many buffers */
};

static struct log_source *open_text(const void *bytes, size_t length)
{
    struct log_source *source;
    struct log_problem problem;
    assert_int_equal(log_source_open_bytes(bytes, length, memory_system(), &source, &problem),
                     LOG_FINE);
    return source;
}

/* One gzip member. */
static unsigned char *pack(const void *bytes, size_t length, size_t *packed_length)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&stream, length) + 64;
    unsigned char *packed = malloc(room);
    assert_non_null(packed);
    stream.next_in = (unsigned char *)bytes;
    stream.avail_in = (unsigned int)length;
    stream.next_out = packed;
    stream.avail_out = (unsigned int)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *packed_length = stream.total_out;
    deflateEnd(&stream);
    return packed;
}

/* Bytes that gzip cannot make much of, with a line end now and then. */
static char *large_text(void)
{
    char *text = malloc(LARGE_BYTES);
    assert_non_null(text);
    uint64_t state = 7;
    for (size_t i = 0; i < LARGE_BYTES; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        text[i] = (state >> 60) == 0 ? '\n' : (char)('a' + (state >> 33) % 26);
    }
    return text;
}

static void write_file(char *path, const void *bytes, size_t length)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, 4096, "%s/worsegpu-source-XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, length), (ssize_t)length);
    close(file);
}

/* What is read by peeking must be the text. */
static void assert_reads(struct log_source *source, const char *text, size_t length)
{
    struct log_problem problem;
    size_t done = 0;
    for (;;) {
        const unsigned char *bytes;
        size_t there;
        size_t wanted = done % 7777 + 1;
        assert_int_equal(log_source_peek(source, wanted, &bytes, &there, &problem), LOG_FINE);
        assert_true(there >= wanted || done + there == length);
        if (there == 0)
            break;
        size_t taken = there < 4321 ? there : 4321;
        assert_true(done + taken <= length);
        assert_memory_equal(bytes, text + done, taken);
        log_source_skip(source, taken);
        done += taken;
        assert_int_equal(log_source_place(source), done);
    }
    assert_int_equal(done, length);
}

static void test_lines_lose_their_ends(void **state)
{
    struct log_source *source = open_text("one\r\n\ntwo\nlast", 14);
    struct log_problem problem;
    const char *line;
    size_t length;
    static const char *const expected[] = {"one", "", "two", "last"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(log_source_line(source, &line, &length, &problem), LOG_FINE);
        assert_int_equal(length, strlen(expected[i]));
        assert_memory_equal(line, expected[i], length);
        assert_int_equal(log_source_lines(source), i + 1);
        assert_int_equal(log_source_line_ended(source), i < 3);
    }
    assert_int_equal(log_source_line(source, &line, &length, &problem), LOG_FINE);
    assert_int_equal(length, SIZE_MAX);
    log_source_close(source);
    (void)state;
}

static void test_an_empty_log_has_no_line(void **state)
{
    struct log_source *source = open_text(NULL, 0);
    struct log_problem problem;
    const char *line;
    size_t length;
    assert_int_equal(log_source_line(source, &line, &length, &problem), LOG_FINE);
    assert_int_equal(length, SIZE_MAX);
    assert_true(log_source_progress(source) < 0);
    log_source_close(source);
    (void)state;
}

static void test_a_nul_in_a_line_is_refused(void **state)
{
    struct log_source *source = open_text("fine\nb\0d\n", 9);
    struct log_problem problem;
    const char *line;
    size_t length;
    assert_int_equal(log_source_line(source, &line, &length, &problem), LOG_FINE);
    assert_int_equal(log_source_line(source, &line, &length, &problem), LOG_BAD);
    assert_string_equal(problem.text, "line 2: the line has a NUL in it");
    log_source_close(source);
    (void)state;
}

static void test_a_line_of_16_mib_is_the_longest(void **state)
{
    size_t most = (size_t)16 << 20;
    char *text = malloc(most + 2);
    assert_non_null(text);
    memset(text, 'x', most + 2);
    text[most] = '\n';
    char path[4096];
    struct log_problem problem;
    struct log_source *source;
    const char *line;
    size_t length;
    write_file(path, text, most + 2);
    assert_int_equal(log_source_open(path, memory_system(), &source, &problem), LOG_FINE);
    assert_int_equal(log_source_line(source, &line, &length, &problem), LOG_FINE);
    assert_int_equal(length, most);
    log_source_close(source);
    unlink(path);
    text[most] = 'x';
    source = open_text(text, most + 2);
    assert_int_equal(log_source_line(source, &line, &length, &problem), LOG_BAD);
    assert_string_equal(problem.text, "line 1: the line is longer than 16 MiB");
    log_source_close(source);
    free(text);
    (void)state;
}

static void test_a_file_is_read_whole_and_again(void **state)
{
    char *text = large_text();
    char path[4096];
    struct log_problem problem;
    struct log_source *source;
    write_file(path, text, LARGE_BYTES);
    assert_int_equal(log_source_open(path, memory_system(), &source, &problem), LOG_FINE);
    assert_reads(source, text, LARGE_BYTES);
    assert_true(log_source_progress(source) == 1);
    assert_int_equal(log_source_rewind(source, &problem), LOG_FINE);
    assert_true(log_source_progress(source) == 0);
    assert_reads(source, text, LARGE_BYTES);
    log_source_close(source);
    unlink(path);
    free(text);
    (void)state;
}

static void test_gzip_is_unpacked_from_file_and_memory(void **state)
{
    char *text = large_text();
    size_t length;
    unsigned char *packed = pack(text, LARGE_BYTES, &length);
    char path[4096];
    struct log_problem problem;
    struct log_source *source;
    write_file(path, packed, length);
    assert_int_equal(log_source_open(path, memory_system(), &source, &problem), LOG_FINE);
    assert_reads(source, text, LARGE_BYTES);
    assert_int_equal(log_source_rewind(source, &problem), LOG_FINE);
    assert_reads(source, text, LARGE_BYTES);
    assert_true(log_source_progress(source) == 1);
    log_source_close(source);
    unlink(path);
    source = open_text(packed, length);
    assert_reads(source, text, LARGE_BYTES);
    assert_int_equal(log_source_rewind(source, &problem), LOG_FINE);
    assert_reads(source, text, LARGE_BYTES);
    log_source_close(source);
    free(packed);
    free(text);
    (void)state;
}

static void test_members_of_gzip_follow_each_other(void **state)
{
    size_t first, second;
    unsigned char *a = pack("one\n", 4, &first);
    unsigned char *b = pack("two\n", 4, &second);
    unsigned char *both = calloc(1, first + second + 512);
    assert_non_null(both);
    memcpy(both, a, first);
    memcpy(both + first, b, second);
    struct log_source *source = open_text(both, first + second);
    assert_reads(source, "one\ntwo\n", 8);
    log_source_close(source);
    source = open_text(both, first + second + 512); /* zeros behind, as tar leaves them */
    assert_reads(source, "one\ntwo\n", 8);
    log_source_close(source);
    free(both);
    free(a);
    free(b);
    (void)state;
}

/* Reads to the end: the status that it ends with. */
static int read_all(struct log_source *source, struct log_problem *problem)
{
    for (;;) {
        const unsigned char *bytes;
        size_t length;
        int status = log_source_peek(source, 1, &bytes, &length, problem);
        if (status != LOG_FINE || length == 0)
            return status;
        log_source_skip(source, length);
    }
}

static void test_damaged_gzip_says_where(void **state)
{
    size_t length;
    char text[5000];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('a' + i * i % 23);
    unsigned char *packed = pack(text, sizeof(text), &length);
    struct log_problem problem;
    for (size_t cut = 2; cut < length; cut++) {
        struct log_source *source = open_text(packed, cut);
        assert_int_equal(read_all(source, &problem), LOG_BAD);
        char expected[128];
        snprintf(expected, sizeof(expected),
                 "byte %zu: in the packed file: the gzip data is cut off", cut + 1);
        assert_string_equal(problem.text, expected);
        log_source_close(source);
    }
    packed[length - 5] ^= 1; /* in the checksum */
    struct log_source *source = open_text(packed, length);
    assert_int_equal(read_all(source, &problem), LOG_BAD);
    assert_non_null(strstr(problem.text, ": in the packed file: the gzip data is damaged"));
    log_source_close(source);
    free(packed);
    (void)state;
}

static void test_something_behind_gzip_is_refused(void **state)
{
    size_t length;
    unsigned char *packed = pack("one\n", 4, &length);
    unsigned char *more = malloc(length + 5);
    assert_non_null(more);
    memcpy(more, packed, length);
    memcpy(more + length, "other", 5);
    struct log_source *source = open_text(more, length + 5);
    struct log_problem problem;
    assert_int_equal(read_all(source, &problem), LOG_BAD);
    char expected[128];
    snprintf(expected, sizeof(expected),
             "byte %zu: in the packed file: the gzip data is followed by something else",
             length + 1);
    assert_string_equal(problem.text, expected);
    log_source_close(source);
    free(more);
    free(packed);
    (void)state;
}

static void test_a_file_that_is_not_there_says_why(void **state)
{
    struct log_source *source;
    struct log_problem problem;
    assert_int_equal(log_source_open("/nonexistent/worsegpu", memory_system(), &source, &problem),
                     LOG_NO_FILE);
    assert_null(source);
    assert_string_equal(problem.text, "cannot be opened: No such file or directory");
    (void)state;
}

static void test_a_folder_is_no_log(void **state)
{
    struct log_source *source;
    struct log_problem problem;
    assert_int_equal(log_source_open("/", memory_system(), &source, &problem), LOG_NO_FILE);
    assert_null(source);
    assert_string_equal(problem.text, "cannot be read: Is a directory");
    (void)state;
}

static void test_standard_input_is_read_once(void **state)
{
    int ends[2];
    int kept = dup(STDIN_FILENO);
    assert_true(kept >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(write(ends[1], "one\ntwo\n", 8), 8);
    close(ends[1]);
    close(ends[0]);
    struct log_source *source;
    struct log_problem problem;
    assert_int_equal(log_source_open("-", memory_system(), &source, &problem), LOG_FINE);
    assert_reads(source, "one\ntwo\n", 8);
    assert_true(log_source_progress(source) < 0);
    assert_int_equal(log_source_rewind(source, &problem), LOG_NO_FILE);
    assert_string_equal(problem.text, "standard input cannot be read twice: give a file");
    log_source_close(source);
    assert_int_equal(dup2(kept, STDIN_FILENO), STDIN_FILENO);
    close(kept);
    (void)state;
}

static void test_a_long_look_is_whole(void **state)
{
    char *text = large_text();
    char path[4096];
    struct log_problem problem;
    struct log_source *source;
    const unsigned char *bytes;
    size_t length;
    write_file(path, text, LARGE_BYTES);
    assert_int_equal(log_source_open(path, memory_system(), &source, &problem), LOG_FINE);
    assert_int_equal(log_source_peek(source, 10, &bytes, &length, &problem), LOG_FINE);
    log_source_skip(source, 10);
    assert_int_equal(log_source_peek(source, 2000000, &bytes, &length, &problem), LOG_FINE);
    assert_true(length >= 2000000);
    assert_memory_equal(bytes, text + 10, 2000000);
    log_source_close(source);
    unlink(path);
    free(text);
    (void)state;
}

struct packed {
    unsigned char *bytes;
    size_t length;
};

static bool read_in_chaos(struct chaos *chaos, void *context)
{
    struct packed *packed = context;
    struct log_source *source;
    struct log_problem problem;
    int status =
        log_source_open_bytes(packed->bytes, packed->length, &chaos->memory, &source, &problem);
    if (status == LOG_FINE) {
        status = read_all(source, &problem);
        log_source_close(source);
    } else {
        assert_null(source);
    }
    assert_true(status == LOG_FINE || status == LOG_NO_MEMORY);
    return status == LOG_FINE;
}

static void test_reading_survives_failing_memory(void **state)
{
    char *text = large_text();
    struct packed packed;
    packed.bytes = pack(text, LARGE_BYTES, &packed.length);
    assert_true(chaos_loop(read_in_chaos, &packed) > 2);
    free(packed.bytes);
    free(text);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_lose_their_ends),
        cmocka_unit_test(test_an_empty_log_has_no_line),
        cmocka_unit_test(test_a_nul_in_a_line_is_refused),
        cmocka_unit_test(test_a_line_of_16_mib_is_the_longest),
        cmocka_unit_test(test_a_file_is_read_whole_and_again),
        cmocka_unit_test(test_gzip_is_unpacked_from_file_and_memory),
        cmocka_unit_test(test_members_of_gzip_follow_each_other),
        cmocka_unit_test(test_damaged_gzip_says_where),
        cmocka_unit_test(test_something_behind_gzip_is_refused),
        cmocka_unit_test(test_a_file_that_is_not_there_says_why),
        cmocka_unit_test(test_a_folder_is_no_log),
        cmocka_unit_test(test_standard_input_is_read_once),
        cmocka_unit_test(test_a_long_look_is_whole),
        cmocka_unit_test(test_reading_survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
