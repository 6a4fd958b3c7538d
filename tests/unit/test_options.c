/* Tests of daemon/options.c: each option of the table on the command line and in a file, and what
 * is wrong. */
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

#include "base/bytes_text.h"
#include "daemon/options.h"
#include "lib/worsegpu.h"
#include "proto/methods.h"
#include "tests/support/chaos.h"
#include "tests/support/memory_daemon.h"

enum {
    MOST_WORDS = 8,
    TEXT_SIZE = 8192
};

/* ------------------------------------------------------------------------------ the table here */

static void show_number(uint64_t value, char *text)
{
    snprintf(text, TEXT_SIZE, "%" PRIu64, value);
}

static void show_ratio(double value, char *text)
{
    snprintf(text, TEXT_SIZE, "%.17g", value);
}

#define SHOW_BYTES(value) show_number(value, text)
#define SHOW_COUNT(value) show_number(value, text)
#define SHOW_RATIO(value) show_ratio(value, text)
#define SHOW_YESNO(value) snprintf(text, TEXT_SIZE, "%s", (value) ? "true" : "false")
#define SHOW_WORD(value) snprintf(text, TEXT_SIZE, "%s", value)

/* An option's value in one way of writing it. */
static void value_of(const struct options *options, size_t wanted, char text[TEXT_SIZE])
{
    size_t index = 0;
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, help)                     \
    if (index++ == wanted)                                                                         \
        SHOW_##type(options->field);
#include "daemon/options.def"
    assert_true(wanted < index);
}

/* The same way of writing for a text that is fine. */
static void value_of_text(const struct option_info *info, const char *given, char text[TEXT_SIZE])
{
    uint64_t number;
    double ratio;
    if (strcmp(info->type, "BYTES") == 0) {
        assert_true(bytes_from_text(given, &number));
        show_number(number, text);
    } else if (strcmp(info->type, "COUNT") == 0) {
        assert_true(count_from_text(given, &number));
        show_number(number, text);
    } else if (strcmp(info->type, "RATIO") == 0) {
        assert_true(number_from_text(given, &ratio));
        show_ratio(ratio, text);
    } else {
        snprintf(text, TEXT_SIZE, "%s", given);
    }
}

static size_t index_of(const char *flag)
{
    for (size_t i = 0; i < options_count(); i++)
        if (strcmp(options_info(i)->flag, flag) == 0)
            return i;
    fail_msg("no option %s", flag);
    return 0;
}

static bool is_type(const struct option_info *info, const char *type)
{
    return strcmp(info->type, type) == 0;
}

static bool is_number(const struct option_info *info)
{
    return is_type(info, "BYTES") || is_type(info, "COUNT");
}

/* --------------------------------------------------------------------------------- reading it */

struct reading {
    struct chaos chaos;
    struct options options;
    char message[OPTIONS_MESSAGE_SIZE];
    char *argv[MOST_WORDS + 2];
    bool fine;
};

/* Reads a command line of up to MOST_WORDS words, NULL after the last. */
static enum options_result read_words(struct reading *reading, const char *const words[])
{
    int argc = 0;
    chaos_init(&reading->chaos);
    memset(reading->message, 0, sizeof(reading->message));
    reading->argv[argc++] = strdup("worsegpud");
    for (; *words; words++) {
        assert_true(argc <= MOST_WORDS);
        reading->argv[argc++] = strdup(*words);
    }
    reading->argv[argc] = NULL;
    enum options_result result = options_read(&reading->options, &reading->chaos.memory, argc,
                                              reading->argv, reading->message);
    reading->fine = result == OPTIONS_FINE;
    return result;
}

static void done(struct reading *reading)
{
    if (reading->fine)
        options_release(&reading->options);
    assert_int_equal(reading->chaos.live_pieces, 0);
    assert_int_equal(reading->chaos.live_bytes, 0);
    for (char **word = reading->argv; *word; word++)
        free(*word);
}

#define READ(reading, ...) read_words(reading, (const char *const[]){__VA_ARGS__, NULL})

/* A file in a folder of its own. */
struct file {
    char folder[256];
    char path[300];
};

