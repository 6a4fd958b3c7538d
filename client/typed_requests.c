/* One function for each method: writes its parameters, sends it, and has the answer read. */
#include <math.h>

#include "client/parameters.h"
#include "client/typed_results.h"

static int check_config(const struct worsegpu_client_config *wanted,
                        struct worsegpu_client_error *error)
{
    if ((wanted->gpu_probability_given && !isfinite(wanted->gpu_probability)) ||
        (wanted->forget_probability_given && !isfinite(wanted->forget_probability)))
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "a probability must be a number from 0 to 1");
    int status = parameters_check_text(wanted->policy, "policy", error);
    if (status == WORSEGPU_CLIENT_OK)
        status = parameters_check_text(wanted->knobs, "knobs", error);
    if (status == WORSEGPU_CLIENT_OK)
        status = parameters_check_text(wanted->seed, "seed", error);
    return status == WORSEGPU_CLIENT_OK ? parameters_check_text(wanted->scan, "scan", error)
                                        : status;
}

int worsegpu_client_open(worsegpu_client *client, const char *name,
                         const struct worsegpu_client_config *wanted,
                         struct worsegpu_client_config *actual, struct worsegpu_client_error *error)
{
    const struct worsegpu_client_config defaults = {0};
    const struct worsegpu_client_config *config = wanted ? wanted : &defaults;
    int status = parameters_check_text(name, "the allocator's name", error);
    if (status == WORSEGPU_CLIENT_OK)
        status = check_config(config, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_open);
    parameters_put_text(client, PARAMETER_name, name);
    parameters_put_text(client, PARAMETER_policy, config->policy);
    parameters_put_text(client, PARAMETER_knobs, config->knobs);
    parameters_put_u64(client, PARAMETER_gpu_capacity, config->gpu_capacity_given,
                       config->gpu_capacity);
    parameters_put_double(client, PARAMETER_gpu_probability, config->gpu_probability_given,
                          config->gpu_probability);
    parameters_put_double(client, PARAMETER_forget_probability, config->forget_probability_given,
                          config->forget_probability);
    parameters_put_bool(client, PARAMETER_fallback_on_oom, config->fallback_on_oom_given,
                        config->fallback_on_oom);
    parameters_put_u64(client, PARAMETER_max_request_bytes, config->max_request_bytes_given,
                       config->max_request_bytes);
    parameters_put_u64(client, PARAMETER_trace_limit, config->trace_limit_given,
                       config->trace_limit);
    parameters_put_text(client, PARAMETER_seed, config->seed);
    parameters_put_text(client, PARAMETER_scan, config->scan);
    status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK && actual ? typed_read_config(client, actual, error)
                                                  : status;
}

int worsegpu_client_close(worsegpu_client *client, const char *allocator,
                          struct worsegpu_client_error *error)
{
    return parameters_call_simple(client, METHOD_close, allocator, error);
}

int worsegpu_client_allocate(worsegpu_client *client, const char *allocator,
                             const struct worsegpu_client_request *request,
                             struct worsegpu_client_allocation *allocation,
                             struct worsegpu_client_error *error)
{
    int status = parameters_check_texts(allocator, request->tag, PARAMETER_tag, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_allocate);
    parameters_put_u64(client, PARAMETER_requested_bytes, true, request->requested_bytes);
    parameters_put_text(client, PARAMETER_tag, request->tag);
    parameters_put_u64(client, PARAMETER_stream, request->stream_given, request->stream);
    parameters_put_u64(client, PARAMETER_alignment, request->alignment > 0, request->alignment);
    parameters_put_bool(client, PARAMETER_upper, request->upper, true);
    parameters_put_bool(client, PARAMETER_detached, request->detached, true);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? worsegpu_client_read_allocation(client, allocation, error)
                                        : status;
}

static int free_by(worsegpu_client *client, enum parameter parameter, const char *value,
                   const char *allocator, const uint64_t *stream,
                   struct worsegpu_client_release *release, struct worsegpu_client_error *error)
{
    int status = parameters_check_texts(allocator, value, parameter, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_free);
    parameters_put_text(client, parameter, value);
    parameters_put_u64(client, PARAMETER_stream, stream != NULL, stream ? *stream : 0);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    status = client_draft_call(client, draft, error);
    struct worsegpu_client_release ignored;
    return status == WORSEGPU_CLIENT_OK
               ? worsegpu_client_read_release(client, release ? release : &ignored, error)
               : status;
}

