/* Fuzz target: request lines through dispatch, against a daemon in memory: each is answered once,
 * in strict JSON, under its id, and every allocator is valid afterwards.
 *
 * The input: who asks, the policy, the fallback; then lines. '@0' to '@9' are the last handles. */
#include <stdio.h>

#include "lib/worsegpu.h"
#include "tests/fuzz/fixed_entropy.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/session_witness.h"

static size_t policies(void)
{
    size_t count = 0;
    while (worsegpu_policy_name(count))
        count++;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct session_witness witness;
    struct fuzz_input input = {data, size};
    char options[256];
    uint8_t how = fuzz_byte(&input);
    fixed_entropy_restart();
    snprintf(
        options, sizeof(options),
        "--policy=%s --fallback-on-oom=%s --gpu-probability=%s --capacity=1MiB --trace-limit=8 "
        "--max-line-bytes=1024 --max-rules=4 --max-allocators-per-connection=2 "
        "--max-client-allocations=%d",
        worsegpu_policy_name(fuzz_byte(&input) % policies()), how & 1 ? "true" : "false",
        how & 2 ? "1" : "0.65", how & 4 ? 4 : 0);
    session_witness_begin(&witness, options);
    insist(session_witness_connect(&witness, how & 8 ? 1000 : 0));
    while (input.left > 0) {
        const uint8_t *newline = memchr(input.at, '\n', input.left);
        size_t length;
        const uint8_t *line =
            fuzz_bytes(&input, newline ? (size_t)(newline - input.at) + 1 : input.left, &length);
        session_witness_send(&witness, 0, (const char *)line, length);
        session_witness_settle(&witness);
    }
    session_witness_end(&witness);
    return 0;
}
