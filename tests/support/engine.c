/* Help for the tests of the engine; see engine.h. */
#include "tests/support/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *engine_golden_text(const char *name)
{
    const char *folder = getenv("WORSEGPU_GOLDEN");
    char path[512];
    int length = snprintf(path, sizeof(path), "%s/%s", folder ? folder : "tests/golden", name);
    assert_true(length > 0 && (size_t)length < sizeof(path));
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot read %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    text[size] = '\0';
    fclose(file);
    return text;
}

cJSON *engine_golden_json(const char *name)
{
    char *text = engine_golden_text(name);
    cJSON *json = cJSON_Parse(text);
    if (!json)
        fail_msg("%s is no JSON", name);
    free(text);
    return json;
}

struct worsegpu_config engine_config(const char *seed)
{
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    config.seed = seed;
    return config;
}

worsegpu_allocator *engine_create(const struct worsegpu_config *config)
{
    worsegpu_allocator *allocator;
    assert_int_equal(worsegpu_create(config, &allocator), WORSEGPU_OK);
    assert_non_null(allocator);
    return allocator;
}

struct worsegpu_request engine_request(uint64_t requested_bytes)
{
    return (struct worsegpu_request){.requested_bytes = requested_bytes};
}

struct worsegpu_allocation engine_allocate(worsegpu_allocator *allocator, uint64_t requested_bytes)
{
    struct worsegpu_request request = engine_request(requested_bytes);
    struct worsegpu_allocation allocation;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    return allocation;
}

bool engine_admit(void *context, enum worsegpu_device device, uint64_t reserved_bytes)
{
    struct engine_admission *admission = context;
    admission->asked++;
    admission->device = device;
    admission->reserved_bytes = reserved_bytes;
    return admission->answer;
}

int engine_ask(worsegpu_allocator *allocator, uint64_t requested_bytes,
               struct engine_admission *admission, struct worsegpu_allocation *allocation)
{
    struct worsegpu_request request = engine_request(requested_bytes);
    request.admit = engine_admit;
    request.admit_context = admission;
    return worsegpu_allocate(allocator, &request, allocation);
}

void engine_assert_valid(worsegpu_allocator *allocator)
{
    uint64_t checks = 0;
    const char *broken = NULL;
    int status = worsegpu_validate(allocator, &checks, &broken);
    if (status != WORSEGPU_OK)
        fail_msg("validate: status %d, %s", status, broken ? broken : "nothing named");
    assert_null(broken);
    assert_true(checks > 0);
}

void engine_look(worsegpu_allocator *allocator, struct engine_state *state)
{
    bool more;
    worsegpu_snapshot(allocator, &state->snapshot);
    worsegpu_list(allocator, 0, state->live, ENGINE_SEEN, &state->live_count, &more);
    assert_false(more);
    worsegpu_trace(allocator, 0, state->events, ENGINE_SEEN, &state->event_count, &more,
                   &state->dropped);
    assert_false(more);
}

static void assert_same_allocation(const struct worsegpu_allocation *left,
                                   const struct worsegpu_allocation *right, bool twins)
{
    assert_int_equal(left->handle.allocation_id, right->handle.allocation_id);
    assert_int_equal(left->requested_bytes, right->requested_bytes);
    assert_int_equal(left->reserved_bytes, right->reserved_bytes);
    assert_int_equal(left->device, right->device);
    assert_int_equal(left->reason, right->reason);
    assert_int_equal(left->block_index, right->block_index);
    assert_int_equal(left->offset, right->offset);
    assert_int_equal(left->stream, right->stream);
    assert_int_equal(left->stream_given, right->stream_given);
    assert_int_equal(left->tag_bytes, right->tag_bytes);
    if (left->tag_bytes > 0)
        assert_memory_equal(left->tag, right->tag, left->tag_bytes);
    assert_ptr_equal(left->owner, right->owner);
    if (twins)
        return;
    assert_memory_equal(left->handle.secret, right->handle.secret, sizeof(left->handle.secret));
    assert_ptr_equal(left->tag, right->tag);
}

static void assert_same_event(const struct worsegpu_event *left, const struct worsegpu_event *right)
{
    assert_int_equal(left->sequence, right->sequence);
    assert_int_equal(left->operation, right->operation);
    assert_int_equal(left->device, right->device);
    assert_int_equal(left->reason, right->reason);
    assert_int_equal(left->released, right->released);
    assert_int_equal(left->stream_given, right->stream_given);
    assert_int_equal(left->allocation_id, right->allocation_id);
    assert_int_equal(left->requested_bytes, right->requested_bytes);
    assert_int_equal(left->reserved_bytes, right->reserved_bytes);
    assert_int_equal(left->stream, right->stream);
    assert_int_equal(left->client, right->client);
    assert_int_equal(left->time_us, right->time_us);
    assert_int_equal(left->rule, right->rule);
    assert_int_equal(left->action, right->action);
    assert_int_equal(left->tag_bytes, right->tag_bytes);
    assert_memory_equal(left->tag, right->tag, sizeof(left->tag));
}

void engine_assert_same(const struct engine_state *left, const struct engine_state *right,
                        bool twins)
{
    assert_memory_equal(&left->snapshot, &right->snapshot, sizeof(left->snapshot));
    assert_int_equal(left->live_count, right->live_count);
    for (size_t i = 0; i < left->live_count; i++)
        assert_same_allocation(&left->live[i], &right->live[i], twins);
    assert_int_equal(left->event_count, right->event_count);
    for (size_t i = 0; i < left->event_count; i++)
        assert_same_event(&left->events[i], &right->events[i]);
    assert_int_equal(left->dropped, right->dropped);
}