static void write_file(struct file *file, const char *text)
{
    const char *parent = getenv("TMPDIR");
    snprintf(file->folder, sizeof(file->folder), "%s/worsegpu-test-XXXXXX",
             parent && *parent ? parent : "/tmp");
    assert_non_null(mkdtemp(file->folder));
    snprintf(file->path, sizeof(file->path), "%s/daemon.conf", file->folder);
    FILE *stream = fopen(file->path, "we");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static void remove_file(struct file *file)
{
    assert_int_equal(unlink(file->path), 0);
    assert_int_equal(rmdir(file->folder), 0);
}

/* Reads one option from a file, with _ for - if so wanted. */
static enum options_result read_from_file(struct reading *reading, const struct option_info *info,
                                          const char *value, bool underscores)
{
    struct file file;
    char key[80];
    char text[TEXT_SIZE];
    snprintf(key, sizeof(key), "%s", info->flag);
    for (char *sign = key; underscores && *sign; sign++)
        *sign = *sign == '-' ? '_' : *sign;
    snprintf(text, sizeof(text), "# a comment\n\n%s%s = %s\n", info->of_gpu ? "[gpu0]\n" : "", key,
             value);
    write_file(&file, text);
    enum options_result result = READ(reading, "--config", file.path);
    remove_file(&file);
    return result;
}

/* Each way in which an option can be given. */
enum way {
    WORD_APART,
    WORD_JOINED,
    IN_FILE,
    IN_FILE_UNDERSCORES,
    WAYS
};

static enum options_result read_in_way(struct reading *reading, enum way way,
                                       const struct option_info *info, const char *value)
{
    char flag[80];
    char joined[TEXT_SIZE];
    snprintf(flag, sizeof(flag), "--%s", info->flag);
    snprintf(joined, sizeof(joined), "%s=%s", flag, value);
    switch (way) {
    case WORD_APART:
        return READ(reading, flag, value);
    case WORD_JOINED:
        return READ(reading, joined);
    default:
        return read_from_file(reading, info, value, way == IN_FILE_UNDERSCORES);
    }
}

static void assert_taken(size_t index, const char *value)
{
    const struct option_info *info = options_info(index);
    char got[TEXT_SIZE];
    char wanted[TEXT_SIZE];
    for (int way = 0; way < WAYS; way++) {
        struct reading reading;
        if (strlen(value) > 100 && way >= IN_FILE)
            continue; /* longer than a line of a file may be */
        if (read_in_way(&reading, (enum way)way, info, value) != OPTIONS_FINE)
            fail_msg("--%s '%s': %s", info->flag, value, reading.message);
        value_of(&reading.options, index, got);
        value_of_text(info, value, wanted);
        assert_string_equal(got, wanted);
        done(&reading);
    }
}

/* Refused, and the message names the option and the value. */
static void assert_refused(size_t index, const char *value)
{
    const struct option_info *info = options_info(index);
    char shown[80];
    snprintf(shown, sizeof(shown), "'%.60s", value);
    for (int way = 0; way < WAYS; way++) {
        struct reading reading;
        if (strlen(value) > 100 && way >= IN_FILE)
            continue;
        if (read_in_way(&reading, (enum way)way, info, value) != OPTIONS_WRONG)
            fail_msg("--%s takes '%s'", info->flag, value);
        assert_non_null(strstr(reading.message, "must be"));
        assert_non_null(strstr(reading.message, shown));
        assert_null(strchr(reading.message, '\n'));
        if (way != IN_FILE_UNDERSCORES)
            assert_non_null(strstr(reading.message, info->flag));
        if (way >= IN_FILE)
            assert_non_null(
                strstr(reading.message, info->of_gpu ? "daemon.conf:4: " : "daemon.conf:3: "));
        done(&reading);
    }
}

/* ------------------------------------------------------------------------------- every option */

static void test_without_words_every_option_has_the_default_of_the_table(void **state)
{
    struct reading reading;
    char got[TEXT_SIZE];
    char wanted[TEXT_SIZE];
    (void)state;
    assert_int_equal(read_words(&reading, (const char *const[]){NULL}), OPTIONS_FINE);
    for (size_t i = 0; i < options_count(); i++) {
        value_of(&reading.options, i, got);
        value_of_text(options_info(i), options_info(i)->default_text, wanted);
        assert_string_equal(got, wanted);
        if (is_number(options_info(i)))
            assert_int_equal(options_number(&reading.options, i), strtoull(got, NULL, 10));
    }
    assert_null(reading.options.run);
    assert_false(reading.options.help);
    assert_false(reading.options.version);
    assert_false(reading.options.log_level_given);
    done(&reading);
}

static void test_every_option_takes_its_default_minimum_and_maximum(void **state)
{
    char text[TEXT_SIZE];
    (void)state;
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_info *info = options_info(i);
        if (*info->default_text)
            assert_taken(i, info->default_text);
        if (is_number(info)) {
            show_number(info->minimum, text);
            assert_taken(i, text);
            show_number(info->maximum, text);
            assert_taken(i, text);
        } else if (is_type(info, "RATIO")) {
            assert_taken(i, "0");
            assert_taken(i, "1");
            assert_taken(i, "0.125");
            assert_taken(i, "1e-3");
        } else if (is_type(info, "YESNO")) {
            assert_taken(i, "true");
            assert_taken(i, "false");
        } else {
            assert_true(is_type(info, "WORD"));
            memset(text, '1', sizeof(text));
            text[info->minimum ? info->minimum : 1] = '\0';
            assert_taken(i, text);
            memset(text, '1', sizeof(text));
            text[info->maximum] = '\0';
            assert_taken(i, text);
        }
    }
    assert_taken(index_of("capacity"), "16.5 MiB");
    assert_taken(index_of("max-memory-bytes"), "16m");
    assert_taken(index_of("max-connections"), "0012");
}

