/* A daemon whose reads and writes of sockets and files carry one byte each: the whole protocol
 * works, and every answer is the same to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/interposer.h"
#include "tests/support/real_daemon.h"

enum {
    HANDLE_DIGITS = 32,
    LONGEST_MS = 600000,
    ANSWERS_SIZE = 1 << 20
};

static const char *const conversation[] = {
    "{\"id\":1,\"method\":\"hello\",\"params\":{\"name\":\"one\"}}",
    "{\"id\":2,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1000,\"tag\":\"a\"}}",
    "{\"id\":4,\"method\":\"allocate\",\"params\":{\"requested_bytes\":5000,\"tag\":\"b\"}}",
    "{\"id\":5,\"method\":\"unsubscribe\"}", /* when events come is a matter of time */
    "{\"id\":6,\"method\":\"free\",\"params\":{\"tag\":\"a\"}}",
    "{\"id\":7,\"method\":\"open\",\"params\":{\"name\":\"mine\",\"policy\":\"torch\",\"seed\":1}}",
    "{\"id\":8,\"method\":\"allocate\",\"params\":{\"allocator\":\"mine\",\"requested_bytes\":9}}",
    "{\"id\":9,\"method\":\"statistics\",\"params\":{\"allocator\":\"mine\"}}",
    "{\"id\":10,\"method\":\"nothing\"}",
    "this is no JSON",
    "{\"id\":11,\"method\":\"inject\",\"params\":{\"action\":\"out_of_memory\",\"nth\":2}}",
    "{\"id\":12,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}",
    "{\"id\":13,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}",
    "{\"id\":14,\"method\":\"rules\"}",
    "{\"id\":15,\"method\":\"list\"}",
    "{\"id\":16,\"method\":\"trace\"}",
    "{\"id\":17,\"method\":\"map\"}",
    "{\"id\":18,\"method\":\"snapshot\"}",
    "{\"id\":19,\"method\":\"resize\",\"params\":{\"gpu_capacity\":1000000}}",
    "{\"id\":20,\"method\":\"close\",\"params\":{\"allocator\":\"mine\"}}",
    "{\"id\":21,\"method\":\"validate\"}",
};

/* What differs from one daemon to the next becomes #: the digits of handles and of moments. */
static void mask(char *text)
{
    static const char moment[] = "_us\":";
    for (char *place = text; *place; place++) {
        size_t length = strspn(place, "0123456789abcdef");
        if (length == HANDLE_DIGITS)
            memset(place, '#', length);
        else if (strncmp(place, moment, sizeof(moment) - 1) == 0)
            for (char *digit = place + sizeof(moment) - 1; isdigit((unsigned char)*digit); digit++)
                *digit = '#';
        else if (length > 1)
            place += length - 1;
    }
}

/* The environment of a program whose transfers are short. */
static const char *const *short_transfers(struct real_room *room)
{
    static const char *environment[4];
    const char *asan = getenv("ASAN_OPTIONS");
    environment[0] =
        real_room_text(room, "LD_PRELOAD=%s", real_program(room, "tests/faults/interposer.so"));
    environment[1] =
        real_room_text(room, "ASAN_OPTIONS=%s:verify_asan_link_order=0", asan ? asan : "");
    environment[2] = INTERPOSER_BYTEWISE "=1";
    environment[3] = NULL;
    return environment;
}

/* How often a process has read (by read(2) and its kin). */
static uint64_t reads_of(const struct real_daemon *daemon)
{
    char path[64];
    char text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/io", (int)daemon->process->pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    const char *place = strstr(text, "syscr: ");
    assert_non_null(place);
    return strtoull(place + strlen("syscr: "), NULL, 10);
}

/* All answers, masked, in one text. */
static char *talk(struct real_room *room, const char *name, const char *const *environment,
                  uint64_t *reads)
{
    const struct real_setup setup = {.environment = environment};
    char *answers = calloc(1, ANSWERS_SIZE);
    assert_non_null(answers);
    struct real_daemon daemon = real_daemon_start_at(
        room, &setup, REAL_DAEMON_TOLD, real_room_path(room, name), "--seed", "5", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    size_t length = 0;
    uint64_t before = reads_of(&daemon);
    for (size_t index = 0; index < sizeof(conversation) / sizeof(conversation[0]); index++)
        real_client_send(client, conversation[index]);
    real_client_shutdown(client);
    const char *line;
    while ((line = real_client_line(client)) != NULL) {
        int more = snprintf(answers + length, ANSWERS_SIZE - length, "%s\n", line);
        assert_true(more > 0 && (size_t)more < ANSWERS_SIZE - length);
        length += (size_t)more;
    }
    *reads = reads_of(&daemon) - before;
    real_client_close(client);
    real_daemon_stop(&daemon);
    mask(answers);
    return answers;
}

static void test_byte_by_byte_every_answer_is_the_same(void **state)
{
    struct real_room *room = *state;
    uint64_t whole_reads;
    uint64_t short_reads;
    size_t sent = 0;
    for (size_t index = 0; index < sizeof(conversation) / sizeof(conversation[0]); index++)
        sent += strlen(conversation[index]) + 1;
    char *whole = talk(room, "w", NULL, &whole_reads);
    char *parts = talk(room, "p", short_transfers(room), &short_reads);
    assert_true(whole_reads < sent / 4);
    assert_true(short_reads >= sent); /* it really was so */
    assert_int_equal(real_lines(whole), sizeof(conversation) / sizeof(conversation[0]));
    assert_string_equal(whole, parts);
    free(whole);
    free(parts);
}

/* The programs of other tests, and all that they start. That takes its time: only `make faults`
 * has it. */
static void run_under_short_transfers(struct real_room *room, const char *name)
{
    const struct real_setup setup = {.environment = short_transfers(room)};
    if (!getenv("WORSEGPU_FAULTS")) {
        print_message("skipped: this is for make faults\n");
        skip();
    }
    struct real_process *process =
        real_process_start(room, &setup, real_program(room, name), (char *)NULL);
    uint64_t until_ms = real_now_ms() + LONGEST_MS;
    while (!real_process_has_ended(process) && real_now_ms() < until_ms)
        usleep(10000);
    if (!process->ended || process->status != 0)
        fail_msg("%s: %.3000s %.1000s", name, real_process_output(room, process),
                 real_process_errors(room, process));
}

static void test_byte_by_byte_the_examples_of_the_contract_hold(void **state)
{
    run_under_short_transfers(*state, "tests/integration/test_protocol_examples");
}

static void test_byte_by_byte_the_metrics_file_is_whole(void **state)
{
    run_under_short_transfers(*state, "tests/integration/test_metrics_file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_byte_by_byte_every_answer_is_the_same),
        IN_ROOM(test_byte_by_byte_the_examples_of_the_contract_hold),
        IN_ROOM(test_byte_by_byte_the_metrics_file_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
