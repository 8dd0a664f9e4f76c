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
