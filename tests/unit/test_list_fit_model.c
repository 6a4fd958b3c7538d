/* list_fit against a naive model of all its settings, under the general witness, and in chaos. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/policies/list_fit.h"
#include "tests/support/policy_world.h"

static const char *const fits[] = {"first", "next", "best", "worst"};
static const char *const orders[] = {"address", "size_up", "size_down", "insert_front",
                                     "insert_back"};
static const char *const tails[] = {"listed", "apart"};
enum {
    FITS = 4,
    ORDERS = 5,
    TAILS = 2,
    CAPACITY = 4096
};

/* ------------------------------------------------------------------------------ a naive model */

/* The rules as they are told, over an array. */
struct entry {
    uint64_t begin;
    uint64_t bytes;
};
struct naive {
    struct entry list[512];
    size_t count;
    size_t fit;
    size_t order;
    bool merge;
    bool apart;
    uint64_t rest; /* with `apart`: where the free end of the range begins */
    uint64_t alignment;
    uint64_t header;
    uint64_t next; /* of next fit: an address, or in a list the beginning of an entry */
};

static size_t naive_start(const struct naive *naive)
{
    for (size_t i = 0; i < naive->count; i++) {
        if (naive->order == 0 ? naive->list[i].begin >= naive->next
                              : naive->list[i].begin == naive->next)
            return i;
    }
    return 0;
}

/* Its place in the list, or `count`. */
static size_t naive_find(const struct naive *naive, uint64_t bytes, uint64_t *searched)
{
    size_t start = naive->fit == 1 ? naive_start(naive) : 0;
    size_t found = naive->count;
    *searched = 0;
    for (size_t k = 0; k < naive->count; k++) {
        size_t i = (start + k) % naive->count;
        ++*searched;
        if (naive->list[i].bytes < bytes)
            continue;
        if (naive->fit < 2)
            return i;
        if (found == naive->count ||
            (naive->fit == 2 ? naive->list[i].bytes < naive->list[found].bytes
                             : naive->list[i].bytes > naive->list[found].bytes))
            found = i;
    }
    return found;
}

static void naive_delete(struct naive *naive, size_t place)
{
    naive->count--;
    for (size_t i = place; i < naive->count; i++)
        naive->list[i] = naive->list[i + 1];
}

/* The offset, or UINT64_MAX. */
static uint64_t naive_place(struct naive *naive, uint64_t bytes, uint64_t *searched)
{
    bytes = (bytes + naive->alignment - 1) / naive->alignment * naive->alignment + naive->header;
    size_t place = naive_find(naive, bytes, searched);
    if (place == naive->count && naive->apart && bytes <= CAPACITY - naive->rest) {
        naive->rest += bytes;
        if (naive->order == 0)
            naive->next = naive->rest;
        return naive->rest - bytes + naive->header;
    }
    if (place == naive->count)
        return UINT64_MAX;
    uint64_t begin = naive->list[place].begin;
    naive->list[place].begin += bytes;
    naive->list[place].bytes -= bytes;
    naive->next = begin + bytes;
    if (naive->list[place].bytes == 0) {
        naive_delete(naive, place);
        if (naive->order != 0) /* the entry that followed; without one, the front again */
            naive->next = place < naive->count ? naive->list[place].begin : UINT64_MAX;
    }
    return begin + naive->header;
}

static bool naive_wrong(const struct naive *naive, size_t i)
{
    const struct entry *left = &naive->list[i - 1];
    const struct entry *right = &naive->list[i];
    return naive->order == 0   ? left->begin > right->begin
           : naive->order == 1 ? left->bytes > right->bytes
           : naive->order == 2 ? left->bytes < right->bytes
                               : false;
}

/* Whatever in the list ends where the rest begins joins it, again and again. */
static void naive_join_rest(struct naive *naive)
{
    for (size_t i = 0; i < naive->count;) {
        if (naive->list[i].begin + naive->list[i].bytes != naive->rest) {
            i++;
            continue;
        }
        naive->rest = naive->list[i].begin;
        naive_delete(naive, i);
        if (naive->order != 0 && naive->next == naive->rest)
            naive->next = i < naive->count ? naive->list[i].begin : UINT64_MAX;
        i = 0;
    }
}

static void naive_free(struct naive *naive, uint64_t offset, uint64_t reserved)
{
    if (naive->apart && naive->merge && offset - naive->header + reserved == naive->rest) {
        naive->rest = offset - naive->header;
        naive_join_rest(naive);
        return;
    }
    size_t place = naive->order == 3 ? 0 : naive->count;
    for (size_t i = naive->count; i > place; i--)
        naive->list[i] = naive->list[i - 1];
    naive->list[place] = (struct entry){offset - naive->header, reserved};
    naive->count++;
    for (size_t pass = 0; pass < naive->count; pass++) {
        for (size_t i = 1; i < naive->count; i++) {
            if (naive_wrong(naive, i)) {
                struct entry swap = naive->list[i];
                naive->list[i] = naive->list[i - 1];
                naive->list[i - 1] = swap;
            }
        }
    }
    for (size_t i = 0; naive->merge && i + 1 < naive->count;) {
        struct entry *left = &naive->list[i];
        if (left->begin + left->bytes != left[1].begin) {
            i++;
            continue;
        }
        if (naive->order != 0 && naive->next == left[1].begin)
            naive->next = left->begin;
        left->bytes += left[1].bytes;
        naive_delete(naive, i + 1);
    }
}

