/* What the files of the snapshot output share: words, pickle opcodes, and the picture at the end.
 */
#ifndef LAB_OUTPUTS_SNAPSHOT_PICKLE_H
#define LAB_OUTPUTS_SNAPSHOT_PICKLE_H

#include "lab/outputs/outputs.h"

enum snapshot_word {
#define WORD(name, text) WORD_##name,
#include "lab/outputs/snapshot_words.def"
#undef WORD
    WORDS
};

void dump_code(struct snapshot_output *output, unsigned int opcode);
void dump_open_dict(struct snapshot_output *output);
void dump_close_dict(struct snapshot_output *output);
void dump_word(struct snapshot_output *output, enum snapshot_word word);
void dump_text(struct snapshot_output *output, const char *text, size_t length);
void dump_number(struct snapshot_output *output, uint64_t number);
void dump_double(struct snapshot_output *output, double number);
/* A key with a number. */
void dump_member(struct snapshot_output *output, enum snapshot_word key, uint64_t number);

/* "segments" with their blocks. log_status. */
int dump_segments(struct snapshot_output *output, const struct timeline_end *end, uint64_t base);
/* "allocator_settings" and what else a snapshot has. */
void dump_settings(struct snapshot_output *output);

#endif
