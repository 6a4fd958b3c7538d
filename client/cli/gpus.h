/* What `smi` and `top` show: every shared GPU with its accounts, and every connection. Read anew
 * each time; the arrays are kept in between. Lives for one command. */
#ifndef GPUS_H
#define GPUS_H

#include "client/cli/cli.h"
#include "proto/json_writer.h"

struct gpu {
    char name[WORSEGPU_CLIENT_NAME_SIZE];
    struct worsegpu_client_snapshot snapshot;
};

struct gpus {
    const struct worsegpu_memory *memory;
    struct worsegpu_client_info info;
    struct gpu *items;
    size_t count;
    size_t capacity;
    struct worsegpu_client_peer *peers; /* all connections this one may see, but for itself */
    size_t peer_count;
    size_t peer_capacity;
};

void gpus_init(struct gpus *gpus, const struct worsegpu_memory *memory);
void gpus_release(struct gpus *gpus);

/* Who the daemon is, and the accounts of its GPUs; `only` names the one that is wanted, NULL: all.
 * What the client library answered. With a document the answers are written to it as they came:
 * "info" and "gpus". */
int gpus_read(struct gpus *gpus, worsegpu_client *client, const char *only,
              struct json_writer *document, struct worsegpu_client_error *error);

/* The connections. With a document: "clients". */
int gpus_read_peers(struct gpus *gpus, worsegpu_client *client, struct json_writer *document,
                    struct worsegpu_client_error *error);

#endif
