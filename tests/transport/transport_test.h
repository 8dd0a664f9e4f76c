/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of NA over a real transport share: endpoints, waiting, and real peer processes.
 * They use only NA, over the transport that AMALGAM_TEST_INIT names. */

#ifndef TRANSPORT_TEST_H
#define TRANSPORT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../test_sanitized.h"
#include "na.h"

/* A time limit for anything that happens at all, on a machine that is busy with other things. A
 * wait ends with its event, so that only a failure takes this long. */
#define TEST_WAIT_MS 60000u

/* How long it may take to detect the death of a peer on the same machine: two seconds on a quiet
 * machine, longer on a busy one. */
#define TEST_DEATH_MS 20000u

/* An endpoint of this process. */
struct end {
    na_class_t *na_class;
    na_context_t *context;
};

/* What a callback received. */
struct event {
    _Atomic int done;
    na_return_t ret;
    na_addr_t *source;
    na_tag_t tag;
    size_t size;
};

/* A process that runs transport_peer: our child, or an agent (AMALGAM_TEST_AGENTS). */
struct child {
    pid_t pid;
    int agent; /* -1: our child */
    int to_child;
    int from_child;
    char address[512];
};

/* Requests to a peer; `a`, `b` and `c` are fields of struct peer_request. */
enum peer_command {
    PEER_ECHO,     /* replies with the request itself */
    PEER_ECHO_TO,  /* replies with the request itself to context `a` */
    PEER_COUNT,    /* counts the request; `a` must be higher than any before; no reply */
    PEER_REPORT,   /* replies with {counted, out of order} as two uint64_t */
    PEER_EXPOSE,   /* registers `b` bytes in `c` pieces with flags `a`, replies with the handle */
    PEER_CHECK,    /* replies with the sum of the exposed bytes as uint64_t */
    PEER_HIDE,     /* deregisters, replies with the request */
    PEER_NAP,      /* does nothing for `a` ms; no reply */
    PEER_LATER,    /* replies with the request after `a` ms */
    PEER_FLOOD,    /* sends `a` unexpected messages of `b` bytes back, tags 0.. */
    PEER_MIX,      /* sends `a` pairs of an unexpected and an expected message back, tags 0.. */
    PEER_GET_LOOP, /* gets the requester's memory, whose handle follows, for ever */
    PEER_TRANSFER, /* gets (`a` 0) `b` bytes of it, or puts (`a` 1) bytes that are `c` there;
                      replies with {na_return_t, sum of the bytes} as two uint64_t */
    PEER_ADDRESS,  /* replies with its own address, serialized */
    PEER_MEET      /* counts at the peer whose serialized address follows, replies with the code */
};

struct peer_request {
    uint32_t command;
    uint32_t a;
    uint64_t b;
    uint64_t c;
};

/* The init string of the transport under test, "na+sm" by default; and whether it is na+sm. */
const char *test_init_string(void);
bool test_is_sm(void);

/* Skips the test and prints the reason. */
void test_skip(const char *why);

/* `init_string` NULL is the transport under test. */
void end_open(struct end *end, const char *init_string, const struct na_init_info *info);
void end_close(struct end *end);

/* The address of an endpoint of this process; and the lookup of one endpoint by another. */
void end_address(const struct end *end, char *address, size_t size);
na_addr_t *end_lookup(struct end *from, const struct end *to);

/* Progresses for `ms`; 0: once. */
void end_progress(struct end *end, unsigned int ms);

/* Post receives with event_callback. */
na_return_t end_receive_unexpected(struct end *end, struct event *event, void *buf, size_t size,
                                   na_op_id_t *op);
na_return_t end_receive_expected(struct end *end, struct event *event, void *buf, size_t size,
                                 na_addr_t *source, na_tag_t tag, na_op_id_t *op);

/* Sends one message and waits for the end of the send. Returns its status. */
na_return_t end_send(struct end *end, na_addr_t *to, const void *buf, size_t size, na_tag_t tag,
                     bool expected);

/* Sends a request, repeated while resources are short, and waits for the reply. `*size_p` is set to
 * the size of the reply. */
na_return_t end_call(struct end *end, na_addr_t *to, const void *request, size_t request_size,
                     void *reply, size_t *size_p);
na_return_t end_command(struct end *end, na_addr_t *to, enum peer_command command, uint32_t a,
                        uint64_t b, uint64_t c, void *reply, size_t *size_p);

/* Fails the test when the peer does not answer. */
void end_check_peer(struct end *end, na_addr_t *peer);

/* Returns how many messages a peer counted; fails the test when they were out of order. */
uint64_t end_peer_count(struct end *end, na_addr_t *peer);

/* Waits until the peer has counted `count` messages; fails the test after TEST_WAIT_MS. */
void end_await_peer_count(struct end *end, na_addr_t *peer, uint64_t count);

/* Registers memory of this process; and deregisters it. */
na_mem_handle_t *mem_open(struct end *end, void *base, size_t size, unsigned long flags);
void mem_close(struct end *end, na_mem_handle_t *mem);

/* The callback of every operation; its argument is a struct event. */
void event_callback(const struct na_cb_info *info);

/* Progresses until the event has happened; false when that takes longer than `timeout_ms`. */
bool event_wait(struct end *end, struct event *event, unsigned int timeout_ms);

/*
 * `option`: "plain"; "busy" polls without ever sleeping; "idle" sleeps up to a second; "contexts"
 * has three contexts; "undumpable" must not be traced; "allocated" exposes memory of
 * NA_Mem_alloc(). `init_string` NULL is the transport under test.
 */
void child_start(struct child *child, const char *init_string, const char *option);
void child_stop(struct child *child);
void child_kill(struct child *child);

/* Starts a child, opens an endpoint, and looks up the child's address. */
void pair_open(struct child *child, struct end *end, na_addr_t **peer, const char *option);
void pair_close(struct child *child, struct end *end, na_addr_t *peer);

/* Runs a function in a forked process; returns its result, or 128 + the signal that ended it. */
int run_in_child(int (*function)(void *arg), void *arg);

/* Fails when a shared-memory segment or socket of this process or of its children is left. */
void check_clean(void);

/* The teardown of a group: removes what killed children left, then checks like check_clean(). */
int teardown_clean(void **state);

/* Milliseconds of a clock that only goes forward. */
uint64_t now_ms(void);

/* For functions of run_in_child() and of threads: prints the condition that does not hold, and
 * returns. */
#define TEST_REQUIRE(condition)                                                              \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            (void) fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

#endif /* TRANSPORT_TEST_H */
