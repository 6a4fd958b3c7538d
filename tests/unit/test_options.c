/* Tests of daemon/options.c, options_table.c and options_file.c: each option of the table on the
 * command line and in a file, and what is wrong. */
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
#define SHOW_CHOICE(value) SHOW_WORD(value)
#define SHOW_SEED(value) SHOW_WORD(value)
#define SHOW_GROUP(value) SHOW_WORD((value).name)

/* Where an option's value is. */
#define HOME_DAEMON(options) (options)
#define HOME_GPU(options) (&(options)->gpus[0])

/* An option's value in one way of writing it. */
static void value_of(const struct options *options, size_t wanted, char text[TEXT_SIZE])
{
    size_t index = 0;
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)             \
    if (index++ == wanted)                                                                         \
        SHOW_##type(HOME_##scope(options)->field);
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
            /* Beside the other's default, this one has less room. */
            bool unread = strcmp(info->field, "max_unread_bytes") == 0;
            show_number(unread ? (1 << 20) - OUTPUT_ABOVE_UNREAD : info->maximum, text);
            assert_taken(i, text);
        } else if (is_type(info, "RATIO")) {
            assert_taken(i, "0");
            assert_taken(i, "1");
            assert_taken(i, "0.125");
            assert_taken(i, "1e-3");
        } else if (is_type(info, "YESNO")) {
            assert_taken(i, "true");
            assert_taken(i, "false");
        } else if (is_type(info, "CHOICE")) {
            for (size_t number = 0; option_choice(i, number); number++)
                assert_taken(i, option_choice(i, number));
            assert_non_null(option_choice(i, 1));
        } else if (is_type(info, "GROUP")) {
            assert_taken(i, "root");
            assert_taken(i, "");
        } else {
            assert_true(is_type(info, "WORD") || is_type(info, "SEED"));
            if (is_type(info, "SEED"))
                assert_taken(i, "-12345678901234567890");
            memset(text, '1', sizeof(text));
            text[info->minimum ? info->minimum : 1] = '\0';
            assert_taken(i, text);
            memset(text, '1', sizeof(text));
            text[info->maximum] = '\0';
            if (is_type(info, "SEED"))
                text[0] = '-'; /* a sign is no digit */
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
    static const char *const no_choice[] = {"", "nonesuch", "Worse", "ow", "infos"};
    static const char *const no_seed[] = {"x", "-", "+1", "1.0", "0x1", "1 2"};
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
        } else if (is_type(info, "CHOICE")) {
            for (size_t k = 0; k < sizeof(no_choice) / sizeof(no_choice[0]); k++)
                assert_refused(i, no_choice[k]);
        } else {
            for (size_t k = 0; is_type(info, "SEED") && k < sizeof(no_seed) / sizeof(no_seed[0]);
                 k++)
                assert_refused(i, no_seed[k]);
            if (is_type(info, "GROUP"))
                assert_refused(i, "no such group: surely");
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
        const char *words[5];
        const char *says;
    } wrong[] = {
        {{"--nonsense"}, "there is no option '--nonsense'"},
        {{"--nonsense=5"}, "there is no option '--nonsense=5'"},
        {{"--max", "5"}, "there is no option '--max'"}, /* the start of several */
        {{"-x"}, "there is no option '-x'"},
        {{"-xy"}, "there is no option '-x'"},
        {{"--seed", "1", "-hx"}, "there is no option '-x'"},
        {{"--help=me"}, "there is no option '--help=me'"},
        {{"--capacty", "1GiB"}, "there is no option '--capacty'; did you mean --capacity?"},
        {{"--max_conections=5"},
         "there is no option '--max_conections=5'; did you mean --max-connections?"},
        {{"--ruN", "true"}, "there is no option '--ruN'; did you mean --run?"},
        {{"capacity", "1GiB"}, "what is this word for? 'capacity'; did you mean --capacity?"},
        {{"--nonsense"}, "(worsegpud --help lists the options)"},
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
        {{"--config", "/dev/null", "--config", "/dev/null"}, "there can be one --config"},
        {{"--max-unread-bytes", "1MiB"},
         "max-unread-bytes must be at least 65536 less than max-output-bytes"},
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
    assert_string_equal(reading.options.gpus[0].seed, "6");
    assert_int_equal(reading.options.gpus[0].gpu_capacity, 2097152);
    done(&reading);
}

static void test_run_takes_all_words_after_it(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(READ(&reading, "--seed", "5", "--run", "sh", "-c", "exit 3", "--seed", "x"),
                     OPTIONS_FINE);
    assert_string_equal(reading.options.gpus[0].seed, "5");
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
    assert_int_equal(read_from_file(&reading, options_info(index_of("log-level")), "info", false),
                     OPTIONS_FINE);
    assert_true(reading.options.log_level_given);
    done(&reading);
}

