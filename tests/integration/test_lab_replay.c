/* `worsegpu-lab replay` as a program: its summary, and each file that it writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/real_process.h"

#define MIB "1048576"

/* Two blocks of 1 MiB, the first one freed, and a request that a GPU of 4 MiB has no room for. */
static const char LOG[] =
    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":" MIB
    ",\"sequence\":1,\"time_us\":0}\n"
    "{\"operation\":\"allocate\",\"allocation_id\":2,\"requested_bytes\":" MIB
    ",\"sequence\":2,\"time_us\":50}\n"
    "{\"operation\":\"free\",\"allocation_id\":1,\"sequence\":3,\"time_us\":70}\n"
    "{\"operation\":\"allocate\",\"allocation_id\":3,\"requested_bytes\":3000000,\"sequence\":4,"
    "\"time_us\":300}\n";

static const char *lab(struct real_room *room)
{
    return real_program(room, "worsegpu-lab");
}

static const char *write_log(struct real_room *room)
{
    const char *path = real_room_path(room, "log.ndjson");
    real_room_write(room, path, LOG);
    return path;
}

/* Standard output of a run that must be fine. */
static const char *fine(struct real_room *room, struct real_process *process)
{
    if (process->status != 0)
        fail_msg("status %d: %s", process->status, real_process_errors(room, process));
    assert_string_equal(real_process_errors(room, process), "");
    return real_process_output(room, process);
}

static void test_without_an_output_the_run_is_told_in_a_few_lines(void **state)
{
    const char *said =
        fine(*state, real_process_run(*state, NULL, lab(*state), "replay", write_log(*state),
                                      "--policy", "torch", "--capacity", "4MiB", NULL));
    assert_non_null(strstr(said, "log.ndjson under torch\n\n"));
    assert_non_null(strstr(said, "peak live       2.0 MiB (2,097,152 bytes), at event 2\n"));
    assert_non_null(strstr(said, "out of memory   1 time, first at event 4: 2.9 MiB asked for\n"));
    assert_non_null(strstr(said, "never freed     1\n"));
}

static void test_csv_has_a_row_for_each_event_and_each_step_of_the_device(void **state)
{
    const char *csv = fine(*state, real_process_run(*state, NULL, lab(*state), "replay",
                                                    write_log(*state), "--policy", "torch",
                                                    "--capacity", "4MiB", "--csv", "-", NULL));
    assert_string_equal(
        csv,
        "event,time_us,operation,allocation_id,requested_bytes,stream,offset,block_bytes,"
        "live_bytes,used_bytes,reserved_bytes,free_bytes,largest_free_bytes,pending_bytes,"
        "forgotten_bytes,segments,device_calls,retries,ooms,host\n"
        "1,0,segment_alloc,,,,0,2097152,,,,,,,,,,,,\n"
        "1,0,allocate,1,1048576,0,0,1048576,1048576,1048576,2097152,1048576,1048576,0,0,1,1,0,0,0\n"
        "2,50,allocate,2,1048576,0,1048576,1048576,2097152,2097152,2097152,0,0,0,0,1,1,0,0,0\n"
        "3,70,free,1,1048576,0,0,1048576,1048576,1048576,2097152,1048576,1048576,0,0,1,1,0,0,0\n"
        "4,300,out_of_memory,3,3000000,0,,,1048576,1048576,2097152,1048576,1048576,0,0,1,1,1,1,0"
        "\n");
}

