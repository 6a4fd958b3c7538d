/* The table of placement policies. */
#include <string.h>

#include "lib/policies/bfc.h"
#include "lib/policies/buddy.h"
#include "lib/policies/driver.h"
#include "lib/policies/list_fit.h"
#include "lib/policies/offset.h"
#include "lib/policies/reference.h"
#include "lib/policies/rmm_pool.h"
#include "lib/policies/tlsf.h"
#include "lib/policies/torch.h"
#include "lib/policies/vma.h"
#include "lib/policies/worse.h"
#include "lib/policy.h"
#include "lib/worsegpu.h"

static const struct policy_operations *const policies[] = {
    &policy_worse,    &policy_reference, &policy_list_fit, &policy_buddy,
    &policy_driver,   &policy_offset,    &policy_vma,      &policy_tlsf,
    &policy_rmm_pool, &policy_bfc,       &policy_torch,    &policy_torch_expandable,
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

static const char *type_name(enum knob_type type)
{
    static const char *const names[] = {
        [KNOB_BYTES] = "bytes", [KNOB_COUNT] = "count",   [KNOB_NUMBER] = "number",
        [KNOB_YESNO] = "yesno", [KNOB_CHOICE] = "choice", [KNOB_TEXT] = "text",
    };
    return names[type];
}

bool worsegpu_policy_knob(const char *policy, size_t index, struct worsegpu_knob *knob)
{
    const struct policy_operations *operations = policy_find(policy);
    if (!operations || index >= operations->knob_count)
        return false;
    const struct policy_knob *found = &operations->knobs[index];
    *knob = (struct worsegpu_knob){
        .name = found->name,
        .type = type_name(found->type),
        .default_text = found->default_text,
        .minimum = found->minimum,
        .maximum = found->maximum,
        .choices = found->choices,
        .meaning = found->meaning,
    };
    return true;
}
