/* Torch's sentences about an out of memory: each wording, what is made of it, and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/oom_sentence.h"
#include "tests/support/chaos.h"

#define MIB 1048576.0
#define GIB 1073741824.0

static struct oom_sentence read_text(const char *text)
{
    struct oom_sentence sentence;
    if (oom_sentence_read(text, strlen(text), memory_system(), &sentence) != 0)
        fail_msg("not understood: %s", text);
    return sentence;
}

static const char *example(const char *wanted)
{
    const char *since;
    const char *sentence;
    for (size_t i = 0; (sentence = oom_sentence_example(i, &since)) != NULL; i++) {
        if (strcmp(since, wanted) == 0)
            return sentence;
    }
    fail_msg("there is no example of %s", wanted);
    return NULL;
}

static void assert_figure(const struct oom_sentence *sentence, enum oom_figure figure, double bytes)
{
    if (!sentence->figures[figure].known || fabs(sentence->figures[figure].bytes - bytes) > 1)
        fail_msg("figure %d is %f, not %f", (int)figure, sentence->figures[figure].bytes, bytes);
}

static struct oom_verdict judged(const char *text)
{
    struct oom_sentence sentence = read_text(text);
    struct oom_verdict verdict;
    oom_sentence_judge(&sentence, &verdict);
    return verdict;
}

static void assert_cause(const char *text, enum oom_cause cause)
{
    struct oom_verdict verdict = judged(text);
    if (verdict.cause != cause)
        fail_msg("cause %d, not %d: %s", (int)verdict.cause, (int)cause, text);
}

/* ------------------------------------------------------------------------------ wordings */

/* Which figures each wording has; what follows from two others counts. */
static void test_each_wording_gives_its_figures(void **state)
{
    (void)state;
    static const struct {
        const char *since;
        unsigned figures; /* bits */
        size_t processes;
    } CASES[] = {
#define BIT(name) (1u << OOM_##name)
#define USUAL                                                                                      \
    (BIT(asked) | BIT(total) | BIT(free) | BIT(allocated) | BIT(reserved) | BIT(unallocated))
        {"1.0", USUAL, 0},
        {"1.4", USUAL, 0},
        {"1.8", USUAL | BIT(allowed), 0},
        {"1.10", USUAL, 0},
        {"2.1", USUAL, 1},
        {"2.2", USUAL | BIT(this_process), 0},
        {"2.4", USUAL | BIT(this_process), 2},
        {"2.5", USUAL | BIT(this_process) | BIT(private_pools), 0},
        {"2.9", USUAL, 0},
        {"ROCm", USUAL | BIT(private_pools) | BIT(allowed), 0},
        {"XPU", USUAL, 0},
        {"MPS", BIT(asked) | BIT(allocated) | BIT(allowed) | BIT(outside), 0},
        {"cudaMallocAsync", BIT(asked) | BIT(total) | BIT(free) | BIT(allocated), 0},
        {"any", 0, 0},
    };
    const char *since;
    size_t examples = 0;
    while (oom_sentence_example(examples, &since))
        examples++;
    assert_int_equal(examples, sizeof(CASES) / sizeof(CASES[0]) + 1); /* two of "any" */
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct oom_sentence sentence = read_text(example(CASES[i].since));
        unsigned figures = 0;
        for (unsigned f = 0; f < OOM_FIGURES; f++)
            figures |= sentence.figures[f].known ? 1u << f : 0;
        if (figures != CASES[i].figures || sentence.process_count != CASES[i].processes)
            fail_msg("%s: figures %x, not %x; %d processes", CASES[i].since, figures,
                     CASES[i].figures, (int)sentence.process_count);
    }
}

static void test_the_figures_are_those_that_stand_there(void **state)
{
    (void)state;
    struct oom_sentence old = read_text(example("1.0"));
    assert_figure(&old, OOM_asked, 12.5 * MIB);
    assert_figure(&old, OOM_total, 10.92 * GIB);
    assert_figure(&old, OOM_free, 9.28 * GIB);
    assert_figure(&old, OOM_allocated, 8.57 * MIB);
    assert_figure(&old, OOM_unallocated, 4.68 * MIB);
    struct oom_sentence newer = read_text(example("2.4"));
    assert_figure(&newer, OOM_asked, 86 * MIB);
    assert_figure(&newer, OOM_this_process, 8.04 * GIB);
    assert_figure(&newer, OOM_unallocated, 40.11 * MIB);
    assert_int_equal(newer.processes[0].pid, 2086283);
    assert_int_equal(newer.processes[1].pid, 2797307);
    assert_true(fabs(newer.processes[1].size.bytes - 14.85 * GIB) < 1);
    struct oom_sentence mps = read_text(example("MPS"));
    assert_figure(&mps, OOM_outside, 613.56 * MIB);
    assert_figure(&mps, OOM_allowed, 18.13 * GIB);
}

