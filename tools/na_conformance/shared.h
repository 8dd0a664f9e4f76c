/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of a check, in memory that it shares with its parent process and its peers, so that
 * they can be read after a crash. */

#ifndef AMALGAM_CONF_SHARED_H
#define AMALGAM_CONF_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CONF_REASON_SIZE 512

/* Promises that are watched during all checks. */
enum conf_watch {
    CONF_WATCH_ONCE,
    CONF_WATCH_ACCEPTED,
    CONF_WATCH_COMPLETES,
    CONF_WATCH_FORM,
    CONF_WATCH_BOUNDS,
    CONF_WATCH_FREE,
    CONF_WATCH_LEAK,
    CONF_WATCH_BLOCKS,
    CONF_WATCH_POLL,
    CONF_WATCH_DESCRIPTOR,
    CONF_WATCH_PEER,
    CONF_WATCH_AFTER,
    CONF_WATCHES
};

/* Functions of the table, to report a crash, a hang or a delay. */
enum conf_call {
    CONF_CALL_NONE,
    CONF_CALL_ENTRY,
    CONF_CALL_ENUMERATE,
    CONF_CALL_INITIALIZE,
    CONF_CALL_FINALIZE,
    CONF_CALL_CONTEXT_CREATE,
    CONF_CALL_CONTEXT_STOP,
    CONF_CALL_CONTEXT_DESTROY,
    CONF_CALL_OP,
    CONF_CALL_ADDR_LOOKUP,
    CONF_CALL_ADDR,
    CONF_CALL_ADDR_TO_STRING,
    CONF_CALL_ADDR_SERIALIZE,
    CONF_CALL_BUFFER,
    CONF_CALL_SEND_UNEXPECTED,
    CONF_CALL_RECV_UNEXPECTED,
    CONF_CALL_SEND_EXPECTED,
    CONF_CALL_RECV_EXPECTED,
    CONF_CALL_MULTI_RECV,
    CONF_CALL_MEM_CREATE,
    CONF_CALL_MEM_REGISTER,
    CONF_CALL_MEM_SERIALIZE,
    CONF_CALL_MEM_DESERIALIZE,
    CONF_CALL_MEM_DESTROY,
    CONF_CALL_PUT,
    CONF_CALL_GET,
    CONF_CALL_POLL,
    CONF_CALL_POLL_WAIT,
    CONF_CALL_POLL_FD,
    CONF_CALL_WAKE,
    CONF_CALL_CANCEL,
    CONF_CALL_EXTENSION,
    CONF_CALL_CLEANUP
};

enum conf_outcome {
    CONF_NONE, /* not finished */
    CONF_PASS,
    CONF_FAIL,
    CONF_SKIP
};

struct conf_finding {
    _Atomic uint32_t outcome;
    char reason[CONF_REASON_SIZE];
};

struct conf_shared {
    struct conf_finding check;
    struct conf_finding watches[CONF_WATCHES];
    _Atomic uint32_t call;                   /* enum conf_call of the current call */
    char plugin_error[CONF_REASON_SIZE / 2]; /* last error that the plugin logged */
};

extern struct conf_shared *conf_shared;
extern bool conf_is_peer;          /* this is a peer process */
extern unsigned int conf_patience; /* factor of all time limits */

/* Ends the check, and this process. */
_Noreturn void conf_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void conf_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the check unless the condition holds. */
void conf_require(bool condition, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the check with success, unless it has ended otherwise. */
void conf_pass(void);

/* Records that a watched promise is broken. The check continues; the first record is kept. */
void conf_watch_broken(enum conf_watch watch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets a note for a passing check, for instance the number of attempts. */
void conf_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Called around each call of the plugin. conf_leave() reports functions that wrongly blocked. */
uint64_t conf_enter(enum conf_call call);
void conf_leave(enum conf_call call, uint64_t entered);

/* Time that a process's first thread, or for 0 the calling thread, has waited for a processor so
 * far; 0 if the kernel does not report it. */
uint64_t conf_run_delay_ns(pid_t pid);

const char *conf_call_name(uint32_t call);
const char *conf_status_name(int32_t status);

#endif /* AMALGAM_CONF_SHARED_H */
