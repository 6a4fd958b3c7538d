/* worse-gpu-benchmark: the benchmark alone, under the name that people know. */
#include <signal.h>
#include <stdio.h>

#include "base/memory.h"
#include "client/cli/cli.h"

int main(int argc, char **argv)
{
    /* A reader that goes away shall be an error of writing, not the end. */
    signal(SIGPIPE, SIG_IGN);
    return benchmark_main(argc, argv, memory_system(), stdout, stderr);
}
