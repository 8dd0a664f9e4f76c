/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer writes invalid data to the memory that it shares: the data are refused, never followed,
 * and other peers are served. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include "layout.h"
#include "rma_state.h"

#include <endian.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PUT_BYTES (SM_INLINE_MAX - KIT_RMA_RECORD_SIZE) /* bytes of a put that fit a slot */

/* A victim, an attacker, a correct peer, and the attacker's mappings of both segments. */
struct scene {
    struct end victim;
    struct end attacker;
    struct child honest;
    na_addr_t *honest_addr;
    na_addr_t *to_victim;
    na_addr_t *to_attacker;
    uint8_t *victim_map;
    size_t victim_size;
    uint8_t *attacker_map;
    size_t attacker_size;
    struct sm_peer_slot *slot;
    struct sm_ring_slot *ring;
    uint32_t next; /* index of the next slot that the victim reads */
};

static uint8_t *map_segment(const struct end *end, size_t *size_p, char *name)
{
    char address[128];
    struct stat status;
    uint8_t *map;
    int fd;

    end_address(end, address, sizeof(address));
    (void) strcpy(name, address + strlen("na+sm://"));
    fd = sm_memory_of(name);
    assert_int_equal(fstat(fd, &status), 0);
    *size_p = (size_t) status.st_size;
    map = mmap(NULL, *size_p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    (void) close(fd);
    return map;
}

static void scene_open(struct scene *scene)
{
    struct sm_peer_slot *slots;
    char victim_name[128], attacker_name[128];
    struct event event = {0};
    na_op_id_t *op;
    uint8_t buf[64];

    memset(scene, 0, sizeof(*scene));
    child_start(&scene->honest, "na+sm", "plain");
    end_open(&scene->victim, "na+sm", NULL);
    end_open(&scene->attacker, "na+sm", NULL);
    scene->to_victim = end_lookup(&scene->attacker, &scene->victim);
    scene->to_attacker = end_lookup(&scene->victim, &scene->attacker);
    assert_int_equal(
        NA_Addr_lookup(scene->victim.na_class, scene->honest.address, &scene->honest_addr),
        NA_SUCCESS);
    op = NA_Op_create(scene->victim.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_recv_unexpected(scene->victim.na_class, scene->victim.context,
                                            event_callback, &event, buf, sizeof(buf), NULL, op),
                     NA_SUCCESS);
    assert_int_equal(end_send(&scene->attacker, scene->to_victim, "hi", 3, 1, false), NA_SUCCESS);
    assert_true(event_wait(&scene->victim, &event, TEST_WAIT_MS));
    NA_Addr_free(scene->victim.na_class, event.source);
    NA_Op_destroy(scene->victim.na_class, op);
    scene->victim_map = map_segment(&scene->victim, &scene->victim_size, victim_name);
    scene->attacker_map = map_segment(&scene->attacker, &scene->attacker_size, attacker_name);
    slots = (struct sm_peer_slot *) (scene->victim_map + sm_layout_peer_slots(0));
    for (uint32_t i = 0; i < SM_PEER_SLOTS_CHUNK; i++)
        if (sm_owner_state(slots[i].owner) == SM_SLOT_READY &&
            strcmp(slots[i].name, attacker_name) == 0)
            scene->slot = &slots[i];
    assert_non_null(scene->slot);
    scene->ring = (struct sm_ring_slot *) (scene->attacker_map + scene->slot->ring_offset);
    scene->next = 1;
}

/* The victim still answers the correct peer. */
static void scene_check(struct scene *scene)
{
    uint8_t reply[64];
    size_t size = sizeof(reply);

    end_progress(&scene->victim, 10);
    assert_int_equal(
        end_command(&scene->victim, scene->honest_addr, PEER_ECHO, 7, 8, 9, reply, &size),
        NA_SUCCESS);
    assert_int_equal(size, sizeof(struct peer_request));
}

static void scene_close(struct scene *scene)
{
    scene_check(scene);
    (void) munmap(scene->victim_map, scene->victim_size);
    (void) munmap(scene->attacker_map, scene->attacker_size);
    NA_Addr_free(scene->victim.na_class, scene->to_attacker);
    NA_Addr_free(scene->victim.na_class, scene->honest_addr);
    NA_Addr_free(scene->attacker.na_class, scene->to_victim);
    end_close(&scene->attacker);
    end_close(&scene->victim);
    child_stop(&scene->honest);
    check_clean();
}

static void write_slot(struct scene *scene, uint8_t kind, uint16_t length, const void *payload,
                       size_t size)
{
    struct sm_ring_slot *slot = &scene->ring[scene->next % SM_RING_SLOTS];

    slot->kind = kind;
    slot->length = length;
    slot->context = 0;
    slot->tag = 1;
    slot->flags = 0;
    memcpy(slot->payload, payload, size);
    slot->sequence = ++scene->next;
}

static void expect_refusal(uint8_t kind, uint16_t length, const void *payload, size_t size)
{
    struct scene scene;
    struct event event = {0};
    uint8_t buf[64];
    na_op_id_t *op;

    scene_open(&scene);
    op = NA_Op_create(scene.victim.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_recv_expected(scene.victim.na_class, scene.victim.context,
                                          event_callback, &event, buf, sizeof(buf), NULL,
                                          scene.to_attacker, 0, 99, op),
                     NA_SUCCESS);
    write_slot(&scene, kind, length, payload, size);
    assert_true(event_wait(&scene.victim, &event, TEST_WAIT_MS));
    assert_int_equal(event.ret, NA_PROTOCOL_ERROR);
    assert_int_equal(end_send(&scene.victim, scene.to_attacker, buf, 8, 1, false),
                     NA_PROTOCOL_ERROR);
    assert_true((scene.slot->status & SM_RING_REFUSED) != 0);
    NA_Op_destroy(scene.victim.na_class, op);
    scene_close(&scene);
}

static void impossible_slots_close_the_ring(void **state)
{
    struct rma_record record = {.magic = htole32(RMA_MAGIC), .version = RMA_VERSION};

    (void) state;
    expect_refusal(SM_KIND_UNEXPECTED, 0xffff, "", 0);
    expect_refusal(SM_KIND_EXPECTED, SM_TEST_MESSAGE + 1, "", 0);
    expect_refusal(SM_KIND_UNEXPECTED, SM_TEST_MESSAGE + 1, "", 0);
    expect_refusal(SM_KIND_DATA, 0xffff, &record, sizeof(record));
    expect_refusal(SM_KIND_DATA, sizeof(record) - 1, &record, sizeof(record));
    expect_refusal(SM_KIND_RECORD, 0xffff, &record, sizeof(record));
    expect_refusal(SM_KIND_RECORD, KIT_RMA_CONTROL_MIN + 1, &record, sizeof(record));
    expect_refusal(SM_KIND_RECORD, sizeof(record) - 1, &record, sizeof(record));
    expect_refusal(SM_KIND_RECORD, 3, "", 0);
    expect_refusal(0, 8, "", 0);
    expect_refusal(SM_KIND_PART + 1, SM_INLINE_MAX, &record, sizeof(record));
    expect_refusal(200, 100, "", 0);
}

static void impossible_parts_close_the_ring(void **state)
{
    static const struct sm_part parts[] = {
        {SM_KIND_UNEXPECTED, SM_TEST_MESSAGE + 1, 0},
        {SM_KIND_UNEXPECTED, UINT32_MAX, 0},
        {SM_KIND_UNEXPECTED, 199, 0},
        {SM_KIND_EXPECTED, 1000, 801},
        {SM_KIND_EXPECTED, 1000, UINT32_MAX},
        {SM_KIND_PART, 1000, 0},
        {SM_KIND_DATA, 1000, 0},
        {0, 0, 0},
    };
    const struct sm_part good = {SM_KIND_UNEXPECTED, 1000, 0};

    (void) state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        expect_refusal(SM_KIND_PART, 200, &parts[i], sizeof(parts[i]));
    /* a part of this size would not be that short */
    expect_refusal(SM_KIND_PART, SM_INLINE_MAX, &good, sizeof(good));
    expect_refusal(SM_KIND_PART, 0xffff, &good, sizeof(good));
}

/* Parts out of order are dropped: they may belong to a message that was abandoned. */
static void parts_that_do_not_follow_are_dropped(void **state)
{
    static const struct sm_part parts[] = {
        {SM_KIND_UNEXPECTED, 1000, 200}, {SM_KIND_EXPECTED, 1000, 0},
        {SM_KIND_EXPECTED, 1000, 400},   {SM_KIND_EXPECTED, 1001, 200},
        {SM_KIND_UNEXPECTED, 1000, 200}, {SM_KIND_EXPECTED, 1000, 200},
    };
    struct scene scene;

    (void) state;
    scene_open(&scene);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        write_slot(&scene, SM_KIND_PART, 200, &parts[i], sizeof(parts[i]));
        scene_check(&scene);
        assert_int_equal(scene.slot->status & SM_RING_REFUSED, 0);
    }
    scene_close(&scene);
}

