/* The shape kv_cache: sequences whose caches are copied to larger ones as they grow. */
#include "lab/shapes/shapes_all.h"

struct serving {
    uint64_t at_once;
    uint64_t tokens;
    uint64_t chunk;
    uint64_t token_bytes;
    uint64_t left;    /* sequences that have not begun */
    uint64_t *caches; /* of the sequences that are served, 0: none */
    uint64_t *chunks; /* how many chunks each cache has */
    uint64_t *wanted; /* and will have at its end */
};

static void begin(struct scenario *scenario, struct serving *serving, uint64_t at)
{
    uint64_t tokens = scenario_draw(scenario, 1, serving->tokens);
    serving->left--;
    serving->chunks[at] = 1;
    serving->wanted[at] = (tokens + serving->chunk - 1) / serving->chunk;
    serving->caches[at] = scenario_allocate(scenario, serving->chunk * serving->token_bytes);
}

/* One chunk of tokens more. The old cache is there until its content has been copied. */
static void grow(struct scenario *scenario, struct serving *serving, uint64_t at)
{
    uint64_t old = serving->caches[at];
    serving->caches[at] = 0;
    if (serving->chunks[at] < serving->wanted[at]) {
        serving->chunks[at]++;
        serving->caches[at] = scenario_allocate(scenario, serving->chunks[at] * serving->chunk *
                                                              serving->token_bytes);
    }
    scenario_free(scenario, old);
}

static void serve(struct scenario *scenario, struct serving *serving)
{
    for (uint64_t busy = 1; busy > 0 && scenario_goes_on(scenario);) {
        busy = 0;
        for (uint64_t at = 0; at < serving->at_once && scenario_goes_on(scenario); at++) {
            if (serving->caches[at] != 0)
                grow(scenario, serving, at);
            else if (serving->left > 0)
                begin(scenario, serving, at);
            busy += serving->caches[at] != 0 || serving->left > 0;
        }
    }
}

void shape_kv_cache(struct scenario *scenario, const uint64_t *values)
{
    struct serving serving = {.left = values[0],
                              .at_once = values[1],
                              .tokens = values[2],
                              .chunk = values[3],
                              .token_bytes = values[4]};
    serving.caches = scenario_numbers(scenario, serving.at_once);
    serving.chunks = scenario_numbers(scenario, serving.at_once);
    serving.wanted = scenario_numbers(scenario, serving.at_once);
    serve(scenario, &serving);
    scenario_numbers_release(scenario, serving.caches, serving.at_once);
    scenario_numbers_release(scenario, serving.chunks, serving.at_once);
    scenario_numbers_release(scenario, serving.wanted, serving.at_once);
}
