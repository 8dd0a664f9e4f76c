/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the shared-memory transport share: endpoints, waiting, and real peer
 * processes.
 */

#ifndef SM_TEST_H
#define SM_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "na.h"

#define SM_TEST_MESSAGE 4096u
#define SM_TEST_WAIT_MS 10000u

/* Sanitizers own malloc and take memory and time that say nothing about ours. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define SM_TEST_SANITIZED 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define SM_TEST_SANITIZED 1
#    endif
#endif
#ifndef SM_TEST_SANITIZED
#    define SM_TEST_SANITIZED 0
#endif

/* For what takes the place of a function of the C library, in the libraries and plugins, too. */
#define SM_TEST_EXPORT __attribute__((visibility("default")))

/* An endpoint of this process. */
struct sm_end {
    na_class_t *na_class;
    na_context_t *context;
};

/* What a callback was told. */
struct sm_event {
    _Atomic int done;
    na_return_t ret;
    na_addr_t *source;
    na_tag_t tag;
    size_t size;
};

/* A process that runs sm_peer. */
struct sm_child {
    pid_t pid;
    int to_child;
    int from_child;
    char address[128];
};

enum sm_command {
    SM_ECHO,    /* replies with the request itself */
    SM_COUNT,   /* counts it; `a` must be the number of those before; no reply */
    SM_REPORT,  /* replies with {counted, out of order} as two uint64_t */
    SM_EXPOSE,  /* registers `b` bytes in `c` pieces with flags `a`, replies with the handle */
    SM_CHECK,   /* replies with the sum of the exposed bytes as uint64_t */
    SM_HIDE,    /* deregisters, replies with the request */
    SM_NAP,     /* does nothing for `a` ms; no reply */
    SM_FLOOD,   /* sends `a` unexpected messages of `b` bytes back, tags 0.. */
    SM_GET_LOOP /* gets the requester's memory, whose handle follows, for ever */
};

struct sm_request {
    uint32_t command;
    uint32_t a;
    uint64_t b;
    uint64_t c;
};

void sm_end_open(struct sm_end *end, const char *init_string, const struct na_init_info *info);
void sm_end_close(struct sm_end *end);

/* The address of an endpoint of this process, and what another one looks up by it. */
void sm_end_address(const struct sm_end *end, char *address, size_t size);
na_addr_t *sm_end_lookup(struct sm_end *from, const struct sm_end *to);

/* Memory of this process that is registered. */
na_mem_handle_t *sm_mem_open(struct sm_end *end, void *base, size_t size, unsigned long flags);
void sm_mem_close(struct sm_end *end, na_mem_handle_t *mem);

/* The callback of every operation; its argument is a struct sm_event. */
void sm_event_callback(const struct na_cb_info *info);

/* Progresses until the event has happened; false when it has not in time. */
bool sm_event_wait(struct sm_end *end, struct sm_event *event, unsigned int timeout_ms);

/* Progresses for a while; once, for 0. */
void sm_end_progress(struct sm_end *end, unsigned int ms);

/* One message; the receive first. Return what the operation ended with. */
na_return_t sm_send(struct sm_end *end, na_addr_t *to, const void *buf, size_t size, na_tag_t tag,
                    bool expected);

/* Sends a request and waits for the reply, which is `*size_p` bytes long. */
na_return_t sm_call(struct sm_end *end, na_addr_t *to, const void *request, size_t request_size,
                    void *reply, size_t *size_p);
na_return_t sm_command(struct sm_end *end, na_addr_t *to, enum sm_command command, uint32_t a,
                       uint64_t b, uint64_t c, void *reply, size_t *size_p);

void sm_child_start(struct sm_child *child, const char *init_string, const char *option);
void sm_child_stop(struct sm_child *child);
void sm_child_kill(struct sm_child *child);

/* Runs a function in a forked process; returns its result, or 128 + the signal that ended it. */
int sm_run_in_child(int (*function)(void *arg), void *arg);

/* Fails when a segment or socket of this process or of its children is left. */
void sm_check_clean(void);

/* What is logged from the first to the second call, at `level` and above; ends with a NUL. */
void sm_log_catch(const char *level);
void sm_log_caught(char *text, size_t size);

/* Milliseconds of a clock that only goes forward. */
uint64_t sm_now_ms(void);

/* For run_in_child: says what was not true and returns. */
#define SM_REQUIRE(condition)                                                                \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            (void) fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

#endif /* SM_TEST_H */
