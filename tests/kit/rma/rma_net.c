/* SPDX-License-Identifier: BSD-3-Clause */
/* The network in memory and the owners of the engines at its ends. */

#include "rma_net.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/plugin_host.h"

enum event_kind {
    EVENT_CONTROL,
    EVENT_PIECE,   /* a piece arrives */
    EVENT_SENT,    /* a send is complete */
    EVENT_RELEASE, /* the network no longer uses the memory */
    EVENT_WITHDRAWN,
    EVENT_MOVE, /* of a one-sided transfer */
};

/* What a target receives about exposed memory. */
struct net_note {
    uint32_t exposure;
    uint32_t offset;
};

struct net_event {
    struct net_event *next;
    enum event_kind kind;
    struct net_end *from, *to;
    uint8_t data[KIT_RMA_CONTROL_MAX];
    uint32_t size;
    struct kit_rma_piece *piece;
    struct net_piece *priv;
    uint32_t life; /* compared with that of the private part */
    struct kit_rma_move *move;
    struct net_note note;
    uint8_t *bytes;
    uint64_t piece_size;
    uint32_t tag;
    int32_t status;
};

/* The owner's private part of a piece. */
struct net_piece {
    uint32_t life; /* counts the uses of this structure */
    bool is_live;
    bool is_cancelled;
    bool is_released;
    struct net_receive *receive;
    struct net_event *arrival; /* of a send that is not complete */
};

struct net_receive {
    struct net_receive *next;
    struct net_end *end, *from;
    struct kit_rma_piece *piece;
};

static int32_t net_control_send(void *owner, void *peer, const void *data, uint32_t size);
static int32_t net_data_send(void *owner, void *peer, const void *record, uint32_t record_size,
                             const struct kit_region *region, uint64_t offset, uint32_t size);
static void net_data_take(void *owner, const struct kit_region *region, uint64_t offset,
                          const void *data, uint32_t size);
static uint32_t net_inline_size(void *owner, void *peer);
static int32_t net_piece_send(void *owner, struct kit_rma_piece *piece);
static int32_t net_piece_recv(void *owner, struct kit_rma_piece *piece);
static bool net_piece_cancel(void *owner, struct kit_rma_piece *piece);
static void net_piece_withdraw(void *owner, struct kit_rma_piece *piece);
static enum kit_rma_mover net_mover(void *owner, const struct kit_rma_request *request);
static int32_t net_process(void *owner, void *peer, uint32_t *pid_p);
static void net_attach_refused(void *owner, void *peer);
static int32_t net_expose(void *owner, struct kit_rma_exposure *exposure, void *note,
                          uint32_t *note_size);
static int32_t net_expose_check(void *owner, struct kit_rma_exposure *exposure);
static void net_conceal(void *owner, struct kit_rma_exposure *exposure);
static int32_t net_move(void *owner, struct kit_rma_move *move);
static void net_transfer_done(void *owner, void *cookie, int32_t status);
static void net_hold(void *owner, void *peer);
static void net_release(void *owner, void *peer);
static void net_open_ends(struct net *net, const struct kit_rma_config *limits,
                          uint32_t inline_size, bool is_apart);

static const struct kit_rma_ops net_ops = {
    .control_send = net_control_send,
    .data_send = net_data_send,
    .piece_send = net_piece_send,
    .piece_recv = net_piece_recv,
    .piece_cancel = net_piece_cancel,
    .piece_withdraw = net_piece_withdraw,
    .mover = net_mover,
    .process = net_process,
    .attach_refused = net_attach_refused,
    .expose = net_expose,
    .expose_check = net_expose_check,
    .conceal = net_conceal,
    .move = net_move,
    .transfer_done = net_transfer_done,
    .peer_hold = net_hold,
    .peer_release = net_release,
};

void net_open(struct net *net, const struct kit_rma_config *limits)
{
    net_open_ends(net, limits, 0, false);
}

void net_open_mover(struct net *net, enum kit_rma_mover mover)
{
    net_open_ends(net, NULL, NET_INLINE, false);
    net->mover = mover;
}

void net_open_apart(struct net *net)
{
    net_open_ends(net, NULL, NET_APART, true);
    net->mover = KIT_RMA_INLINE;
}

