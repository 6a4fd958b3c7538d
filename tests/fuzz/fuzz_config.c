/* Fuzz target: what people write to set worsegpud up. What is taken means what it says, what is
 * refused is refused with one sentence in one line, and nothing is left behind.
 *
 * The first byte of the input says what the rest is: 'f' a configuration file, 'w' the words of a
 * command line (one a line), 'i' the words of --inject, 'k' and a policy's number the policy's
 * knobs. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/options_table.h"
#include "lib/worsegpu.h"
#include "proto/inject_words.h"
#include "proto/request.h"
#include "tests/fuzz/fixed_entropy.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/chaos.h"
#include "tests/support/naive_json.h"

enum {
    MOST_WORDS = 64,
    PATH_SIZE = 64,
    VALUE_SIZE = 8192,
    MOST_MEMORY_BYTES = 16 << 20 /* for an allocator with such knobs */
};

static void check_message(const char *message, size_t size)
{
    insist(message[0] != '\0' && memchr(message, '\0', size) != NULL);
    insist(!strchr(message, '\n'));
}

/* ------------------------------------------------------------------------------ options */

/* Reads these words; whether all was fine. */
static bool read_words(struct options *options, struct chaos *chaos, int argc, char **argv)
{
    char message[OPTIONS_MESSAGE_SIZE] = "";
    chaos_init(chaos);
    enum options_result result = options_read(options, &chaos->memory, argc, argv, message);
    insist(result == OPTIONS_FINE || result == OPTIONS_WRONG);
    if (result == OPTIONS_FINE)
        return true;
    check_message(message, sizeof(message));
    insist(chaos->live_pieces == 0 && chaos->live_bytes == 0);
    return false;
}

static void release(struct options *options, struct chaos *chaos)
{
    options_release(options);
    insist(chaos->live_pieces == 0 && chaos->live_bytes == 0);
}

/* A file without a name that has these bytes. */
static int make_file(const void *bytes, size_t length, char path[PATH_SIZE])
{
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    insist(descriptor >= 0);
    insist(write(descriptor, bytes, length) == (ssize_t)length);
    snprintf(path, PATH_SIZE, "--config=/proc/self/fd/%d", descriptor);
    return descriptor;
}

static bool read_file(struct options *options, struct chaos *chaos, char *config)
{
    static char program[] = "worsegpud";
    char *argv[] = {program, config, NULL};
    return read_words(options, chaos, 2, argv);
}

/* Writes the options of one scope as a file has them. Empty texts stand for nothing given. */
static void write_scope(FILE *file, struct options *options, struct gpu_options *gpu)
{
    static char value[VALUE_SIZE];
    for (size_t index = 0; index < options_count(); index++) {
        if (options_info(index)->of_gpu != (gpu != NULL))
            continue;
        option_show(index, option_place(options, gpu, index), value, sizeof(value));
        if (value[0] != '\0')
            fprintf(file, "%s=%s\n", options_info(index)->flag, value);
    }
}

static void assert_same_scope(struct options *left, struct gpu_options *left_gpu,
                              struct options *right, struct gpu_options *right_gpu)
{
    for (size_t index = 0; index < options_count(); index++)
        if (options_info(index)->of_gpu == (left_gpu != NULL))
            insist(option_same(index, option_place(left, left_gpu, index),
                               option_place(right, right_gpu, index)));
}

/* Options written as a file and read again are the same. */
static void write_and_read(struct options *options)
{
    char path[PATH_SIZE];
    char *text = NULL;
    size_t length;
    struct chaos chaos;
    struct options again;
    FILE *file = open_memstream(&text, &length);
    insist(file != NULL);
    write_scope(file, options, NULL);
    for (size_t i = 0; i < options->gpu_count; i++) {
        fprintf(file, "[%s]\n", options->gpus[i].name);
        write_scope(file, options, &options->gpus[i]);
    }
    insist(fclose(file) == 0);
    int descriptor = make_file(text, length, path);
    insist(read_file(&again, &chaos, path));
    insist(again.gpu_count == options->gpu_count);
    assert_same_scope(options, NULL, &again, NULL);
    for (size_t i = 0; i < options->gpu_count; i++) {
        insist(strcmp(options->gpus[i].name, again.gpus[i].name) == 0);
        assert_same_scope(options, &options->gpus[i], &again, &again.gpus[i]);
    }
    release(&again, &chaos);
    close(descriptor);
    free(text);
}

