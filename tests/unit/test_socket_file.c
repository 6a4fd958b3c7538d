/* Tests of daemon/socket_file.c: whose a path is, and what is never done to what is in the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/socket_file.h"

/* A folder of its own, with a path in it for a socket. */
struct place {
    char folder[64];
    char path[SOCKET_PATH_SIZE];
    char lock[SOCKET_PATH_SIZE + 8];
    char message[SOCKET_MESSAGE_SIZE];
};

static void begin(struct place *place)
{
    memset(place, 0, sizeof(*place));
    snprintf(place->folder, sizeof(place->folder), "/tmp/worsegpu-test-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->path, sizeof(place->path), "%s/socket", place->folder);
    snprintf(place->lock, sizeof(place->lock), "%s.lock", place->path);
}

/* The folder must be empty by then: nothing was left behind. */
static void end(struct place *place)
{
    assert_int_equal(rmdir(place->folder), 0);
}

static void close_file(struct socket_file *file)
{
    assert_int_equal(close(file->descriptor), 0);
    socket_file_remove(file);
}

/* Opens, which must be refused with a message of one line that says this. */
static void assert_refused(struct place *place, const char *path, const char *says)
{
    struct socket_file file;
    assert_int_equal(socket_file_open(&file, path, place->message), 1);
    assert_int_equal(file.descriptor, -1);
    assert_int_equal(file.lock, -1);
    if (!strstr(place->message, says))
        fail_msg("wanted '%s', got '%s'", says, place->message);
    assert_null(strchr(place->message, '\n'));
    socket_file_remove(&file); /* of one that was not opened: nothing */
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client >= 0);
    int connected = connect(client, (const struct sockaddr *)&address, sizeof(address));
    close(client);
    return connected;
}

/* A socket as somebody else binds it. */
static int bind_without_lock(const char *path, bool listening)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(bind(descriptor, (const struct sockaddr *)&address, sizeof(address)), 0);
    if (listening)
        assert_int_equal(listen(descriptor, 5), 0);
    return descriptor;
}

static void test_a_socket_is_made_and_goes_without_a_trace(void **state)
{
    struct place place;
    struct socket_file file;
    (void)state;
    begin(&place);
    assert_int_equal(socket_file_open(&file, place.path, place.message), 0);
    assert_string_equal(file.path, place.path);
    assert_int_equal(access(place.lock, F_OK), 0);
    assert_int_equal(connect_to(place.path), 0);
    socket_file_remove(&file);
    assert_int_equal(access(place.path, F_OK), -1);
    assert_int_equal(access(place.lock, F_OK), -1);
    socket_file_remove(&file);                                 /* twice is fine */
    assert_true(fcntl(file.descriptor, F_GETFD) & FD_CLOEXEC); /* still open, and not inherited */
    close(file.descriptor);
    end(&place);
}

static void test_the_mode_is_0660_whatever_the_umask(void **state)
{
    static const mode_t masks[] = {0, 022, 077, 0777};
    struct place place;
    struct stat status;
    (void)state;
    begin(&place);
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        struct socket_file file;
        mode_t before = umask(masks[i]);
        int opened = socket_file_open(&file, place.path, place.message);
        mode_t after = umask(before);
        assert_int_equal(opened, 0);
        assert_int_equal(after, masks[i]);
        assert_int_equal(lstat(place.path, &status), 0);
        assert_true(S_ISSOCK(status.st_mode));
        assert_int_equal(status.st_mode & 07777, 0660);
        close_file(&file);
    }
    end(&place);
}

static void test_a_second_daemon_is_refused_while_the_first_lives(void **state)
{
    struct place place;
    struct socket_file file;
    (void)state;
    begin(&place);
    assert_int_equal(socket_file_open(&file, place.path, place.message), 0);
    assert_refused(&place, place.path, "another worsegpud is serving on ");
    assert_int_equal(connect_to(place.path), 0); /* the first one is none the worse */
    close_file(&file);
    assert_int_equal(socket_file_open(&file, place.path, place.message), 0);
    close_file(&file);
    end(&place);
}

