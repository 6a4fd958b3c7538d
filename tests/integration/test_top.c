/* worsegpu-cli top: in a real terminal, which tmux is, and in a pipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

enum {
    MOST_WORDS = 24
};

/* One daemon, one terminal. */
struct scene {
    struct real_room *room;
    struct real_daemon daemon;
    const char *tmux; /* its socket; NULL: not started */
};

static const char *const OPTIONS[] = {"--policy",      "list_fit", "--capacity", "4MiB",
                                      "--trace-limit", "100",      NULL};

static void begin(struct scene *scene, void **state)
{
    *scene = (struct scene){.room = *state};
    scene->daemon = real_daemon_start_list(scene->room, OPTIONS);
}

static bool tmux_is_there(void)
{
    static const char *const places[] = {"/usr/bin/tmux", "/bin/tmux", "/usr/local/bin/tmux"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (access(places[i], X_OK) == 0)
            return true;
    }
    print_message("there is no tmux here\n");
    return false;
}

/* What tmux answers to a command, the last word NULL. */
static const char *tmux(struct scene *scene, ...)
{
    const char *words[MOST_WORDS] = {"tmux", "-f", "/dev/null", "-S", scene->tmux};
    size_t count = 5;
    va_list list;
    va_start(list, scene);
    for (const char *word; (word = va_arg(list, const char *)) != NULL;) {
        assert_true(count < MOST_WORDS - 1);
        words[count++] = word;
    }
    va_end(list);
    struct real_process *process = real_process_start_list(scene->room, NULL, words);
    real_process_wait(process);
    return real_process_output(scene->room, process);
}

/* `top` in a terminal of this size; `before` is what the shell shall do first. */
static void open_top(struct scene *scene, const char *columns, const char *rows, const char *before,
                     const char *options)
{
    struct real_wait wait = {0};
    scene->tmux = real_room_path(scene->room, "tmux");
    /* As a process of the room, so that it cannot outlive a test that fails. */
    real_process_start(scene->room, NULL, "tmux", "-f", "/dev/null", "-S", scene->tmux, "-D", NULL);
    while (access(scene->tmux, F_OK) != 0)
        assert_true(real_wait_more(&wait));
    tmux(scene, "new-session", "-d", "-x", columns, "-y", rows,
         real_room_text(scene->room, "%s %s --socket %s top --interval 0.05 %s 2>%s; echo $? >%s",
                        before, real_program(scene->room, "worsegpu-cli"),
                        scene->daemon.socket_path, options, real_room_path(scene->room, "errors"),
                        real_room_path(scene->room, "status")),
         NULL);
}

static const char *screen(struct scene *scene)
{
    return tmux(scene, "capture-pane", "-p", NULL);
}

/* Waits until the screen shows the text; returns the whole of it. */
static const char *wait_for(struct scene *scene, const char *text)
{
    struct real_wait wait = {0};
    for (;;) {
        const char *seen = screen(scene);
        if (strstr(seen, text))
            return seen;
        if (real_wait_is_over(&wait))
            fail_msg("the screen does not show \"%s\" but:\n%s", text, seen);
        real_wait_more(&wait);
        usleep(20000);
    }
}

static void press(struct scene *scene, const char *key)
{
    tmux(scene, "send-keys", key, NULL);
}

/* Quits, and looks whether it ended well. */
static void quit(struct scene *scene)
{
    const char *status = real_room_path(scene->room, "status");
    struct real_wait wait = {0};
    press(scene, "q");
    while (access(status, R_OK) != 0 || real_room_read(scene->room, status)[0] == '\0')
        assert_true(real_wait_more(&wait));
    assert_string_equal(real_room_read(scene->room, status), "0\n");
    assert_string_equal(real_room_read(scene->room, real_room_path(scene->room, "errors")), "");
}

static void end(struct scene *scene)
{
    if (scene->tmux)
        tmux(scene, "kill-server", NULL);
    real_daemon_stop(&scene->daemon);
}

