/* Tests of daemon/reload.c: what a file that is read again changes, and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "daemon/options_table.h"
#include "daemon/reload.h"
#include "tests/support/memory_daemon.h"

enum {
    USER = 1000,
    MOST_WORDS = 8
};

/* A daemon with a configuration file. */
struct scene {
    struct memory_daemon daemon;
    char folder[256];
    char path[300];
    char words[512];
    char *argv[MOST_WORDS + 1];
    int argc;
    size_t log_read; /* how much of the log has been looked at */
};

static void write_config(struct scene *scene, const char *text)
{
    FILE *stream = fopen(scene->path, "we");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static void start(struct scene *scene, struct chaos *chaos, const char *text, const char *words)
{
    const char *parent = getenv("TMPDIR");
    char *rest = NULL;
    snprintf(scene->folder, sizeof(scene->folder), "%s/worsegpu-test-XXXXXX",
             parent && *parent ? parent : "/tmp");
    assert_non_null(mkdtemp(scene->folder));
    snprintf(scene->path, sizeof(scene->path), "%s/daemon.conf", scene->folder);
    write_config(scene, text);
    /* The option of the support comes first, as there. */
    snprintf(scene->words, sizeof(scene->words), "--config %s %s", scene->path, words);
    memory_daemon_start(&scene->daemon, chaos, scene->words);
    scene->argc = 0;
    scene->argv[scene->argc++] = scene->folder; /* any text: the program's name */
    for (char *word = strtok_r(scene->words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(scene->argc < MOST_WORDS);
        scene->argv[scene->argc++] = word;
    }
    scene->argv[scene->argc] = NULL;
    scene->daemon.options.config = scene->path; /* the support's copy of the words has gone */
    scene->log_read = 0;
}

static void end(struct scene *scene)
{
    memory_daemon_end(&scene->daemon);
    assert_int_equal(unlink(scene->path), 0);
    assert_int_equal(rmdir(scene->folder), 0);
}

static bool again(struct scene *scene)
{
    return reload(&scene->daemon.server, &scene->daemon.options, scene->argc, scene->argv);
}

static bool change(struct scene *scene, const char *text)
{
    write_config(scene, text);
    return again(scene);
}

/* What was logged since the last look. */
static const char *news(struct scene *scene)
{
    fflush(scene->daemon.log.stream);
    const char *text = scene->daemon.log_text + scene->log_read;
    scene->log_read = scene->daemon.log_length;
    return text;
}

static void expect_news(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("wanted '%s' in '%s'", part, text);
}

static size_t lines(const char *text)
{
    return answer_count(text, "\n");
}

/* The options as one text, to see that none has changed. */
static void describe(struct options *options, char *text, size_t size)
{
    size_t length = 0;
    for (size_t index = 0; index < options_count(); index++)
        for (size_t gpu = 0; gpu < (options_info(index)->of_gpu ? options->gpu_count : 1); gpu++) {
            char value[4400];
            option_show(index, option_place(options, &options->gpus[gpu], index), value,
                        sizeof(value));
            length += (size_t)snprintf(text + length, size - length, "%s=%s\n",
                                       options_info(index)->flag, value);
            assert_true(length < size);
        }
}

/* ------------------------------------------------------------------------------- what changes */

/* Another value than the default of an option, as text. */
static void other_value(size_t index, char text[64])
{
    const struct option_info *info = options_info(index);
    if (strcmp(info->type, "BYTES") == 0 || strcmp(info->type, "COUNT") == 0) {
        struct options options;
        assert_int_equal(options_defaults(&options, memory_system()), 0);
        uint64_t number = options_number(&options, index);
        options_release(&options);
        snprintf(text, 64, "%" PRIu64, number > info->minimum ? number - 1 : number + 1);
    } else if (strcmp(info->type, "CHOICE") == 0) {
        const char *first = option_choice(index, 0);
        snprintf(text, 64, "%s",
                 strcmp(first, info->default_text) == 0 ? option_choice(index, 1) : first);
    } else if (strcmp(info->type, "YESNO") == 0) {
        snprintf(text, 64, "%s", strcmp(info->default_text, "true") == 0 ? "false" : "true");
    } else if (strcmp(info->type, "RATIO") == 0) {
        snprintf(text, 64, "0.125");
    } else {
        snprintf(text, 64, "%s", strcmp(info->type, "GROUP") == 0 ? "root" : "5");
    }
}

static void test_every_option_changes_or_is_named_as_the_table_says(void **state)
{
    (void)state;
    for (size_t index = 0; index < options_count(); index++) {
        const struct option_info *info = options_info(index);
        struct scene scene;
        char value[64];
        char text[200];
        char shown[64];
        char wanted[200];
        start(&scene, NULL, "log-level = info\n[gpu0]\nseed = 7\n", "");
        news(&scene);
        other_value(index, value);
        if (strcmp(info->field, "log_level") == 0)
            snprintf(value, sizeof(value), "info"); /* others would not be seen here */
        bool seeded = strcmp(info->field, "seed") == 0;
        snprintf(text, sizeof(text), "%s%s = %s\n%s%s", info->of_gpu ? "[gpu0]\n" : "", info->flag,
                 value, info->of_gpu ? "" : "[gpu0]\n", seeded ? "" : "seed = 7\n");
        assert_true(change(&scene, text));
        struct options *options = &scene.daemon.options;
        option_show(index, option_place(options, options->gpus, index), shown, sizeof(shown));
        const char *told = news(&scene);
        assert_int_equal(strcmp(shown, value) == 0, info->reloads);
        if (info->reloads && strcmp(info->field, "log_level") != 0)
            snprintf(wanted, sizeof(wanted), "%s%s is now %s\n", info->flag,
                     info->of_gpu ? " of gpu0" : "", value);
        else if (info->reloads)
            snprintf(wanted, sizeof(wanted), "is read again: nothing has changed\n");
        else
            snprintf(wanted, sizeof(wanted), "%s%s cannot change while the daemon runs", info->flag,
                     info->of_gpu ? " of gpu0" : "");
        expect_news(told, wanted);
        end(&scene);
    }
}

static void test_the_log_level_changes(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "", "--seed=7");
    news(&scene);
    assert_true(change(&scene, "log-level = error\n"));
    assert_string_equal(news(&scene), "");
    assert_true(change(&scene, "log-level = warning\nmax-line-bytes = 2KiB\n"));
    assert_int_equal(lines(news(&scene)), 0); /* it was told while still errors alone were wanted */
    assert_true(again(&scene));
    expect_news(news(&scene), "max-line-bytes cannot change while the daemon runs: it stays as it "
                              "was (65536)\n");
    end(&scene);
}

static void test_all_changes_stand_in_one_line(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "max-rules = 7\n[a]\n[b]\n", "--seed=7");
    assert_true(change(&scene, "max-connections = 9\n[a]\n[b]\ncapacity = 1MiB\n"));
    const char *told = news(&scene);
    expect_news(told, "daemon.conf is read again: max-rules is now 1000, max-connections is now 9, "
                      "capacity of b is now 1048576\n");
    assert_int_equal(lines(told), 1);
    end(&scene);
}

