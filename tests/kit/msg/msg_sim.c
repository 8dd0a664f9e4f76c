/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated fabric and core of the message layer's tests. */

#include "msg_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

_Atomic int64_t sim_allocations;
_Atomic uint64_t sim_allocations_made;
_Atomic int64_t sim_allocation_to_fail = -1;
_Atomic uint64_t sim_clock_skip;
_Atomic uint64_t sim_clock_stopped;
_Atomic uint64_t sim_clock_looks;
_Atomic uint32_t sim_events_to_refuse;

static void host_op_complete(void *op, int32_t status);
static void host_op_complete_recv(void *op, int32_t status, uint64_t size,
                                  struct na_plugin_addr *source, uint32_t tag);
static int32_t host_op_complete_multi_recv(void *op, int32_t status, void *buf, uint64_t size,
                                           struct na_plugin_addr *source, uint32_t tag,
                                           uint32_t last);
static void *host_mem_alloc(uint64_t size, uint64_t align);
static void host_mem_free(void *ptr);
static uint32_t host_log_enabled(uint32_t level);
static void host_log(uint32_t level, const char *plugin, const char *function, uint32_t line,
                     const char *message);
static uint64_t host_clock_ns(void);

static int32_t sim_send(struct kit_endpoint *endpoint, struct kit_frame *frame);
static int32_t sim_fabric_poll(struct kit_endpoint *endpoint);
static int sim_get_fd(struct kit_endpoint *endpoint);
static bool sim_try_wait(struct kit_endpoint *endpoint);
static void sim_frame_release(struct kit_endpoint *endpoint, void *cookie);
static int32_t sim_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer);
static void sim_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer);
static int32_t sim_slab_register(struct kit_endpoint *endpoint, void *base, uint64_t size,
                                 void **registration_p);
static void sim_slab_deregister(struct kit_endpoint *endpoint, void *registration);
static int32_t sim_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma);
static bool sim_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);
static bool sim_reset(struct kit_endpoint *endpoint);
static void sim_control(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                        const void *data, uint64_t size);
static void sim_count(struct na_plugin_class *node, const struct kit_frame *frame);
static bool sim_deliver(struct na_plugin_class *node, const char *name, const void *data,
                        uint64_t size);
static void sim_push(struct na_plugin_class *node, const char *source, const void *data,
                     uint64_t size);
static bool sim_path_is_named(struct kit_endpoint *endpoint, const void *path, const char *name);
static void sim_job_add(struct na_plugin_class *node, struct kit_frame *frame,
                        struct kit_msg_rma *rma, int32_t status, uint32_t delay);
static void sim_jobs_run(struct na_plugin_class *node);
static void sim_rma_copy(const struct kit_msg_rma *rma);
static void sim_free(struct na_plugin_class *node);

const struct na_host sim_host = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_host),
    .op_complete = host_op_complete,
    .op_complete_recv = host_op_complete_recv,
    .op_complete_multi_recv = host_op_complete_multi_recv,
    .mem_alloc = host_mem_alloc,
    .mem_free = host_mem_free,
    .log_enabled = host_log_enabled,
    .log = host_log,
    .clock_ns = host_clock_ns,
};

static const struct kit_msg_ops sim_ops = {
    .max_frame = SIM_FRAME_MAX,
    .max_sends = 1,
    .peer_size = 40,
    .frame_size = 24,
    .rma_size = 8,
    .send = sim_send,
    .poll = sim_fabric_poll,
    .get_fd = sim_get_fd,
    .try_wait = sim_try_wait,
    .frame_release = sim_frame_release,
    .peer_open = sim_peer_open,
    .peer_close = sim_peer_close,
    .slab_register = sim_slab_register,
    .slab_deregister = sim_slab_deregister,
    .rma_start = sim_rma_start,
    .rma_abandon = sim_rma_abandon,
    .reset = sim_reset,
    .control = sim_control,
};

void sim_net_setup(struct sim_net *net)
{
    memset(net, 0, sizeof(*net));
    kit_host = &sim_host;
    (void) pthread_mutex_init(&net->lock, NULL);
    sim_allocation_to_fail = -1;
}

