/* The command line and the configuration file of worsegpud; see options.h and options.def. */
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <stdarg.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/memory.h"

enum option_type {
    TYPE_BYTES,
    TYPE_COUNT,
    TYPE_RATIO,
    TYPE_YESNO,
    TYPE_WORD
};

enum option_index {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, help) OPTION_##field,
#include "daemon/options.def"
    OPTIONS
};

/* SCOPE and the macro's own name as truth values. */
#define SCOPE_GPU true
#define SCOPE_DAEMON false

static const struct option_info infos[] = {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, help)                     \
    {#field,        flag,  #type, default_text, UINT64_C(minimum), UINT64_C(maximum),              \
     SCOPE_##scope, false, help},
#define LIMIT(field, flag, type, default_text, minimum, maximum, scope, help)                      \
    {#field,        flag, #type, default_text, UINT64_C(minimum), UINT64_C(maximum),               \
     SCOPE_##scope, true, help},
#include "daemon/options.def"
};

static const enum option_type types[] = {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, help) TYPE_##type,
#include "daemon/options.def"
};

static const size_t places[] = {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, help)                     \
    offsetof(struct options, field),
#include "daemon/options.def"
};

static const struct {
    const char *type;
    const char *shown;
} shown_types[] = {
    [TYPE_BYTES] = {"BYTES", "SIZE"}, [TYPE_COUNT] = {"COUNT", "N"},
    [TYPE_RATIO] = {"RATIO", "P"},    [TYPE_YESNO] = {"YESNO", "true|false"},
    [TYPE_WORD] = {"WORD", "TEXT"},
};

size_t options_count(void)
{
    return OPTIONS;
}

const struct option_info *options_info(size_t index)
{
    return index < OPTIONS ? &infos[index] : NULL;
}

static void *place_of(struct options *options, size_t index)
{
    return (char *)options + places[index];
}

uint64_t options_number(const struct options *options, size_t index)
{
    uint64_t value;
    memcpy(&value, (const char *)options + places[index], sizeof(value));
    return value;
}

/* Says what a value must be. */
static void expected_text(size_t index, char *text, size_t size)
{
    const struct option_info *info = &infos[index];
    switch (types[index]) {
    case TYPE_BYTES:
        snprintf(text, size, "a size such as 4096, 64MiB or 1.5GiB, from %llu to %llu bytes",
                 (unsigned long long)info->minimum, (unsigned long long)info->maximum);
        break;
    case TYPE_COUNT:
        snprintf(text, size, "a number from %llu to %llu", (unsigned long long)info->minimum,
                 (unsigned long long)info->maximum);
        break;
    case TYPE_RATIO:
        snprintf(text, size, "a number from 0 to 1");
        break;
    case TYPE_YESNO:
        snprintf(text, size, "true or false");
        break;
    case TYPE_WORD:
        snprintf(text, size, "%llu to %llu bytes of text", (unsigned long long)info->minimum,
                 (unsigned long long)info->maximum);
        break;
    }
}

static enum options_result set_number(struct options *options, size_t index, const char *text)
{
    uint64_t value;
    bool read =
        types[index] == TYPE_BYTES ? bytes_from_text(text, &value) : count_from_text(text, &value);
    if (!read || value < infos[index].minimum || value > infos[index].maximum)
        return OPTIONS_WRONG;
    memcpy(place_of(options, index), &value, sizeof(value));
    return OPTIONS_FINE;
}

static enum options_result set_ratio(struct options *options, size_t index, const char *text)
{
    double value;
    if (!number_from_text(text, &value) || !(value >= 0.0 && value <= 1.0))
        return OPTIONS_WRONG;
    memcpy(place_of(options, index), &value, sizeof(value));
    return OPTIONS_FINE;
}

static enum options_result set_yesno(struct options *options, size_t index, const char *text)
{
    bool value = strcmp(text, "true") == 0;
    if (!value && strcmp(text, "false") != 0)
        return OPTIONS_WRONG;
    memcpy(place_of(options, index), &value, sizeof(value));
    return OPTIONS_FINE;
}

