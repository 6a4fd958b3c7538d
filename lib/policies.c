/* The table of placement policies. */
#include <string.h>

#include "lib/policies/reference.h"
#include "lib/policies/worse.h"
#include "lib/policy.h"
#include "lib/worsegpu.h"

static const struct policy_operations *const policies[] = {
    &policy_worse,
    &policy_reference,
};

const struct policy_operations *policy_at(size_t index)
{
    return index < sizeof(policies) / sizeof(policies[0]) ? policies[index] : NULL;
}

const struct policy_operations *policy_find(const char *name)
{
    const struct policy_operations *operations;
    for (size_t i = 0; (operations = policy_at(i)) != NULL; i++) {
        if (strcmp(operations->name, name) == 0)
            return operations;
    }
    return NULL;
}

const char *worsegpu_policy_name(size_t index)
{
    const struct policy_operations *operations = policy_at(index);
    return operations ? operations->name : NULL;
}

const char *worsegpu_policy_summary(const char *name)
{
    const struct policy_operations *operations = policy_find(name);
    return operations ? operations->summary : NULL;
}