static void test_every_option_refuses_what_is_out_of_its_range_or_of_another_kind(void **state)
{
    static const char *const no_number[] = {
        "", "x", "-1", "1x", "0x10", "1e3", "18446744073709551616"};
    static const char *const no_ratio[] = {"",    "x",   "-0.1", "1.0000001", "2",
                                           "nan", "inf", "0,5",  "50%"};
    static const char *const no_yesno[] = {"", "yes", "no", "TRUE", "1", "0", "truely"};
    char text[TEXT_SIZE];
    (void)state;
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_info *info = options_info(i);
        if (is_number(info)) {
            if (info->minimum > 0) {
                show_number(info->minimum - 1, text);
                assert_refused(i, text);
            }
            show_number(info->maximum + 1, text);
            assert_refused(i, text);
            for (size_t k = 0; k < sizeof(no_number) / sizeof(no_number[0]); k++)
                assert_refused(i, no_number[k]);
            if (is_type(info, "COUNT"))
                assert_refused(i, "1KiB");
        } else if (is_type(info, "RATIO")) {
            for (size_t k = 0; k < sizeof(no_ratio) / sizeof(no_ratio[0]); k++)
                assert_refused(i, no_ratio[k]);
        } else if (is_type(info, "YESNO")) {
            for (size_t k = 0; k < sizeof(no_yesno) / sizeof(no_yesno[0]); k++)
                assert_refused(i, no_yesno[k]);
        } else {
            if (info->minimum > 0)
                assert_refused(i, "");
            memset(text, '1', sizeof(text));
            text[info->maximum + 1] = '\0';
            assert_refused(i, text);
        }
    }
}

/* ------------------------------------------------------------------------------- command line */