static void try_file(const struct fuzz_input *input)
{
    char path[PATH_SIZE];
    struct chaos chaos;
    struct options options;
    int descriptor = make_file(input->at, input->left, path);
    if (read_file(&options, &chaos, path)) {
        write_and_read(&options);
        release(&options, &chaos);
    }
    close(descriptor);
}

static void try_words(char *text)
{
    static char program[] = "worsegpud";
    char *argv[MOST_WORDS + 1] = {program};
    int argc = 1;
    char *rest = NULL;
    struct chaos chaos;
    struct options options;
    for (char *word = strtok_r(text, "\n", &rest); word && argc < MOST_WORDS;
         word = strtok_r(NULL, "\n", &rest))
        if (strncmp(word, "--co", 4) != 0) /* --config: any file of this machine */
            argv[argc++] = word;
    if (read_words(&options, &chaos, argc, argv))
        release(&options, &chaos);
}

/* ------------------------------------------------------------------------------ rules, knobs */

static void try_inject(const char *text)
{
    char message[INJECT_WORDS_MESSAGE_SIZE] = "";
    struct chaos chaos;
    struct json_writer writer;
    struct request_decoder decoder;
    struct request request;
    struct request_problem problem;
    chaos_init(&chaos);
    json_writer_init(&writer, &chaos.memory, 1 << 20);
    json_writer_begin_object(&writer);
    json_writer_member_u64(&writer, "id", 1);
    json_writer_member_text(&writer, "method", "inject");
    json_writer_key(&writer, "params");
    size_t mark = writer.length;
    enum inject_words_result result = inject_words_write_text(text, &writer, message);
    insist(writer.failure == JSON_WRITER_FINE);
    if (result == INJECT_WORDS_FINE) {
        json_writer_end_object(&writer);
        insist(naive_json_is_strict(writer.data, writer.length, NULL, NULL));
        request_decoder_init(&decoder, &chaos.memory);
        /* Whether a name or a number is one that may be, only the request says. */
        if (request_decode(&decoder, writer.data, writer.length, &request, &problem) !=
            REQUEST_FINE) {
            insist(problem.kind == ERROR_INVALID_PARAMS && problem.data_name != NULL);
            check_message(problem.message, sizeof(problem.message));
        }
        request_decoder_release(&decoder);
    } else {
        insist(result == INJECT_WORDS_WRONG && writer.length == mark);
        check_message(message, sizeof(message));
    }
    json_writer_release(&writer);
    insist(chaos.live_pieces == 0 && chaos.live_bytes == 0);
}

/* A chaos that has so much memory and no more. */
static void *limited_resize(void *context, void *pointer, size_t old_bytes, size_t new_bytes)
{
    struct chaos *chaos = context;
    if (new_bytes > MOST_MEMORY_BYTES || chaos->live_bytes + new_bytes > MOST_MEMORY_BYTES)
        return NULL;
    return chaos->memory.resize(chaos, pointer, old_bytes, new_bytes);
}

static void try_knobs(const char *text, uint8_t policy)
{
    char problem[WORSEGPU_PROBLEM_SIZE] = "";
    struct chaos chaos;
    const struct worsegpu_memory limited = {limited_resize, &chaos};
    struct worsegpu_config config;
    worsegpu_allocator *allocator = NULL;
    size_t policies = 0;
    while (worsegpu_policy_name(policies))
        policies++;
    chaos_init(&chaos);
    worsegpu_config_default(&config);
    config.policy = worsegpu_policy_name(policy % policies);
    config.knobs = text;
    config.seed = "7";
    config.memory = &limited;
    int status = worsegpu_config_check(&config, NULL, NULL);
    insist(status == worsegpu_knobs_check(&config, problem));
    if (status != WORSEGPU_OK)
        check_message(problem, sizeof(problem));
    int created = worsegpu_create(&config, &allocator);
    insist(created == status || (status == WORSEGPU_OK && created == WORSEGPU_NO_MEMORY));
    insist((created == WORSEGPU_OK) == (allocator != NULL));
    worsegpu_destroy(allocator);
    insist(chaos.live_pieces == 0 && chaos.live_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t what = fuzz_byte(&input);
    uint8_t policy = what == 'k' ? fuzz_byte(&input) : 0;
    char *text = malloc(input.left + 1);
    insist(text != NULL);
    memcpy(text, input.at, input.left);
    text[input.left] = '\0';
    fixed_entropy_restart();
    if (what == 'f')
        try_file(&input);
    else if (what == 'w')
        try_words(text);
    else if (what == 'i')
        try_inject(text);
    else if (what == 'k')
        try_knobs(text, policy);
    free(text);
    return 0;
}
