/* The short way and the long way through a request agree on every line.
 *
 * Lines are made from a fixed seed: requests out of the table of methods, with values that are
 * right, nearly right and wrong, blanks and orders of all sorts, and bytes changed here and there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proto/request.h"
#include "proto/request_short.h"
#include "tests/support/request_ways.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    LINE_ROOM = 4096,
    LINES = 60000
};

struct maker {
    uint64_t random;
    char line[LINE_ROOM];
    size_t length;
};

static size_t draw(struct maker *maker, size_t below)
{
    maker->random = maker->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(maker->random >> 33) % below;
}

static void put(struct maker *maker, const char *text)
{
    size_t length = strlen(text);
    assert_true(maker->length + length < LINE_ROOM);
    memcpy(maker->line + maker->length, text, length);
    maker->length += length;
}

static void put_blanks(struct maker *maker)
{
    static const char *const blanks[] = {"", "", "", "", "", "", " ", "  ", "\t", "\r", " \t"};
    put(maker, blanks[draw(maker, COUNT(blanks))]);
}

/* Half of the draws are the first one. */
static const char *choose(struct maker *maker, const char *const *texts, size_t count)
{
    return texts[draw(maker, 2) ? 0 : draw(maker, count)];
}

#define CHOOSE(maker, ...)                                                                         \
    choose(maker, (const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})))

static const char *any_value(struct maker *maker, enum parameter_type type)
{
    if (draw(maker, 40) == 0)
        return CHOOSE(maker, "null", "[]", "{}", "1", "\"a\"", "true", "0.5", "[{\"a\":1}]");
    switch (type) {
    case PARAMETER_TYPE_INTEGER:
        return CHOOSE(maker, "1", "0", "1000", "1001", "4096", "1000000", "1000001", "-0", "-1",
                      "01", "9007199254740991", "9007199254740992", "18446744073709551615",
                      "18446744073709551616", "9999999999999999999", "10000000000000000000", "1.0",
                      "1e3", "4096x", "123456789012345678901234567890", "\"1\"", "4294967296",
                      "4294967297");
    case PARAMETER_TYPE_PROBABILITY:
        return CHOOSE(maker, "0.5", "0", "1", "1.5", "-0.0", "1e-3", "2", "\"0.5\"");
    case PARAMETER_TYPE_BOOLEAN:
        return CHOOSE(maker, "true", "false", "tru", "falsee", "True", "0", "null");
    case PARAMETER_TYPE_TEXT:
    case PARAMETER_TYPE_NAME:
        return CHOOSE(maker, "\"gpu0\"", "\"\"", "\"a.b_c-d\"", "\"-a\"", "\"a b\"", "\"\\u0061\"",
                      "\"\xc3\xa9\"", "\"a\\\"b\"", "\"\x7f\"", "\"a\tb\"", "\"~\"",
                      "\"alignment=256 order=address\"",
                      "\"0123456789012345678901234567890123456789012345678901234567890123\"",
                      "\"01234567890123456789012345678901234567890123456789012345678901234\"");
    case PARAMETER_TYPE_SEED:
        return CHOOSE(maker, "7", "\"7\"", "null", "-7", "-0", "\"-0\"", "\"007\"", "\"-\"", "\"\"",
                      "9007199254740991", "-9007199254740992", "\"99999999999999999999999\"", "7.0",
                      "\"7a\"", "07");
    }
    return "null";
}

static void put_member(struct maker *maker, bool *first, const char *name, const char *value)
{
    if (!*first)
        put(maker, ",");
    *first = false;
    put_blanks(maker);
    put(maker, "\"");
    put(maker, name);
    put(maker, "\"");
    put_blanks(maker);
    put(maker, ":");
    put_blanks(maker);
    put(maker, value);
    put_blanks(maker);
}

static void put_params(struct maker *maker, enum method method, bool *first)
{
    bool first_param = true;
    put_member(maker, first, "params", "{");
    for (unsigned i = 0; i < PARAMETERS; i++) {
        const struct parameter_info *info = parameter_info((enum parameter)i);
        bool taken = method != METHODS && (method_info(method)->takes >> i & 1u);
        bool required = method != METHODS && (method_info(method)->required >> i & 1u);
        if (!(required ? draw(maker, 20) > 0 : draw(maker, taken ? 2 : 200) == 0))
            continue;
        put_member(maker, &first_param, info->name, any_value(maker, info->type));
        if (draw(maker, 50) == 0)
            put_member(maker, &first_param, info->name, any_value(maker, info->type));
    }
    if (draw(maker, 50) == 0)
        put_member(maker, &first_param, CHOOSE(maker, "bogus", "", "Tag", "t\\u0061g"), "1");
    put(maker, "}");
}

static void put_id(struct maker *maker, bool *first)
{
    put_member(maker, first, "id",
               CHOOSE(maker, "1", "0", "-1", "-0", "\"\"", "\"a\"", "\"a b\"", "null", "1.0", "1e3",
                      "01", "9007199254740991", "-9007199254740991", "9007199254740992", "\"\\n\"",
                      "\"0123456789012345678901234567890123456789012345678901234567890123\"",
                      "\"01234567890123456789012345678901234567890123456789012345678901234\"",
                      "\"\xc3\xa9\"", "true", "[]"));
}

