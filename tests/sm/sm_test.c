/* SPDX-License-Identifier: BSD-3-Clause */
/* Capturing the log, and access to the shared memory of an endpoint. */

#include "sm_test.h"

#include "layout.h"
#include "na_ext.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static FILE *sm_log;

void sm_log_catch(const char *level)
{
    sm_log = tmpfile();
    assert_non_null(sm_log);
    NA_Set_log_level(level);
    NA_Set_log_stream(level, sm_log);
}

void sm_log_caught(char *text, size_t size)
{
    size_t got;

    NA_Set_log_stream("error", NULL);
    NA_Set_log_stream("warning", NULL);
    NA_Set_log_stream("info", NULL);
    NA_Set_log_level("warning");
    rewind(sm_log);
    got = fread(text, 1, size - 1, sm_log);
    text[got] = '\0';
    (void) fclose(sm_log);
}

uint64_t sm_counter(const struct end *end, const char *name)
{
    struct na_counter counters[32];
    size_t count = 32;

    assert_int_equal(NA_Class_get_counters(end->na_class, counters, &count), NA_SUCCESS);
    for (size_t i = 0; i < count; i++)
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].value;
    fail_msg("no counter %s", name);
    return 0;
}

na_mem_handle_t *sm_mem_pass(const struct end *owner, const struct end *user, na_mem_handle_t *mem)
{
    uint8_t packed[512];
    size_t size = NA_Mem_handle_get_serialize_size(owner->na_class, mem);
    na_mem_handle_t *remote;

    assert_true(size <= sizeof(packed));
    assert_int_equal(NA_Mem_handle_serialize(owner->na_class, packed, sizeof(packed), mem),
                     NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(user->na_class, &remote, packed, size), NA_SUCCESS);
    return remote;
}

na_return_t sm_transfer(struct end *user, struct end *owner, na_addr_t *owner_addr, bool put,
                        na_mem_handle_t *local, na_mem_handle_t *remote, size_t size)
{
    na_op_id_t *op = NA_Op_create(user->na_class, NA_OP_SINGLE);
    struct event event = {0};
    uint64_t until = now_ms() + TEST_WAIT_MS;
    na_return_t ret;

    ret = (put ? NA_Put : NA_Get)(user->na_class, user->context, event_callback, &event, local, 0,
                                  remote, 0, size, owner_addr, 0, op);
    while (ret == NA_SUCCESS && event.done == 0 && now_ms() < until) {
        end_progress(user, 0);
        end_progress(owner, 0);
    }
    NA_Op_destroy(user->na_class, op);
    return ret == NA_SUCCESS ? event.ret : ret;
}

int sm_memory_of(const char *name)
{
    struct sm_segment_header header;
    char path[640];
    int fd;

    if (strncmp(name, "na+sm://", 8) == 0)
        name += 8;
    (void) snprintf(path, sizeof(path), "/dev/shm/amalgam-sm.%u.%s", (unsigned) geteuid(), name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
    (void) close(fd);
    (void) snprintf(path, sizeof(path), "/proc/%u/fd/%u", header.pid, header.memory_fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}
