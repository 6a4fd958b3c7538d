/* Tests of base/socket_path.c: the one rule for where the daemon is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/socket_path.h"

/* Sets both variables; NULL: not there at all. */
static void set_variables(const char *variable, const char *session)
{
    assert_int_equal(
        variable ? setenv("WORSEGPU_SOCKET", variable, 1) : unsetenv("WORSEGPU_SOCKET"), 0);
    assert_int_equal(session ? setenv("XDG_RUNTIME_DIR", session, 1) : unsetenv("XDG_RUNTIME_DIR"),
                     0);
}

static void test_the_first_place_that_is_there_is_the_default(void **state)
{
    static const struct {
        const char *variable;
        const char *session;
        enum socket_path_source source;
        const char *path;
    } cases[] = {
        {"/a/b.sock", "/run/user/7", SOCKET_PATH_FROM_VARIABLE, "/a/b.sock"},
        {"relative", NULL, SOCKET_PATH_FROM_VARIABLE, "relative"},
        {NULL, "/run/user/7", SOCKET_PATH_OF_SESSION, "/run/user/7/worsegpu/worsegpud.sock"},
        {"", "/run/user/7", SOCKET_PATH_OF_SESSION, "/run/user/7/worsegpu/worsegpud.sock"},
        {NULL, NULL, SOCKET_PATH_OF_SYSTEM, "/run/worsegpu/worsegpud.sock"},
        {"", "", SOCKET_PATH_OF_SYSTEM, "/run/worsegpu/worsegpud.sock"},
    };
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_variables(cases[i].variable, cases[i].session);
        assert_int_equal(socket_path_default(path, sizeof(path)), cases[i].source);
        assert_string_equal(path, cases[i].path);
    }
}

static void test_each_place_can_be_asked_for_alone(void **state)
{
    char path[128] = "untouched";
    (void)state;
    set_variables("/a", "/b");
    assert_int_equal(socket_path_at(SOCKET_PATH_FROM_VARIABLE, path, sizeof(path)), 2);
    assert_string_equal(path, "/a");
    assert_int_equal(socket_path_at(SOCKET_PATH_OF_SESSION, path, sizeof(path)),
                     strlen("/b/worsegpu/worsegpud.sock"));
    assert_string_equal(path, "/b/worsegpu/worsegpud.sock");
    assert_int_equal(socket_path_at(SOCKET_PATH_OF_SYSTEM, path, sizeof(path)),
                     strlen("/run/worsegpu/worsegpud.sock"));
    assert_string_equal(path, "/run/worsegpu/worsegpud.sock");
    set_variables(NULL, "");
    assert_int_equal(socket_path_at(SOCKET_PATH_FROM_VARIABLE, path, sizeof(path)), 0);
    assert_int_equal(socket_path_at(SOCKET_PATH_OF_SESSION, path, sizeof(path)), 0);
}

static void test_a_path_that_is_too_long_tells_its_whole_length(void **state)
{
    char variable[301];
    char path[20];
    (void)state;
    memset(variable, 'x', sizeof(variable) - 1);
    variable[sizeof(variable) - 1] = '\0';
    set_variables(variable, variable);
    assert_int_equal(socket_path_at(SOCKET_PATH_FROM_VARIABLE, path, sizeof(path)), 300);
    assert_int_equal(strlen(path), sizeof(path) - 1);
    assert_int_equal(socket_path_at(SOCKET_PATH_OF_SESSION, path, sizeof(path)),
                     300 + strlen("/worsegpu/worsegpud.sock"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_place_that_is_there_is_the_default),
        cmocka_unit_test(test_each_place_can_be_asked_for_alone),
        cmocka_unit_test(test_a_path_that_is_too_long_tells_its_whole_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
