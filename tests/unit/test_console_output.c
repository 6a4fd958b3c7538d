/* What the programs print: text, tables, colour, and whether it was really written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "console/output.h"
#include "console/table.h"
#include "tests/support/chaos.h"

struct paper {
    char *text;
    size_t length;
    struct output output;
};

static void paper_start(struct paper *paper)
{
    FILE *stream = open_memstream(&paper->text, &paper->length);
    assert_non_null(stream);
    output_init(&paper->output, stream, stream);
}

static void paper_end(struct paper *paper)
{
    fclose(paper->output.out);
    free(paper->text);
}

static void assert_printed(struct paper *paper, const char *expected)
{
    assert_int_equal(output_flush(&paper->output), 0);
    assert_string_equal(paper->text, expected);
}

static const struct table_column COLUMNS[] = {{"name", false}, {"size", true}, {"end", false}};

static void test_a_table_is_as_wide_as_its_widest_cells(void **state)
{
    (void)state;
    struct paper paper;
    struct table table;
    paper_start(&paper);
    table_init(&table, memory_system(), &paper.output, COLUMNS, 3);
    table_text(&table, "a");
    table_size(&table, 33554432);
    table_text(&table, "x");
    table_text(&table, "longer");
    table_number(&table, UINT64_MAX);
    table_text(&table, "");
    table_text(&table, "b");
    table_signed(&table, -1);
    table_text(&table, "y");
    assert_int_equal(table_end(&table), 0);
    table_release(&table);
    assert_printed(&paper, "name                    size  end\n"
                           "a                   32.0 MiB  x\n"
                           "longer  18446744073709551615\n"
                           "b                         -1  y\n");
    paper_end(&paper);
}

static void test_a_table_without_rows_shows_its_titles(void **state)
{
    (void)state;
    struct paper paper;
    struct table table;
    paper_start(&paper);
    table_init(&table, memory_system(), &paper.output, COLUMNS, 3);
    assert_int_equal(table_end(&table), 0);
    table_release(&table);
    assert_printed(&paper, "name  size  end\n");
    paper_end(&paper);
}

static void test_widths_count_characters_and_not_bytes(void **state)
{
    (void)state;
    struct paper paper;
    struct table table;
    paper_start(&paper);
    table_init(&table, memory_system(), &paper.output, COLUMNS, 2);
    table_text(&table, "\xc3\xa4\xc3\xb6\xc3\xbc\xe2\x82\xac!");
    table_number(&table, 1);
    assert_int_equal(table_end(&table), 0);
    table_release(&table);
    assert_printed(&paper, "name   size\n\xc3\xa4\xc3\xb6\xc3\xbc\xe2\x82\xac!     1\n");
    paper_end(&paper);
}

static void test_a_long_table_is_printed_on_the_way(void **state)
{
    (void)state;
    struct paper paper;
    struct table table;
    paper_start(&paper);
    table_init(&table, memory_system(), &paper.output, COLUMNS, 3);
    const uint64_t rows = UINT64_C(3) * TABLE_ROWS_HELD;
    for (uint64_t i = 0; i < rows; i++) {
        assert_true(table.row_count < TABLE_ROWS_HELD);
        table_text(&table, "a");
        table_number(&table, i);
        table_text(&table, "b");
    }
    assert_int_equal(table_end(&table), 0);
    table_release(&table);
    assert_int_equal(output_flush(&paper.output), 0);
    size_t lines = 0;
    for (const char *at = strchr(paper.text, '\n'); at; at = strchr(at + 1, '\n'))
        lines++;
    assert_int_equal(lines, 1 + rows);
    paper_end(&paper);
}

static bool table_under_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct paper paper;
    struct table table;
    paper_start(&paper);
    table_init(&table, &chaos->memory, &paper.output, COLUMNS, 3);
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 3; j++)
            table_text(&table, "cell");
    int status = table_end(&table);
    table_release(&table);
    paper_end(&paper);
    return status == 0;
}

static void test_a_table_tells_that_memory_ran_out(void **state)
{
    (void)state;
    assert_true(chaos_loop(table_under_chaos, NULL) > 0);
}

static void test_foreign_text_cannot_steer_the_terminal(void **state)
{
    (void)state;
    struct paper paper;
    paper_start(&paper);
    output_foreign(&paper.output, "a\033[31mb\r\n\x7f\xc2\x9b"
                                  "1m\xc3\xa9");
    assert_printed(&paper, "a\\x1b[31mb\\x0d\\x0a\\x7f\\x9b1m\xc3\xa9");
    paper_end(&paper);
}

static void test_text_that_is_too_long_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    char harmless[8];
    output_make_harmless("abcdef\xe2\x82\xac", harmless, sizeof(harmless));
    assert_string_equal(harmless, "abcdef");
    output_make_harmless("abcd\xe2\x82\xac", harmless, sizeof(harmless));
    assert_string_equal(harmless, "abcd\xe2\x82\xac");
    output_make_harmless("abcdef\033", harmless, sizeof(harmless));
    assert_string_equal(harmless, "abcdef");
}

static void test_what_is_no_terminal_gets_no_colour(void **state)
{
    (void)state;
    struct paper paper;
    paper_start(&paper);
    output_styled(&paper.output, OUTPUT_BAD, "plain");
    assert_printed(&paper, "plain");
    paper_end(&paper);
}

static void test_colour_is_switched_off_behind_a_word(void **state)
{
    (void)state;
    struct paper paper;
    paper_start(&paper);
    paper.output.out_colour = true;
    output_styled(&paper.output, OUTPUT_GOOD, "yes");
    output_styled(&paper.output, OUTPUT_PLAIN, "no");
    assert_printed(&paper, "\033[32myes\033[0mno");
    paper_end(&paper);
}

static void test_a_full_disk_is_noticed(void **state)
{
    (void)state;
    struct output output;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    output_init(&output, full, full);
    output_text(&output, "%s", "more");
    assert_int_equal(output_flush(&output), ENOSPC);
    output_text(&output, "%s", "and more");
    assert_int_equal(output_flush(&output), ENOSPC);
    fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table_is_as_wide_as_its_widest_cells),
        cmocka_unit_test(test_a_table_without_rows_shows_its_titles),
        cmocka_unit_test(test_widths_count_characters_and_not_bytes),
        cmocka_unit_test(test_a_long_table_is_printed_on_the_way),
        cmocka_unit_test(test_a_table_tells_that_memory_ran_out),
        cmocka_unit_test(test_foreign_text_cannot_steer_the_terminal),
        cmocka_unit_test(test_text_that_is_too_long_is_cut_at_a_whole_character),
        cmocka_unit_test(test_what_is_no_terminal_gets_no_colour),
        cmocka_unit_test(test_colour_is_switched_off_behind_a_word),
        cmocka_unit_test(test_a_full_disk_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