static void test_a_command_line_that_is_wrong_gets_one_clear_line(void **state)
{
    static const struct {
        const char *words[4];
        const char *says;
    } wrong[] = {
        {{"--nonsense"}, "there is no option '--nonsense'"},
        {{"--nonsense=5"}, "there is no option '--nonsense=5'"},
        {{"--max", "5"}, "there is no option '--max'"}, /* the start of several */
        {{"-x"}, "there is no option '-x'"},
        {{"-xy"}, "there is no option '-x'"},
        {{"--seed", "1", "-hx"}, "there is no option '-x'"},
        {{"--help=me"}, "there is no option '--help=me'"},
        {{"--seed"}, "a value is missing after '--seed'"},
        {{"--seed", "5", "stray"}, "what is this word for? 'stray'"},
        {{"stray", "--seed", "5"}, "what is this word for? 'stray'"},
        {{"--", "stray"}, "what is this word for? 'stray'"},
        {{"--run"}, "--run needs a command"},
        {{"--run=true"}, "write --run COMMAND"},
        {{"stray", "--run", "true"}, "what is this word for? 'stray'"},
        {{"--config"}, "a value is missing after '--config'"},
        {{"--config", "/nowhere/at all"}, "cannot read /nowhere/at all: "},
        {{"--config", "/"}, "cannot read /"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct reading reading;
        assert_int_equal(read_words(&reading, wrong[i].words), OPTIONS_WRONG);
        if (!strstr(reading.message, wrong[i].says))
            fail_msg("wanted '%s', got '%s'", wrong[i].says, reading.message);
        assert_null(strchr(reading.message, '\n'));
        done(&reading);
    }
}

static void test_the_last_of_several_values_counts(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(
        READ(&reading, "--seed", "-5", "--seed=6", "--capacity", "1MiB", "--capacity", "2MiB"),
        OPTIONS_FINE);
    assert_string_equal(reading.options.seed, "6");
    assert_int_equal(reading.options.gpu_capacity, 2097152);
    done(&reading);
}

static void test_run_takes_all_words_after_it(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(READ(&reading, "--seed", "5", "--run", "sh", "-c", "exit 3", "--seed", "x"),
                     OPTIONS_FINE);
    assert_string_equal(reading.options.seed, "5");
    assert_ptr_equal(reading.options.run, reading.argv + 4);
    assert_string_equal(reading.options.run[0], "sh");
    assert_string_equal(reading.options.run[4], "x");
    assert_null(reading.options.run[5]);
    done(&reading);
}

static void test_help_and_version_are_noted_and_read_no_file(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(READ(&reading, "--help", "--config", "/nowhere"), OPTIONS_FINE);
    assert_true(reading.options.help);
    done(&reading);
    assert_int_equal(READ(&reading, "-h"), OPTIONS_FINE);
    assert_true(reading.options.help);
    done(&reading);
    assert_int_equal(READ(&reading, "--version"), OPTIONS_FINE);
    assert_true(reading.options.version);
    assert_false(reading.options.help);
    done(&reading);
}

static void test_it_is_known_whether_the_log_level_was_given(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(READ(&reading, "--log-level", "info"), OPTIONS_FINE);
    assert_true(reading.options.log_level_given);
    done(&reading);
    assert_int_equal(READ(&reading, "--seed", "5"), OPTIONS_FINE);
    assert_false(reading.options.log_level_given);
    done(&reading);
}

static void test_help_shows_every_option_with_its_default(void **state)
{
    char *text = NULL;
    size_t length = 0;
    char wanted[256];
    (void)state;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    options_help(stream);
    fclose(stream);
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_info *info = options_info(i);
        snprintf(wanted, sizeof(wanted), "\n  --%s ", info->flag);
        assert_int_equal(answer_count(text, wanted), 1);
        const char *line = strstr(text, wanted) + 1;
        const char *line_end = strchr(line, '\n');
        assert_non_null(line_end);
        snprintf(wanted, sizeof(wanted), "[%s]", info->default_text);
        const char *shown = strstr(line, wanted);
        assert_int_equal(shown && shown < line_end, *info->default_text != '\0');
        assert_memory_equal(line_end + 1, "      ", 6);
        assert_memory_equal(line_end + 7, info->help, strlen(info->help));
    }
    assert_non_null(strstr(text, "--run COMMAND"));
    assert_non_null(strstr(text, "--config FILE"));
    free(text);
}

/* --------------------------------------------------------------------------- configuration file */

static void test_a_file_that_is_wrong_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"seed = 5\n\nsocket = x\nsed = 5\n", "daemon.conf:4: there is no key 'sed'"},
        {"seed = 5\nseed = 5\n", "daemon.conf:2: 'seed' is given twice"},
        {"seed = 5\n[gpu0]\nseed = 5\n", "daemon.conf:3: 'seed' is given twice"},
        {"max-connections = 1\nmax_connections = 1\n",
         "daemon.conf:2: 'max_connections' is given twice"},
        {"# one\nmax-connections = many\n",
         "daemon.conf:2: max-connections must be a number from 1 to 1000000, not "
         "'many'"},
        {"capacity = 64 potatoes\n", "daemon.conf:1: capacity must be a size such as"},
        {"[gpu1]\nseed = 5\n", "daemon.conf:2: there is no section [gpu1], only [gpu0]"},
        {"[gpu0]\nmax-connections = 5\n",
         "daemon.conf:2: 'max-connections' is the daemon's: it must stand before "
         "[gpu0]"},
        {"seed = 5\nwhat is this\n",
         "daemon.conf:2: this is neither 'key = value' nor a [section]"},
        {"seed = 5\nwhat is this\nsed = 5\n",
         "daemon.conf:2: this is neither"}, /* the first thing that is wrong */
        {"sed = 5\nwhat is this\n", "daemon.conf:1: there is no key 'sed'"},
        {"[gpu0\nseed = 5\n", "daemon.conf:1: this is neither"},
        {"policy =\n", "daemon.conf:1: policy must be 1 to 64 bytes of text, not ''"},
        {"config = other\n", "daemon.conf:1: there is no key 'config'"},
        {"help = true\n", "daemon.conf:1: there is no key 'help'"},
        {"SEED = 5\n", "daemon.conf:1: there is no key 'SEED'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct reading reading;
        struct file file;
        write_file(&file, wrong[i].text);
        assert_int_equal(READ(&reading, "--config", file.path), OPTIONS_WRONG);
        if (!strstr(reading.message, wrong[i].says))
            fail_msg("wanted '%s', got '%s'", wrong[i].says, reading.message);
        assert_null(strchr(reading.message, '\n'));
        done(&reading);
        remove_file(&file);
    }
}

