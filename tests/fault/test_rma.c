/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets with delay and reordering: none is lost, and the data are right. */

#include "fault_test.h"

#define PIECES 32u
#define PIECE  4096u

static char local[PIECES * PIECE], remote[PIECES * PIECE];

/* Starts puts or gets of all pieces at once. */
static void transfer(const char *options, bool put)
{
    struct end from, to;
    struct event events[PIECES] = {{0}};
    na_mem_handle_t *local_mem, *remote_mem, *handle;
    na_op_id_t *ops[PIECES];
    na_addr_t *addr;
    char *bytes;
    size_t size;

    wrapped_open(&from, options);
    end_open(&to, NULL, NULL);
    addr = end_lookup(&from, &to);
    memset(local, 0, sizeof(local));
    memset(remote, 0, sizeof(remote));
    for (size_t i = 0; i < sizeof(local); i++)
        (put ? local : remote)[i] = (char) (i * 7 + i / PIECE);
    local_mem = mem_open(&from, local, sizeof(local), NA_MEM_READWRITE);
    remote_mem = mem_open(&to, remote, sizeof(remote), NA_MEM_READWRITE);
    size = NA_Mem_handle_get_serialize_size(to.na_class, remote_mem);
    bytes = calloc(1, size);
    assert_int_equal(NA_Mem_handle_serialize(to.na_class, bytes, size, remote_mem), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(from.na_class, &handle, bytes, size), NA_SUCCESS);
    for (unsigned int i = 0; i < PIECES; i++) {
        const na_offset_t offset = (na_offset_t) i * PIECE;

        ops[i] = NA_Op_create(from.na_class, NA_OP_SINGLE);
        assert_int_equal((put ? NA_Put : NA_Get)(from.na_class, from.context, event_callback,
                                                 &events[i], local_mem, offset, handle, offset,
                                                 PIECE, addr, 0, ops[i]),
                         NA_SUCCESS);
    }
    for (unsigned int i = 0; i < PIECES; i++) {
        assert_true(ends_wait(&from, &to, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_SUCCESS);
        assert_int_equal(events[i].done, 1);
        NA_Op_destroy(from.na_class, ops[i]);
    }
    assert_memory_equal(local, remote, sizeof(local));
    free(bytes);
    NA_Mem_handle_free(from.na_class, handle);
    mem_close(&from, local_mem);
    mem_close(&to, remote_mem);
    NA_Addr_free(from.na_class, addr);
    wrapped_close(&from);
    end_close(&to);
}

static void transfers_are_right_without_faults(void **state)
{
    (void) state;
    transfer(NULL, true);
    transfer(NULL, false);
}

static void late_transfers_are_right(void **state)
{
    const uint64_t begin = now_ms();

    (void) state;
    transfer("delay_us=20000:30000", true);
    assert_true(now_ms() - begin >= 20);
    transfer("delay_us=0:3000&reorder=0.4", true);
    transfer("delay_us=0:3000&reorder=0.4", false);
}

static void transfers_are_not_dropped(void **state)
{
    (void) state;
    transfer("drop=1", true);
    transfer("drop=1", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfers_are_right_without_faults),
        cmocka_unit_test(late_transfers_are_right),
        cmocka_unit_test(transfers_are_not_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