static void release_word(struct options *options, size_t index)
{
    char **word = place_of(options, index);
    if (*word)
        memory_release_array(options->memory, *word, strlen(*word) + 1, 1);
    *word = NULL;
}

static enum options_result set_word(struct options *options, size_t index, const char *text)
{
    size_t length = strlen(text);
    if (length < infos[index].minimum || length > infos[index].maximum)
        return OPTIONS_WRONG;
    char *copy = memory_allocate_array(options->memory, length + 1, 1);
    if (!copy)
        return OPTIONS_NO_MEMORY;
    memcpy(copy, text, length + 1);
    release_word(options, index);
    char **word = place_of(options, index);
    *word = copy;
    return OPTIONS_FINE;
}

static enum options_result set_option(struct options *options, size_t index, const char *text)
{
    switch (types[index]) {
    case TYPE_BYTES:
    case TYPE_COUNT:
        return set_number(options, index, text);
    case TYPE_RATIO:
        return set_ratio(options, index, text);
    case TYPE_YESNO:
        return set_yesno(options, index, text);
    case TYPE_WORD:
        return set_word(options, index, text);
    }
    return OPTIONS_WRONG;
}

int options_defaults(struct options *options, const struct worsegpu_memory *memory)
{
    memset(options, 0, sizeof(*options));
    options->memory = memory;
    for (size_t index = 0; index < OPTIONS; index++) {
        /* The path has a default of its own, sought when the socket is made: "" may be shorter than
         * what may be given. */
        if (set_option(options, index, infos[index].default_text) != OPTIONS_FINE) {
            options_release(options);
            return -1;
        }
    }
    return 0;
}

void options_release(struct options *options)
{
    for (size_t index = 0; index < OPTIONS; index++)
        if (types[index] == TYPE_WORD)
            release_word(options, index);
}

/* ---------------------------------------------------------------------------- configuration file
 */

struct file_reading {
    struct options *options;
    FILE *file;
    int line;                 /* the last one that was read */
    const bool *given_before; /* by the command line: those stay */
    bool seen[OPTIONS];
    bool failed;
    enum options_result result;
    char message[OPTIONS_MESSAGE_SIZE - 128];
};

static bool same_key(const char *key, const char *flag)
{
    for (; *key && *flag; key++, flag++)
        if (*key != *flag && !(*key == '_' && *flag == '-'))
            return false;
    return *key == *flag;
}

static size_t option_of_key(const char *key)
{
    size_t index = 0;
    while (index < OPTIONS && !same_key(key, infos[index].flag))
        index++;
    return index;
}

/* Notes the first thing that is wrong; the line being read is the one. */
__attribute__((format(printf, 2, 3))) static int wrong_in_file(struct file_reading *reading,
                                                               const char *format, ...)
{
    if (!reading->failed) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(reading->message, sizeof(reading->message), format, arguments);
        va_end(arguments);
        reading->result = OPTIONS_WRONG;
    }
    reading->failed = true;
    return 0;
}

static int take_file_value(void *user, const char *section, const char *name, const char *value)
{
    struct file_reading *reading = user;
    if (reading->failed)
        return 0;
    size_t index = option_of_key(name);
    if (index == OPTIONS)
        return wrong_in_file(reading, "there is no key '%.64s' (worsegpud --help lists them)",
                             name);
    if (*section && strcmp(section, "gpu0") != 0)
        return wrong_in_file(reading, "there is no section [%.64s], only [gpu0]", section);
    if (*section && !infos[index].of_gpu)
        return wrong_in_file(reading, "'%.64s' is the daemon's: it must stand before [gpu0]", name);
    if (reading->seen[index])
        return wrong_in_file(reading, "'%.64s' is given twice", name);
    reading->seen[index] = true;
    if (reading->given_before[index])
        return 1;
    enum options_result result = set_option(reading->options, index, value ? value : "");
    if (result == OPTIONS_FINE)
        return 1;
    char expected[128];
    expected_text(index, expected, sizeof(expected));
    wrong_in_file(reading, "%.64s must be %s, not '%.64s'", name, expected, value ? value : "");
    reading->result = result;
    return 0;
}