/* Kept as long as the process lives, since stretching the key is slow. */
const char *sim_key(void)
{
    static struct kit_auth_secret *secret;
    const char *key = getenv("SIM_KEY");

    if (key != NULL && secret == NULL)
        assert_int_equal(kit_auth_secret_open("sim", key, &secret), NA_PLUGIN_SUCCESS);
    return key;
}

struct na_plugin_init sim_init(void)
{
    return (struct na_plugin_init){
        .size = sizeof(struct na_plugin_init),
        .listen = 1,
        .protocol = "net",
        .max_contexts = 1,
        .max_unexpected_size = 1024,
        .max_expected_size = 1024,
        .auth_key = sim_key(),
        .encrypt = getenv("SIM_ENCRYPT") != NULL,
    };
}

struct na_plugin_class *sim_try_open(struct sim_net *net, const char *name,
                                     const struct na_plugin_init *init, uint32_t max_sends)
{
    struct na_plugin_class *node = calloc(1, sizeof(*node));
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct kit_endpoint_config config = {
        .ops = &node->ops,
        .plugin = "sim",
        .protocol = "net",
        .name = node->name,
        .raw = node->name,
        .raw_size = (uint32_t) strlen(name) + 1,
        .init = init,
    };

    assert_non_null(node);
    node->ops = sim_ops;
    node->ops.max_sends = max_sends;
    node->net = net;
    node->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void) pthread_mutex_init(&node->inbox_lock, NULL);
    (void) snprintf(node->name, sizeof(node->name), "%s", name);
    if (kit_endpoint_open(&node->endpoint, &config, &info) != NA_PLUGIN_SUCCESS) {
        sim_free(node);
        return NULL;
    }
    (void) pthread_mutex_lock(&net->lock);
    for (uint32_t i = 0; i < net->count; i++)
        if (net->nodes[i]->is_dead && strcmp(net->nodes[i]->name, name) == 0)
            net->nodes[i]->name[0] = '!'; /* a dead node loses its name */
    assert_true(net->count < 16);
    net->nodes[net->count++] = node;
    (void) pthread_mutex_unlock(&net->lock);
    return node;
}

struct na_plugin_class *sim_open(struct sim_net *net, const char *name,
                                 const struct na_plugin_init *init)
{
    struct na_plugin_init common = sim_init();
    struct na_plugin_class *node = sim_try_open(net, name, init != NULL ? init : &common, 1);

    assert_non_null(node);
    return node;
}

struct na_plugin_context *sim_context(struct na_plugin_class *node, uint32_t id)
{
    struct na_plugin_context *context = NULL;

    assert_int_equal(kit_msg_context_create(node, NULL, id, &context), NA_PLUGIN_SUCCESS);
    assert_non_null(context);
    return context;
}

void sim_close(struct na_plugin_class *node, struct na_plugin_context *context)
{
    struct sim_net *net = node->net;

    if (context != NULL) {
        assert_int_equal(kit_msg_context_stop(context), NA_PLUGIN_SUCCESS);
        assert_int_equal(kit_msg_context_destroy(context), NA_PLUGIN_SUCCESS);
    }
    (void) pthread_mutex_lock(&net->lock);
    for (uint32_t i = 0; i < net->count; i++)
        if (net->nodes[i] == node)
            net->nodes[i--] = net->nodes[--net->count];
    (void) pthread_mutex_unlock(&net->lock);
    kit_endpoint_close(&node->endpoint);
    assert_int_equal(node->opened, node->closed);
    assert_int_equal(node->slabs, 0);
    sim_free(node);
}

void sim_tell_paths(struct na_plugin_class *node)
{
    node->has_paths = true;
    node->endpoint.state->session.config.path_is_named = sim_path_is_named;
}

void sim_kill(struct na_plugin_class *node)
{
    (void) pthread_mutex_lock(&node->net->lock);
    node->is_dead = true;
    (void) pthread_mutex_unlock(&node->net->lock);
}

struct na_plugin_addr *sim_lookup(struct na_plugin_class *node, const char *name)
{
    struct na_plugin_addr *addr = NULL;

    assert_int_equal(kit_msg_peer_lookup(&node->endpoint, name, NULL, 0, &addr), NA_PLUGIN_SUCCESS);
    return addr;
}

void sim_inject(struct na_plugin_class *node, const void *data, uint64_t size)
{
    sim_push(node, "", data, size);
}

