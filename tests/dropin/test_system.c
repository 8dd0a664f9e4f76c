/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events, poll sets, times, shared objects, byte order and versions.
 */
#define _GNU_SOURCE
#include "mercury_dl.h"
#include "mercury_event.h"
#include "mercury_inet.h"
#include "mercury_param.h"
#include "mercury_poll.h"
#include "mercury_time.h"
#include "mercury_util.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cmocka.h>

static void an_event_is_set_until_it_is_read(void **state)
{
    int fd = hg_event_create();
    bool notified = true;

    (void) state;
    assert_true(fd >= 0);
    assert_int_equal(hg_event_get(fd, &notified), HG_UTIL_SUCCESS);
    assert_false(notified);
    assert_int_equal(hg_event_set(fd), HG_UTIL_SUCCESS);
    assert_int_equal(hg_event_set(fd), HG_UTIL_SUCCESS);
    assert_int_equal(hg_event_get(fd, &notified), HG_UTIL_SUCCESS);
    assert_true(notified);
    assert_int_equal(hg_event_get(fd, &notified), HG_UTIL_SUCCESS);
    assert_false(notified);
    assert_int_equal(hg_event_destroy(fd), HG_UTIL_SUCCESS);
    assert_int_equal(hg_event_get(fd, &notified), HG_UTIL_FAIL);
    assert_int_equal(hg_event_destroy(fd), HG_UTIL_FAIL);
}