/* A record as the other side of a transfer sends it. */
static struct rma_record record_of(enum rma_kind kind, bool is_origin, bool is_put,
                                   uint64_t transfer)
{
    return (struct rma_record){
        .magic = htole32(RMA_MAGIC),
        .version = RMA_VERSION,
        .kind = (uint8_t) kind,
        .flags = (uint8_t) ((is_origin ? RMA_FROM_ORIGIN : 0u) | (is_put ? RMA_IS_PUT : 0u) |
                            (uint32_t) KIT_RMA_INLINE << RMA_MOVER_SHIFT),
        .transfer = transfer,
    };
}

/* Sends a put with a valid handle in which one bit of the key is flipped (128: none). If it is
 * granted, it writes zeros. */
static void put_by_hand(struct scene *scene, na_mem_handle_t *mem, uint32_t bit, uint64_t offset,
                        uint64_t token)
{
    const size_t size = NA_Mem_handle_get_serialize_size(scene->victim.na_class, mem);
    struct rma_record record = record_of(RMA_REQUEST, true, true, token);
    uint8_t payload[SM_INLINE_MAX] = {0}, bytes[256];

    assert_in_range(size, KIT_REGION_PACKED, sizeof(bytes));
    assert_int_equal(NA_Mem_handle_serialize(scene->victim.na_class, bytes, sizeof(bytes), mem),
                     NA_SUCCESS);
    memcpy(&record.memory, bytes + size - KIT_REGION_PACKED + 24, sizeof(record.memory));
    memcpy(&record.key, bytes + size - KIT_REGION_PACKED + 32, sizeof(record.key));
    if (bit < 128)
        record.key.word[bit / 64] ^= UINT64_C(1) << (bit % 64);
    record.offset = htole64(offset);
    record.length = htole64(PUT_BYTES);
    record.piece_size = htole32(PUT_BYTES);
    memcpy(payload, &record, sizeof(record));
    write_slot(scene, SM_KIND_DATA, SM_INLINE_MAX, payload, sizeof(payload));
    end_progress(&scene->victim, 0);
    end_progress(&scene->attacker, 0);
}

