/* The methods allocate and free: the ones that move memory. */
#ifndef HANDLERS_MEMORY_H
#define HANDLERS_MEMORY_H

#include "daemon/handlers.h"

/* Writes what allocate tells of an allocation, as members of the object that is open. */
void write_placement(const struct worsegpu_allocation *allocation, struct json_writer *out);

#endif
