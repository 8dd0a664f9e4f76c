/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Serialized descriptors: by themselves and as RPC arguments, damaged, truncated and forged.
 */
#include "bulk_fixture.h"

#include "bulk/bulk_internal.h"
#include "bulk/bulk_wire.h"
#include "mercury_proc_bulk.h"
#include "proc/proc_internal.h"

#define WIRE_MAX 16384

/* A serialized descriptor. */
struct wire {
    unsigned char bytes[WIRE_MAX];
    hg_size_t size;
};

static void wire_make(struct wire *wire, hg_bulk_t bulk, unsigned long flags)
{
    wire->size = HG_Bulk_get_serialize_size(bulk, flags);
    assert_in_range(wire->size, HG_BULK_WIRE_HEADER_SIZE, WIRE_MAX);
    assert_int_equal(HG_Bulk_serialize(wire->bytes, wire->size, flags, bulk), HG_SUCCESS);
}

/* Recompute the checksum of a forged descriptor. */
static void wire_sign(struct wire *wire)
{
    uint8_t *pos = wire->bytes + HG_BULK_WIRE_CHECKSUM_AT;

    hg_bulk_wire_put(&pos, hg_bulk_wire_checksum(wire->bytes, (size_t) wire->size), 4);
}

/*
 * Deserialize from a block of exactly `size` bytes, so that a sanitizer sees a read past its end.
 */
static hg_return_t wire_read(const struct wire *wire, hg_size_t size, hg_class_t *hg_class)
{
    unsigned char *copy = malloc(size > 0 ? (size_t) size : 1);
    hg_bulk_t bulk = HG_BULK_NULL;
    hg_return_t ret;

    memcpy(copy, wire->bytes, (size_t) size);
    ret = HG_Bulk_deserialize(hg_class, &bulk, copy, size);
    free(copy);
    if (ret == HG_SUCCESS)
        assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    else
        assert_ptr_equal(bulk, HG_BULK_NULL);
    return ret;
}

/* All kinds of descriptors. */
struct kind {
    uint32_t count;
    uint8_t flags;
    unsigned long options;
    bool is_bound;
};

static const struct kind kinds[] = {
    {1, HG_BULK_READWRITE, 0, false},
    {1, HG_BULK_READ_ONLY, HG_BULK_EAGER, false},
    {3, HG_BULK_READ_ONLY, HG_BULK_EAGER, true},
    {3, HG_BULK_WRITE_ONLY, HG_BULK_EAGER, false},
    {2, HG_BULK_READWRITE, HG_BULK_SM, true},
};

static void kind_make(const struct kind *kind, struct pair *pair, struct memory *memory)
{
    static const hg_size_t sizes[3] = {40, 7, 13};

    memory_make(memory, pair->origin.hg_class, kind->count, sizes, kind->flags, 3);
    if (kind->is_bound)
        assert_int_equal(HG_Bulk_bind(memory->bulk, pair->origin.context), HG_SUCCESS);
}

static void every_damaged_byte_is_noticed(void **state)
{
    struct pair *pair = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct memory memory;
        struct wire wire;

        kind_make(&kinds[i], pair, &memory);
        wire_make(&wire, memory.bulk, kinds[i].options);
        assert_int_equal(wire_read(&wire, wire.size, pair->target.hg_class), HG_SUCCESS);
        for (hg_size_t at = 0; at < wire.size; at++) {
            for (int bit = 0; bit < 8; bit++) {
                hg_return_t ret;

                wire.bytes[at] ^= (unsigned char) (1 << bit);
                ret = wire_read(&wire, wire.size, pair->target.hg_class);
                assert_true(ret == HG_PROTOCOL_ERROR || ret == HG_OVERFLOW);
                wire.bytes[at] ^= (unsigned char) (1 << bit);
            }
        }
        memory_free(&memory);
    }
}