/* A handle allows the access that it was made for to its own memory, and nothing else. */
static void handles_are_held_against_each_request(void **state)
{
    static const uint64_t offsets[] = {256, 250, 257, 300, 512, UINT64_MAX, UINT64_MAX - 7};
    const size_t size = PUT_BYTES;
    uint8_t memory[768], before[768];
    na_mem_handle_t *mem;
    struct scene scene;

    (void) state;
    scene_open(&scene);
    memset(memory, 0x5a, sizeof(memory));
    memcpy(before, memory, sizeof(memory));
    mem = mem_open(&scene.victim, memory + 256, 256, NA_MEM_READWRITE);
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        put_by_hand(&scene, mem, 128, offsets[i], 1000 + i);
        assert_memory_equal(memory, before, sizeof(memory));
    }
    for (uint32_t bit = 0; bit < 128; bit++) { /* one bit of the key is wrong */
        put_by_hand(&scene, mem, bit, 0, 1500 + bit);
        assert_memory_equal(memory, before, sizeof(memory));
    }
    put_by_hand(&scene, mem, 128, 256 - size, 2000);
    memset(before + 512 - size, 0, size);
    assert_memory_equal(memory, before, sizeof(memory));
    mem_close(&scene.victim, mem);
    mem = mem_open(&scene.victim, memory + 256, 256, NA_MEM_READ_ONLY);
    put_by_hand(&scene, mem, 128, 0, 3000);
    assert_memory_equal(memory, before, sizeof(memory));
    mem_close(&scene.victim, mem);
    scene_close(&scene);
}