/* A line for inih, which cannot say at which one a value was, cuts long ones in pieces and takes
 * an indented one for more of the value before it. Nothing more once something is wrong. */
static char *read_file_line(char *text, int size, void *stream)
{
    struct file_reading *reading = stream;
    if (reading->failed || !fgets(text, size, reading->file))
        return NULL;
    reading->line++;
    if (!strchr(text, '\n') && !feof(reading->file)) {
        wrong_in_file(reading,
                      "a line is at most %d bytes; what is longer can be given on the command line",
                      size - 2);
        return NULL;
    }
    size_t blanks = strspn(text, " \t");
    memmove(text, text + blanks, strlen(text + blanks) + 1);
    return text;
}

enum options_result options_read_file(struct options *options, const char *path, const bool *given,
                                      char message[OPTIONS_MESSAGE_SIZE])
{
    struct file_reading reading = {
        .options = options, .file = fopen(path, "re"), .given_before = given};
    if (!reading.file) {
        snprintf(message, OPTIONS_MESSAGE_SIZE, "cannot read %.256s: %s", path, strerror(errno));
        return OPTIONS_WRONG;
    }
    int line = ini_parse_stream(read_file_line, &reading, take_file_value, &reading);
    bool unreadable = ferror(reading.file) != 0;
    fclose(reading.file);
    if (line == 0 && !unreadable && !reading.failed)
        return OPTIONS_FINE;
    if (reading.failed && reading.result == OPTIONS_NO_MEMORY)
        return OPTIONS_NO_MEMORY;
    if (unreadable)
        snprintf(message, OPTIONS_MESSAGE_SIZE, "cannot read %.256s", path);
    else if (line > 0 && (!reading.failed || line < reading.line))
        snprintf(message, OPTIONS_MESSAGE_SIZE,
                 "%.100s:%d: this is neither 'key = value' nor a [section]", path, line);
    else
        snprintf(message, OPTIONS_MESSAGE_SIZE, "%.100s:%d: %s", path, reading.line,
                 reading.message);
    return OPTIONS_WRONG;
}

/* ------------------------------------------------------------------------------------ command line
 */

enum {
    FLAG_HELP = OPTIONS,
    FLAG_VERSION,
    FLAG_CONFIG,
    FLAG_RUN,
    FLAGS
};

static void make_flags(struct option flags[FLAGS + 1])
{
    static const struct option own[] = {
        {"help", no_argument, NULL, FLAG_HELP},
        {"version", no_argument, NULL, FLAG_VERSION},
        {"config", required_argument, NULL, FLAG_CONFIG},
        {"run", required_argument, NULL, FLAG_RUN},
        {NULL, 0, NULL, 0},
    };
    for (size_t index = 0; index < OPTIONS; index++)
        flags[index] = (struct option){infos[index].flag, required_argument, NULL, (int)index};
    memcpy(flags + OPTIONS, own, sizeof(own));
}

/* Moves --run's command out of the way of getopt: its arguments are not ours. */
static int count_before_run(int argc, char **argv)
{
    for (int index = 1; index < argc; index++) {
        if (strcmp(argv[index], "--run") == 0)
            return index;
        if (strcmp(argv[index], "--") == 0)
            break;
    }
    return argc;
}

static enum options_result refuse(char message[OPTIONS_MESSAGE_SIZE], const char *what,
                                  const char *word)
{
    snprintf(message, OPTIONS_MESSAGE_SIZE, "%s%s%.128s%s (worsegpud --help lists the options)",
             what, word ? " '" : "", word ? word : "", word ? "'" : "");
    return OPTIONS_WRONG;
}

static enum options_result take_flag(struct options *options, int flag, const char *value,
                                     bool *given, char message[OPTIONS_MESSAGE_SIZE])
{
    size_t index = (size_t)flag;
    given[index] = true;
    enum options_result result = set_option(options, index, value);
    if (result == OPTIONS_WRONG) {
        char expected[128];
        expected_text(index, expected, sizeof(expected));
        snprintf(message, OPTIONS_MESSAGE_SIZE, "--%s must be %s, not '%.128s'", infos[index].flag,
                 expected, value);
    }
    return result;
}

