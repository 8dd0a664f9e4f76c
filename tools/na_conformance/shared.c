/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of a check: outcomes, broken promises, and the current call. */

#include "na_conformance/shared.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/tool_clock.h"

/* Without the time in which the thread waited for a processor; rather too much is subtracted. */
#define BLOCKED_NS (UINT64_C(1500) * 1000000)

struct call_info {
    const char *name;
    bool may_block;
};

static const struct call_info calls[] = {
    [CONF_CALL_NONE] = {"no function of the plugin", true},
    [CONF_CALL_ENTRY] = {"na_plugin_entry_v1", false},
    [CONF_CALL_ENUMERATE] = {"enumerate", false},
    [CONF_CALL_INITIALIZE] = {"initialize", true},
    [CONF_CALL_FINALIZE] = {"finalize", true},
    [CONF_CALL_CONTEXT_CREATE] = {"context_create", true},
    [CONF_CALL_CONTEXT_STOP] = {"context_stop", false},
    [CONF_CALL_CONTEXT_DESTROY] = {"context_destroy", true},
    [CONF_CALL_OP] = {"op_initialize or op_finalize", false},
    [CONF_CALL_ADDR_LOOKUP] = {"addr_lookup", true},
    [CONF_CALL_ADDR] = {"a function of addresses", false},
    [CONF_CALL_ADDR_TO_STRING] = {"addr_to_string", false},
    [CONF_CALL_ADDR_SERIALIZE] = {"na.addr_serialize/1", true},
    [CONF_CALL_BUFFER] = {"a function of message buffers", false},
    [CONF_CALL_SEND_UNEXPECTED] = {"msg_send_unexpected", false},
    [CONF_CALL_RECV_UNEXPECTED] = {"msg_recv_unexpected", false},
    [CONF_CALL_SEND_EXPECTED] = {"msg_send_expected", false},
    [CONF_CALL_RECV_EXPECTED] = {"msg_recv_expected", false},
    [CONF_CALL_MULTI_RECV] = {"msg_multi_recv_unexpected", false},
    [CONF_CALL_MEM_CREATE] = {"mem_create", false},
    [CONF_CALL_MEM_REGISTER] = {"mem_register or mem_deregister", true},
    [CONF_CALL_MEM_SERIALIZE] = {"mem_serialize", false},
    [CONF_CALL_MEM_DESERIALIZE] = {"mem_deserialize", false},
    [CONF_CALL_MEM_DESTROY] = {"mem_destroy", true},
    [CONF_CALL_PUT] = {"put", false},
    [CONF_CALL_GET] = {"get", false},
    [CONF_CALL_POLL] = {"poll", false},
    [CONF_CALL_POLL_WAIT] = {"poll_wait", true},
    [CONF_CALL_POLL_FD] = {"poll_get_fd or poll_try_wait", false},
    [CONF_CALL_WAKE] = {"wake", false},
    [CONF_CALL_CANCEL] = {"cancel", false},
    [CONF_CALL_EXTENSION] = {"get_extension", false},
    [CONF_CALL_CLEANUP] = {"cleanup", true},
};

static const char *const status_names[] = {
    "SUCCESS",        "PERMISSION",  "NOENTRY", "INTERRUPT",      "AGAIN",          "NOMEM",
    "ACCESS",         "FAULT",       "BUSY",    "EXIST",          "NODEV",          "INVALID_ARG",
    "PROTOCOL_ERROR", "OVERFLOW",    "MSGSIZE", "PROTONOSUPPORT", "OPNOTSUPPORTED", "ADDRINUSE",
    "ADDRNOTAVAIL",   "HOSTUNREACH", "TIMEOUT", "CANCELED",       "IO_ERROR",       "HOSTFIREWALL",
};

static void finding_set(struct conf_finding *finding, enum conf_outcome outcome, const char *format,
                        va_list args);

struct conf_shared *conf_shared;
bool conf_is_peer;
unsigned int conf_patience = 1;

void conf_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    finding_set(&conf_shared->check, CONF_FAIL, format, args);
    va_end(args);
    _exit(1);
}

void conf_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    finding_set(&conf_shared->check, CONF_SKIP, format, args);
    va_end(args);
    _exit(0);
}

void conf_require(bool condition, const char *format, ...)
{
    va_list args;

    if (condition)
        return;
    va_start(args, format);
    finding_set(&conf_shared->check, CONF_FAIL, format, args);
    va_end(args);
    _exit(1);
}

void conf_pass(void)
{
    uint32_t none = CONF_NONE;

    (void) atomic_compare_exchange_strong(&conf_shared->check.outcome, &none, CONF_PASS);
}

void conf_watch_broken(enum conf_watch watch, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    finding_set(&conf_shared->watches[watch], CONF_FAIL, format, args);
    va_end(args);
}

void conf_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void) vsnprintf(conf_shared->check.reason, CONF_REASON_SIZE, format, args);
    va_end(args);
}

uint64_t conf_enter(enum conf_call call)
{
    if (!conf_is_peer)
        atomic_store_explicit(&conf_shared->call, call, memory_order_relaxed);
    return tool_clock_ns();
}

void conf_leave(enum conf_call call, uint64_t entered)
{
    const uint64_t took = tool_clock_ns() - entered;

    if (conf_is_peer)
        return; /* a check may have stopped this process meanwhile */
    atomic_store_explicit(&conf_shared->call, CONF_CALL_NONE, memory_order_relaxed);
    if (took > BLOCKED_NS && !calls[call].may_block && took - BLOCKED_NS > conf_run_delay_ns(0))
        conf_watch_broken(CONF_WATCH_BLOCKS, "%s took %llu ms and may not block", calls[call].name,
                          (unsigned long long) (took / 1000000));
}

uint64_t conf_run_delay_ns(pid_t pid)
{
    char path[64] = "/proc/thread-self/schedstat", text[128];
    unsigned long long ran = 0, waited = 0;
    ssize_t got = -1;
    int fd;

    if (pid != 0)
        (void) snprintf(path, sizeof(path), "/proc/%d/schedstat", (int) pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, sizeof(text) - 1);
        (void) close(fd);
    }
    if (got <= 0)
        return 0;
    text[got] = '\0';
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

const char *conf_call_name(uint32_t call)
{
    return call < sizeof(calls) / sizeof(calls[0]) ? calls[call].name : "an unknown function";
}

const char *conf_status_name(int32_t status)
{
    if (status < 0 || (size_t) status >= sizeof(status_names) / sizeof(status_names[0]))
        return "a status that does not exist";
    return status_names[status];
}

/* Only the first writer sets a finding; later ones have nothing to add. It is read after the
 * writer has ended. */
static void finding_set(struct conf_finding *finding, enum conf_outcome outcome, const char *format,
                        va_list args)
{
    uint32_t none = CONF_NONE;
    size_t used;

    if (!atomic_compare_exchange_strong(&finding->outcome, &none, outcome))
        return;
    (void) snprintf(finding->reason, CONF_REASON_SIZE, "%s", conf_is_peer ? "in the peer: " : "");
    used = strlen(finding->reason);
    (void) vsnprintf(finding->reason + used, CONF_REASON_SIZE - used, format, args);
    used = strlen(finding->reason);
    if (outcome == CONF_FAIL && conf_shared->plugin_error[0] != '\0')
        (void) snprintf(finding->reason + used, CONF_REASON_SIZE - used,
                        "; the last error in its log: %s", conf_shared->plugin_error);
}