/* The columns of the CSV that a line of NDJSON has too. */
static void test_ndjson_has_the_figures_of_the_csv(void **state)
{
    const char *csv = real_room_path(*state, "run.csv");
    const char *ndjson = real_room_path(*state, "run.ndjson");
    fine(*state, real_process_run(*state, NULL, lab(*state), "replay", write_log(*state),
                                  "--policy", "bfc allow_growth=true", "--capacity", "4MiB",
                                  "--csv", csv, "--ndjson", ndjson, NULL));
    char *rows = real_room_read(*state, csv);
    char *lines = real_room_read(*state, ndjson);
    char *row_place;
    char *line_place;
    char *names = strtok_r(rows, "\n", &row_place);
    assert_int_equal(real_lines(lines), real_lines(real_room_read(*state, csv)) - 1);
    for (char *line = strtok_r(lines, "\n", &line_place); line;
         line = strtok_r(NULL, "\n", &line_place)) {
        const char *value = strtok_r(NULL, "\n", &row_place);
        const char *name = names;
        cJSON *object = cJSON_Parse(line);
        assert_non_null(object);
        for (; *name != '\0'; name += strcspn(name, ",") + (strchr(name, ',') != NULL)) {
            const char *key = real_room_text(*state, "%.*s", (int)strcspn(name, ","), name);
            const cJSON *member = cJSON_GetObjectItem(object, key);
            const char *text = "";
            if (cJSON_IsString(member))
                text = member->valuestring;
            else if (member)
                text = real_room_text(*state, "%.0f", member->valuedouble);
            const char *expected = real_room_text(*state, "%.*s", (int)strcspn(value, ","), value);
            if (strcmp(text, expected) != 0)
                fail_msg("%s: %s in the CSV, %s in %s", key, expected, text, line);
            value += strcspn(value, ",") + (strchr(value, ',') != NULL);
        }
        cJSON_Delete(object);
    }
}

static void test_each_slice_of_the_chrome_trace_begins_and_ends(void **state)
{
    const char *path = real_room_path(*state, "trace.json");
    fine(*state,
         real_process_run(*state, NULL, lab(*state), "replay", write_log(*state), "--policy",
                          "torch", "--capacity", "4MiB", "--chrome-trace", path, NULL));
    cJSON *trace = cJSON_Parse(real_room_read(*state, path));
    assert_non_null(trace);
    int open[4] = {0};
    int counters = 0;
    int refusals = 0;
    double last = 0;
    const cJSON *event;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(trace, "traceEvents"))
    {
        const char *phase = cJSON_GetObjectItem(event, "ph")->valuestring;
        if (*phase == 'M')
            continue;
        double ts = cJSON_GetObjectItem(event, "ts")->valuedouble;
        assert_true(ts >= last);
        last = ts;
        counters += *phase == 'C';
        refusals += *phase == 'i' &&
                    strcmp(cJSON_GetObjectItem(event, "name")->valuestring, "out of memory") == 0;
        if (*phase == 'b' || *phase == 'e')
            open[cJSON_GetObjectItem(event, "id")->valueint] += *phase == 'b' ? 1 : -1;
    }
    assert_int_equal(open[1], 0);
    assert_int_equal(open[2], 0); /* never freed: it ends with the log */
    assert_int_equal(open[3], 0); /* refused: no slice */
    assert_int_equal(counters, 12);
    assert_int_equal(refusals, 1);
    cJSON_Delete(trace);
}

/* A snapshot of a made-up training run; its path. */
static const char *snapshot_of(struct real_room *room, const char *policy, const char *capacity)
{
    const char *log = real_room_path(room, "training.ndjson");
    const char *snapshot = real_room_path(room, "run.pickle");
    fine(room, real_process_run(room, NULL, lab(room), "generate", "training", "steps=4",
                                "layers=6", "--output", log, NULL));
    fine(room, real_process_run(room, NULL, lab(room), "replay", log, "--policy", policy,
                                "--capacity", capacity, "--snapshot", snapshot, NULL));
    return snapshot;
}

/* Each of them once more through the model, from the snapshot alone. */
static void test_a_snapshot_of_torch_is_verified_to_the_last_address(void **state)
{
    static const char *const policies[] = {"torch", "torch_expandable",
                                           "torch alloc_conf=max_split_size_mb:64"};
    for (size_t i = 0; i < 3; i++) {
        const char *snapshot = snapshot_of(*state, policies[i], "2GiB");
        const char *said =
            fine(*state, real_process_run(*state, NULL, lab(*state), "verify", snapshot, NULL));
        assert_non_null(strstr(said, "; all equal\n"));
        assert_null(strstr(said, " 0 of 0 addresses"));
    }
}

/* With too little memory there are flushes and refusals in it. */
static void test_a_snapshot_with_flushes_and_refusals_is_verified_too(void **state)
{
    const char *snapshot = snapshot_of(*state, "torch", "1300MiB");
    const char *said =
        fine(*state, real_process_run(*state, NULL, lab(*state), "verify", snapshot, NULL));
    assert_non_null(strstr(said, "refusals"));
    assert_non_null(strstr(said, "; all equal\n"));
}