static void test_a_socket_that_a_dead_daemon_left_is_taken_over(void **state)
{
    struct place place;
    struct socket_file file;
    (void)state;
    begin(&place);
    assert_int_equal(close(bind_without_lock(place.path, false)), 0);
    int lock = open(place.lock, O_RDWR | O_CREAT | O_CLOEXEC,
                    0600); /* its lock file too, held by nobody */
    assert_true(lock >= 0);
    close(lock);
    assert_int_equal(connect_to(place.path), -1);
    assert_int_equal(socket_file_open(&file, place.path, place.message), 0);
    assert_int_equal(connect_to(place.path), 0);
    close_file(&file);
    end(&place);
}

static void test_a_socket_on_which_somebody_answers_is_left_alone(void **state)
{
    struct place place;
    (void)state;
    begin(&place);
    int other = bind_without_lock(place.path, true);
    assert_refused(&place, place.path, "somebody is serving on ");
    assert_int_equal(connect_to(place.path), 0);
    assert_int_equal(access(place.lock, F_OK), -1);
    close(other);
    assert_int_equal(unlink(place.path), 0);
    end(&place);
}

static void test_what_is_no_socket_is_refused_and_left_alone(void **state)
{
    struct place place;
    char text[16] = "";
    (void)state;
    begin(&place);
    int file = open(place.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, "precious", 8), 8);
    assert_refused(&place, place.path, "is in the way and is no socket");
    assert_int_equal(pread(file, text, sizeof(text), 0), 8);
    assert_string_equal(text, "precious");
    assert_int_equal(access(place.path, F_OK), 0);
    close(file);
    assert_int_equal(unlink(place.path), 0);

    assert_int_equal(mkdir(place.path, 0700), 0);
    assert_refused(&place, place.path, "is in the way and is no socket");
    assert_int_equal(rmdir(place.path), 0);

    assert_int_equal(symlink("/nowhere", place.path), 0); /* not even one that leads nowhere */
    assert_refused(&place, place.path, "is in the way and is no socket");
    assert_int_equal(unlink(place.path), 0);
    end(&place);
}

static void test_a_lock_file_that_is_a_link_is_not_followed(void **state)
{
    struct place place;
    char target[SOCKET_PATH_SIZE];
    (void)state;
    begin(&place);
    snprintf(target, sizeof(target), "%s/target", place.folder);
    assert_int_equal(symlink(target, place.lock), 0);
    assert_refused(&place, place.path, "cannot make the lock file ");
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(unlink(place.lock), 0);
    end(&place);
}

static void test_a_path_too_long_is_refused_with_both_numbers(void **state)
{
    struct place place;
    char path[300];
    (void)state;
    begin(&place);
    int start = snprintf(path, sizeof(path), "%s/", place.folder);
    memset(path + start, 'x', sizeof(path) - (size_t)start);
    path[108] = '\0';
    assert_refused(&place, path, "has 108 bytes, a socket takes 1 to 107");
    path[108] = 'x';
    path[250] = '\0';
    assert_refused(&place, path, "has 250 bytes, a socket takes 1 to 107");
    assert_refused(&place, "", "has 0 bytes, a socket takes 1 to 107");
    path[107] = '\0'; /* the longest */
    struct socket_file file;
    assert_int_equal(socket_file_open(&file, path, place.message), 0);
    assert_int_equal(connect_to(path), 0);
    close_file(&file);
    end(&place);
}

static void test_a_folder_that_is_not_there_is_named(void **state)
{
    struct place place;
    char path[SOCKET_PATH_SIZE];
    (void)state;
    begin(&place);
    snprintf(path, sizeof(path), "%s/no/socket", place.folder);
    assert_refused(&place, path, "make its folder first");
    assert_non_null(strstr(place.message, path));
    end(&place);
}

/* ---------------------------------------------------------------------------------- the default */

