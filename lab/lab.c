/* worsegpu-lab: reads the command line, hands over to the command, and makes sure that what it
 * printed was really written. */
#include "lab/lab.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/version.h"

typedef int (*command_function)(struct lab *lab);

static const command_function FUNCTIONS[LAB_COMMANDS] = {
#define COMMAND(name, operands, least, most, summary, details, example)                            \
    [LAB_COMMAND_##name] = perform_##name,
#include "lab/commands.def"
};

int perform_help(struct lab *lab)
{
    const char *nearest;
    if (lab->line.operand_count == 0) {
        command_line_overview(lab_table(), &lab->output);
        return LAB_FINE;
    }
    const char *name = lab->line.operands[0];
    size_t command = command_line_find(lab_table(), name, &nearest);
    if (command == LAB_COMMANDS) {
        char problem[COMMAND_LINE_PROBLEM_SIZE];
        char advice[COMMAND_LINE_PROBLEM_SIZE];
        snprintf(problem, sizeof(problem), "there is no command \"%s\"", name);
        snprintf(advice, sizeof(advice), "%s%s", nearest ? "did you mean: worsegpu-lab help " : "",
                 nearest ? nearest : "all there are: worsegpu-lab help");
        return lab_usage(lab, problem, advice);
    }
    command_line_help(lab_table(), &lab->output, command);
    return LAB_FINE;
}

static int say_hello(struct lab *lab)
{
    output_advice(&lab->output, "%s", lab_table()->about);
    output_advice(&lab->output, "  worsegpu-lab inspect LOG    what a log holds");
    output_advice(&lab->output, "  worsegpu-lab compare LOG    the log under every policy");
    output_advice(&lab->output, "  worsegpu-lab help           all commands");
    return LAB_USAGE;
}

static int dispatch(struct lab *lab)
{
    if (lab_has(lab, LAB_OPTION_version)) {
        output_text(&lab->output, "worsegpu-lab %s\n", WORSEGPU_VERSION);
        return LAB_FINE;
    }
    if (lab->line.command == LAB_COMMANDS)
        return lab_has(lab, LAB_OPTION_help) ? perform_help(lab) : say_hello(lab);
    if (lab_has(lab, LAB_OPTION_help)) {
        command_line_help(lab_table(), &lab->output, lab->line.command);
        return LAB_FINE;
    }
    return FUNCTIONS[lab->line.command](lab);
}

/* What could not be written turns success into failure. A reader that went away (EPIPE) knows it
 * already. */
static int finish(struct lab *lab, int status)
{
    lab_hide_progress(lab);
    int failure = output_flush(&lab->output);
    if (failure == 0)
        return status;
    if (failure != EPIPE)
        output_complaint(&lab->output, lab_table()->program, "cannot write to standard output: %s",
                         strerrordesc_np(failure));
    return status == LAB_FINE ? LAB_BAD : status;
}

int lab_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out, FILE *errors)
{
    struct lab lab = {.memory = memory};
    int status;
    output_init(&lab.output, out, errors);
    size_t room = argc > 0 ? (size_t)argc : 1;
    struct words {
        const char *operand;
        const char *text;
        size_t option;
    };
    const char **texts = memory_allocate_array(memory, room, sizeof(struct words));
    if (!texts)
        return finish(&lab, lab_no_memory(&lab));
    int problem = command_line_read(&lab.line, lab_table(), argc, argv, texts, texts + room,
                                    (size_t *)(texts + 2 * room));
    lab.output.json = lab_has(&lab, LAB_OPTION_json);
    if (problem != 0)
        status = lab_usage(&lab, lab.line.problem, lab.line.advice);
    else
        status = dispatch(&lab);
    status = finish(&lab, status);
    memory_release_array(memory, texts, room, sizeof(struct words));
    return status;
}
