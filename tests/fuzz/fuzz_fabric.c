/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames and HELLOs that arrive at the message layer from a network that delivers anything. */

#include "fuzz.h"

#include "msg_sim.h"

#define FRAMES_MAX 16
#define PAIR_USES  500 /* inputs until the endpoints are opened anew */
#define RECEIVES   4

/* The total size of messages in parts: larger than is accepted, and small enough that parts fit
 * each other. */
#define PART_TOTALS 1536u

static struct sim_pair *pair;
static unsigned int uses;

static void pair_open(void)
{
    void *state = NULL;

    FUZZ_CHECK(sim_pair_setup(&state) == 0);
    pair = state;
    uses = 0;
}

static void pair_close(void)
{
    void *state = pair;

    FUZZ_CHECK(sim_pair_teardown(&state) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    pair_open();
    return 0;
}

/* Turns the bytes into a compact frame whose header is accepted. */
static void dress_compact(uint64_t how, uint8_t *frame, size_t size)
{
    const struct msg_peer *peer = msg_peer_of(pair->a_at_b);
    struct wire_compact header;

    if (size < sizeof(header))
        return;
    memcpy(&header, frame, sizeof(header));
    header.magic = WIRE_COMPACT;
    header.index = peer->base.index;
    header.check = wire_compact_check(
        peer->base.nonce, (uint32_t) pair->b->endpoint.state->session.incarnation, size);
    if ((how & 4) == 0)
        header.sequence = peer->base.mask;
    if ((how & 8) == 0)
        header.kind = (uint8_t) (1 + header.kind % 2);
    memcpy(frame, &header, sizeof(header));
}

/* Fills the header and record with valid fields, as far as the input selects them. */
static void dress(uint64_t how, uint8_t *frame, size_t size)
{
    const struct msg_peer *peer = msg_peer_of(pair->a_at_b);
    struct wire_header header;
    struct wire_record record;
    struct wire_part part;

    if ((how & 0x73) == 0x71) {
        dress_compact(how, frame, size);
        return;
    }
    if (size < sizeof(header) || (how & 1) == 0)
        return;
    memcpy(&header, frame, sizeof(header));
    header.magic = WIRE_MAGIC;
    header.version = WIRE_VERSION;
    header.flags = (how & 2) != 0 ? WIRE_HAS_HELLO : 0;
    header.size = (uint32_t) size;
    header.token = peer->base.index | (uint64_t) peer->base.nonce << 32;
    header.incarnation = (uint32_t) pair->b->endpoint.state->session.incarnation;
    if ((how & 4) == 0)
        header.sequence = peer->base.mask;
    memcpy(frame, &header, sizeof(header));
    if ((how & 8) == 0 || size < sizeof(header) + sizeof(record))
        return;
    memcpy(&record, frame + sizeof(header), sizeof(record));
    record.kind = (uint16_t) ((how & 2) != 0 ? WIRE_HELLO : 1 + (how >> 4) % 8);
    record.size = (uint32_t) (size - sizeof(header) - sizeof(record));
    memcpy(frame + sizeof(header), &record, sizeof(record));
    if (record.kind != WIRE_PART || record.size < sizeof(part))
        return;
    memcpy(&part, frame + sizeof(header) + sizeof(record), sizeof(part));
    part.kind = 1 + part.kind % 2;
    part.total %= PART_TOTALS;
    part.offset %= PART_TOTALS;
    memcpy(frame + sizeof(header) + sizeof(record), &part, sizeof(part));
}

/* Receives the messages that have arrived for any receive. */
static void receive_all(void)
{
    const struct msg_endpoint *inside = pair->b->endpoint.state;
    char buf[SIM_FRAME_MAX];

    for (int i = 0; i < 100 && (inside->deferrals.count != 0 || inside->deferred_count != 0); i++) {
        struct sim_op receive = {0};

        FUZZ_CHECK(kit_msg_recv_unexpected(pair->cb, &receive, buf, sizeof(buf), NULL) ==
                   NA_PLUGIN_SUCCESS);
        if (receive.completions == 0)
            (void) kit_msg_cancel(pair->cb, &receive);
        FUZZ_CHECK(receive.completions == 1);
        if (receive.status == NA_PLUGIN_SUCCESS)
            kit_msg_addr_free(pair->b, receive.source);
    }
}

/* Input: for each frame its options and its size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct sim_op expected[RECEIVES];
    char bufs[RECEIVES][64];

    memset(expected, 0, sizeof(expected));
    for (uint32_t i = 0; i < RECEIVES; i++)
        FUZZ_CHECK(kit_msg_recv_expected(pair->cb, &expected[i], bufs[i], sizeof(bufs[i]), NULL,
                                         pair->a_at_b, 0, i) == NA_PLUGIN_SUCCESS);
    for (int i = 0; i < FRAMES_MAX && input.size > 0; i++) {
        const uint64_t how = fuzz_take(&input, 1);
        size_t length = fuzz_take(&input, 2) % SIM_FRAME_MAX;
        uint8_t *frame;

        if (length > input.size)
            length = input.size;
        frame = malloc(length > 0 ? length : 1);
        FUZZ_CHECK(frame != NULL);
        (void) fuzz_take_bytes(&input, frame, length);
        dress(how, frame, length);
        sim_inject(pair->b, frame, length);
        free(frame);
        sim_poll(pair->cb, NULL, 1);
        if ((how & 128) != 0)
            sim_poll(pair->ca, NULL, 1);
    }
    sim_poll(pair->ca, pair->cb, 3);
    receive_all();
    for (uint32_t i = 0; i < RECEIVES; i++) {
        if (expected[i].completions == 0)
            (void) kit_msg_cancel(pair->cb, &expected[i]);
        FUZZ_CHECK(expected[i].completions == 1);
    }
    if (++uses == PAIR_USES) {
        pair_close();
        pair_open();
    }
    return 0;
}