static void test_changes_that_do_not_fit_in_the_line_are_counted(void **state)
{
    struct scene scene;
    char text[2048];
    char names[2048];
    size_t length = 0;
    size_t names_length = 0;
    (void)state;
    for (int i = 0; i < 40; i++) {
        names_length +=
            (size_t)snprintf(names + names_length, sizeof(names) - names_length, "[gpu%d]\n", i);
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "[gpu%d]\ncapacity = 1MiB\n", i);
    }
    start(&scene, NULL, names, "--seed=7");
    assert_true(change(&scene, text));
    const char *told = news(&scene);
    assert_int_equal(lines(told), 1);
    size_t named = answer_count(told, "is now 1048576");
    char wanted[32];
    snprintf(wanted, sizeof(wanted), " and %zu more\n", 40 - named);
    assert_in_range(named, 5, 39);
    expect_news(told, wanted);
    end(&scene);
}

static void test_the_same_file_changes_nothing(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "admin-group = root\n[a]\n[b]\nseed = 4\n", "--seed=7");
    assert_true(again(&scene));
    const char *told = news(&scene);
    expect_news(told, "daemon.conf is read again: nothing has changed\n");
    assert_int_equal(lines(told), 1);
    end(&scene);
}

static void test_the_command_line_still_wins(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "", "--seed=7 --max-rules=5 --capacity=1MiB");
    assert_true(change(&scene, "max-rules = 6\n[gpu0]\ncapacity = 2MiB\n"));
    expect_news(news(&scene), "nothing has changed");
    assert_int_equal(scene.daemon.options.max_rules, 5);
    end(&scene);
}

