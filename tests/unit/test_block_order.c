/* Sets of blocks in an order, against a sorted array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "lib/blocks/block_order.h"
#include "tests/support/chaos.h"

enum {
    BLOCKS = 600
};

/* The naive one: members sorted by key. */
struct member {
    uint64_t major;
    uint64_t minor;
    uint64_t weight;
    uint32_t block;
};
struct naive {
    struct member members[BLOCKS];
    size_t count;
};

static uint64_t next_number(uint64_t *number)
{
    *number ^= *number << 13;
    *number ^= *number >> 7;
    *number ^= *number << 17;
    return *number;
}

static bool less(const struct member *member, uint64_t major, uint64_t minor)
{
    return member->major < major || (member->major == major && member->minor < minor);
}

static size_t naive_rank(const struct naive *naive, uint64_t major, uint64_t minor)
{
    size_t rank = 0;
    while (rank < naive->count && less(&naive->members[rank], major, minor))
        rank++;
    return rank;
}

static void naive_insert(struct naive *naive, const struct member *member)
{
    size_t rank = naive_rank(naive, member->major, member->minor);
    for (size_t i = naive->count; i > rank; i--)
        naive->members[i] = naive->members[i - 1];
    naive->members[rank] = *member;
    naive->count++;
}

static void naive_remove(struct naive *naive, size_t place)
{
    naive->count--;
    for (size_t i = place; i < naive->count; i++)
        naive->members[i] = naive->members[i + 1];
}

static uint32_t naive_block(const struct naive *naive, size_t rank)
{
    return rank < naive->count ? naive->members[rank].block : BLOCK_NONE;
}

static uint32_t naive_heavy(const struct naive *naive, uint64_t major, uint64_t minor,
                            uint64_t weight)
{
    for (size_t i = naive_rank(naive, major, minor); i < naive->count; i++) {
        if (naive->members[i].weight >= weight)
            return naive->members[i].block;
    }
    return BLOCK_NONE;
}

static bool expect_member(const void *context, uint32_t block, const struct block_node *node)
{
    const struct naive *naive = context;
    size_t rank = naive_rank(naive, node->major, node->minor);
    return rank < naive->count && naive->members[rank].block == block &&
           naive->members[rank].major == node->major && naive->members[rank].minor == node->minor &&
           naive->members[rank].weight == node->weight;
}

static void assert_sound(const struct block_order *order, const struct block_nodes *nodes,
                         const struct naive *naive)
{
    struct audit audit = {0};
    block_order_check(order, nodes, naive->count, expect_member, naive, &audit);
    if (audit.broken)
        fail_msg("%s does not hold", audit.broken);
}

static void assert_same_answers(const struct block_order *order, const struct block_nodes *nodes,
                                const struct naive *naive, uint64_t major, uint64_t minor,
                                uint64_t weight)
{
    size_t rank = naive_rank(naive, major, minor);
    assert_int_equal(block_order_rank(order, nodes, major, minor), rank);
    assert_int_equal(block_order_at_least(order, nodes, major, minor), naive_block(naive, rank));
    assert_int_equal(block_order_below(order, nodes, major, minor),
                     rank == 0 ? BLOCK_NONE : naive_block(naive, rank - 1));
    assert_int_equal(block_order_heavy(order, nodes, major, minor, weight),
                     naive_heavy(naive, major, minor, weight));
    assert_int_equal(block_order_heavy(order, nodes, 0, 0, weight),
                     naive_heavy(naive, 0, 0, weight));
    assert_int_equal(block_order_count(order, nodes), naive->count);
    assert_int_equal(block_order_first(order, nodes), naive_block(naive, 0));
    assert_int_equal(block_order_last(order, nodes),
                     naive->count == 0 ? BLOCK_NONE : naive_block(naive, naive->count - 1));
    uint64_t greatest = 0;
    for (size_t i = 0; i < naive->count; i++)
        greatest = naive->members[i].weight > greatest ? naive->members[i].weight : greatest;
    assert_int_equal(block_order_greatest(order, nodes), greatest);
    greatest = 0;
    for (size_t i = 0; i < rank; i++)
        greatest = naive->members[i].weight > greatest ? naive->members[i].weight : greatest;
    assert_int_equal(block_order_greatest_below(order, nodes, major, minor), greatest);
}