static void make_line(struct maker *maker)
{
    static const char *const wrong_methods[] = {"nonsense", "", "Info", "inf\\u006f", "infoo"};
    enum method method = (enum method)draw(maker, METHODS);
    const char *name = method_info(method)->name;
    bool first = true;
    char quoted[64] = "\"";
    if (draw(maker, 50) == 0) {
        name = wrong_methods[draw(maker, COUNT(wrong_methods))];
        method = METHODS;
    }
    memcpy(quoted + 1, name, strlen(name));
    memcpy(quoted + 1 + strlen(name), "\"", 2);
    maker->length = 0;
    put_blanks(maker);
    put(maker, "{");
    for (size_t turn = 0, start = draw(maker, 4); turn < 4; turn++) {
        switch ((start + turn) % 4) {
        case 0:
            if (draw(maker, 10) > 0)
                put_id(maker, &first);
            break;
        case 1:
            if (draw(maker, 40) > 0)
                put_member(maker, &first, "method", draw(maker, 60) ? quoted : "1");
            break;
        case 2:
            if (draw(maker, 5) > 0)
                put_params(maker, method, &first);
            break;
        default:
            if (draw(maker, 3) == 0)
                put_member(maker, &first, "jsonrpc",
                           CHOOSE(maker, "\"2.0\"", "\"2.1\"", "2.0", "\"\""));
            if (draw(maker, 60) == 0)
                put_member(maker, &first, CHOOSE(maker, "extra", "id", "method", "Id"), "1");
        }
    }
    put(maker, "}");
    put_blanks(maker);
}

/* Changes, drops or doubles a byte. */
static void mutate(struct maker *maker)
{
    static const char bytes[] = "{}[]\",:0123456789-+.eEtfn\\u \t\r\n\x01\x7f\x80\xc3\xa9";
    size_t at = draw(maker, maker->length);
    switch (draw(maker, 3)) {
    case 0:
        maker->line[at] = bytes[draw(maker, sizeof(bytes))];
        break;
    case 1:
        memmove(maker->line + at, maker->line + at + 1, maker->length - at - 1);
        maker->length--;
        break;
    default:
        assert_true(maker->length + 1 < LINE_ROOM);
        memmove(maker->line + at + 1, maker->line + at, maker->length - at);
        maker->length++;
    }
}

static void with_decoders(void (*work)(struct request_decoder decoders[2]))
{
    struct request_decoder decoders[2];
    for (int way = 0; way < 2; way++)
        request_decoder_init(&decoders[way], memory_system());
    work(decoders);
    for (int way = 0; way < 2; way++)
        request_decoder_release(&decoders[way]);
}

static void compare_made_lines(struct request_decoder decoders[2])
{
    struct maker maker = {.random = 20240607};
    unsigned went_short = 0;
    for (int i = 0; i < LINES; i++) {
        make_line(&maker);
        went_short += request_ways_agree(decoders, maker.line, maker.length);
    }
    /* Both ways were really walked. */
    assert_true(went_short > LINES / 10);
    assert_true(went_short < LINES * 9 / 10);
}

static void test_both_ways_agree_on_made_lines(void **state)
{
    (void)state;
    with_decoders(compare_made_lines);
}

static void compare_mutated_lines(struct request_decoder decoders[2])
{
    struct maker maker = {.random = 7};
    unsigned went_short = 0;
    for (int i = 0; i < LINES; i++) {
        make_line(&maker);
        for (size_t changes = draw(&maker, 3) + 1; changes > 0 && maker.length > 1; changes--)
            mutate(&maker);
        went_short += request_ways_agree(decoders, maker.line, maker.length);
    }
    assert_true(went_short > LINES / 200);
}

static void test_both_ways_agree_on_mutated_lines(void **state)
{
    (void)state;
    with_decoders(compare_mutated_lines);
}

static const char USUAL[] =
    "{\"jsonrpc\":\"2.0\",\"id\":17,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096,"
    "\"tag\":\"weights-3\",\"stream\":2,\"detached\":false,\"allocator\":\"gpu0\"}}";

static void compare_cuts_and_changes(struct request_decoder decoders[2])
{
    char line[sizeof(USUAL)];
    for (size_t length = 0; length < sizeof(USUAL); length++)
        request_ways_agree(decoders, USUAL, length);
    for (size_t at = 0; at < sizeof(USUAL) - 1; at++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(line, USUAL, sizeof(line));
            line[at] = (char)byte;
            request_ways_agree(decoders, line, sizeof(USUAL) - 1);
        }
}

static void test_both_ways_agree_on_every_change_of_one_byte(void **state)
{
    (void)state;
    with_decoders(compare_cuts_and_changes);
}

static void test_usual_lines_go_the_short_way(void **state)
{
    (void)state;
    static const char *const lines[] = {
        USUAL,
        "{\"id\":1,\"method\":\"info\"}",
        "{\"id\":\"x\",\"method\":\"snapshot\",\"params\":{}}",
        "{\"method\":\"free\",\"params\":{\"handle\":\"1-00112233445566778899aabbccddeeff\"}}",
        "{\"id\":-5,\"method\":\"free\",\"params\":{\"tag\":\"a b\"}}",
        "{ \"params\" : { \"limit\" : 10 , \"after\" : 0 } , \"id\" : 1 , \"method\" : \"trace\" }",
        "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"a\",\"seed\":7,\"gpu_capacity\":1}}"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct request request;
        if (!request_short(lines[i], strlen(lines[i]), &request))
            fail_msg("went the long way: %s", lines[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways_agree_on_made_lines),
        cmocka_unit_test(test_both_ways_agree_on_mutated_lines),
        cmocka_unit_test(test_both_ways_agree_on_every_change_of_one_byte),
        cmocka_unit_test(test_usual_lines_go_the_short_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
