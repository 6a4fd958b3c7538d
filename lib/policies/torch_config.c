/* Reading the text of PYTORCH_CUDA_ALLOC_CONF, and the rounding that it governs; see
 * torch_config.h.
 *
 * The grammar and the ranges are facts about c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.6.0. A
 * text is cut into words at commas, colons and brackets, which are words themselves; blanks mean
 * nothing. A comma at the end is fine there, so it is here. */
#include "lib/policies/torch_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "lib/policies/torch_internal.h"

enum {
    LEAST_MIB = 20,             /* both sizes must be greater */
    LARGEST_NUMBER = INT32_MAX, /* PyTorch reads its numbers as int */
    MOST_REGISTER_THREADS = 128,
    LONGEST_NUMBER = 40,
    SHOWN = 40 /* bytes of a foreign word that a sentence repeats */
};

struct reading {
    const char *next;
    const char *end;
    const char *word; /* the last one read */
    size_t length;    /* 0: there was none */
    struct torch_settings *settings;
    char *problem;
};

static bool is_mark(char byte)
{
    return byte == ',' || byte == ':' || byte == '[' || byte == ']';
}

static bool advance(struct reading *reading)
{
    while (reading->next < reading->end && *reading->next == ' ')
        reading->next++;
    reading->word = reading->next;
    while (reading->next < reading->end && *reading->next != ' ' && !is_mark(*reading->next))
        reading->next++;
    if (reading->next == reading->word && reading->next < reading->end)
        reading->next++;
    reading->length = (size_t)(reading->next - reading->word);
    return reading->length > 0;
}

static bool at_end(struct reading *reading)
{
    while (reading->next < reading->end && *reading->next == ' ')
        reading->next++;
    return reading->next == reading->end;
}

static bool word_is(const struct reading *reading, const char *text)
{
    return strlen(text) == reading->length && memcmp(text, reading->word, reading->length) == 0;
}

/* Repeats the last word in `text`, printable; "nothing" at the end. */
static const char *shown(const struct reading *reading, char text[SHOWN + 3])
{
    if (reading->length == 0)
        return "nothing";
    size_t length = reading->length < SHOWN ? reading->length : SHOWN;
    text[0] = '"';
    for (size_t i = 0; i < length; i++)
        text[i + 1] = reading->word[i] > ' ' && reading->word[i] <= '~' ? reading->word[i] : '?';
    text[length + 1] = '"';
    text[length + 2] = '\0';
    return text;
}

/* "alloc_conf: NAME must be EXPECTED, not WORD"; false. */
static bool refuse(const struct reading *reading, const char *name, const char *expected)
{
    char text[SHOWN + 3];
    snprintf(reading->problem, KNOBS_PROBLEM_SIZE, "alloc_conf: %s must be %s, not %s", name,
             expected, shown(reading, text));
    return false;
}

static bool expect(struct reading *reading, const char *mark, const char *after)
{
    char text[SHOWN + 3];
    if (advance(reading) && word_is(reading, mark))
        return true;
    snprintf(reading->problem, KNOBS_PROBLEM_SIZE,
             "alloc_conf: after %s there must be a \"%s\", not %s", after, mark,
             shown(reading, text));
    return false;
}

static bool number_of_word(const struct reading *reading, char text[LONGEST_NUMBER])
{
    if (reading->length == 0 || reading->length >= LONGEST_NUMBER)
        return false;
    memcpy(text, reading->word, reading->length);
    text[reading->length] = '\0';
    return true;
}

static bool count_of_word(const struct reading *reading, uint64_t *count)
{
    char text[LONGEST_NUMBER];
    return number_of_word(reading, text) && count_from_text(text, count) &&
           *count <= LARGEST_NUMBER;
}