static void test_a_new_capacity_is_in_force_and_info_shows_it(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "[a]\n[b]\ngpu-probability = 1\n", "--seed=7");
    struct memory_client *client = memory_daemon_connect(&scene.daemon, USER);
    assert_kind(
        memory_client_call(client, "allocate", "\"requested_bytes\":5000,\"allocator\":\"b\""),
        "result");
    assert_true(change(&scene, "[a]\n[b]\ngpu-probability = 1\ncapacity = 1000\n"));
    const char *answer = memory_client_call(client, "snapshot", "\"allocator\":\"b\"");
    assert_int_equal(answer_u64(answer, "gpu_capacity"), 1000);
    assert_int_equal(answer_u64(answer, "active_allocations"), 1); /* nothing is taken away */
    assert_true(answer_u64(answer, "gpu_reserved") >= 5000);
    assert_kind(memory_client_call(client, "validate", "\"allocator\":\"b\""), "result");
    answer = memory_client_call(client, "snapshot", "");
    assert_int_equal(answer_u64(answer, "gpu_capacity"), 67108864);
    answer = memory_client_call(client, "info", "");
    assert_int_equal(answer_count(answer, "\"gpu_capacity\":1000,"), 1);
    end(&scene);
}

static void test_after_it_the_configuration_is_in_force_also_over_a_resize(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "", "--seed=7");
    assert_int_equal(worsegpu_resize(memory_daemon_gpu0(&scene.daemon)->engine, 5), WORSEGPU_OK);
    assert_true(again(&scene));
    expect_news(news(&scene), "capacity of gpu0 is now 67108864");
    assert_int_equal(
        worsegpu_configuration(memory_daemon_gpu0(&scene.daemon)->engine)->gpu_capacity, 67108864);
    end(&scene);
}

static void test_lowered_limits_only_refuse_what_is_new(void **state)
{
    struct scene scene;
    char kind[ANSWER_KIND_SIZE];
    (void)state;
    start(&scene, NULL, "", "--seed=7");
    struct memory_client *client = memory_daemon_connect(&scene.daemon, USER);
    memory_daemon_connect(&scene.daemon, USER);
    for (int i = 0; i < 5; i++)
        assert_kind(memory_client_call(client, "allocate", "\"requested_bytes\":100"), "result");
    assert_true(change(&scene, "max-client-allocations = 3\nmax-user-allocations = 2\n"
                               "max-connections = 1\n[gpu0]\nhost-capacity = 1\n"));
    assert_int_equal(scene.daemon.server.connections, 2);
    assert_int_equal(scene.daemon.server.max_connections, 1);
    const char *answer = memory_client_call(client, "snapshot", "");
    assert_int_equal(answer_u64(answer, "active_allocations"), 5);
    assert_string_equal(
        answer_kind(memory_client_call(client, "allocate", "\"requested_bytes\":100"), kind),
        "quota_exceeded");
    assert_int_equal(memory_daemon_gpu0(&scene.daemon)->host_capacity, 1);
    assert_true(change(&scene, ""));
    assert_kind(memory_client_call(client, "allocate", "\"requested_bytes\":100"), "result");
    end(&scene);
}

static void test_who_may_see_the_trace_changes(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "", "--seed=7");
    struct memory_client *one = memory_daemon_connect(&scene.daemon, USER);
    struct memory_client *other = memory_daemon_connect(&scene.daemon, USER + 1);
    assert_kind(memory_client_call(one, "allocate", "\"requested_bytes\":1,\"tag\":\"mine\""),
                "result");
    assert_int_equal(answer_count(memory_client_call(other, "trace", ""), "mine"), 0);
    assert_true(change(&scene, "trace-visibility = all\n"));
    assert_int_equal(answer_count(memory_client_call(other, "trace", ""), "mine"), 1);
    assert_true(change(&scene, ""));
    assert_int_equal(answer_count(memory_client_call(other, "trace", ""), "mine"), 0);
    end(&scene);
}

/* ---------------------------------------------------------------------------- what stays as it is
 */

static void test_gpus_are_not_added_removed_or_moved(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "[a]\n[b]\n[c]\n", "--seed=7");
    assert_true(change(&scene, "[d]\n[c]\n[a]\ncapacity = 1MiB\n"));
    const char *told = news(&scene);
    expect_news(told, "GPU d cannot be added while the daemon runs");
    expect_news(told, "GPU b cannot be removed while the daemon runs");
    expect_news(told, "the order of the GPUs cannot change while the daemon runs: a stays");
    expect_news(told, "is read again: capacity of a is now 1048576\n"); /* what can change does */
    assert_int_equal(lines(told), 4);
    assert_int_equal(scene.daemon.options.gpu_count, 3);
    struct memory_client *client = memory_daemon_connect(&scene.daemon, USER);
    const char *names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        char params[32];
        snprintf(params, sizeof(params), "\"allocator\":\"%s\"", names[i]);
        assert_kind(memory_client_call(client, "snapshot", params), "result");
    }
    assert_kind(memory_client_call(client, "snapshot", "\"allocator\":\"d\""), "unknown_allocator");
    end(&scene);
}

