/* The configuration file of worsegpud: `key = value` lines, and a [section] for each GPU.
 *
 * libinih reads keys and values. Sections are read here: it does not tell of an empty one, and cuts
 * long names. It cannot say at which line a value was either, so the lines are counted here. */
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/options_table.h"
#include "proto/request_short.h"

struct file_reading {
    struct options *options;
    FILE *file;
    int line;         /* the last one that was read */
    size_t sections;  /* begun so far */
    size_t loose_key; /* the first GPU's key before any section; OPTIONS for none */
    int loose_line;
    bool seen[OPTIONS]; /* the daemon's, and those of the section */
    bool failed;
    int wrong_line;
    enum options_result result;
    char message[OPTIONS_MESSAGE_SIZE - 128];
};

/* Notes the first thing that is wrong. */
__attribute__((format(printf, 3, 4))) static int wrong_at(struct file_reading *reading, int line,
                                                          const char *format, ...)
{
    if (reading->failed)
        return 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reading->message, sizeof(reading->message), format, arguments);
    va_end(arguments);
    reading->result = OPTIONS_WRONG;
    reading->wrong_line = line;
    reading->failed = true;
    return 0;
}

static int no_memory(struct file_reading *reading)
{
    reading->failed = true;
    reading->result = OPTIONS_NO_MEMORY;
    return 0;
}

/* ----------------------------------------------------------------------------------------- keys */

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
    while (index < OPTIONS && !same_key(key, options_info(index)->flag))
        index++;
    return index;
}

static int no_such_key(struct file_reading *reading, const char *name)
{
    const char *nearest = options_nearest_flag(name, false);
    if (nearest)
        return wrong_at(reading, reading->line, "there is no key '%.64s'; did you mean %s?", name,
                        nearest);
    return wrong_at(reading, reading->line, "there is no key '%.64s' (worsegpud --help lists them)",
                    name);
}

static int take_file_value(void *user, const char *section, const char *name, const char *value)
{
    struct file_reading *reading = user;
    struct options *options = reading->options;
    (void)section; /* read here, not there */
    if (reading->failed)
        return 0;
    size_t index = option_of_key(name);
    if (index == OPTIONS)
        return no_such_key(reading, name);
    bool of_gpu = options_info(index)->of_gpu;
    if (reading->sections && !of_gpu)
        return wrong_at(reading, reading->line,
                        "'%.64s' is the daemon's: it must stand before the first section", name);
    if (reading->seen[index])
        return wrong_at(reading, reading->line, "'%.64s' is given twice", name);
    reading->seen[index] = true;
    if (of_gpu && !reading->sections && reading->loose_key == OPTIONS) {
        reading->loose_key = index;
        reading->loose_line = reading->line;
    }
    void *place = option_place(options, &options->gpus[options->gpu_count - 1], index);
    enum options_result result = option_set(options->memory, index, place, value ? value : "");
    if (result == OPTIONS_FINE)
        return 1;
    if (result == OPTIONS_NO_MEMORY)
        return no_memory(reading);
    char expected[OPTION_EXPECTED_SIZE];
    option_expected(index, expected);
    return wrong_at(reading, reading->line, "%.64s must be %s, not '%.64s'", name, expected,
                    value ? value : "");
}

/* ------------------------------------------------------------------------------------- sections */