static void net_open_ends(struct net *net, const struct kit_rma_config *limits,
                          uint32_t inline_size, bool is_apart)
{
    static struct kit_rma_ops apart_ops;

    apart_ops = net_ops;
    apart_ops.data_take = net_data_take;
    apart_ops.inline_size = net_inline_size;
    kit_host = &plugin_host;
    memset(net, 0, sizeof(*net));
    net->now_ns = 1000000000;
    for (unsigned int i = 0; i < NET_ENDS; i++) {
        struct kit_rma_config config = {
            .ops = is_apart ? &apart_ops : &net_ops,
            .owner = &net->ends[i],
            .plugin = "net",
            .piece_size = NET_PIECE,
            .first_tag = NET_FIRST_TAG,
            .tag_count = RMA_TAGS_MIN,
            .piece_private = sizeof(struct net_piece),
            .inline_size = inline_size,
            .eager_size = inline_size != 0 && !is_apart ? NET_EAGER : 0,
            .part_size = NET_PART,
            .transfer_private = sizeof(unsigned int),
            .timeout_ms = NET_TIMEOUT_MS,
        };

        if (limits != NULL) {
            config.window = limits->window;
            config.max_sends = limits->max_sends;
            config.max_receives = limits->max_receives;
        }
        net->ends[i].net = net;
        assert_int_equal(kit_rma_open(&config, &net->ends[i].ts), NA_PLUGIN_SUCCESS);
    }
}

void net_close(struct net *net)
{
    assert_null(net->first);
    assert_null(net->posted);
    assert_int_equal(net->exposed, 0);
    for (unsigned int i = 0; i < NET_ENDS; i++)
        assert_true(net_end_is_idle(&net->ends[i]));
    net_close_busy(net);
    for (unsigned int i = 0; i < NET_ENDS; i++)
        assert_int_equal(net->ends[i].holds, 0);
}

void net_close_busy(struct net *net)
{
    for (unsigned int i = 0; i < NET_ENDS; i++)
        kit_rma_close(net->ends[i].ts);
    while (net->first != NULL) {
        struct net_event *event = net->first;

        net->first = event->next;
        free(event->bytes);
        free(event);
    }
    while (net->posted != NULL) {
        struct net_receive *receive = net->posted;

        net->posted = receive->next;
        free(receive);
    }
}

static struct net_event *event_add(struct net *net, enum event_kind kind)
{
    struct net_event *event = calloc(1, sizeof(*event));

    assert_non_null(event);
    event->kind = kind;
    if (net->last != NULL && net->first != NULL)
        net->last->next = event;
    else
        net->first = event;
    net->last = event;
    return event;
}

static struct net_event *event_add_piece(struct net_end *end, enum event_kind kind,
                                         struct kit_rma_piece *piece)
{
    struct net_event *event = event_add(end->net, kind);

    event->from = event->to = end;
    event->piece = piece;
    event->priv = piece->priv;
    event->life = event->priv->life;
    return event;
}

static void receive_remove(struct net *net, struct net_receive *receive)
{
    struct net_receive **link = &net->posted;

    while (*link != receive)
        link = &(*link)->next;
    *link = receive->next;
    ((struct net_piece *) receive->piece->priv)->receive = NULL;
    receive->end->receives--;
    free(receive);
}

static void piece_end(struct net_end *end, struct kit_rma_piece *piece, int32_t status,
                      uint64_t size)
{
    struct net_piece *priv = piece->priv;

    priv->is_live = false;
    if (priv->receive != NULL)
        receive_remove(end->net, priv->receive);
    if (piece->is_send != 0)
        end->sends--;
    kit_rma_piece_done(end->ts, piece, status, size);
}

static int32_t move_bytes(struct net_exposure *exposure, const struct kit_rma_move *move,
                          uint64_t offset)
{
    if (!exposure->is_open)
        return NA_PLUGIN_HOSTUNREACH;
    assert_true(offset <= exposure->length && move->size <= exposure->length - offset);
    if (move->is_put != 0)
        memcpy(move->memory, exposure->memory + offset, move->size);
    else
        memcpy(exposure->memory + offset, move->memory, move->size);
    exposure->is_moved = true;
    return NA_PLUGIN_SUCCESS;
}