/* Requests for memory that was not offered are refused, and touch no memory. */
static void made_up_requests_are_refused(void **state)
{
    uint8_t memory[256], before[256];
    na_mem_handle_t *mem;
    struct scene scene;

    (void) state;
    scene_open(&scene);
    memset(memory, 0x5a, sizeof(memory));
    memcpy(before, memory, sizeof(memory));
    mem = mem_open(&scene.victim, memory, sizeof(memory), NA_MEM_READ_ONLY);
    for (uint32_t i = 0; i < 5000; i++) {
        const bool is_put = i % 2 != 0;
        struct rma_record record = record_of(RMA_REQUEST, true, is_put, i + 1);
        uint8_t payload[SM_INLINE_MAX] = {0};

        record.key.word[0] = i % 3 == 0 ? i : (uint64_t) rand() << 32;
        record.key.word[1] = i % 2 ? (uint64_t) rand() : 0;
        record.memory = i % 4 ? i % 70 : (uint64_t) rand() << 32 | i % 70;
        record.offset = i % 5 ? (uint64_t) rand() : UINT64_MAX - i;
        record.length = i % 7 ? (uint64_t) rand() : UINT64_MAX;
        record.piece_size = i % 11 ? htole32(PUT_BYTES) : (uint32_t) rand();
        memcpy(payload, &record, sizeof(record));
        write_slot(&scene, is_put ? SM_KIND_DATA : SM_KIND_RECORD,
                   is_put ? SM_INLINE_MAX : sizeof(record), payload, sizeof(payload));
        end_progress(&scene.victim, 0);
        end_progress(&scene.attacker, 0); /* receives the answers, which match no transfer */
    }
    assert_memory_equal(memory, before, sizeof(memory));
    mem_close(&scene.victim, mem);
    scene_close(&scene);
}

/* Returns the id of the victim's get from the shared memory, as the attacker can find it; 0:
 * none. */
static uint64_t find_transfer(const struct scene *scene)
{
    char victim_name[128], attacker_name[128];
    size_t victim_size, attacker_size;
    uint8_t *victim = map_segment(&scene->victim, &victim_size, victim_name);
    uint8_t *attacker = map_segment(&scene->attacker, &attacker_size, attacker_name);
    const struct sm_peer_slot *slots =
        (const struct sm_peer_slot *) (attacker + sm_layout_peer_slots(0));
    struct rma_record record = {0};

    for (uint32_t i = 0; i < SM_PEER_SLOTS_CHUNK; i++) {
        const struct sm_ring_slot *ring =
            (const struct sm_ring_slot *) (victim + slots[i].ring_offset);

        if (sm_owner_state(slots[i].owner) != SM_SLOT_READY ||
            strcmp(slots[i].name, victim_name) != 0)
            continue;
        for (uint32_t k = 0; k < SM_RING_SLOTS; k++)
            if (ring[k].kind == SM_KIND_RECORD)
                memcpy(&record, ring[k].payload, sizeof(record));
    }
    (void) munmap(victim, victim_size);
    (void) munmap(attacker, attacker_size);
    return record.transfer;
}

