/* SPDX-License-Identifier: BSD-3-Clause */
/* Control records of the emulated put and get, from peers that know one of our regions and from
 * peers that guess, during a valid transfer. */

#include "fuzz.h"

#include "rma_net.h"

#include <endian.h>

#define BOTH      (NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)
#define STEPS_MAX 64

static struct net net;
static uint8_t secret[NET_MEMORY], open_to_all[NET_MEMORY];
static struct kit_region *region;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    return 0;
}

/* Fills in valid fields, as far as the input selects them, so that the record passes the first
 * checks. */
static void dress(uint64_t how, void *bytes, const struct net_op *op)
{
    struct rma_record *record = bytes;

    if ((how & 1) == 0)
        return;
    record->magic = htole32(RMA_MAGIC);
    record->version = RMA_VERSION;
    record->kind %= RMA_KINDS;
    record->tag_count %= RMA_WINDOW_MAX + 2;
    record->transfer = htole64(le64toh(record->transfer) % 4);
    if ((how & 2) != 0) {
        record->memory = htole64(region->id);
        record->key = region->key;
    }
    if ((how & 4) != 0) {
        record->length = htole64(le64toh(record->length) % (NET_MEMORY * 2));
        record->offset = htole64(le64toh(record->offset) % (NET_MEMORY * 2));
        record->piece_size = htole32(NET_PIECE);
    }
    if ((how & 8) != 0)
        record->number = htole64(le64toh(record->number) % 20);
    if ((how & 16) != 0 && op->transfer != NULL)
        record->transfer = htole64(op->transfer->id);
}

/* Delivers a record followed by the bytes of a put; `how` selects which fields are valid. */
static void give_put(struct net_end *to, struct net_end *from, uint64_t how,
                     const struct rma_record *asked)
{
    struct rma_record *record = malloc(sizeof(*record));
    const uint32_t size = le32toh(asked->piece_size) % (NET_EAGER + 2);
    uint8_t *bytes = calloc(1, size != 0 ? size : 1);

    FUZZ_CHECK(record != NULL && bytes != NULL);
    *record = *asked;
    if ((how & 4) != 0) {
        record->flags |= RMA_FROM_ORIGIN | RMA_IS_PUT;
        record->kind = RMA_REQUEST;
    }
    if ((how & 8) != 0) {
        record->length = htole64(size);
        record->piece_size = htole32(size);
    }
    kit_rma_control_data(to->ts, from, record, sizeof(*record), bytes, size);
    free(record);
    free(bytes);
}

static void give(struct fuzz_input *input, uint64_t how, const struct net_op *op)
{
    struct net_end *to = &net.ends[how >> 7 & 1], *from = &net.ends[2 - (how >> 6 & 1)];
    union {
        struct rma_record record;
        uint8_t bytes[KIT_RMA_CONTROL_MAX];
    } message;
    uint32_t size = (uint32_t) fuzz_take(input, 1) + 1;
    uint8_t *exact;

    memset(&message, 0, sizeof(message));
    (void) fuzz_take_bytes(input, message.bytes, size);
    dress(how, &message, op);
    if ((how & 32) != 0)
        size = (uint32_t) sizeof(message.record) + 4u * message.record.tag_count;
    if (size > KIT_RMA_CONTROL_MAX)
        size = KIT_RMA_CONTROL_MAX;
    if (size % 4 == 3) {
        give_put(to, from == to ? &net.ends[0] : from, how, &message.record);
        return;
    }
    exact = malloc(size); /* the exact size, so that an overrun is detected */
    FUZZ_CHECK(exact != NULL);
    memcpy(exact, message.bytes, size);
    kit_rma_control(to->ts, from == to ? &net.ends[0] : from, exact, size);
    free(exact);
}

/* Runs a valid put or get meanwhile. Input: its parameters, then for each record its options. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct kit_region *local, *remote;
    const uint64_t first = fuzz_take(&input, 1);
    struct net_op op;

    net_open_mover(&net, (enum kit_rma_mover)(first >> 2 & 3));
    net.is_refused = true; /* no attach: a forged address would be one in this process */
    net_op_init(&op);
    memset(secret, 7, sizeof(secret));
    (void) net_region(&net.ends[1], secret, NET_MEMORY, BOTH);
    region = net_region(&net.ends[1], open_to_all, NET_MEMORY, BOTH);
    local = net_region(&net.ends[0], op.memory, NET_MEMORY, BOTH);
    remote = net_remote(&net.ends[0], &net.ends[1], region);
    net.cancel = (enum net_cancel)(first >> 1 & 1);
    FUZZ_CHECK(net_start(&net.ends[0], &net.ends[1], &op, local, remote, 0, NET_MEMORY,
                         (first & 1) != 0) == NA_PLUGIN_SUCCESS);
    for (int i = 0; i < STEPS_MAX && input.size > 0; i++) {
        give(&input, fuzz_take(&input, 1), &op);
        (void) net_step(&net);
    }
    for (int i = 0; i < 10000 && net_step(&net); i++)
        ;
    FUZZ_CHECK(op.done <= 1);
    for (size_t i = 0; i < sizeof(secret); i++)
        FUZZ_CHECK(secret[i] == 7);
    net_lose(&net);
    net_close_busy(&net);
    FUZZ_CHECK(op.done <= 1);
    net_op_free(&op);
    return 0;
}
