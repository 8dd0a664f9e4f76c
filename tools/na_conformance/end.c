/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of the process: opening, closing, progress and waiting. */

#include "na_conformance/end.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "common/tool_clock.h"

#define INFO_GUARD 64u

/* After so long without completions, polls become rarer, and then much rarer. */
#define IDLE_NS  UINT64_C(5000000)
#define QUIET_NS UINT64_C(100000000)

/* Maximum age of the run delay that conf_now_ms() uses. */
#define DELAY_NS UINT64_C(1000000)

static int32_t class_initialize(struct conf_end *end, const struct na_plugin_init *init,
                                size_t info_size);
static void overwrite(void *memory, size_t size);
static int32_t self_find(struct conf_end *end);
static void op_drop(struct conf_op *op, void *arg);
static void end_forget(struct conf_end *end);

static struct conf_end *ends;
static _Atomic uint64_t polled;

void conf_open(struct conf_end *end, const struct conf_open *how)
{
    int32_t status = conf_try_open(end, how);

    conf_require(status == NA_PLUGIN_SUCCESS, "an endpoint cannot be opened with '%s': %s",
                 conf_settings.init, conf_status_name(status));
}

int32_t conf_try_open(struct conf_end *end, const struct conf_open *how)
{
    static const struct conf_open usual;
    const struct conf_open *with = how != NULL ? how : &usual;
    const uint32_t contexts = with->contexts > 0 ? with->contexts : 1;
    const struct na_plugin_init init = {
        .size = with->first_minor ? offsetof(struct na_plugin_init, options) : sizeof(init),
        .listen = !with->origin_only,
        .class_name = conf_plugin.class_name,
        .protocol = with->protocol != NULL ? with->protocol : conf_plugin.protocol,
        .address = conf_plugin.address[0] != '\0' ? conf_plugin.address : NULL,
        .max_unexpected_size = with->message_size,
        .max_expected_size = with->message_size,
        .progress_mode = with->progress_mode,
        .thread_mode = with->thread_mode,
        .max_contexts = contexts,
        .options = conf_plugin.options[0] != '\0' ? conf_plugin.options : NULL,
    };
    int32_t status;

    memset(end, 0, sizeof(*end));
    status =
        class_initialize(end, &init,
                         with->first_minor ? offsetof(struct na_plugin_class_info, max_segments)
                                           : sizeof(end->info));
    if (status != NA_PLUGIN_SUCCESS)
        return status;
    for (uint32_t id = 0; id < contexts && status == NA_PLUGIN_SUCCESS; id++)
        status = conf_context_create(end, id);
    if (status == NA_PLUGIN_SUCCESS)
        status = self_find(end);
    if (status != NA_PLUGIN_SUCCESS) {
        conf_close(end);
        return status;
    }
    conf_addr_string(end, end->self, end->address, sizeof(end->address));
    end->next = ends;
    ends = end;
    return NA_PLUGIN_SUCCESS;
}

void conf_close(struct conf_end *end)
{
    conf_stop(end);
    conf_destroy(end);
}

void conf_stop(struct conf_end *end)
{
    for (uint32_t id = 0; id < end->context_count; id++) {
        uint64_t entered;
        int32_t status;

        if (end->contexts[id] == NULL)
            continue;
        entered = conf_enter(CONF_CALL_CONTEXT_STOP);
        status = conf_plugin.table.context_stop(end->contexts[id]);
        conf_leave(CONF_CALL_CONTEXT_STOP, entered);
        conf_require(status == NA_PLUGIN_SUCCESS, "context_stop failed: %s",
                     conf_status_name(status));
    }
    conf_ops_check_completed(end, "when context_stop had returned");
}

void conf_destroy(struct conf_end *end)
{
    uint64_t entered;
    int32_t status;

    end_forget(end);
    conf_ops_end(end, op_drop, end);
    for (uint32_t id = 0; id < end->context_count; id++) {
        if (end->contexts[id] == NULL)
            continue;
        entered = conf_enter(CONF_CALL_CONTEXT_DESTROY);
        status = conf_plugin.table.context_destroy(end->contexts[id]);
        conf_leave(CONF_CALL_CONTEXT_DESTROY, entered);
        conf_require(status == NA_PLUGIN_SUCCESS, "context_destroy failed: %s",
                     conf_status_name(status));
    }
    if (end->self != NULL)
        conf_addr_free(end, end->self);
    entered = conf_enter(CONF_CALL_FINALIZE);
    status = conf_plugin.table.finalize(end->na_class);
    conf_leave(CONF_CALL_FINALIZE, entered);
    conf_require(status == NA_PLUGIN_SUCCESS, "finalize failed: %s", conf_status_name(status));
    memset(end, 0, sizeof(*end));
}

