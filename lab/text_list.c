/* A growing list of texts; see text_list.h. */
#include "lab/text_list.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

void text_list_init(struct text_list *list, const struct worsegpu_memory *memory)
{
    *list = (struct text_list){.memory = memory};
}

void text_list_release(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        memory_release_array(list->memory, list->texts[i], strlen(list->texts[i]) + 1, 1);
    memory_release_array(list->memory, list->texts, list->capacity, sizeof(*list->texts));
    text_list_init(list, list->memory);
}

int text_list_add_pieces(struct text_list *list, const struct text_piece *pieces, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += pieces[i].length;
    if (memory_grow(list->memory, &list->texts, &list->capacity, list->count + 1,
                    sizeof(*list->texts)) != 0)
        return -1;
    char *text = memory_allocate_array(list->memory, length + 1, 1);
    if (!text)
        return -1;
    char *at = text;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, pieces[i].bytes, pieces[i].length);
        at += pieces[i].length;
    }
    *at = '\0';
    list->texts[list->count++] = text;
    return 0;
}

int text_list_add(struct text_list *list, const char *bytes, size_t length)
{
    return text_list_add_pieces(list, &(struct text_piece){bytes, length}, 1);
}

struct text_piece text_piece_of(const char *text)
{
    return (struct text_piece){text, strlen(text)};
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

struct text_piece text_piece_trim(struct text_piece piece)
{
    while (piece.length > 0 && is_blank(*piece.bytes)) {
        piece.bytes++;
        piece.length--;
    }
    while (piece.length > 0 && is_blank(piece.bytes[piece.length - 1]))
        piece.length--;
    return piece;
}
