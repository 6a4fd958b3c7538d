/* Limits of bytes and allocations; see quota.h. */
#include "daemon/quota.h"

bool quota_applies(const struct quota *quota)
{
    const struct options *options = quota->options;
    return quota->host_capacity || options->max_client_gpu_bytes || options->max_client_cpu_bytes ||
           options->max_client_allocations || options->max_user_gpu_bytes ||
           options->max_user_cpu_bytes || options->max_user_allocations;
}

/* Whether `more` fits below a limit of which `used` is taken. Limits can be lowered below what is
 * used. */
static bool fits(struct quota *quota, const char *which, uint64_t limit, uint64_t used,
                 uint64_t more)
{
    if (limit == 0 || (used <= limit && more <= limit - used))
        return true;
    quota->which = which;
    quota->limit = limit;
    quota->used = used;
    return false;
}

bool quota_admit(void *context, enum worsegpu_device device, uint64_t reserved_bytes)
{
    struct quota *quota = context;
    const struct options *options = quota->options;
    const struct account *client = quota->client;
    const struct account *user = quota->user;
    if (!fits(quota, "max_client_allocations", options->max_client_allocations, client->allocations,
              1) ||
        !fits(quota, "max_user_allocations", options->max_user_allocations, user->allocations, 1))
        return false;
    if (device == WORSEGPU_GPU)
        return fits(quota, "max_client_gpu_bytes", options->max_client_gpu_bytes, client->gpu_bytes,
                    reserved_bytes) &&
               fits(quota, "max_user_gpu_bytes", options->max_user_gpu_bytes, user->gpu_bytes,
                    reserved_bytes);
    return fits(quota, "host_capacity", quota->host_capacity, quota->host_used, reserved_bytes) &&
           fits(quota, "max_client_cpu_bytes", options->max_client_cpu_bytes, client->cpu_bytes,
                reserved_bytes) &&
           fits(quota, "max_user_cpu_bytes", options->max_user_cpu_bytes, user->cpu_bytes,
                reserved_bytes);
}