int32_t conf_context_create(struct conf_end *end, uint32_t id)
{
    uint64_t entered = conf_enter(CONF_CALL_CONTEXT_CREATE);
    int32_t status = conf_plugin.table.context_create(
        end->na_class, (struct na_host_context *) (void *) &end->contexts[id], id,
        &end->contexts[id]);

    conf_leave(CONF_CALL_CONTEXT_CREATE, entered);
    if (status != NA_PLUGIN_SUCCESS)
        end->contexts[id] = NULL;
    else if (end->context_count <= id)
        end->context_count = id + 1;
    return status;
}

void conf_progress(void)
{
    for (struct conf_end *end = ends; end != NULL; end = end->next) {
        for (uint32_t id = 0; id < end->context_count; id++) {
            uint32_t count = 0;

            if (end->contexts[id] != NULL)
                (void) conf_poll(end, id, &count);
        }
    }
}

void conf_progress_ms(unsigned int ms)
{
    const uint64_t until = conf_now_ms() + ms;

    bool is_idle = false;

    do {
        for (int i = 0; i < (is_idle ? 1 : 20); i++)
            conf_progress();
        is_idle = conf_pause(-1);
    } while (conf_now_ms() < until);
}

int32_t conf_poll(const struct conf_end *end, uint32_t id, uint32_t *count)
{
    const uint32_t before = *count;
    uint64_t entered = conf_enter(CONF_CALL_POLL);
    int32_t status = conf_plugin.table.poll(end->contexts[id], count);

    conf_leave(CONF_CALL_POLL, entered);
    (void) atomic_fetch_add(&polled, *count - before);
    if (status != NA_PLUGIN_SUCCESS && status != NA_PLUGIN_AGAIN && status != NA_PLUGIN_TIMEOUT &&
        status != NA_PLUGIN_INTERRUPT)
        conf_watch_broken(CONF_WATCH_POLL, "poll returned %s", conf_status_name(status));
    return status;
}

uint64_t conf_polled(void)
{
    return atomic_load(&polled);
}

/* Without completions for a while, leave the processor to others. */
bool conf_pause(int fd)
{
    struct pollfd told = {.fd = fd, .events = POLLIN};
    static _Thread_local uint64_t last, since;
    const uint64_t now = tool_clock_ns(), total = conf_polled();

    if (total != last || since == 0) {
        last = total;
        since = now;
    }
    if (now - since < IDLE_NS)
        tool_clock_sleep_ms(0);
    else
        (void) poll(&told, 1, now - since < QUIET_NS ? 1 : 2);
    return now - since >= QUIET_NS;
}

bool conf_can_sleep(const struct conf_end *end)
{
    const struct na_plugin *table = &conf_plugin.table;

    return table->poll_wait != NULL ||
           (table->poll_get_fd != NULL && table->poll_get_fd(end->contexts[0]) >= 0);
}

void conf_sleep(const struct conf_end *end, uint32_t ms)
{
    const struct na_plugin *table = &conf_plugin.table;
    struct na_plugin_context *context = end->contexts[0];
    struct pollfd descriptor = {.fd = -1, .events = POLLIN};
    uint32_t count = 0;

    if (table->poll_wait != NULL) {
        (void) table->poll_wait(context, ms, &count);
        return;
    }
    if (table->poll_get_fd != NULL)
        descriptor.fd = table->poll_get_fd(context);
    if (descriptor.fd >= 0 && (table->poll_try_wait == NULL || table->poll_try_wait(context) != 0))
        (void) poll(&descriptor, 1, (int) ms);
}

/* Never goes back, although the run delay is older than the clock. */
uint64_t conf_now_ms(void)
{
    static _Thread_local uint64_t latest, delay, read_at;
    const uint64_t clock = tool_clock_ns();
    uint64_t now;

    if (clock - read_at >= DELAY_NS) {
        delay = conf_run_delay_ns(0);
        read_at = clock;
    }
    now = clock - delay;
    latest = now > latest ? now : latest;
    return latest / 1000000;
}

/* Mapped, not allocated: class.again counts malloc()'s memory in use. */
char *conf_text_lend(const char *text)
{
    const size_t size = text != NULL ? strlen(text) + 1 : 0;
    char *copy;

    if (text == NULL)
        return NULL;
    copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    conf_require(copy != MAP_FAILED, "no memory for a text");
    memcpy(copy, text, size);
    return copy;
}

void conf_text_take_back(char *text)
{
    if (text != NULL)
        (void) munmap(text, strlen(text) + 1);
}

void conf_leave_alone(struct conf_end *end)
{
    end_forget(end);
}

struct conf_op *conf_op_new(const struct conf_end *end)
{
    struct conf_op *op = conf_op_make(end);
    int32_t status = NA_PLUGIN_SUCCESS;
    uint64_t entered;