static void cut_off_descriptors_are_refused(void **state)
{
    struct pair *pair = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct memory memory;
        struct wire wire;

        kind_make(&kinds[i], pair, &memory);
        wire_make(&wire, memory.bulk, kinds[i].options);
        for (hg_size_t size = 0; size < wire.size; size++)
            assert_int_equal(wire_read(&wire, size, pair->target.hg_class), HG_OVERFLOW);
        /* Further bytes behind the descriptor are ignored. */
        assert_int_equal(wire_read(&wire, wire.size + 5, pair->target.hg_class), HG_SUCCESS);
        assert_int_equal(
            HG_Bulk_serialize(wire.bytes, wire.size - 1, kinds[i].options, memory.bulk),
            HG_OVERFLOW);
        memory_free(&memory);
    }
}

/* Values for fields of the header, each of which contradicts the rest of the descriptor. */
static const struct {
    unsigned int at;
    unsigned int bytes;
    uint64_t value;
} forgeries[] = {
    {0, 4, 0},           {4, 1, 0},    {4, 1, 2},           {5, 1, 0},
    {5, 1, 0xff},        {5, 1, 0x07}, {5, 1, 0x0b},        {5, 1, 0x13},
    {5, 1, 0x12},        {7, 1, 9},    {8, 4, 0},           {8, 4, 63},
    {8, 4, 65},          {16, 8, 0},   {16, 8, 39},         {16, 8, 41},
    {16, 8, UINT64_MAX}, {24, 4, 0},   {28, 4, 1},          {28, 4, UINT32_MAX},
    {56, 4, 0},          {56, 4, 2},   {56, 4, UINT32_MAX}, {60, 4, 1},
    {60, 4, UINT32_MAX}, {64, 8, 0},   {64, 8, 39},         {64, 8, 41},
    {64, 8, UINT64_MAX}, {72, 4, 0},   {72, 4, UINT32_MAX},
};

static void forged_numbers_with_a_good_checksum_are_refused(void **state)
{
    struct pair *pair = *state;
    struct memory memory;

    kind_make(&kinds[0], pair, &memory);
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        struct wire wire;
        uint8_t *pos = wire.bytes + forgeries[i].at;

        wire_make(&wire, memory.bulk, 0);
        hg_bulk_wire_put(&pos, forgeries[i].value, forgeries[i].bytes);
        wire_sign(&wire);
        assert_int_not_equal(wire_read(&wire, wire.size, pair->target.hg_class), HG_SUCCESS);
    }
    memory_free(&memory);
}

/* Deserialize a descriptor of one region that was changed, with a valid checksum. */
static hg_return_t forged_read(const struct pair *pair, struct wire *wire)
{
    wire_sign(wire);
    return wire_read(wire, wire->size, pair->target.hg_class);
}

/*
 * A count or size in the header has to agree with the bytes that follow, and no memory is allocated
 * for it before that is checked.
 */
static void counts_and_sizes_are_held_against_the_bytes(void **state)
{
    struct pair *pair = *state;
    struct memory memory;
    struct wire wire;
    uint8_t *pos;

    kind_make(&kinds[0], pair, &memory);
    for (unsigned int shift = 8; shift < 32; shift++) {
        wire_make(&wire, memory.bulk, 0);
        pos = wire.bytes + 56;
        hg_bulk_wire_put(&pos, UINT32_C(1) << shift, 4);
        assert_int_equal(forged_read(pair, &wire), HG_PROTOCOL_ERROR);
    }
    memory_free(&memory);
    kind_make(&kinds[1], pair, &memory);
    for (int change = -1; change <= 1; change++) {
        wire_make(&wire, memory.bulk, HG_BULK_EAGER);
        pos = wire.bytes + 16;
        hg_bulk_wire_put(&pos, (uint64_t) (40 + change), 8);
        assert_int_equal(forged_read(pair, &wire), change == 0 ? HG_SUCCESS : HG_PROTOCOL_ERROR);
    }
    memory_free(&memory);
}