static enum options_result read_command_line(struct options *options, int argc, char **argv,
                                             bool *given, const char **config,
                                             char message[OPTIONS_MESSAGE_SIZE])
{
    struct option flags[FLAGS + 1];
    make_flags(flags);
    int ours = count_before_run(argc, argv);
    if (ours < argc) {
        if (ours + 1 == argc)
            return refuse(message, "--run needs a command", NULL);
        options->run = argv + ours + 1;
    }
    optind = 0; /* start anew, whoever has used getopt before */
    opterr = 0;
    for (;;) {
        int flag = getopt_long(ours, argv, "+:h", flags, NULL);
        if (flag == -1)
            break;
        if (flag == 'h' || flag == FLAG_HELP) {
            options->help = true;
        } else if (flag == FLAG_VERSION) {
            options->version = true;
        } else if (flag == FLAG_CONFIG) {
            *config = optarg;
        } else if (flag == FLAG_RUN) {
            return refuse(message, "write --run COMMAND, not --run=COMMAND", NULL);
        } else if (flag == ':') {
            return refuse(message, "a value is missing after", argv[optind - 1]);
        } else if (flag == '?') {
            /* A letter among several in one word leaves optind where it was. */
            const char letter[] = {'-', (char)optopt, '\0'};
            return refuse(message, "there is no option",
                          optopt >= FLAGS ? letter : argv[optind - 1]);
        } else {
            enum options_result result = take_flag(options, flag, optarg, given, message);
            if (result != OPTIONS_FINE)
                return result;
        }
    }
    if (optind < ours)
        return refuse(message, "what is this word for?", argv[optind]);
    return OPTIONS_FINE;
}

enum options_result options_read(struct options *options, const struct worsegpu_memory *memory,
                                 int argc, char **argv, char message[OPTIONS_MESSAGE_SIZE])
{
    bool given[OPTIONS] = {false};
    const char *config = NULL;
    if (options_defaults(options, memory) != 0)
        return OPTIONS_NO_MEMORY;
    enum options_result result = read_command_line(options, argc, argv, given, &config, message);
    if (result == OPTIONS_FINE && config && !options->help && !options->version)
        result = options_read_file(options, config, given, message);
    options->log_level_given = given[OPTION_log_level];
    if (result != OPTIONS_FINE)
        options_release(options);
    return result;
}

void options_help(FILE *stream)
{
    fputs("usage: worsegpud [OPTION]...\n"
          "       worsegpud [OPTION]... --run COMMAND [ARGUMENT]...\n"
          "\n"
          "Serves a fake GPU that misbehaves on purpose to every process that connects to its Unix "
          "socket.\n"
          "It never touches a real GPU. Stop it with SIGTERM or Ctrl-C.\n"
          "\n"
          "  --run COMMAND [ARGUMENT]...\n"
          "      serve on a private socket, run the command with WORSEGPU_SOCKET set, end with its "
          "status\n"
          "  --config FILE\n"
          "      read options from FILE: lines 'key = value' with the names below; the command "
          "line wins\n"
          "  --help, --version\n",
          stream);
    for (int part = 0; part < 3; part++) {
        static const char *const titles[] = {"Daemon:", "The shared allocator, gpu0:", "Limits:"};
        fprintf(stream, "\n%s\n", titles[part]);
        for (size_t index = 0; index < OPTIONS; index++) {
            const struct option_info *info = &infos[index];
            int belongs = info->is_limit ? 2 : info->of_gpu ? 1 : 0;
            if (belongs != part)
                continue;
            fprintf(stream, "  --%s %s", info->flag, shown_types[types[index]].shown);
            fprintf(stream, *info->default_text ? "  [%s]\n" : "\n%s", info->default_text);
            fprintf(stream, "      %s\n", info->help);
        }
    }
    fputs("\nExamples:\n"
          "  worsegpud --socket /tmp/gpu.sock --capacity 1GiB --seed 7\n"
          "  worsegpud --seed 7 --run worsegpu-cli alloc 4096\n",
          stream);
}