static void assert_same_walk(const struct block_order *order, const struct block_nodes *nodes,
                             const struct naive *naive)
{
    uint32_t block = block_order_first(order, nodes);
    for (size_t i = 0; i < naive->count; i++) {
        assert_int_equal(block, naive->members[i].block);
        assert_int_equal(block_order_previous(nodes, block),
                         i == 0 ? BLOCK_NONE : naive->members[i - 1].block);
        block = block_order_next(nodes, block);
    }
    assert_int_equal(block, BLOCK_NONE);
}

/* Steps on a set with few or many different keys and weights. */
static void run(uint64_t seed, size_t steps, uint64_t keys, uint64_t weights)
{
    static struct naive naive;
    naive.count = 0;
    static bool present[BLOCKS];
    memset(present, 0, sizeof(present));
    struct block_nodes nodes;
    block_nodes_init(&nodes, memory_system());
    assert_int_equal(block_nodes_reserve(&nodes, BLOCKS), 0);
    struct block_order order = block_order_empty();
    uint64_t number = seed;
    for (size_t step = 0; step < steps; step++) {
        /* The set grows and shrinks in turn. */
        bool grow = next_number(&number) % 100 < (step / BLOCKS % 2 == 0 ? 70 : 30);
        uint32_t block = (uint32_t)(next_number(&number) % BLOCKS);
        struct member member = {next_number(&number) % keys, next_number(&number) % keys,
                                next_number(&number) % weights, block};
        size_t rank = naive_rank(&naive, member.major, member.minor);
        bool taken = rank < naive.count && naive.members[rank].major == member.major &&
                     naive.members[rank].minor == member.minor;
        if (grow && !present[block] && !taken) {
            block_order_insert(&order, &nodes, block, member.major, member.minor, member.weight);
            naive_insert(&naive, &member);
            present[block] = true;
        } else if (grow && taken) {
            /* Another block, or the same one with another weight, takes the place. */
            uint32_t old = naive.members[rank].block;
            uint32_t heir = present[block] ? old : block;
            block_order_replace(&order, &nodes, old, heir, member.major, member.minor,
                                member.weight);
            present[old] = false;
            present[heir] = true;
            member.block = heir;
            naive.members[rank] = member;
        } else if (!grow && naive.count > 0) {
            size_t place = (size_t)(next_number(&number) % naive.count);
            uint32_t ending = naive.members[place].block;
            block_order_remove(&order, &nodes, ending);
            naive_remove(&naive, place);
            present[ending] = false;
        }
        assert_sound(&order, &nodes, &naive);
        assert_same_answers(&order, &nodes, &naive, member.major, member.minor, member.weight);
        if (step % 50 == 0)
            assert_same_walk(&order, &nodes, &naive);
    }
    block_nodes_release(&nodes);
}

static void test_it_answers_as_a_sorted_array_does_with_few_keys(void **state)
{
    (void)state;
    run(1, 4000, 12, 5);
    run(4, 3000, 25, 1000);
}

static void test_it_answers_as_a_sorted_array_does_with_many_keys(void **state)
{
    (void)state;
    run(2, 6000, UINT64_MAX, UINT64_MAX);
    run(3, 3000, 40, 1000);
}

static void test_rising_and_falling_keys_stay_balanced(void **state)
{
    (void)state;
    static struct naive naive;
    for (int falling = 0; falling < 2; falling++) {
        naive.count = 0;
        struct block_nodes nodes;
        block_nodes_init(&nodes, memory_system());
        assert_int_equal(block_nodes_reserve(&nodes, BLOCKS), 0);
        struct block_order order = block_order_empty();
        for (uint32_t i = 0; i < BLOCKS; i++) {
            struct member member = {falling ? BLOCKS - i : i, 0, i % 7, i};
            block_order_insert(&order, &nodes, i, member.major, 0, member.weight);
            naive_insert(&naive, &member);
        }
        assert_sound(&order, &nodes, &naive);
        assert_in_range(nodes.items[order.root].level, 10, 11); /* 600 nodes: 10 at least */
        for (uint32_t i = 0; i < BLOCKS; i++) {
            naive_remove(&naive, naive_rank(&naive, falling ? BLOCKS - i : i, 0));
            block_order_remove(&order, &nodes, i);
            assert_sound(&order, &nodes, &naive);
        }
        assert_int_equal(order.root, BLOCK_NONE);
        block_nodes_release(&nodes);
    }
}