/* The lengths of the two regions have the right sum only because the sum wraps. */
static void lengths_that_wrap_are_refused(void **state)
{
    static const uint64_t firsts[] = {UINT64_MAX, UINT64_MAX - 5, UINT64_C(1) << 63, 41, 40};
    struct pair *pair = *state;
    struct memory memory;

    kind_make(&kinds[0], pair, &memory);
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        struct wire wire;
        uint8_t *pos;
        size_t region;

        wire_make(&wire, memory.bulk, 0);
        region = (size_t) wire.size - HG_BULK_WIRE_HEADER_SIZE;
        memcpy(wire.bytes + wire.size, wire.bytes + HG_BULK_WIRE_HEADER_SIZE, region);
        pos = wire.bytes + HG_BULK_WIRE_HEADER_SIZE;
        hg_bulk_wire_put(&pos, firsts[i], 8);
        pos = wire.bytes + wire.size;
        hg_bulk_wire_put(&pos, UINT64_C(40) - firsts[i], 8);
        wire.size += region;
        pos = wire.bytes + 8;
        hg_bulk_wire_put(&pos, wire.size, 4);
        pos = wire.bytes + 56;
        hg_bulk_wire_put(&pos, 2, 4);
        assert_int_equal(forged_read(pair, &wire), HG_PROTOCOL_ERROR);
    }
    memory_free(&memory);
}

/* An address in string form has to end with its only zero byte. */
static void addresses_that_are_no_strings_are_refused(void **state)
{
    struct pair *pair = *state;
    struct memory memory;

    kind_make(&kinds[2], pair, &memory);
    for (int i = 0; i < 2; i++) {
        struct wire wire;
        const uint8_t *at;
        uint32_t size;

        wire_make(&wire, memory.bulk, HG_BULK_EAGER);
        at = wire.bytes + 28;
        size = (uint32_t) hg_bulk_wire_get(&at, 4);
        assert_in_range(size, 2, wire.size);
        wire.bytes[5] |= HG_BULK_WIRE_ADDR_STRING;
        memset(wire.bytes + HG_BULK_WIRE_HEADER_SIZE, 'x', size);
        if (i == 1)
            wire.bytes[HG_BULK_WIRE_HEADER_SIZE + size - 2] = 0;
        assert_int_equal(forged_read(pair, &wire), HG_PROTOCOL_ERROR);
    }
    memory_free(&memory);
}

static void random_forgeries_do_no_harm(void **state)
{
    struct pair *pair = *state;
    unsigned int seed = 42;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct memory memory;

        kind_make(&kinds[i], pair, &memory);
        for (int round = 0; round < 3000; round++) {
            struct wire wire;

            wire_make(&wire, memory.bulk, kinds[i].options);
            for (int change = 0; change < 1 + round % 4; change++) {
                seed = seed * 1103515245u + 12345u;
                /* Bytes of the header and of the regions behind it are changed. */
                wire.bytes[(seed >> 8) % wire.size] = (unsigned char) (seed >> 20);
            }
            wire_sign(&wire);
            (void) wire_read(&wire, wire.size, pair->target.hg_class);
        }
        memory_free(&memory);
    }
}