/* The target of a get sends more bytes than requested, or the wrong piece. */
static void answer_wrongly(uint64_t number, uint16_t size)
{
    uint8_t source[64] = {0}, local[192], bytes[256];
    struct event event = {0};
    na_mem_handle_t *exposed, *remote, *mem;
    struct rma_record record = record_of(RMA_DATA, false, false, 0);
    uint8_t payload[SM_INLINE_MAX] = {0};
    struct scene scene;
    na_op_id_t *op;

    assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
    scene_open(&scene);
    assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
    assert_int_equal(end_send(&scene.victim, scene.to_attacker, "hi", 3, 1, false), NA_SUCCESS);
    end_progress(&scene.attacker, 10);
    exposed = mem_open(&scene.attacker, source, sizeof(source), NA_MEM_READ_ONLY);
    assert_int_equal(
        NA_Mem_handle_serialize(scene.attacker.na_class, bytes, sizeof(bytes), exposed),
        NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(
                         scene.victim.na_class, &remote, bytes,
                         NA_Mem_handle_get_serialize_size(scene.attacker.na_class, exposed)),
                     NA_SUCCESS);
    memset(local, 0x5a, sizeof(local));
    mem = mem_open(&scene.victim, local + 64, 32, NA_MEM_READWRITE);
    op = NA_Op_create(scene.victim.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Get(scene.victim.na_class, scene.victim.context, event_callback, &event,
                            mem, 0, remote, 0, 32, scene.to_attacker, 0, op),
                     NA_SUCCESS);
    /* The attacker does not poll, so that the get stays in its ring. */
    for (int i = 0; i < 100 && (record.transfer = find_transfer(&scene)) == 0; i++)
        end_progress(&scene.victim, 1);
    assert_int_not_equal(record.transfer, 0);
    record.number = htole64(number);
    memcpy(payload, &record, sizeof(record));
    write_slot(&scene, SM_KIND_DATA, (uint16_t) (sizeof(record) + size), payload, sizeof(payload));
    assert_true(event_wait(&scene.victim, &event, TEST_WAIT_MS));
    assert_int_equal(event.ret, NA_PROTOCOL_ERROR);
    for (size_t i = 0; i < sizeof(local); i++)
        assert_int_equal(local[i], 0x5a);
    NA_Op_destroy(scene.victim.na_class, op);
    mem_close(&scene.victim, mem);
    NA_Mem_handle_free(scene.victim.na_class, remote);
    mem_close(&scene.attacker, exposed);
    scene_close(&scene);
}

static void pieces_that_do_not_fit_their_get_are_refused(void **state)
{
    (void) state;
    answer_wrongly(0, 40);
    answer_wrongly(0, 24);
    answer_wrongly(1, 32);
    answer_wrongly(UINT64_MAX, 32);
}

static void pieces_that_nobody_asked_for_are_dropped(void **state)
{
    static const enum rma_kind kinds[] = {RMA_GRANT, RMA_DONE,  RMA_STOP, RMA_CANCEL,
                                          RMA_PROBE, RMA_ALIVE, RMA_KINDS};
    struct rma_record record = record_of(RMA_DATA, false, false, 0x10001);
    struct scene scene;

    (void) state;
    scene_open(&scene);
    write_slot(&scene, SM_KIND_DATA, 100, &record, sizeof(record));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        record = record_of(kinds[i], i % 2 != 0, false, 0x10001);
        write_slot(&scene, SM_KIND_RECORD, sizeof(record), &record, sizeof(record));
    }
    scene_check(&scene);
    assert_int_equal(scene.slot->status & SM_RING_REFUSED, 0);
    scene_close(&scene);
}