/* What other streams use is freed later than it was asked for, or not at all. */
static void test_frees_that_wait_for_other_streams_wait_in_the_snapshot(void **state)
{
    const char *log = real_room_path(*state, "case.ndjson");
    const char *snapshot = real_room_path(*state, "run.pickle");
    fine(*state, real_process_run(*state, NULL, lab(*state), "generate", "case:record-stream-queue",
                                  "--output", log, NULL));
    fine(*state, real_process_run(*state, NULL, lab(*state), "replay", log, "--policy", "torch",
                                  "--snapshot", snapshot, NULL));
    const char *said =
        fine(*state, real_process_run(*state, NULL, lab(*state), "verify", snapshot, NULL));
    assert_non_null(strstr(said, "; all equal\n"));
    /* A word is written where it is first used. */
    fine(*state, real_process_run(*state, NULL, "/usr/bin/env", "grep", "-qa",
                                  "active_pending_free", snapshot, NULL));
}

static void test_a_snapshot_of_every_policy_is_read_back(void **state)
{
    static const char *const policies[] = {
        "worse", "buddy", "bfc allow_growth=true", "rmm_pool", "vma", "driver", "tlsf"};
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        const char *snapshot = snapshot_of(*state, policies[i], "4GiB");
        const char *said = fine(*state, real_process_run(*state, NULL, lab(*state), "inspect",
                                                         snapshot, "--json", NULL));
        cJSON *facts = cJSON_Parse(said);
        assert_non_null(facts);
        assert_string_equal(cJSON_GetObjectItem(facts, "format")->valuestring, "torch-snapshot");
        cJSON_Delete(facts);
    }
}

static void test_python_opens_the_snapshot_as_torchs_own(void **state)
{
    static const char check[] =
        "import pickle, sys\n"
        "s = pickle.load(open(sys.argv[1], 'rb'))\n"
        "assert set(s) >= {'segments', 'device_traces', 'allocator_settings'}\n"
        "live = set()\n"
        "for e in s['device_traces'][0]:\n"
        "    assert e['frames'] == [] and e['stream'] == 0\n"
        "    if e['action'] == 'alloc': live.add(e['addr'])\n"
        "    if e['action'] == 'free_completed': live.remove(e['addr'])\n"
        "used = set()\n"
        "for g in s['segments']:\n"
        "    at = g['address']\n"
        "    for b in g['blocks']:\n"
        "        assert b['address'] == at\n"
        "        at += b['size']\n"
        "        if b['state'] == 'active_allocated': used.add(b['address'])\n"
        "    assert at == g['address'] + g['total_size']\n"
        "assert live == used and live\n";
    const char *snapshot = snapshot_of(*state, "torch", "2GiB");
    struct real_process *process =
        real_process_run(*state, NULL, "/usr/bin/env", "sh", "-c",
                         "command -v python3 >/dev/null || exit 77; python3 -c \"$0\" \"$1\"",
                         check, snapshot, NULL);
    if (process->status == 77) {
        print_message("there is no python3: not tried\n");
        skip();
    }
    fine(*state, process);
}

static void test_the_page_is_one_file_that_names_no_other(void **state)
{
    const char *path = real_room_path(*state, "run.html");
    fine(*state, real_process_run(*state, NULL, lab(*state), "replay", write_log(*state),
                                  "--policy", "torch", "--capacity", "4MiB", "--html", path, NULL));
    const char *page = real_room_read(*state, path);
    assert_int_equal(strncmp(page, "<!doctype html>", 15), 0);
    assert_null(strstr(page, "<!--"));
    assert_null(strstr(page, "src=\""));
    assert_null(strstr(page, "@import"));
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_non_null(strstr(page, "out of memory under torch"));
    assert_non_null(strstr(page, "The MIT License"));
    const char *data = strstr(page, "<script type=\"application/json\" id=\"data\">");
    assert_non_null(data);
    data = strchr(data, '{');
    const char *end = NULL;
    cJSON *read = cJSON_ParseWithOpts(data, &end, 0);
    assert_non_null(read);
    assert_int_equal(strncmp(end, "</script>", 9), 0);
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(read, "points"), "count")->valueint,
                     4);
    cJSON_Delete(read);
}