static void eager_data_are_read_without_the_origin(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[3] = {40, 7, 13};
    char before[60];
    char after[60];
    struct memory origin;
    struct memory local;
    hg_bulk_t eager;
    void *ptrs[3];
    uint32_t count = 0;

    memory_make(&origin, pair->origin.hg_class, 3, sizes, HG_BULK_READ_ONLY, 1);
    memory_make(&local, pair->target.hg_class, 2, sizes, HG_BULK_READWRITE, 2);
    memory_get(&origin, before);
    eager = bulk_send(origin.bulk, HG_BULK_EAGER, pair->target.hg_class);
    memory_free(&origin);
    assert_int_equal(HG_Bulk_access(eager, 5, 50, HG_BULK_READ_ONLY, 3, ptrs, NULL, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 1);
    assert_memory_equal(ptrs[0], before + 5, 50);
    assert_int_equal(transfer(pair, HG_BULK_PULL, eager, 13, local.bulk, 0, 47), HG_SUCCESS);
    memory_get(&local, after);
    assert_memory_equal(after, before + 13, 47);
    assert_int_equal(transfer(pair, HG_BULK_PUSH, eager, 0, local.bulk, 0, 47), HG_PERMISSION);
    assert_int_equal(HG_Bulk_free(eager), HG_SUCCESS);
    memory_free(&local);
}

/*
 * A descriptor of our own comes back with larger sizes: no bytes beyond the described memory may be
 * copied.
 */
static void own_descriptor_that_has_grown_is_not_copied_from(void **state)
{
    static const hg_size_t sizes[1] = {40}, more[1] = {4000};
    struct pair *pair = *state;
    struct outcome outcome = {0};
    struct memory small, local;
    hg_bulk_t forged;
    struct wire wire;
    hg_addr_t self;
    hg_return_t ret;
    uint8_t *pos;

    assert_int_equal(HG_Addr_self(pair->target.hg_class, &self), HG_SUCCESS);
    memory_make(&small, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 1);
    memory_make(&local, pair->target.hg_class, 1, more, HG_BULK_READWRITE, 2);
    wire_make(&wire, small.bulk, 0);
    pos = wire.bytes + 16;
    hg_bulk_wire_put(&pos, 4000, 8);
    pos = wire.bytes + HG_BULK_WIRE_HEADER_SIZE;
    hg_bulk_wire_put(&pos, 4000, 8);
    wire_sign(&wire);
    assert_int_equal(HG_Bulk_deserialize(pair->target.hg_class, &forged, wire.bytes, wire.size),
                     HG_SUCCESS);
    ret = HG_Bulk_transfer(pair->target.context, outcome_set, &outcome, HG_BULK_PULL, self, forged,
                           0, local.bulk, 0, 4000, NULL);
    if (ret == HG_SUCCESS) {
        pair_wait(pair, &outcome);
        ret = outcome.ret;
    }
    assert_int_not_equal(ret, HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair->target.hg_class, self), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(forged), HG_SUCCESS);
    memory_free(&local);
    memory_free(&small);
}

/* A descriptor with another descriptor's name gives no access to that descriptor's memory. */
static void forged_name_gives_no_access(void **state)
{
    static const unsigned long options[2] = {HG_BULK_EAGER, 0};
    static const hg_size_t sizes[2] = {40, 4000};
    struct pair *pair = *state;

    for (size_t i = 0; i < 2; i++) {
        struct memory small, large;
        struct wire wire, name;
        uint32_t count = 0;
        hg_size_t size = 0;
        hg_bulk_t forged;
        hg_return_t ret;
        void *at = NULL;

        memory_make(&small, pair->origin.hg_class, 1, &sizes[0], HG_BULK_READ_ONLY, 1);
        memory_make(&large, pair->origin.hg_class, 1, &sizes[1], HG_BULK_READ_ONLY, 2);
        wire_make(&wire, small.bulk, options[i]);
        wire_make(&name, large.bulk, 0);
        memcpy(wire.bytes + 32, name.bytes + 32, 16); /* process and name */
        wire_sign(&wire);
        assert_int_equal(HG_Bulk_deserialize(pair->origin.hg_class, &forged, wire.bytes, wire.size),
                         HG_SUCCESS);
        ret = HG_Bulk_access(forged, 0, 4000, HG_BULK_READ_ONLY, 1, &at, &size, &count);
        if (options[i] == HG_BULK_EAGER) {
            assert_int_equal(ret, HG_SUCCESS);
            assert_int_equal(size, 40);
            assert_memory_equal(at, small.ptrs[0], 40);
        } else {
            assert_int_equal(ret, HG_INVALID_ARG);
        }
        assert_int_equal(HG_Bulk_free(forged), HG_SUCCESS);
        memory_free(&large);
        memory_free(&small);
    }
}

/* Position and size of the name in a descriptor. */
enum {
    NAME_AT = 32,
    NAME_SIZE = 16
};

/*
 * The names of descriptors are random: no name tells anything about the next one, or about the
 * process.
 */