static void test_a_file_that_is_wrong_anywhere_changes_nothing(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"max-rules = 5\nnonsense\n", "daemon.conf:2: this is neither"},
        {"max-rules = 5\n[a]\ncapacity = 1MiB\n[b]\ncapacity = none\n", "daemon.conf:5: capacity"},
        {"max-rules = 5\nadmin-group = no such group\n", "daemon.conf:2: admin-group"},
        {"max-rules = 5\nmax-output-bytes = 128KiB\nmax-unread-bytes = 128KiB\n",
         "max-unread-bytes must be"},
        {"max-rules = 5\n[a]\n[a]\n", "daemon.conf:3: section [a] is there twice"},
    };
    struct scene scene;
    char before[8192];
    char after[8192];
    (void)state;
    start(&scene, NULL, "max-rules = 9\n[a]\n[b]\nseed = 3\n", "--seed=7");
    describe(&scene.daemon.options, before, sizeof(before));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(change(&scene, wrong[i].text));
        const char *told = news(&scene);
        expect_news(told, "error: SIGHUP: nothing has changed: ");
        expect_news(told, wrong[i].says);
        assert_int_equal(lines(told), 1);
        describe(&scene.daemon.options, after, sizeof(after));
        assert_string_equal(before, after);
    }
    end(&scene);
}

static void test_a_file_that_has_gone_changes_nothing(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "max-rules = 9\n", "--seed=7");
    assert_int_equal(unlink(scene.path), 0);
    assert_false(again(&scene));
    expect_news(news(&scene), "nothing has changed: cannot read ");
    assert_int_equal(scene.daemon.options.max_rules, 9);
    write_config(&scene, "");
    end(&scene);
}

static void test_without_a_file_there_is_nothing_to_read(void **state)
{
    struct scene scene;
    (void)state;
    start(&scene, NULL, "", "--seed=7");
    scene.daemon.options.config = NULL;
    assert_false(again(&scene));
    const char *told = news(&scene);
    expect_news(told, "there is nothing to read again, since no --config was given\n");
    assert_int_equal(lines(told), 1);
    end(&scene);
}

/* ------------------------------------------------------------------------------ without memory */

static bool reload_in_poor_memory(struct chaos *chaos, void *context)
{
    struct scene scene;
    char before[8192];
    char after[8192];
    uint64_t fail_at = chaos->fail_at;
    bool for_good = chaos->for_good;
    (void)context;
    chaos_arm(chaos, 0, false);
    start(&scene, chaos, "[a]\n[b]\n", "--seed=7");
    describe(&scene.daemon.options, before, sizeof(before));
    write_config(&scene, "admin-group = root\nmax-rules = 5\n[a]\n[b]\ncapacity = 5\n");
    chaos_arm(chaos, fail_at, for_good);
    bool done = again(&scene);
    bool failed = chaos->failed;
    chaos_arm(chaos, 0, false);
    describe(&scene.daemon.options, after, sizeof(after));
    assert_int_equal(strcmp(before, after) != 0, done);
    assert_int_equal(done, !failed);
    if (!done)
        expect_news(news(&scene), "nothing has changed: out of memory\n");
    end(&scene);
    chaos_hook_cjson(NULL);
    chaos->failed = failed;
    return done;
}

static void test_without_memory_nothing_has_changed(void **state)
{
    (void)state;
    assert_true(chaos_loop(reload_in_poor_memory, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_changes_or_is_named_as_the_table_says),
        cmocka_unit_test(test_the_log_level_changes),
        cmocka_unit_test(test_all_changes_stand_in_one_line),
        cmocka_unit_test(test_changes_that_do_not_fit_in_the_line_are_counted),
        cmocka_unit_test(test_the_same_file_changes_nothing),
        cmocka_unit_test(test_the_command_line_still_wins),
        cmocka_unit_test(test_a_new_capacity_is_in_force_and_info_shows_it),
        cmocka_unit_test(test_after_it_the_configuration_is_in_force_also_over_a_resize),
        cmocka_unit_test(test_lowered_limits_only_refuse_what_is_new),
        cmocka_unit_test(test_who_may_see_the_trace_changes),
        cmocka_unit_test(test_gpus_are_not_added_removed_or_moved),
        cmocka_unit_test(test_a_file_that_is_wrong_anywhere_changes_nothing),
        cmocka_unit_test(test_a_file_that_has_gone_changes_nothing),
        cmocka_unit_test(test_without_a_file_there_is_nothing_to_read),
        cmocka_unit_test(test_without_memory_nothing_has_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
