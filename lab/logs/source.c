/* The bytes of a log, one buffer at a time; see source.h.
 *
 * Raw bytes come from a descriptor or from memory. Where they are gzip (RFC 1952) they go through
 * zlib on their way into the buffer; plain memory is used where it lies. */
#include "lab/logs/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"
#include "lab/logs/log.h"

enum {
    BUFFER_BYTES = 65536,   /* to begin with, and of what is packed */
    MOST_BYTES = 16 << 20,  /* of one line, and of one look */
    PIECE_HEADER_BYTES = 16 /* before each piece of zlib's, for its size */
};

struct log_source {
    const struct worsegpu_memory *memory;

    int descriptor; /* -1: the bytes are in memory */
    bool standard_input;
    const unsigned char *whole;
    size_t whole_bytes;
    uint64_t raw_place; /* raw bytes taken so far */
    uint64_t raw_bytes; /* that there are; 0: not known */
    bool raw_ended;

    bool gzip;
    bool inside; /* a gzip member, whose end has not been seen */
    z_stream inflater;
    unsigned char *packed; /* NULL for memory */

    unsigned char *buffer; /* NULL for plain memory */
    size_t capacity;
    const unsigned char *bytes; /* the buffer, or the plain memory */
    size_t start;               /* the reading place in `bytes` */
    size_t end;
    bool ended; /* nothing comes after `end` */

    uint64_t passed;
    uint64_t lines;
    bool line_ended;
};

static int no_file(struct log_problem *problem, const char *what)
{
    int why = errno;
    char text[128];
    /* The GNU one: what it returns may or may not be `text`. */
    snprintf(problem->text, sizeof(problem->text), "%s: %s", what,
             strerror_r(why, text, sizeof(text)));
    return LOG_NO_FILE;
}

/* zlib frees without saying how much. */
static void *piece_new(void *context, unsigned int count, unsigned int item_bytes)
{
    const struct worsegpu_memory *memory = context;
    size_t bytes = (size_t)count * item_bytes + PIECE_HEADER_BYTES;
    unsigned char *piece = memory_allocate_array(memory, bytes, 1);
    if (!piece)
        return NULL;
    memcpy(piece, &bytes, sizeof(bytes));
    return piece + PIECE_HEADER_BYTES;
}

static void piece_release(void *context, void *pointer)
{
    const struct worsegpu_memory *memory = context;
    unsigned char *piece = (unsigned char *)pointer - PIECE_HEADER_BYTES;
    size_t bytes;
    memcpy(&bytes, piece, sizeof(bytes));
    memory_release_array(memory, piece, bytes, 1);
}

/* Reads raw bytes from the descriptor: *got, 0 at the end. */
static int read_raw(struct log_source *source, unsigned char *room, size_t bytes, size_t *got,
                    struct log_problem *problem)
{
    ssize_t result;
    do
        result = read(source->descriptor, room, bytes);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return no_file(problem, "cannot be read");
    *got = (size_t)result;
    source->raw_place += *got;
    source->raw_ended = *got == 0;
    return LOG_FINE;
}

/* Gives zlib something to eat, unless it has or there is no more. */
static int feed(struct log_source *source, struct log_problem *problem)
{
    z_stream *inflater = &source->inflater;
    if (inflater->avail_in > 0 || source->raw_ended)
        return LOG_FINE;
    if (source->descriptor < 0) {
        size_t left = source->whole_bytes - (size_t)source->raw_place;
        inflater->next_in = (unsigned char *)source->whole + source->raw_place;
        inflater->avail_in = left < MOST_BYTES ? (unsigned int)left : MOST_BYTES;
        source->raw_place += inflater->avail_in;
        source->raw_ended = left == 0;
        return LOG_FINE;
    }
    size_t got = 0;
    int status = read_raw(source, source->packed, BUFFER_BYTES, &got, problem);
    inflater->next_in = source->packed;
    inflater->avail_in = (unsigned int)got;
    return status;
}

static int gzip_bad(const struct log_source *source, const char *why, struct log_problem *problem)
{
    return log_bad(problem, true, source->raw_place - source->inflater.avail_in + 1,
                   "in the packed file: the gzip data %s", why);
}

/* Between two members: another one, nothing more, or the zeros that tapes and tar leave. */
static int next_member(struct log_source *source, struct log_problem *problem)
{
    z_stream *inflater = &source->inflater;
    for (;;) {
        int status = feed(source, problem);
        if (status != LOG_FINE)
            return status;
        if (inflater->avail_in == 0) {
            source->ended = true;
            return LOG_FINE;
        }
        if (*inflater->next_in != 0)
            break;
        inflater->next_in++;
        inflater->avail_in--;
    }
    if (*inflater->next_in != 0x1f)
        return gzip_bad(source, "is followed by something else", problem);
    inflateReset(inflater);
    source->inside = true;
    return LOG_FINE;
}