static void a_false_head_is_noticed(void **state)
{
    uint8_t buf[64] = {0};
    struct child child;
    struct end end;
    struct sm_peer_slot *slots;
    na_return_t ret = NA_SUCCESS;
    na_addr_t *peer;
    uint8_t *map;
    int fd;

    (void) state;
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_NAP, 1000, 0, 0, NULL, NULL), NA_SUCCESS);
    end_progress(&end, 50);
    fd = sm_memory_of(child.address);
    map = mmap(NULL, sm_layout_base_size(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    (void) close(fd);
    slots = (struct sm_peer_slot *) (map + sm_layout_peer_slots(0));
    slots[0].head = UINT64_C(0x7777777700000000); /* a head that a hostile receiver reports */
    for (int i = 0; i < 1000 && ret == NA_SUCCESS; i++)
        ret = end_send(&end, peer, buf, sizeof(buf), 1, true);
    assert_int_equal(ret, NA_PROTOCOL_ERROR);
    (void) munmap(map, sm_layout_base_size(1));
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    check_clean();
}

/* A sender describes its ring with an invalid or a foreign descriptor: refused. */
static void false_descriptions_of_rings_are_refused(void **state)
{
    struct scene scene;

    (void) state;
    scene_open(&scene);
    for (uint32_t i = 0; i < 9; i++) {
        struct sm_peer_slot *slot =
            (struct sm_peer_slot *) (scene.victim_map + sm_layout_peer_slots(0)) + 5 + i;
        struct sm_context_area *area =
            (struct sm_context_area *) (scene.victim_map + sm_layout_context(0));

        area->slots_reserved = 2 * SM_PEER_SLOTS_CHUNK;
        memcpy((void *) slot, (void *) scene.slot, sizeof(*slot));
        slot->status = 0;
        if (i == 0)
            slot->ring_offset = UINT64_C(1) << 40;
        else if (i == 1)
            slot->ring_offset += 8;
        else if (i == 2)
            slot->ring_data = 0;
        else if (i == 3)
            slot->ring_data = 1u << 30;
        else if (i == 4)
            (void) strcpy(slot->name, "../../etc/passwd");
        else if (i == 5)
            memset(slot->name, 'x', sizeof(slot->name));
        else if (i == 6)
            slot->incarnation ^= 1;
        else if (i == 7)
            (void) strcpy(slot->name, "nobody-of-this-name");
        else
            slot->incarnation = 0;
        area->doorbells[0] |= UINT64_C(1) << (5 + i);
        area->doorbell_summary |= 1;
        scene_check(&scene);
        assert_true((slot->status & SM_RING_REFUSED) != 0 || slot->owner == 0);
        slot->owner = 0;
    }
    scene_close(&scene);
}

/* Random bytes in the ring, the doorbells and the counters. */
static void random_bytes_do_no_harm(void **state)
{
    (void) state;
    srand(12345);
    for (int round = 0; round < 30; round++) {
        struct scene scene;
        struct sm_context_area *area;

        scene_open(&scene);
        area = (struct sm_context_area *) (scene.victim_map + sm_layout_context(0));
        for (int i = 0; i < 300; i++) {
            struct sm_ring_slot *slot = &scene.ring[scene.next % SM_RING_SLOTS];
            uint8_t *bytes = (uint8_t *) slot;

            for (size_t j = 4; j < sizeof(*slot); j++)
                bytes[j] = (uint8_t) rand();
            slot->kind = (uint8_t) (i % 9);
            slot->length = (uint16_t) (rand() % 200);
            slot->context = (uint8_t) (rand() % 3);
            slot->sequence = ++scene.next;
            area->doorbells[(uint32_t) rand() % SM_DOORBELL_WORDS] |= (uint64_t) rand()
                                                                      << (rand() % 33);
            area->doorbell_summary |= (uint64_t) rand() << (rand() % 33);
            scene.slot->blocked = (uint32_t) rand();
            end_progress(&scene.victim, 0);
        }
        scene_close(&scene);
    }
}

/* All slots for senders are taken: a new sender waits, connects when one is freed, and gets an
 * error when none is. */
static void a_full_table_of_senders_is_an_error_in_the_end(void **state)
{
    struct end victim, sender;
    struct sm_context_area *area;
    struct sm_peer_slot *slots;
    struct event event = {0};
    char name[128];
    size_t size;
    na_op_id_t *op;
    na_addr_t *addr;
    uint8_t *map;
    uint64_t living = sm_owner_pack(SM_SLOT_CLAIMED, (uint32_t) getpid(), 1);
    uint64_t from;

    (void) state;
    end_open(&victim, "na+sm", NULL);
    end_open(&sender, "na+sm", NULL);
    addr = end_lookup(&sender, &victim);
    map = map_segment(&victim, &size, name);
    area = (struct sm_context_area *) (map + sm_layout_context(0));
    slots = (struct sm_peer_slot *) (map + sm_layout_peer_slots(0));
    area->slots_reserved = SM_PEER_SLOTS;
    for (uint32_t i = 0; i < SM_PEER_SLOTS; i++)
        slots[i].owner = living;
    op = NA_Op_create(sender.na_class, NA_OP_SINGLE);
    from = now_ms();
    assert_int_equal(NA_Msg_send_expected(sender.na_class, sender.context, event_callback, &event,
                                          "x", 1, NULL, addr, 0, 1, op),
                     NA_SUCCESS);
    assert_true(event_wait(&sender, &event, TEST_WAIT_MS));
    assert_int_equal(event.ret, NA_BUSY);
    assert_true(now_ms() - from >= 4000);
    event.done = 0;
    assert_int_equal(NA_Msg_send_expected(sender.na_class, sender.context, event_callback, &event,
                                          "x", 1, NULL, addr, 0, 1, op),
                     NA_SUCCESS);
    end_progress(&sender, 100);
    assert_int_equal(event.done, 0);
    slots[17].owner = 0;
    assert_true(event_wait(&sender, &event, 1000));
    assert_int_equal(event.ret, NA_SUCCESS);
    assert_int_equal(sm_owner_state(slots[17].owner), SM_SLOT_READY);
    NA_Op_destroy(sender.na_class, op);
    NA_Addr_free(sender.na_class, addr);
    (void) munmap(map, size);
    end_close(&sender);
    end_close(&victim);
    check_clean();
}

/* Headers of segments that contradict themselves are refused. */
static void false_headers_are_refused(void **state)
{
    /* The lock keeps an endpoint that starts at the same time from removing the file as stale. */
    struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    struct sm_segment_header header;
    char path[160], address[96];
    struct end end;
    na_addr_t *addr;
    int fd;

    (void) state;
    end_open(&end, "na+sm", NULL);
    (void) snprintf(address, sizeof(address), "na+sm://test%d-false", (int) getpid());
    (void) snprintf(path, sizeof(path), "/dev/shm/amalgam-sm.%u.test%d-false", (unsigned) geteuid(),
                    (int) getpid());
    for (int i = 0; i < 7; i++) {
        na_return_t ret;

        memset(&header, 0, sizeof(header));
        header.magic = i == 0 ? 0 : i == 1 ? 12345 : SM_MAGIC;
        header.version = i == 2 ? 99 : SM_LAYOUT_VERSION;
        header.max_contexts = i == 3 ? 0 : i == 4 ? 100000 : 1;
        header.uid = i == 5 ? 4711 : (uint32_t) geteuid();
        header.incarnation = 1;
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fcntl(fd, F_OFD_SETLKW, &mine), 0);
        assert_int_equal(pwrite(fd, &header, i == 6 ? 16 : sizeof(header), 0),
                         i == 6 ? 16 : sizeof(header)); /* 6: truncated */
        ret = NA_Addr_lookup(end.na_class, address, &addr);
        assert_int_equal(ret, i == 0 || i == 6 ? NA_NOENTRY : NA_PROTOCOL_ERROR);
        assert_int_equal(unlink(path), 0);
        (void) close(fd);
    }
    end_close(&end);
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_slots_close_the_ring),
        cmocka_unit_test(impossible_parts_close_the_ring),
        cmocka_unit_test(parts_that_do_not_follow_are_dropped),
        cmocka_unit_test(made_up_requests_are_refused),
        cmocka_unit_test(handles_are_held_against_each_request),
        cmocka_unit_test(pieces_that_do_not_fit_their_get_are_refused),
        cmocka_unit_test(pieces_that_nobody_asked_for_are_dropped),
        cmocka_unit_test(a_false_head_is_noticed),
        cmocka_unit_test(false_descriptions_of_rings_are_refused),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(a_full_table_of_senders_is_an_error_in_the_end),
        cmocka_unit_test(false_headers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
