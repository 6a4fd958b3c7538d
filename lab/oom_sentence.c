/* Torch's sentence about an out of memory; see oom_sentence.h. Figures are found one by one, by the
 * words around them (oom_sentence.def): so parts may be missing, and may come in any order. */
#include "lab/oom_sentence.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/memory.h"

struct figure_words {
    enum oom_figure figure;
    const char *before;
    const char *after;
};

static const struct figure_words WORDS[] = {
#define FIGURE(name, before, after) {OOM_##name, before, after},
#include "lab/oom_sentence.def"
};

struct wording {
    const char *since;
    const char *sentence;
};

static const struct wording WORDINGS[] = {
#define WORDING(since, sentence) {since, sentence},
#include "lab/oom_sentence.def"
};

const char *oom_sentence_example(size_t index, const char **since)
{
    if (index >= sizeof(WORDINGS) / sizeof(WORDINGS[0]))
        return NULL;
    *since = WORDINGS[index].since;
    return WORDINGS[index].sentence;
}

/* ------------------------------------------------------------------------------ pieces */

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *at, const char *with)
{
    size_t length = strlen(with);
    return (size_t)(at - text) >= length && memcmp(at - length, with, length) == 0;
}

/* Blanks and line ends count as one blank, so that pasted and folded sentences are the same. */
static void fold(const char *text, size_t length, char *folded)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        if (!is_blank(text[i]))
            folded[count++] = text[i] == '\0' ? '?' : text[i];
        else if (count > 0 && folded[count - 1] != ' ')
            folded[count++] = ' ';
    }
    folded[count] = '\0';
}

/* A number with a unit; *after is what follows it. */
static bool read_size(const char *at, const char **after, double *bytes)
{
    static const struct {
        const char *unit;
        double bytes;
    } UNITS[] = {
        {"bytes", 1}, {"KiB", 1024},   {"MiB", 1048576},   {"GiB", 1073741824},
        {"KB", 1024}, {"MB", 1048576}, {"GB", 1073741824}, {"TiB", 1099511627776.0},
        {"B", 1},
    };
    char digits[32];
    size_t length = strspn(at, "0123456789.");
    if (length == 0 || length >= sizeof(digits))
        return false;
    memcpy(digits, at, length);
    digits[length] = '\0';
    at += length;
    at += *at == ' ';
    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        if (!begins(at, UNITS[i].unit))
            continue;
        *after = at + strlen(UNITS[i].unit);
        if (!number_from_text(digits, bytes))
            return false;
        *bytes *= UNITS[i].bytes;
        return true;
    }
    return false;
}