int worsegpu_client_free_handle(worsegpu_client *client, const char *allocator, const char *handle,
                                struct worsegpu_client_release *release,
                                struct worsegpu_client_error *error)
{
    return free_by(client, PARAMETER_handle, handle, allocator, NULL, release, error);
}

int worsegpu_client_free_tag(worsegpu_client *client, const char *allocator, const char *tag,
                             struct worsegpu_client_release *release,
                             struct worsegpu_client_error *error)
{
    return free_by(client, PARAMETER_tag, tag, allocator, NULL, release, error);
}

int worsegpu_client_free_on_stream(worsegpu_client *client, const char *allocator,
                                   const char *handle, uint64_t stream,
                                   struct worsegpu_client_release *release,
                                   struct worsegpu_client_error *error)
{
    return free_by(client, PARAMETER_handle, handle, allocator, &stream, release, error);
}

int worsegpu_client_snapshot(worsegpu_client *client, const char *allocator,
                             struct worsegpu_client_snapshot *snapshot,
                             struct worsegpu_client_error *error)
{
    int status = parameters_call_simple(client, METHOD_snapshot, allocator, error);
    return status == WORSEGPU_CLIENT_OK ? worsegpu_client_read_snapshot(client, snapshot, error)
                                        : status;
}

/* trace and list: what comes after a number, at most so many. */
static int call_page(worsegpu_client *client, enum method method, const char *allocator,
                     uint64_t after, uint64_t limit, bool orphans,
                     struct worsegpu_client_error *error)
{
    int status = parameters_check_text(allocator, "the allocator's name", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, method);
    parameters_put_u64(client, PARAMETER_after, true, after);
    parameters_put_u64(client, PARAMETER_limit, true, limit);
    parameters_put_bool(client, PARAMETER_orphans, orphans, true);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    return client_draft_call(client, draft, error);
}

int worsegpu_client_trace(worsegpu_client *client, const char *allocator, uint64_t after,
                          uint64_t limit, struct worsegpu_client_trace *page,
                          struct worsegpu_client_error *error)
{
    int status = call_page(client, METHOD_trace, allocator, after, limit, false, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_trace(client, after, page, error) : status;
}

int worsegpu_client_list(worsegpu_client *client, const char *allocator, uint64_t after,
                         uint64_t limit, struct worsegpu_client_list *page,
                         struct worsegpu_client_error *error)
{
    int status = call_page(client, METHOD_list, allocator, after, limit, false, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_list(client, after, page, error) : status;
}

int worsegpu_client_list_orphans(worsegpu_client *client, const char *allocator, uint64_t after,
                                 uint64_t limit, struct worsegpu_client_list *page,
                                 struct worsegpu_client_error *error)
{
    int status = call_page(client, METHOD_list, allocator, after, limit, true, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_list(client, after, page, error) : status;
}

int worsegpu_client_resize(worsegpu_client *client, const char *allocator, uint64_t gpu_capacity,
                           struct worsegpu_client_config *actual,
                           struct worsegpu_client_error *error)
{
    int status = parameters_check_text(allocator, "the allocator's name", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_resize);
    parameters_put_u64(client, PARAMETER_gpu_capacity, true, gpu_capacity);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK && actual ? typed_read_config(client, actual, error)
                                                  : status;
}

int worsegpu_client_trace_clear(worsegpu_client *client, const char *allocator, uint64_t *cleared,
                                struct worsegpu_client_error *error)
{
    int status = parameters_call_simple(client, METHOD_trace_clear, allocator, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_count(client, "cleared", cleared, error)
                                        : status;
}

int worsegpu_client_validate(worsegpu_client *client, const char *allocator, uint64_t *checks,
                             struct worsegpu_client_error *error)
{
    int status = parameters_call_simple(client, METHOD_validate, allocator, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_count(client, "checks", checks, error)
                                        : status;
}

int worsegpu_client_info(worsegpu_client *client, struct worsegpu_client_info *info,
                         struct worsegpu_client_error *error)
{
    struct client_draft draft = client_draft_begin(client, METHOD_info);
    int status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_info(client, info, error) : status;
}
