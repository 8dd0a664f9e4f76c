/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that writes anything to the memory that it shares: slots of its ring, the description of
 * the ring, doorbells, the head up to which it has read. */

#include "fuzz.h"

#include "layout.h"
#include "na.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEPS_MAX    64
#define RECEIVES     8
#define MESSAGE_SIZE 512
#define SCENE_USES   200 /* inputs until the endpoints are opened anew */
#define POLLS_MAX    100000

struct end {
    na_class_t *na_class;
    na_context_t *context;
    uint8_t *map;
    size_t map_size;
    char name[128];
};

struct receive {
    na_op_id_t *op;
    bool is_posted;
    uint8_t buf[MESSAGE_SIZE];
};

static struct end victim, attacker;
static na_addr_t *to_victim, *to_attacker;
static struct receive receives[RECEIVES];
static na_op_id_t *send_op;
static bool send_is_posted;
static uint8_t memory[256];
static na_mem_handle_t *mem;
static struct sm_peer_slot *slot; /* the attacker's slot at the victim */
static struct sm_ring_slot *ring; /* the attacker's ring */
static uint32_t next;
static unsigned int uses;

static void end_open(struct end *end)
{
    char address[256];
    size_t size = sizeof(address);
    na_addr_t *self;

    end->na_class = NA_Initialize("na+sm", true);
    FUZZ_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    FUZZ_CHECK(end->context != NULL);
    FUZZ_CHECK(NA_Addr_self(end->na_class, &self) == NA_SUCCESS);
    FUZZ_CHECK(NA_Addr_to_string(end->na_class, address, &size, self) == NA_SUCCESS);
    NA_Addr_free(end->na_class, self);
    (void) snprintf(end->name, sizeof(end->name), "%s", strstr(address, "://") + 3);
}

