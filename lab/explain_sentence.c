/* explain --oom: torch's own sentence, figure by figure, what it most likely means, and what to do.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "lab/explain.h"
#include "lab/oom_sentence.h"

enum {
    MOST_STEPS = 6,
    STEP_SIZE = 320
};

static const struct {
    const char *name; /* in JSON */
    const char *title;
    const char *meaning;
} FIGURES[OOM_FIGURES] = {
    [OOM_asked] = {"asked_bytes", "asked for", "by the tensor that failed, rounded up"},
    [OOM_total] = {"total_bytes", "device", "all that the GPU has"},
    [OOM_free] = {"free_bytes", "free", "what the driver would still give to anybody"},
    [OOM_allocated] = {"allocated_bytes", "allocated", "live tensors of this process"},
    [OOM_reserved] = {"reserved_bytes", "reserved", "what torch has taken from the driver in all"},
    [OOM_unallocated] =
        {"unallocated_bytes", "unallocated",
         "reserved, but in no tensor: pieces in segments where something else lives"},
    [OOM_private_pools] = {"private_pools_bytes", "private pools",
                           "of the allocated: kept for CUDA graphs, of no use to others"},
    [OOM_allowed] = {"allowed_bytes", "allowed", "the limit that was set for this process"},
    [OOM_this_process] = {"this_process_bytes", "this process",
                          "with the driver's context and libraries beside torch"},
    [OOM_outside] = {"outside_bytes", "beside torch", "of this process, but not through torch"},
};

/* What it comes to. */
struct judged {
    struct oom_sentence sentence;
    struct oom_verdict verdict;
    char steps[MOST_STEPS][STEP_SIZE];
    size_t step_count;
};

/* Two decimals, as torch prints them. */
static void size_text(double bytes, char text[48])
{
    static const char *const UNITS[] = {"bytes", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    while (unit < 3 && bytes >= 1024) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 48, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, UNITS[unit]);
}

/* ------------------------------------------------------------------------------ causes, steps */

static const char *cause_word(enum oom_cause cause)
{
    static const char *const NAMES[] = {
        [OOM_CAUSE_TOO_LARGE] = "too_large",
        [OOM_CAUSE_LIMIT] = "limit",
        [OOM_CAUSE_FRAGMENTATION] = "fragmentation",
        [OOM_CAUSE_PRIVATE_POOLS] = "private_pools",
        [OOM_CAUSE_OTHERS] = "other_processes",
        [OOM_CAUSE_OUTSIDE] = "outside_torch",
        [OOM_CAUSE_FULL] = "full",
        [OOM_CAUSE_ROOM] = "device_has_room",
        [OOM_CAUSE_ABSURD] = "absurd_size",
        [OOM_CAUSE_UNKNOWN] = "unknown",
    };
    return NAMES[cause];
}

static const char *cause_text(const struct judged *judged)
{
    switch (judged->verdict.cause) {
    case OOM_CAUSE_TOO_LARGE:
        return "This one request is larger than the whole device, or than the limit of the "
               "process. "
               "Freeing cannot help.";
    case OOM_CAUSE_LIMIT:
        return "The limit of this process is reached, not the device's memory.";
    case OOM_CAUSE_FRAGMENTATION:
        return "Fragmentation: torch holds enough memory that no tensor uses, but not in one "
               "piece. "
               "What could be given back whole was given back before this error.";
    case OOM_CAUSE_PRIVATE_POOLS:
        return "CUDA graphs hold it: memory in private pools serves nothing but the graphs it was "
               "captured for.";
    case OOM_CAUSE_OTHERS:
        return judged->verdict.others_told ? "Other processes have what is missing."
                                           : "Somebody else has what is missing: other processes, "
                                             "or this one's context and "
                                             "libraries. The sentence does not say who.";
    case OOM_CAUSE_OUTSIDE:
        return "This process has it, but not through torch: the context, libraries (NCCL, cuBLAS "
               "workspaces), or another framework in it.";
    case OOM_CAUSE_FULL:
        return "The device is full of live tensors: no setting of the allocator makes room for "
               "this.";
    case OOM_CAUSE_ROOM:
        return "The driver says that the device has room for this, and refused all the same: a "
               "quota "
               "(container, MIG, vGPU), another process that was quicker or has ended since, a "
               "private pool, or a driver that does not give all that it shows.";
    case OOM_CAUSE_ABSURD:
        return "A size of more than an exabyte is a mistake in a shape: a negative or overflown "
               "size, "
               "or a message from another process read wrongly.";
    case OOM_CAUSE_UNKNOWN:
    default:
        return "The driver itself refused, outside torch's allocator, so there are no figures: "
               "making "
               "the context, loading a kernel or a library, or a device that another process has "
               "filled.";
    }
}