/* A section begins: one more GPU, or the first one under its own name. */
static void begin_section(struct file_reading *reading, const char *name, size_t length)
{
    struct options *options = reading->options;
    char copy[OPTIONS_GPU_NAME_SIZE];
    if (length >= sizeof(copy) || !request_is_name(name, length)) {
        wrong_at(reading, reading->line,
                 "a GPU's name is 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit, "
                 "not '%.*s'",
                 length > 64 ? 64 : (int)length, name);
        return;
    }
    if (reading->loose_key != OPTIONS) {
        wrong_at(reading, reading->loose_line,
                 "'%s' is a GPU's: in a file with sections it must stand in one of them",
                 options_info(reading->loose_key)->flag);
        return;
    }
    memcpy(copy, name, length);
    copy[length] = '\0';
    if (reading->sections && options_find_gpu(options, copy)) {
        wrong_at(reading, reading->line, "section [%s] is there twice", copy);
        return;
    }
    if (reading->sections == OPTIONS_MOST_GPUS) {
        wrong_at(reading, reading->line, "there can be %d GPUs and no more", OPTIONS_MOST_GPUS);
        return;
    }
    if (reading->sections == 0)
        options_name_gpu(&options->gpus[0], name, length);
    else if (options_add_gpu(options, name, length) != 0)
        no_memory(reading);
    for (size_t index = 0; index < OPTIONS; index++)
        reading->seen[index] = reading->seen[index] && !options_info(index)->of_gpu;
    reading->sections++;
}

/* A line that begins with [. Whether it is a section's; then it has been seen to. */
static bool take_section(struct file_reading *reading, const char *text)
{
    const char *end = strchr(text, ']');
    if (!end)
        return false;
    const char *rest = end + 1;
    rest += strspn(rest, " \t\r\n");
    if (*rest && *rest != ';' && *rest != '#')
        wrong_at(reading, reading->line, "nothing may follow a [section] on its line");
    else
        begin_section(reading, text + 1, (size_t)(end - text - 1));
    return true;
}

/* ---------------------------------------------------------------------------------------- lines */

/* A line for inih, which cuts long ones in pieces and takes an indented one for more of the value
 * before it; a section's is an empty one to it. Nothing more once something is wrong. */
static char *read_file_line(char *text, int size, void *stream)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    struct file_reading *reading = stream;
    if (reading->failed || !fgets(text, size, reading->file))
        return NULL;
    reading->line++;
    if (!strchr(text, '\n') && !feof(reading->file)) {
        wrong_at(reading, reading->line,
                 "a line is at most %d bytes; what is longer can be given on the command line",
                 size - 2);
        return NULL;
    }
    size_t skipped = 0;
    if (reading->line == 1 && strncmp(text, byte_order_mark, sizeof(byte_order_mark) - 1) == 0)
        skipped = sizeof(byte_order_mark) - 1;
    skipped += strspn(text + skipped, " \t");
    memmove(text, text + skipped, strlen(text + skipped) + 1);
    if (*text == '[' && take_section(reading, text))
        memcpy(text, "\n", sizeof("\n"));
    return reading->failed ? NULL : text;
}

enum options_result options_read_file(struct options *options, const char *path,
                                      char message[OPTIONS_MESSAGE_SIZE])
{
    struct file_reading reading = {
        .options = options, .file = fopen(path, "re"), .loose_key = OPTIONS};
    if (!reading.file) {
        snprintf(message, OPTIONS_MESSAGE_SIZE, "cannot read %.256s: %s", path, strerror(errno));
        return OPTIONS_WRONG;
    }
    int line = ini_parse_stream(read_file_line, &reading, take_file_value, &reading);
    bool unreadable = ferror(reading.file) != 0;
    fclose(reading.file);
    options->log_level_given = reading.seen[OPTION_log_level];
    if (line == 0 && !unreadable && !reading.failed)
        return OPTIONS_FINE;
    if (reading.failed && reading.result == OPTIONS_NO_MEMORY)
        return OPTIONS_NO_MEMORY;
    if (unreadable)
        snprintf(message, OPTIONS_MESSAGE_SIZE, "cannot read %.256s", path);
    else if (line > 0 && (!reading.failed || line < reading.wrong_line))
        snprintf(message, OPTIONS_MESSAGE_SIZE,
                 "%.100s:%d: this is neither 'key = value' nor a [section]", path, line);
    else
        snprintf(message, OPTIONS_MESSAGE_SIZE, "%.100s:%d: %s", path, reading.wrong_line,
                 reading.message);
    return OPTIONS_WRONG;
}
