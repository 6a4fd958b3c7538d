/* Several GPUs from one file, and SIGHUP: what it changes in a daemon that is at work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

enum {
    WORKERS = 6,
    RELOADS = 40,
    PIPELINED = 50,
    OTHER_USER = 1
};

/* A daemon with a configuration file. */
struct scene {
    struct real_room *room;
    const char *file;
    struct real_daemon daemon;
};

static void start(struct scene *scene, void **state, const char *content)
{
    scene->room = *state;
    scene->file = real_room_path(*state, "worsegpud.conf");
    real_room_write(*state, scene->file, content);
    scene->daemon = real_daemon_start(*state, "--config", scene->file, NULL);
}

/* Has the daemon read its file again, and waits for the line that ends it. What was logged
 * meanwhile. */
static const char *hang_up(struct scene *scene)
{
    struct real_wait wait = {0};
    const char *log = real_daemon_log(&scene->daemon);
    unsigned before = real_lines_with(log, "is read again") + real_lines_with(log, "SIGHUP: ");
    size_t length = strlen(log);
    real_process_signal(scene->daemon.process, SIGHUP);
    do {
        real_wait_more(&wait);
        log = real_daemon_log(&scene->daemon);
    } while (real_lines_with(log, "is read again") + real_lines_with(log, "SIGHUP: ") == before);
    return log + length;
}

static const char *change(struct scene *scene, const char *content)
{
    real_room_write(scene->room, scene->file, content);
    return hang_up(scene);
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("wanted '%s' in '%s'", part, text);
}

static const char info[] = "{\"id\":1,\"method\":\"info\"}";

/* ------------------------------------------------------------------------------- several GPUs */

static void test_each_gpu_of_the_file_is_served_by_its_name(void **state)
{
    struct scene scene;
    start(&scene, state,
          "[small]\ncapacity = 1MiB\nseed = 7\ngpu-probability = 1\nfallback-on-oom = false\n"
          "[large]\npolicy = reference\ncapacity = 1GiB\nseed = 8\ngpu-probability = 1\n");
    expect(real_daemon_log(&scene.daemon),
           " serves small (worse, 1.0 MiB, seed 7), large (reference, 1.0 GiB, seed 8) on ");
    struct real_client *client = real_daemon_connect(&scene.daemon);
    const cJSON *reply = real_client_call(client, info);
    assert_string_equal(real_json_text(reply, "result.allocators.0.name"), "small");
    assert_string_equal(real_json_text(reply, "result.allocators.1.name"), "large");
    assert_string_equal(real_json_text(reply, "result.allocators.1.policy"), "reference");
    reply = real_client_call(client, "{\"id\":1,\"method\":\"allocate\",\"params\":"
                                     "{\"requested_bytes\":5000000}}");
    real_json_expect_error(reply, "out_of_memory"); /* the first one is the default */
    reply = real_client_call(client, "{\"id\":1,\"method\":\"allocate\",\"params\":"
                                     "{\"requested_bytes\":5000000,\"allocator\":\"large\"}}");
    assert_string_equal(real_json_text(reply, "result.device"), "gpu");
    const char *handle = real_room_text(*state, "%s", real_json_text(reply, "result.handle"));
    reply = real_client_call(
        client,
        real_room_text(*state, "{\"id\":1,\"method\":\"free\",\"params\":{\"handle\":\"%s\"}}",
                       handle));
    real_json_expect_error(reply, "foreign_handle");
    reply =
        real_client_call(client, "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"large\"}}");
    real_json_expect_error(reply, "name_in_use");
    reply = real_client_call(client, "{\"id\":1,\"method\":\"snapshot\",\"params\":"
                                     "{\"allocator\":\"gpu0\"}}");
    real_json_expect_error(reply, "unknown_allocator");
    real_daemon_stop(&scene.daemon);
}

