/* What the tests of requests share: decode one line, and say what must come of it. To be included
 * after the headers that cmocka needs. Nothing outlives a check, but for a `struct decoded` until
 * `done`. */
#ifndef REQUEST_CHECKS_H
#define REQUEST_CHECKS_H

#include <string.h>

#include "base/memory.h"
#include "proto/request.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define SIXTY_FOUR "\"0123456789012345678901234567890123456789012345678901234567890123\""

struct decoded {
    struct request_decoder decoder;
    struct request request;
    struct request_problem problem;
    enum request_result result;
};

static inline void decode(struct decoded *decoded, const char *line)
{
    request_decoder_init(&decoded->decoder, memory_system());
    decoded->result =
        request_decode(&decoded->decoder, line, strlen(line), &decoded->request, &decoded->problem);
}

static inline void done(struct decoded *decoded)
{
    request_decoder_release(&decoded->decoder);
}

/* The id as it is echoed. */
static inline void assert_id(const struct decoded *decoded, const char *json)
{
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), 1000);
    request_id_write(&writer, &decoded->request.id);
    assert_int_equal(writer.length, strlen(json));
    assert_memory_equal(writer.data, json, writer.length);
    json_writer_release(&writer);
}

static inline void assert_message_is_fit(const struct request_problem *problem)
{
    assert_true(memchr(problem->message, '\0', sizeof(problem->message)) != NULL);
    assert_true(strlen(problem->message) > 10);
    assert_true(strlen(problem->message) < sizeof(problem->message) - 1); /* not cut */
    for (const char *byte = problem->message; *byte; byte++)
        assert_true(*byte >= 0x20 && *byte < 0x7f);
}

/* A line is refused with this kind, id and data. `data` NULL: none. */
static inline void refused(const char *line, enum error_kind kind, const char *id,
                           const char *data_name, const char *data)
{
    struct decoded decoded;
    decode(&decoded, line);
    if (decoded.result != REQUEST_REFUSED || decoded.problem.kind != kind)
        fail_msg("not %s: %s", error_kind_name(kind), line);
    assert_false(decoded.request.notification);
    assert_message_is_fit(&decoded.problem);
    assert_id(&decoded, id);
    if (data_name) {
        assert_non_null(decoded.problem.data_name);
        assert_string_equal(decoded.problem.data_name, data_name);
        assert_int_equal(decoded.problem.data.length, strlen(data));
        assert_memory_equal(decoded.problem.data.bytes, data, strlen(data));
    } else {
        assert_null(decoded.problem.data_name);
    }
    done(&decoded);
}

static inline void accepted(struct decoded *decoded, const char *line)
{
    decode(decoded, line);
    if (decoded->result != REQUEST_FINE)
        fail_msg("refused: %s: %s", line, decoded->problem.message);
}

#endif
