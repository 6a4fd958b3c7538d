/* Writes pickles by hand, as a pickler of protocol 2 to 5 would; and torch snapshots with it.
 *
 * A string that was written before is named by its number in the memo, as Python does it. Aborts
 * when there is no memory. */
#ifndef PICKLE_WRITER_H
#define PICKLE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PICKLE_WRITER_TEXTS = 128
};

struct pickle_writer {
    unsigned char *bytes;
    size_t length;
    size_t capacity;
    unsigned int protocol;
    uint64_t memo; /* entries so far */
    struct {
        char text[64];
        uint64_t index;
    } texts[PICKLE_WRITER_TEXTS];
    size_t text_count;
};

/* PROTO. */
void pickle_begin(struct pickle_writer *writer, unsigned int protocol);
/* STOP. */
void pickle_end(struct pickle_writer *writer);
void pickle_release(struct pickle_writer *writer);

void pickle_bytes(struct pickle_writer *writer, const void *bytes, size_t length);
void pickle_op(struct pickle_writer *writer, unsigned char opcode);

/* Puts what is on top into the memo; its number. */
uint64_t pickle_put(struct pickle_writer *writer);
void pickle_get(struct pickle_writer *writer, uint64_t index);

void pickle_number(struct pickle_writer *writer, uint64_t number);
void pickle_text(struct pickle_writer *writer, const char *text);

/* EMPTY_DICT or EMPTY_LIST, put into the memo (its number is returned), and MARK. */
uint64_t pickle_dict(struct pickle_writer *writer);
uint64_t pickle_list(struct pickle_writer *writer);
/* SETITEMS, APPENDS. */
void pickle_dict_end(struct pickle_writer *writer);
void pickle_list_end(struct pickle_writer *writer);

/* ---- Parts of a torch snapshot. */

/* A key with a number. */
void snapshot_number(struct pickle_writer *writer, const char *key, uint64_t number);
void snapshot_word(struct pickle_writer *writer, const char *key, const char *word);

/* An event with a short stack of frames; its number in the memo. */
uint64_t snapshot_event(struct pickle_writer *writer, const char *action, uint64_t addr,
                        uint64_t size, uint64_t stream, uint64_t time_us);

/* A segment up to the list of its blocks; then the blocks; then its end. */
void snapshot_segment(struct pickle_writer *writer, uint64_t address, uint64_t bytes,
                      uint64_t stream, uint64_t device);
void snapshot_block(struct pickle_writer *writer, uint64_t address, uint64_t bytes,
                    uint64_t requested, bool in_use);
void snapshot_segment_end(struct pickle_writer *writer);

/* "device_traces" with one trace after "segments": the dict on top, up to the first segment; from
 * there to the first event; and the end of all. */
void snapshot_begin(struct pickle_writer *writer, unsigned int protocol);
void snapshot_traces(struct pickle_writer *writer);
void snapshot_end(struct pickle_writer *writer);

#endif
