/* The words of the engine's enumerations, and its version. */
#include <string.h>

#include "base/version.h"
#include "lib/worsegpu.h"

const char *worsegpu_device_name(enum worsegpu_device device)
{
    switch (device) {
    case WORSEGPU_GPU:
        return "gpu";
    case WORSEGPU_CPU:
        return "cpu";
    }
    return NULL;
}

const char *worsegpu_operation_name(enum worsegpu_operation operation)
{
    switch (operation) {
    case WORSEGPU_ALLOCATE:
        return "allocate";
    case WORSEGPU_ALLOCATE_FAILED:
        return "allocate_failed";
    case WORSEGPU_FREE:
        return "free";
    case WORSEGPU_FAULT:
        return "fault";
    case WORSEGPU_RECORD_STREAM:
        return "record_stream";
    case WORSEGPU_EVENT_DONE:
        return "event_done";
    case WORSEGPU_EMPTY_CACHE:
        return "empty_cache";
    case WORSEGPU_OPERATIONS:
        break;
    }
    return NULL;
}

const char *worsegpu_fault_action_name(enum worsegpu_fault_action action)
{
    switch (action) {
    case WORSEGPU_FAULT_OUT_OF_MEMORY:
        return "out_of_memory";
    case WORSEGPU_FAULT_QUOTA_EXCEEDED:
        return "quota_exceeded";
    case WORSEGPU_FAULT_HOST_FALLBACK:
        return "host_fallback";
    case WORSEGPU_FAULT_FORGET:
        return "forget";
    case WORSEGPU_FAULT_DELAY:
        return "delay";
    case WORSEGPU_FAULT_DISCONNECT_BEFORE:
        return "disconnect_before";
    case WORSEGPU_FAULT_DISCONNECT_AFTER:
        return "disconnect_after";
    case WORSEGPU_FAULT_ACTIONS:
        break;
    }
    return NULL;
}

const char *worsegpu_reason_name(enum worsegpu_reason reason)
{
    switch (reason) {
    case WORSEGPU_NO_REASON:
        return NULL;
    case WORSEGPU_PROBABILITY:
        return "probability";
    case WORSEGPU_GPU_OOM:
        return "gpu_oom";
    case WORSEGPU_FORGOTTEN:
        return "forgotten";
    }
    return NULL;
}

static const char *const scans[] = {
    [WORSEGPU_SCAN_ACCOUNTED] = "accounted",
    [WORSEGPU_SCAN_WALKED] = "walked",
};
enum {
    SCANS = sizeof(scans) / sizeof(scans[0])
};

const char *worsegpu_scan_name(enum worsegpu_scan scan)
{
    return (unsigned int)scan < SCANS ? scans[scan] : NULL;
}

bool worsegpu_scan_from_name(const char *name, enum worsegpu_scan *scan)
{
    for (unsigned int value = 0; value < SCANS; value++) {
        if (strcmp(name, scans[value]) == 0) {
            *scan = (enum worsegpu_scan)value;
            return true;
        }
    }
    return false;
}

const char *worsegpu_version(void)
{
    return WORSEGPU_VERSION;
}
