/* A SIZE on the command line; see size_operand.h. */
#include "client/cli/size_operand.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bytes_text.h"
#include "client/cli/report.h"
#include "proto/limits.h"

int size_operand(struct cli *cli, const char *text, uint64_t *bytes)
{
    char problem[ARGUMENTS_PROBLEM_SIZE];
    if (!bytes_from_text(text, bytes)) {
        snprintf(problem, sizeof(problem), "\"%s\" is no size", text);
        return report_usage(cli, problem,
                            "a size is 4096, 2MiB or 1.5GiB, a whole number of bytes");
    }
    if (*bytes < 1 || *bytes > (uint64_t)PROTO_MAX_SAFE_INTEGER) {
        snprintf(problem, sizeof(problem), "a size is 1 to %" PRId64 " bytes, not %s",
                 PROTO_MAX_SAFE_INTEGER, text);
        return report_usage(cli, problem, NULL);
    }
    return CLI_FINE;
}
