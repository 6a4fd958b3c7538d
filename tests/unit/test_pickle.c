/* Pickles as data: every opcode that is read, every one that is refused, the memo, damage. */
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
#include "lab/logs/pickle.h"
#include "tests/support/chaos.h"
#include "tests/support/pickle_writer.h"

/* What the owner of these tests sees, as text. Words are single letters. A dict with the key "c" is
 * kept and counted, one with "k" is kept, all others are forgotten; a list is kept. */
struct seen {
    char text[4096];
    size_t length;
    uint64_t counted;
    struct pickle_value last_x; /* the last value under "x" */
    struct log_problem problem;
    struct pickle_result result;
};

__attribute__((format(printf, 2, 3))) static void see(struct seen *seen, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(seen->text + seen->length, sizeof(seen->text) - seen->length, format, arguments);
    va_end(arguments);
    seen->length += (size_t)length;
    if (seen->length >= sizeof(seen->text))
        seen->length = sizeof(seen->text) - 1;
}

static void see_value(struct seen *seen, const struct pickle_value *value)
{
    static const char *const names[] = {"none",  "false", "true", "",     "negative",
                                        "huge",  "",      "word", "text", "pair",
                                        "other", "dict",  "list", "kept", "counted"};
    switch (value->kind) {
    case PICKLE_INTEGER:
        see(seen, "%" PRIu64, value->payload);
        break;
    case PICKLE_NEGATIVE:
        see(seen, "%" PRId64, (int64_t)value->payload);
        break;
    case PICKLE_NUMBER: {
        double number;
        memcpy(&number, &value->payload, sizeof(number));
        see(seen, "%g", number);
        break;
    }
    case PICKLE_WORD:
        see(seen, "%c", (int)('a' + value->payload - 1));
        break;
    case PICKLE_LIST:
        see(seen, "list of %" PRIu64, value->payload);
        break;
    case PICKLE_PAIR:
    case PICKLE_KEPT:
    case PICKLE_COUNTED:
        see(seen, "%s %" PRIu64, names[value->kind], value->payload);
        break;
    default:
        see(seen, "%s", names[value->kind]);
    }
}

static uint8_t word(const void *context, const unsigned char *bytes, size_t length)
{
    (void)context;
    return length == 1 && bytes[0] >= 'a' && bytes[0] <= 'z' ? (uint8_t)(bytes[0] - 'a' + 1) : 0;
}

static int text(void *context, uint8_t after, const unsigned char *bytes, size_t length,
                struct pickle_value *value)
{
    see(context, "(%c \"%.*s\")", 'a' + after - 1, (int)(length < 20 ? length : 20),
        (const char *)bytes);
    value->kind = PICKLE_TEXT;
    return LOG_FINE;
}

static int items(void *context, struct pickle_value *dict, const struct pickle_value *pairs,
                 size_t count, bool whole, uint64_t place)
{
    struct seen *seen = context;
    (void)place;
    see(seen, "{");
    for (size_t i = 0; i < count; i++) {
        see_value(seen, &pairs[2 * i]);
        see(seen, ":");
        see_value(seen, &pairs[2 * i + 1]);
        see(seen, i + 1 < count ? " " : "");
        if (pairs[2 * i].kind != PICKLE_WORD)
            continue;
        if (pairs[2 * i].payload == 'x' - 'a' + 1)
            seen->last_x = pairs[2 * i + 1];
        if (pairs[2 * i].payload == 'c' - 'a' + 1 && dict->kind == PICKLE_DICT) {
            dict->kind = PICKLE_COUNTED;
            dict->payload = seen->counted++;
        } else if (pairs[2 * i].payload == 'k' - 'a' + 1) {
            dict->kind = PICKLE_KEPT;
            dict->type = 1;
            dict->payload = 1000 + seen->counted;
        }
    }
    see(seen, whole ? "}" : "...}");
    return LOG_FINE;
}

