/* Fuzz target: the short way and the long way through a request agree on every line, accepted or
 * refused, and a parse error is what a second judge of JSON calls wrong.
 *
 * The input is the line. */
#include "base/memory.h"
#include "proto/request.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/naive_json.h"
#include "tests/support/request_ways.h"

/* A message is one printable line that was not cut. */
static void check_message(const struct request_problem *problem)
{
    size_t length = strnlen(problem->message, sizeof(problem->message));
    insist(length > 10 && length < sizeof(problem->message) - 1);
    for (size_t i = 0; i < length; i++)
        insist(problem->message[i] >= 0x20 && problem->message[i] < 0x7f);
    insist(!problem->data_name || problem->data.length <= PROTO_MAX_ECHO_BYTES);
}

static void check_id(const struct request_id *id)
{
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), 8192);
    request_id_write(&writer, id);
    insist(writer.failure == JSON_WRITER_FINE);
    insist(naive_json_is_strict(writer.data, writer.length, NULL, NULL));
    json_writer_release(&writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request_decoder decoders[2];
    struct request request;
    struct request_problem problem;
    char *line = fuzz_copy(data, size);
    for (int way = 0; way < 2; way++)
        request_decoder_init(&decoders[way], memory_system());
    request_ways_agree(decoders, line, size);
    enum request_result result = request_decode(&decoders[0], line, size, &request, &problem);
    bool strict = naive_json_is_strict(line, size, NULL, NULL);
    bool parse_error = result == REQUEST_REFUSED && problem.kind == ERROR_PARSE_ERROR;
    insist(result != REQUEST_NO_MEMORY);
    insist(result == REQUEST_EMPTY ? !strict : parse_error == !strict);
    if (result == REQUEST_REFUSED)
        check_message(&problem);
    check_id(&request.id);
    for (int way = 0; way < 2; way++)
        request_decoder_release(&decoders[way]);
    free(line);
    return 0;
}