static void names_tell_nothing_of_each_other(void **state)
{
    static const hg_size_t sizes[1] = {40};
    struct pair *pair = *state;
    uint64_t halves[2 * 100];

    for (int i = 0; i < 100; i++) {
        struct memory memory;
        struct wire wire;
        const uint8_t *pos = wire.bytes + NAME_AT;

        memory_make(&memory, pair->origin.hg_class, 1, sizes, HG_BULK_READ_ONLY, 1);
        wire_make(&wire, memory.bulk, 0);
        halves[2 * i] = hg_bulk_wire_get(&pos, 8);
        halves[2 * i + 1] = hg_bulk_wire_get(&pos, 8);
        memory_free(&memory);
    }
    /* By chance, this test fails once in 2^28 runs. */
    for (int i = 0; i < 200; i++) {
        assert_true(halves[i] > UINT64_C(1) << 20);
        for (int j = 0; j < i; j++) {
            const uint64_t distance = halves[i] - halves[j];

            assert_true(distance > UINT64_C(1) << 20 &&
                        distance < UINT64_MAX - (UINT64_C(1) << 20));
        }
    }
}

/* A transfer of a bound descriptor, to the address that it contains. */
static hg_return_t bound_transfer(struct pair *pair, hg_bulk_op_t op, hg_bulk_t origin,
                                  hg_bulk_t local, hg_size_t size)
{
    struct outcome outcome = {0};
    hg_return_t ret;

    ret = HG_Bulk_bind_transfer(pair->target.context, outcome_set, &outcome, op, origin, 0, local,
                                0, size, NULL);
    if (ret != HG_SUCCESS)
        return ret;
    pair_wait(pair, &outcome);
    return outcome.ret;
}

/* What a peer may alter in a descriptor that it received from the target. */
enum forgery {
    FORGED_REGIONS, /* the forger's own memory handle */
    FORGED_RIGHTS,
    FORGED_SEGMENTS,
    FORGED_CONTEXT,
    FORGED_HANDLE, /* the last bit of the memory handle */
    FORGERIES
};

static void wire_forge(struct wire *wire, const struct wire *own, enum forgery forgery)
{
    const size_t region = (size_t) own->size - HG_BULK_WIRE_HEADER_SIZE;

    switch (forgery) {
    case FORGED_REGIONS:
        assert_true(wire->size >= own->size);
        memcpy(wire->bytes + wire->size - region, own->bytes + own->size - region, region);
        break;
    case FORGED_RIGHTS:
        wire->bytes[5] |= HG_BULK_READWRITE;
        break;
    case FORGED_SEGMENTS:
        wire->bytes[24]++;
        break;
    case FORGED_CONTEXT:
        wire->bytes[6]++;
        break;
    default:
        wire->bytes[wire->size - 1] ^= 1;
        break;
    }
    wire_sign(wire);
}

/*
 * An altered descriptor of memory that the target has registered gives access neither to that
 * memory nor to other memory.
 */
static void altered_descriptor_does_not_reach_what_it_names(void **state)
{
    static const hg_size_t sizes[1] = {4000};
    struct pair *pair = *state;
    static char before[4000];

    for (int forgery = 0; forgery < FORGERIES; forgery++) {
        struct memory secret, own, sink;
        struct wire wire, other;
        hg_bulk_t forged = HG_BULK_NULL;
        void *at = NULL;

        memory_make(&secret, pair->target.hg_class, 1, sizes, HG_BULK_READ_ONLY, 1);
        memory_make(&own, pair->origin.hg_class, 1, sizes, HG_BULK_READ_ONLY, 2);
        memory_make(&sink, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 3);
        assert_int_equal(HG_Bulk_bind(secret.bulk, pair->target.context), HG_SUCCESS);
        wire_make(&wire, secret.bulk, 0);
        wire_make(&other, own.bulk, 0);
        wire_forge(&wire, &other, (enum forgery) forgery);
        if (HG_Bulk_deserialize(pair->target.hg_class, &forged, wire.bytes, wire.size) ==
            HG_SUCCESS) {
            assert_int_equal(HG_Bulk_access(forged, 0, 4000, HG_BULK_READ_ONLY, 1, &at, NULL, NULL),
                             HG_INVALID_ARG);
            memory_get(&sink, before);
            assert_int_equal(bound_transfer(pair, HG_BULK_PULL, forged, sink.bulk, 4000),
                             HG_PERMISSION);
            assert_memory_equal(sink.ptrs[0], before, 4000);
            memory_get(&secret, before);
            assert_int_equal(bound_transfer(pair, HG_BULK_PUSH, forged, sink.bulk, 4000),
                             HG_PERMISSION);
            assert_memory_equal(secret.ptrs[0], before, 4000);
        }
        assert_int_equal(HG_Bulk_free(forged), HG_SUCCESS);
        memory_free(&sink);
        memory_free(&own);
        memory_free(&secret);
    }
}