static int elements(void *context, struct pickle_value *list, const struct pickle_value *values,
                    size_t count, uint64_t place)
{
    struct seen *seen = context;
    (void)place;
    see(seen, "[");
    for (size_t i = 0; i < count; i++) {
        see_value(seen, &values[i]);
        see(seen, i + 1 < count ? " " : "");
    }
    see(seen, "]");
    list->kind = PICKLE_KEPT;
    list->type = 2;
    return LOG_FINE;
}

static int read_with(struct seen *seen, const void *bytes, size_t length,
                     const struct worsegpu_memory *memory)
{
    struct pickle_owner owner = {seen, word, text, items, elements};
    struct log_source *source;
    memset(seen, 0, sizeof(*seen));
    int status = log_source_open_bytes(bytes, length, memory, &source, &seen->problem);
    if (status != LOG_FINE)
        return status;
    status = pickle_read(source, memory, &owner, &seen->result, &seen->problem);
    log_source_close(source);
    return status;
}

static int read_bytes(struct seen *seen, const void *bytes, size_t length)
{
    return read_with(seen, bytes, length, memory_system());
}

#define READ(seen, literal) read_bytes(seen, literal, sizeof(literal) - 1)

/* A dict whose key "x" has one value, in the middle of a pickle of protocol 4. */
#define X(value) "\x80\x04}(\x8c\x01x" value "u."

static void test_every_form_of_a_number_is_read(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *seen;
    } cases[] = {
#define CASE(value, text) {X(value), sizeof(X(value)) - 1, "{x:" text "}"}
        CASE("K\xff", "255"),
        CASE("M\x01\x02", "513"),
        CASE("J\x01\x02\x03\x04", "67305985"),
        CASE("J\xff\xff\xff\xff", "-1"),
        CASE("\x8a\x00", "0"),
        CASE("\x8a\x01\xff", "-1"),
        CASE("\x8a\x06\x00\x00\x00\x00\x00\x7f", "139637976727552"),
        CASE("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "9223372036854775807"),
        CASE("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", "-9223372036854775808"),
        CASE("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", "18446744073709551615"),
        CASE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01", "huge"),
        CASE("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff", "huge"),
        CASE("\x8a\x0b\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00", "18446744073709551615"),
        CASE("\x8b\x02\x00\x00\x00\x34\x12", "4660"),
        CASE("G\x3f\xe0\x00\x00\x00\x00\x00\x00", "0.5"),
        CASE("N", "none"),
        CASE("\x88", "true"),
        CASE("\x89", "false"),
#undef CASE
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen;
        assert_int_equal(read_bytes(&seen, cases[i].bytes, cases[i].length), LOG_FINE);
        assert_string_equal(seen.text, cases[i].seen);
    }
}

static void test_every_form_of_a_text_or_of_bytes_is_read(void **state)
{
    struct seen seen;
    (void)state;
    assert_int_equal(READ(&seen, X("\x8c\x01y")), LOG_FINE);
    assert_string_equal(seen.text, "{x:y}");
    assert_int_equal(READ(&seen, X("X\x02\x00\x00\x00no")), LOG_FINE);
    assert_string_equal(seen.text, "(x \"no\"){x:text}");
    assert_int_equal(READ(&seen, X("\x8d\x01\x00\x00\x00\x00\x00\x00\x00z")), LOG_FINE);
    assert_string_equal(seen.text, "{x:z}");
    assert_int_equal(READ(&seen, X("C\x01y")), LOG_FINE);
    assert_string_equal(seen.text, "{x:other}");
    assert_int_equal(READ(&seen, X("B\x01\x00\x00\x00y")), LOG_FINE);
    assert_string_equal(seen.text, "{x:other}");
    assert_int_equal(READ(&seen, X("\x8e\x01\x00\x00\x00\x00\x00\x00\x00z")), LOG_FINE);
    assert_int_equal(READ(&seen, X("\x96\x01\x00\x00\x00\x00\x00\x00\x00z")), LOG_FINE);
    assert_string_equal(seen.text, "{x:other}");
}

