/* The client's header in a C++ program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* -1 when the program is not there. */
static int run(char *const *command, int input)
{
    pid_t child;
    int status;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    int failure = posix_spawnp(&child, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0)
        return -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void test_the_header_compiles_as_cplusplus(void **state)
{
    (void)state;
    static const char PROGRAM[] =
        "#include \"client/worsegpu_client.h\"\n"
        "int main() { worsegpu_client *client; worsegpu_client_error error;\n"
        "return worsegpu_client_connect(nullptr, &client, &error); }\n";
    char *const command[] = {"g++",           "-std=c++17", "-Wall",  "-Wextra", "-pedantic",
                             "-Werror",       "-I.",        "-Ibase", "-x",      "c++",
                             "-fsyntax-only", "-",          NULL};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], PROGRAM, strlen(PROGRAM)), strlen(PROGRAM));
    close(ends[1]);
    int status = run(command, ends[0]);
    close(ends[0]);
    if (status == -1)
        skip(); /* no C++ compiler here */
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_header_compiles_as_cplusplus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