static void test_the_variable_is_the_one_that_this_torch_reads(void **state)
{
    (void)state;
    assert_string_equal(read_text(example("1.10")).variable, "PYTORCH_CUDA_ALLOC_CONF");
    assert_string_equal(read_text(example("2.9")).variable, "PYTORCH_ALLOC_CONF");
    assert_string_equal(read_text(example("ROCm")).variable, "PYTORCH_HIP_ALLOC_CONF");
    assert_true(read_text(example("ROCm")).hip);
    assert_int_equal(read_text(example("1.4")).device, 4);
}

static void test_line_ends_blanks_and_a_traceback_around_it_do_not_matter(void **state)
{
    (void)state;
    struct oom_sentence sentence = read_text(
        "Traceback (most recent call last):\n  File \"x.py\", line 5, in f\n"
        "RuntimeError: CUDA out of memory. Tried to allocate\n  20.00   MiB (GPU 4; 31.75 GiB\n"
        "total capacity; 30.29 GiB already\r\nallocated; 3.75 MiB free; 30.40 GiB reserved\n"
        "in total by PyTorch)\n");
    assert_figure(&sentence, OOM_asked, 20 * MIB);
    assert_figure(&sentence, OOM_free, 3.75 * MIB);
    assert_figure(&sentence, OOM_reserved, 30.40 * GIB);
}

static void test_a_cut_off_sentence_gives_what_it_has(void **state)
{
    (void)state;
    struct oom_sentence sentence =
        read_text("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0");
    assert_figure(&sentence, OOM_asked, 2 * GIB);
    assert_false(sentence.figures[OOM_total].known);
}

static void test_what_is_no_such_sentence_is_not_understood(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "",
        "hello",
        "out of memory",
        "RuntimeError: shape mismatch",
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: rmm",
        "Tried to allocate 3 MiB"};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        struct oom_sentence sentence;
        assert_int_equal(oom_sentence_read(TEXTS[i], strlen(TEXTS[i]), memory_system(), &sentence),
                         1);
    }
}

/* ------------------------------------------------------------------------------ causes */

#define SAID(asked, total, free, rest)                                                             \
    "CUDA out of memory. Tried to allocate " asked ". GPU 0 has a total capacity of " total        \
    " of which " free " is free. " rest

static void test_each_example_has_its_cause(void **state)
{
    (void)state;
    assert_cause(example("1.0"), OOM_CAUSE_ROOM);
    assert_cause(example("1.4"), OOM_CAUSE_FULL);
    assert_cause(example("1.8"), OOM_CAUSE_LIMIT);
    assert_cause(example("2.1"), OOM_CAUSE_FULL);
    assert_cause(example("2.2"), OOM_CAUSE_FULL);
    assert_cause(example("2.5"), OOM_CAUSE_OTHERS);
    assert_cause(example("2.9"), OOM_CAUSE_FRAGMENTATION);
    assert_cause(example("ROCm"), OOM_CAUSE_LIMIT);
    assert_cause(example("MPS"), OOM_CAUSE_LIMIT);
    assert_cause("CUDA out of memory. Tried to allocate more than 1EB memory.", OOM_CAUSE_ABSURD);
    assert_cause("RuntimeError: CUDA error: out of memory", OOM_CAUSE_UNKNOWN);
    assert_cause("cuda runtime error (2) : out of memory at THCStorage.cu:58", OOM_CAUSE_UNKNOWN);
}

static void test_more_than_the_device_has_is_too_large(void **state)
{
    (void)state;
    assert_cause(
        SAID("55.57 GiB", "12.00 GiB", "9.02 GiB",
             "Of the allocated memory 984.52 MiB is allocated by PyTorch, and 463.48 MiB is "
             "reserved by PyTorch but unallocated."),
        OOM_CAUSE_TOO_LARGE);
}

static void test_other_processes_are_told_from_this_one(void **state)
{
    (void)state;
    const char *text =
        SAID("86.00 MiB", "23.64 GiB", "4.00 MiB",
             "Process 1 has 419.48 MiB memory in use. Including non-PyTorch memory, this "
             "process has 8.04 GiB memory in use. Process 2 has 14.85 GiB memory in use. Of "
             "the allocated memory 7.63 GiB is allocated by PyTorch, and 40.11 MiB is "
             "reserved by PyTorch but unallocated.");
    struct oom_verdict verdict = judged(text);
    assert_int_equal(verdict.cause, OOM_CAUSE_OTHERS);
    assert_true(verdict.others_told);
    assert_true(fabs(verdict.others.bytes - 419.48 * MIB - 14.85 * GIB) < 1);
}