/*
 * The forged descriptor has the target's address and a memory handle of the forger, but no valid
 * name.
 */
static void strangers_descriptor_with_our_address_moves_nothing(void **state)
{
    static const hg_size_t sizes[1] = {4000};
    struct pair *pair = *state;
    struct memory secret, own, sink;
    struct wire wire, other;
    hg_bulk_t forged;

    memory_make(&secret, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 1);
    memory_make(&own, pair->origin.hg_class, 1, sizes, HG_BULK_READWRITE, 2);
    memory_make(&sink, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 3);
    assert_int_equal(HG_Bulk_bind(secret.bulk, pair->target.context), HG_SUCCESS);
    wire_make(&wire, secret.bulk, 0);
    wire_make(&other, own.bulk, 0);
    memset(wire.bytes + NAME_AT, 0, NAME_SIZE);
    wire_forge(&wire, &other, FORGED_REGIONS);
    assert_int_equal(HG_Bulk_deserialize(pair->target.hg_class, &forged, wire.bytes, wire.size),
                     HG_SUCCESS);
    assert_int_equal(bound_transfer(pair, HG_BULK_PULL, forged, sink.bulk, 4000), HG_PERMISSION);
    assert_int_equal(bound_transfer(pair, HG_BULK_PUSH, forged, sink.bulk, 4000), HG_PERMISSION);
    assert_int_equal(HG_Bulk_free(forged), HG_SUCCESS);
    memory_free(&sink);
    memory_free(&own);
    memory_free(&secret);
}

/* Each form of the descriptor is recognized, also if it is bound after it was serialized. */
static void own_descriptor_that_comes_back_is_recognized(void **state)
{
    static const hg_size_t sizes[3] = {40, 7, 13};
    struct pair *pair = *state;

    for (int form = 0; form < 4; form++) {
        const unsigned long flags = form % 2 == 1 ? HG_BULK_SM : 0;
        struct memory memory, sink;
        hg_bulk_t back, again;
        void *ptrs[3];
        uint32_t count = 0;

        memory_make(&memory, pair->target.hg_class, 3, sizes, HG_BULK_READWRITE, 1);
        memory_make(&sink, pair->target.hg_class, 2, sizes, HG_BULK_READWRITE, 2);
        if (form >= 2)
            assert_int_equal(HG_Bulk_bind(memory.bulk, pair->target.context), HG_SUCCESS);
        back = bulk_send(memory.bulk, flags, pair->target.hg_class);
        again = bulk_send(back, 0, pair->target.hg_class);
        assert_int_equal(HG_Bulk_free(back), HG_SUCCESS);
        if (form < 2) {
            assert_int_equal(HG_Bulk_bind(memory.bulk, pair->target.context), HG_SUCCESS);
            back = bulk_send(again, 0, pair->target.hg_class);
            assert_int_equal(HG_Bulk_free(again), HG_SUCCESS);
            again = back;
        } else {
            assert_int_equal(bound_transfer(pair, HG_BULK_PULL, again, sink.bulk, 40), HG_SUCCESS);
            assert_memory_equal(sink.ptrs[0], memory.ptrs[0], 40);
        }
        assert_int_equal(HG_Bulk_access(again, 0, 60, HG_BULK_READWRITE, 3, ptrs, NULL, &count),
                         HG_SUCCESS);
        assert_int_equal(count, 3);
        assert_ptr_equal(ptrs[2], memory.ptrs[2]);
        assert_int_equal(HG_Bulk_free(again), HG_SUCCESS);
        memory_free(&sink);
        memory_free(&memory);
    }
}

