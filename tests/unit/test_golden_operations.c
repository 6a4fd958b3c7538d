/* The golden scripts (ops-*.ndjson) on the library itself: every decision, every snapshot and the
 * whole trace as the reference's, with both ways of scanning. Lines are compared as text where the
 * reference's text is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/worsegpu.h"
#include "tests/support/engine.h"

enum {
    MAX_IDS = 20000,
    SEED_SIZE = 128
};

static uint64_t count_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(item));
    return (uint64_t)item->valuedouble; /* all below 2^53 */
}

static void config_from_line(const char *line, enum worsegpu_scan scan, char seed[SEED_SIZE],
                             struct worsegpu_config *config)
{
    cJSON *json = cJSON_Parse(line);
    assert_non_null(json);
    worsegpu_config_default(config);
    config->gpu_capacity = count_of(json, "gpu_capacity");
    config->gpu_probability = cJSON_GetObjectItem(json, "gpu_probability")->valuedouble;
    config->forget_probability = cJSON_GetObjectItem(json, "forget_probability")->valuedouble;
    config->fallback_on_oom = cJSON_IsTrue(cJSON_GetObjectItem(json, "fallback_on_oom"));
    config->max_request_bytes = count_of(json, "max_request_bytes");
    config->trace_limit = count_of(json, "trace_limit");
    config->scan = scan;
    cJSON_Delete(json);
    /* Seeds do not fit a double: the digits as they stand. */
    const char *at = strstr(line, "\"seed\":");
    assert_non_null(at);
    at += strlen("\"seed\":");
    size_t length = strspn(at, "-0123456789");
    assert_true(length > 0 && length < SEED_SIZE);
    memcpy(seed, at, length);
    seed[length] = '\0';
    config->seed = seed;
}

static void replay_allocate(worsegpu_allocator *allocator, const cJSON *line,
                            struct worsegpu_handle *handles)
{
    const cJSON *expect = cJSON_GetObjectItem(line, "expect");
    struct worsegpu_request request = engine_request(count_of(line, "requested_bytes"));
    struct worsegpu_allocation allocation;
    int status = worsegpu_allocate(allocator, &request, &allocation);
    if (cJSON_GetObjectItem(expect, "error")) {
        assert_int_equal(status, WORSEGPU_OUT_OF_MEMORY);
        return;
    }
    assert_int_equal(status, WORSEGPU_OK);
    assert_int_equal(allocation.handle.allocation_id, count_of(expect, "allocation_id"));
    assert_int_equal(allocation.reserved_bytes, count_of(expect, "reserved_bytes"));
    assert_string_equal(worsegpu_device_name(allocation.device),
                        cJSON_GetObjectItem(expect, "device")->valuestring);
    assert_int_equal(allocation.block_index, cJSON_GetObjectItem(expect, "block_index")->valueint);
    assert_true(allocation.handle.allocation_id < MAX_IDS);
    handles[allocation.handle.allocation_id] = allocation.handle;
}

static void replay_free(worsegpu_allocator *allocator, const cJSON *line,
                        const struct worsegpu_handle *handles)
{
    struct worsegpu_release release;
    const struct worsegpu_handle *handle = &handles[count_of(line, "allocation_id")];
    assert_int_equal(worsegpu_free(allocator, handle, 0, 0, &release), WORSEGPU_OK);
    const cJSON *expect = cJSON_GetObjectItem(line, "expect");
    assert_int_equal(release.released, cJSON_IsTrue(cJSON_GetObjectItem(expect, "released")));
    assert_int_equal(worsegpu_free(allocator, handle, 0, 0, NULL), WORSEGPU_UNKNOWN_HANDLE);
}

