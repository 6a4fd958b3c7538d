/* Help for the tests of the engine: golden files, allocators in one line, and comparing whole
 * states. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "lib/worsegpu.h"

/* A golden file's text, from the folder that WORSEGPU_GOLDEN names (default tests/golden), or as
 * JSON. The test fails when it cannot be read. The caller frees: free(), cJSON_Delete(). */
char *engine_golden_text(const char *name);
cJSON *engine_golden_json(const char *name);

/* The defaults with this seed. */
struct worsegpu_config engine_config(const char *seed);

/* Creates; the test fails when that fails. */
worsegpu_allocator *engine_create(const struct worsegpu_config *config);

/* A plain request of so many bytes. */
struct worsegpu_request engine_request(uint64_t requested_bytes);

/* Allocates so many bytes, which must work. */
struct worsegpu_allocation engine_allocate(worsegpu_allocator *allocator, uint64_t requested_bytes);

/* An `admit` that answers as it is told and keeps what it was asked. */
struct engine_admission {
    bool answer;
    uint64_t asked; /* how often */
    enum worsegpu_device device;
    uint64_t reserved_bytes;
};
bool engine_admit(void *admission, enum worsegpu_device device, uint64_t reserved_bytes);

/* Asks for so many bytes with this admission; the status. */
int engine_ask(worsegpu_allocator *allocator, uint64_t requested_bytes,
               struct engine_admission *admission, struct worsegpu_allocation *allocation);

/* Validates; the test fails with the invariant's name when something is broken. */
void engine_assert_valid(worsegpu_allocator *allocator);

/* All that can be seen of an allocator, with up to 512 live allocations and events. */
enum {
    ENGINE_SEEN = 512
};
struct engine_state {
    struct worsegpu_snapshot snapshot;
    struct worsegpu_allocation live[ENGINE_SEEN];
    size_t live_count;
    struct worsegpu_event events[ENGINE_SEEN];
    size_t event_count;
    uint64_t dropped;
};

void engine_look(worsegpu_allocator *allocator, struct engine_state *state);

/* The same in every member; with `twins` the secrets and tag pointers may differ, as they do
 * between two allocators that were treated alike. */
void engine_assert_same(const struct engine_state *left, const struct engine_state *right,
                        bool twins);

#endif
