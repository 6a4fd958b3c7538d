/* The options of worsegpud: command line and configuration file, both from options.def.
 *
 * A file declares GPUs in sections, in the order of the shared allocators; the daemon's own keys
 * stand before the first section. A `struct options` is filled in at start and lives as long as the
 * daemon; a SIGHUP fills in another one, of which reload.c takes what can change. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/worsegpu_memory.h"
#include "daemon/log.h"

/* A group by name, with the number that it had when it was read. */
struct option_group {
    char *name; /* "" for none */
    gid_t gid;
};

#define OPTION_C_BYTES uint64_t
#define OPTION_C_COUNT uint64_t
#define OPTION_C_RATIO double
#define OPTION_C_YESNO bool
#define OPTION_C_CHOICE char *
#define OPTION_C_SEED char *
#define OPTION_C_GROUP struct option_group
#define OPTION_C_WORD char *

/* Member of one struct or of the other. */
#define OPTION_FIELD_OF_GPU_GPU(type, field) OPTION_C_##type field;
#define OPTION_FIELD_OF_GPU_DAEMON(type, field)
#define OPTION_FIELD_OF_DAEMON_GPU(type, field)
#define OPTION_FIELD_OF_DAEMON_DAEMON(type, field) OPTION_C_##type field;

enum {
    OPTIONS_MESSAGE_SIZE = 512,
    OPTIONS_GPU_NAME_SIZE = 65, /* 1 to 64 bytes and a NUL */
    OPTIONS_MOST_GPUS = 64,     /* so that all fit in one answer of `info` */
    OUTPUT_ABOVE_UNREAD = 65536 /* so that one more answer fits above max_unread_bytes */
};

/* One shared allocator. */
struct gpu_options {
    char name[OPTIONS_GPU_NAME_SIZE];
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)             \
    OPTION_FIELD_OF_GPU_##scope(type, field)
#include "daemon/options.def"
};

struct options {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)             \
    OPTION_FIELD_OF_DAEMON_##scope(type, field)
#include "daemon/options.def"
    struct gpu_options *gpus; /* at least one; the first is the default one */
    size_t gpu_count;
    size_t gpu_capacity_count;            /* room in the array */
    const struct worsegpu_memory *memory; /* where its texts and the array come from */
    const char *config;                   /* --config: the file (in argv), NULL without */
    const char **inject; /* --inject: the rules in words (in argv), in their order */
    size_t inject_count;
    size_t inject_capacity_count;
    char **run; /* --run: the command and its arguments (in argv), NULL without */
    bool help;  /* --help was given */
    bool version;
    bool log_level_given; /* by the command line or the file */
};

enum options_result {
    OPTIONS_NO_MEMORY = -1,
    OPTIONS_FINE = 0,
    OPTIONS_WRONG = 1 /* `message` says what is wrong, in one line, and where it stands */
};

/* Fills in the defaults, then the file named by --config, then the command line, whose options of a
 * GPU are those of the first one. Texts and GPUs belong to `options` until options_release, and
 * come from `memory`, which must live as long. Unless all is fine, nothing is left to release. */
enum options_result options_read(struct options *options, const struct worsegpu_memory *memory,
                                 int argc, char **argv, char message[OPTIONS_MESSAGE_SIZE]);

/* The same for a daemon that runs with `running`: the command line's options of a GPU go to the one
 * that is the first there, wherever the file has it now. */
enum options_result options_read_again(struct options *options, const struct options *running,
                                       int argc, char **argv, char message[OPTIONS_MESSAGE_SIZE]);

/* Sets all options to their defaults, with one GPU, gpu0. 0, or -1 without memory: then nothing is
 * left to release. */
int options_defaults(struct options *options, const struct worsegpu_memory *memory);
void options_release(struct options *options);

/* A GPU by name; NULL when there is none. */
struct gpu_options *options_find_gpu(const struct options *options, const char *name);

/* What is to be logged: with --run only warnings unless a level was given, since stderr is the
 * command's. */
enum log_level options_log_level(const struct options *options);

/* Writes the help that --help shows. */
void options_help(FILE *stream);

/* The table, for those who show or compare it: index 0 ... options_count() - 1. */
struct option_info {
    const char *field;
    const char *flag;
    const char *type; /* "BYTES", "COUNT", ... */
    const char *default_text;
    uint64_t minimum;
    uint64_t maximum;
    bool of_gpu;
    bool reloads; /* can change while the daemon runs */
    bool is_limit;
    const char *help;
};
size_t options_count(void);
const struct option_info *options_info(size_t index);

/* The words that a CHOICE may be: for number 0, 1, ...; NULL after the last, and for other types.
 */
const char *option_choice(size_t index, size_t number);

/* The value of an option that is a BYTES or COUNT; of the first GPU, if it is a GPU's. */
uint64_t options_number(const struct options *options, size_t index);

#endif
