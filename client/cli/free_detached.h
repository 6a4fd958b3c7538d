/* free --all-detached: every detached allocation that the user may see. */
#ifndef FREE_DETACHED_H
#define FREE_DETACHED_H

#include "client/cli/cli.h"

/* Frees them, page by page, and says how many. The exit status. */
int free_detached(struct cli *cli, worsegpu_client *client);

#endif
