/* Packed events in memory and in a file; see events_pack.h. */
#include "lab/events_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum {
    FIRST_BYTES = 1 << 20 /* asked for at once: what is not written to costs nothing, and most logs
                             are never copied as they grow */
};

void events_pack_init(struct events_pack *pack, size_t bound, const struct worsegpu_memory *memory)
{
    *pack = (struct events_pack){.memory = memory, .bound = bound, .file = -1};
}

void events_pack_release(struct events_pack *pack)
{
    memory_release_array(pack->memory, pack->held, pack->held_capacity, 1);
    memory_release_array(pack->memory, pack->unwritten, EVENTS_PACK_BUFFER, 1);
    if (pack->file >= 0)
        close(pack->file);
    *pack = (struct events_pack){.memory = pack->memory, .file = -1};
}

static int no_file(struct log_problem *problem, const char *what, int error)
{
    snprintf(problem->text, sizeof(problem->text), "%s: %s", what, strerrordesc_np(error));
    return LOG_NO_FILE;
}

/* A file that has no name, or loses it at once where the file system cannot do without. */
int events_pack_nameless_file(void)
{
    const char *folder = getenv("TMPDIR");
    char name[4096];
    if (!folder || folder[0] == '\0')
        folder = "/var/tmp";
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0)
        return file;
    int length = snprintf(name, sizeof(name), "%s/worsegpu-lab-XXXXXX", folder);
    if (length < 0 || (size_t)length >= sizeof(name)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = mkostemp(name, O_CLOEXEC);
    if (file >= 0)
        unlink(name);
    return file;
}

static int begin_file(struct events_pack *pack, struct log_problem *problem)
{
    pack->unwritten = memory_allocate_array(pack->memory, EVENTS_PACK_BUFFER, 1);
    if (!pack->unwritten)
        return LOG_NO_MEMORY;
    pack->file = events_pack_nameless_file();
    return pack->file >= 0
               ? LOG_FINE
               : no_file(problem, "cannot make a temporary file ($TMPDIR, else /var/tmp)", errno);
}

static int write_out(struct events_pack *pack, struct log_problem *problem)
{
    size_t written = 0;
    while (written < pack->unwritten_bytes) {
        ssize_t count =
            write(pack->file, pack->unwritten + written, pack->unwritten_bytes - written);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return no_file(problem, "cannot write to the temporary file", errno);
        written += (size_t)count;
    }
    pack->file_bytes += written;
    pack->unwritten_bytes = 0;
    return LOG_FINE;
}

int events_pack_room(struct events_pack *pack, uint8_t **room, struct log_problem *problem)
{
    size_t needed = pack->held_bytes + EVENTS_PACK_LONGEST;
    if (pack->file < 0 && needed <= pack->bound) {
        if (needed < FIRST_BYTES && FIRST_BYTES <= pack->bound)
            needed = FIRST_BYTES;
        if (memory_grow(pack->memory, &pack->held, &pack->held_capacity, needed, 1) != 0)
            return LOG_NO_MEMORY;
        *room = pack->held + pack->held_bytes;
        return LOG_FINE;
    }
    int status = pack->file < 0 ? begin_file(pack, problem) : LOG_FINE;
    if (status == LOG_FINE && pack->unwritten_bytes + EVENTS_PACK_LONGEST > EVENTS_PACK_BUFFER)
        status = write_out(pack, problem);
    if (status == LOG_FINE)
        *room = pack->unwritten + pack->unwritten_bytes;
    return status;
}

int events_pack_add(struct events_pack *pack, const uint8_t *bytes, size_t count,
                    struct log_problem *problem)
{
    uint8_t *room;
    int status = events_pack_room(pack, &room, problem);
    if (status != LOG_FINE)
        return status;
    memcpy(room, bytes, count);
    events_pack_took(pack, count);
    return LOG_FINE;
}

int events_pack_finish(struct events_pack *pack, struct log_problem *problem)
{
    int status = pack->file >= 0 ? write_out(pack, problem) : LOG_FINE;
    memory_release_array(pack->memory, pack->unwritten, EVENTS_PACK_BUFFER, 1);
    pack->unwritten = NULL;
    return status;
}

int events_cursor_begin(struct events_cursor *cursor, const struct events_pack *pack)
{
    *cursor = (struct events_cursor){.pack = pack};
    cursor->buffer = memory_allocate_array(pack->memory, EVENTS_PACK_BUFFER, 1);
    if (!cursor->buffer)
        return LOG_NO_MEMORY;
    cursor->at = pack->held_bytes > 0 ? pack->held : cursor->buffer;
    cursor->end = cursor->at + pack->held_bytes;
    return LOG_FINE;
}

void events_cursor_end(struct events_cursor *cursor)
{
    memory_release_array(cursor->pack->memory, cursor->buffer, EVENTS_PACK_BUFFER, 1);
    cursor->buffer = NULL;
}

int events_cursor_fill_slowly(struct events_cursor *cursor)
{
    size_t left = (size_t)(cursor->end - cursor->at);
    if (cursor->file_place == cursor->pack->file_bytes)
        return LOG_FINE;
    memmove(cursor->buffer, cursor->at, left);
    cursor->at = cursor->buffer;
    cursor->end = cursor->buffer + left;
    while (left < EVENTS_PACK_BUFFER && cursor->file_place < cursor->pack->file_bytes) {
        ssize_t count = pread(cursor->pack->file, cursor->buffer + left, EVENTS_PACK_BUFFER - left,
                              (off_t)cursor->file_place);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return LOG_NO_FILE;
        left += (size_t)count;
        cursor->file_place += (uint64_t)count;
        cursor->end = cursor->buffer + left;
    }
    return LOG_FINE;
}