static void test_as_many_gpus_as_there_can_be_fit_in_one_answer(void **state)
{
    struct scene scene;
    const char *content = "max-output-bytes = 128KiB\nmax-unread-bytes = 64KiB\n";
    for (int i = 0; i < 64; i++)
        content = real_room_text(*state, "%s[%064d]\ntrace-limit = 0\n", content, i);
    start(&scene, state, content);
    const cJSON *reply = real_client_call(real_daemon_connect(&scene.daemon), info);
    assert_string_equal(real_json_text(reply, "result.allocators.63.name"),
                        real_room_text(*state, "%064d", 63));
    expect(real_daemon_log(&scene.daemon), " more on ");
    real_daemon_stop(&scene.daemon);
}

/* ------------------------------------------------------------------------------------- SIGHUP */

static void test_capacity_and_limits_change_and_connections_stay(void **state)
{
    struct scene scene;
    start(&scene, state, "[a]\n[b]\n");
    struct real_client *client = real_daemon_connect(&scene.daemon);
    real_client_call(client, info);
    const char *told =
        change(&scene, "max-rules = 5\nmax-connections = 9\n[a]\n[b]\ncapacity = 3\n");
    expect(told, "worsegpud.conf is read again: max-rules is now 5, max-connections is now 9, "
                 "capacity of b is now 3\n");
    assert_int_equal(real_lines(told), 1);
    const cJSON *reply = real_client_call(client, info);
    assert_int_equal(real_json_number(reply, "result.limits.max_rules"), 5);
    assert_int_equal(real_json_number(reply, "result.limits.max_connections"), 9);
    assert_int_equal(real_json_number(reply, "result.allocators.0.gpu_capacity"), 67108864);
    assert_int_equal(real_json_number(reply, "result.allocators.1.gpu_capacity"), 3);
    real_daemon_stop(&scene.daemon);
}

static void test_a_lower_limit_of_connections_ends_none(void **state)
{
    struct scene scene;
    struct real_client *clients[3];
    start(&scene, state, "");
    for (size_t i = 0; i < 3; i++) {
        clients[i] = real_daemon_connect(&scene.daemon);
        real_client_call(clients[i], info);
    }
    change(&scene, "max-connections = 2\n");
    for (size_t i = 0; i < 3; i++)
        assert_true(real_json_has(real_client_call(clients[i], info), "result.pid"));
    struct real_client *late = real_daemon_connect(&scene.daemon);
    real_json_expect_error(real_client_reply(late), "limit_exceeded");
    real_daemon_stop(&scene.daemon);
}

static void test_a_broken_file_changes_nothing(void **state)
{
    struct scene scene;
    start(&scene, state, "max-rules = 5\n");
    struct real_client *client = real_daemon_connect(&scene.daemon);
    const char *told = change(&scene, "max-rules = 6\nmax-connections = none\n");
    expect(told, "worsegpud: error: SIGHUP: nothing has changed: ");
    expect(told, "worsegpud.conf:2: max-connections must be a number");
    assert_int_equal(real_lines(told), 1);
    assert_int_equal(real_json_number(real_client_call(client, info), "result.limits.max_rules"),
                     5);
    assert_int_equal(unlink(scene.file), 0);
    expect(hang_up(&scene), "cannot read ");
    assert_int_equal(real_json_number(real_client_call(client, info), "result.limits.max_rules"),
                     5);
    expect(change(&scene, "max-rules = 7\n"), "max-rules is now 7\n"); /* and it can be mended */
    real_daemon_stop(&scene.daemon);
}

