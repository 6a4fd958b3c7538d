/* Freeing what was left behind; see free_detached.h. */
#include "client/cli/free_detached.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "client/cli/report.h"
#include "proto/errors.h"
#include "proto/json_writer.h"
#include "proto/limits.h"

struct sweep {
    struct cli *cli;
    worsegpu_client *client;
    char (*handles)[WORSEGPU_CLIENT_HANDLE_SIZE]; /* of one page */
    size_t count;
    struct json_writer params;
    uint64_t freed;
    uint64_t forgotten; /* of those */
    uint64_t refused;
    struct worsegpu_client_error first_refusal;
};

static int no_memory(struct worsegpu_client_error *error)
{
    memset(error, 0, sizeof(*error));
    error->status = WORSEGPU_CLIENT_NO_MEMORY;
    snprintf(error->kind, sizeof(error->kind), "no_memory");
    snprintf(error->message, sizeof(error->message), "there is not enough memory");
    return error->status;
}

/* The handles of the next page: it is gone with the next call. */
static int read_page(struct sweep *sweep, uint64_t *after, bool *more,
                     struct worsegpu_client_error *error)
{
    struct worsegpu_client_list page;
    int status = worsegpu_client_list(sweep->client, cli_allocator(sweep->cli), *after,
                                      PROTO_MAX_PAGE, &page, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    sweep->count = 0;
    for (size_t i = 0; i < page.count && i < PROTO_MAX_PAGE; i++) {
        if (page.allocations[i].detached)
            memcpy(sweep->handles[sweep->count++], page.allocations[i].handle,
                   WORSEGPU_CLIENT_HANDLE_SIZE);
    }
    *after = page.next;
    *more = page.more;
    return WORSEGPU_CLIENT_OK;
}

static int queue_free(struct sweep *sweep, const char *handle, struct worsegpu_client_error *error)
{
    struct json_writer *params = &sweep->params;
    const char *allocator = cli_allocator(sweep->cli);
    json_writer_cut(params, 0);
    json_writer_begin_object(params);
    json_writer_member_text(params, "handle", handle);
    if (allocator)
        json_writer_member_text(params, "allocator", allocator);
    json_writer_end_object(params);
    if (params->failure != JSON_WRITER_FINE || json_writer_reserve(params, 1) < 0)
        return no_memory(error);
    params->data[params->length] = '\0';
    return worsegpu_client_queue(sweep->client, "free", params->data, error);
}

/* An allocation that somebody else has freed meanwhile is none of ours to complain about. */
static void note_refusal(struct sweep *sweep, const struct worsegpu_client_error *error)
{
    if (error_kind_from_name(error->kind) == ERROR_UNKNOWN_HANDLE && !error->rule_given)
        return;
    if (sweep->refused++ == 0)
        sweep->first_refusal = *error;
}

static int free_page(struct sweep *sweep, struct worsegpu_client_error *error)
{
    int status = WORSEGPU_CLIENT_OK;
    for (size_t i = 0; i < sweep->count && status == WORSEGPU_CLIENT_OK; i++)
        status = queue_free(sweep, sweep->handles[i], error);
    for (size_t i = 0; i < sweep->count && status == WORSEGPU_CLIENT_OK; i++) {
        struct worsegpu_client_release release;
        status = worsegpu_client_receive(sweep->client, error);
        if (status == WORSEGPU_CLIENT_OK)
            status = worsegpu_client_read_release(sweep->client, &release, error);
        if (status == WORSEGPU_CLIENT_REFUSED) {
            note_refusal(sweep, error);
            status = WORSEGPU_CLIENT_OK;
        } else if (status == WORSEGPU_CLIENT_OK) {
            sweep->freed++;
            sweep->forgotten += !release.released;
        }
    }
    return status;
}

static int sweep_all(struct sweep *sweep, struct worsegpu_client_error *error)
{
    uint64_t after = 0;
    bool more = true;
    int status = WORSEGPU_CLIENT_OK;
    while (status == WORSEGPU_CLIENT_OK && more) {
        status = read_page(sweep, &after, &more, error);
        if (status == WORSEGPU_CLIENT_OK)
            status = free_page(sweep, error);
    }
    if (status == WORSEGPU_CLIENT_OK && sweep->refused > 0) {
        *error = sweep->first_refusal;
        status = error->status;
    }
    return status;
}

static void print_sum(const struct sweep *sweep, int status,
                      const struct worsegpu_client_error *error)
{
    struct cli *cli = sweep->cli;
    if (cli->output.json) {
        output_text(&cli->output, "{\"count\":%" PRIu64 ",\"forgotten\":%" PRIu64, sweep->freed,
                    sweep->forgotten);
        if (status != WORSEGPU_CLIENT_OK) {
            output_text(&cli->output, ",");
            report_json_member(cli, error);
        }
        output_text(&cli->output, "}\n");
        return;
    }
    output_text(&cli->output, "%" PRIu64 " detached allocation%s freed", sweep->freed,
                sweep->freed == 1 ? "" : "s");
    if (sweep->forgotten > 0)
        output_text(&cli->output, ", %" PRIu64 " of them forgotten", sweep->forgotten);
    output_text(&cli->output, "\n");
}

int free_detached(struct cli *cli, worsegpu_client *client)
{
    struct worsegpu_client_error error;
    struct sweep sweep = {.cli = cli, .client = client};
    sweep.handles = memory_allocate_array(cli->memory, PROTO_MAX_PAGE, sizeof(*sweep.handles));
    if (!sweep.handles)
        return report_no_memory(cli);
    json_writer_init(&sweep.params, cli->memory, SIZE_MAX / 2);
    int status = sweep_all(&sweep, &error);
    print_sum(&sweep, status, &error);
    if (status != WORSEGPU_CLIENT_OK) {
        report_sentence(cli, NULL, &error);
        status = report_exit(&error);
    }
    json_writer_release(&sweep.params);
    memory_release_array(cli->memory, sweep.handles, PROTO_MAX_PAGE, sizeof(*sweep.handles));
    return status;
}
