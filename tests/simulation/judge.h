/* What the judges share: looking into an answer, and what an answer to each kind of request must
 * be. */
#ifndef JUDGE_H
#define JUDGE_H

#include "tests/simulation/world.h"

/* An answer that is being judged. */
struct verdict {
    struct world *world;
    struct world_client *client;
    const struct asked *asked;
    const char *line;
    const char *kind; /* of its error; NULL: a result */
    char kind_text[ANSWER_KIND_SIZE];
    struct model_allocator *allocator; /* which it is about; NULL: this client has none of the name
                                        */
};

/* The answer is not what it must be. */
__attribute__((format(printf, 2, 3), noreturn)) void judge_fail(const struct verdict *verdict,
                                                                const char *format, ...);

/* The number after the first `"name":` from `from` on. */
uint64_t judge_u64(const struct verdict *verdict, const char *from, const char *name);
bool judge_is(const struct verdict *verdict, const char *name, const char *json);
bool judge_is_kind(const struct verdict *verdict, const char *kind);

/* The answer must be a result, or an error of this kind. */
void judge_must(const struct verdict *verdict, const char *kind);

/* Memory, in judge_memory.c. */
void judge_allocate(const struct verdict *verdict);
void judge_free(const struct verdict *verdict);

/* A rule may have answered instead. */
bool judge_rule_answered(const struct verdict *verdict);

/* A request whose outcome nobody told: the allocator itself is asked. `at_all`: it must have been
 * carried out; else a rule may have ended the connection before. */
void judge_untold(struct world *world, struct world_client *client, const struct asked *asked);

#endif
