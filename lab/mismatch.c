/* A difference between a record and its model, as a few lines for a person; see mismatch.h. */
#include "lab/mismatch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    FREE_BLOCKS_SHOWN = 12
};

/* Text that is cut where its room ends. */
struct telling {
    char *text;
    size_t size;
    size_t length;
    uint64_t free_blocks;
};

static void tell_list(struct telling *telling, const char *format, va_list arguments)
{
    if (telling->length >= telling->size)
        return;
    int length = vsnprintf(telling->text + telling->length, telling->size - telling->length, format,
                           arguments);
    telling->length += length > 0 ? (size_t)length : 0;
}

__attribute__((format(printf, 2, 3))) static void tell(struct telling *telling, const char *format,
                                                       ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell_list(telling, format, arguments);
    va_end(arguments);
}

static void tell_free_block(void *context, const struct policy_block *block)
{
    struct telling *telling = context;
    if (block->state != POLICY_BLOCK_FREE)
        return;
    if (telling->free_blocks++ < FREE_BLOCKS_SHOWN)
        tell(telling, "\n    free: %" PRIu64 " bytes at %" PRIu64, block->bytes, block->offset);
}

void mismatch_note(struct verify_result *result, const struct policy *policy, const char *place,
                   const char *format, ...)
{
    if (result->mismatches++ > 0)
        return;
    struct telling telling = {.text = result->mismatch, .size = sizeof(result->mismatch)};
    tell(&telling, "%s: ", place);
    va_list arguments;
    va_start(arguments, format);
    tell_list(&telling, format, arguments);
    va_end(arguments);
    if (!policy->operations->each_block)
        return;
    policy->operations->each_block(policy, tell_free_block, &telling);
    if (telling.free_blocks == 0)
        tell(&telling, "\n    free: nothing");
    if (telling.free_blocks > FREE_BLOCKS_SHOWN)
        tell(&telling, "\n    free: %" PRIu64 " more blocks",
             telling.free_blocks - FREE_BLOCKS_SHOWN);
}