/* Unpacks at least a byte into the room after `end`, or finds the end. */
static int unpack(struct log_source *source, struct log_problem *problem)
{
    z_stream *inflater = &source->inflater;
    size_t room = source->capacity - source->end;
    inflater->next_out = source->buffer + source->end;
    inflater->avail_out = (unsigned int)room;
    while (inflater->avail_out == room && !source->ended) {
        int status = source->inside ? feed(source, problem) : next_member(source, problem);
        if (status != LOG_FINE)
            return status;
        if (!source->inside)
            continue;
        if (inflater->avail_in == 0)
            return gzip_bad(source, "is cut off", problem);
        int result = inflate(inflater, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return LOG_NO_MEMORY;
        if (result == Z_STREAM_END)
            source->inside = false;
        else if (result != Z_OK)
            return gzip_bad(source, "is damaged", problem);
    }
    source->end += room - inflater->avail_out;
    return LOG_FINE;
}

/* Makes room after `end`, for `least` bytes from `start` on in all. */
static int make_room(struct log_source *source, size_t least)
{
    if (source->start == source->end) {
        source->start = 0;
        source->end = 0;
    }
    if (source->capacity - source->start < least || source->end == source->capacity) {
        if (source->start > 0)
            memmove(source->buffer, source->buffer + source->start, source->end - source->start);
        source->end -= source->start;
        source->start = 0;
    }
    size_t needed = source->end == source->capacity ? source->capacity + 1 : least;
    if (needed < BUFFER_BYTES)
        needed = BUFFER_BYTES;
    int status = memory_grow(source->memory, &source->buffer, &source->capacity, needed, 1);
    source->bytes = source->buffer;
    return status != 0 ? LOG_NO_MEMORY : LOG_FINE;
}

int log_source_peek(struct log_source *source, size_t least, const unsigned char **bytes,
                    size_t *length, struct log_problem *problem)
{
    while (source->end - source->start < least && !source->ended) {
        int status = make_room(source, least);
        if (status != LOG_FINE)
            return status;
        if (source->gzip) {
            status = unpack(source, problem);
        } else {
            size_t got = 0;
            status = read_raw(source, source->buffer + source->end, source->capacity - source->end,
                              &got, problem);
            source->end += got;
            source->ended = source->raw_ended;
        }
        if (status != LOG_FINE)
            return status;
    }
    *bytes = source->bytes + source->start;
    *length = source->end - source->start;
    return LOG_FINE;
}

void log_source_skip(struct log_source *source, size_t bytes)
{
    source->start += bytes;
    source->passed += bytes;
}

int log_source_line(struct log_source *source, const char **line, size_t *length,
                    struct log_problem *problem)
{
    const unsigned char *bytes = NULL;
    const unsigned char *lf = NULL;
    size_t there = 0;
    size_t searched = 0;
    while (!lf) {
        int status = log_source_peek(source, searched + 1, &bytes, &there, problem);
        if (status != LOG_FINE)
            return status;
        if (there == searched)
            break;
        lf = memchr(bytes + searched, '\n', there - searched);
        searched = there;
        if ((lf ? (size_t)(lf - bytes) : there) > MOST_BYTES)
            return log_bad(problem, false, source->lines + 1, "the line is longer than 16 MiB");
    }
    *line = (const char *)bytes;
    *length = SIZE_MAX;
    if (there == 0)
        return LOG_FINE;
    source->lines++;
    source->line_ended = lf != NULL;
    size_t text = lf ? (size_t)(lf - bytes) : there;
    log_source_skip(source, lf ? text + 1 : text);
    if (memchr(bytes, 0, text))
        return log_bad(problem, false, source->lines, "the line has a NUL in it");
    if (text > 0 && bytes[text - 1] == '\r')
        text--;
    *length = text;
    return LOG_FINE;
}

bool log_source_line_ended(const struct log_source *source)
{
    return source->line_ended;
}

uint64_t log_source_place(const struct log_source *source)
{
    return source->passed;
}

uint64_t log_source_lines(const struct log_source *source)
{
    return source->lines;
}

double log_source_progress(const struct log_source *source)
{
    if (source->raw_bytes == 0)
        return -1;
    uint64_t raw = source->raw_place;
    /* What is read ahead has not been passed yet. */
    uint64_t ahead = source->gzip ? source->inflater.avail_in : source->end - source->start;
    if (source->descriptor < 0 && !source->gzip)
        raw = source->end;
    double done = (double)(raw - ahead) / (double)source->raw_bytes;
    return done < 1 ? done : 1;
}

/* Whether the content is gzip, told by its two first bytes (which no text and no pickle begins
 * with), and if so everything that unpacking needs. */
static int look(struct log_source *source, struct log_problem *problem)
{
    const unsigned char *head;
    size_t length;
    int status = log_source_peek(source, 2, &head, &length, problem);
    if (status != LOG_FINE || length < 2 || head[0] != 0x1f || head[1] != 0x8b)
        return status;
    source->inflater.zalloc = piece_new;
    source->inflater.zfree = piece_release;
    source->inflater.opaque = (void *)source->memory;
    if (inflateInit2(&source->inflater, 15 + 16) != Z_OK)
        return LOG_NO_MEMORY;
    source->gzip = true;
    source->inside = true;
    source->ended = false;
    if (source->descriptor >= 0) {
        /* Nothing of it has been handed out: the buffer's first bytes are zlib's. */
        source->packed = memory_allocate_array(source->memory, BUFFER_BYTES, 1);
        if (!source->packed)
            return LOG_NO_MEMORY;
        memcpy(source->packed, head, length);
        source->inflater.next_in = source->packed;
        source->inflater.avail_in = (unsigned int)length;
    } else {
        source->raw_place = 0;
    }
    source->start = 0;
    source->end = 0;
    return LOG_FINE;
}

static int open_source(struct log_source *source, struct log_source **out,
                       struct log_problem *problem)
{
    *out = NULL;
    struct log_source *placed = memory_allocate_array(source->memory, 1, sizeof(*source));
    if (!placed) {
        if (source->descriptor >= 0 && !source->standard_input)
            close(source->descriptor);
        return LOG_NO_MEMORY;
    }
    *placed = *source;
    int status = look(placed, problem);
    if (status == LOG_FINE)
        *out = placed;
    else
        log_source_close(placed);
    return status;
}

int log_source_open(const char *name, const struct worsegpu_memory *memory,
                    struct log_source **source, struct log_problem *problem)
{
    *source = NULL;
    struct log_source opened = {.memory = memory};
    opened.standard_input = strcmp(name, "-") == 0;
    opened.descriptor = opened.standard_input ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (opened.descriptor < 0)
        return no_file(problem, "cannot be opened");
    struct stat about;
    if (fstat(opened.descriptor, &about) == 0 && S_ISREG(about.st_mode))
        opened.raw_bytes = (uint64_t)about.st_size;
    return open_source(&opened, source, problem);
}

int log_source_open_bytes(const void *bytes, size_t length, const struct worsegpu_memory *memory,
                          struct log_source **source, struct log_problem *problem)
{
    struct log_source opened = {.memory = memory,
                                .descriptor = -1,
                                .whole = bytes,
                                .whole_bytes = length,
                                .raw_bytes = length,
                                .bytes = length > 0 ? bytes : (const void *)"",
                                .end = length,
                                .ended = true};
    return open_source(&opened, source, problem);
}

void log_source_close(struct log_source *source)
{
    if (!source)
        return;
    const struct worsegpu_memory *memory = source->memory;
    if (source->gzip)
        inflateEnd(&source->inflater);
    if (source->descriptor >= 0 && !source->standard_input)
        close(source->descriptor);
    memory_release_array(memory, source->packed, BUFFER_BYTES, 1);
    memory_release_array(memory, source->buffer, source->capacity, 1);
    memory_release_array(memory, source, 1, sizeof(*source));
}

int log_source_rewind(struct log_source *source, struct log_problem *problem)
{
    if (source->standard_input) {
        snprintf(problem->text, sizeof(problem->text),
                 "standard input cannot be read twice: give a file");
        return LOG_NO_FILE;
    }
    if (source->descriptor >= 0 && lseek(source->descriptor, 0, SEEK_SET) != 0)
        return no_file(problem, "cannot be read twice");
    source->raw_place = 0;
    source->raw_ended = false;
    source->start = 0;
    source->passed = 0;
    source->lines = 0;
    bool plain_memory = source->descriptor < 0 && !source->gzip;
    source->ended = plain_memory;
    if (!plain_memory)
        source->end = 0;
    if (source->gzip) {
        source->inside = true;
        source->inflater.avail_in = 0;
        inflateReset(&source->inflater);
    }
    return LOG_FINE;
}
