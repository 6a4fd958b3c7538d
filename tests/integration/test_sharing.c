/* Many processes on one fake GPU, some of which die without a word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

enum {
    WORKERS = 8,
    KILLS = 40,
    KEPT = 5
};

/* ------------------------------------------------------------------ in a worker's process, no
 * cmocka there */

struct worker {
    const char *socket_path;
    unsigned seed;
    bool detached;
};

/* Sends a line and reads the answer; false when that does not work. */
static bool ask(int descriptor, const char *line, char *answer, size_t size)
{
    size_t length = 0;
    if (send(descriptor, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        return false;
    do {
        ssize_t count = recv(descriptor, answer + length, size - 1 - length, 0);
        if (count <= 0)
            return false;
        length += (size_t)count;
    } while (answer[length - 1] != '\n');
    answer[length] = '\0';
    return true;
}

/* Allocates and frees for ever, and writes each id it was given to stdout. */
static int work(void *context)
{
    const struct worker *worker = context;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char line[256];
    char answer[1024];
    unsigned number = worker->seed;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", worker->socket_path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 ||
        connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return 91;
    for (unsigned tag = 0;; tag++) {
        number = number * 1103515245u + 12345u; /* any spread of sizes will do */
        snprintf(
            line, sizeof(line),
            "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":%u,\"tag\":\"t%u\","
            "\"detached\":%s}}\n",
            number % 100000 + 1, tag, worker->detached ? "true" : "false");
        if (!ask(descriptor, line, answer, sizeof(answer)))
            return 92;
        const char *id = strstr(answer, "\"allocation_id\":");
        if (!id)
            return 93;
        dprintf(STDOUT_FILENO, "%lu\n", strtoul(id + strlen("\"allocation_id\":"), NULL, 10));
        if (worker->detached && tag + 1 == KEPT)
            pause();
        if (!worker->detached && tag % 3 != 0) { /* a third of them stays until the end */
            snprintf(line, sizeof(line),
                     "{\"id\":2,\"method\":\"free\",\"params\":{\"tag\":\"t%u\"}}\n", tag);
            if (!ask(descriptor, line, answer, sizeof(answer)) || !strstr(answer, "\"result\""))
                return 94;
        }
    }
}

/* ------------------------------------------------------------------------------------------- in
 * the test */

static struct real_process *start_worker(struct real_room *room, struct worker worker)
{
    return real_process_fork(room, NULL, work, &worker);
}

static void wait_for_ids(struct real_room *room, struct real_process *process, unsigned count)
{
    struct real_wait wait = {0};
    while (real_lines(real_process_output(room, process)) < count) {
        if (real_process_has_ended(process))
            fail_msg("a worker ended with %d", process->status);
        real_wait_more(&wait);
    }
}

static void kill_worker(struct real_process *process)
{
    real_process_signal(process, SIGKILL);
    assert_int_equal(real_process_wait(process), 128 + SIGKILL);
}

static uint64_t live_allocations(struct real_client *client)
{
    return real_json_number(real_client_call(client, "{\"id\":1,\"method\":\"snapshot\"}"),
                            "result.active_allocations");
}

static void wait_for_live(struct real_client *client, uint64_t count)
{
    struct real_wait wait = {0};
    while (live_allocations(client) != count)
        real_wait_more(&wait);
}

static void expect_valid(struct real_client *client)
{
    assert_true(real_json_true(real_client_call(client, "{\"id\":1,\"method\":\"validate\"}"),
                               "result.valid"));
}

static int compare_numbers(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* All ids that workers have written must differ. */
static void expect_unique_ids(struct real_room *room)
{
    size_t count = 0;
    size_t lines = 0;
    for (const struct real_process *process = room->processes; process; process = process->next)
        lines += real_lines(real_process_output(room, process));
    assert_true(lines > WORKERS);
    uint64_t *ids = test_calloc(lines, sizeof(*ids));
    for (const struct real_process *process = room->processes; process; process = process->next) {
        const char *text = real_process_output(room, process);
        for (char *end; strchr(text, '\n') && count < lines; text = end + 1)
            ids[count++] = strtoull(text, &end, 10);
    }
    assert_int_equal(count, lines);
    qsort(ids, count, sizeof(*ids), compare_numbers);
    unsigned twice = 0;
    for (size_t index = 1; index < count; index++)
        twice += ids[index] == ids[index - 1];
    test_free(ids);
    assert_int_equal(twice, 0);
}

static void test_nothing_of_killed_processes_is_left(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "11", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    struct real_process *workers[WORKERS];
    unsigned number = 5;
    for (unsigned index = 0; index < WORKERS; index++)
        workers[index] = start_worker(*state, (struct worker){daemon.socket_path, index, false});
    for (unsigned kill = 0; kill < KILLS; kill++) {
        number = number * 1103515245u + 12345u;
        unsigned victim = number / 65536u % WORKERS;
        wait_for_ids(*state, workers[victim], 3);
        kill_worker(workers[victim]);
        workers[victim] =
            start_worker(*state, (struct worker){daemon.socket_path, kill + WORKERS, false});
        expect_valid(client);
    }
    for (unsigned index = 0; index < WORKERS; index++) {
        wait_for_ids(*state, workers[index], 3);
        kill_worker(workers[index]);
    }
    wait_for_live(client, 0);
    const cJSON *list = real_client_call(client, "{\"id\":1,\"method\":\"list\"}");
    assert_int_equal(cJSON_GetArraySize(real_json(list, "result.allocations")), 0);
    const cJSON *snapshot = real_client_call(client, "{\"id\":1,\"method\":\"snapshot\"}");
    assert_int_equal(real_json_number(snapshot, "result.gpu_used"), 0);
    assert_int_equal(real_json_number(snapshot, "result.cpu_bytes"), 0);
    expect_valid(client);
    expect_unique_ids(*state);
    real_daemon_stop(&daemon);
}

static void test_detached_allocations_outlive_a_killed_process(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    struct real_process *worker =
        start_worker(*state, (struct worker){daemon.socket_path, 1, true});
    struct real_process *other =
        start_worker(*state, (struct worker){daemon.socket_path, 2, false});
    wait_for_ids(*state, worker, KEPT);
    wait_for_ids(*state, other, KEPT);
    kill_worker(worker);
    kill_worker(other);
    wait_for_live(client, KEPT);

    struct real_client *heir = real_daemon_connect(&daemon);
    const cJSON *list = real_client_call(heir, "{\"id\":1,\"method\":\"list\"}");
    const cJSON *item;
    cJSON_ArrayForEach(item, real_json(list, "result.allocations"))
    {
        assert_true(real_json_true(item, "detached"));
        assert_true(cJSON_IsNull(real_json(item, "client")));
        real_json(
            real_client_call(
                client, real_room_text(
                            *state, "{\"id\":2,\"method\":\"free\",\"params\":{\"handle\":\"%s\"}}",
                            real_json_text(item, "handle"))),
            "result.released");
    }
    assert_int_equal(live_allocations(client), 0);
    expect_valid(client);
    real_daemon_stop(&daemon);
}

static void test_a_private_allocator_is_its_connection_s_alone(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *owner = real_daemon_connect(&daemon);
    struct real_client *other = real_daemon_connect(&daemon);
    const char *open = "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"mine\",\"seed\":1}}";
    const char *look = "{\"id\":2,\"method\":\"snapshot\",\"params\":{\"allocator\":\"mine\"}}";
    real_json(real_client_call(owner, open), "result.name");
    real_json(real_client_call(owner, look), "result.gpu_capacity");
    real_json_expect_error(real_client_call(other, look), "unknown_allocator");
    real_json(real_client_call(other, open), "result.name"); /* the name is free for others */
    real_client_close(owner);
    real_json(real_client_call(other, look), "result.gpu_capacity");
    real_daemon_stop(&daemon);
}

static void test_equal_seeds_and_equal_requests_give_equal_decisions(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *clients[2];
    for (unsigned index = 0; index < 2; index++) {
        clients[index] = real_daemon_connect(&daemon);
        real_client_call(clients[index], "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"a\","
                                         "\"seed\":\"-99999999999999999999\"}}");
    }
    for (unsigned step = 0; step < 200; step++) {
        const char *request =
            real_room_text(*state,
                           "{\"id\":%u,\"method\":\"allocate\",\"params\":{\"requested_bytes\":%u,"
                           "\"allocator\":\"a\"}}",
                           step, step * 7919 % 50000 + 1);
        const cJSON *first = real_client_call(clients[0], request);
        const cJSON *second = real_client_call(clients[1], request);
        assert_string_equal(real_json_text(first, "result.device"),
                            real_json_text(second, "result.device"));
        assert_int_equal(real_json_number(first, "result.reserved_bytes"),
                         real_json_number(second, "result.reserved_bytes"));
        assert_string_not_equal(real_json_text(first, "result.handle"),
                                real_json_text(second, "result.handle"));
    }
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_nothing_of_killed_processes_is_left),
        IN_ROOM(test_detached_allocations_outlive_a_killed_process),
        IN_ROOM(test_a_private_allocator_is_its_connection_s_alone),
        IN_ROOM(test_equal_seeds_and_equal_requests_give_equal_decisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
