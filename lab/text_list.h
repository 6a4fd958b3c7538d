/* A list of texts that belong to it. */
#ifndef LAB_TEXT_LIST_H
#define LAB_TEXT_LIST_H

#include <stddef.h>

#include "base/worsegpu_memory.h"

struct text_list {
    const struct worsegpu_memory *memory;
    char **texts;
    size_t count;
    size_t capacity;
};

void text_list_init(struct text_list *list, const struct worsegpu_memory *memory);
void text_list_release(struct text_list *list);

/* Adds so many bytes as one text; none of them is NUL. 0, or -1 without memory: nothing changed. */
int text_list_add(struct text_list *list, const char *bytes, size_t length);

/* The same with what separate pieces make together. */
struct text_piece {
    const char *bytes;
    size_t length;
};
int text_list_add_pieces(struct text_list *list, const struct text_piece *pieces, size_t count);

/* A NUL-terminated text as a piece. */
struct text_piece text_piece_of(const char *text);
/* Without blanks and tabs at both ends. */
struct text_piece text_piece_trim(struct text_piece piece);

#endif