/* In a container torch does not know its own number outside: it is the process that has what torch
 * has. */
static void test_this_process_may_be_told_by_its_number_only(void **state)
{
    (void)state;
    struct oom_verdict verdict = judged(example("2.1"));
    assert_true(verdict.others_told);
    assert_true(verdict.others.bytes < 1);
}

static void test_private_pools_that_hold_most_are_the_cause(void **state)
{
    (void)state;
    assert_cause(
        SAID("2.00 MiB", "47.53 GiB", "896.00 KiB",
             "Process 1686436 has 47.51 GiB memory in use. Of the allocated memory 47.00 GiB is "
             "allocated by PyTorch, with 46.22 GiB allocated in private pools (e.g., CUDA "
             "Graphs), and 149.10 MiB is reserved by PyTorch but unallocated."),
        OOM_CAUSE_PRIVATE_POOLS);
}

static void test_what_this_process_has_beside_torch_is_told(void **state)
{
    (void)state;
    assert_cause(
        SAID("1.00 GiB", "24.00 GiB", "100.00 MiB",
             "Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the "
             "allocated memory 8.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by "
             "PyTorch but unallocated."),
        OOM_CAUSE_OUTSIDE);
}

static void test_more_than_the_device_has_was_spilled_to_the_host(void **state)
{
    (void)state;
    assert_true(
        judged(SAID("1002.00 MiB", "8.00 GiB", "0 bytes",
                    "Of the allocated memory 13.98 GiB is allocated by PyTorch, and 129.48 MiB "
                    "is reserved by PyTorch but unallocated."))
            .spilled);
    assert_false(judged(example("2.9")).spilled);
}

static void test_figures_without_bounds_are_left_out(void **state)
{
    (void)state;
    struct oom_sentence sentence = read_text(example("cudaMallocAsync"));
    assert_false(sentence.figures[OOM_allowed].known);
    assert_int_equal(sentence.kind, OOM_KIND_ASYNC);
}

/* ------------------------------------------------------------------------------ damage */

static void test_damaged_sentences_do_no_harm(void **state)
{
    (void)state;
    const char *since;
    const char *text;
    for (size_t i = 0; (text = oom_sentence_example(i, &since)) != NULL; i++) {
        size_t length = strlen(text);
        char *copy = malloc(length);
        assert_non_null(copy);
        for (size_t at = 0; at < length; at++) {
            static const char BYTES[] = {'\0', '9', '.', ' ', (char)0xff};
            struct oom_sentence sentence;
            struct oom_verdict verdict;
            memcpy(copy, text, length);
            copy[at] = BYTES[at % sizeof(BYTES)];
            if (oom_sentence_read(copy, length, memory_system(), &sentence) == 0)
                oom_sentence_judge(&sentence, &verdict);
            if (oom_sentence_read(text, at, memory_system(), &sentence) == 0)
                oom_sentence_judge(&sentence, &verdict);
        }
        free(copy);
    }
}

static bool read_without_memory(struct chaos *chaos, void *context)
{
    (void)context;
    struct oom_sentence sentence;
    const char *text = example("2.2");
    return oom_sentence_read(text, strlen(text), &chaos->memory, &sentence) == 0;
}

static void test_running_out_of_memory_is_told(void **state)
{
    (void)state;
    assert_true(chaos_loop(read_without_memory, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_wording_gives_its_figures),
        cmocka_unit_test(test_the_figures_are_those_that_stand_there),
        cmocka_unit_test(test_the_variable_is_the_one_that_this_torch_reads),
        cmocka_unit_test(test_line_ends_blanks_and_a_traceback_around_it_do_not_matter),
        cmocka_unit_test(test_a_cut_off_sentence_gives_what_it_has),
        cmocka_unit_test(test_what_is_no_such_sentence_is_not_understood),
        cmocka_unit_test(test_each_example_has_its_cause),
        cmocka_unit_test(test_more_than_the_device_has_is_too_large),
        cmocka_unit_test(test_other_processes_are_told_from_this_one),
        cmocka_unit_test(test_this_process_may_be_told_by_its_number_only),
        cmocka_unit_test(test_private_pools_that_hold_most_are_the_cause),
        cmocka_unit_test(test_what_this_process_has_beside_torch_is_told),
        cmocka_unit_test(test_more_than_the_device_has_was_spilled_to_the_host),
        cmocka_unit_test(test_figures_without_bounds_are_left_out),
        cmocka_unit_test(test_damaged_sentences_do_no_harm),
        cmocka_unit_test(test_running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