/* The message has arrived and goes to the matching receive. */
static void piece_arrive(struct net *net, struct net_event *event)
{
    struct net_receive *receive = net->posted;
    struct net_end *end = event->to;
    const uint8_t *bytes = event->bytes;
    uint64_t size = event->piece_size;
    int32_t status = net->deliver_error;
    struct net_piece *priv;

    while (receive != NULL && (receive->end != end || receive->from != event->from ||
                               receive->piece->tag != event->tag))
        receive = receive->next;
    if (event->priv != NULL && event->priv->life == event->life &&
        event->priv->is_live) { /* the sender's memory is still lent to the network */
        event->priv->arrival = NULL;
        if (!event->priv->is_released)
            bytes = event->piece->memory;
    }
    if (receive == NULL) {
        net->lost_receives++;
    } else {
        struct kit_rma_piece *piece = receive->piece;

        priv = piece->priv;
        if (size > piece->size) { /* sent by a lying peer; a fabric truncates likewise */
            status = NA_PLUGIN_MSGSIZE;
            size = piece->size;
        }
        if (bytes != NULL && !priv->is_released)
            memcpy(piece->memory, bytes, size);
        if (net->deliver_size != 0)
            size = net->deliver_size;
        net->deliver_size = 0;
        net->deliver_error = 0;
        piece_end(end, piece, status, size);
    }
    if (event->priv != NULL && event->priv->life == event->life && event->priv->is_live)
        piece_end(event->from, event->piece, NA_PLUGIN_SUCCESS, 0);
}

/* The network moves the bytes if the memory is still exposed, and completes the move. */
static void move_arrive(struct net *net, struct net_event *event)
{
    struct net_exposure *exposure = &net->exposures[event->note.exposure];
    struct kit_rma_move *move = event->move;
    int32_t status = net->deliver_error;

    net->deliver_error = 0;
    if (status == NA_PLUGIN_SUCCESS && move->is_ordered == 0)
        status = move_bytes(exposure, move, event->note.offset);
    kit_rma_move_done(event->to->ts, move, status);
}

/* Polls all ends, as each owner does. */
static void net_dispatch(struct net *net)
{
    for (unsigned int i = 0; i < NET_ENDS; i++)
        kit_rma_poll(net->ends[i].ts, 0);
}

bool net_step(struct net *net)
{
    struct net_event *event;
    bool is_current;

    net_dispatch(net);
    event = net->first;
    if (event == NULL)
        return false;
    net->first = event->next;
    is_current = event->priv != NULL && event->priv->life == event->life && event->priv->is_live;
    switch (event->kind) {
    case EVENT_CONTROL:
        if (!event->from->is_mute && event->bytes != NULL)
            kit_rma_control_data(event->to->ts, event->from, event->data, event->size, event->bytes,
                                 event->piece_size);
        else if (!event->from->is_mute)
            kit_rma_control(event->to->ts, event->from, event->data, event->size);
        break;
    case EVENT_PIECE:
        piece_arrive(net, event);
        break;
    case EVENT_MOVE:
        move_arrive(net, event);
        break;
    case EVENT_RELEASE:
        if (is_current && !event->priv->is_released) {
            event->priv->is_released = true;
            kit_rma_piece_released(event->to->ts, event->piece);
        }
        break;
    default:
        if (is_current)
            piece_end(event->to, event->piece, event->status, 0);
    }
    free(event->bytes);
    free(event);
    net_dispatch(net);
    return true;
}

void net_run(struct net *net)
{
    for (unsigned int i = 0; i < 100000; i++) {
        if (net_step(net))
            continue;
        if (net->first == NULL && !kit_rma_has_work(net->ends[0].ts) &&
            !kit_rma_has_work(net->ends[1].ts) && !kit_rma_has_work(net->ends[2].ts))
            return;
    }
    fail_msg("the network never runs out of events");
}

void net_lose(struct net *net)
{
    struct net_event **link = &net->first;

    while (*link != NULL) {
        struct net_event *event = *link;

        /* Local events are not lost. */
        if (event->kind != EVENT_CONTROL && event->kind != EVENT_PIECE) {
            net->last = event;
            link = &event->next;
            continue;
        }
        *link = event->next;
        free(event->bytes);
        free(event);
    }
    if (net->first == NULL)
        net->last = NULL;
}

