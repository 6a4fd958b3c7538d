/* The options of worsegpud: defaults, then the file, then the command line; see options.h. */
#include "daemon/options.h"

#include <getopt.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/options_table.h"

/* -------------------------------------------------------------------------------- beginning, end
 */

/* Sets either the GPU's options to their defaults, or the daemon's. */
static int set_defaults(struct options *options, struct gpu_options *gpu, bool of_gpu)
{
    for (size_t index = 0; index < OPTIONS; index++) {
        const struct option_info *info = options_info(index);
        /* The path has a default of its own, sought when the socket is made. */
        if (info->of_gpu == of_gpu &&
            option_set(options->memory, index, option_place(options, gpu, index),
                       info->default_text) != OPTIONS_FINE)
            return -1;
    }
    return 0;
}

static void clear(struct options *options, struct gpu_options *gpu, bool of_gpu)
{
    for (size_t index = 0; index < OPTIONS; index++)
        if (options_info(index)->of_gpu == of_gpu)
            option_clear(options->memory, index, option_place(options, gpu, index));
}

void options_name_gpu(struct gpu_options *gpu, const char *name, size_t length)
{
    memset(gpu->name, 0, sizeof(gpu->name));
    memcpy(gpu->name, name, length);
}

int options_add_gpu(struct options *options, const char *name, size_t length)
{
    if (memory_grow(options->memory, &options->gpus, &options->gpu_capacity_count,
                    options->gpu_count + 1, sizeof(*options->gpus)) != 0)
        return -1;
    struct gpu_options *gpu = &options->gpus[options->gpu_count];
    memset(gpu, 0, sizeof(*gpu));
    options_name_gpu(gpu, name, length);
    if (set_defaults(options, gpu, true) != 0) {
        clear(options, gpu, true);
        return -1;
    }
    options->gpu_count++;
    return 0;
}

int options_defaults(struct options *options, const struct worsegpu_memory *memory)
{
    static const char first[] = "gpu0";
    memset(options, 0, sizeof(*options));
    options->memory = memory;
    if (set_defaults(options, NULL, false) == 0 &&
        options_add_gpu(options, first, sizeof(first) - 1) == 0)
        return 0;
    options_release(options);
    return -1;
}

void options_release(struct options *options)
{
    for (size_t index = 0; index < options->gpu_count; index++)
        clear(options, &options->gpus[index], true);
    memory_release_array(options->memory, options->gpus, options->gpu_capacity_count,
                         sizeof(*options->gpus));
    options->gpus = NULL;
    options->gpu_count = options->gpu_capacity_count = 0;
    memory_release_array(options->memory, options->inject, options->inject_capacity_count,
                         sizeof(*options->inject));
    options->inject = NULL;
    options->inject_count = options->inject_capacity_count = 0;
    clear(options, NULL, false);
}

struct gpu_options *options_find_gpu(const struct options *options, const char *name)
{
    for (size_t index = 0; index < options->gpu_count; index++)
        if (strcmp(options->gpus[index].name, name) == 0)
            return &options->gpus[index];
    return NULL;
}

enum log_level options_log_level(const struct options *options)
{
    enum log_level level = LOG_LEVEL_WARNING;
    if (!options->run || options->log_level_given)
        log_level_from_name(options->log_level, &level);
    return level;
}

/* ------------------------------------------------------------------------------------ command line
 */

enum {
    FLAG_HELP = OPTIONS,
    FLAG_VERSION,
    FLAG_CONFIG,
    FLAG_INJECT,
    FLAG_RUN,
    FLAGS
};

struct command_line {
    int argc;
    char **argv;
};

