/* Which model a record of golden allocator data names: its header, as a policy with knobs. */
#ifndef LAB_GOLDEN_MODEL_H
#define LAB_GOLDEN_MODEL_H

#include "lab/logs/log.h"
#include "lab/verify.h"
#include "proto/json_document.h"

struct golden_model {
    char text[VERIFY_MODEL_SIZE]; /* for struct replay_choice */
    uint64_t capacity_bytes;
};

/* LOG_FINE, or LOG_BAD with a sentence. `header` is the first line. */
int golden_model_read(const struct json_document *header, struct golden_model *model,
                      struct log_problem *problem);

#endif