void net_poll(struct net *net, unsigned int ms)
{
    net->now_ns += ms * UINT64_C(1000000);
    for (unsigned int i = 0; i < NET_ENDS; i++)
        kit_rma_poll(net->ends[i].ts, net->now_ns);
}

struct kit_region *net_region(struct net_end *end, void *base, uint64_t length, uint32_t flags)
{
    struct kit_region *memory;

    assert_int_equal(kit_rma_mem_create(end->ts, base, length, flags, &memory), 0);
    assert_int_equal(kit_rma_mem_register(end->ts, memory, NA_PLUGIN_MEM_TYPE_HOST), 0);
    return memory;
}

struct kit_region *net_remote(struct net_end *to, struct net_end *from, struct kit_region *memory)
{
    uint8_t packed[KIT_REGION_PACKED];
    struct kit_region *remote;

    assert_int_equal(kit_rma_mem_serialize(from->ts, memory, packed, sizeof(packed)), 0);
    assert_int_equal(kit_rma_mem_deserialize(to->ts, packed, sizeof(packed), &remote), 0);
    return remote;
}

void net_op_init(struct net_op *op)
{
    memset(op, 0, sizeof(*op));
    op->memory = malloc(NET_MEMORY);
    op->frozen = malloc(NET_MEMORY);
    assert_true(op->memory != NULL && op->frozen != NULL);
}

void net_op_free(struct net_op *op)
{
    free(op->memory);
    free(op->frozen);
}

static void op_done(struct net_op *op, int32_t status)
{
    op->done++;
    op->status = status;
    op->transfer = NULL;
    memcpy(op->frozen, op->memory, NET_MEMORY);
}

int32_t net_start(struct net_end *end, struct net_end *peer, struct net_op *op,
                  struct kit_region *local, struct kit_region *remote, uint64_t offset,
                  uint64_t length, bool is_put)
{
    const struct kit_rma_request request = {
        .peer = peer,
        .local = local,
        .local_offset = offset,
        .remote = remote,
        .remote_offset = offset,
        .length = length,
        .is_put = is_put,
        .cookie = op,
    };
    int32_t ret;

    op->done = 0;
    ret = kit_rma_start(end->ts, &request, &op->transfer);
    if (ret == NA_PLUGIN_SUCCESS && op->transfer == NULL)
        op_done(op, ret);
    return ret;
}

bool net_abandon(struct net_end *end, struct net_op *op, int32_t status, bool is_peer_gone)
{
    if (op->transfer == NULL)
        return true;
    if (!kit_rma_abandon(end->ts, op->transfer, status, is_peer_gone))
        return false;
    op_done(op, status);
    return true;
}

void net_op_check(const struct net_op *op, int32_t status)
{
    assert_int_equal(op->done, 1);
    assert_int_equal(op->status, status);
    assert_memory_equal(op->memory, op->frozen, NET_MEMORY);
}

bool net_end_is_idle(const struct net_end *end)
{
    struct kit_rma_counters counters;

    kit_rma_counters_get(end->ts, &counters);
    return !kit_rma_is_active(end->ts) && !kit_rma_has_work(end->ts) && counters.sends == 0 &&
           counters.receives == 0 && end->receives == 0 && end->sends == 0;
}

static int32_t net_control_send(void *owner, void *peer, const void *data, uint32_t size)
{
    struct net_end *end = owner;
    struct net *net = end->net;
    struct net_event *event;
    int32_t error = net->control_error;

    assert_true(size <= KIT_RMA_CONTROL_MAX);
    if (net->control_again != 0) {
        net->control_again--;
        return NA_PLUGIN_AGAIN;
    }
    net->control_error = 0;
    if (error != 0)
        return error;
    end->records++;
    event = event_add(net, EVENT_CONTROL);
    event->from = end;
    event->to = peer;
    event->size = size;
    memcpy(event->data, data, size);
    return NA_PLUGIN_SUCCESS;
}