void sim_poll_until(struct na_plugin_context *a, struct na_plugin_context *b,
                    const struct sim_op *op)
{
    for (uint32_t i = 0; i < 10000 && op->completions == 0; i++)
        sim_poll(a, b, 1);
    assert_int_equal(op->completions, 1);
}

void sim_poll(struct na_plugin_context *a, struct na_plugin_context *b, uint32_t count)
{
    uint32_t done = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (a != NULL)
            assert_int_equal(kit_msg_poll(a, &done), NA_PLUGIN_SUCCESS);
        if (b != NULL)
            assert_int_equal(kit_msg_poll(b, &done), NA_PLUGIN_SUCCESS);
    }
}

void sim_meet(struct na_plugin_context *a, struct na_plugin_context *b,
              struct na_plugin_addr *b_at_a, struct na_plugin_addr **a_at_b_p)
{
    struct sim_op send = {0}, receive = {0};
    char buf[16];

    assert_int_equal(kit_msg_recv_unexpected(b, &receive, buf, sizeof(buf), NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(a, &send, "hello", 6, NULL, b_at_a, 0, 1), 0);
    sim_poll_until(a, b, &receive);
    sim_poll_until(a, b, &send);
    assert_int_equal(receive.status, 0);
    assert_string_equal(buf, "hello");
    sim_poll(a, b, 3);
    assert_int_equal(msg_peer_of(b_at_a)->base.phase, KIT_PEER_READY);
    if (a_at_b_p != NULL)
        *a_at_b_p = receive.source;
    else
        kit_msg_addr_free(NULL, receive.source);
}

int sim_pair_setup(void **state)
{
    return sim_pair_setup_with(state, NULL, 0);
}

int sim_pair_setup_with(void **state, const struct na_plugin_init *init, uint32_t max_sends)
{
    static struct sim_pair pair;

    memset(&pair, 0, sizeof(pair));
    sim_net_setup(&pair.net);
    pair.a = max_sends != 0 ? sim_try_open(&pair.net, "a", init, max_sends)
                            : sim_open(&pair.net, "a", init);
    pair.b = sim_open(&pair.net, "b", init);
    pair.ca = sim_context(pair.a, 0);
    pair.cb = sim_context(pair.b, 0);
    pair.b_at_a = sim_lookup(pair.a, "b");
    sim_meet(pair.ca, pair.cb, pair.b_at_a, &pair.a_at_b);
    *state = &pair;
    return 0;
}

int sim_pair_teardown(void **state)
{
    struct sim_pair *pair = *state;

    if (pair->a != NULL) {
        kit_msg_addr_free(pair->a, pair->b_at_a);
        sim_close(pair->a, pair->ca);
    }
    if (pair->b != NULL) {
        kit_msg_addr_free(pair->b, pair->a_at_b);
        sim_close(pair->b, pair->cb);
    }
    assert_int_equal(sim_allocations, 0);
    return 0;
}

static void host_op_complete(void *op_p, int32_t status)
{
    struct sim_op *op = op_p;

    op->status = status;
    op->source = NULL;
    op->last = 1;
    (void) atomic_fetch_add(&op->completions, 1);
}

static void host_op_complete_recv(void *op_p, int32_t status, uint64_t size,
                                  struct na_plugin_addr *source, uint32_t tag)
{
    struct sim_op *op = op_p;