static void test_a_command_is_spared_the_daemons_own_words_unless_they_are_wanted(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(READ(&reading, "--log-level", "error"), OPTIONS_FINE);
    assert_int_equal(options_log_level(&reading.options), LOG_LEVEL_ERROR);
    done(&reading);
    assert_int_equal(READ(&reading, "--run", "true"), OPTIONS_FINE);
    assert_int_equal(options_log_level(&reading.options), LOG_LEVEL_WARNING);
    done(&reading);
    assert_int_equal(READ(&reading, "--log-level", "info", "--run", "true"), OPTIONS_FINE);
    assert_int_equal(options_log_level(&reading.options), LOG_LEVEL_INFO);
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
        {"[gpu0]\nseed = 5\nseed = 5\n", "daemon.conf:3: 'seed' is given twice"},
        {"\nseed = 5\n[gpu0]\nseed = 5\n", "daemon.conf:2: 'seed' is a GPU's: in a file with "
                                           "sections it must stand in one of them"},
        {"[gpu0]\n[gpu1]\n[gpu0]\n", "daemon.conf:3: section [gpu0] is there twice"},
        {"[a]\n[]\n", "daemon.conf:2: a GPU's name is 1 to 64 of A-Z a-z 0-9 . _ -, beginning "
                      "with a letter or digit, not ''"},
        {"[.a]\n", "daemon.conf:1: a GPU's name is"},
        {"[a b]\n", "not 'a b'"},
        {"[ a]\n", "not ' a'"},
        {"[a;]\n", "not 'a;'"},
        {"[gpu0] seed = 5\n", "daemon.conf:1: nothing may follow a [section] on its line"},
        {"[gpu0]]\n", "daemon.conf:1: nothing may follow a [section] on its line"},
        {"[a]\npolicy = nicer\n", "daemon.conf:2: policy must be worse, reference, "},
        {"[a]\n[b]\nscan = no\n", "daemon.conf:3: scan must be accounted or walked, not 'no'"},
        {"[a]\nseed = x\n", "daemon.conf:2: seed must be a decimal integer of at most 4300 digits"},
        {"admin-group = no such group\n",
         "daemon.conf:1: admin-group must be the name of a group of this system, not 'no such "
         "group'"},
        {"[a]\nwhat is this\n[.]\n", "daemon.conf:2: this is neither"},
        {"max-connections = 1\nmax_connections = 1\n",
         "daemon.conf:2: 'max_connections' is given twice"},
        {"# one\nmax-connections = many\n",
         "daemon.conf:2: max-connections must be a number from 1 to 1000000, not "
         "'many'"},
        {"capacity = 64 potatoes\n", "daemon.conf:1: capacity must be a size such as"},
        {"[gpu0]\nmax-connections = 5\n",
         "daemon.conf:2: 'max-connections' is the daemon's: it must stand before "
         "the first section"},
        {"seed = 5\nwhat is this\n",
         "daemon.conf:2: this is neither 'key = value' nor a [section]"},
        {"seed = 5\nwhat is this\nsed = 5\n",
         "daemon.conf:2: this is neither"}, /* the first thing that is wrong */
        {"sed = 5\nwhat is this\n", "daemon.conf:1: there is no key 'sed'"},
        {"[gpu0\nseed = 5\n", "daemon.conf:1: this is neither"},
        {"policy =\n", "daemon.conf:1: policy must be worse, reference, "},
        {"config = other\n", "daemon.conf:1: there is no key 'config'"},
        {"capacty = 1GiB\n", "daemon.conf:1: there is no key 'capacty'; did you mean capacity?"},
        {"max_rulse = 1\n", "daemon.conf:1: there is no key 'max_rulse'; did you mean max-rules?"},
        {"nonsense = 1\n", "there is no key 'nonsense' (worsegpud --help lists them)"},
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
            assert_int_equal(strlen(reading.options.gpus[0].seed), digits);
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
    write_file(&file, "\xef\xbb\xbf# a comment\r\n; another\n\n  max_connections=7   ; why not\n"
                      "\t[gpu0]  ; the first\r\n\tseed : -12\r\n  capacity = 1.5 MiB\n  "
                      "trace-limit = 3\n\n  fallback_on_oom = false");
    if (READ(&reading, "--config", file.path) != OPTIONS_FINE)
        fail_msg("%s", reading.message);
    assert_int_equal(reading.options.max_connections, 7);
    assert_int_equal(reading.options.gpu_count, 1);
    assert_string_equal(reading.options.gpus[0].name, "gpu0");
    assert_string_equal(reading.options.gpus[0].seed, "-12");
    assert_int_equal(reading.options.gpus[0].gpu_capacity, 1572864);
    assert_int_equal(reading.options.gpus[0].trace_limit, 3);
    assert_false(reading.options.gpus[0].fallback_on_oom);
    done(&reading);
    remove_file(&file);
}