static void test_a_line_that_is_too_long_is_refused_and_not_cut(void **state)
{
    (void)state;
    for (size_t digits = 150; digits < 450; digits++) {
        struct reading reading;
        struct file file;
        char text[512] = "\nseed = ";
        size_t start = strlen(text);
        memset(text + start, '1', digits);
        snprintf(text + start + digits, sizeof(text) - start - digits, "\n");
        write_file(&file, text);
        if (READ(&reading, "--config", file.path) == OPTIONS_FINE)
            assert_int_equal(strlen(reading.options.seed), digits);
        else
            assert_non_null(strstr(reading.message, "daemon.conf:2: a line is at most"));
        assert_int_equal(reading.fine, digits < 192);
        done(&reading);
        remove_file(&file);
    }
}

static void test_a_file_may_have_comments_blanks_sections_and_indents(void **state)
{
    struct reading reading;
    struct file file;
    (void)state;
    write_file(
        &file,
        "\xef\xbb\xbf# a comment\r\n; another\n\n  max_connections=7   ; why not\n\tseed : -12\r\n"
        "[gpu0]\n  capacity = 1.5 MiB\n  trace-limit = 3\n\n  fallback_on_oom = false");
    if (READ(&reading, "--config", file.path) != OPTIONS_FINE)
        fail_msg("%s", reading.message);
    assert_int_equal(reading.options.max_connections, 7);
    assert_string_equal(reading.options.seed, "-12");
    assert_int_equal(reading.options.gpu_capacity, 1572864);
    assert_int_equal(reading.options.trace_limit, 3);
    assert_false(reading.options.fallback_on_oom);
    done(&reading);
    remove_file(&file);
}

static void test_the_command_line_wins_over_the_file(void **state)
{
    struct reading reading;
    struct file file;
    (void)state;
    write_file(&file, "seed = 5\nmax-connections = 5\ntrace-limit = 5\n");
    assert_int_equal(READ(&reading, "--seed", "6", "--config", file.path, "--trace-limit", "6"),
                     OPTIONS_FINE);
    assert_string_equal(reading.options.seed, "6");
    assert_int_equal(reading.options.trace_limit, 6);
    assert_int_equal(reading.options.max_connections, 5);
    done(&reading);
    remove_file(&file);
}

/* ---------------------------------------------------------------------------- without memory */

static bool read_all_in_poor_memory(struct chaos *chaos, void *context)
{
    const struct file *file = context;
    struct options options;
    char message[OPTIONS_MESSAGE_SIZE];
    char path[sizeof(file->path)];
    char program[] = "worsegpud";
    char config[] = "--config";
    char socket[] = "--socket=/a/b";
    char twice[] = "--socket=/a/b/c";
    memcpy(path, file->path, sizeof(path));
    char *argv[] = {program, socket, config, path, twice, NULL};
    enum options_result result = options_read(&options, &chaos->memory, 5, argv, message);
    if (result == OPTIONS_NO_MEMORY)
        return false;
    assert_int_equal(result, OPTIONS_FINE);
    assert_string_equal(options.socket, "/a/b/c");
    assert_string_equal(options.seed, "5");
    assert_string_equal(options.policy, "reference");
    options_release(&options);
    return true;
}

static void test_without_memory_nothing_is_read_and_nothing_is_left(void **state)
{
    struct file file;
    (void)state;
    write_file(&file, "seed = 5\n[gpu0]\npolicy = reference\n");
    assert_true(chaos_loop(read_all_in_poor_memory, &file) > 10);
    remove_file(&file);
}

