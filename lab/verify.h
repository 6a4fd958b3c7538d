/* Checking a record against the model it names: what both kinds of records come to. */
#ifndef LAB_VERIFY_H
#define LAB_VERIFY_H

#include <stdint.h>

#include "lab/logs/log.h"

enum {
    VERIFY_MAX_COUNTS = 8,
    VERIFY_MODEL_SIZE = 400,
    VERIFY_MISMATCH_SIZE = 4096
};

/* One kind of thing that was compared. */
struct verify_count {
    const char *name; /* in the plural: "addresses", "segments", "statistics" */
    uint64_t equal;
    uint64_t all;
};

struct verify_result {
    char model[VERIFY_MODEL_SIZE]; /* the policy with its knobs, as for `compare --policy` */
    struct verify_count counts[VERIFY_MAX_COUNTS];
    size_t count;
    uint64_t mismatches;
    char mismatch[VERIFY_MISMATCH_SIZE]; /* the first one as a few lines for a person: event,
                                            expected, got, the free blocks at that moment; "" with
                                            none */
};

/* The count of this name, made with 0 of 0 where it is not there yet. */
struct verify_count *verify_count(struct verify_result *result, const char *name);

/* A record in the form of the golden allocator data: NDJSON, a header with the allocator and its
 * configuration, then operations with their answers. log_status; a mismatch is no error but
 * counted. */
int verify_golden(struct log_source *source, const struct worsegpu_memory *memory,
                  struct verify_result *result, struct log_problem *problem);

/* A torch snapshot; in verify_torch.c. */
int verify_torch(struct log_source *source, const struct worsegpu_memory *memory,
                 struct verify_result *result, struct log_problem *problem);

#endif
