/* map: the fake GPU's address range in cells, for pictures. */
#include "daemon/handlers.h"

enum {
    DEFAULT_CELLS = 256,
    MOST_CELLS = 1000 /* the table's maximum */
};

/* The connection whose allocation has most of the cell; 0 where there is none, it has ended, or the
 * peer may not see it. */
static uint64_t client_of(const struct call *call, const struct worsegpu_cell *cell)
{
    const struct lease *lease = cell->owner;
    bool known = lease && lease->holding && lease->holding->account;
    return known && may_see_lease(call->connection, lease) ? lease->client : 0;
}

static void write_cells(const struct call *call, const struct worsegpu_cell *cells, size_t count)
{
    struct json_writer *out = call->reply.out;
    json_writer_begin_array(out);
    for (size_t index = 0; index < count; index++) {
        json_writer_begin_array(out);
        json_writer_u64(out, cells[index].used_bytes);
        json_writer_u64(out, cells[index].free_bytes);
        json_writer_u64(out, cells[index].forgotten_bytes);
        json_writer_u64(out, cells[index].pending_bytes);
        json_writer_u64(out, client_of(call, &cells[index]));
        json_writer_end_array(out);
    }
    json_writer_end_array(out);
}

const struct answered *handle_map(struct call *call)
{
    const struct request *request = call->request;
    struct json_writer *out = call->reply.out;
    struct worsegpu_cell cells[MOST_CELLS];
    struct worsegpu_map map;
    struct worsegpu_snapshot snapshot;
    size_t count =
        request_has(request, PARAMETER_cells) ? (size_t)request->params.cells : DEFAULT_CELLS;
    /* Cannot fail: the table allows no other counts, and ranges far below 2^64. */
    worsegpu_map(
        call->hosted->engine, request_has(request, PARAMETER_from) ? request->params.from : 0,
        request_has(request, PARAMETER_bytes) ? request->params.bytes : 0, cells, count, &map);
    worsegpu_snapshot(call->hosted->engine, &snapshot);
    call->cost +=
        (snapshot.gpu_blocks + snapshot.active_allocations + map.cells) / CALL_WALKED_PER_REQUEST;
    reply_begin_result(&call->reply);
    json_writer_member_u64(out, "from", map.from);
    json_writer_member_u64(out, "bytes", map.bytes);
    json_writer_member_u64(out, "cell_bytes", map.cell_bytes);
    json_writer_key(out, "cells");
    write_cells(call, cells, map.cells);
    return reply_end_result(&call->reply);
}
