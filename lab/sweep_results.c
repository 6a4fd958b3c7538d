/* Files with the results of a sweep: read, repaired, sorted, written; see sweep.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "lab/sweep.h"
#include "lab/sweep_columns.h"

enum {
    READ_BYTES = 1 << 16,
    NAME_SIZE = 4096
};

void sweep_results_init(struct sweep_results *results, const struct worsegpu_memory *memory)
{
    *results = (struct sweep_results){.memory = memory};
}

void sweep_results_release(struct sweep_results *results)
{
    const struct worsegpu_memory *memory = results->memory;
    for (size_t i = 0; i < results->file_count; i++)
        memory_release_array(memory, results->files[i].content, results->files[i].bytes, 1);
    memory_release_array(memory, results->files, results->file_capacity, sizeof(*results->files));
    memory_release_array(memory, results->lines, results->capacity, sizeof(*results->lines));
    sweep_results_init(results, memory);
}

/* ------------------------------------------------------------------------------ reading */

static int no_memory(char problem[SWEEP_PROBLEM_SIZE])
{
    snprintf(problem, SWEEP_PROBLEM_SIZE, "there is not enough memory");
    return LAB_MEMORY;
}

/* All of a file into memory. LAB_FINE or the exit status. */
static int read_content(const struct worsegpu_memory *memory, const char *name, bool may_miss,
                        char **content, size_t *bytes, char problem[SWEEP_PROBLEM_SIZE])
{
    size_t capacity = 0;
    size_t length = 0;
    *content = NULL;
    *bytes = 0;
    FILE *file = fopen(name, "re");
    if (!file) {
        if (may_miss && errno == ENOENT)
            return LAB_FINE;
        snprintf(problem, SWEEP_PROBLEM_SIZE, "cannot read %.300s: %s", name,
                 strerrordesc_np(errno));
        return LAB_FILE;
    }
    int status = LAB_FINE;
    for (size_t got = 1; status == LAB_FINE && got > 0; length += got) {
        got = 0;
        if (memory_grow(memory, content, &capacity, length + READ_BYTES, 1) != 0)
            status = no_memory(problem);
        else
            got = fread(*content + length, 1, READ_BYTES, file);
    }
    if (status == LAB_FINE && ferror(file)) {
        snprintf(problem, SWEEP_PROBLEM_SIZE, "cannot read %.300s", name);
        status = LAB_FILE;
    }
    fclose(file);
    /* What is left over of the buffer is given back, so that its size need not be kept. */
    char *exact = NULL;
    if (status == LAB_FINE && length > 0) {
        exact = memory_allocate_array(memory, length, 1);
        if (exact)
            memcpy(exact, *content, length);
        else
            status = no_memory(problem);
    }
    memory_release_array(memory, *content, capacity, 1);
    *content = exact;
    *bytes = exact ? length : 0;
    return status;
}

__attribute__((format(printf, 4, 5))) static int
bad_line(char problem[SWEEP_PROBLEM_SIZE], const char *name, uint64_t line, const char *format, ...)
{
    va_list list;
    char what[SWEEP_PROBLEM_SIZE - 300];
    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    snprintf(problem, SWEEP_PROBLEM_SIZE, "%.200s: line %llu: %s", name, (unsigned long long)line,
             what);
    return LAB_BAD;
}

/* Checks a line against those before it, and keeps it. */
static int take_line(struct sweep_results *results, const struct json_document *document,
                     struct sweep_line *line, uint64_t number, char problem[SWEEP_PROBLEM_SIZE])
{
    const char *name = results->files[line->file].name;
    uint64_t points;
    const cJSON *id = json_document_member(document->root, "sweep");
    if (!cJSON_IsString(id) || strlen(id->valuestring) != SWEEP_ID_SIZE - 1 ||
        !json_document_u64(document, json_document_member(document->root, "points"), &points) ||
        !json_document_u64(document, json_document_member(document->root, "point"), &line->point))
        return bad_line(problem, name, number, "this is no result of a sweep");
    if (results->id[0] == '\0') {
        memcpy(results->id, id->valuestring, SWEEP_ID_SIZE);
        results->points = points;
    }
    if (strcmp(results->id, id->valuestring) != 0 || results->points != points)
        return bad_line(problem, name, number,
                        "a result of another sweep (%s, not %s): its specification, a log or the "
                        "version was another one",
                        id->valuestring, results->id);
    if (line->point == 0 || line->point > points)
        return bad_line(problem, name, number, "there is no point %llu among %llu",
                        (unsigned long long)line->point, (unsigned long long)points);
    if (memory_grow(results->memory, &results->lines, &results->capacity, results->count + 1,
                    sizeof(*results->lines)) != 0)
        return no_memory(problem);
    results->lines[results->count++] = *line;
    return LAB_FINE;
}

