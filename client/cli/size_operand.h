/* A SIZE on the command line. No state. */
#ifndef SIZE_OPERAND_H
#define SIZE_OPERAND_H

#include <stdint.h>

#include "client/cli/cli.h"

/* Reads a size of 1 to 2^53 - 1 bytes. CLI_FINE, or CLI_USAGE after a complaint. */
int size_operand(struct cli *cli, const char *text, uint64_t *bytes);

#endif
