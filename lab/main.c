/* worsegpu-lab: recorded logs through every policy. */
#include <signal.h>
#include <stdio.h>

#include "base/memory.h"
#include "lab/lab.h"

int main(int argc, char **argv)
{
    /* A reader that goes away shall be an error of writing, not the end. */
    signal(SIGPIPE, SIG_IGN);
    return lab_main(argc, argv, memory_system(), stdout, stderr);
}
