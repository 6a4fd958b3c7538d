/* Printing what the daemon answered as it came. No state. */
#ifndef RESULT_H
#define RESULT_H

#include "client/cli/cli.h"

/* The last result and a line end. */
void result_print(struct cli *cli, const worsegpu_client *client);

/* The items of an array member of the last result, without its brackets, a comma before each but
 * the first of the whole document: *first says whether none was printed yet. */
void result_print_items(struct cli *cli, const worsegpu_client *client, const char *member,
                        bool *first);

#endif
