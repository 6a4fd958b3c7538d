/* Holding the two ways through a request against each other; see request_ways.h. */
#include "tests/support/request_ways.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/request_short.h"

static void assert_same_text(const struct request_text *a, const struct request_text *b)
{
    assert_int_equal(a->length, b->length);
    if (a->length > 0)
        assert_memory_equal(a->bytes, b->bytes, a->length);
}

static void assert_same_value(struct request *a, struct request *b, enum parameter parameter)
{
    void *left = request_field(&a->params, parameter);
    void *right = request_field(&b->params, parameter);
    const struct request_seed *left_seed = left;
    const struct request_seed *right_seed = right;
    switch (parameter_info(parameter)->type) {
    case PARAMETER_TYPE_INTEGER:
        assert_int_equal(*(uint64_t *)left, *(uint64_t *)right);
        break;
    case PARAMETER_TYPE_PROBABILITY:
        assert_memory_equal(left, right, sizeof(double));
        break;
    case PARAMETER_TYPE_BOOLEAN:
        assert_int_equal(*(bool *)left, *(bool *)right);
        break;
    case PARAMETER_TYPE_TEXT:
    case PARAMETER_TYPE_NAME:
        assert_same_text(left, right);
        break;
    case PARAMETER_TYPE_SEED:
        assert_int_equal(left_seed->given, right_seed->given);
        if (left_seed->given) {
            assert_int_equal(left_seed->is_string, right_seed->is_string);
            assert_same_text(&left_seed->decimal, &right_seed->decimal);
        }
        break;
    }
}

static void assert_same_request(struct request *a, struct request *b)
{
    assert_int_equal(a->id.kind, b->id.kind);
    if (a->id.kind == REQUEST_ID_INTEGER)
        assert_int_equal(a->id.integer, b->id.integer);
    if (a->id.kind == REQUEST_ID_STRING) {
        assert_int_equal(a->id.length, b->id.length);
        assert_memory_equal(a->id.string, b->id.string, a->id.length);
    }
    assert_int_equal(a->notification, b->notification);
    assert_int_equal(a->method, b->method);
    assert_int_equal(a->given, b->given);
    for (unsigned i = 0; i < PARAMETERS; i++)
        if (request_has(a, (enum parameter)i))
            assert_same_value(a, b, (enum parameter)i);
}

bool request_ways_agree(struct request_decoder decoders[2], const char *bytes, size_t length)
{
    static struct request requests[2];
    static struct request_problem problems[2];
    enum request_result results[2];
    struct request unused;
    char *line = malloc(length ? length : 1);
    assert_non_null(line);
    if (length)
        memcpy(line, bytes, length);
    for (int way = 0; way < 2; way++) {
        memset(&requests[way], way ? 0x11 : 0x22, sizeof(requests[way]));
        requests[way].notification = way;
        decoders[way].long_way_only = way == 1;
        results[way] = request_decode(&decoders[way], line, length, &requests[way], &problems[way]);
    }
    if (results[0] != results[1])
        fail_msg("%d the usual way, %d the long way: %.*s", results[0], results[1], (int)length,
                 bytes);
    assert_same_request(&requests[0], &requests[1]);
    if (results[0] == REQUEST_REFUSED) {
        assert_int_equal(problems[0].kind, problems[1].kind);
        assert_string_equal(problems[0].message, problems[1].message);
        assert_same_text(&problems[0].data, &problems[1].data);
    }
    bool was_short = request_short(line, length, &unused);
    assert_false(was_short && results[1] != REQUEST_FINE);
    free(line);
    return was_short;
}
