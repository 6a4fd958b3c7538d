/* Fuzz target: sessions of several clients over the real connection code: bytes in any pieces,
 * requests from a phrase book between them, clients that do not read, shut their side, vanish and
 * come anew, and time that goes on. Answers are as session_witness.h says; nothing is left.
 *
 * The input: steps, each a byte of what (its low 3 bits) and who (the rest), and what it needs. */
#include "tests/fuzz/fixed_entropy.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/session_witness.h"

enum {
    SEND,   /* a length, so many bytes */
    PHRASE, /* which one */
    TURN,
    LOOK,
    WAIT,   /* in units of 0.1 s */
    DEAF,   /* or no longer */
    LEAVE,  /* even: its side is shut; odd: at once */
    CONNECT /* the user: 0 is root */
};

static const char *const phrases[] = {
    "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096}}\n",
    "{\"id\":\"a\",\"method\":\"allocate\",\"params\":{\"requested_bytes\":70000,\"tag\":\"t\"}}\n",
    "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":512,\"detached\":true}}\n",
    "{\"id\":2,\"method\":\"free\",\"params\":{\"handle\":\"@0\"}}\n",
    "{\"id\":3,\"method\":\"free\",\"params\":{\"handle\":\"@3\"}}\n",
    "{\"id\":4,\"method\":\"free\",\"params\":{\"tag\":\"t\"}}\n",
    "{\"id\":5,\"method\":\"snapshot\"}\n",
    "{\"id\":6,\"method\":\"subscribe\",\"params\":{\"after\":0}}\n",
    "{\"id\":7,\"method\":\"unsubscribe\"}\n",
    "{\"id\":8,\"method\":\"open\",\"params\":{\"name\":\"p\",\"policy\":\"torch\"}}\n",
    "{\"id\":9,\"method\":\"allocate\",\"params\":{\"allocator\":\"p\",\"requested_bytes\":9}}\n",
    "{\"id\":10,\"method\":\"subscribe\",\"params\":{\"allocator\":\"p\"}}\n",
    "{\"id\":11,\"method\":\"close\",\"params\":{\"allocator\":\"p\"}}\n",
    ("{\"id\":12,\"method\":\"inject\",\"params\":{\"action\":\"delay\",\"delay_ms\":300,"
     "\"every\":2}}\n"),
    "{\"id\":13,\"method\":\"inject\",\"params\":{\"action\":\"disconnect_before\",\"nth\":3}}\n",
    "{\"id\":14,\"method\":\"inject\",\"params\":{\"action\":\"disconnect_after\",\"nth\":3}}\n",
    "{\"id\":15,\"method\":\"inject\",\"params\":{\"action\":\"out_of_memory\",\"every\":2}}\n",
    "{\"id\":16,\"method\":\"inject\",\"params\":{\"action\":\"forget\",\"allocator\":\"p\"}}\n",
    "{\"id\":17,\"method\":\"rules_clear\"}\n",
    "{\"id\":18,\"method\":\"resize\",\"params\":{\"gpu_capacity\":65536}}\n",
    "{\"id\":19,\"method\":\"list\",\"params\":{\"orphans\":true}}\n",
    "{\"id\":20,\"method\":\"clients\"}\n",
    "{\"id\":21,\"method\":\"trace\"}\n",
    "{\"id\":22,\"method\":\"metrics\"}\n",
    "{\"id\":23,\"method\":\"validate\"}\n",
    "{\"id\":24,\"method\":\"map\",\"params\":{\"cells\":1000}}\n",
    "{\"id\":25,\"method\":\"info\"}\n{\"id\":26,\"method\":\"info\"}\n{\"id\":27,",
    "\n",
    " \t\r\n",
    "{",
};

static void make_deaf_or_not(struct session_witness *witness, size_t who)
{
    struct memory_client *client = witness->clients[who].client;
    client->deaf = !client->deaf;
}

static void step(struct session_witness *witness, struct fuzz_input *input)
{
    uint8_t what = fuzz_byte(input);
    size_t who = (what >> 3u) % witness->client_count;
    size_t length;
    const char *text;
    switch (what & 7u) {
    case SEND:
        length = fuzz_byte(input);
        text = (const char *)fuzz_bytes(input, length, &length);
        session_witness_send(witness, who, text, length);
        break;
    case PHRASE:
        text = phrases[fuzz_byte(input) % (sizeof(phrases) / sizeof(phrases[0]))];
        session_witness_send(witness, who, text, strlen(text));
        break;
    case TURN:
        memory_daemon_turn(&witness->daemon);
        break;
    case LOOK:
        memory_daemon_turn(&witness->daemon);
        session_witness_look(witness);
        break;
    case WAIT:
        memory_daemon_wait(&witness->daemon, fuzz_byte(input) * UINT64_C(100));
        break;
    case DEAF:
        make_deaf_or_not(witness, who);
        break;
    case LEAVE:
        if (fuzz_byte(input) % 2 == 0)
            session_witness_shut(witness, who);
        else
            session_witness_hang_up(witness, who);
        break;
    case CONNECT:
        session_witness_connect(witness, fuzz_byte(input) % 3u);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct session_witness witness;
    struct fuzz_input input = {data, size};
    fixed_entropy_restart();
    session_witness_begin(&witness, "--capacity=256KiB --trace-limit=32 --max-line-bytes=1024 "
                                    "--max-output-bytes=131072 --max-unread-bytes=8192 "
                                    "--max-requests-per-turn=3 --max-half-line-seconds=5 "
                                    "--max-user-gpu-bytes=200000 --max-rules=8 "
                                    "--max-allocators-per-connection=2");
    insist(session_witness_connect(&witness, 0) && session_witness_connect(&witness, 1));
    while (input.left > 0)
        step(&witness, &input);
    session_witness_end(&witness);
    return 0;
}
