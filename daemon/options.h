/* The options of worsegpud: command line and configuration file, both from options.def.
 *
 * A `struct options` is filled in once at start and lives as long as the daemon. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/worsegpu_memory.h"

#define OPTION_C_BYTES uint64_t
#define OPTION_C_COUNT uint64_t
#define OPTION_C_RATIO double
#define OPTION_C_YESNO bool
#define OPTION_C_WORD char *

struct options {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, help)                     \
    OPTION_C_##type field;
#include "daemon/options.def"
    const struct worsegpu_memory *memory; /* where its texts come from */
    char **run; /* --run: the command and its arguments (in argv), NULL without */
    bool help;  /* --help was given */
    bool version;
    bool log_level_given;
};

enum options_result {
    OPTIONS_NO_MEMORY = -1,
    OPTIONS_FINE = 0,
    OPTIONS_WRONG = 1 /* `message` says what is wrong, in one line */
};

enum {
    OPTIONS_MESSAGE_SIZE = 512
};

/* Fills in the defaults, then the file named by --config, then the command line. The texts belong
 * to `options` until options_release, and come from `memory`, which must live as long. Unless all
 * is fine, nothing is left to release. */
enum options_result options_read(struct options *options, const struct worsegpu_memory *memory,
                                 int argc, char **argv, char message[OPTIONS_MESSAGE_SIZE]);

/* Reads one configuration file into options that have their defaults. `given` has an entry for each
 * option and says which the command line has set: those stay. */
enum options_result options_read_file(struct options *options, const char *path, const bool *given,
                                      char message[OPTIONS_MESSAGE_SIZE]);

/* Sets all options to their defaults. 0, or -1 without memory: then nothing is left to release. */
int options_defaults(struct options *options, const struct worsegpu_memory *memory);
void options_release(struct options *options);

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
    bool is_limit;
    const char *help;
};
size_t options_count(void);
const struct option_info *options_info(size_t index);

/* The value of an option that is a BYTES or COUNT. */
uint64_t options_number(const struct options *options, size_t index);

#endif