/* A plain number behind some words, anywhere. */
static bool find_number(const char *text, const char *before, uint64_t *number)
{
    for (const char *at = strstr(text, before); at; at = strstr(at + 1, before)) {
        char digits[24];
        const char *first = at + strlen(before);
        size_t length = strspn(first, "0123456789");
        if (length == 0 || length >= sizeof(digits))
            continue;
        memcpy(digits, first, length);
        digits[length] = '\0';
        if (count_from_text(digits, number))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------ reading */

/* "Process 123 has " before `at`: its number. */
static bool is_process(const char *text, const char *at, uint64_t *pid)
{
    char digits[24];
    if (!ends(text, at, " has "))
        return false;
    const char *end = at - strlen(" has ");
    const char *first = end;
    while (first > text && is_digit(first[-1]))
        first--;
    size_t length = (size_t)(end - first);
    if (length == 0 || length >= sizeof(digits) || !ends(text, first, "Process "))
        return false;
    memcpy(digits, first, length);
    digits[length] = '\0';
    return count_from_text(digits, pid);
}

static void take_size(const char *text, const char *at, const char *after, double bytes,
                      struct oom_sentence *sentence)
{
    uint64_t pid;
    if (begins(after, " memory in use") && is_process(text, at, &pid)) {
        if (sentence->process_count < OOM_PROCESSES)
            sentence->processes[sentence->process_count++] =
                (struct oom_process){pid, {true, bytes}};
        return;
    }
    for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++) {
        struct oom_size *size = &sentence->figures[WORDS[i].figure];
        if (size->known || !begins(after, WORDS[i].after) || !ends(text, at, WORDS[i].before))
            continue;
        *size = (struct oom_size){true, bytes};
        return;
    }
}

static void find_sizes(const char *text, struct oom_sentence *sentence)
{
    for (const char *at = text; *at != '\0';) {
        const char *after;
        double bytes;
        bool first = is_digit(*at) && (at == text || (!is_digit(at[-1]) && at[-1] != '.'));
        if (first && read_size(at, &after, &bytes)) {
            take_size(text, at, after, bytes, sentence);
            at = after;
        } else {
            at++;
        }
    }
}

/* What some wordings leave out follows from the others. */
static void complete(struct oom_sentence *sentence)
{
    struct oom_size *figures = sentence->figures;
    if (!figures[OOM_reserved].known && figures[OOM_allocated].known &&
        figures[OOM_unallocated].known)
        figures[OOM_reserved] =
            (struct oom_size){true, figures[OOM_allocated].bytes + figures[OOM_unallocated].bytes};
    if (!figures[OOM_unallocated].known && figures[OOM_allocated].known &&
        figures[OOM_reserved].known) {
        double rest = figures[OOM_reserved].bytes - figures[OOM_allocated].bytes;
        figures[OOM_unallocated] = (struct oom_size){true, rest > 0 ? rest : 0};
    }
}

/* Without a limit, cudaMallocAsync prints 2^64 bytes as one. */
static void drop_absurd(struct oom_sentence *sentence)
{
    const double exabyte = 1152921504606846976.0;
    for (size_t i = 0; i < OOM_FIGURES; i++) {
        if (i != OOM_asked && sentence->figures[i].bytes >= exabyte)
            sentence->figures[i].known = false;
    }
    for (size_t i = 0; i < sentence->process_count; i++) {
        if (sentence->processes[i].size.bytes >= exabyte)
            sentence->processes[i].size.known = false;
    }
}

static bool understand(const char *text, struct oom_sentence *sentence)
{
    find_sizes(text, sentence);
    complete(sentence);
    drop_absurd(sentence);
    sentence->hip = strstr(text, "HIP out of memory") || strstr(text, "HIP error");
    sentence->device_known = find_number(text, "GPU ", &sentence->device) ||
                             find_number(text, "on device ", &sentence->device);
    sentence->variable = strstr(text, "PYTORCH_ALLOC_CONF")       ? "PYTORCH_ALLOC_CONF"
                         : strstr(text, "PYTORCH_HIP_ALLOC_CONF") ? "PYTORCH_HIP_ALLOC_CONF"
                                                                  : "PYTORCH_CUDA_ALLOC_CONF";
    if (strstr(text, "more than 1EB memory")) {
        sentence->kind = OOM_KIND_ABSURD;
        return true;
    }
    if (sentence->figures[OOM_asked].known) {
        sentence->kind = strstr(text, "MPS backend")             ? OOM_KIND_MPS
                         : strstr(text, "Currently allocated :") ? OOM_KIND_ASYNC
                                                                 : OOM_KIND_CACHING;
        return strstr(text, "out of memory") || sentence->figures[OOM_total].known;
    }
    sentence->kind = OOM_KIND_SILENT;
    return strstr(text, "CUDA error: out of memory") || strstr(text, "HIP error: out of memory") ||
           (strstr(text, "cuda runtime error") && strstr(text, "out of memory")) ||
           strstr(text, "CUDA_ERROR_OUT_OF_MEMORY");
}

int oom_sentence_read(const char *text, size_t length, const struct worsegpu_memory *memory,
                      struct oom_sentence *sentence)
{
    length = length < OOM_MOST_BYTES ? length : OOM_MOST_BYTES;
    char *folded = memory_allocate_array(memory, length + 1, 1);
    if (!folded)
        return -1;
    memset(sentence, 0, sizeof(*sentence));
    fold(text, length, folded);
    bool understood = understand(folded, sentence);
    memory_release_array(memory, folded, length + 1, 1);
    return understood ? 0 : 1;
}

/* ------------------------------------------------------------------------------ judging */

static double value(const struct oom_sentence *sentence, enum oom_figure figure)
{
    return sentence->figures[figure].known ? sentence->figures[figure].bytes : 0;
}

static bool known(const struct oom_sentence *sentence, enum oom_figure figure)
{
    return sentence->figures[figure].known;
}

/* What counts against a limit of this process. */
static double taken(const struct oom_sentence *sentence)
{
    return value(sentence, known(sentence, OOM_reserved) ? OOM_reserved : OOM_allocated) +
           value(sentence, OOM_outside);
}

/* What other processes have. Before 2.1 it was not told: then it is what is missing from the
 * device, less 1 GiB for what the driver and the libraries of this one take. */
static void find_others(const struct oom_sentence *sentence, struct oom_verdict *verdict)
{
    const double own = 536870912.0;
    bool this_told = known(sentence, OOM_this_process);
    for (size_t i = 0; i < sentence->process_count; i++) {
        if (!sentence->processes[i].size.known)
            continue;
        verdict->others_told = true;
        verdict->others.known = true;
        verdict->others.bytes += sentence->processes[i].size.bytes;
    }
    /* In a container this one may be told by its number only: the one that has what torch has. */
    if (verdict->others_told && !this_told && sentence->process_count >= 1) {
        double nearest = -1;
        for (size_t i = 0; i < sentence->process_count; i++) {
            double bytes = sentence->processes[i].size.bytes;
            if (sentence->processes[i].size.known && bytes >= taken(sentence) &&
                (nearest < 0 || bytes < nearest))
                nearest = bytes;
        }
        verdict->others.bytes -= nearest > 0 ? nearest : 0;
    }
    if (verdict->others_told || !known(sentence, OOM_total) || !known(sentence, OOM_free))
        return;
    double rest = value(sentence, OOM_total) - value(sentence, OOM_free);
    rest -= this_told ? value(sentence, OOM_this_process) : taken(sentence) + own;
    verdict->others = (struct oom_size){true, rest > 0 ? rest : 0};
}

/* What torch asks the device for: 2 MiB for up to 1 MiB, 20 MiB below 10 MiB. */
static double from_device(double asked)
{
    const double mebibyte = 1048576.0;
    if (asked <= mebibyte)
        return 2 * mebibyte;
    return asked < 10 * mebibyte ? 20 * mebibyte : asked;
}

/* Which of the large holders of memory could have served the request: the largest one that could;
 * OOM_CAUSE_UNKNOWN: none. */
static enum oom_cause large_holder(const struct oom_sentence *sentence,
                                   const struct oom_verdict *verdict)
{
    double total = value(sentence, OOM_total);
    double needed = value(sentence, OOM_asked) - value(sentence, OOM_free);
    double outside = value(sentence, OOM_this_process) - taken(sentence);
    double pools = value(sentence, OOM_private_pools);
    double largest = 0;
    enum oom_cause cause = OOM_CAUSE_UNKNOWN;
    if (pools >= needed && pools * 2 >= value(sentence, OOM_allocated) && pools > largest) {
        largest = pools;
        cause = OOM_CAUSE_PRIVATE_POOLS;
    }
    if (outside >= needed && outside * 5 >= total && outside > largest) {
        largest = outside;
        cause = OOM_CAUSE_OUTSIDE;
    }
    if (verdict->others.known && verdict->others.bytes >= needed &&
        verdict->others.bytes * 10 >= total && verdict->others.bytes > largest)
        cause = OOM_CAUSE_OTHERS;
    return cause;
}

/* Pieces that are next to nothing, beside what others hold or on a device that is full, are not
 * what it is about. */
static bool is_small_change(const struct oom_sentence *sentence, const struct oom_verdict *verdict)
{
    double total = value(sentence, OOM_total);
    return known(sentence, OOM_total) && value(sentence, OOM_unallocated) * 20 < total &&
           (value(sentence, OOM_allocated) * 10 >= total * 9 ||
            large_holder(sentence, verdict) != OOM_CAUSE_UNKNOWN);
}

static enum oom_cause cause_of(const struct oom_sentence *sentence,
                               const struct oom_verdict *verdict)
{
    double asked = value(sentence, OOM_asked);
    double held = value(sentence, OOM_unallocated);
    double room = value(sentence, OOM_free);
    if ((known(sentence, OOM_total) && asked > value(sentence, OOM_total)) ||
        (known(sentence, OOM_allowed) && asked > value(sentence, OOM_allowed)))
        return OOM_CAUSE_TOO_LARGE;
    if (known(sentence, OOM_allowed) &&
        taken(sentence) + from_device(asked) > value(sentence, OOM_allowed))
        return OOM_CAUSE_LIMIT;
    if (known(sentence, OOM_free) && room >= from_device(asked))
        return OOM_CAUSE_ROOM;
    if (held > 0 && held * 2 >= asked && held + room >= asked &&
        !is_small_change(sentence, verdict))
        return OOM_CAUSE_FRAGMENTATION;
    enum oom_cause holder = large_holder(sentence, verdict);
    if (holder != OOM_CAUSE_UNKNOWN)
        return holder;
    return known(sentence, OOM_allocated) || known(sentence, OOM_total) ? OOM_CAUSE_FULL
                                                                        : OOM_CAUSE_UNKNOWN;
}

void oom_sentence_judge(const struct oom_sentence *sentence, struct oom_verdict *verdict)
{
    memset(verdict, 0, sizeof(*verdict));
    if (sentence->kind == OOM_KIND_ABSURD || sentence->kind == OOM_KIND_SILENT) {
        verdict->cause = sentence->kind == OOM_KIND_ABSURD ? OOM_CAUSE_ABSURD : OOM_CAUSE_UNKNOWN;
        return;
    }
    find_others(sentence, verdict);
    verdict->spilled = known(sentence, OOM_total) && known(sentence, OOM_allocated) &&
                       value(sentence, OOM_allocated) > value(sentence, OOM_total) * 1.01;
    verdict->cause = cause_of(sentence, verdict);
    verdict->also_fragmented = known(sentence, OOM_unallocated) &&
                               verdict->cause != OOM_CAUSE_FRAGMENTATION &&
                               verdict->cause != OOM_CAUSE_ROOM &&
                               value(sentence, OOM_unallocated) * 4 >= value(sentence, OOM_asked);
}
