/* Fragments from the tables of the engine: its policies. */
#include "lib/worsegpu.h"
#include "manual/manual.h"

static void write_policies(FILE *out)
{
    const char *name;
    for (size_t i = 0; (name = worsegpu_policy_name(i)) != NULL; i++) {
        fprintf(out, "*%s*\n\t", name);
        manual_text(out, worsegpu_policy_summary(name));
        fputs("\n\n", out);
    }
}

const struct manual_fragment manual_of_engine[] = {
    {"policies", write_policies},
    {NULL, NULL},
};