static void test_tuples_keep_only_pairs_of_small_numbers(void **state)
{
    struct seen seen;
    (void)state;
    assert_int_equal(READ(&seen, X(")")), LOG_FINE);
    assert_string_equal(seen.text, "{x:other}");
    assert_int_equal(READ(&seen, X("K\x01\x85")), LOG_FINE);
    assert_int_equal(READ(&seen, X("K\x00K\x00\x86")), LOG_FINE);
    assert_string_equal(seen.text, "{x:other}");
    assert_int_equal(READ(&seen, X("K\x01K\x02\x86")), LOG_FINE);
    assert_string_equal(seen.text, "{x:pair 4294967298}");
    assert_int_equal(READ(&seen, X("(K\x01K\x02t")), LOG_FINE);
    assert_string_equal(seen.text, "{x:pair 4294967298}");
    assert_int_equal(READ(&seen, X("K\x01K\x02K\x03\x87")), LOG_FINE);
    assert_string_equal(seen.text, "{x:other}");
}

static void test_containers_of_the_old_form_and_pair_by_pair(void **state)
{
    struct seen seen;
    (void)state;
    assert_int_equal(READ(&seen, "\x80\x02(X\x01\x00\x00\x00xK\x07"
                                 "d."),
                     LOG_FINE);
    assert_string_equal(seen.text, "{x:7}");
    assert_int_equal(READ(&seen, "\x80\x02(K\x01K\x02l."), LOG_FINE);
    assert_int_equal(seen.result.value.kind, PICKLE_LIST);
    assert_int_equal(seen.result.value.payload, 2);
    assert_int_equal(READ(&seen, "\x80\x02}X\x01\x00\x00\x00xK\x07sX\x01\x00\x00\x00yNs."),
                     LOG_FINE);
    assert_string_equal(seen.text, "{x:7...}{y:none...}");
    /* A list in a list: the outer one is shown, the inner one holds nothing. */
    assert_int_equal(READ(&seen, "\x80\x02]]a."), LOG_FINE);
    assert_string_equal(seen.text, "[list of 0]");
}

static void test_what_was_put_into_the_memo_comes_back(void **state)
{
    for (unsigned int protocol = 2; protocol <= 5; protocol++) {
        struct pickle_writer writer;
        struct seen seen;
        (void)state;
        pickle_begin(&writer, protocol);
        pickle_list(&writer);
        uint64_t counted = pickle_dict(&writer);
        pickle_text(&writer, "c");
        pickle_number(&writer, 1);
        pickle_dict_end(&writer);
        uint64_t kept = pickle_dict(&writer);
        pickle_text(&writer, "k");
        pickle_text(&writer, "c");
        pickle_dict_end(&writer);
        pickle_op(&writer, ']');
        uint64_t empty = pickle_put(&writer);
        uint64_t plain = pickle_list(&writer);
        pickle_number(&writer, 1);
        pickle_list_end(&writer);
        pickle_get(&writer, counted);
        pickle_get(&writer, kept);
        pickle_get(&writer, empty);
        pickle_get(&writer, plain);
        pickle_list_end(&writer);
        pickle_end(&writer);
        assert_int_equal(read_bytes(&seen, writer.bytes, writer.length), LOG_FINE);
        assert_int_equal(seen.result.protocol, protocol);
        assert_string_equal(seen.text, "{c:1}{k:c}[counted 0 kept 1001 list of 0 list of 1 "
                                       "counted 0 kept 1001 list of 0 other]");
        pickle_release(&writer);
    }
}

