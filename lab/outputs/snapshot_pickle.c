/* Pickle opcodes of protocol 4, as far as a snapshot needs them; see snapshot_pickle.h. */
#include "lab/outputs/snapshot_pickle.h"

#include <string.h>

static const char *const TEXTS[WORDS] = {
#define WORD(name, text) [WORD_##name] = (text),
#include "lab/outputs/snapshot_words.def"
#undef WORD
};

_Static_assert((int)WORDS <= (int)SNAPSHOT_MOST_WORDS, "every word has a place in the memo");

enum {
    CODE_MEMOIZE = 0x94,
    CODE_LONG1 = 0x8a,
    CODE_SHORT_BINUNICODE = 0x8c,
    MOST_TEXT = 255
};

void dump_code(struct snapshot_output *output, unsigned int opcode)
{
    unsigned char byte = (unsigned char)opcode;
    output_file_bytes(&output->file, &byte, 1);
}

void dump_open_dict(struct snapshot_output *output)
{
    output_file_bytes(&output->file, "}(", 2);
}

void dump_close_dict(struct snapshot_output *output)
{
    dump_code(output, 'u');
}

void dump_text(struct snapshot_output *output, const char *text, size_t length)
{
    size_t bytes = length < MOST_TEXT ? length : MOST_TEXT;
    dump_code(output, CODE_SHORT_BINUNICODE);
    dump_code(output, (unsigned int)bytes);
    output_file_bytes(&output->file, text, bytes);
}

void dump_word(struct snapshot_output *output, enum snapshot_word word)
{
    if (output->memo[word] > 0) {
        dump_code(output, 'h');
        dump_code(output, output->memo[word] - 1u);
        return;
    }
    dump_text(output, TEXTS[word], strlen(TEXTS[word]));
    dump_code(output, CODE_MEMOIZE);
    output->memo[word] = ++output->memo_count;
}

/* `bytes` of it, the lowest first. */
static void little(struct snapshot_output *output, uint64_t number, size_t bytes)
{
    unsigned char written[9] = {0};
    for (size_t i = 0; i < bytes && i < sizeof(uint64_t); i++)
        written[i] = (unsigned char)(number >> (8 * i));
    output_file_bytes(&output->file, written, bytes);
}

void dump_number(struct snapshot_output *output, uint64_t number)
{
    if (number <= UINT8_MAX) {
        dump_code(output, 'K');
        little(output, number, 1);
    } else if (number <= UINT16_MAX) {
        dump_code(output, 'M');
        little(output, number, 2);
    } else if (number <= INT32_MAX) {
        dump_code(output, 'J');
        little(output, number, 4);
    } else {
        /* Two's complement: the highest bit is the sign. */
        size_t bytes = 4;
        while (bytes < 9 && (bytes == 8 ? number >> 63 : number >> (8 * bytes - 1)) != 0)
            bytes++;
        dump_code(output, CODE_LONG1);
        dump_code(output, (unsigned int)bytes);
        little(output, number, bytes);
    }
}

void dump_double(struct snapshot_output *output, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    dump_code(output, 'G');
    for (unsigned int i = 0; i < 8; i++)
        dump_code(output, (unsigned int)(bits >> (56 - 8 * i) & UINT8_MAX));
}

void dump_member(struct snapshot_output *output, enum snapshot_word key, uint64_t number)
{
    dump_word(output, key);
    dump_number(output, number);
}
