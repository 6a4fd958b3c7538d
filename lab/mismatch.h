/* What a person is told when a record and its model differ. */
#ifndef LAB_MISMATCH_H
#define LAB_MISMATCH_H

#include "lab/verify.h"
#include "lib/policy.h"

/* Counts a mismatch, and explains the first one of the record: `place` (such as "line 7"), the
 * sentence, and the free blocks that the policy has at this moment, the first few of them. */
__attribute__((format(printf, 4, 5))) void mismatch_note(struct verify_result *result,
                                                         const struct policy *policy,
                                                         const char *place, const char *format,
                                                         ...);

#endif
