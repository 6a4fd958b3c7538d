/* Fuzz target: any operations on any policy with any knobs, under the eyes of the naive witness of
 * tests/support/policy_world.h: after each step no two live ranges overlap, all lie where they may
 * and are aligned as asked, the accounts are the witness's own sums, the audit finds nothing.
 *
 * The input: the policy, the capacity, a byte for each of its knobs (0: its default), then steps:
 * each a byte of what, and what it needs. */
#include <stdio.h>

#include "lib/policy.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/policy_world.h"

enum {
    MOST_STEPS = 600, /* each looks at all that is live */
    STREAMS = 4,
    KNOBS_TEXT_SIZE = 1024
};

enum step {
    ALLOCATE, /* a size, how */
    ALLOCATE_AGAIN,
    FREE, /* which one, on which stream */
    FORGET,
    RECORD_STREAM,
    EVENT_DONE,
    EMPTY_CACHE,
    RESIZE,
    LACK_MEMORY /* the next request for memory but so many fails */
};

/* 1 to 2^62 or so: a power of two, and something about it. */
static uint64_t size_of(uint8_t byte, uint8_t more)
{
    uint64_t power = UINT64_C(1) << byte % 48;
    switch (byte / 48) {
    case 0:
        return power;
    case 1:
        return power + more;
    case 2:
        return power > more ? power - more : 1;
    default:
        return power / 256 * more + 1;
    }
}

/* ------------------------------------------------------------------------------ set-up */

/* The word of that number, round and round. */
static void append_choice(FILE *text, const char *choices, unsigned number)
{
    unsigned words = 1;
    for (const char *at = choices; *at; at++)
        words += *at == ' ';
    const char *word = choices;
    for (unsigned skip = number % words; skip > 0; skip--)
        word = strchr(word, ' ') + 1;
    fprintf(text, "%.*s", (int)strcspn(word, " "), word);
}

static void append_knob(FILE *text, const struct policy_knob *knob, uint8_t byte, uint8_t more)
{
    static const char *const texts[] = {"expandable_segments:True",
                                        "max_split_size_mb:21",
                                        "roundup_power2_divisions:4",
                                        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
                                        "garbage_collection_threshold:0.3",
                                        "max_split_size_mb:32,garbage_collection_threshold:0.6"};
    fprintf(text, "%s=", knob->name);
    switch (knob->type) {
    case KNOB_BYTES:
    case KNOB_COUNT: {
        /* Few of what is counted: they may be the entries of a table. */
        uint64_t value = knob->minimum + (knob->type == KNOB_BYTES ? size_of(byte, more) - 1
                                                                   : (uint64_t)byte * more / 8);
        fprintf(text, "%llu ", (unsigned long long)(value > knob->maximum ? knob->maximum : value));
        break;
    }
    case KNOB_NUMBER:
        fprintf(text, "%.3f ", byte / 255.0);
        break;
    case KNOB_YESNO:
        fprintf(text, "%s ", byte % 2 ? "true" : "false");
        break;
    case KNOB_CHOICE:
        append_choice(text, knob->choices, byte);
        fprintf(text, " ");
        break;
    case KNOB_TEXT:
        fprintf(text, "%s ", texts[byte % (sizeof(texts) / sizeof(texts[0]))]);
        break;
    }
}

/* Writes knobs; false when the policy does not want them so, or so little capacity. */
static bool choose_knobs(struct fuzz_input *input, const struct policy_operations *operations,
                         uint64_t capacity_bytes, char knobs[KNOBS_TEXT_SIZE])
{
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    struct worsegpu_config config;
    FILE *text = fmemopen(knobs, KNOBS_TEXT_SIZE, "w");
    insist(text != NULL);
    for (size_t i = 0; i < operations->knob_count; i++) {
        uint8_t byte = fuzz_byte(input);
        if (byte)
            append_knob(text, &operations->knobs[i], byte, fuzz_byte(input));
    }
    fclose(text);
    worsegpu_config_default(&config);
    config.policy = operations->name;
    config.gpu_capacity = capacity_bytes;
    if (knobs_read(operations, &config, knobs, values, problem))
        return true;
    insist(problem[0] != '\0' && !strchr(problem, '\n'));
    return false;
}

static bool is(const char *name, const char *other)
{
    return strcmp(name, other) == 0;
}

static uint64_t knob_count_of(const struct policy_world *world, const char *name)
{
    for (size_t i = 0; i < world->operations->knob_count; i++)
        if (is(world->operations->knobs[i].name, name))
            return world->knobs[i].none ? 0 : world->knobs[i].count;
    return 0;
}

