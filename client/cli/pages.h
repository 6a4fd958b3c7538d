/* All pages of `trace`, `list`, `clients` or `rules`, up to the limit the user gave, as one table
 * or one JSON document. Lives for one command. */
#ifndef PAGES_H
#define PAGES_H

#include "client/cli/cli.h"
#include "console/table.h"

struct pages {
    uint64_t after;     /* where the next page starts */
    uint64_t left;      /* how many items are still wanted */
    bool more;          /* whether the daemon has more */
    bool tells_dropped; /* whether `dropped` is part of what these pages tell */
    uint64_t dropped;   /* items that were no longer there */
};

/* Asks for one page of at most `wanted` items, notes it with pages_got, and adds its rows to the
 * table, which is NULL with --json. What the client library answered. */
typedef int (*pages_fetch)(struct cli *cli, worsegpu_client *client, struct pages *pages,
                           uint64_t wanted, struct table *table,
                           struct worsegpu_client_error *error);

/* Starts from --after and --limit. The exit status: CLI_USAGE after a complaint about --limit 0. */
int pages_start(struct cli *cli, struct pages *pages);

/* What a page gave. */
void pages_got(struct pages *pages, size_t count, uint64_t next, bool more);

/* Prints page after page: rows into the table, which it ends, or with --json the items of `member`.
 * The exit status; what went wrong has been told. */
int pages_print(struct cli *cli, worsegpu_client *client, struct pages *pages, const char *member,
                pages_fetch fetch, struct table *table);

#endif