/* A client with 1 MiB, a freed 512 KiB behind it, and 256 KiB. */
static struct real_client *allocate(struct scene *scene)
{
    struct real_client *client = real_daemon_connect(&scene->daemon);
    static const char *const lines[] = {
        "{\"id\":1,\"method\":\"hello\",\"params\":{\"name\":\"trainer\"}}",
        "{\"id\":2,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1048576}}",
        "{\"id\":3,\"method\":\"allocate\",\"params\":{\"requested_bytes\":524288,\"tag\":\"b\"}}",
        "{\"id\":4,\"method\":\"allocate\",\"params\":{\"requested_bytes\":262144}}",
        "{\"id\":5,\"method\":\"free\",\"params\":{\"tag\":\"b\"}}",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        real_client_call(client, lines[i]);
    return client;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static void test_the_screen_of_80_by_24_shows_the_gpu(void **state)
{
    struct scene scene;
    if (!tmux_is_there())
        skip();
    begin(&scene, state);
    allocate(&scene);
    open_top(&scene, "80", "24", "", "");
    wait_for(&scene, " a second; ");
    wait_for(&scene, "0.0 full");
    const char *seen = screen(&scene);
    assert_says(seen, "gpu0 (list_fit) 1 of 1  top ");
    assert_says(seen, "\n1.2 MiB used, 512.0 KiB free, 0.0 B forgotten of 4.0 MiB, 71% frag, ");
    /* 5 rows of 78 for 4 MiB: 97.5 cells a MiB. */
    assert_says(seen,
                "\n|##############################################################################|"
                "\n|###################.................................................##########|"
                "\n|###############                    ");
    assert_says(seen, " trainer      1.2 MiB       0.0 B     2 ");
    assert_says(seen, "[===     ]\nEVENTS\n  1 allocate 1 1048576 bytes gpu client ");
    assert_says(seen, "\n  4 free 2 gpu released client ");
    assert_says(seen, "\nq quit  h help  s sort: gpu  p map: blocks  g next GPU  space pause\n");
    quit(&scene);
    end(&scene);
}

static void test_the_screen_of_200_by_50_shows_the_gpu(void **state)
{
    struct scene scene;
    if (!tmux_is_there())
        skip();
    begin(&scene, state);
    allocate(&scene);
    open_top(&scene, "200", "50", "", "");
    const char *seen = wait_for(&scene, "0.0 full");
    assert_int_equal(real_lines(seen), 50);
    assert_int_equal(real_lines_with(seen, "|"), 5);
    assert_says(seen, "  client process  user name                     ");
    assert_says(seen, "q quit");
    quit(&scene);
    end(&scene);
}

static void test_it_lives_in_any_size_down_to_20_by_5(void **state)
{
    static const char *const sizes[][2] = {
        {"20", "5"}, {"1", "1"}, {"300", "100"}, {"20", "60"}, {"200", "3"}};
    struct scene scene;
    if (!tmux_is_there())
        skip();
    begin(&scene, state);
    allocate(&scene);
    open_top(&scene, "80", "24", "", "");
    wait_for(&scene, "EVENTS");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        tmux(&scene, "resize-window", "-x", sizes[i][0], "-y", sizes[i][1], NULL);
        wait_for(&scene, i == 1 ? "" : "q quit  h help");
    }
    tmux(&scene, "resize-window", "-x", "100", "-y", "30", NULL);
    wait_for(&scene, "space pause");
    wait_for(&scene, "EVENTS");
    quit(&scene);
    end(&scene);
}

static void test_the_keys_do_what_the_help_says(void **state)
{
    struct scene scene;
    if (!tmux_is_there())
        skip();
    begin(&scene, state);
    allocate(&scene);
    open_top(&scene, "80", "24", "", "");
    wait_for(&scene, "s sort: gpu");
    press(&scene, "s");
    wait_for(&scene, "s sort: live");
    press(&scene, "s");
    wait_for(&scene, "s sort: client");
    press(&scene, "p");
    assert_says(wait_for(&scene, "p map: processes"), "\n|A");
    press(&scene, "h");
    assert_says(wait_for(&scene, "this help; any key ends it"), "sort the processes");
    press(&scene, "x");
    wait_for(&scene, "EVENTS");
    press(&scene, "Space");
    wait_for(&scene, "space go on");
    assert_says(screen(&scene), "PAUSED");
    press(&scene, "Space");
    wait_for(&scene, "space pause");
    press(&scene, "g");
    wait_for(&scene, "gpu0 (list_fit) 1 of 1");
    quit(&scene);
    end(&scene);
}

static void test_a_pause_shows_nothing_new_until_it_ends(void **state)
{
    struct scene scene;
    if (!tmux_is_there())
        skip();
    begin(&scene, state);
    open_top(&scene, "80", "24", "", "");
    wait_for(&scene, "none yet");
    press(&scene, "Space");
    wait_for(&scene, "PAUSED");
    allocate(&scene);
    usleep(200000);
    assert_says(screen(&scene), "none yet");
    press(&scene, "Space");
    wait_for(&scene, "4 free 2 gpu released");
    quit(&scene);
    end(&scene);
}

static void test_a_daemon_that_goes_away_and_comes_back_is_found_again(void **state)
{
    struct scene scene;
    if (!tmux_is_there())
        skip();
    begin(&scene, state);
    const char *path = scene.daemon.socket_path;
    open_top(&scene, "80", "24", "", "");
    wait_for(&scene, "q quit");
    real_process_signal(scene.daemon.process, SIGKILL);
    real_process_wait(scene.daemon.process);
    wait_for(&scene, "trying again: ");
    scene.daemon =
        real_daemon_start_at(scene.room, NULL, REAL_DAEMON_TOLD, path, "--capacity", "8MiB", NULL);
    wait_for(&scene, "of 8.0 MiB");
    wait_for(&scene, "q quit");
    quit(&scene);
    end(&scene);
}

static void test_a_terminal_without_colour_gets_none(void **state)
{
    static const char *const surroundings[] = {"TERM=vt100", "NO_COLOR=1"};
    if (!tmux_is_there())
        skip();
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        begin(&scene, state);
        allocate(&scene);
        open_top(&scene, "80", "24", surroundings[i], "");
        wait_for(&scene, "EVENTS");
        wait_for(&scene, "q quit");
        const char *seen = tmux(&scene, "capture-pane", "-p", "-e", NULL);
        assert_says(seen, "trainer");
        for (int colour = 0; colour < 8; colour++) {
            char sequence[24];
            snprintf(sequence, sizeof(sequence), "\x1b[3%dm", colour);
            assert_null(strstr(seen, sequence));
        }
        quit(&scene);
        unlink(real_room_path(scene.room, "status"));
        end(&scene);
    }
}

