/* Reading the last result as what each method promises. All return OK, BAD_REPLY, or NO_MEMORY
 * where they keep a page. Inside this folder only. */
#ifndef TYPED_RESULTS_H
#define TYPED_RESULTS_H

#include "client/reader.h"

int typed_read_config(worsegpu_client *client, struct worsegpu_client_config *config,
                      struct worsegpu_client_error *error);
int typed_read_trace(worsegpu_client *client, uint64_t after, struct worsegpu_client_trace *page,
                     struct worsegpu_client_error *error);
int typed_read_list(worsegpu_client *client, uint64_t after, struct worsegpu_client_list *page,
                    struct worsegpu_client_error *error);
/* One number; `count` may be NULL. */
int typed_read_count(worsegpu_client *client, const char *name, uint64_t *count,
                     struct worsegpu_client_error *error);
int typed_read_info(worsegpu_client *client, struct worsegpu_client_info *info,
                    struct worsegpu_client_error *error);

/* One event of the trace, at reader->object. */
void typed_read_event(struct reader *reader, struct worsegpu_client_event *event);

#endif