static void make_flags(struct option flags[FLAGS + 1])
{
    static const struct option own[] = {
        {"help", no_argument, NULL, FLAG_HELP},
        {"version", no_argument, NULL, FLAG_VERSION},
        {"config", required_argument, NULL, FLAG_CONFIG},
        {"inject", required_argument, NULL, FLAG_INJECT},
        {"run", required_argument, NULL, FLAG_RUN},
        {NULL, 0, NULL, 0},
    };
    for (size_t index = 0; index < OPTIONS; index++)
        flags[index] =
            (struct option){options_info(index)->flag, required_argument, NULL, (int)index};
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

/* A word that is no option's, or no option at all: the nearest one is named. */
static enum options_result refuse_word(char message[OPTIONS_MESSAGE_SIZE], const char *what,
                                       const char *word)
{
    char name[64];
    const char *bare = word + strspn(word, "-");
    int length = (int)strcspn(bare, "=");
    snprintf(name, sizeof(name), "%.*s", length, bare);
    const char *nearest = length > 1 ? options_nearest_flag(name, true) : NULL;
    if (!nearest)
        return refuse(message, what, word);
    snprintf(message, OPTIONS_MESSAGE_SIZE, "%s '%.128s'; did you mean --%s?", what, word, nearest);
    return OPTIONS_WRONG;
}

/* `gpu` NULL: the GPU that its options are of is not there any more. */
static enum options_result take_flag(struct options *options, struct gpu_options *gpu, int flag,
                                     const char *value, char message[OPTIONS_MESSAGE_SIZE])
{
    size_t index = (size_t)flag;
    const struct option_info *info = options_info(index);
    options->log_level_given = options->log_level_given || index == OPTION_log_level;
    if (info->of_gpu && !gpu)
        return OPTIONS_FINE;
    enum options_result result =
        option_set(options->memory, index, option_place(options, gpu, index), value);
    if (result == OPTIONS_WRONG) {
        char expected[OPTION_EXPECTED_SIZE];
        option_expected(index, expected);
        snprintf(message, OPTIONS_MESSAGE_SIZE, "--%s must be %s, not '%.128s'", info->flag,
                 expected, value);
    }
    return result;
}

static enum options_result add_rule(struct options *options, const char *words)
{
    if (memory_grow(options->memory, &options->inject, &options->inject_capacity_count,
                    options->inject_count + 1, sizeof(*options->inject)) != 0)
        return OPTIONS_NO_MEMORY;
    options->inject[options->inject_count++] = words;
    return OPTIONS_FINE;
}

static enum options_result read_command_line(struct options *options, struct gpu_options *gpu,
                                             const struct command_line *line,
                                             char message[OPTIONS_MESSAGE_SIZE])
{
    char **argv = line->argv;
    struct option flags[FLAGS + 1];
    make_flags(flags);
    int ours = count_before_run(line->argc, argv);
    if (ours < line->argc) {
        if (ours + 1 == line->argc)
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
            if (options->config)
                return refuse(message, "there can be one --config; here is another:", optarg);
            options->config = optarg;
        } else if (flag == FLAG_INJECT) {
            if (add_rule(options, optarg) != OPTIONS_FINE)
                return OPTIONS_NO_MEMORY;
        } else if (flag == FLAG_RUN) {
            return refuse(message, "write --run COMMAND, not --run=COMMAND", NULL);
        } else if (flag == ':') {
            return refuse(message, "a value is missing after", argv[optind - 1]);
        } else if (flag == '?') {
            /* A letter among several in one word leaves optind where it was. */
            const char letter[] = {'-', (char)optopt, '\0'};
            return refuse_word(message, "there is no option",
                               optopt >= FLAGS ? letter : argv[optind - 1]);
        } else {
            enum options_result result = take_flag(options, gpu, flag, optarg, message);
            if (result != OPTIONS_FINE)
                return result;
        }
    }
    if (optind < ours)
        return refuse_word(message, "what is this word for?", argv[optind]);
    return OPTIONS_FINE;
}

/* ----------------------------------------------------------------------------------- all of it */

/* Defaults, file and command line, one over the other. `first` names the GPU that the command line
 * is about; NULL: the first one. */