static void test_two_sets_share_their_nodes(void **state)
{
    (void)state;
    struct block_nodes nodes;
    block_nodes_init(&nodes, memory_system());
    assert_int_equal(block_nodes_reserve(&nodes, 4), 0);
    struct block_order left = block_order_empty();
    struct block_order right = block_order_empty();
    block_order_insert(&left, &nodes, 0, 5, 0, 1);
    block_order_insert(&right, &nodes, 1, 5, 0, 2);
    block_order_insert(&left, &nodes, 2, 4, 0, 3);
    assert_int_equal(block_order_count(&left, &nodes), 2);
    assert_int_equal(block_order_count(&right, &nodes), 1);
    assert_int_equal(block_order_first(&left, &nodes), 2);
    block_order_remove(&left, &nodes, 0);
    assert_int_equal(block_order_first(&right, &nodes), 1);
    block_nodes_release(&nodes);
}

static void test_the_audit_finds_what_is_broken(void **state)
{
    (void)state;
    static struct naive naive;
    naive.count = 0;
    struct block_nodes nodes;
    block_nodes_init(&nodes, memory_system());
    assert_int_equal(block_nodes_reserve(&nodes, 16), 0);
    struct block_order order = block_order_empty();
    for (uint32_t i = 0; i < 16; i++) {
        struct member member = {(uint64_t)i * 2, 0, i, i};
        block_order_insert(&order, &nodes, i, member.major, 0, member.weight);
        naive_insert(&naive, &member);
    }
    assert_sound(&order, &nodes, &naive);
    uint32_t root = order.root;
    struct block_node *top = &nodes.items[root];
    uint32_t *words[] = {&top->count, &top->level,  &top->left,
                         &top->right, &top->parent, &nodes.items[top->left].parent};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        static const uint32_t values[] = {0, 3, 7, 15, BLOCK_NONE, 1000};
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            uint32_t kept = *words[i];
            if (kept == values[k])
                continue;
            *words[i] = values[k];
            struct audit audit = {0};
            block_order_check(&order, &nodes, naive.count, expect_member, &naive, &audit);
            assert_non_null(audit.broken);
            *words[i] = kept;
        }
    }
    uint64_t *longs[] = {&top->major, &top->greatest, &top->weight};
    for (size_t i = 0; i < sizeof(longs) / sizeof(longs[0]); i++) {
        *longs[i] += 1000;
        struct audit audit = {0};
        block_order_check(&order, &nodes, naive.count, expect_member, &naive, &audit);
        assert_non_null(audit.broken);
        *longs[i] -= 1000;
    }
    struct audit audit = {0};
    block_order_check(&order, &nodes, naive.count + 1, expect_member, &naive, &audit);
    assert_string_equal(audit.broken, "free_index_count");
    assert_sound(&order, &nodes, &naive);
    block_nodes_release(&nodes);
}

static bool reserve_some(struct chaos *chaos, void *context)
{
    (void)context;
    struct block_nodes nodes;
    block_nodes_init(&nodes, &chaos->memory);
    bool fine = true;
    for (size_t capacity = 1; capacity < 200 && fine; capacity += 30) {
        struct block_node *items = nodes.items;
        size_t before = nodes.capacity;
        fine = block_nodes_reserve(&nodes, capacity) == 0;
        if (!fine) {
            assert_ptr_equal(nodes.items, items);
            assert_int_equal(nodes.capacity, before);
        }
    }
    block_nodes_release(&nodes);
    return fine;
}

static void test_running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(reserve_some, NULL) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_answers_as_a_sorted_array_does_with_few_keys),
        cmocka_unit_test(test_it_answers_as_a_sorted_array_does_with_many_keys),
        cmocka_unit_test(test_rising_and_falling_keys_stay_balanced),
        cmocka_unit_test(test_two_sets_share_their_nodes),
        cmocka_unit_test(test_the_audit_finds_what_is_broken),
        cmocka_unit_test(test_running_out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests_name("block_order", tests, NULL, NULL);
}
