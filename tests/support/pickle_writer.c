/* Pickles and torch snapshots written by hand; see pickle_writer.h. */
#include "tests/support/pickle_writer.h"

#include <stdlib.h>
#include <string.h>

void pickle_bytes(struct pickle_writer *writer, const void *bytes, size_t length)
{
    if (writer->length + length > writer->capacity) {
        writer->capacity = (writer->length + length) * 2;
        writer->bytes = realloc(writer->bytes, writer->capacity);
        if (!writer->bytes)
            abort();
    }
    if (length > 0)
        memcpy(writer->bytes + writer->length, bytes, length);
    writer->length += length;
}

void pickle_op(struct pickle_writer *writer, unsigned char opcode)
{
    pickle_bytes(writer, &opcode, 1);
}

/* An opcode with a number, lowest byte first. */
static void op_number(struct pickle_writer *writer, unsigned char opcode, uint64_t number,
                      size_t count)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    pickle_op(writer, opcode);
    pickle_bytes(writer, bytes, count);
}

void pickle_begin(struct pickle_writer *writer, unsigned int protocol)
{
    memset(writer, 0, sizeof(*writer));
    writer->protocol = protocol;
    op_number(writer, 0x80, protocol, 1);
}

void pickle_end(struct pickle_writer *writer)
{
    pickle_op(writer, '.');
}

void pickle_release(struct pickle_writer *writer)
{
    free(writer->bytes);
    writer->bytes = NULL;
}

uint64_t pickle_put(struct pickle_writer *writer)
{
    uint64_t index = writer->memo++;
    if (writer->protocol >= 4)
        pickle_op(writer, 0x94);
    else
        op_number(writer, index < 256 ? 'q' : 'r', index, index < 256 ? 1 : 4);
    return index;
}

void pickle_get(struct pickle_writer *writer, uint64_t index)
{
    op_number(writer, index < 256 ? 'h' : 'j', index, index < 256 ? 1 : 4);
}

void pickle_number(struct pickle_writer *writer, uint64_t number)
{
    if (number < 256)
        op_number(writer, 'K', number, 1);
    else if (number < 65536)
        op_number(writer, 'M', number, 2);
    else if (number < UINT64_C(1) << 31)
        op_number(writer, 'J', number, 4);
    else {
        /* LONG1 with a byte more than needed, so that the sign is plus. */
        unsigned char bytes[10] = {0x8a, 9};
        for (size_t i = 0; i < 8; i++)
            bytes[2 + i] = (unsigned char)(number >> (8 * i));
        pickle_bytes(writer, bytes, 10);
        pickle_op(writer, 0);
    }
}

void pickle_text(struct pickle_writer *writer, const char *text)
{
    for (size_t i = 0; i < writer->text_count; i++) {
        if (strcmp(writer->texts[i].text, text) == 0) {
            pickle_get(writer, writer->texts[i].index);
            return;
        }
    }
    size_t length = strlen(text);
    op_number(writer, writer->protocol >= 4 ? 0x8c : 'X', length, writer->protocol >= 4 ? 1 : 4);
    pickle_bytes(writer, text, length);
    uint64_t index = pickle_put(writer);
    if (writer->text_count < PICKLE_WRITER_TEXTS && length < sizeof(writer->texts[0].text)) {
        memcpy(writer->texts[writer->text_count].text, text, length + 1);
        writer->texts[writer->text_count++].index = index;
    }
}

static uint64_t open_container(struct pickle_writer *writer, unsigned char opcode)
{
    pickle_op(writer, opcode);
    uint64_t index = pickle_put(writer);
    pickle_op(writer, '(');
    return index;
}

uint64_t pickle_dict(struct pickle_writer *writer)
{
    return open_container(writer, '}');
}

uint64_t pickle_list(struct pickle_writer *writer)
{
    return open_container(writer, ']');
}

void pickle_dict_end(struct pickle_writer *writer)
{
    pickle_op(writer, 'u');
}

void pickle_list_end(struct pickle_writer *writer)
{
    pickle_op(writer, 'e');
}

void snapshot_number(struct pickle_writer *writer, const char *key, uint64_t number)
{
    pickle_text(writer, key);
    pickle_number(writer, number);
}

void snapshot_word(struct pickle_writer *writer, const char *key, const char *word)
{
    pickle_text(writer, key);
    pickle_text(writer, word);
}

uint64_t snapshot_event(struct pickle_writer *writer, const char *action, uint64_t addr,
                        uint64_t size, uint64_t stream, uint64_t time_us)
{
    uint64_t index = pickle_dict(writer);
    snapshot_word(writer, "action", action);
    snapshot_number(writer, "addr", addr);
    snapshot_number(writer, "size", size);
    snapshot_number(writer, "stream", stream);
    snapshot_number(writer, "time_us", time_us);
    pickle_text(writer, "frames");
    pickle_list(writer);
    pickle_dict(writer);
    snapshot_word(writer, "name", "forward");
    snapshot_word(writer, "filename", "model.py");
    snapshot_number(writer, "line", 17);
    pickle_dict_end(writer);
    pickle_list_end(writer);
    pickle_dict_end(writer);
    return index;
}

void snapshot_segment(struct pickle_writer *writer, uint64_t address, uint64_t bytes,
                      uint64_t stream, uint64_t device)
{
    pickle_dict(writer);
    snapshot_number(writer, "device", device);
    snapshot_number(writer, "address", address);
    snapshot_number(writer, "total_size", bytes);
    snapshot_number(writer, "stream", stream);
    snapshot_word(writer, "segment_type", bytes <= 2 << 20 ? "small" : "large");
    pickle_text(writer, "is_expandable");
    pickle_op(writer, 0x89);
    pickle_text(writer, "blocks");
    pickle_list(writer);
}

void snapshot_block(struct pickle_writer *writer, uint64_t address, uint64_t bytes,
                    uint64_t requested, bool in_use)
{
    pickle_dict(writer);
    snapshot_number(writer, "address", address);
    snapshot_number(writer, "size", bytes);
    snapshot_number(writer, "requested_size", requested);
    snapshot_word(writer, "state", in_use ? "active_allocated" : "inactive");
    pickle_dict_end(writer);
}

void snapshot_segment_end(struct pickle_writer *writer)
{
    pickle_list_end(writer);
    pickle_dict_end(writer);
}

void snapshot_begin(struct pickle_writer *writer, unsigned int protocol)
{
    pickle_begin(writer, protocol);
    pickle_dict(writer);
    pickle_text(writer, "segments");
    pickle_list(writer);
}

void snapshot_traces(struct pickle_writer *writer)
{
    pickle_list_end(writer);
    pickle_text(writer, "device_traces");
    pickle_list(writer);
    pickle_list(writer);
}

void snapshot_end(struct pickle_writer *writer)
{
    pickle_list_end(writer);
    pickle_list_end(writer);
    pickle_dict_end(writer);
    pickle_end(writer);
}