static void received_descriptor_is_passed_on_as_it_came(void **state)
{
    struct pair *pair = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct memory memory;
        struct wire first;
        struct wire second;
        hg_bulk_t received;

        kind_make(&kinds[i], pair, &memory);
        wire_make(&first, memory.bulk, kinds[i].options);
        received = bulk_send(memory.bulk, kinds[i].options, pair->target.hg_class);
        wire_make(&second, received, 0);
        assert_int_equal(first.size, second.size);
        assert_memory_equal(first.bytes, second.bytes, (size_t) first.size);
        assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
        memory_free(&memory);
    }
}

static void descriptors_are_arguments(void **state)
{
    struct pair *pair = *state;
    enum hg_proc_encoding encodings[2] = {HG_PROC_ENCODING_RAW, HG_PROC_ENCODING_PORTABLE};
    static char buf[2 * WIRE_MAX];

    for (int round = 0; round < 10; round++) {
        const struct kind *kind = &kinds[round / 2];
        uint8_t flags = (kind->options & HG_BULK_EAGER) != 0 ? HG_PROC_BULK_EAGER : 0;
        struct memory memory;
        struct hg_proc proc;
        hg_bulk_t in[2];
        hg_bulk_t out[2] = {HG_BULK_NULL, HG_BULK_NULL};
        hg_size_t used;

        kind_make(kind, pair, &memory);
        in[0] = memory.bulk;
        in[1] = HG_BULK_NULL;
        hg_proc_init(&proc, pair->origin.hg_class, HG_NOHASH, encodings[round % 2]);
        assert_int_equal(hg_proc_reset(&proc, buf, sizeof(buf), HG_ENCODE), HG_SUCCESS);
        hg_proc_set_flags(&proc, flags);
        assert_int_equal(hg_proc_hg_bulk_t(&proc, &in[0]), HG_SUCCESS);
        assert_int_equal(hg_proc_hg_bulk_t(&proc, &in[1]), HG_SUCCESS);
        used = hg_proc_get_size_used(&proc);

        hg_proc_init(&proc, pair->target.hg_class, HG_NOHASH, encodings[round % 2]);
        for (hg_size_t cut = 0; cut < used - 4; cut++) {
            assert_int_equal(hg_proc_reset(&proc, buf, cut, HG_DECODE), HG_SUCCESS);
            assert_int_equal(hg_proc_hg_bulk_t(&proc, &out[0]), HG_OVERFLOW);
            assert_ptr_equal(out[0], HG_BULK_NULL);
        }
        assert_int_equal(hg_proc_reset(&proc, buf, used, HG_DECODE), HG_SUCCESS);
        assert_int_equal(hg_proc_hg_bulk_t(&proc, &out[0]), HG_SUCCESS);
        assert_int_equal(hg_proc_hg_bulk_t(&proc, &out[1]), HG_SUCCESS);
        assert_int_equal(HG_Bulk_get_size(out[0]), memory.size);
        assert_ptr_equal(out[1], HG_BULK_NULL);
        assert_int_equal(hg_proc_reset(&proc, NULL, 0, HG_FREE), HG_SUCCESS);
        assert_int_equal(hg_proc_hg_bulk_t(&proc, &out[0]), HG_SUCCESS);
        assert_int_equal(hg_proc_hg_bulk_t(&proc, &out[1]), HG_SUCCESS);
        assert_ptr_equal(out[0], HG_BULK_NULL);
        memory_free(&memory);
    }
}