static int32_t net_data_send(void *owner, void *peer, const void *record, uint32_t record_size,
                             const struct kit_region *region, uint64_t offset, uint32_t size)
{
    struct net *net = ((struct net_end *) owner)->net;
    int32_t ret = net_control_send(owner, peer, record, record_size);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    net->puts++;
    net->last->bytes = malloc(size);
    assert_non_null(net->last->bytes);
    memcpy(net->last->bytes, (const uint8_t *) (uintptr_t) region->base + offset, size);
    net->last->piece_size = size;
    return ret;
}

/* An owner whose memory has a layout of its own would translate the offset here. */
static void net_data_take(void *owner, const struct kit_region *region, uint64_t offset,
                          const void *data, uint32_t size)
{
    assert_in_range(offset + size, 1, region->length);
    ((struct net_end *) owner)->net->takes++;
    memcpy((uint8_t *) (uintptr_t) region->base + offset, data, size);
}

static uint32_t net_inline_size(void *owner, void *peer)
{
    const struct net_end *end = owner;

    (void) peer;
    return end->room != 0 ? end->room : NET_APART;
}

static int32_t piece_refused(struct net *net)
{
    int32_t error = net->piece_error;

    if (net->piece_again != 0) {
        net->piece_again--;
        return NA_PLUGIN_AGAIN;
    }
    net->piece_error = 0;
    return error;
}

static void piece_begin(struct kit_rma_piece *piece)
{
    struct net_piece *priv = piece->priv;

    assert_false(priv->is_live);
    priv->life++;
    priv->is_live = true;
    priv->is_cancelled = priv->is_released = false;
    priv->receive = NULL;
    priv->arrival = NULL;
}

static int32_t net_piece_send(void *owner, struct kit_rma_piece *piece)
{
    struct net_end *end = owner;
    struct net *net = end->net;
    struct net_event *event;
    int32_t ret = piece_refused(net);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    piece_begin(piece);
    end->device_pieces += piece->is_device;
    end->sends++;
    if (end->sends > end->most_sends)
        end->most_sends = end->sends;
    event = event_add_piece(end, EVENT_PIECE, piece);
    event->to = piece->peer;
    event->tag = piece->tag;
    event->piece_size = piece->size;
    if (!net->is_sent_at_once)
        return NA_PLUGIN_SUCCESS;
    event->bytes = malloc(piece->size);
    assert_non_null(event->bytes);
    memcpy(event->bytes, piece->memory, piece->size);
    event->priv = NULL;
    piece_end(end, piece, NA_PLUGIN_SUCCESS, 0);
    return NA_PLUGIN_SUCCESS;
}

static int32_t net_piece_recv(void *owner, struct kit_rma_piece *piece)
{
    struct net_end *end = owner;
    struct net *net = end->net;
    struct net_receive *receive;
    int32_t ret = piece_refused(net);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    for (receive = net->posted; receive != NULL; receive = receive->next)
        assert_false(receive->end == end && receive->piece->tag == piece->tag);
    piece_begin(piece);
    end->device_pieces += piece->is_device;
    receive = calloc(1, sizeof(*receive));
    assert_non_null(receive);
    receive->end = end;
    receive->from = piece->peer;
    receive->piece = piece;
    receive->next = net->posted;
    net->posted = receive;
    ((struct net_piece *) piece->priv)->receive = receive;
    if (++end->receives > end->most_receives)
        end->most_receives = end->receives;
    return NA_PLUGIN_SUCCESS;
}

static bool net_piece_cancel(void *owner, struct kit_rma_piece *piece)
{
    struct net_end *end = owner;
    struct net_piece *priv = piece->priv;

    assert_true(priv->is_live);
    assert_false(priv->is_cancelled);
    priv->is_cancelled = true;
    switch (end->net->cancel) {
    case NET_CANCEL_AT_ONCE:
        priv->is_released = true;
        return true;
    case NET_CANCEL_RELEASES:
        (void) event_add_piece(end, EVENT_RELEASE, piece);
        return false;
    case NET_CANCEL_ENDS:
        piece_end(end, piece, NA_PLUGIN_CANCELED, 0);
        return false;
    default:
        return false;
    }
}

