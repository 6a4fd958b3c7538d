/* Writing the parameters of a request that has been begun (client_draft_begin), and checking texts
 * that come from the caller. No state. Inside this folder only. */
#ifndef PARAMETERS_H
#define PARAMETERS_H

#include "client/client_state.h"

/* One parameter; nothing when it is not given, or NULL. */
void parameters_put_text(worsegpu_client *client, enum parameter parameter, const char *value);
void parameters_put_u64(worsegpu_client *client, enum parameter parameter, bool given,
                        uint64_t value);
void parameters_put_bool(worsegpu_client *client, enum parameter parameter, bool given, bool value);
void parameters_put_double(worsegpu_client *client, enum parameter parameter, bool given,
                           double value);

/* What is no UTF-8 would break the line for the daemon. OK (also for NULL) or INVALID_ARGUMENT. */
int parameters_check_text(const char *text, const char *name, struct worsegpu_client_error *error);
int parameters_check_texts(const char *allocator, const char *other, enum parameter other_parameter,
                           struct worsegpu_client_error *error);

/* Calls a method that takes nothing but the allocator. */
int parameters_call_simple(worsegpu_client *client, enum method method, const char *allocator,
                           struct worsegpu_client_error *error);

#endif