__attribute__((format(printf, 2, 3))) static void step(struct judged *judged, const char *format,
                                                       ...)
{
    va_list list;
    if (judged->step_count == MOST_STEPS)
        return;
    va_start(list, format);
    vsnprintf(judged->steps[judged->step_count++], STEP_SIZE, format, list);
    va_end(list);
}

static void steps_against_pieces(struct judged *judged)
{
    const char *variable = judged->sentence.variable;
    step(judged, "%s=expandable_segments:True, before torch first uses the GPU", variable);
    step(judged,
         "where that is not to be had: %s=max_split_size_mb:128; try several sizes on a "
         "recorded log: worsegpu-lab fit LOG --policy torch --vary "
         "max_split_size_mb=default,32,128,512",
         variable);
    step(judged,
         "record what happens (torch.cuda.memory._record_memory_history, _dump_snapshot), then: "
         "worsegpu-lab explain SNAPSHOT --capacity SIZE");
}

static void steps_for_less(struct judged *judged)
{
    step(judged,
         "need less at once: a smaller batch, gradient accumulation or checkpointing, lower "
         "precision, optimiser states elsewhere");
    step(judged,
         "look for tensors that live too long (losses kept with their graph, outputs kept in "
         "lists, a second model): worsegpu-lab inspect SNAPSHOT");
}

static void find_steps(struct judged *judged)
{
    if (judged->sentence.kind == OOM_KIND_ASYNC)
        step(judged,
             "this is the backend cudaMallocAsync, whose pool may hold what is missing: "
             "torch.cuda.empty_cache(), or %s=backend:native, which also tells more figures",
             judged->sentence.variable);
    switch (judged->verdict.cause) {
    case OOM_CAUSE_TOO_LARGE:
        step(judged,
             "make this tensor smaller, or cut it up: look at the shape of the operation that "
             "failed");
        step(judged, "if the shape is as meant: a larger device, or more of them");
        break;
    case OOM_CAUSE_LIMIT:
        step(judged,
             judged->sentence.kind == OOM_KIND_MPS
                 ? "raise the limit: PYTORCH_MPS_HIGH_WATERMARK_RATIO (0.0 is none; the system may "
                   "then run out of memory)"
                 : "raise the limit: torch.cuda.set_per_process_memory_fraction, or what set it");
        steps_for_less(judged);
        break;
    case OOM_CAUSE_FRAGMENTATION:
        steps_against_pieces(judged);
        step(judged, "torch.cuda.empty_cache() does not help here: it was done before the error");
        break;
    case OOM_CAUSE_PRIVATE_POOLS:
        step(judged, "capture fewer graphs, or smaller shapes; let graphs share one pool");
        step(judged, "drop graphs that are not needed any more, with their pools");
        steps_for_less(judged);
        break;
    case OOM_CAUSE_OTHERS:
        step(judged, "see who they are: %s",
             judged->sentence.hip ? "rocm-smi --showpids" : "nvidia-smi");
        step(judged, "end what was left over from earlier runs, or take another device "
                     "(CUDA_VISIBLE_DEVICES)");
        step(judged, "where sharing is meant: set_per_process_memory_fraction in each of them");
        break;
    case OOM_CAUSE_OUTSIDE:
        step(judged, "find it: nvidia-smi before and after each library is first used");
        step(judged, "another framework in the process: keep it from taking memory in advance "
                     "(XLA_PYTHON_CLIENT_PREALLOCATE=false, allow_growth)");
        break;
    case OOM_CAUSE_ROOM:
        step(judged, "look whether another process came and went: nvidia-smi in a loop");
        step(judged, "look for a quota: the container's, MIG, vGPU, a job system's");
        step(judged, "try again once: if it then works, it was a race");
        break;
    case OOM_CAUSE_ABSURD:
        step(judged, "print the shape of the tensor that failed; look for -1, overflow of 32 bits, "
                     "unset sizes");
        break;
    case OOM_CAUSE_FULL:
        steps_for_less(judged);
        step(judged, "which device would do: worsegpu-lab fit SNAPSHOT --policy torch");
        break;
    case OOM_CAUSE_UNKNOWN:
    default:
        step(judged, "see who uses the device: nvidia-smi");
        step(judged,
             "run again with CUDA_LAUNCH_BLOCKING=1: the error may belong to an earlier call");
        break;
    }
    if (judged->verdict.also_fragmented && judged->verdict.cause != OOM_CAUSE_TOO_LARGE)
        step(judged, "pieces are a part of it: %s=expandable_segments:True gives them back",
             judged->sentence.variable);
}