static void test_a_terminal_with_colour_gets_some(void **state)
{
    struct scene scene;
    if (!tmux_is_there())
        skip();
    begin(&scene, state);
    allocate(&scene);
    open_top(&scene, "80", "24", "TERM=screen-256color NO_COLOR=", "");
    wait_for(&scene, "trainer");
    assert_says(tmux(&scene, "capture-pane", "-p", "-e", NULL), "\x1b[32m");
    quit(&scene);
    end(&scene);
}

/* ------------------------------------------------------------------------------ no terminal */

static struct real_process *shell(struct scene *scene, const char *options, const char *behind)
{
    return real_process_start(scene->room, NULL, "/bin/sh", "-c",
                              real_room_text(scene->room,
                                             "%s --socket %s top --interval 0.01 %s %s",
                                             real_program(scene->room, "worsegpu-cli"),
                                             scene->daemon.socket_path, options, behind),
                              NULL);
}

static void test_into_a_pipe_it_prints_a_line_for_each_look(void **state)
{
    struct scene scene;
    begin(&scene, state);
    allocate(&scene);
    struct real_process *pipe = shell(&scene, "", "| head -n 3");
    assert_int_equal(real_process_wait(pipe), 0);
    const char *output = real_process_output(scene.room, pipe);
    assert_int_equal(real_lines(output), 3);
    assert_int_equal(real_lines_with(output, "gpu0 used 1.2 MiB, free 512.0 KiB, forgotten 0.0 B "
                                             "of 4.0 MiB, 2 live, "),
                     3);
    assert_string_equal(real_process_errors(scene.room, pipe), "");
    end(&scene);
}

