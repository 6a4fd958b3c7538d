/* Walking through all pages of `trace` or `list` up to the limit the user gave. Lives for one
 * command. */
#ifndef PAGES_H
#define PAGES_H

#include "client/cli/cli.h"
#include "client/cli/table.h"

struct pages {
    uint64_t after; /* where the next page starts */
    uint64_t left;  /* how many items are still wanted */
    bool more;      /* whether the daemon has more */
};

/* Starts from --after and --limit. The exit status: CLI_USAGE after a complaint about --limit 0. */
int pages_start(struct cli *cli, struct pages *pages);

/* How many to ask for in the next page; 0 when it is over. */
uint64_t pages_next(const struct pages *pages);

/* What a page gave. */
void pages_got(struct pages *pages, size_t count, uint64_t next, bool more);

/* Ends the table, or with --json the document, after the last page or what went wrong
 * (`outcome`, with `error`). The exit status. */
int pages_end(struct cli *cli, struct table *table, int outcome,
              const struct worsegpu_client_error *error);

#endif
