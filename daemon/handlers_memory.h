/* The methods allocate and free: the ones that move memory. */
#ifndef HANDLERS_MEMORY_H
#define HANDLERS_MEMORY_H

#include "daemon/handlers.h"

/* The live allocation that a request names, by its handle or its tag, and that its peer may use.
 * NULL when there is one, else the answer. */
const struct answered *find_named_allocation(struct call *call, struct worsegpu_handle *handle,
                                             struct worsegpu_allocation *allocation);

/* Writes what allocate tells of an allocation, as members of the object that is open. */
void write_placement(const struct worsegpu_allocation *allocation, struct json_writer *out);

#endif