static void assert_same_list(const struct naive *naive, const struct policy_world *world)
{
    char expected[16384] = "free_list:\n";
    size_t length = strlen(expected);
    for (size_t i = 0; i < naive->count; i++)
        length += (size_t)snprintf(expected + length, sizeof(expected) - length, "  %llu %llu\n",
                                   (unsigned long long)naive->list[i].begin,
                                   (unsigned long long)naive->list[i].bytes);
    char *text = policy_world_statistics(world);
    assert_string_equal(strstr(text, "free_list:\n"), expected);
    free(text);
}

static void compare_with_naive(struct naive *naive, const char *knobs, uint64_t seed)
{
    struct policy_world world;
    struct policy_rules rules = {.header_bytes = naive->header};
    policy_world_open(&world, "list_fit", knobs, CAPACITY, &rules);
    world.look_closely = false;
    world.number = seed;
    naive->list[0] = (struct entry){0, CAPACITY};
    naive->count = naive->apart ? 0 : 1;
    naive->next = naive->order == 0 ? 0 : UINT64_MAX;
    for (int step = 0; step < 400; step++) {
        if (policy_world_below(&world, 100) < 55) {
            struct policy_request request = {.requested_bytes =
                                                 1 + policy_world_below(&world, 200)};
            struct policy_outcome outcome;
            uint64_t searched;
            uint64_t offset = naive_place(naive, request.requested_bytes, &searched);
            int verdict = world.operations->place(world.policy, &request, &outcome);
            assert_int_equal(outcome.blocks_scanned, searched);
            assert_int_equal(verdict, offset == UINT64_MAX ? POLICY_FULL : POLICY_PLACED);
            if (verdict == POLICY_PLACED) {
                assert_int_equal(outcome.placement.offset, offset);
                policy_world_keep(&world, &outcome.placement, &request);
            }
        } else if (world.live_count > 0) {
            size_t place = (size_t)policy_world_below(&world, world.live_count);
            const struct policy_placement *placement = &world.live[place].placement;
            naive_free(naive, placement->offset, placement->reserved_bytes);
            policy_world_free(&world, place);
        }
        assert_same_list(naive, &world);
    }
    policy_world_check(&world);
    policy_world_close(&world);
}

static void test_it_does_what_a_naive_model_does_in_every_setting(void **state)
{
    (void)state;
    for (size_t i = 0; i < (size_t)FITS * ORDERS * TAILS * 2; i++) {
        static struct naive naive;
        char knobs[128];
        naive = (struct naive){
            .fit = i % FITS,
            .order = i / FITS % ORDERS,
            .merge = i / FITS / ORDERS % 2 != 0,
            .apart = i / FITS / ORDERS / 2 != 0,
            .alignment = i % 3 == 0 ? 16 : 1,
            .header = i % 3 == 0 ? 8 : 0,
        };
        snprintf(knobs, sizeof(knobs), "fit=%s order=%s merge=%s alignment=%d header=%d tail=%s",
                 fits[naive.fit], orders[naive.order], naive.merge ? "true" : "false",
                 (int)naive.alignment, (int)naive.header, tails[naive.apart]);
        compare_with_naive(&naive, knobs, i + 1);
    }
}

/* ------------------------------------------------------------------------------ witness, chaos */

static void test_the_witness_sees_nothing_wrong_in_any_setting(void **state)
{
    (void)state;
    for (size_t i = 0; i < (size_t)FITS * ORDERS * TAILS; i++) {
        char knobs[128];
        bool header = i % 2 == 0;
        struct policy_rules rules = {.header_bytes = header ? 32 : 0, .alignment = header ? 16 : 0};
        snprintf(knobs, sizeof(knobs), "fit=%s order=%s tail=%s merge=%s%s", fits[i % FITS],
                 orders[i / FITS % ORDERS], tails[i / FITS / ORDERS], i % 3 == 0 ? "false" : "true",
                 header ? " alignment=16 header=32" : "");
        policy_world_run_all("list_fit", knobs, 1 << 18, &rules);
    }
}

static void test_running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    policy_world_chaos("list_fit", "fit=first", 1 << 20, NULL);
    policy_world_chaos("list_fit", "fit=best", 1 << 20, NULL);
    policy_world_chaos("list_fit", "fit=next order=size_up", 1 << 20, NULL);
    policy_world_chaos("list_fit", "fit=worst tail=apart", 1 << 20, NULL);
    policy_world_chaos("list_fit", "fit=next order=insert_front tail=apart", 1 << 20, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_does_what_a_naive_model_does_in_every_setting),
        cmocka_unit_test(test_the_witness_sees_nothing_wrong_in_any_setting),
        cmocka_unit_test(test_running_out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests_name("list_fit_model", tests, NULL, NULL);
}