static void test_a_name_cannot_end_the_pages_data(void **state)
{
    const char *log = real_room_path(*state, "a<script>&lt;.ndjson");
    const char *path = real_room_path(*state, "run.html");
    real_room_write(*state, log, LOG);
    fine(*state, real_process_run(*state, NULL, lab(*state), "replay", log, "--quick", "--html",
                                  path, NULL));
    const char *page = real_room_read(*state, path);
    assert_non_null(strstr(page, "\"log\":\"a\\u003cscript>&lt;.ndjson\""));
    assert_null(strstr(page, "a<script>&lt;"));
}

static void test_the_same_run_writes_the_same_bytes(void **state)
{
    static const char *const options[] = {"--csv", "--ndjson", "--chrome-trace", "--snapshot",
                                          "--html"};
    const char *log = write_log(*state);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const char *one = real_room_path(*state, "one");
        const char *two = real_room_path(*state, "two");
        fine(*state, real_process_run(*state, NULL, lab(*state), "replay", log, "--policy", "worse",
                                      options[i], one, NULL));
        fine(*state, real_process_run(*state, NULL, lab(*state), "replay", log, "--policy", "worse",
                                      options[i], two, NULL));
        fine(*state, real_process_run(*state, NULL, "/usr/bin/env", "cmp", one, two, NULL));
    }
}

static void test_addresses_stay_below_2_to_the_53(void **state)
{
    const char *said =
        fine(*state, real_process_run(*state, NULL, lab(*state), "replay", write_log(*state),
                                      "--policy", "torch_expandable", "--json", NULL));
    assert_non_null(strstr(said, "\"capacity_bytes\":1073741824,\"capacity_chosen\":true"));
    said = fine(*state, real_process_run(*state, NULL, lab(*state), "replay", write_log(*state),
                                         "--policy", "torch", "--json", NULL));
    assert_non_null(strstr(said, "\"capacity_bytes\":null,\"capacity_chosen\":false"));
}

static void refused(struct real_room *room, const struct real_process *process, int status,
                    const char *part)
{
    assert_int_equal(process->status, status);
    if (!strstr(real_process_errors(room, process), part))
        fail_msg("not in the complaint: %s\n%s", part, real_process_errors(room, process));
}

static void test_outputs_that_cannot_be_are_refused(void **state)
{
    const char *log = write_log(*state);
    const char *program = lab(*state);
    refused(
        *state,
        real_process_run(*state, NULL, program, "replay", log, "--csv", "-", "--ndjson", "-", NULL),
        2, "only one output can go to standard output");
    refused(*state,
            real_process_run(*state, NULL, program, "replay", log, "--csv", "-", "--json", NULL), 2,
            "outputs need files");
    refused(*state,
            real_process_run(*state, NULL, program, "replay", log, "--policy", "torch", "--policy",
                             "bfc", NULL),
            2, "replay takes one --policy");
    refused(*state,
            real_process_run(*state, NULL, program, "replay", log, "--policy", "torhc", NULL), 2,
            "did you mean 'torch'?");
    refused(
        *state,
        real_process_run(*state, NULL, program, "replay", log, "--html", "/nowhere/run.html", NULL),
        3, "cannot write /nowhere/run.html");
    refused(*state,
            real_process_run(*state, NULL, program, "replay", log, "--csv", "/dev/full", NULL), 3,
            "cannot write /dev/full: No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_without_an_output_the_run_is_told_in_a_few_lines),
        IN_ROOM(test_csv_has_a_row_for_each_event_and_each_step_of_the_device),
        IN_ROOM(test_ndjson_has_the_figures_of_the_csv),
        IN_ROOM(test_each_slice_of_the_chrome_trace_begins_and_ends),
        IN_ROOM(test_a_snapshot_of_torch_is_verified_to_the_last_address),
        IN_ROOM(test_a_snapshot_with_flushes_and_refusals_is_verified_too),
        IN_ROOM(test_frees_that_wait_for_other_streams_wait_in_the_snapshot),
        IN_ROOM(test_a_snapshot_of_every_policy_is_read_back),
        IN_ROOM(test_python_opens_the_snapshot_as_torchs_own),
        IN_ROOM(test_the_page_is_one_file_that_names_no_other),
        IN_ROOM(test_a_name_cannot_end_the_pages_data),
        IN_ROOM(test_the_same_run_writes_the_same_bytes),
        IN_ROOM(test_addresses_stay_below_2_to_the_53),
        IN_ROOM(test_outputs_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