static void replay_snapshot(worsegpu_allocator *allocator, const char *line)
{
    struct worsegpu_snapshot now;
    char fragmentation[8];
    char text[1024];
    worsegpu_snapshot(allocator, &now);
    worsegpu_fragmentation_to_text(now.fragmentation, fragmentation);
    snprintf(text, sizeof(text),
             "{\"op\":\"snapshot\",\"expect\":{\"gpu_capacity\":%" PRIu64
             ",\"gpu_reserved\":%" PRIu64 ",\"gpu_unreserved\":%" PRIu64 ",\"gpu_used\":%" PRIu64
             ",\"gpu_free\":%" PRIu64 ",\"gpu_forgotten\":%" PRIu64 ",\"gpu_blocks\":%" PRIu64
             ",\"cpu_bytes\":%" PRIu64 ",\"active_allocations\":%" PRIu64
             ",\"trace_events\":%" PRIu64 ",\"fragmentation\":%s}}",
             now.gpu_capacity, now.gpu_reserved, now.gpu_unreserved, now.gpu_used, now.gpu_free,
             now.gpu_forgotten, now.gpu_blocks, now.cpu_bytes, now.active_allocations,
             now.trace_events, fragmentation);
    assert_string_equal(text, line);
    engine_assert_valid(allocator);
}

static void print_event(FILE *out, const struct worsegpu_event *event)
{
    const char *reason = worsegpu_reason_name(event->reason);
    const char *device = worsegpu_device_name(event->device);
    fprintf(out, "{\"operation\":\"%s\"", worsegpu_operation_name(event->operation));
    switch (event->operation) {
    case WORSEGPU_ALLOCATE:
        fprintf(out,
                ",\"allocation_id\":%" PRIu64 ",\"requested_bytes\":%" PRIu64
                ",\"reserved_bytes\":%" PRIu64 ",\"device\":\"%s\"",
                event->allocation_id, event->requested_bytes, event->reserved_bytes, device);
        if (reason)
            fprintf(out, ",\"reason\":\"%s\"", reason);
        break;
    case WORSEGPU_ALLOCATE_FAILED:
        fprintf(out, ",\"reason\":\"%s\",\"requested_bytes\":%" PRIu64 ",\"device\":\"%s\"", reason,
                event->requested_bytes, device);
        break;
    case WORSEGPU_FREE:
        fprintf(out, ",\"allocation_id\":%" PRIu64 ",\"released\":%s,\"device\":\"%s\"",
                event->allocation_id, event->released ? "true" : "false", device);
        if (reason)
            fprintf(out, ",\"reason\":\"%s\"", reason);
        break;
    case WORSEGPU_FAULT:
    case WORSEGPU_RECORD_STREAM:
    case WORSEGPU_EVENT_DONE:
    case WORSEGPU_EMPTY_CACHE:
    case WORSEGPU_OPERATIONS:
        fail_msg("the reference has no such event");
        break;
    }
    fprintf(out, ",\"sequence\":%" PRIu64 "}", event->sequence);
}

/* Read in small pages, as a client would. */
static void replay_trace(worsegpu_allocator *allocator, const char *line)
{
    enum {
        PAGE = 7
    };
    struct worsegpu_event events[PAGE];
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    fprintf(out, "{\"op\":\"trace\",\"expect\":[");
    const char *separator = "";
    uint64_t after = 0;
    bool more = true;
    while (more) {
        size_t count;
        worsegpu_trace(allocator, after, events, PAGE, &count, &more, NULL);
        for (size_t i = 0; i < count; i++) {
            fputs(separator, out);
            print_event(out, &events[i]);
            separator = ",";
            after = events[i].sequence;
        }
    }
    fprintf(out, "]}");
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, line);
    free(text);
}

static void replay_line(worsegpu_allocator *allocator, const char *line,
                        struct worsegpu_handle *handles)
{
    cJSON *json = cJSON_Parse(line);
    assert_non_null(json);
    const char *operation = cJSON_GetObjectItem(json, "op")->valuestring;
    if (strcmp(operation, "allocate") == 0)
        replay_allocate(allocator, json, handles);
    else if (strcmp(operation, "free") == 0)
        replay_free(allocator, json, handles);
    else if (strcmp(operation, "snapshot") == 0)
        replay_snapshot(allocator, line);
    else if (strcmp(operation, "trace") == 0)
        replay_trace(allocator, line);
    else
        fail_msg("unknown operation %s", operation);
    cJSON_Delete(json);
}