static void a_set_returns_what_happened_with_its_data(void **state)
{
    hg_poll_set_t *set = hg_poll_create();
    struct hg_poll_event wanted = {.events = HG_POLLIN};
    struct hg_poll_event events[2];
    int fds[2] = {hg_event_create(), hg_event_create()};
    unsigned int count = 9;

    (void) state;
    assert_non_null(set);
    assert_true(hg_poll_get_fd(set) >= 0);
    for (int i = 0; i < 2; i++) {
        wanted.data.ptr = &fds[i];
        assert_int_equal(hg_poll_add(set, fds[i], &wanted), HG_UTIL_SUCCESS);
    }
    assert_int_equal(hg_poll_add(set, fds[0], &wanted), HG_UTIL_FAIL); /* added already */
    assert_int_equal(hg_poll_wait(set, 0, 2, events, &count), HG_UTIL_SUCCESS);
    assert_int_equal(count, 0);
    assert_int_equal(hg_event_set(fds[1]), HG_UTIL_SUCCESS);
    assert_int_equal(hg_poll_wait(set, 1000, 2, events, &count), HG_UTIL_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(events[0].events, HG_POLLIN);
    assert_ptr_equal(events[0].data.ptr, &fds[1]);
    assert_int_equal(hg_event_set(fds[0]), HG_UTIL_SUCCESS);
    assert_int_equal(hg_poll_wait(set, 1000, 2, events, &count), HG_UTIL_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(hg_poll_wait(set, 1000, 1, events, &count), HG_UTIL_SUCCESS);
    assert_int_equal(count, 1);

    assert_int_equal(hg_poll_destroy(set), HG_UTIL_FAIL); /* not empty */
    for (int i = 0; i < 2; i++)
        assert_int_equal(hg_poll_remove(set, fds[i]), HG_UTIL_SUCCESS);
    assert_int_equal(hg_poll_remove(set, fds[0]), HG_UTIL_FAIL);
    assert_int_equal(hg_poll_destroy(set), HG_UTIL_SUCCESS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(hg_event_destroy(fds[i]), HG_UTIL_SUCCESS);
}

static void a_set_waits_for_writing_and_for_the_end(void **state)
{
    hg_poll_set_t *set = hg_poll_create();
    struct hg_poll_event wanted = {.events = HG_POLLOUT, .data.u64 = UINT64_C(1) << 60};
    struct hg_poll_event event;
    unsigned int count = 0;
    int pipes[2];

    (void) state;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(hg_poll_add(set, pipes[1], &wanted), HG_UTIL_SUCCESS);
    assert_int_equal(hg_poll_wait(set, 1000, 1, &event, &count), HG_UTIL_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(event.events, HG_POLLOUT);
    assert_true(event.data.u64 == UINT64_C(1) << 60);
    (void) close(pipes[0]);
    assert_int_equal(hg_poll_wait(set, 1000, 1, &event, &count), HG_UTIL_SUCCESS);
    assert_true(event.events & HG_POLLERR);
    assert_int_equal(hg_poll_remove(set, pipes[1]), HG_UTIL_SUCCESS);
    (void) close(pipes[1]);
    assert_int_equal(hg_poll_destroy(set), HG_UTIL_SUCCESS);
    assert_int_equal(hg_poll_destroy(NULL), HG_UTIL_SUCCESS);
    assert_int_equal(hg_poll_wait(NULL, 0, 1, &event, &count), HG_UTIL_FAIL);
}

static void on_alarm(int signal)
{
    (void) signal;
}

static void a_signal_ends_the_wait(void **state)
{
    hg_poll_set_t *set = hg_poll_create();
    struct itimerval timer = {.it_value = {.tv_usec = 20000}, .it_interval = {.tv_usec = 20000}};
    struct itimerval none = {0};
    struct sigaction action = {.sa_handler = on_alarm};
    struct hg_poll_event event = {0};
    unsigned int count = 0;

    (void) state;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    assert_int_equal(hg_poll_wait(set, 10000, 1, &event, &count), HG_UTIL_SUCCESS);
    assert_int_equal(setitimer(ITIMER_REAL, &none, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(event.events, HG_POLLINTR);
    assert_int_equal(hg_poll_destroy(set), HG_UTIL_SUCCESS);
}

static void times_are_counted_with(void **state)
{
    hg_time_t a = hg_time_from_ms(1900);
    hg_time_t b = hg_time_from_double(0.25);
    hg_time_t sum = hg_time_add(a, b);
    hg_time_t none = {.tv_sec = 0, .tv_nsec = -1};

    (void) state;
    assert_int_equal(sum.tv_sec, 2);
    assert_int_equal(sum.tv_nsec, 150000000);
    assert_int_equal(hg_time_to_ms(sum), 2150);
    assert_int_equal(hg_time_to_ms((hg_time_t){.tv_sec = 1, .tv_nsec = 1}), 1001); /* rounded up */
    assert_int_equal(hg_time_to_ms(hg_time_subtract(sum, a)), 250);
    assert_true(hg_time_less(b, a));
    assert_false(hg_time_less(a, a));
    assert_true(hg_time_less(a, sum));
    assert_true(hg_time_diff(sum, b) > 1.8999 && hg_time_diff(sum, b) < 1.9001);
    sum = hg_time_add(hg_time_from_double(0.5), hg_time_from_double(0.5));
    assert_int_equal(sum.tv_sec, 1);
    assert_int_equal(sum.tv_nsec, 0);
    assert_int_equal(hg_time_sleep(none), HG_UTIL_FAIL);
    assert_non_null(hg_time_stamp());
}

static void the_clock_goes_on(void **state)
{
    hg_time_t before;
    hg_time_t after;
    hg_time_t coarse;

    (void) state;
    assert_int_equal(hg_time_get_current(&before), HG_UTIL_SUCCESS);
    assert_int_equal(hg_time_sleep(hg_time_from_ms(20)), HG_UTIL_SUCCESS);
    assert_int_equal(hg_time_get_current_ms(&coarse), HG_UTIL_SUCCESS);
    assert_int_equal(hg_time_get_current(&after), HG_UTIL_SUCCESS);
    assert_true(hg_time_diff(after, before) >= 0.02);
    assert_true(hg_time_less(before, coarse) && !hg_time_less(after, coarse));
}

static void shared_objects_are_loaded(void **state)
{
    void *handle = hg_dl_open("libm.so.6");
    struct stat info;
    char path[4096];

    (void) state;
    assert_non_null(handle);
    assert_non_null(hg_dl_sym(handle, "cos"));
    assert_null(hg_dl_sym(handle, "no such function"));
    assert_non_null(hg_dl_error());
    assert_int_equal(hg_dl_close(handle), 0);
    assert_null(hg_dl_open("/no/such/file.so"));

    assert_int_equal(hg_dl_get_path((const void *) &hg_time_stamp, path, sizeof(path)),
                     HG_UTIL_SUCCESS);
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(hg_dl_get_path((const void *) &hg_time_stamp, path, 2), HG_UTIL_FAIL);
    assert_int_equal(hg_dl_get_path(path, path, sizeof(path)), HG_UTIL_FAIL);
}

static void bytes_and_numbers(void **state)
{
    uint64_t number = UINT64_C(0x0102030405060708);
    uint64_t sent = htonll(number);
    unsigned int major = 0;
    unsigned int minor = 0;
    unsigned int patch = 9;

    (void) state;
    assert_int_equal(((unsigned char *) &sent)[0], 1);
    assert_true(ntohll(sent) == number);
    assert_int_equal(bswap_16(0x0102), 0x0201);
    assert_int_equal(MAX(3, 4), 4);
    assert_int_equal(MIN(3, 4), 3);
    assert_true(powerof2(8) && !powerof2(12));
    HG_Util_version_get(&major, &minor, &patch);
    assert_int_equal(major, 4);
    assert_int_equal(minor, 1);
    assert_int_equal(patch, 0);
    HG_Util_version_get(NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_set_until_it_is_read),
        cmocka_unit_test(a_set_returns_what_happened_with_its_data),
        cmocka_unit_test(a_set_waits_for_writing_and_for_the_end),
        cmocka_unit_test(a_signal_ends_the_wait),
        cmocka_unit_test(times_are_counted_with),
        cmocka_unit_test(the_clock_goes_on),
        cmocka_unit_test(shared_objects_are_loaded),
        cmocka_unit_test(bytes_and_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
