/* The values of options one by one, for those who read, compare and change them.
 *
 * A value lives at a place in a `struct options` or in one of its GPUs; its text is as in a file or
 * on the command line. */
#ifndef OPTIONS_TABLE_H
#define OPTIONS_TABLE_H

#include "daemon/options.h"

enum option_index {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)             \
    OPTION_##field,
#include "daemon/options.def"
    OPTIONS
};

enum {
    OPTION_EXPECTED_SIZE = 128
};

/* Where an option's value is: in `gpu` if it is a GPU's, else in `options`. */
void *option_place(struct options *options, struct gpu_options *gpu, size_t index);

/* Reads a value. OPTIONS_WRONG and OPTIONS_NO_MEMORY leave the old one. */
enum options_result option_set(const struct worsegpu_memory *memory, size_t index, void *place,
                               const char *text);

/* Gives its text back, if it has one. */
void option_clear(const struct worsegpu_memory *memory, size_t index, void *place);

bool option_same(size_t index, const void *left, const void *right);
void option_swap(size_t index, void *left, void *right);

/* Writes a value as text, cut at `size` bytes. */
void option_show(size_t index, const void *place, char *text, size_t size);

/* Says what a value must be. */
void option_expected(size_t index, char text[OPTION_EXPECTED_SIZE]);

/* The flag that is nearest to what was typed, with - or _, also of those that only a command line
 * has (--run); NULL when none is near. */
const char *options_nearest_flag(const char *typed, bool on_command_line);

/* How --help writes the value; "" for a CHOICE, whose words say it. */
const char *option_placeholder(size_t index);

/* Adds a GPU with its defaults; its name is the `length` bytes. 0, or -1 without memory. */
int options_add_gpu(struct options *options, const char *name, size_t length);
void options_name_gpu(struct gpu_options *gpu, const char *name, size_t length);

/* Reads a configuration file into options that have their defaults. */
enum options_result options_read_file(struct options *options, const char *path,
                                      char message[OPTIONS_MESSAGE_SIZE]);

#endif