static void net_piece_withdraw(void *owner, struct kit_rma_piece *piece)
{
    struct net_end *end = owner;
    const struct net_piece *priv = piece->priv;
    struct net_event *event;

    assert_true(priv->is_live);
    assert_true(priv->is_cancelled);
    event = event_add_piece(end, EVENT_WITHDRAWN, piece);
    event->status = NA_PLUGIN_CANCELED;
}

static enum kit_rma_mover net_mover(void *owner, const struct kit_rma_request *request)
{
    const struct net *net = ((struct net_end *) owner)->net;

    (void) request;
    return net->mover;
}

/* All ends are in this process. */
static int32_t net_process(void *owner, void *peer, uint32_t *pid_p)
{
    (void) peer;
    *pid_p = (uint32_t) getpid();
    return ((struct net_end *) owner)->net->is_refused ? NA_PLUGIN_OPNOTSUPPORTED
                                                       : NA_PLUGIN_SUCCESS;
}

/* Attaching was refused: all later transfers use another mover. */
static void net_attach_refused(void *owner, void *peer)
{
    struct net *net = ((struct net_end *) owner)->net;

    (void) peer;
    assert_int_equal(net->mover, KIT_RMA_ATTACH);
    net->mover = KIT_RMA_PIECES;
}

static int32_t net_expose(void *owner, struct kit_rma_exposure *exposure, void *note,
                          uint32_t *note_size)
{
    struct net *net = ((struct net_end *) owner)->net;
    unsigned int *index = exposure->priv; /* the index of the exposure, plus 1 */
    struct net_note written;
    int32_t ret = piece_refused(net);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (*index == 0) {
        while (*index < NET_EXPOSURES && net->exposures[*index].is_open)
            ++*index;
        assert_true(*index < NET_EXPOSURES);
        net->exposures[*index] = (struct net_exposure){exposure->memory, exposure->length, true, 0};
        ++*index;
        net->exposed++;
    }
    net->exposures[*index - 1].is_moved = false;
    written = (struct net_note){*index - 1, (uint32_t) exposure->offset};
    memcpy(note, &written, sizeof(written));
    *note_size = sizeof(written);
    return NA_PLUGIN_SUCCESS;
}

static int32_t net_expose_check(void *owner, struct kit_rma_exposure *exposure)
{
    const struct net *net = ((struct net_end *) owner)->net;

    return net->exposures[*(unsigned int *) exposure->priv - 1].is_moved ? NA_PLUGIN_SUCCESS
                                                                         : NA_PLUGIN_HOSTUNREACH;
}

static void net_conceal(void *owner, struct kit_rma_exposure *exposure)
{
    struct net *net = ((struct net_end *) owner)->net;
    unsigned int *index = exposure->priv;

    assert_true(*index != 0 && net->exposures[*index - 1].is_open);
    net->exposures[*index - 1].is_open = false;
    *index = 0;
    net->exposed--;
}

static int32_t net_move(void *owner, struct kit_rma_move *move)
{
    struct net_end *end = owner;
    struct net *net = end->net;
    struct net_event *event;
    struct net_note note;
    int32_t ret = piece_refused(net);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (move->note_size != sizeof(note))
        return NA_PLUGIN_PROTOCOL_ERROR;
    memcpy(&note, move->note, sizeof(note));
    if (note.exposure >= NET_EXPOSURES || !net->exposures[note.exposure].is_open ||
        note.offset > net->exposures[note.exposure].length ||
        move->size > net->exposures[note.exposure].length - note.offset)
        return NA_PLUGIN_HOSTUNREACH;
    event = event_add(net, EVENT_MOVE);
    event->to = end;
    event->move = move;
    event->note = note;
    if (net->is_ordered && move->is_put == 0) {
        move->is_ordered = 1;
        return move_bytes(&net->exposures[note.exposure], move, note.offset);
    }
    return NA_PLUGIN_SUCCESS;
}

static void net_transfer_done(void *owner, void *cookie, int32_t status)
{
    (void) owner;
    op_done(cookie, status);
}

static void net_hold(void *owner, void *peer)
{
    (void) owner;
    ((struct net_end *) peer)->holds++;
}

static void net_release(void *owner, void *peer)
{
    (void) owner;
    ((struct net_end *) peer)->holds--;
}