    op->status = status;
    op->size = size;
    op->source = source;
    op->tag = tag;
    (void) atomic_fetch_add(&op->completions, 1);
}

static int32_t host_op_complete_multi_recv(void *op_p, int32_t status, void *buf, uint64_t size,
                                           struct na_plugin_addr *source, uint32_t tag,
                                           uint32_t last)
{
    struct sim_op *op = op_p;

    if (sim_events_to_refuse != 0) {
        sim_events_to_refuse--;
        return NA_PLUGIN_NOMEM;
    }
    op->status = status;
    op->sizes[op->messages % 64] = size;
    op->places[op->messages % 64] = buf;
    op->messages++;
    op->tag = tag;
    op->last = last;
    kit_msg_addr_free(NULL, source);
    if (last)
        (void) atomic_fetch_add(&op->completions, 1);
    return NA_PLUGIN_SUCCESS;
}

static void *host_mem_alloc(uint64_t size, uint64_t align)
{
    void *ptr = NULL;

    if (sim_allocation_to_fail >= 0 && sim_allocation_to_fail-- == 0)
        return NULL;
    if (posix_memalign(&ptr, align < 16 ? 16 : (size_t) align, size != 0 ? (size_t) size : 1) != 0)
        return NULL;
    memset(ptr, 0, (size_t) size);
    sim_allocations++;
    sim_allocations_made++;
    return ptr;
}

static void host_mem_free(void *ptr)
{
    if (ptr != NULL)
        sim_allocations--;
    free(ptr);
}

static uint32_t host_log_enabled(uint32_t level)
{
    (void) level;
    return getenv("SIM_LOG") != NULL;
}

static void host_log(uint32_t level, const char *plugin, const char *function, uint32_t line,
                     const char *message)
{
    (void) fprintf(stderr, "%u %s %s:%u %s\n", level, plugin, function, line, message);
}

static uint64_t host_clock_ns(void)
{
    struct timespec now;

    sim_clock_looks++;
    if (sim_clock_stopped != 0)
        return sim_clock_stopped + sim_clock_skip;
    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec + sim_clock_skip;
}

static int32_t sim_send(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;
    int32_t status = node->sent_status;

    assert_non_null(frame->priv);
    assert_true(frame->size <= SIM_FRAME_MAX);
    assert_non_null(frame->registration);
    if (node->again != 0) {
        node->again--;
        return NA_PLUGIN_AGAIN;
    }
    if (node->send_status != NA_PLUGIN_SUCCESS)
        return node->send_status;
    sim_count(node, frame);
    if (node->is_cut) {
        sim_job_add(node, frame, NULL, NA_PLUGIN_HOSTUNREACH, UINT32_MAX);
        return NA_PLUGIN_SUCCESS;
    }
    if (node->lose != 0)
        node->lose--;
    else if (status == NA_PLUGIN_SUCCESS && !node->is_dead &&
             !sim_deliver(node, frame->peer->name, frame->data, frame->size))
        status = NA_PLUGIN_HOSTUNREACH;
    if (node->is_copying && status == NA_PLUGIN_SUCCESS)
        frame->is_copied = true;
    else if (node->delay != 0 || status != NA_PLUGIN_SUCCESS)
        sim_job_add(node, frame, NULL, status, node->delay);
    else
        kit_msg_frame_sent(endpoint, frame, status);
    return NA_PLUGIN_SUCCESS;
}

static int32_t sim_fabric_poll(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;
    uint64_t value;
    ssize_t size = 0;

    node->polled_frames = node->frames;
    (void) pthread_mutex_lock(&node->inbox_lock);
    if (node->inbox_first != NULL)
        size = read(node->event_fd, &value, sizeof(value));
    (void) size;
    (void) pthread_mutex_unlock(&node->inbox_lock);
    sim_jobs_run(node);
    for (uint32_t i = 0; i < 16; i++) {
        struct sim_packet *packet;

        if (node->has_no_cookies && !kit_msg_may_receive(endpoint))
            break;
        (void) pthread_mutex_lock(&node->inbox_lock);
        packet = node->inbox_first;
        if (packet != NULL)
            node->inbox_first = packet->next;
        if (node->inbox_first == NULL)
            node->inbox_last = NULL;
        (void) pthread_mutex_unlock(&node->inbox_lock);
        if (packet == NULL)
            break;
        if (kit_msg_frame_received(endpoint, packet->data, packet->size,
                                   node->has_paths ? packet->source : NULL,
                                   node->has_no_cookies ? NULL : packet))
            free(packet);
        else
            node->held++;
    }
    return NA_PLUGIN_SUCCESS;
}

static int sim_get_fd(struct kit_endpoint *endpoint)
{
    return ((struct na_plugin_class *) (void *) endpoint)->event_fd;
}

static bool sim_try_wait(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;
    bool is_empty;

    (void) pthread_mutex_lock(&node->inbox_lock);
    is_empty = node->inbox_first == NULL;
    (void) pthread_mutex_unlock(&node->inbox_lock);
    for (struct sim_job *job = node->jobs; job != NULL; job = job->next)
        if (job->delay != UINT32_MAX)
            return false;
    return is_empty;
}

static void sim_frame_release(struct kit_endpoint *endpoint, void *cookie)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;

    node->released++;
    free(cookie);
}