    if (conf_plugin.table.op_initialize != NULL) {
        entered = conf_enter(CONF_CALL_OP);
        status = conf_plugin.table.op_initialize(end->na_class, conf_op_private(op));
        conf_leave(CONF_CALL_OP, entered);
    }
    conf_require(status == NA_PLUGIN_SUCCESS, "op_initialize failed: %s", conf_status_name(status));
    return op;
}

void conf_wait(const struct conf_op *op, const char *what)
{
    if (!conf_wait_for(op, CONF_WAIT_MS))
        conf_fail("%s was not completed in %u ms", what, CONF_WAIT_MS);
}

void conf_wait_ok(const struct conf_op *op, const char *what)
{
    conf_wait(op, what);
    conf_require(op->status == NA_PLUGIN_SUCCESS, "%s ended with %s", what,
                 conf_status_name(op->status));
}

/* The processes share a few cores: after some polls without a completion, yield to the others. */
bool conf_wait_for(const struct conf_op *op, unsigned int ms)
{
    uint64_t until = 0; /* read late, because most waits end before the clock matters */
    bool is_idle = false;

    for (uint64_t turn = 1; !conf_op_is_done(op); turn++) {
        conf_progress();
        if (turn % 64 != 0 && !is_idle)
            continue;
        if (until == 0)
            until = conf_now_ms() + ms;
        else if (conf_now_ms() > until)
            return conf_op_is_done(op);
        is_idle = conf_pause(-1);
    }
    return true;
}

/* Calls initialize with guards behind the part of the info that the plugin knows. The init struct
 * and its texts are valid during the call only, and become invalid afterwards. */
static int32_t class_initialize(struct conf_end *end, const struct na_plugin_init *init,
                                size_t info_size)
{
    struct {
        struct na_plugin_class_info info;
        uint8_t guard[INFO_GUARD];
    } out;
    uint8_t *const behind = (uint8_t *) &out + info_size;
    char *texts[4] = {conf_text_lend(init->class_name), conf_text_lend(init->protocol),
                      conf_text_lend(init->address), conf_text_lend(init->options)};
    struct na_plugin_init lent = *init;
    uint64_t entered;
    int32_t status;

    memset(&out.info, 0, sizeof(out.info));
    out.info.size = (uint32_t) info_size;
    conf_guard_set(behind, sizeof(out) - info_size);
    lent.class_name = texts[0];
    lent.protocol = texts[1];
    lent.address = texts[2];
    lent.options = texts[3];
    entered = conf_enter(CONF_CALL_INITIALIZE);
    status = conf_plugin.table.initialize(&lent, (struct na_host_class *) (void *) end,
                                          &end->na_class, &out.info);
    conf_leave(CONF_CALL_INITIALIZE, entered);
    overwrite(&lent, sizeof(lent));
    for (int i = 0; i < 4; i++)
        conf_text_take_back(texts[i]);
    if (conf_guard_broken(behind, sizeof(out) - info_size) >= 0)
        conf_watch_broken(CONF_WATCH_BOUNDS, "initialize wrote past the size of the class's info");
    memcpy(&end->info, &out.info, info_size); /* the rest stays 0 */
    if (status != NA_PLUGIN_SUCCESS && end->na_class != NULL) {
        entered = conf_enter(CONF_CALL_FINALIZE);
        (void) conf_plugin.table.finalize(end->na_class);
        conf_leave(CONF_CALL_FINALIZE, entered);
        end->na_class = NULL;
    }
    conf_require(status != NA_PLUGIN_SUCCESS || end->na_class != NULL,
                 "initialize returned success and no class");
    return status;
}

/* Overwrites memory that is not read any more; volatile, so that the compiler keeps the stores. */
static void overwrite(void *memory, size_t size)
{
    volatile uint8_t *bytes = memory;

    for (size_t i = 0; i < size; i++)
        bytes[i] = '!';
}

static int32_t self_find(struct conf_end *end)
{
    uint64_t entered = conf_enter(CONF_CALL_ADDR);
    int32_t status = conf_plugin.table.addr_self(end->na_class, &end->self);

    conf_leave(CONF_CALL_ADDR, entered);
    if (status != NA_PLUGIN_SUCCESS)
        end->self = NULL;
    conf_require(status != NA_PLUGIN_SUCCESS || end->self != NULL,
                 "addr_self returned success and no address");
    return status;
}

static void op_drop(struct conf_op *op, void *arg)
{
    struct conf_end *end = arg;
    uint64_t entered;

    if (conf_plugin.table.op_finalize == NULL)
        return;
    entered = conf_enter(CONF_CALL_OP);
    conf_plugin.table.op_finalize(end->na_class, conf_op_private(op));
    conf_leave(CONF_CALL_OP, entered);
}

static void end_forget(struct conf_end *end)
{
    for (struct conf_end **link = &ends; *link != NULL; link = &(*link)->next) {
        if (*link == end) {
            *link = end->next;
            return;
        }
    }
}
