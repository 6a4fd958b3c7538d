/* Rows of Nsight Systems: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char rows[] = "start,globalPid,deviceId,contextId,address,pc,bytes,memKind,"
                           "memoryOperationType,name,correlationId,streamId\r\n"
                           "2000,281474976710656,0,1,4096,0,2097152,2,0,\"a, \"\"b\"\"\",7,\r\n"
                           "5000,281474993487872,0,1,4096,0,512,2,0,,8,13\r\n"
                           "3000,281474976710656,0,1,4096,0,2097152,2,1,,9,\r\n"
                           "4000,281474976710656,1,1,8192,0,7,,0,,9,\r\n"
                           "4500,281474976710656,1,1,9999,0,7,1,0,,9,\r\n";

static void test_rows_are_put_in_order_and_processes_told_apart(void **state)
{
    assert_log_records("nsys-csv", rows,
                       "allocate 0x1000 2097152 bytes at 0x1000 place 2\n"
                       "free 0x1000 time 1 place 4\n"
                       "allocate 0x2000 7 bytes at 0x2000 device 1 time 2 place 5\n"
                       "allocate 0x10000000001000 512 bytes at 0x1000 stream 1 time 3 place 3\n");
    (void)state;
}

static void test_only_four_columns_are_needed(void **state)
{
    assert_log_records("nsys-csv",
                       "address,start,memoryOperationType,bytes\n"
                       "16,1000,0,5\n"
                       "16,2000,1,5\n",
                       "allocate 0x10 5 bytes at 0x10 place 2\n"
                       "free 0x10 time 1 place 3\n");
    (void)state;
}

static void test_each_error_has_its_line(void **state)
{
    assert_log_bad("nsys-csv",
                   "address,start,bytes\n"
                   "1,2,3\n",
                   "line 1: the header must name start, address, bytes and memoryOperationType");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "1,2,0\n",
                   "line 2: the row has not as many fields as the header");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "1,2,0",
                   "line 2: the row has not as many fields as the header: the log is cut off");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "1,2,0,5",
                   "line 2: the log is cut off: its last row has no end");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "1,\"2,0,5\n",
                   "line 2: the quotes are wrong");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "1,\"2\"x,0,5\n",
                   "line 2: the quotes are wrong");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "x,2,0,5\n",
                   "line 2: the address 'x' is no whole number");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   ",2,0,5\n",
                   "line 2: the address '' is no whole number");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "1,2,2,5\n",
                   "line 2: the memoryOperationType is neither 0 (allocation) nor 1 (free)");
    assert_log_bad("nsys-csv",
                   "address,start,memoryOperationType,bytes\n"
                   "4503599627370496,2,0,5\n",
                   "line 2: the address 4503599627370496 has more than 52 bits");
    assert_log_bad("nsys-csv",
                   "deviceId,address,start,memoryOperationType,bytes\n"
                   "4294967295,1,2,0,5\n",
                   "line 2: the deviceId is too large");
    assert_log_bad("nsys-csv", "", "line 1: the log is empty");
    (void)state;
}

static void test_more_than_4096_processes_are_too_many(void **state)
{
    char *text = malloc(200000);
    assert_non_null(text);
    size_t length =
        (size_t)snprintf(text, 200000, "globalPid,address,start,memoryOperationType,bytes\n");
    for (unsigned long process = 0; process < 4097; process++)
        length += (size_t)snprintf(text + length, 200000 - length, "%lu,1,2,0,5\n", process << 24);
    assert_log_bad("nsys-csv", text,
                   "line 4098: this is process 4097: more than 4096 cannot be told apart");
    free(text);
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("nsys-csv", rows, strlen(rows), true);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("nsys-csv", rows);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_put_in_order_and_processes_told_apart),
        cmocka_unit_test(test_only_four_columns_are_needed),
        cmocka_unit_test(test_each_error_has_its_line),
        cmocka_unit_test(test_more_than_4096_processes_are_too_many),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
