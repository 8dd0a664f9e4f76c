/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An installed BMI. A process can open it once. It has no descriptor to wait on, so the core polls
 * and backs off, and it cancels an operation that moves data by closing the connection.
 */

#include "bmi_na.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* Attempts to listen at a port that was free a moment before. */
#define LIBRARY_ATTEMPTS 16

static int32_t library_start(const struct sockaddr_storage *place, bool is_last);
static int32_t library_find_port(struct sockaddr_storage *place);

const int library_test_ms = 0;
const bool library_answers_source = true;
const char library_name[] = "the system's";

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
static bool library_is_taken;
static bool library_was_closed;

int32_t library_open(struct library *library, struct sockaddr_storage *place)
{
    bool is_any = bmi_na_port(place) == 0;
    int32_t ret = NA_PLUGIN_ADDRINUSE;
    bool is_free, was_closed;

    if (place->ss_family != AF_INET) {
        BMI_NA_LOG_ERROR("BMI knows IPv4 only: give an address of that kind to listen at");
        return NA_PLUGIN_ADDRNOTAVAIL;
    }
    (void) pthread_mutex_lock(&library_lock);
    is_free = !library_is_taken;
    was_closed = library_was_closed;
    library_is_taken = library_is_taken || !was_closed;
    (void) pthread_mutex_unlock(&library_lock);
    if (was_closed) {
        BMI_NA_LOG_ERROR("BMI was open in this process before, and cannot be opened in it again: "
                         "keep that class, or build this plugin with NA_BMI=embedded");
        return NA_PLUGIN_BUSY;
    }
    if (!is_free) {
        BMI_NA_LOG_ERROR("BMI is open in this process already, which is possible once only: close "
                         "the other class of this plugin first, or build it with NA_BMI=embedded");
        return NA_PLUGIN_BUSY;
    }
    for (int i = 1; i <= LIBRARY_ATTEMPTS && ret == NA_PLUGIN_ADDRINUSE; i++) {
        ret = is_any ? library_find_port(place) : NA_PLUGIN_SUCCESS;
        if (ret == NA_PLUGIN_SUCCESS)
            ret = library_start(place, !is_any || i == LIBRARY_ATTEMPTS);
        if (!is_any)
            break;
    }
    library->is_open = ret == NA_PLUGIN_SUCCESS;
    if (!library->is_open) {
        (void) pthread_mutex_lock(&library_lock);
        library_is_taken = false;
        (void) pthread_mutex_unlock(&library_lock);
    }
    return ret;
}

/* A later BMI_initialize() would use a table that BMI_finalize() has freed. */
void library_close(struct library *library)
{
    if (!library->is_open)
        return;
    (void) BMI_finalize();
    library->is_open = false;
    (void) pthread_mutex_lock(&library_lock);
    library_is_taken = false;
    library_was_closed = true;
    (void) pthread_mutex_unlock(&library_lock);
}

void library_use(const struct library *library)
{
    (void) library;
}

int library_progress(void)
{
    return 0;
}

int library_wait_fd(void)
{
    return -1;
}

bool library_may_wait(void)
{
    return false;
}

void library_wake_in(int ms)
{
    (void) ms;
}

int library_may_send(BMI_addr_t address)
{
    (void) address;
    return 1;
}

void library_dial(BMI_addr_t address)
{
    (void) address;
}

bool library_leave(bmi_op_id_t id)
{
    (void) id;
    return false;
}

bool library_detach(bmi_op_id_t id)
{
    (void) id;
    return false;
}

static int32_t library_start(const struct sockaddr_storage *place, bool is_last)
{
    char host[128], name[160];
    int ret;

    kit_location_format(place, host, sizeof(host));
    (void) snprintf(name, sizeof(name), BMI_NA_PREFIX "%s", host);
    ret = BMI_initialize("bmi_tcp", name, BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC);
    if (ret >= 0) {
        kit_process_ignore_sigpipe(); /* BMI writes to sockets that the peer has closed */
        return NA_PLUGIN_SUCCESS;
    }
    if (is_last)
        BMI_NA_LOG_ERROR("cannot listen at '%s': %s", host, bmi_na_reason(ret));
    return bmi_na_status(ret);
}

/* BMI's own name contains the port that it is given, so port 0 cannot be left to the system. */
static int32_t library_find_port(struct sockaddr_storage *place)
{
    struct sockaddr_storage bound = *place;
    socklen_t size = kit_location_length(place);
    int fd = socket(place->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (fd < 0)
        return NA_PLUGIN_NOMEM;
    bmi_na_set_port(&bound, 0);
    if (bind(fd, (const struct sockaddr *) &bound, size) != 0 ||
        getsockname(fd, (struct sockaddr *) &bound, &size) != 0)
        ret = NA_PLUGIN_ADDRNOTAVAIL;
    else
        bmi_na_set_port(place, bmi_na_port(&bound));
    (void) close(fd);
    return ret;
}
