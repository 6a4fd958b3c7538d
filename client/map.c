/* map: the fake GPU's address range, cell by cell. */
#include "client/parameters.h"
#include "client/reader.h"
#include "client/typed_results.h"

enum {
    NUMBERS = 5 /* of a cell */
};

static void read_cell(struct reader *reader, const cJSON *item, struct worsegpu_client_cell *cell)
{
    uint64_t *const numbers[NUMBERS] = {&cell->used, &cell->free, &cell->forgotten, &cell->pending,
                                        &cell->client};
    int count = 0;
    const cJSON *number;
    cJSON_ArrayForEach(number, item)
    {
        if (count == NUMBERS || !json_document_u64(reader->document, number, numbers[count]))
            break;
        count++;
    }
    if (!cJSON_IsArray(item) || number || count != NUMBERS)
        reader_miss(reader, "cells");
}

static int read_map(worsegpu_client *client, struct worsegpu_client_map *map,
                    struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    void *items;
    int status = reader_page(client, &reader, "cells", sizeof(struct worsegpu_client_cell), &items,
                             &map->count, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct worsegpu_client_cell *cells = items;
    map->cells = cells;
    map->from = reader_u64(&reader, "from");
    map->bytes = reader_u64(&reader, "bytes");
    map->cell_bytes = reader_u64(&reader, "cell_bytes");
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_document_member(client->result_item, "cells"))
    {
        if (cells)
            read_cell(&reader, item, &cells[index++]);
    }
    return reader_end(client, &reader, error);
}

int worsegpu_client_map(worsegpu_client *client, const char *allocator, uint64_t from,
                        uint64_t bytes, uint64_t cells, struct worsegpu_client_map *map,
                        struct worsegpu_client_error *error)
{
    int status = parameters_check_text(allocator, "the allocator", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_map);
    parameters_put_u64(client, PARAMETER_cells, true, cells);
    parameters_put_u64(client, PARAMETER_from, from > 0, from);
    parameters_put_u64(client, PARAMETER_bytes, bytes > 0, bytes);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? read_map(client, map, error) : status;
}