/* -------------------------------------------------------------------- the tables among themselves
 */

/* The value of an engine's default as the wire's table writes it. */
static const char *engine_default(const char *name, char text[64])
{
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"gpu_capacity", config.gpu_capacity},
                   {"max_request_bytes", config.max_request_bytes},
                   {"trace_limit", config.trace_limit}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(name, numbers[i].name) == 0) {
            snprintf(text, 64, "%" PRIu64, numbers[i].value);
            return text;
        }
    if (strcmp(name, "policy") == 0)
        return config.policy;
    if (strcmp(name, "scan") == 0)
        return worsegpu_scan_name(config.scan);
    if (strcmp(name, "fallback_on_oom") == 0)
        return config.fallback_on_oom ? "true" : "false";
    if (strcmp(name, "seed") == 0)
        return config.seed ? config.seed : "drawn from the system";
    double ratio =
        strcmp(name, "gpu_probability") == 0 ? config.gpu_probability : config.forget_probability;
    assert_true(strcmp(name, "gpu_probability") == 0 || strcmp(name, "forget_probability") == 0);
    snprintf(text, 64, "%.3g", ratio);
    return text;
}

static void test_opens_defaults_are_the_engines_and_the_daemons(void **state)
{
    struct reading reading;
    char text[64];
    char got[TEXT_SIZE];
    char wanted[TEXT_SIZE];
    size_t compared = 0;
    enum parameter parameter;
    (void)state;
    assert_int_equal(read_words(&reading, (const char *const[]){NULL}), OPTIONS_FINE);
    for (size_t i = 0; (parameter = method_parameter(METHOD_open, i)) != PARAMETERS; i++) {
        const struct parameter_info *info = parameter_info(parameter);
        if (parameter == PARAMETER_name)
            continue;
        assert_string_equal(info->default_text, engine_default(info->name, text));
        for (size_t k = 0; k < options_count(); k++) {
            if (strcmp(options_info(k)->field, info->name) != 0)
                continue;
            assert_true(options_info(k)->of_gpu);
            value_of(&reading.options, k, got);
            compared++;
            if (parameter == PARAMETER_seed) {
                assert_string_equal(got, "");
            } else if (parameter ==
                       PARAMETER_trace_limit) { /* a shared one keeps some, for who comes to look */
                assert_string_equal(got, "10000");
                assert_string_equal(info->default_text, "0");
            } else {
                value_of_text(options_info(k), info->default_text, wanted);
                assert_string_equal(got, wanted);
            }
        }
    }
    size_t of_gpu = 0;
    for (size_t k = 0; k < options_count(); k++)
        of_gpu += options_info(k)->of_gpu;
    assert_int_equal(compared, of_gpu);
    done(&reading);
}

static void test_the_table_ends_after_its_last_option(void **state)
{
    (void)state;
    assert_null(options_info(options_count()));
    assert_int_equal(index_of("socket"), 0);
    for (size_t i = 0; i < options_count(); i++) {
        assert_int_equal(index_of(options_info(i)->flag), i);
        assert_true(options_info(i)->minimum <= options_info(i)->maximum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_words_every_option_has_the_default_of_the_table),
        cmocka_unit_test(test_every_option_takes_its_default_minimum_and_maximum),
        cmocka_unit_test(test_every_option_refuses_what_is_out_of_its_range_or_of_another_kind),
        cmocka_unit_test(test_a_command_line_that_is_wrong_gets_one_clear_line),
        cmocka_unit_test(test_the_last_of_several_values_counts),
        cmocka_unit_test(test_run_takes_all_words_after_it),
        cmocka_unit_test(test_help_and_version_are_noted_and_read_no_file),
        cmocka_unit_test(test_it_is_known_whether_the_log_level_was_given),
        cmocka_unit_test(test_help_shows_every_option_with_its_default),
        cmocka_unit_test(test_a_file_that_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(test_a_line_that_is_too_long_is_refused_and_not_cut),
        cmocka_unit_test(test_a_file_may_have_comments_blanks_sections_and_indents),
        cmocka_unit_test(test_the_command_line_wins_over_the_file),
        cmocka_unit_test(test_without_memory_nothing_is_read_and_nothing_is_left),
        cmocka_unit_test(test_opens_defaults_are_the_engines_and_the_daemons),
        cmocka_unit_test(test_the_table_ends_after_its_last_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