static int32_t sim_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;
    uint8_t *priv = peer->priv;

    if (node->open_again != 0) {
        node->open_again--;
        return NA_PLUGIN_AGAIN;
    }
    if (node->open_status != NA_PLUGIN_SUCCESS)
        return node->open_status;
    assert_int_equal(priv[0], 0);
    priv[0] = 1;
    node->opened++;
    return NA_PLUGIN_SUCCESS;
}

static void sim_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;

    assert_int_equal(((uint8_t *) peer->priv)[0], 1);
    ((uint8_t *) peer->priv)[0] = 0;
    for (struct sim_job *job = node->jobs; job != NULL; job = job->next)
        if (job->frame != NULL && job->frame->peer == peer)
            job->is_old = true;
    node->closed++;
}

static int32_t sim_slab_register(struct kit_endpoint *endpoint, void *base, uint64_t size,
                                 void **registration_p)
{
    assert_true(size != 0);
    ((struct na_plugin_class *) (void *) endpoint)->slabs++;
    *registration_p = base;
    return NA_PLUGIN_SUCCESS;
}

static void sim_slab_deregister(struct kit_endpoint *endpoint, void *registration)
{
    assert_non_null(registration);
    ((struct na_plugin_class *) (void *) endpoint)->slabs--;
}

static int32_t sim_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;

    if (node->rma_again != 0) {
        node->rma_again--;
        return NA_PLUGIN_AGAIN;
    }
    if (node->rma_status != NA_PLUGIN_SUCCESS)
        return node->rma_status;
    if (node->rma_mode == SIM_RMA_AT_ONCE) {
        sim_rma_copy(rma);
        kit_msg_rma_done(endpoint, rma, NA_PLUGIN_SUCCESS);
        return NA_PLUGIN_SUCCESS;
    }
    sim_job_add(node, NULL, rma, NA_PLUGIN_SUCCESS,
                node->rma_mode == SIM_RMA_LATER ? 1 : UINT32_MAX);
    return NA_PLUGIN_SUCCESS;
}

static bool sim_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;

    for (struct sim_job *job = node->jobs; job != NULL; job = job->next) {
        if (job->rma != rma || node->rma_mode == SIM_RMA_DEAF)
            continue;
        job->status = status;
        job->delay = 3;
        return node->rma_mode != SIM_RMA_STUBBORN;
    }
    return false;
}

static bool sim_reset(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;

    node->resets++;
    for (struct sim_job *job = node->jobs; job != NULL; job = job->next) {
        job->status = NA_PLUGIN_CANCELED;
        job->delay = 3;
    }
    return true;
}

static void sim_control(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                        const void *data, uint64_t size)
{
    struct na_plugin_class *node = (struct na_plugin_class *) (void *) endpoint;

    assert_non_null(peer->name);
    assert_true(size <= sizeof(node->control_data));
    memcpy(node->control_data, data, size);
    node->control_size = size;
    node->controls++;
    if (type == 77) /* requests an echo */
        assert_int_equal(kit_msg_control_send(endpoint, peer, 78, data, size), 0);
}

static void sim_count(struct na_plugin_class *node, const struct kit_frame *frame)
{
    const struct msg_out *out = (const struct msg_out *) (const void *) frame;
    struct wire_header header;
    uint64_t offset = sizeof(header), size = frame->size;
    uint8_t data[SIM_FRAME_MAX];

    node->frames++;
    if (*(const uint8_t *) frame->data == WIRE_COMPACT) {
        assert_true(frame->size >= sizeof(struct wire_compact));
        node->messages++;
        return;
    }
    memcpy(&header, frame->data, sizeof(header));
    assert_int_equal(header.size, frame->size);
    if ((header.flags & WIRE_HAS_HELLO) != 0)
        node->hellos++;
    if ((header.flags & WIRE_IS_SEALED) != 0)
        size -= KIT_AUTH_TAG;
    memcpy(data, frame->data, frame->size);
    if ((header.flags & WIRE_IS_SEALED) != 0)
        kit_seal_take_back(&out->peer->base.auth->seal, data,
                           kit_msg_clear(node->endpoint.state, false, frame->is_hello, frame->size),
                           size);
    while (offset < size) {
        struct wire_record record;

        memcpy(&record, data + offset, sizeof(record));
        if (record.kind == WIRE_UNEXPECTED || record.kind == WIRE_EXPECTED)
            node->messages++;
        offset += wire_record_size(record.size);
    }
    assert_int_equal(offset, size);
}

