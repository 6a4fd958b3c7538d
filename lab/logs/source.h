/* The bytes of a log: a file, standard input or a piece of memory, unpacked on the way where they
 * are gzip (told by content).
 *
 * Read front to back through one buffer; a file can be read again from its beginning. */
#ifndef LOGS_SOURCE_H
#define LOGS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"

struct log_source;
struct log_problem;

/* log_status; *source is NULL unless all went well. `name` "-" is standard input, which cannot be
 * read again. */
int log_source_open(const char *name, const struct worsegpu_memory *memory,
                    struct log_source **source, struct log_problem *problem);
/* The bytes stay the caller's and must outlive the source. */
int log_source_open_bytes(const void *bytes, size_t length, const struct worsegpu_memory *memory,
                          struct log_source **source, struct log_problem *problem);
void log_source_close(struct log_source *source);

/* At least `least` bytes from the reading place on, and as many more as are at hand, without moving
 * on: *bytes, *length. *length is less than `least` only at the end. The piece is valid until the
 * next call. `least` is at most 16 MiB. log_status; LOG_BAD with a sentence where gzip is damaged.
 */
int log_source_peek(struct log_source *source, size_t least, const unsigned char **bytes,
                    size_t *length, struct log_problem *problem);
/* Moves on; `bytes` is at most what was peeked at. */
void log_source_skip(struct log_source *source, size_t bytes);

/* One line without its LF and a CR before it: *line, *length; valid until the next call. *length is
 * SIZE_MAX at the end. A line longer than 16 MiB, or with a NUL in it, is LOG_BAD. */
int log_source_line(struct log_source *source, const char **line, size_t *length,
                    struct log_problem *problem);
/* Whether that line had an LF: the last one of a log that was cut off has none. */
bool log_source_line_ended(const struct log_source *source);

/* Bytes passed so far (after unpacking), and lines begun. */
uint64_t log_source_place(const struct log_source *source);
uint64_t log_source_lines(const struct log_source *source);

/* How far it is through the file as it lies on the disk, 0 to 1; negative where that cannot be
 * known. */
double log_source_progress(const struct log_source *source);

/* To the beginning again. log_status; LOG_NO_FILE with a sentence for standard input. */
int log_source_rewind(struct log_source *source, struct log_problem *problem);

#endif