/* Enough dicts for several pages of the memo; some are not in it, and some lie inside another. */
static void test_counted_values_are_found_among_thousands(void **state)
{
    enum {
        DICTS = 9000
    };
    static uint64_t index_of[DICTS];
    static uint64_t payload_of[DICTS];
    struct pickle_writer writer;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_list(&writer);
    uint64_t payload = 0;
    for (size_t i = 0; i < DICTS; i++) {
        pickle_op(&writer, '}');
        bool memo = i % 7 != 3;
        index_of[i] = memo ? pickle_put(&writer) : UINT64_MAX;
        pickle_op(&writer, '(');
        pickle_text(&writer, "c");
        if (i % 11 == 0) { /* an inner one is counted before the outer one */
            pickle_dict(&writer);
            pickle_text(&writer, "c");
            pickle_number(&writer, i);
            pickle_dict_end(&writer);
            payload++;
        } else {
            pickle_number(&writer, i);
        }
        pickle_dict_end(&writer);
        payload_of[i] = payload++;
    }
    pickle_list_end(&writer);
    size_t length = writer.length;
    for (size_t i = 0; i < DICTS; i += 13) {
        struct seen seen;
        if (index_of[i] == UINT64_MAX)
            continue;
        /* The list is followed by a dict with what is got from the memo. */
        writer.length = length;
        pickle_bytes(&writer, "}\x8c\x01x", 4);
        pickle_get(&writer, index_of[i]);
        pickle_op(&writer, 's');
        pickle_op(&writer, 0x86);
        pickle_end(&writer);
        assert_int_equal(read_bytes(&seen, writer.bytes, writer.length), LOG_FINE);
        assert_int_equal(seen.last_x.kind, PICKLE_COUNTED);
        assert_int_equal(seen.last_x.payload, payload_of[i]);
    }
    pickle_release(&writer);
}

static bool is_data(unsigned int byte)
{
    static const unsigned char data[] = "(.BCGJKMNX]adehjlqrst)u}\x80\x85\x86\x87\x88\x89\x8a\x8b"
                                        "\x8c\x8d\x8e\x94\x95\x96";
    return byte != 0 && memchr(data, (int)byte, sizeof(data) - 1) != NULL;
}

static void test_every_other_opcode_is_refused_where_it_stands(void **state)
{
    size_t refused = 0;
    (void)state;
    for (unsigned int byte = 0; byte < 256; byte++) {
        unsigned char bytes[] = "\x80\x04K\x01K\x02_os\nsystem\n0123456789.";
        struct seen seen;
        if (is_data(byte))
            continue;
        bytes[6] = (unsigned char)byte;
        assert_int_equal(read_bytes(&seen, bytes, sizeof(bytes) - 1), LOG_BAD);
        assert_memory_equal(seen.problem.text, "byte 7: ", 8);
        bool named = strstr(seen.problem.text, "is refused") != NULL;
        assert_true(named || strstr(seen.problem.text, "is no opcode"));
        refused += named;
    }
    assert_int_equal(refused, 30);
}