static void test_what_cannot_change_is_named_and_stays(void **state)
{
    struct scene scene;
    start(&scene, state, "[a]\nseed = 7\n");
    struct real_client *client = real_daemon_connect(&scene.daemon);
    const char *told = change(&scene, "max-memory-bytes = 1GiB\nmax-line-bytes = 2KiB\n"
                                      "[a]\nseed = 8\npolicy = reference\n[b]\n");
    expect(told, "warning: max-memory-bytes cannot change while the daemon runs");
    expect(told, "warning: max-line-bytes cannot change while the daemon runs");
    expect(told, "warning: seed of a cannot change while the daemon runs: it stays as it was (7)");
    expect(told, "warning: policy of a cannot change while the daemon runs");
    expect(told, "warning: GPU b cannot be added while the daemon runs");
    expect(told, "is read again: nothing has changed\n");
    assert_int_equal(real_lines(told), 6);
    const cJSON *reply = real_client_call(client, info);
    assert_int_equal(real_json_number(reply, "result.allocators.0.seed"), 7);
    assert_int_equal(real_json_number(reply, "result.limits.max_line_bytes"), 65536);
    assert_false(real_json_has(reply, "result.allocators.1"));
    real_daemon_stop(&scene.daemon);
}

static void test_without_a_file_a_hang_up_only_says_so(void **state)
{
    struct scene scene = {.room = *state};
    scene.daemon = real_daemon_start(*state, "--seed", "7", NULL);
    expect(hang_up(&scene), "there is nothing to read again, since no --config was given\n");
    assert_true(real_client_probe(scene.daemon.socket_path));
    real_daemon_stop(&scene.daemon);
}

/* ---------------------------------------------------------------------------- under load; no
 * cmocka in a worker's process */

struct worker {
    const char *socket_path;
    const char *stop_path; /* once it is there, the work is done */
};

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 &&
        connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return descriptor;
    return -1;
}