/* ------------------------------------------------------------------------------ printing */

static void print_figures(struct lab *lab, const struct judged *judged)
{
    struct output *output = &lab->output;
    char text[48];
    output_styled(output, OUTPUT_BOLD, "What it says");
    output_text(output, "\n");
    for (size_t i = 0; i < OOM_FIGURES; i++) {
        if (!judged->sentence.figures[i].known)
            continue;
        size_text(judged->sentence.figures[i].bytes, text);
        output_text(output, "  %-14s %14s  %s", FIGURES[i].title, text, FIGURES[i].meaning);
        if (i == OOM_total && judged->sentence.device_known)
            output_text(output, " (number %" PRIu64 ")", judged->sentence.device);
        output_text(output, "\n");
    }
    for (size_t i = 0; i < judged->sentence.process_count; i++) {
        const struct oom_process *process = &judged->sentence.processes[i];
        size_text(process->size.bytes, text);
        output_text(output, "  %-14s %14s  process %" PRIu64 "%s\n", "a process",
                    process->size.known ? text : "?", process->pid,
                    i == 0 && !judged->sentence.figures[OOM_this_process].known
                        ? "; in a container this may be the one that failed"
                        : "");
    }
    if (judged->verdict.others.known && !judged->verdict.others_told &&
        judged->verdict.others.bytes * 100 >= judged->sentence.figures[OOM_total].bytes) {
        size_text(judged->verdict.others.bytes, text);
        output_text(output, "  %-14s %14s  %s\n", "others, about", text,
                    "not told: what is missing from the device");
    }
}

static int print_text(struct lab *lab, const struct judged *judged)
{
    struct output *output = &lab->output;
    bool figures =
        judged->sentence.kind != OOM_KIND_ABSURD && judged->sentence.kind != OOM_KIND_SILENT;
    if (figures) {
        print_figures(lab, judged);
        output_text(output, "\n");
    }
    output_styled(output, OUTPUT_BOLD, "What it most likely is");
    output_text(output, "\n  %s\n", cause_text(judged));
    if (judged->verdict.spilled)
        output_text(output,
                    "  More is allocated than the device has: the driver has put a part of it into "
                    "the host's memory, which is slow.\n");
    output_text(output, "\n");
    output_styled(output, OUTPUT_BOLD, "What to do, in this order");
    output_text(output, "\n");
    for (size_t i = 0; i < judged->step_count; i++)
        output_text(output, "  %zu. %s\n", i + 1, judged->steps[i]);
    return LAB_FINE;
}

static uint64_t whole(double bytes)
{
    return bytes < 9e18 ? (uint64_t)(bytes + 0.5) : UINT64_MAX;
}