static void test_opcodes_that_run_things_are_named(void **state)
{
    static const struct {
        unsigned char byte;
        const char *name;
    } cases[] = {{'c', "GLOBAL"},     {'R', "REDUCE"},        {'b', "BUILD"}, {'i', "INST"},
                 {'P', "PERSID"},     {'Q', "BINPERSID"},     {'o', "OBJ"},   {0x81, "NEWOBJ"},
                 {0x92, "NEWOBJ_EX"}, {0x93, "STACK_GLOBAL"}, {0x82, "EXT1"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char bytes[] = {0x80, 4, cases[i].byte, '.'};
        struct seen seen;
        char expected[128];
        snprintf(expected, sizeof(expected), "byte 3: the opcode %s is refused", cases[i].name);
        assert_int_equal(read_bytes(&seen, bytes, sizeof(bytes)), LOG_BAD);
        assert_non_null(strstr(seen.problem.text, expected));
    }
}

static void expect_bad(const void *bytes, size_t length, const char *sentence)
{
    struct seen seen;
    assert_int_equal(read_bytes(&seen, bytes, length), LOG_BAD);
    if (!strstr(seen.problem.text, sentence))
        fail_msg("expected \"%s\" in \"%s\"", sentence, seen.problem.text);
}
#define BAD(literal, sentence) expect_bad(literal, sizeof(literal) - 1, sentence)

static void test_damage_gets_a_sentence(void **state)
{
    (void)state;
    BAD("", "nothing in it");
    BAD("hello", "does not begin as a pickle");
    BAD("(dp0\n.", "does not begin as a pickle");
    BAD("\x80\x06N.", "byte 2: pickle protocol 6 is not known");
    BAD("\x80\x01N.", "protocol 1 is not known");
    BAD("\x80\x04\x80\x04N.", "byte 3: ");
    BAD("\x80\x04.", "belong nowhere");
    BAD("\x80\x04NN.", "belong nowhere");
    BAD("\x80\x04(N.", "belong nowhere");
    BAD("\x80\x04N.N", "byte 5: something follows");
    BAD("\x80\x04"
        "e.",
        "no MARK");
    BAD("\x80\x04(e.", "nothing is there to be filled");
    BAD("\x80\x04N(Ne.", "no new list");
    BAD("\x80\x04N(NNu.", "no new dict");
    BAD("\x80\x04}(Nu.", "a key has no value");
    BAD("\x80\x04}Ns.", "too little is on the stack");
    BAD("\x80\x04"
        "a.",
        "too little is on the stack");
    BAD("\x80\x04](a.", "too little is on the stack");
    BAD("\x80\x04K\x01\x86.", "too little is on the stack");
    BAD("\x80\x04\x94.", "too little is on the stack");
    BAD("\x80\x04h\x00.", "number 0 of the memo was never put there");
    BAD("\x80\x04j\xff\xff\xff\xff.", "number 4294967295 of the memo was never put there");
    BAD("\x80\x04Nr\xff\xff\xff\xff.", "the memo has no room for the number 4294967295");
    BAD("\x80\x04Nq\x00q\x00.", "the number 0 of the memo is given twice");
    BAD("\x80\x04]q\x00q\x01.", "put into the memo twice");
    BAD("\x80\x04]q\x00h\x00Na.", "no new list");
    BAD("\x80\x04}q\x00h\x00NNs.", "no new dict");
    BAD("\x80\x04\x8b\xff\xff\xff\xff.", "negative length");
}

static void test_lengths_beyond_the_end_are_cut_off_and_nothing_worse(void **state)
{
    (void)state;
    BAD("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.", "byte 14: the pickle is cut off here");
    BAD("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx.", "is cut off");
    BAD("\x80\x04X\xff\xff\xff\xffx.", "is cut off");
    BAD("\x80\x04\x8b\xff\xff\xff\x7fx.", "is cut off");
    BAD("\x80\x04\x8c\xffx.", "is cut off");
    BAD("\x80\x04\x8a\xffx.", "is cut off");
}

static void test_a_pickle_cut_off_at_any_byte_is_refused(void **state)
{
    struct pickle_writer writer;
    (void)state;
    for (unsigned int protocol = 2; protocol <= 5; protocol++) {
        pickle_begin(&writer, protocol);
        pickle_dict(&writer);
        pickle_text(&writer, "x");
        pickle_number(&writer, UINT64_C(1) << 40);
        pickle_text(&writer, "a longer text");
        pickle_list(&writer);
        pickle_number(&writer, 70000);
        pickle_number(&writer, 700);
        pickle_list_end(&writer);
        pickle_dict_end(&writer);
        pickle_end(&writer);
        struct seen seen;
        assert_int_equal(read_bytes(&seen, writer.bytes, writer.length), LOG_FINE);
        for (size_t length = 0; length < writer.length; length++)
            assert_int_equal(read_bytes(&seen, writer.bytes, length), LOG_BAD);
        pickle_release(&writer);
    }
}

static void test_marks_do_not_lie_deeper_than_the_limit(void **state)
{
    struct pickle_writer writer;
    (void)state;
    for (size_t depth = PICKLE_DEPTH; depth <= PICKLE_DEPTH + 1; depth++) {
        struct seen seen;
        pickle_begin(&writer, 4);
        for (size_t i = 0; i < depth; i++)
            pickle_list(&writer);
        for (size_t i = 0; i < depth; i++)
            pickle_list_end(&writer);
        pickle_end(&writer);
        int status = read_bytes(&seen, writer.bytes, writer.length);
        assert_int_equal(status, depth == PICKLE_DEPTH ? LOG_FINE : LOG_BAD);
        if (status != LOG_FINE)
            assert_non_null(strstr(seen.problem.text, "inside each other"));
        pickle_release(&writer);
    }
}

static void test_a_text_longer_than_any_buffer_is_passed_over(void **state)
{
    struct pickle_writer writer;
    struct seen seen;
    (void)state;
    char *long_text = malloc(3000000);
    assert_non_null(long_text);
    memset(long_text, 'x', 3000000);
    pickle_begin(&writer, 4);
    pickle_dict(&writer);
    pickle_text(&writer, "x");
    pickle_bytes(&writer, "X\xc0\xc6\x2d\x00", 5); /* 3,000,000 */
    pickle_bytes(&writer, long_text, 3000000);
    pickle_text(&writer, "y");
    pickle_number(&writer, 5);
    pickle_dict_end(&writer);
    pickle_end(&writer);
    assert_int_equal(read_bytes(&seen, writer.bytes, writer.length), LOG_FINE);
    assert_string_equal(seen.text, "{x:other y:5}");
    pickle_release(&writer);
    free(long_text);
}

static bool read_under_chaos(struct chaos *chaos, void *context)
{
    const struct pickle_writer *writer = context;
    struct seen seen;
    int status = read_with(&seen, writer->bytes, writer->length, &chaos->memory);
    assert_true(status == LOG_FINE || status == LOG_NO_MEMORY);
    return status == LOG_FINE;
}

static void test_reading_ends_cleanly_when_memory_runs_out(void **state)
{
    struct pickle_writer writer;
    (void)state;
    pickle_begin(&writer, 4);
    pickle_list(&writer);
    for (size_t i = 0; i < 300; i++) {
        uint64_t index = pickle_dict(&writer);
        pickle_text(&writer, i % 3 == 0 ? "k" : "c");
        pickle_number(&writer, i);
        pickle_dict_end(&writer);
        pickle_get(&writer, index);
    }
    pickle_list_end(&writer);
    pickle_end(&writer);
    assert_true(chaos_loop(read_under_chaos, &writer) > 5);
    pickle_release(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_of_a_number_is_read),
        cmocka_unit_test(test_every_form_of_a_text_or_of_bytes_is_read),
        cmocka_unit_test(test_tuples_keep_only_pairs_of_small_numbers),
        cmocka_unit_test(test_containers_of_the_old_form_and_pair_by_pair),
        cmocka_unit_test(test_what_was_put_into_the_memo_comes_back),
        cmocka_unit_test(test_counted_values_are_found_among_thousands),
        cmocka_unit_test(test_every_other_opcode_is_refused_where_it_stands),
        cmocka_unit_test(test_opcodes_that_run_things_are_named),
        cmocka_unit_test(test_damage_gets_a_sentence),
        cmocka_unit_test(test_lengths_beyond_the_end_are_cut_off_and_nothing_worse),
        cmocka_unit_test(test_a_pickle_cut_off_at_any_byte_is_refused),
        cmocka_unit_test(test_marks_do_not_lie_deeper_than_the_limit),
        cmocka_unit_test(test_a_text_longer_than_any_buffer_is_passed_over),
        cmocka_unit_test(test_reading_ends_cleanly_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
