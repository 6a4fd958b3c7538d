/* Fuzz target: strict_json's verdict is that of a second judge, it finds the same numbers, and what
 * it takes, cJSON takes too, with the spelling of every number.
 *
 * The input is the text. */
#include "base/memory.h"
#include "proto/json_document.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/naive_json.h"

/* The numbers of strict_json, ticked off as the naive judge meets them. */
struct ticking {
    const struct strict_json *json;
    size_t met;
};

static void tick(void *context, size_t start, size_t length)
{
    struct ticking *ticking = context;
    const struct strict_json *json = ticking->json;
    insist(ticking->met < json->number_count);
    insist(json->numbers[ticking->met].start == start);
    insist(json->numbers[ticking->met].length == length);
    ticking->met++;
}

/* The numbers below an item, each of which must be spelled as one. */
static size_t count_numbers(const struct json_document *document, const cJSON *item)
{
    size_t count = 0;
    if (cJSON_IsNumber(item)) {
        size_t length;
        const char *spelling = json_document_spelling(document, item, &length);
        insist(length > 0 && (*spelling == '-' || (*spelling >= '0' && *spelling <= '9')));
        return 1;
    }
    cJSON_ArrayForEach(item, item) count += count_numbers(document, item);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_document document;
    char *text = fuzz_copy(data, size);
    json_document_init(&document, memory_system());
    struct strict_json *json = &document.strict;
    enum strict_json_result result = strict_json_check(json, text, size);
    struct ticking ticking = {.json = json, .met = 0};
    bool fine = result == STRICT_JSON_FINE;
    insist(fine || (result == STRICT_JSON_REFUSED && json->why && json->where <= size));
    insist(fine == naive_json_is_strict(text, size, fine ? tick : NULL, &ticking));
    insist(!fine || (ticking.met == json->number_count && !json->why));
    insist(json_document_read(&document, text, size) == result);
    insist(fine == (document.root != NULL));
    if (fine)
        insist(count_numbers(&document, document.root) == json->number_count);
    json_document_release(&document);
    free(text);
    return 0;
}
