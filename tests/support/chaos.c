/* Memory that fails on purpose; see chaos.h. */
#include "tests/support/chaos.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

static bool must_fail(struct chaos *chaos)
{
    chaos->requests++;
    if (chaos->fail_at == 0 || chaos->requests < chaos->fail_at ||
        (chaos->requests > chaos->fail_at && !chaos->for_good))
        return false;
    chaos->failed = true;
    chaos->failures++;
    return true;
}

static void *chaos_resize(void *context, void *pointer, size_t old_bytes, size_t new_bytes)
{
    struct chaos *chaos = context;
    if (new_bytes == 0) {
        free(pointer);
        chaos->live_bytes -= old_bytes;
        chaos->live_pieces -= pointer ? 1 : 0;
        return NULL;
    }
    if (new_bytes > old_bytes && must_fail(chaos))
        return NULL;
    void *piece = malloc(new_bytes);
    if (!piece)
        abort();
    memset(piece, 0xa5, new_bytes); /* nobody may count on zeroes */
    if (pointer) {
        memcpy(piece, pointer, old_bytes < new_bytes ? old_bytes : new_bytes);
        free(pointer);
    } else {
        chaos->live_pieces++;
    }
    chaos->live_bytes += new_bytes - old_bytes;
    return piece;
}

void chaos_init(struct chaos *chaos)
{
    memset(chaos, 0, sizeof(*chaos));
    chaos->memory.resize = chaos_resize;
    chaos->memory.context = chaos;
}

void chaos_arm(struct chaos *chaos, uint64_t fail_at, bool for_good)
{
    chaos->fail_at = fail_at;
    chaos->for_good = for_good;
    chaos->requests = 0;
    chaos->failed = false;
}

/* cJSON's hooks have no context and no sizes: one chaos at a time, a size before each piece. */
enum {
    HEADER_BYTES = 16
};
static struct chaos *cjson_chaos;

static void *cjson_allocate(size_t bytes)
{
    char *piece = chaos_resize(cjson_chaos, NULL, 0, bytes + HEADER_BYTES);
    if (!piece)
        return NULL;
    memcpy(piece, &bytes, sizeof(bytes));
    return piece + HEADER_BYTES;
}

static void cjson_release(void *pointer)
{
    if (!pointer)
        return;
    char *piece = (char *)pointer - HEADER_BYTES;
    size_t bytes;
    memcpy(&bytes, piece, sizeof(bytes));
    chaos_resize(cjson_chaos, piece, bytes + HEADER_BYTES, 0);
}

void chaos_hook_cjson(struct chaos *chaos)
{
    cJSON_Hooks hooks = {.malloc_fn = cjson_allocate, .free_fn = cjson_release};
    cjson_chaos = chaos;
    cJSON_InitHooks(chaos ? &hooks : NULL);
}

uint64_t chaos_loop(chaos_work work, void *context)
{
    uint64_t tried = 0;
    for (int for_good = 0; for_good < 2; for_good++) {
        for (uint64_t k = 1;; k++) {
            struct chaos chaos;
            chaos_init(&chaos);
            chaos_arm(&chaos, k, for_good != 0);
            bool through = work(&chaos, context);
            assert_int_equal(chaos.live_pieces, 0);
            assert_int_equal(chaos.live_bytes, 0);
            if (!chaos.failed) {
                assert_true(through);
                break;
            }
            tried++;
        }
    }
    return tried;
}