static void test_with_json_it_prints_an_object_for_each_look(void **state)
{
    struct scene scene;
    begin(&scene, state);
    allocate(&scene);
    struct real_process *pipe = shell(&scene, "--json", "| head -n 2");
    assert_int_equal(real_process_wait(pipe), 0);
    const char *output = real_process_output(scene.room, pipe);
    assert_says(output, "{\"connected\":true,\"gpu\":\"gpu0\",\"gpu_used\":1310720,");
    assert_says(output, "\"rates\":null}\n");
    assert_says(output, "\"rates\":{\"allocations\":0.000,");
    end(&scene);
}

static void test_without_a_terminal_it_waits_for_the_daemon_as_well(void **state)
{
    struct scene scene;
    begin(&scene, state);
    const char *path = scene.daemon.socket_path;
    struct real_process *top =
        real_process_start(scene.room, NULL, real_program(scene.room, "worsegpu-cli"), "--socket",
                           path, "top", "--interval", "0.01", NULL);
    struct real_wait wait = {0};
    while (real_lines(real_process_output(scene.room, top)) < 2)
        assert_true(real_wait_more(&wait));
    real_daemon_stop(&scene.daemon);
    while (real_lines_with(real_process_output(scene.room, top), "trying again: ") == 0)
        assert_true(real_wait_more(&wait));
    scene.daemon =
        real_daemon_start_at(scene.room, NULL, REAL_DAEMON_TOLD, path, "--capacity", "8MiB", NULL);
    while (real_lines_with(real_process_output(scene.room, top), "of 8.0 MiB") == 0)
        assert_true(real_wait_more(&wait));
    real_process_signal(top, SIGTERM);
    assert_int_equal(real_process_wait(top), 0);
    end(&scene);
}

static void test_without_a_daemon_it_does_not_begin(void **state)
{
    struct real_room *room = *state;
    struct real_process *top =
        real_process_run(room, NULL, real_program(room, "worsegpu-cli"), "--socket",
                         real_room_path(room, "none"), "top", NULL);
    assert_int_equal(real_process_wait(top), 3);
    struct real_daemon daemon = real_daemon_start(room, NULL);
    top = real_process_run(room, NULL, real_program(room, "worsegpu-cli"), "--socket",
                           daemon.socket_path, "top", "--allocator", "nix", NULL);
    assert_int_equal(real_process_wait(top), 1);
    top = real_process_run(room, NULL, real_program(room, "worsegpu-cli"), "--socket",
                           daemon.socket_path, "top", "--interval", "0", NULL);
    assert_int_equal(real_process_wait(top), 2);
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_the_screen_of_80_by_24_shows_the_gpu),
        IN_ROOM(test_the_screen_of_200_by_50_shows_the_gpu),
        IN_ROOM(test_it_lives_in_any_size_down_to_20_by_5),
        IN_ROOM(test_the_keys_do_what_the_help_says),
        IN_ROOM(test_a_pause_shows_nothing_new_until_it_ends),
        IN_ROOM(test_a_daemon_that_goes_away_and_comes_back_is_found_again),
        IN_ROOM(test_a_terminal_without_colour_gets_none),
        IN_ROOM(test_a_terminal_with_colour_gets_some),
        IN_ROOM(test_into_a_pipe_it_prints_a_line_for_each_look),
        IN_ROOM(test_with_json_it_prints_an_object_for_each_look),
        IN_ROOM(test_without_a_terminal_it_waits_for_the_daemon_as_well),
        IN_ROOM(test_without_a_daemon_it_does_not_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
