/* Reporting errors; see report.h. */
#include "client/cli/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_text.h"
#include "client/cli/no_daemon.h"
#include "proto/errors.h"
#include "proto/json_writer.h"

#define NO_MEMORY_JSON                                                                             \
    "\"error\":{\"message\":\"there is not enough memory\",\"data\":{\"kind\":\"no_memory\"}}"

int report_exit(const struct worsegpu_client_error *error)
{
    enum error_kind kind;
    switch (error->status) {
    case WORSEGPU_CLIENT_OK:
        return CLI_FINE;
    case WORSEGPU_CLIENT_INVALID_ARGUMENT:
        return CLI_USAGE;
    case WORSEGPU_CLIENT_NO_MEMORY:
        return CLI_OUT_OF_MEMORY;
    case WORSEGPU_CLIENT_REFUSED:
        kind = error_kind_from_name(error->kind);
        return kind == ERROR_OUT_OF_MEMORY || kind == ERROR_QUOTA_EXCEEDED ? CLI_OUT_OF_MEMORY
                                                                           : CLI_REFUSED;
    default:
        return CLI_NO_DAEMON;
    }
}

/* How far a limit of bytes or counts is used up. */
static void advise_limit(struct cli *cli, const struct worsegpu_client_error *error)
{
    static const char COUNTS[] = "_allocations";
    size_t length = strlen(error->which);
    size_t ending = sizeof(COUNTS) - 1;
    uint64_t numbers[] = {error->limit, error->used, error->left};
    char texts[3][BYTES_TEXT_SIZE];
    if (length == 0 || !error->limit_given || !error->used_given || !error->left_given)
        return;
    bool counts = length > ending && strcmp(error->which + length - ending, COUNTS) == 0;
    for (size_t i = 0; i < 3; i++) {
        if (counts)
            snprintf(texts[i], sizeof(texts[i]), "%" PRIu64, numbers[i]);
        else
            bytes_to_text(numbers[i], false, texts[i]);
    }
    output_advice(&cli->output, "the limit is %s: %s, used %s, left %s", error->which, texts[0],
                  texts[1], texts[2]);
}

static void advise_refusal(struct cli *cli, const struct worsegpu_client_error *error)
{
    if (error->rule_given) {
        output_advice(&cli->output,
                      "rule %" PRIu64 " made it fail on purpose: worsegpu-cli rules; remove it "
                      "with: worsegpu-cli rules --clear %" PRIu64,
                      error->rule, error->rule);
        return;
    }
    advise_limit(cli, error);
    switch (error_kind_from_name(error->kind)) {
    case ERROR_LIMIT_EXCEEDED:
        if (cli->arguments.command == COMMAND_inject) {
            output_advice(&cli->output,
                          "remove rules that are spent: worsegpu-cli rules --clear N");
            break;
        }
        /* fall through */
    case ERROR_OUT_OF_MEMORY:
    case ERROR_QUOTA_EXCEEDED:
        output_advice(&cli->output, "see what is taken: worsegpu-cli snapshot; what can be freed: "
                                    "worsegpu-cli list");
        break;
    case ERROR_UNKNOWN_HANDLE:
    case ERROR_FOREIGN_HANDLE:
        output_advice(&cli->output, "see what is live: worsegpu-cli list");
        break;
    case ERROR_UNKNOWN_ALLOCATOR:
        output_advice(&cli->output, "see which there are: worsegpu-cli info");
        break;
    case ERROR_PERMISSION_DENIED:
        output_advice(&cli->output,
                      "who may: root, the daemon's own user, and members of its --admin-group; an "
                      "allocation is its own user's to free");
        break;
    case ERROR_METHOD_NOT_FOUND:
    case ERROR_INVALID_PARAMS:
        if (cli->arguments.command == COMMANDS || cli->arguments.command == COMMAND_call)
            output_advice(&cli->output, "see how it is called: worsegpu-cli help");
        else
            output_advice(&cli->output, "see how it is called: worsegpu-cli help %s",
                          command_info(cli->arguments.command)->name);
        break;
    default:
        break;
    }
}

static void advise_start(struct cli *cli)
{
    char advice[NO_DAEMON_ADVICE_SIZE];
    const char *given = cli->arguments.values.socket;
    const char *variable = getenv("WORSEGPU_SOCKET");
    bool by_option = given != NULL;
    if (!given && variable && variable[0] != '\0')
        given = variable;
    no_daemon_advice(given, by_option, "", advice);
    output_advice(&cli->output, "%s", advice);
}

