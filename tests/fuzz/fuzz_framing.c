/* Fuzz target: bytes cut in any way give the lines and errors that they give at once, which are
 * those that a naive cutter finds; also when memory runs out on the way.
 *
 * The input: how long a line may be, which request for memory fails, the cuts, after which of them
 * lines are left lying for a while, the stream. */
#include "proto/framing.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/chaos.h"

/* Takes what the framing gives, and compares it with what the naive cutter expects next. */
struct cutter {
    const uint8_t *stream;
    size_t start; /* of the line that comes next */
    size_t sent;  /* bytes that have been lent so far */
    size_t max_line_bytes;
    bool skipping; /* the line was too long, which has been said */
};

static size_t end_of_line(const struct cutter *cutter)
{
    size_t end = cutter->start;
    while (end < cutter->sent && cutter->stream[end] != '\n')
        end++;
    return end;
}

/* What must come now, of what has been sent. */
static enum framing_result expect(struct cutter *cutter, const uint8_t **line, size_t *length)
{
    for (;;) {
        size_t start = cutter->start;
        size_t end = end_of_line(cutter);
        bool whole = end < cutter->sent;
        bool too_long = end - start >= cutter->max_line_bytes;
        bool told = cutter->skipping;
        if (whole) {
            cutter->start = end + 1;
            cutter->skipping = false;
        } else {
            cutter->skipping = told || too_long;
        }
        if (too_long && !told)
            return FRAMING_TOO_LONG;
        if (whole && !told) {
            *line = cutter->stream + start;
            *length = end - start - (end > start && cutter->stream[end - 1] == '\r' ? 1 : 0);
            return FRAMING_LINE;
        }
        if (!whole)
            return FRAMING_MORE;
    }
}

/* Takes at most `most` lines. */
static void take(struct framing *framing, struct cutter *cutter, struct chaos *chaos, size_t most)
{
    enum framing_result result = FRAMING_LINE;
    for (size_t taken = 0; taken < most && result != FRAMING_MORE; taken++) {
        const char *line = NULL;
        const uint8_t *wanted = NULL;
        size_t length = 0;
        size_t wanted_length = 0;
        result = framing_next(framing, &line, &length);
        if (result == FRAMING_NO_MEMORY) {
            insist(chaos->failed);
            result = framing_next(framing, &line, &length); /* once only */
        }
        insist(result == expect(cutter, &wanted, &wanted_length));
        insist(result != FRAMING_LINE ||
               (length == wanted_length && memcmp(line, wanted, length) == 0));
    }
}

static void run(const uint8_t *stream, size_t size, size_t max_line_bytes, struct fuzz_cuts cuts,
                unsigned lazy, uint8_t fail_at)
{
    struct chaos chaos;
    struct framing framing;
    struct cutter cutter = {.stream = stream, .max_line_bytes = max_line_bytes};
    size_t largest = 0; /* of the pieces so far */
    chaos_init(&chaos);
    chaos_arm(&chaos, fail_at, false);
    framing_init(&framing, &chaos.memory, max_line_bytes);
    for (unsigned piece = 0; cutter.sent < size; piece++) {
        size_t length = fuzz_cut(&cuts, size - cutter.sent);
        char *chunk = fuzz_copy(stream + cutter.sent, length);
        framing_feed(&framing, chunk, length);
        cutter.sent += length;
        bool in_line = stream[cutter.sent - 1] != '\n';
        insist(framing_in_line(&framing) == in_line);
        take(&framing, &cutter, &chaos, lazy >> piece % 8 & 1 ? piece % 3 : SIZE_MAX);
        if (framing_keep(&framing) != 0)
            insist(chaos.failed && framing_keep(&framing) == 0);
        free(chunk);
        insist(framing_in_line(&framing) == in_line);
        largest = length > largest ? length : largest;
        insist(framing.held_capacity <= max_line_bytes + largest);
        take(&framing, &cutter, &chaos, SIZE_MAX);
        insist(in_line || framing.held_capacity == 0);
    }
    framing_release(&framing);
    insist(chaos.live_pieces == 0 && chaos.live_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    size_t max_line_bytes = fuzz_byte(&input) + (size_t)1;
    uint8_t fail_at = fuzz_byte(&input);
    uint8_t lazy = fuzz_byte(&input);
    struct fuzz_cuts cuts = fuzz_take_cuts(&input);
    const struct fuzz_cuts none = {.count = 0};
    const struct fuzz_cuts bytes = {.lengths = (const uint8_t[]){0}, .count = 1};
    run(input.at, input.left, max_line_bytes, none, 0, 0);
    run(input.at, input.left, max_line_bytes, bytes, 0, 0);
    run(input.at, input.left, max_line_bytes, cuts, lazy, fail_at);
    return 0;
}