/* What holds for this policy besides. */
static struct policy_rules rules_of(const struct policy_world *world)
{
    const char *name = world->operations->name;
    struct policy_rules rules = {0};
    if (is(name, "reference"))
        rules.no_places = true;
    if (is(name, "torch") || is(name, "torch_expandable"))
        rules = (struct policy_rules){.alignment = 512, .beyond_capacity = true};
    if (is(name, "driver"))
        rules.beyond_capacity = true;
    if (is(name, "tlsf"))
        rules = (struct policy_rules){.alignment = 8, .header_bytes = 8};
    if (is(name, "list_fit"))
        rules.header_bytes = knob_count_of(world, "header");
    if (is(name, "vma"))
        rules.alignment = knob_count_of(world, "alignment");
    if (is(name, "offset"))
        rules.alignment = knob_count_of(world, "unit_bytes");
    return rules;
}

/* ------------------------------------------------------------------------------ steps */

static void allocate(struct policy_world *world, const struct policy_request *request,
                     bool admitted)
{
    if (policy_world_ask(world, request, admitted) == WORSEGPU_NO_MEMORY)
        insist(policy_world_ask(world, request, admitted) != WORSEGPU_NO_MEMORY);
}

/* Whether it looks at the alignment of a request at all. */
static bool aligns(const struct policy_world *world)
{
    const char *name = world->operations->name;
    return is(name, "buddy") || is(name, "tlsf") || is(name, "vma");
}

static void read_request(const struct policy_world *world, struct fuzz_input *input,
                         struct policy_request *request, bool *admitted)
{
    uint8_t byte = fuzz_byte(input);
    uint8_t how = fuzz_byte(input);
    bool aligned = how >= 192 && aligns(world);
    *request = (struct policy_request){.requested_bytes = size_of(byte, how),
                                       .stream = how % STREAMS,
                                       .alignment = aligned ? UINT64_C(1) << how % 20 : 0,
                                       .upper = how / 16 % 4 == 3};
    if (request->requested_bytes > WORSEGPU_MAX_BYTES)
        request->requested_bytes = WORSEGPU_MAX_BYTES;
    *admitted = how / 4 % 8 != 5;
}

static void record_stream(struct policy_world *world, size_t place, uint64_t stream)
{
    const struct policy_placement *placement = &world->live[place].placement;
    int (*record)(struct policy *, const struct policy_placement *, uint64_t) =
        world->operations->record_stream;
    if (record && record(world->policy, placement, stream) != WORSEGPU_OK)
        insist(record(world->policy, placement, stream) == WORSEGPU_OK);
}

static void take_step(struct policy_world *world, struct fuzz_input *input,
                      struct policy_request *request, bool *admitted)
{
    uint8_t what = fuzz_byte(input);
    size_t place = world->live_count ? fuzz_byte(input) % world->live_count : 0;
    uint64_t stream = what / 16 % STREAMS;
    switch ((enum step)(what % 16)) {
    case ALLOCATE:
        read_request(world, input, request, admitted);
        allocate(world, request, *admitted);
        break;
    case FREE:
        if (world->live_count)
            policy_world_free_on(world, place, stream, false);
        break;
    case FORGET:
        if (world->live_count)
            policy_world_free_on(world, place, stream, true);
        break;
    case RECORD_STREAM:
        if (world->live_count)
            record_stream(world, place, stream);
        break;
    case EVENT_DONE:
        if (world->operations->event_done)
            world->operations->event_done(world->policy, stream, fuzz_byte(input) + UINT64_C(1),
                                          what >= 128);
        break;
    case EMPTY_CACHE:
        if (world->operations->empty_cache)
            world->operations->empty_cache(world->policy);
        break;
    case RESIZE:
        policy_world_resize(world, size_of(fuzz_byte(input), what));
        break;
    case LACK_MEMORY:
        chaos_arm(&world->chaos, fuzz_byte(input) % 8 + UINT64_C(1), false);
        break;
    case ALLOCATE_AGAIN:
    default:
        allocate(world, request, *admitted);
        break;
    }
    policy_world_check(world);
}

static size_t policies(void)
{
    size_t count = 0;
    while (policy_at(count))
        count++;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy_world world;
    struct fuzz_input input = {data, size};
    char knobs[KNOBS_TEXT_SIZE] = "";
    const struct policy_operations *operations = policy_at(fuzz_byte(&input) % policies());
    uint8_t capacity = fuzz_byte(&input);
    uint64_t capacity_bytes = size_of(capacity, fuzz_byte(&input));
    if (!choose_knobs(&input, operations, capacity_bytes, knobs))
        return 0;
    policy_world_open(&world, operations->name, knobs, capacity_bytes, NULL);
    world.rules = rules_of(&world);
    world.look_closely = false;
    struct policy_request request = {.requested_bytes = 512};
    bool admitted = true;
    for (int step = 0; step < MOST_STEPS && input.left > 0; step++)
        take_step(&world, &input, &request, &admitted);
    chaos_arm(&world.chaos, 0, false);
    while (world.live_count > 0)
        policy_world_free(&world, world.live_count - 1);
    policy_world_check(&world);
    policy_world_close(&world);
    return 0;
}