static uint64_t replay(const char *name, enum worsegpu_scan scan)
{
    char *text = engine_golden_text(name);
    struct worsegpu_handle *handles = calloc(MAX_IDS, sizeof(*handles));
    assert_non_null(handles);
    char *rest = NULL;
    char *line = strtok_r(text, "\n", &rest);
    char seed[SEED_SIZE];
    struct worsegpu_config config;
    config_from_line(line, scan, seed, &config);
    worsegpu_allocator *allocator = engine_create(&config);
    size_t lines = 0;
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
        replay_line(allocator, line, handles);
        lines++;
    }
    assert_true(lines > 100);
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    worsegpu_destroy(allocator);
    free(handles);
    free(text);
    return snapshot.blocks_scanned;
}

static void test_every_golden_script_is_decided_as_the_reference_did(void **state)
{
    (void)state;
    const char *folder = getenv("WORSEGPU_GOLDEN");
    char pattern[512];
    snprintf(pattern, sizeof(pattern), "%s/ops-*.ndjson", folder ? folder : "tests/golden");
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 13);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        uint64_t accounted = replay(name, WORSEGPU_SCAN_ACCOUNTED);
        uint64_t walked = replay(name, WORSEGPU_SCAN_WALKED);
        assert_int_equal(accounted, walked);
    }
    globfree(&found);
}

/* The reference takes any kind of Python value; what C can say of these cases is checked. */
static double number_of(const cJSON *value)
{
    if (cJSON_IsString(value))
        return strtod(value->valuestring, NULL); /* "nan" and "inf" */
    return value->valuedouble;
}

static bool set_member(struct worsegpu_config *config, const cJSON *value)
{
    const char *name = value->string;
    bool plain = cJSON_IsNumber(value) && value->valuedouble >= 0;
    if (strcmp(name, "gpu_probability") == 0)
        config->gpu_probability = number_of(value);
    else if (strcmp(name, "forget_probability") == 0)
        config->forget_probability = number_of(value);
    else if (strcmp(name, "gpu_capacity") == 0 && plain)
        config->gpu_capacity = (uint64_t)value->valuedouble;
    else if (strcmp(name, "max_request_bytes") == 0 && plain)
        config->max_request_bytes = (uint64_t)value->valuedouble;
    else if (strcmp(name, "trace_limit") == 0 && plain)
        config->trace_limit = (uint64_t)value->valuedouble;
    else
        return false;
    return true;
}

static bool is_range_case(const cJSON *entry)
{
    const cJSON *error = cJSON_GetObjectItem(entry, "error");
    return cJSON_IsNull(error) || strcmp(error->valuestring, "ValueError") == 0;
}

static void test_ranges_are_the_references(void **state)
{
    (void)state;
    cJSON *cases = engine_golden_json("api-errors.json");
    size_t constructed = 0;
    size_t allocated = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, cases)
    {
        if (!is_range_case(entry))
            continue;
        bool good = cJSON_IsNull(cJSON_GetObjectItem(entry, "error"));
        const char *call = cJSON_GetObjectItem(entry, "call")->valuestring;
        const cJSON *argument = cJSON_GetObjectItem(entry, "arg");
        struct worsegpu_config config = engine_config("1");
        if (strcmp(call, "construct") == 0 && set_member(&config, argument->child)) {
            const char *field = NULL;
            int expected = good ? WORSEGPU_OK : WORSEGPU_INVALID_ARGUMENT;
            assert_int_equal(worsegpu_config_check(&config, &field, NULL), expected);
            if (!good)
                assert_string_equal(field, argument->child->string);
            constructed++;
        } else if (strcmp(call, "allocate(max_request_bytes=1000)") == 0 &&
                   argument->valuedouble >= 0) {
            config.max_request_bytes = 1000;
            worsegpu_allocator *allocator = engine_create(&config);
            struct worsegpu_request request = engine_request((uint64_t)argument->valuedouble);
            struct worsegpu_allocation allocation;
            assert_int_equal(worsegpu_allocate(allocator, &request, &allocation),
                             good ? WORSEGPU_OK : WORSEGPU_INVALID_ARGUMENT);
            worsegpu_destroy(allocator);
            allocated++;
        }
    }
    cJSON_Delete(cases);
    assert_true(constructed >= 15);
    assert_int_equal(allocated, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden_script_is_decided_as_the_reference_did),
        cmocka_unit_test(test_ranges_are_the_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