static void set_variables(const char *variable, const char *session)
{
    assert_int_equal(
        variable ? setenv("WORSEGPU_SOCKET", variable, 1) : unsetenv("WORSEGPU_SOCKET"), 0);
    assert_int_equal(session ? setenv("XDG_RUNTIME_DIR", session, 1) : unsetenv("XDG_RUNTIME_DIR"),
                     0);
}

static void test_the_default_is_what_the_variable_says_and_makes_no_folder(void **state)
{
    struct place place;
    char path[SOCKET_WISH_SIZE];
    (void)state;
    begin(&place);
    set_variables(place.path, place.folder);
    assert_int_equal(socket_file_default(path, place.message), 0);
    assert_string_equal(path, place.path);
    end(&place); /* still empty */
}

static void test_the_default_of_a_session_gets_its_folder_for_its_user_alone(void **state)
{
    struct place place;
    struct stat status;
    char path[SOCKET_WISH_SIZE];
    char wanted[SOCKET_PATH_SIZE];
    char folder[SOCKET_PATH_SIZE];
    (void)state;
    begin(&place);
    snprintf(folder, sizeof(folder), "%s/worsegpu", place.folder);
    snprintf(wanted, sizeof(wanted), "%s/worsegpu/worsegpud.sock", place.folder);
    set_variables(NULL, place.folder);
    for (int times = 0; times < 2; times++) { /* one that is there already is fine */
        assert_int_equal(socket_file_default(path, place.message), 0);
        assert_string_equal(path, wanted);
        assert_int_equal(lstat(folder, &status), 0);
        assert_true(S_ISDIR(status.st_mode));
        assert_int_equal(status.st_mode & 077, 0);
    }
    assert_int_equal(rmdir(folder), 0);
    end(&place);
}

static void test_a_session_that_is_not_there_is_named(void **state)
{
    struct place place;
    char path[SOCKET_WISH_SIZE];
    char nowhere[SOCKET_PATH_SIZE];
    (void)state;
    begin(&place);
    snprintf(nowhere, sizeof(nowhere), "%s/nowhere", place.folder);
    set_variables(NULL, nowhere);
    assert_int_equal(socket_file_default(path, place.message), 1);
    assert_non_null(strstr(place.message, "cannot make the folder "));
    assert_non_null(strstr(place.message, nowhere));
    end(&place);
}

static void test_a_default_too_long_is_left_whole_for_open_to_refuse(void **state)
{
    struct place place;
    char path[SOCKET_WISH_SIZE];
    char long_path[301];
    (void)state;
    begin(&place);
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[0] = '/';
    long_path[sizeof(long_path) - 1] = '\0';
    set_variables(long_path, NULL);
    assert_int_equal(socket_file_default(path, place.message), 0);
    assert_refused(&place, path, "has 300 bytes, a socket takes 1 to 107");
    set_variables(NULL, long_path);
    assert_int_equal(socket_file_default(path, place.message), 0);
    assert_refused(&place, path, "has 324 bytes, a socket takes 1 to 107");
    end(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_socket_is_made_and_goes_without_a_trace),
        cmocka_unit_test(test_the_mode_is_0660_whatever_the_umask),
        cmocka_unit_test(test_a_second_daemon_is_refused_while_the_first_lives),
        cmocka_unit_test(test_a_socket_that_a_dead_daemon_left_is_taken_over),
        cmocka_unit_test(test_a_socket_on_which_somebody_answers_is_left_alone),
        cmocka_unit_test(test_what_is_no_socket_is_refused_and_left_alone),
        cmocka_unit_test(test_a_lock_file_that_is_a_link_is_not_followed),
        cmocka_unit_test(test_a_path_too_long_is_refused_with_both_numbers),
        cmocka_unit_test(test_a_folder_that_is_not_there_is_named),
        cmocka_unit_test(test_the_default_is_what_the_variable_says_and_makes_no_folder),
        cmocka_unit_test(test_the_default_of_a_session_gets_its_folder_for_its_user_alone),
        cmocka_unit_test(test_a_session_that_is_not_there_is_named),
        cmocka_unit_test(test_a_default_too_long_is_left_whole_for_open_to_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
