/* generate: a workload of shapes.def or a public case of cases.def, as a trace, a script or a log.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lab/cases.h"
#include "lab/generate_write.h"
#include "lab/lab.h"
#include "lab/shapes.h"

#define CASE_PREFIX "case:"

enum {
    PROBLEM_SIZE = 512
};

/* What was asked for, checked. */
struct generating {
    const char *name;
    const struct shape *shape; /* or NULL */
    uint64_t values[SHAPE_MOST_PARAMETERS];
    const struct public_case *public_case; /* or NULL */
    size_t variant;
    const char *seed;
    enum generate_form form;
};

/* ------------------------------------------------------------------------------ what is wanted */

static int say_unknown(struct lab *lab, const char *what, const char *name, const char *nearest,
                       const char *list)
{
    char problem[PROBLEM_SIZE];
    char advice[PROBLEM_SIZE];
    snprintf(problem, sizeof(problem), "there is no %s '%.100s'", what, name);
    if (nearest)
        snprintf(advice, sizeof(advice), "did you mean '%s'? All there are: worsegpu-lab list %s",
                 nearest, list);
    else
        snprintf(advice, sizeof(advice), "all there are: worsegpu-lab list %s", list);
    return lab_usage(lab, problem, advice);
}

static int read_case(struct lab *lab, const char *name, struct generating *generating)
{
    const char *const *words = lab->line.operands + 1;
    char problem[PROBLEM_SIZE];
    generating->public_case = public_case_find(name);
    if (!generating->public_case)
        return say_unknown(lab, "case", name, public_case_nearest(name), "cases");
    const char *variants = generating->public_case->variants;
    for (size_t i = 0; i + 1 < lab->line.operand_count; i++) {
        bool set = strncmp(words[i], "variant=", 8) == 0;
        if (set && words[i][8] != '\0' &&
            public_case_variant(generating->public_case, words[i] + 8, &generating->variant))
            continue;
        if (variants[0] == '\0')
            snprintf(problem, sizeof(problem), "case:%s has nothing to set, not even '%.60s'", name,
                     words[i]);
        else
            snprintf(problem, sizeof(problem),
                     "case:%s has variant=NAME to set, with one of these names: %s; not '%.60s'",
                     name, variants, words[i]);
        return lab_usage(lab, problem, "what it tells: worsegpu-lab list cases");
    }
    return LAB_FINE;
}

static int read_shape(struct lab *lab, const char *name, struct generating *generating)
{
    char problem[SHAPE_PROBLEM_SIZE];
    generating->shape = shape_find(name);
    if (!generating->shape)
        return say_unknown(lab, "shape", name, shape_nearest(name), "shapes");
    if (!shape_read(generating->shape, lab->line.operands + 1, lab->line.operand_count - 1,
                    generating->values, problem))
        return lab_usage(lab, problem, "all there is to set: worsegpu-lab list shapes");
    return LAB_FINE;
}

/* -?[0-9]+, as the reference takes seeds. */
static bool is_seed(const char *text)
{
    text += *text == '-';
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

static int read_wanted(struct lab *lab, struct generating *generating)
{
    const size_t prefix = strlen(CASE_PREFIX);
    bool named = lab_has(lab, LAB_OPTION_output);
    generating->name = lab->line.operands[0];
    generating->seed = lab_has(lab, LAB_OPTION_seed) ? lab->line.values[LAB_OPTION_seed].text : "0";
    if (!is_seed(generating->seed))
        return lab_usage(lab, "a seed is a whole number, with or without a minus", NULL);
    if (lab_has(lab, LAB_OPTION_as))
        generating->form = generate_form_find(lab->line.values[LAB_OPTION_as].text);
    if (generating->form == GENERATE_FORMS)
        return lab_usage(lab, "--as takes trace, script or rmm",
                         "try: worsegpu-lab generate training --as rmm");
    if (lab->output.json && !named)
        return lab_usage(lab, "generate --json prints a summary: the workload needs --output FILE",
                         "try: worsegpu-lab generate SHAPE --json --output FILE");
    if (strncmp(generating->name, CASE_PREFIX, prefix) == 0)
        return read_case(lab, generating->name + prefix, generating);
    return read_shape(lab, generating->name, generating);
}

/* ------------------------------------------------------------------------------ the work */

static int print_summary(struct lab *lab, const struct generating *generating,
                         const struct scenario *scenario)
{
    struct json_writer writer;
    if (!lab->output.json)
        return LAB_FINE;
    lab_begin_json(lab, &writer);
    json_writer_begin_object(&writer);
    json_writer_member_text(&writer, "name", generating->name);
    json_writer_member_text(&writer, "seed", generating->seed);
    json_writer_member_u64(&writer, "events", scenario->events);
    json_writer_member_u64(&writer, "allocations", scenario->allocations);
    json_writer_end_object(&writer);
    return lab_print_json(lab, &writer);
}

/* Tells the workload to a sink. log_status. */
static int tell(const struct lab *lab, const struct generating *generating,
                struct scenario *scenario, const struct log_sink *sink)
{
    int status = scenario_begin(scenario, generating->seed, lab->memory, sink);
    if (status != LOG_FINE)
        return status;
    if (generating->shape)
        generating->shape->tell(scenario, generating->values);
    else if (generating->public_case)
        generating->public_case->tell(scenario, generating->variant);
    return scenario->status;
}

/* Before anything is written: whether the form has words for all of it. */
static int check_form(struct lab *lab, const struct generating *generating)
{
    struct scenario scenario;
    bool told = true;
    const struct log_sink sink = {.context = &told, .record = generate_rmm_tells};
    if (generating->form != GENERATE_RMM)
        return LAB_FINE;
    if (tell(lab, generating, &scenario, &sink) == LOG_NO_MEMORY)
        return lab_no_memory(lab);
    return told ? LAB_FINE
                : lab_error(lab, LAB_BAD, "invalid_argument",
                            "RMM's log has no word for what this workload does, which is more than "
                            "to allocate and to free: use --as trace");
}

static int generate(struct lab *lab, const struct generating *generating, FILE *to,
                    const char *name)
{
    struct scenario scenario = {0};
    struct generate_writer writer;
    const struct log_sink sink = {.context = &writer, .record = generate_writer_record};
    generate_writer_init(&writer, generating->form, to, &scenario, lab->memory);
    int status = LOG_FINE;
    if (generate_writer_begin(&writer) == 0)
        status = tell(lab, generating, &scenario, &sink);
    errno = 0;
    if (status == LOG_FINE && writer.failure == 0 && fflush(to) != 0)
        writer.failure = errno != 0 ? errno : EIO;
    int failure = writer.failure;
    generate_writer_release(&writer);
    if (failure != 0)
        return lab_not_written(lab, name, failure);
    return status == LOG_FINE ? print_summary(lab, generating, &scenario) : lab_no_memory(lab);
}

int perform_generate(struct lab *lab)
{
    struct generating generating = {.form = GENERATE_TRACE};
    const char *name =
        lab_has(lab, LAB_OPTION_output) ? lab->line.values[LAB_OPTION_output].text : NULL;
    int status = read_wanted(lab, &generating);
    if (status != LAB_FINE)
        return status;
    status = check_form(lab, &generating);
    if (status != LAB_FINE)
        return status;
    FILE *to = name ? fopen(name, "we") : lab->output.out;
    if (!to)
        return lab_not_written(lab, name, errno);
    status = generate(lab, &generating, to, name);
    if (name && fclose(to) != 0 && status == LAB_FINE)
        status = lab_not_written(lab, name, errno);
    return status;
}