static int read_lines(struct sweep_results *results, size_t file, uint64_t *good, bool *torn,
                      char problem[SWEEP_PROBLEM_SIZE])
{
    const char *content = results->files[file].content;
    size_t left = results->files[file].bytes;
    struct json_document document;
    int status = LAB_FINE;
    json_document_init(&document, results->memory);
    for (uint64_t number = 1; status == LAB_FINE && left > 0; number++) {
        const char *end = memchr(content, '\n', left);
        if (!end) {
            *torn = true;
            break;
        }
        struct sweep_line line = {.text = content, .length = (size_t)(end - content), .file = file};
        enum strict_json_result read = json_document_read(&document, line.text, line.length);
        if (read == STRICT_JSON_NO_MEMORY)
            status = no_memory(problem);
        else if (read != STRICT_JSON_FINE || !cJSON_IsObject(document.root))
            status = bad_line(problem, results->files[file].name, number,
                              "this is no result of a sweep");
        else
            status = take_line(results, &document, &line, number, problem);
        *good += line.length + 1;
        left -= line.length + 1;
        content = end + 1;
    }
    json_document_release(&document);
    return status;
}

int sweep_results_read(struct sweep_results *results, const char *name, bool may_miss,
                       uint64_t *good, bool *torn, char problem[SWEEP_PROBLEM_SIZE])
{
    size_t file = results->file_count;
    *good = 0;
    *torn = false;
    if (memory_grow(results->memory, &results->files, &results->file_capacity, file + 1,
                    sizeof(*results->files)) != 0)
        return no_memory(problem);
    struct sweep_file *entry = &results->files[file];
    entry->name = name;
    int status =
        read_content(results->memory, name, may_miss, &entry->content, &entry->bytes, problem);
    if (status != LAB_FINE)
        return status;
    results->file_count++;
    return read_lines(results, file, good, torn, problem);
}

/* ------------------------------------------------------------------------------ sorting */

static int by_point(const void *one, const void *two)
{
    const struct sweep_line *a = one;
    const struct sweep_line *b = two;
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    return (a->file > b->file) - (a->file < b->file);
}

int sweep_results_sort(struct sweep_results *results, char problem[SWEEP_PROBLEM_SIZE])
{
    if (results->count > 0)
        qsort(results->lines, results->count, sizeof(*results->lines), by_point);
    for (size_t i = 1; i < results->count; i++) {
        const struct sweep_line *a = &results->lines[i - 1];
        const struct sweep_line *b = &results->lines[i];
        if (a->point != b->point)
            continue;
        if (a->file == b->file)
            snprintf(problem, SWEEP_PROBLEM_SIZE, "point %llu is twice in %.300s",
                     (unsigned long long)a->point, results->files[a->file].name);
        else
            snprintf(problem, SWEEP_PROBLEM_SIZE, "point %llu is in %.200s and in %.200s",
                     (unsigned long long)a->point, results->files[a->file].name,
                     results->files[b->file].name);
        return LAB_BAD;
    }
    return LAB_FINE;
}

/* ------------------------------------------------------------------------------ writing */

static int write_lines(const struct sweep_results *results, FILE *file, bool csv,
                       char problem[SWEEP_PROBLEM_SIZE])
{
    struct json_document document;
    int status = LAB_FINE;
    json_document_init(&document, results->memory);
    if (csv)
        sweep_csv_head(file);
    for (size_t i = 0; status == LAB_FINE && i < results->count; i++) {
        const struct sweep_line *line = &results->lines[i];
        if (!csv) {
            fwrite(line->text, 1, line->length, file);
            fputc('\n', file);
        } else if (json_document_read(&document, line->text, line->length) == STRICT_JSON_FINE) {
            sweep_csv_row(file, &document);
        } else {
            status = no_memory(problem); /* it could be read before */
        }
    }
    json_document_release(&document);
    return status;
}

static int cannot_write(const char *name, char problem[SWEEP_PROBLEM_SIZE])
{
    snprintf(problem, SWEEP_PROBLEM_SIZE, "cannot write %.300s: %s", name, strerrordesc_np(errno));
    return LAB_FILE;
}

int sweep_results_write(const struct sweep_results *results, const char *name, bool csv,
                        char problem[SWEEP_PROBLEM_SIZE])
{
    char beside[NAME_SIZE];
    if (snprintf(beside, sizeof(beside), "%s.part", name) >= (int)sizeof(beside)) {
        snprintf(problem, SWEEP_PROBLEM_SIZE, "the name of a file is too long");
        return LAB_FILE;
    }
    FILE *file = fopen(beside, "we");
    if (!file)
        return cannot_write(beside, problem);
    int status = write_lines(results, file, csv, problem);
    bool written = ferror(file) == 0;
    written = fclose(file) == 0 && written;
    if (status == LAB_FINE && !written)
        status = cannot_write(beside, problem);
    if (status == LAB_FINE && rename(beside, name) != 0)
        status = cannot_write(name, problem);
    if (status != LAB_FINE)
        unlink(beside);
    return status;
}
