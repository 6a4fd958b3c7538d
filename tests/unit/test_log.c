/* Tests of daemon/log.c: levels, escaping, and how many lines clients can cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"
#include "tests/support/memory_daemon.h"

struct written {
    struct log log;
    char *text;
    size_t length;
};

static void begin(struct written *written, enum log_level level)
{
    FILE *stream = open_memstream(&written->text, &written->length);
    assert_non_null(stream);
    log_init(&written->log, stream, level);
    fflush(stream);
}

static void end(struct written *written)
{
    fclose(written->log.stream);
    free(written->text);
}

static void test_only_what_is_important_enough_is_written(void **state)
{
    static const char *const expected[] = {
        "worsegpud: error: e1\n",
        "worsegpud: error: e1\nworsegpud: warning: w2\nworsegpud: warning: c4\n",
        "worsegpud: error: e1\nworsegpud: warning: w2\nworsegpud: i3\nworsegpud: warning: c4\n",
    };
    (void)state;
    for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_INFO; level++) {
        struct written written;
        begin(&written, (enum log_level)level);
        log_write(&written.log, LOG_LEVEL_ERROR, "e%d", 1);
        log_write(&written.log, LOG_LEVEL_WARNING, "w%d", 2);
        log_write(&written.log, LOG_LEVEL_INFO, "i%d", 3);
        log_client(&written.log, 0, "c%d", 4);
        assert_string_equal(written.text, expected[level]);
        end(&written);
    }
}

static void test_levels_are_known_by_their_names_alone(void **state)
{
    static const char *const names[] = {"error", "warning", "info"};
    enum log_level level;
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_string_equal(log_level_name((size_t)i), names[i]);
        assert_true(log_level_from_name(names[i], &level));
        assert_int_equal(level, i);
    }
    assert_null(log_level_name(3));
    level = LOG_LEVEL_WARNING;
    assert_false(log_level_from_name("", &level));
    assert_false(log_level_from_name("Info", &level));
    assert_false(log_level_from_name("infos", &level));
    assert_int_equal(level, LOG_LEVEL_WARNING);
}

static void test_no_client_can_write_a_control_character(void **state)
{
    struct written written;
    (void)state;
    begin(&written, LOG_LEVEL_INFO);
    log_client(&written.log, 0, "a\nworsegpud: forged\r\t\x1b[2J\x7f\xc3\xa4%%");
    assert_string_equal(
        written.text,
        "worsegpud: warning: a\\x0aworsegpud: forged\\x0d\\x09\\x1b[2J\\x7f\\xc3\\xa4%\n");
    end(&written);
}

static void test_a_line_is_bounded_even_when_all_of_it_is_escaped(void **state)
{
    struct written written;
    char text[4 * (size_t)LOG_LINE_SIZE];
    (void)state;
    memset(text, 1, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    begin(&written, LOG_LEVEL_INFO);
    log_write(&written.log, LOG_LEVEL_INFO, "%s", text);
    assert_in_range(written.length, LOG_LINE_SIZE, 4 * (size_t)LOG_LINE_SIZE + 32);
    assert_int_equal(answer_count(written.text, "\n"), 1);
    assert_int_equal(written.text[written.length - 1], '\n');
    end(&written);
}

static void test_lines_about_clients_are_limited_and_the_rest_is_counted(void **state)
{
    struct written written;
    uint64_t now = 123456;
    (void)state;
    begin(&written, LOG_LEVEL_INFO);
    for (int i = 0; i < LOG_LINES_PER_WINDOW + 25; i++)
        log_client(&written.log, now + (uint64_t)i, "client");
    assert_int_equal(answer_count(written.text, "client\n"), LOG_LINES_PER_WINDOW);
    log_client(&written.log, now + LOG_WINDOW_MS - 1, "client");
    assert_int_equal(answer_count(written.text, "\n"), LOG_LINES_PER_WINDOW);
    log_write(&written.log, LOG_LEVEL_INFO, "our own lines are not limited");
    log_client(&written.log, now + LOG_WINDOW_MS, "late");
    assert_non_null(strstr(
        written.text, "limited\nworsegpud: warning: 26 more lines about clients were left out\n"
                      "worsegpud: warning: late\n"));
    log_client(&written.log, now + 3 * (uint64_t)LOG_WINDOW_MS, "much later");
    assert_int_equal(answer_count(written.text, "left out"), 1);
    end(&written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_is_important_enough_is_written),
        cmocka_unit_test(test_levels_are_known_by_their_names_alone),
        cmocka_unit_test(test_no_client_can_write_a_control_character),
        cmocka_unit_test(test_a_line_is_bounded_even_when_all_of_it_is_escaped),
        cmocka_unit_test(test_lines_about_clients_are_limited_and_the_rest_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