static bool is_power_of_two(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

/* ------------------------------------------------------------------------------ values */

static bool read_mib(struct reading *reading, const char *name, uint64_t *bytes)
{
    uint64_t mib;
    advance(reading);
    if (!count_of_word(reading, &mib) || mib <= LEAST_MIB)
        return refuse(reading, name, "a whole number of MiB above 20");
    *bytes = mib << 20;
    return true;
}

static bool read_max_split(struct reading *reading, const char *name)
{
    return read_mib(reading, name, &reading->settings->max_split_bytes);
}

static bool read_non_split_rounding(struct reading *reading, const char *name)
{
    return read_mib(reading, name, &reading->settings->non_split_rounding_bytes);
}

static bool read_collection(struct reading *reading, const char *name)
{
    char text[LONGEST_NUMBER];
    double number;
    advance(reading);
    if (!number_of_word(reading, text) || !number_from_text(text, &number) || !(number > 0) ||
        !(number < 1))
        return refuse(reading, name, "a number above 0 and below 1");
    reading->settings->collection_threshold = number;
    return true;
}

static bool read_yesno(struct reading *reading, const char *name, bool *yes)
{
    advance(reading);
    *yes = word_is(reading, "True");
    if (!*yes && !word_is(reading, "False"))
        return refuse(reading, name, "True or False");
    return true;
}

static bool read_expandable(struct reading *reading, const char *name)
{
    return read_yesno(reading, name, &reading->settings->expandable);
}

/* It has no meaning here: one thread, no host memory. */
static bool read_harmless(struct reading *reading, const char *name)
{
    bool yes;
    return read_yesno(reading, name, &yes);
}

static bool read_register_threads(struct reading *reading, const char *name)
{
    uint64_t count;
    advance(reading);
    if (!count_of_word(reading, &count) || !is_power_of_two(count) || count > MOST_REGISTER_THREADS)
        return refuse(reading, name, "a power of two up to 128");
    return true;
}

static bool read_backend(struct reading *reading, const char *name)
{
    advance(reading);
    if (word_is(reading, "native"))
        return true;
    if (word_is(reading, "cudaMallocAsync")) {
        snprintf(reading->problem, KNOBS_PROBLEM_SIZE,
                 "alloc_conf: backend:cudaMallocAsync is another allocator, which this policy does "
                 "not model; only backend:native is");
        return false;
    }
    return refuse(reading, name, "native");
}

static bool read_division(struct reading *reading, const char *name, uint64_t *division)
{
    if (!count_of_word(reading, division) || !is_power_of_two(*division))
        return refuse(reading, name, "a power of two");
    return true;
}

static void fill(uint64_t *divisions, size_t from, size_t to, uint64_t division)
{
    for (size_t i = from; i < to; i++)
        divisions[i] = division;
}

/* The list form, after its "[". Each entry sets the interval it names, the first one all below it
 * as well; ">" all from the last named one on. What is between stays as it was. */
static bool read_division_list(struct reading *reading, const char *name)
{
    uint64_t *divisions = reading->settings->divisions;
    size_t last = 0;
    bool first = true;
    while (advance(reading) && !word_is(reading, "]")) {
        bool rest = word_is(reading, ">");
        uint64_t mib = 0;
        if (!rest && (!count_of_word(reading, &mib) || !is_power_of_two(mib)))
            return refuse(reading, "an interval of roundup_power2_divisions",
                          "a power of two (MiB) or \">\"");
        uint64_t division;
        if (!expect(reading, ":", "an interval of roundup_power2_divisions"))
            return false;
        advance(reading);
        if (!read_division(reading, "a number in roundup_power2_divisions", &division))
            return false;
        if (rest) {
            fill(divisions, last, TORCH_DIVISIONS, division);
        } else {
            last = (size_t)(63 - __builtin_clzll(mib));
            last = last < TORCH_DIVISIONS ? last : TORCH_DIVISIONS - 1;
            fill(divisions, first ? 0 : last, last + 1, division);
            first = false;
        }
        advance(reading);
        if (word_is(reading, "]"))
            return true;
        if (!word_is(reading, ","))
            return refuse(reading, "what follows an entry of roundup_power2_divisions",
                          "\",\" or \"]\"");
    }
    return reading->length > 0 || refuse(reading, name, "closed by \"]\"");
}

static bool read_divisions(struct reading *reading, const char *name)
{
    advance(reading);
    if (word_is(reading, "["))
        return read_division_list(reading, name);
    uint64_t division;
    if (!read_division(reading, name, &division))
        return false;
    fill(reading->settings->divisions, 0, TORCH_DIVISIONS, division);
    return true;
}

/* ------------------------------------------------------------------------------ names */

struct setting {
    const char *name;
    bool (*read)(struct reading *reading, const char *name);
};

static const struct setting known[] = {
    {"max_split_size_mb", read_max_split},
    {"max_non_split_rounding_mb", read_non_split_rounding},
    {"garbage_collection_threshold", read_collection},
    {"roundup_power2_divisions", read_divisions},
    {"expandable_segments", read_expandable},
    {"backend", read_backend},
    {"release_lock_on_cudamalloc", read_harmless},
    {"release_lock_on_hipmalloc", read_harmless},
    {"pinned_use_cuda_host_register", read_harmless},
    {"pinned_use_hip_host_register", read_harmless},
    {"pinned_num_register_threads", read_register_threads},
    {"pinned_use_background_threads", read_harmless},
};

static bool read_setting(struct reading *reading)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (word_is(reading, known[i].name))
            return expect(reading, ":", known[i].name) && known[i].read(reading, known[i].name);
    }
    char text[SHOWN + 3];
    snprintf(reading->problem, KNOBS_PROBLEM_SIZE,
             "alloc_conf: %s is no setting of PyTorch 2.6; there are max_split_size_mb, "
             "max_non_split_rounding_mb, garbage_collection_threshold, roundup_power2_divisions, "
             "expandable_segments, backend, release_lock_on_cudamalloc and pinned_...",
             shown(reading, text));
    return false;
}

void torch_settings_default(struct torch_settings *settings)
{
    *settings = (struct torch_settings){
        .max_split_bytes = UINT64_MAX,
        .non_split_rounding_bytes = TORCH_LARGE_SEGMENT,
    };
}

bool torch_settings_read(const char *text, size_t bytes, struct torch_settings *settings,
                         char problem[KNOBS_PROBLEM_SIZE])
{
    struct reading reading = {
        .next = text,
        .end = bytes > 0 ? text + bytes : text,
        .settings = settings,
        .problem = problem,
    };
    while (advance(&reading)) {
        if (!read_setting(&reading))
            return false;
        if (!at_end(&reading) && !expect(&reading, ",", "a value"))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------ rounding */

uint64_t torch_settings_round(const struct torch_settings *settings, uint64_t bytes)
{
    if (bytes < TORCH_LEAST_BLOCK)
        return TORCH_LEAST_BLOCK;
    unsigned power = 63U - (unsigned)__builtin_clzll(bytes);
    unsigned interval = power < 20 ? 0 : power - 20;
    if (interval >= TORCH_DIVISIONS)
        interval = TORCH_DIVISIONS - 1;
    uint64_t division = settings->divisions[interval];
    uint64_t step = TORCH_LEAST_BLOCK;
    if (division > 1 && bytes > TORCH_LEAST_BLOCK * division)
        step = (UINT64_C(1) << power) / division; /* a multiple of 512; a power of two stays */
    return (bytes + step - 1) & ~(step - 1);
}