static void end_map(struct end *end)
{
    struct sm_segment_header header;
    char path[256];
    struct stat status;
    int fd;

    (void) snprintf(path, sizeof(path), SM_DIRECTORY SM_PREFIX "%u.%s", (unsigned) geteuid(),
                    end->name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && pread(fd, &header, sizeof(header), 0) == (ssize_t) sizeof(header));
    (void) close(fd);
    fd = (int) header.memory_fd; /* both endpoints are in this process */
    FUZZ_CHECK(fstat(fd, &status) == 0);
    end->map_size = (size_t) status.st_size;
    end->map = mmap(NULL, end->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    FUZZ_CHECK(end->map != MAP_FAILED);
}

static void end_poll(struct end *end)
{
    unsigned int count = 0;

    FUZZ_CHECK(NA_Poll(end->na_class, end->context, &count) == NA_SUCCESS);
    (void) NA_Trigger(end->context, 64, NULL);
}

static void end_close(struct end *end)
{
    (void) munmap(end->map, end->map_size);
    while (NA_Context_destroy(end->na_class, end->context) == NA_BUSY)
        (void) NA_Trigger(end->context, 64, NULL);
    FUZZ_CHECK(NA_Finalize(end->na_class) == NA_SUCCESS);
}

static void on_received(const struct na_cb_info *info)
{
    struct receive *receive = info->arg;

    receive->is_posted = false;
    if (info->ret == NA_SUCCESS && info->type == NA_CB_RECV_UNEXPECTED) {
        FUZZ_CHECK(info->info.recv_unexpected.actual_buf_size <= MESSAGE_SIZE);
        NA_Addr_free(victim.na_class, info->info.recv_unexpected.source);
    } else if (info->ret == NA_SUCCESS) {
        FUZZ_CHECK(info->info.recv_expected.actual_buf_size <= MESSAGE_SIZE);
    }
}

static void on_sent(const struct na_cb_info *info)
{
    bool *posted = info->arg;

    *posted = false;
}

static void receives_post(void)
{
    for (size_t i = 0; i < RECEIVES; i++) {
        struct receive *receive = &receives[i];
        na_return_t ret;

        if (receive->is_posted)
            continue;
        if (i % 2 == 0)
            ret = NA_Msg_recv_unexpected(victim.na_class, victim.context, on_received, receive,
                                         receive->buf, MESSAGE_SIZE, NULL, receive->op);
        else
            ret = NA_Msg_recv_expected(victim.na_class, victim.context, on_received, receive,
                                       receive->buf, MESSAGE_SIZE, NULL, to_attacker, 0,
                                       (na_tag_t) i, receive->op);
        receive->is_posted = ret == NA_SUCCESS;
    }
}

static void find_slot(void)
{
    struct sm_peer_slot *slots =
        (struct sm_peer_slot *) (void *) (victim.map + sm_layout_peer_slots(0));

    slot = NULL;
    for (uint32_t i = 0; i < SM_PEER_SLOTS_CHUNK; i++)
        if (sm_owner_state(slots[i].owner) == SM_SLOT_READY &&
            strcmp(slots[i].name, attacker.name) == 0)
            slot = &slots[i];
    FUZZ_CHECK(slot != NULL);
}

static void scene_open(void)
{
    bool posted = true;
    na_op_id_t *op;

    end_open(&victim);
    end_open(&attacker);
    FUZZ_CHECK(NA_Addr_lookup(attacker.na_class, victim.name, &to_victim) == NA_SUCCESS);
    FUZZ_CHECK(NA_Addr_lookup(victim.na_class, attacker.name, &to_attacker) == NA_SUCCESS);
    for (size_t i = 0; i < RECEIVES; i++) {
        receives[i].op = NA_Op_create(victim.na_class, NA_OP_SINGLE);
        receives[i].is_posted = false;
    }
    send_op = NA_Op_create(victim.na_class, NA_OP_SINGLE);
    send_is_posted = false;
    receives_post();
    op = NA_Op_create(attacker.na_class, NA_OP_SINGLE);
    FUZZ_CHECK(NA_Msg_send_unexpected(attacker.na_class, attacker.context, on_sent, &posted, "hi",
                                      3, NULL, to_victim, 0, 1, op) == NA_SUCCESS);
    for (int i = 0; i < POLLS_MAX && (posted || receives[0].is_posted); i++) {
        end_poll(&attacker);
        end_poll(&victim);
    }
    FUZZ_CHECK(!posted && !receives[0].is_posted);
    NA_Op_destroy(attacker.na_class, op);
    end_map(&attacker);
    end_map(&victim);
    find_slot();
    ring = (struct sm_ring_slot *) (void *) (attacker.map + slot->ring_offset);
    next = 1;
    FUZZ_CHECK(NA_Mem_handle_create(victim.na_class, memory, sizeof(memory), NA_MEM_READ_ONLY,
                                    &mem) == NA_SUCCESS);
    FUZZ_CHECK(NA_Mem_register(victim.na_class, mem, NA_MEM_TYPE_HOST, 0) == NA_SUCCESS);
    memset(memory, 0x5a, sizeof(memory));
    uses = 0;
}

static void scene_close(void)
{
    for (size_t i = 0; i < sizeof(memory); i++)
        FUZZ_CHECK(memory[i] == 0x5a); /* the memory may be read, not written */
    (void) NA_Mem_deregister(victim.na_class, mem);
    NA_Mem_handle_free(victim.na_class, mem);
    for (size_t i = 0; i < RECEIVES; i++)
        NA_Op_destroy(victim.na_class, receives[i].op);
    NA_Op_destroy(victim.na_class, send_op);
    NA_Addr_free(attacker.na_class, to_victim);
    NA_Addr_free(victim.na_class, to_attacker);
    end_close(&attacker);
    end_close(&victim);
}

/* Writes a slot of the ring with any content, and a valid or arbitrary sequence number. */
static void write_slot(struct fuzz_input *input)
{
    struct sm_ring_slot *at = &ring[next % SM_RING_SLOTS];
    const uint64_t how = fuzz_take(input, 1);
    uint8_t payload[SM_INLINE_MAX];
    size_t size;

    at->kind = (uint8_t) ((how & 1) != 0 ? fuzz_take(input, 1) : 1 + (how >> 1) % 7);
    at->length = (uint16_t) fuzz_take(input, (how & 16) != 0 ? 2 : 1);
    at->context = (uint8_t) ((how & 32) != 0 ? fuzz_take(input, 1) : 0);
    at->tag = (uint32_t) fuzz_take(input, 1);
    at->flags = (uint32_t) fuzz_take(input, 1);
    size = fuzz_take_bytes(input, payload, (how & 64) != 0 ? SM_INLINE_MAX : 40);
    memcpy(at->payload, payload, size);
    next++;
    at->sequence = (how & 128) != 0 ? (uint32_t) fuzz_take(input, 4) : next;
}

/* Writes a damaged description of a ring to an unused slot. */
static void write_description(struct fuzz_input *input)
{
    struct sm_peer_slot *slots =
        (struct sm_peer_slot *) (void *) (victim.map + sm_layout_peer_slots(0));
    struct sm_context_area *area =
        (struct sm_context_area *) (void *) (victim.map + sm_layout_context(0));
    const uint32_t number = 5 + (uint32_t) fuzz_take(input, 1) % (SM_PEER_SLOTS_CHUNK - 5);
    uint8_t *bytes = (uint8_t *) &slots[number];
    uint8_t change[16];
    size_t at = fuzz_take(input, 1) % (sizeof(struct sm_peer_slot) - sizeof(change)), size;

    memcpy((void *) &slots[number], (const void *) slot, sizeof(*slot));
    slots[number].status = 0;
    slots[number].accepted = 0;
    size = fuzz_take_bytes(input, change, fuzz_take(input, 1) % (sizeof(change) + 1));
    for (size_t i = 0; i < size; i++)
        bytes[at + i] ^= change[i];
    area->doorbells[0] |= UINT64_C(1) << number;
    area->doorbell_summary |= 1;
    end_poll(&victim);
    slots[number].owner = 0;
}

static void write_words(struct fuzz_input *input)
{
    struct sm_context_area *area =
        (struct sm_context_area *) (void *) (victim.map + sm_layout_context(0));
    const uint64_t which = fuzz_take(input, 1), value = fuzz_take(input, 8);

    if (which % 4 == 0)
        area->doorbell_summary |= value;
    else if (which % 4 == 1)
        area->doorbells[(which >> 2) % SM_DOORBELL_WORDS] |= value;
    else if (which % 4 == 2)
        slot->blocked = (uint32_t) value;
    else
        area->slots_reserved = (uint32_t) value % (SM_PEER_SLOTS_CHUNK + 1);
}

/* Writes the head up to which the attacker claims to have read, and sends a message from the
 * victim. */
static void write_head(struct fuzz_input *input)
{
    struct sm_peer_slot *slots =
        (struct sm_peer_slot *) (void *) (attacker.map + sm_layout_peer_slots(0));
    const uint64_t value = fuzz_take(input, 8);

    for (uint32_t i = 0; i < SM_PEER_SLOTS_CHUNK; i++)
        if (sm_owner_state(slots[i].owner) == SM_SLOT_READY)
            slots[i].head = value;
    if (!send_is_posted)
        send_is_posted =
            NA_Msg_send_expected(victim.na_class, victim.context, on_sent, &send_is_posted, memory,
                                 200, NULL, to_attacker, 0, 1, send_op) == NA_SUCCESS;
}

static void step(struct fuzz_input *input)
{
    switch (fuzz_take(input, 1) % 8) {
    case 0:
        write_description(input);
        break;
    case 1:
        write_words(input);
        break;
    case 2:
        write_head(input);
        break;
    case 3:
        end_poll(&victim);
        receives_post();
        break;
    default:
        write_slot(input);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    scene_open();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};

    for (int i = 0; i < STEPS_MAX && input.size > 0; i++)
        step(&input);
    for (int i = 0; i < 3; i++) {
        end_poll(&victim);
        end_poll(&attacker);
        receives_post();
    }
    if ((slot->status & SM_RING_REFUSED) != 0 || sm_owner_state(slot->owner) != SM_SLOT_READY ||
        send_is_posted || ++uses == SCENE_USES) {
        scene_close();
        scene_open();
    }
    return 0;
}