static void data_travel_in_arguments_only_if_they_leave_room(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {1000};
    struct memory memory;
    struct hg_proc proc;
    char buf[8192];

    memory_make(&memory, pair->origin.hg_class, 1, sizes, HG_BULK_READ_ONLY, 3);
    hg_proc_init(&proc, pair->origin.hg_class, HG_NOHASH, HG_PROC_ENCODING_RAW);
    for (int round = 0; round < 3; round++) {
        hg_size_t room = round == 1 ? 2000 : sizeof(buf);

        assert_int_equal(hg_proc_reset(&proc, buf, room, HG_ENCODE), HG_SUCCESS);
        hg_proc_set_flags(&proc, round == 2 ? 0 : HG_PROC_BULK_EAGER);
        assert_int_equal(hg_proc_hg_bulk_t(&proc, &memory.bulk), HG_SUCCESS);
        if (round == 0)
            assert_true(hg_proc_get_size_used(&proc) >= 1000);
        else
            assert_true(hg_proc_get_size_used(&proc) < 1000);
    }
    hg_proc_fini(&proc);
    memory_free(&memory);
}

static void class_may_forbid_eager_data(void **state)
{
    struct hg_init_info init_info = HG_INIT_INFO_INITIALIZER;
    static const hg_size_t sizes[1] = {1000};
    struct memory memory;
    hg_class_t *hg_class;

    (void) state;
    init_info.no_bulk_eager = HG_TRUE;
    hg_class = test_class_open(HG_TRUE, &init_info);
    assert_non_null(hg_class);
    memory_make(&memory, hg_class, 1, sizes, HG_BULK_READ_ONLY, 3);
    assert_true(HG_Bulk_get_serialize_size(memory.bulk, HG_BULK_EAGER) < 1000);
    memory_free(&memory);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
}

static void bad_arguments_are_refused(void **state)
{
    struct pair *pair = *state;
    struct memory memory;
    struct wire wire;
    hg_bulk_t bulk = HG_BULK_NULL;

    kind_make(&kinds[0], pair, &memory);
    wire_make(&wire, memory.bulk, 0);
    assert_int_equal(HG_Bulk_serialize(NULL, wire.size, 0, memory.bulk), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_serialize(wire.bytes, wire.size, 0, HG_BULK_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_deserialize(NULL, &bulk, wire.bytes, wire.size), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_deserialize(pair->target.hg_class, NULL, wire.bytes, wire.size),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_deserialize(pair->target.hg_class, &bulk, NULL, wire.size),
                     HG_INVALID_ARG);
    memory_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_damaged_byte_is_noticed),
        cmocka_unit_test(cut_off_descriptors_are_refused),
        cmocka_unit_test(forged_numbers_with_a_good_checksum_are_refused),
        cmocka_unit_test(counts_and_sizes_are_held_against_the_bytes),
        cmocka_unit_test(lengths_that_wrap_are_refused),
        cmocka_unit_test(addresses_that_are_no_strings_are_refused),
        cmocka_unit_test(random_forgeries_do_no_harm),
        cmocka_unit_test(eager_data_are_read_without_the_origin),
        cmocka_unit_test(own_descriptor_that_has_grown_is_not_copied_from),
        cmocka_unit_test(forged_name_gives_no_access),
        cmocka_unit_test(names_tell_nothing_of_each_other),
        cmocka_unit_test(altered_descriptor_does_not_reach_what_it_names),
        cmocka_unit_test(strangers_descriptor_with_our_address_moves_nothing),
        cmocka_unit_test(own_descriptor_that_comes_back_is_recognized),
        cmocka_unit_test(received_descriptor_is_passed_on_as_it_came),
        cmocka_unit_test(descriptors_are_arguments),
        cmocka_unit_test(data_travel_in_arguments_only_if_they_leave_room),
        cmocka_unit_test(class_may_forbid_eager_data),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    /* The tests would log thousands of refused descriptors. */
    HG_Set_log_level("none");
    return cmocka_run_group_tests(tests, pair_open, pair_close);
}
