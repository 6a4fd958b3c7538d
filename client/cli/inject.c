/* inject: adds a rule of fault injection. The words of a rule are understood by proto/inject_words;
 * here a user's name is looked up, since only the system knows it. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "client/cli/rule_table.h"
#include "proto/inject_words.h"

enum {
    MOST_OPTIONS = 32,   /* looked through for the nearest one */
    USER_SIZE = 32,      /* "--user=4294967295" */
    ACCOUNT_ROOM = 16384 /* what the system says of one user */
};

/* Looks a user's name up. CLI_FINE, or CLI_USAGE after a complaint. */
static int find_user(struct cli *cli, const char *name, uint64_t *uid)
{
    char room[ACCOUNT_ROOM];
    char problem[ARGUMENTS_PROBLEM_SIZE];
    struct passwd account;
    struct passwd *found = NULL;
    int failure = getpwnam_r(name, &account, room, sizeof(room), &found);
    if (found) {
        *uid = account.pw_uid;
        return CLI_FINE;
    }
    snprintf(problem, sizeof(problem), "there is no user \"%s\"%s%s%s", name,
             failure != 0 ? " (" : "", failure != 0 ? strerrordesc_np(failure) : "",
             failure != 0 ? ")" : "");
    return report_usage(cli, problem, "--user takes a user's name or number");
}

/* Puts the number of a user in place of the name, in `text`. words[at] begins with --user. */
static int replace_user(struct cli *cli, char **words, size_t count, size_t at,
                        char text[USER_SIZE])
{
    bool joined = words[at][strlen("--user")] == '=';
    size_t place = joined ? at : at + 1;
    uint64_t uid;
    if (place == count)
        return CLI_FINE; /* its value is missing: that is complained about with the others */
    const char *name = joined ? words[at] + strlen("--user=") : words[place];
    if (name[0] == '\0' || count_from_text(name, &uid))
        return CLI_FINE;
    int status = find_user(cli, name, &uid);
    if (status != CLI_FINE)
        return status;
    snprintf(text, USER_SIZE, "%s%" PRIu64, joined ? "--user=" : "", uid);
    words[place] = text;
    return CLI_FINE;
}

static bool is_user_option(const char *word)
{
    return strcmp(word, "--user") == 0 || strncmp(word, "--user=", strlen("--user=")) == 0;
}

/* A misspelled option gets the nearest real one. */
static int refuse_words(struct cli *cli, char *const *words, size_t count, const char *message)
{
    const char *known[MOST_OPTIONS];
    char advice[ARGUMENTS_PROBLEM_SIZE] = "try: worsegpu-cli help inject";
    size_t options = 0;
    for (; options < MOST_OPTIONS && inject_words_option(options); options++)
        known[options] = inject_words_option(options)->word;
    for (size_t i = 1; i < count; i++) {
        const char *nearest =
            strncmp(words[i], "--", 2) == 0 ? suggest_nearest(words[i], known, options) : NULL;
        if (!nearest || strcmp(nearest, words[i]) == 0)
            continue;
        snprintf(advice, sizeof(advice), "did you mean %s?", nearest);
        break;
    }
    return report_usage(cli, message, advice);
}

/* Writes the parameters, NUL-terminated. */
static int write_params(struct cli *cli, char **words, size_t count, char user[USER_SIZE],
                        struct json_writer *params)
{
    char message[INJECT_WORDS_MESSAGE_SIZE];
    for (size_t i = 1; i < count; i++) {
        if (!is_user_option(words[i]))
            continue;
        int status = replace_user(cli, words, count, i, user);
        if (status != CLI_FINE)
            return status;
        break; /* twice is refused below */
    }
    enum inject_words_result result = inject_words_write(count, words, params, message);
    if (result == INJECT_WORDS_WRONG)
        return refuse_words(cli, words, count, message);
    if (result != INJECT_WORDS_FINE || json_writer_reserve(params, 1) < 0)
        return report_no_memory(cli);
    params->data[params->length] = '\0';
    return CLI_FINE;
}

static int print_rule(struct cli *cli, const struct worsegpu_client_rule *rule)
{
    struct table table;
    rule_table_init(cli, &table);
    rule_table_add(&table, rule);
    int status = table_end(&table) < 0 ? report_no_memory(cli) : CLI_FINE;
    table_release(&table);
    return status;
}

static int add_rule(struct cli *cli, const char *params)
{
    int status;
    struct worsegpu_client_rule rule;
    struct worsegpu_client_error error;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    int outcome = worsegpu_client_call(client, "inject", params, &error);
    if (outcome == WORSEGPU_CLIENT_OK)
        outcome = worsegpu_client_read_rule(client, &rule, &error);
    status = CLI_FINE;
    if (outcome != WORSEGPU_CLIENT_OK)
        status = report_error(cli, NULL, &error);
    else if (cli->output.json)
        result_print(cli, client);
    else
        status = print_rule(cli, &rule);
    worsegpu_client_disconnect(client);
    return status;
}

int perform_inject(struct cli *cli)
{
    const struct arguments *arguments = &cli->arguments;
    size_t count = arguments->operand_count;
    struct json_writer params;
    char user[USER_SIZE]; /* stands among the words */
    char **words = memory_allocate_array(cli->memory, count, sizeof(*words));
    if (!words)
        return report_no_memory(cli);
    for (size_t i = 0; i < count; i++)
        words[i] = (char *)arguments->operands[i]; /* argv's own, and nobody writes to them */
    json_writer_init(&params, cli->memory, SIZE_MAX / 2);
    int status = write_params(cli, words, count, user, &params);
    if (status == CLI_FINE)
        status = add_rule(cli, params.data);
    json_writer_release(&params);
    memory_release_array(cli->memory, words, count, sizeof(*words));
    return status;
}