static enum options_result read_over_file(struct options *options, const struct command_line *line,
                                          const char *config, const char *first,
                                          char message[OPTIONS_MESSAGE_SIZE])
{
    if (options_defaults(options, options->memory) != 0)
        return OPTIONS_NO_MEMORY;
    enum options_result result = options_read_file(options, config, message);
    if (result != OPTIONS_FINE)
        return result;
    struct gpu_options *gpu = first ? options_find_gpu(options, first) : &options->gpus[0];
    return read_command_line(options, gpu, line, message);
}

/* What must hold among several. */
static enum options_result check_together(const struct options *options,
                                          char message[OPTIONS_MESSAGE_SIZE])
{
    if (options->max_unread_bytes <= options->max_output_bytes - OUTPUT_ABOVE_UNREAD)
        return OPTIONS_FINE;
    snprintf(message, OPTIONS_MESSAGE_SIZE,
             "max-unread-bytes must be at least %d less than max-output-bytes",
             OUTPUT_ABOVE_UNREAD);
    return OPTIONS_WRONG;
}

static enum options_result read_all(struct options *options, const struct worsegpu_memory *memory,
                                    const struct command_line *line, const char *first,
                                    char message[OPTIONS_MESSAGE_SIZE])
{
    if (options_defaults(options, memory) != 0)
        return OPTIONS_NO_MEMORY;
    enum options_result result = read_command_line(options, &options->gpus[0], line, message);
    if (result == OPTIONS_FINE && options->config && !options->help && !options->version) {
        const char *config = options->config;
        options_release(options);
        result = read_over_file(options, line, config, first, message);
    }
    if (result == OPTIONS_FINE)
        result = check_together(options, message);
    if (result != OPTIONS_FINE)
        options_release(options);
    return result;
}

enum options_result options_read(struct options *options, const struct worsegpu_memory *memory,
                                 int argc, char **argv, char message[OPTIONS_MESSAGE_SIZE])
{
    const struct command_line line = {argc, argv};
    return read_all(options, memory, &line, NULL, message);
}

enum options_result options_read_again(struct options *options, const struct options *running,
                                       int argc, char **argv, char message[OPTIONS_MESSAGE_SIZE])
{
    const struct command_line line = {argc, argv};
    return read_all(options, running->memory, &line, running->gpus[0].name, message);
}

/* ---------------------------------------------------------------------------------------- help */

static void write_option(FILE *stream, size_t index)
{
    const struct option_info *info = options_info(index);
    const char *word;
    fprintf(stream, "  --%s ", info->flag);
    for (size_t number = 0; (word = option_choice(index, number)) != NULL; number++)
        fprintf(stream, "%s%s", number ? "|" : "", word);
    fputs(option_placeholder(index), stream);
    fprintf(stream, *info->default_text ? "  [%s]\n" : "\n%s", info->default_text);
    fprintf(stream, "      %s\n", info->help);
}

void options_help(FILE *stream)
{
    static const char *const titles[] = {
        "Daemon:",
        "A shared allocator (on the command line: the first one, gpu0 unless the file has others):",
        "Limits:"};
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
          "      read options from FILE: lines 'key = value' with the names below, and a section "
          "[NAME] for each\n"
          "      GPU, after the daemon's own; the command line wins; SIGHUP has it read again\n"
          "  --inject 'RULE'\n"
          "      make requests fail on purpose, from the start; may be given more than once; the "
          "words are those of\n"
          "      worsegpu-cli inject, such as 'oom --nth 10 --times 1 --min-size 1MiB'\n"
          "  --help, --version\n",
          stream);
    for (int part = 0; part < 3; part++) {
        fprintf(stream, "\n%s\n", titles[part]);
        for (size_t index = 0; index < OPTIONS; index++) {
            const struct option_info *info = options_info(index);
            int belongs = info->is_limit ? 2 : info->of_gpu ? 1 : 0;
            if (belongs == part)
                write_option(stream, index);
        }
    }
    fputs("\nExamples:\n"
          "  worsegpud --socket /tmp/gpu.sock --capacity 1GiB --seed 7\n"
          "  worsegpud --seed 7 --run worsegpu-cli alloc 4096\n"
          "  worsegpud --inject 'oom --nth 10' --run pytest\n",
          stream);
}