/* Reads a file with the words after it. */
static enum options_result read_text(struct reading *reading, const char *text,
                                     const char *const words[])
{
    const char *all[MOST_WORDS] = {"--config"};
    size_t count = 2;
    struct file file;
    write_file(&file, text);
    all[1] = file.path;
    for (; *words; words++)
        all[count++] = *words;
    enum options_result result = read_words(reading, all);
    remove_file(&file);
    return result;
}

#define READ_TEXT(reading, text, ...)                                                              \
    read_text(reading, text, (const char *const[]){__VA_ARGS__, NULL})

static void test_the_command_line_wins_over_the_file(void **state)
{
    struct reading reading;
    struct file file;
    (void)state;
    write_file(&file, "seed = 5\nmax-connections = 5\ntrace-limit = 5\n");
    assert_int_equal(READ(&reading, "--seed", "6", "--config", file.path, "--trace-limit", "6"),
                     OPTIONS_FINE);
    assert_string_equal(reading.options.config, reading.argv[4]);
    assert_string_equal(reading.options.gpus[0].name, "gpu0");
    assert_string_equal(reading.options.gpus[0].seed, "6");
    assert_int_equal(reading.options.gpus[0].trace_limit, 6);
    assert_int_equal(reading.options.max_connections, 5);
    done(&reading);
    remove_file(&file);
}

static void test_what_is_wrong_in_the_file_is_wrong_whatever_the_command_line_says(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(READ_TEXT(&reading, "\nseed = x\n", "--seed", "6"), OPTIONS_WRONG);
    assert_non_null(strstr(reading.message, "daemon.conf:2: seed must be"));
    done(&reading);
}

static void test_each_section_is_a_gpu_in_the_order_of_the_file(void **state)
{
    char longest[65];
    char text[512];
    struct reading reading;
    (void)state;
    memset(longest, 'n', 64);
    longest[64] = '\0';
    snprintf(text, sizeof(text),
             "max-connections = 5\n[b.0-_Z]\npolicy = reference\nhost-capacity = 1KiB\n"
             "[a]\n[%s]\nseed = 7\ncapacity = 1MiB\n[9]",
             longest);
    if (READ_TEXT(&reading, text, "--capacity", "5") != OPTIONS_FINE)
        fail_msg("%s", reading.message);
    const struct gpu_options *gpus = reading.options.gpus;
    assert_int_equal(reading.options.gpu_count, 4);
    assert_string_equal(gpus[0].name, "b.0-_Z");
    assert_string_equal(gpus[0].policy, "reference");
    assert_int_equal(gpus[0].host_capacity, 1024);
    assert_int_equal(gpus[0].gpu_capacity, 5);
    assert_string_equal(gpus[1].name, "a");
    assert_string_equal(gpus[1].policy, "worse");
    assert_int_equal(gpus[1].host_capacity, 0);
    assert_int_equal(gpus[1].gpu_capacity, 67108864);
    assert_string_equal(gpus[2].name, longest);
    assert_string_equal(gpus[2].seed, "7");
    assert_int_equal(gpus[2].gpu_capacity, 1048576);
    assert_string_equal(gpus[3].name, "9");
    assert_string_equal(gpus[3].seed, "");
    assert_ptr_equal(options_find_gpu(&reading.options, "a"), &gpus[1]);
    assert_null(options_find_gpu(&reading.options, "gpu0"));
    done(&reading);
}

static void test_there_can_be_so_many_gpus_and_no_more(void **state)
{
    (void)state;
    for (size_t count = OPTIONS_MOST_GPUS; count <= OPTIONS_MOST_GPUS + 1; count++) {
        char text[2048];
        char says[64];
        struct reading reading;
        size_t length = 0;
        for (size_t i = 0; i < count; i++)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "[gpu%zu]\n", i);
        enum options_result result = READ_TEXT(&reading, text, "--seed", "1");
        snprintf(says, sizeof(says), "daemon.conf:%zu: there can be %d GPUs", count,
                 OPTIONS_MOST_GPUS);
        if (count == OPTIONS_MOST_GPUS)
            assert_int_equal(reading.options.gpu_count, OPTIONS_MOST_GPUS);
        else
            assert_non_null(strstr(reading.message, says));
        assert_int_equal(result, count == OPTIONS_MOST_GPUS ? OPTIONS_FINE : OPTIONS_WRONG);
        done(&reading);
    }
}

static void test_a_name_of_65_bytes_is_refused_and_not_cut(void **state)
{
    char text[80] = "[";
    struct reading reading;
    (void)state;
    memset(text + 1, 'n', 65);
    text[66] = ']';
    assert_int_equal(READ_TEXT(&reading, text, "--seed", "1"), OPTIONS_WRONG);
    assert_non_null(strstr(reading.message, "daemon.conf:1: a GPU's name is 1 to 64 of"));
    done(&reading);
}