/* Sends lines in one go and reads as many answers, each with the id that is next and a result. */
static bool hammer(int descriptor, FILE *answers, unsigned *id)
{
    char lines[PIPELINED * 128];
    char answer[1024];
    char wanted[64];
    size_t length = 0;
    unsigned first = *id;
    for (; *id < first + PIPELINED; ++*id)
        length += (size_t)snprintf(
            lines + length, sizeof(lines) - length,
            *id % 2 ? "{\"id\":%u,\"method\":\"free\",\"params\":{\"tag\":\"t\"}}\n"
                    : "{\"id\":%u,\"method\":\"allocate\",\"params\":{\"requested_bytes\":100,"
                      "\"tag\":\"t\"}}\n",
            *id);
    if (send(descriptor, lines, length, MSG_NOSIGNAL) != (ssize_t)length)
        return false;
    for (; first < *id; first++) {
        snprintf(wanted, sizeof(wanted), "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":", first);
        if (!fgets(answer, sizeof(answer), answers) || strncmp(answer, wanted, strlen(wanted)) != 0)
            return false;
    }
    return true;
}

static int work(void *context)
{
    const struct worker *worker = context;
    unsigned id = 0;
    int descriptor = connect_to(worker->socket_path);
    FILE *answers = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (!answers)
        return 91;
    while (access(worker->stop_path, F_OK) != 0)
        if (!hammer(descriptor, answers, &id))
            return 92;
    fclose(answers);
    return 0;
}

static void test_reading_again_under_load_loses_no_answer(void **state)
{
    struct scene scene;
    struct real_process *workers[WORKERS];
    start(&scene, state, "[a]\nseed = 7\n");
    struct worker worker = {scene.daemon.socket_path, real_room_path(*state, "stop")};
    for (size_t i = 0; i < WORKERS; i++)
        workers[i] = real_process_fork(*state, NULL, work, &worker);
    for (unsigned i = 0; i < RELOADS; i++) {
        const char *told =
            change(&scene, i % 3 == 0   ? "max-requests-per-turn = 3\n[a]\nseed = 7\ncapacity = 1\n"
                           : i % 3 == 1 ? "max-requests-per-turn = broken\n"
                                        : "max-output-bytes = 2MiB\n[a]\nseed = 7\n");
        expect(told, i % 3 == 0   ? "capacity of a is now 1\n"
                     : i % 3 == 1 ? "nothing has changed"
                                  : "capacity of a is now 67108864\n");
        for (size_t k = 0; k < WORKERS; k++)
            assert_false(real_process_has_ended(workers[k]));
    }
    real_room_write(*state, worker.stop_path, "");
    for (size_t i = 0; i < WORKERS; i++)
        assert_int_equal(real_process_wait(workers[i]), 0);
    struct real_client *client = real_daemon_connect(&scene.daemon);
    assert_true(real_json_true(real_client_call(client, "{\"id\":1,\"method\":\"validate\"}"),
                               "result.valid"));
    real_daemon_stop(&scene.daemon);
}

/* ------------------------------------------------------------------------------- the admin group
 */

/* Asks again and again for what only an admin may do: says when it is refused first, ends when it
 * is allowed, and once more when it is refused again. */
static int ask_until_allowed(void *context)
{
    static const char line[] = "{\"id\":1,\"method\":\"trace_clear\"}\n";
    char answer[1024];
    const struct worker *worker = context;
    int descriptor = connect_to(worker->socket_path);
    FILE *answers = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    bool allowed = true;
    if (!answers)
        return 91;
    for (int changes = 0; changes < 3;) {
        if (send(descriptor, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line) ||
            !fgets(answer, sizeof(answer), answers))
            return 92;
        bool now = strstr(answer, "\"cleared\":") != NULL;
        if (!now && !strstr(answer, "\"permission_denied\""))
            return 93;
        if (now == allowed) {
            usleep(1000);
            continue;
        }
        allowed = now;
        changes++;
        dprintf(STDOUT_FILENO, "%s\n", allowed ? "allowed" : "denied");
    }
    fclose(answers);
    return 0;
}

static void wait_for_lines(struct scene *scene, struct real_process *process, unsigned count)
{
    struct real_wait wait = {0};
    while (real_lines(real_process_output(scene->room, process)) < count) {
        assert_false(real_process_has_ended(process));
        real_wait_more(&wait);
    }
}

static void test_the_admin_group_changes_for_those_who_are_connected(void **state)
{
    const struct real_setup other = {.user = OTHER_USER};
    struct group *group = NULL;
    struct group entry;
    char texts[4096];
    struct scene scene;
    if (geteuid() != 0 || getgrgid_r(OTHER_USER, &entry, texts, sizeof(texts), &group) != 0 ||
        !group) {
        skip(); /* nobody else can become another user */
        return;
    }
    const char *with_group = real_room_text(*state, "admin-group = %s\n", group->gr_name);
    start(&scene, state, "");
    assert_int_equal(chmod(scene.room->folder, 0755), 0);
    assert_int_equal(chmod(scene.daemon.socket_path, 0666), 0);
    struct worker worker = {scene.daemon.socket_path, NULL};
    struct real_process *process = real_process_fork(*state, &other, ask_until_allowed, &worker);
    wait_for_lines(&scene, process, 1);
    expect(change(&scene, with_group),
           real_room_text(*state, "admin-group is now %s\n", group->gr_name));
    wait_for_lines(&scene, process, 2);
    expect(change(&scene, ""), "admin-group is now none given\n");
    assert_int_equal(real_process_wait(process), 0);
    assert_string_equal(real_process_output(*state, process), "denied\nallowed\ndenied\n");
    real_daemon_stop(&scene.daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_each_gpu_of_the_file_is_served_by_its_name),
        IN_ROOM(test_as_many_gpus_as_there_can_be_fit_in_one_answer),
        IN_ROOM(test_capacity_and_limits_change_and_connections_stay),
        IN_ROOM(test_a_lower_limit_of_connections_ends_none),
        IN_ROOM(test_a_broken_file_changes_nothing),
        IN_ROOM(test_what_cannot_change_is_named_and_stays),
        IN_ROOM(test_without_a_file_a_hang_up_only_says_so),
        IN_ROOM(test_reading_again_under_load_loses_no_answer),
        IN_ROOM(test_the_admin_group_changes_for_those_who_are_connected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