static int print_json(struct lab *lab, const struct judged *judged)
{
    struct json_writer writer;
    lab_begin_json(lab, &writer);
    json_writer_begin_object(&writer);
    for (size_t i = 0; i < OOM_FIGURES; i++) {
        if (judged->sentence.figures[i].known)
            json_writer_member_u64(&writer, FIGURES[i].name,
                                   whole(judged->sentence.figures[i].bytes));
    }
    if (judged->sentence.device_known)
        json_writer_member_u64(&writer, "device", judged->sentence.device);
    json_writer_key(&writer, "processes");
    json_writer_begin_array(&writer);
    for (size_t i = 0; i < judged->sentence.process_count; i++) {
        json_writer_begin_object(&writer);
        json_writer_member_u64(&writer, "pid", judged->sentence.processes[i].pid);
        if (judged->sentence.processes[i].size.known)
            json_writer_member_u64(&writer, "bytes",
                                   whole(judged->sentence.processes[i].size.bytes));
        json_writer_end_object(&writer);
    }
    json_writer_end_array(&writer);
    if (judged->verdict.others.known)
        json_writer_member_u64(&writer, "others_bytes", whole(judged->verdict.others.bytes));
    json_writer_member_text(&writer, "cause", cause_word(judged->verdict.cause));
    json_writer_member_text(&writer, "explanation", cause_text(judged));
    json_writer_member_bool(&writer, "also_fragmented", judged->verdict.also_fragmented);
    json_writer_member_bool(&writer, "spilled", judged->verdict.spilled);
    json_writer_key(&writer, "steps");
    json_writer_begin_array(&writer);
    for (size_t i = 0; i < judged->step_count; i++)
        json_writer_text(&writer, judged->steps[i]);
    json_writer_end_array(&writer);
    json_writer_end_object(&writer);
    return lab_print_json(lab, &writer);
}

/* ------------------------------------------------------------------------------ the whole */

/* One error that shows what is understood. */
static int refuse(struct lab *lab)
{
    const char *since;
    const char *example;
    int status =
        lab_error(lab, LAB_BAD, "bad_sentence",
                  "this is no sentence of torch about an out of memory that is known here");
    output_advice(&lab->output,
                  "known are these, whole or in part (the version that brought each):");
    for (size_t i = 0; (example = oom_sentence_example(i, &since)) != NULL; i++) {
        char folded[100];
        snprintf(folded, sizeof(folded), "%s", example);
        for (char *at = folded; *at != '\0'; at++)
            *at = *at == '\n' ? ' ' : *at;
        output_advice(&lab->output, "  %-16s%s%s", since, folded,
                      strlen(example) >= sizeof(folded) ? "..." : "");
    }
    return status;
}

static int explain_text(struct lab *lab, const char *text, size_t length)
{
    struct judged judged = {.step_count = 0};
    int status = oom_sentence_read(text, length, lab->memory, &judged.sentence);
    if (status != 0)
        return status < 0 ? lab_no_memory(lab) : refuse(lab);
    oom_sentence_judge(&judged.sentence, &judged.verdict);
    find_steps(&judged);
    return lab->output.json ? print_json(lab, &judged) : print_text(lab, &judged);
}

int explain_sentence(struct lab *lab, const char *text)
{
    struct log_source *source;
    struct log_problem problem = {""};
    const unsigned char *bytes;
    size_t length;
    if (strcmp(text, "-") != 0)
        return explain_text(lab, text, strlen(text));
    int status = log_source_open("-", lab->memory, &source, &problem);
    if (status != LOG_FINE)
        return lab_log_error(lab, "standard input", status, &problem);
    status = log_source_peek(source, OOM_MOST_BYTES, &bytes, &length, &problem);
    status = status == LOG_FINE ? explain_text(lab, (const char *)bytes, length)
                                : lab_log_error(lab, "standard input", status, &problem);
    log_source_close(source);
    return status;
}
