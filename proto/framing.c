/* Bytes -> lines; see framing.h.
 *
 * A line lies wholly in the chunk (given out in place), wholly in the held bytes (they were kept
 * with lines unread), or begins in the held bytes and ends in the chunk (its rest is joined to the
 * held bytes). The held buffer lives from the first byte that must be kept until the call after its
 * last was given out. */
#include "proto/framing.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

void framing_init(struct framing *framing, const struct worsegpu_memory *memory,
                  size_t max_line_bytes)
{
    *framing = (struct framing){.memory = memory, .max_line_bytes = max_line_bytes};
}

static void drop_held(struct framing *framing)
{
    memory_release_array(framing->memory, framing->held, framing->held_capacity, 1);
    framing->held = NULL;
    framing->held_start = framing->held_scanned = framing->held_end = framing->held_capacity = 0;
}

void framing_release(struct framing *framing)
{
    drop_held(framing);
    framing_init(framing, framing->memory, framing->max_line_bytes);
}

void framing_feed(struct framing *framing, const char *bytes, size_t length)
{
    assert(!framing->chunk);
    framing->chunk = bytes;
    framing->chunk_start = framing->chunk_scanned = 0;
    framing->chunk_end = length;
}

/* Makes room for `more` bytes behind the held ones. Never beyond max_line_bytes without need. */
static int make_room(struct framing *framing, size_t more)
{
    size_t have = framing->held_end - framing->held_start;
    size_t needed;
    if (__builtin_add_overflow(have, more, &needed))
        return -1;
    if (framing->held && framing->held_start > 0) {
        memmove(framing->held, framing->held + framing->held_start, have);
        framing->held_scanned -= framing->held_start;
        framing->held_start = 0;
        framing->held_end = have;
    }
    if (needed <= framing->held_capacity)
        return 0;
    size_t target = framing->held_capacity > framing->max_line_bytes / 2
                        ? framing->max_line_bytes
                        : framing->held_capacity * 2;
    if (target < needed)
        target = needed;
    char *grown =
        memory_resize_array(framing->memory, framing->held, framing->held_capacity, target, 1);
    if (!grown)
        return -1;
    framing->held = grown;
    framing->held_capacity = target;
    return 0;
}

/* Moves `length` bytes from the chunk behind the held ones; there is room. */
static void join(struct framing *framing, size_t length)
{
    assert(framing->held && length <= framing->held_capacity - framing->held_end);
    memcpy(framing->held + framing->held_end, framing->chunk + framing->chunk_start, length);
    framing->held_end += length;
    framing->chunk_start += length;
}

/* Looks for the LF of the line that begins at `start`, from *scanned on, as far as a line may go.
 * Moves *scanned past what was looked at; NULL when there is none. */
static const char *find_end(const char *bytes, size_t start, size_t *scanned, size_t end,
                            size_t max_line_bytes)
{
    size_t stop = end - start > max_line_bytes ? start + max_line_bytes : end;
    if (*scanned >= stop)
        return NULL;
    const char *newline = memchr(bytes + *scanned, '\n', stop - *scanned);
    *scanned = newline ? (size_t)(newline - bytes) : stop;
    return newline;
}

/* Throws away up to and with the next LF, or all there is. */
static void discard(struct framing *framing)
{
    if (framing->held_start < framing->held_end) {
        const char *newline = find_end(framing->held, framing->held_start, &framing->held_scanned,
                                       framing->held_end, SIZE_MAX);
        framing->held_start = framing->held_scanned += newline ? 1 : 0;
        framing->discarding = !newline;
    }
    if (framing->discarding && framing->chunk_start < framing->chunk_end) {
        const char *newline = find_end(framing->chunk, framing->chunk_start,
                                       &framing->chunk_scanned, framing->chunk_end, SIZE_MAX);
        framing->chunk_start = framing->chunk_scanned += newline ? 1 : 0;
        framing->discarding = !newline;
    }
}

static enum framing_result give(const char *line, const char *newline, const char **given,
                                size_t *length)
{
    if (newline > line && newline[-1] == '\r')
        newline--;
    *given = line;
    *length = (size_t)(newline - line);
    return FRAMING_LINE;
}

/* The line at the head of the held bytes, with what the chunk has of it. */
static enum framing_result next_held(struct framing *framing, const char **line, size_t *length)
{
    size_t max = framing->max_line_bytes;
    const char *newline = find_end(framing->held, framing->held_start, &framing->held_scanned,
                                   framing->held_end, max);
    if (newline) {
        const char *start = framing->held + framing->held_start;
        framing->held_start = framing->held_scanned += 1;
        return give(start, newline, line, length);
    }
    size_t have = framing->held_end - framing->held_start;
    if (have >= max) {
        framing->held_start = framing->held_scanned;
        framing->discarding = true;
        return FRAMING_TOO_LONG;
    }
    newline = find_end(framing->chunk, framing->chunk_start, &framing->chunk_scanned,
                       framing->chunk_end, max - have);
    size_t rest = framing->chunk_scanned - framing->chunk_start;
    if (newline) {
        if (make_room(framing, rest + 1))
            return FRAMING_NO_MEMORY;
        join(framing, rest + 1);
        framing->chunk_scanned = framing->chunk_start;
        framing->held_start = framing->held_scanned = framing->held_end;
        return give(framing->held, framing->held + framing->held_end - 1, line, length);
    }
    if (have + rest < max)
        return FRAMING_MORE;
    framing->held_start = framing->held_scanned = framing->held_end;
    framing->chunk_start = framing->chunk_scanned;
    framing->discarding = true;
    return FRAMING_TOO_LONG;
}

static enum framing_result next_in_chunk(struct framing *framing, const char **line, size_t *length)
{
    const char *newline = find_end(framing->chunk, framing->chunk_start, &framing->chunk_scanned,
                                   framing->chunk_end, framing->max_line_bytes);
    if (newline) {
        const char *start = framing->chunk + framing->chunk_start;
        framing->chunk_start = framing->chunk_scanned += 1;
        return give(start, newline, line, length);
    }
    if (framing->chunk_scanned - framing->chunk_start < framing->max_line_bytes)
        return FRAMING_MORE;
    framing->chunk_start = framing->chunk_scanned;
    framing->discarding = true;
    return FRAMING_TOO_LONG;
}

enum framing_result framing_next(struct framing *framing, const char **line, size_t *length)
{
    if (framing->discarding)
        discard(framing);
    if (framing->held_start < framing->held_end)
        return next_held(framing, line, length);
    if (framing->held)
        drop_held(framing);
    if (framing->discarding)
        return FRAMING_MORE;
    return next_in_chunk(framing, line, length);
}

int framing_keep(struct framing *framing)
{
    if (framing->discarding)
        discard(framing);
    if (framing->held && framing->held_start == framing->held_end)
        drop_held(framing);
    size_t rest = framing->chunk_end - framing->chunk_start;
    if (rest > 0) {
        if (make_room(framing, rest))
            return -1;
        if (framing->held_scanned == framing->held_end)
            framing->held_scanned += framing->chunk_scanned - framing->chunk_start;
        join(framing, rest);
    }
    framing->chunk = NULL;
    framing->chunk_start = framing->chunk_scanned = framing->chunk_end = 0;
    return 0;
}

bool framing_in_line(const struct framing *framing)
{
    if (framing->chunk_start < framing->chunk_end)
        return framing->chunk[framing->chunk_end - 1] != '\n';
    if (framing->held_start < framing->held_end)
        return framing->held[framing->held_end - 1] != '\n';
    return framing->discarding;
}