static void test_a_group_is_read_with_its_number(void **state)
{
    struct reading reading;
    (void)state;
    assert_int_equal(READ(&reading, "--admin-group", "root"), OPTIONS_FINE);
    assert_int_equal(reading.options.admin_group.gid, 0);
    assert_string_equal(reading.options.admin_group.name, "root");
    done(&reading);
}

/* What `words` read when a daemon runs that began with the file `before`. */
static enum options_result read_later(struct reading *reading, const char *before,
                                      const char *after, const char *const words[])
{
    struct reading first;
    if (read_text(&first, before, words) != OPTIONS_FINE)
        fail_msg("%s", first.message);
    struct file file;
    write_file(&file, after);
    free(first.argv[2]);
    first.argv[2] = strdup(file.path);
    int argc = 0;
    while (first.argv[argc])
        argc++;
    reading->chaos = first.chaos;
    struct options running = first.options;
    running.memory = &reading->chaos.memory;
    reading->chaos.memory.context = &reading->chaos;
    enum options_result result =
        options_read_again(&reading->options, &running, argc, first.argv, reading->message);
    options_release(&running);
    reading->fine = result == OPTIONS_FINE;
    memcpy(reading->argv, first.argv, sizeof(first.argv));
    remove_file(&file);
    return result;
}

static void test_read_again_the_command_line_stays_with_the_gpu_that_runs_first(void **state)
{
    static const char *const words[] = {"--capacity", "5", NULL};
    struct reading reading;
    (void)state;
    assert_int_equal(read_later(&reading, "[a]\n[b]\n", "[b]\n[a]\nseed = 3\n", words),
                     OPTIONS_FINE);
    assert_string_equal(reading.options.gpus[0].name, "b");
    assert_int_equal(reading.options.gpus[0].gpu_capacity, 67108864);
    assert_int_equal(reading.options.gpus[1].gpu_capacity, 5);
    done(&reading);
    assert_int_equal(read_later(&reading, "[a]\n[b]\n", "[b]\n", words), OPTIONS_FINE);
    assert_int_equal(reading.options.gpus[0].gpu_capacity, 67108864);
    done(&reading);
    assert_int_equal(read_later(&reading, "[a]\n[b]\n", "[b]\nx\n", words), OPTIONS_WRONG);
    done(&reading);
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
    assert_int_equal(options.gpu_count, 3);
    assert_string_equal(options.gpus[0].seed, "5");
    assert_string_equal(options.gpus[0].policy, "reference");
    assert_string_equal(options.gpus[2].seed, "6");
    assert_string_equal(options.admin_group.name, "root");
    options_release(&options);
    return true;
}

static void test_without_memory_nothing_is_read_and_nothing_is_left(void **state)
{
    struct file file;
    (void)state;
    write_file(&file, "admin-group = root\n[gpu0]\nseed = 5\npolicy = reference\n[gpu1]\n"
                      "[gpu2]\nseed = 6\n");
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
    if (strcmp(name, "knobs") == 0)
        return config.knobs ? config.knobs : "";
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
    for (size_t k = 0; k < options_count();
         k++) /* a private one has no host pool of its own size */
        of_gpu += options_info(k)->of_gpu && strcmp(options_info(k)->field, "host_capacity") != 0;
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
        cmocka_unit_test(test_a_command_is_spared_the_daemons_own_words_unless_they_are_wanted),
        cmocka_unit_test(test_help_shows_every_option_with_its_default),
        cmocka_unit_test(test_a_file_that_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(test_a_line_that_is_too_long_is_refused_and_not_cut),
        cmocka_unit_test(test_a_file_may_have_comments_blanks_sections_and_indents),
        cmocka_unit_test(test_the_command_line_wins_over_the_file),
        cmocka_unit_test(test_what_is_wrong_in_the_file_is_wrong_whatever_the_command_line_says),
        cmocka_unit_test(test_each_section_is_a_gpu_in_the_order_of_the_file),
        cmocka_unit_test(test_there_can_be_so_many_gpus_and_no_more),
        cmocka_unit_test(test_a_name_of_65_bytes_is_refused_and_not_cut),
        cmocka_unit_test(test_a_group_is_read_with_its_number),
        cmocka_unit_test(test_read_again_the_command_line_stays_with_the_gpu_that_runs_first),
        cmocka_unit_test(test_without_memory_nothing_is_read_and_nothing_is_left),
        cmocka_unit_test(test_opens_defaults_are_the_engines_and_the_daemons),
        cmocka_unit_test(test_the_table_ends_after_its_last_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