static bool sim_deliver(struct na_plugin_class *node, const char *name, const void *data,
                        uint64_t size)
{
    struct sim_net *net = node->net;
    bool is_found = false;

    /* "alias-of-x" is another name of x */
    if (strncmp(name, "alias-of-", 9) == 0)
        name += 9;
    (void) pthread_mutex_lock(&net->lock);
    for (uint32_t i = 0; i < net->count && !is_found; i++) {
        if (net->nodes[i]->is_dead || strcmp(net->nodes[i]->name, name) != 0)
            continue;
        is_found = true;
        sim_push(net->nodes[i], node->name, data, size);
    }
    (void) pthread_mutex_unlock(&net->lock);
    return is_found;
}

static bool sim_path_is_named(struct kit_endpoint *endpoint, const void *path, const char *name)
{
    (void) endpoint;
    return strcmp(path, name) == 0;
}

static void sim_push(struct na_plugin_class *node, const char *source, const void *data,
                     uint64_t size)
{
    struct sim_packet *packet = malloc(sizeof(*packet) + size);
    const uint64_t one = 1;
    ssize_t written;

    assert_non_null(packet);
    packet->next = NULL;
    packet->size = size;
    (void) snprintf(packet->source, sizeof(packet->source), "%s", source);
    if (size != 0)
        memcpy(packet->data, data, size);
    (void) pthread_mutex_lock(&node->inbox_lock);
    if (node->inbox_last != NULL)
        node->inbox_last->next = packet;
    else
        node->inbox_first = packet;
    node->inbox_last = packet;
    written = write(node->event_fd, &one, sizeof(one));
    (void) written;
    (void) pthread_mutex_unlock(&node->inbox_lock);
}

static void sim_job_add(struct na_plugin_class *node, struct kit_frame *frame,
                        struct kit_msg_rma *rma, int32_t status, uint32_t delay)
{
    struct sim_job *job = calloc(1, sizeof(*job));
    struct sim_job **last = &node->jobs;

    assert_non_null(job);
    job->frame = frame;
    job->rma = rma;
    job->status = status;
    job->delay = delay;
    while (*last != NULL)
        last = &(*last)->next;
    *last = job;
}

/* Runs the jobs in order; one that never ends does not block the others. */
static void sim_jobs_run(struct na_plugin_class *node)
{
    struct sim_job **link = &node->jobs;
    struct sim_job *done = NULL, **done_last = &done;

    while (*link != NULL) {
        struct sim_job *job = *link;

        if (job->delay == UINT32_MAX && node->is_cut) {
            link = &job->next;
            continue;
        }
        if (job->delay == UINT32_MAX && job->rma != NULL) {
            link = &job->next;
            continue;
        }
        if (job->delay != UINT32_MAX && job->delay != 0 && --job->delay != 0) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        job->next = NULL;
        *done_last = job;
        done_last = &job->next;
    }
    while (done != NULL) {
        struct sim_job *job = done;

        done = job->next;
        if (job->frame != NULL) {
            kit_msg_frame_sent(&node->endpoint, job->frame, job->status);
        } else {
            if (job->status == NA_PLUGIN_SUCCESS)
                sim_rma_copy(job->rma);
            kit_msg_rma_done(&node->endpoint, job->rma, job->status);
        }
        free(job);
    }
}

static void sim_rma_copy(const struct kit_msg_rma *rma)
{
    uint8_t *local = rma->local->base + rma->local_offset;
    uint8_t *remote = rma->remote->base + rma->remote_offset;

    if (rma->is_put)
        memcpy(remote, local, rma->length);
    else
        memcpy(local, remote, rma->length);
}

static void sim_free(struct na_plugin_class *node)
{
    while (node->jobs != NULL) {
        struct sim_job *job = node->jobs;

        node->jobs = job->next;
        free(job);
    }
    while (node->inbox_first != NULL) {
        struct sim_packet *packet = node->inbox_first;

        node->inbox_first = packet->next;
        free(packet);
    }
    (void) close(node->event_fd);
    (void) pthread_mutex_destroy(&node->inbox_lock);
    free(node);
}