static void advise(struct cli *cli, const struct worsegpu_client_error *error)
{
    switch (error->status) {
    case WORSEGPU_CLIENT_NO_DAEMON:
        advise_start(cli);
        break;
    case WORSEGPU_CLIENT_TIMEOUT:
        output_advice(&cli->output,
                      "wait longer with --timeout, or look whether the daemon is well");
        break;
    case WORSEGPU_CLIENT_CLOSED:
        output_advice(&cli->output, "look whether the daemon still runs, then try again");
        break;
    case WORSEGPU_CLIENT_BAD_REPLY:
        output_advice(&cli->output, "is it a worsegpud that listens there?");
        break;
    case WORSEGPU_CLIENT_REFUSED:
        advise_refusal(cli, error);
        break;
    default:
        break;
    }
}

void report_sentence(struct cli *cli, const char *what, const struct worsegpu_client_error *error)
{
    bool refused = error->status == WORSEGPU_CLIENT_REFUSED;
    output_complaint(&cli->output, cli->program, "%s%s%s%s%s", what ? what : "", what ? ": " : "",
                     refused ? error->kind : "", refused ? ": " : "", error->message);
    advise(cli, error);
}

static void write_member(struct json_writer *writer, const struct worsegpu_client_error *error)
{
    json_writer_key(writer, "error");
    json_writer_begin_object(writer);
    if (error->status == WORSEGPU_CLIENT_REFUSED)
        json_writer_member_i64(writer, "code", error->code);
    json_writer_member_text(writer, "message", error->message);
    json_writer_key(writer, "data");
    json_writer_begin_object(writer);
    json_writer_member_text(writer, "kind", error->kind);
    if (error->limit_given)
        json_writer_member_u64(writer, "limit", error->limit);
    if (error->used_given)
        json_writer_member_u64(writer, "used", error->used);
    if (error->which[0] != '\0')
        json_writer_member_text(writer, "which", error->which);
    if (error->left_given)
        json_writer_member_u64(writer, "left", error->left);
    if (error->rule_given)
        json_writer_member_u64(writer, "rule", error->rule);
    if (error->requested_bytes_given)
        json_writer_member_u64(writer, "requested_bytes", error->requested_bytes);
    if (error->param[0] != '\0')
        json_writer_member_text(writer, "param", error->param);
    if (error->method[0] != '\0')
        json_writer_member_text(writer, "method", error->method);
    if (error->check[0] != '\0')
        json_writer_member_text(writer, "check", error->check);
    json_writer_end_object(writer);
    json_writer_end_object(writer);
}

void report_json_member(struct cli *cli, const struct worsegpu_client_error *error)
{
    struct json_writer writer;
    json_writer_init(&writer, cli->memory, SIZE_MAX / 2);
    write_member(&writer, error);
    if (writer.failure == JSON_WRITER_FINE)
        output_bytes(&cli->output, writer.data, writer.length);
    else
        output_text(&cli->output, "%s", NO_MEMORY_JSON);
    json_writer_release(&writer);
}

int report_error(struct cli *cli, const char *what, const struct worsegpu_client_error *error)
{
    if (cli->output.json) {
        output_text(&cli->output, "{");
        report_json_member(cli, error);
        output_text(&cli->output, "}\n");
    }
    report_sentence(cli, what, error);
    return report_exit(error);
}

int report_usage(struct cli *cli, const char *problem, const char *advice)
{
    if (cli->output.json) {
        struct worsegpu_client_error error = {.status = WORSEGPU_CLIENT_INVALID_ARGUMENT};
        snprintf(error.kind, sizeof(error.kind), "usage");
        output_make_harmless(problem, error.message, sizeof(error.message));
        output_text(&cli->output, "{");
        report_json_member(cli, &error);
        output_text(&cli->output, "}\n");
    }
    output_complaint(&cli->output, cli->program, "%s", problem);
    if (advice)
        output_advice(&cli->output, "%s", advice);
    return CLI_USAGE;
}

int report_no_memory(struct cli *cli)
{
    struct worsegpu_client_error error = {.status = WORSEGPU_CLIENT_NO_MEMORY};
    snprintf(error.kind, sizeof(error.kind), "no_memory");
    snprintf(error.message, sizeof(error.message), "there is not enough memory");
    return report_error(cli, NULL, &error);
}
