/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets over connections, at their target: held against our handles, then carried out in
 * the origin's memory. We know of each piece under way, so memory that is deregistered is out of
 * reach when that returns.
 */

#include "carry.h"
#include "ofi.h"

#include <endian.h>
#include <string.h>

#define OFI_CARRIES     65536u /* asked for at a time, by all peers */
#define OFI_WITHDRAW_NS UINT64_C(2000000000)

/* A piece that a peer asked for. */
struct ofi_carry {
    struct ofi_request request;
    struct kit_link of_class;
    struct kit_link of_mem;
    struct fabric_peer *peer; /* NULL: given up */
    struct ofi_address *address;
    const struct na_plugin_mem *mem;
    uint8_t *memory;
    struct ofi_carry_request wanted; /* in our byte order */
    uint64_t mark;
    struct ofi_carry *next; /* of those that wait for room, or are free */
    bool is_started;
};

static struct ofi_carry_request ofi_serve_read(const void *data);
static int32_t ofi_serve_find(const struct na_plugin_class *na_class,
                              const struct fabric_peer *peer,
                              const struct ofi_carry_request *wanted, struct na_plugin_mem **mem_p);
static void ofi_serve_inline(struct na_plugin_class *na_class, struct fabric_peer *peer,
                             const struct ofi_carry_request *wanted, uint8_t *memory,
                             const uint8_t *data, uint64_t size);
static void ofi_serve_answer(struct na_plugin_class *na_class, struct fabric_peer *peer,
                             uint64_t id, int32_t status, const void *data, uint64_t size);
static bool ofi_carry_try(struct na_plugin_class *na_class, struct ofi_carry *carry);
static ssize_t ofi_carry_issue(struct na_plugin_class *na_class, struct ofi_carry *carry);
static struct ofi_carry *ofi_carry_get(struct na_plugin_class *na_class);
static void ofi_carry_free(struct na_plugin_class *na_class, struct ofi_carry *carry);
static void ofi_carry_unqueue(struct na_plugin_class *na_class, const struct ofi_carry *carry);

void ofi_serve(struct na_plugin_class *na_class, struct fabric_peer *peer, const void *data,
               uint64_t size)
{
    struct ofi_carry_request wanted;
    struct na_plugin_mem *mem = NULL;
    struct ofi_carry *carry;
    uint8_t *memory;
    int32_t ret;

    if (size < sizeof(wanted) || !fabric_endpoint_is_active(&na_class->base))
        return;
    wanted = ofi_serve_read(data);
    ret = ofi_serve_find(na_class, peer, &wanted, &mem);
    if (ret != NA_PLUGIN_SUCCESS) {
        ofi_serve_answer(na_class, peer, wanted.id, ret, NULL, 0);
        return;
    }
    memory = ofi_mem_base(mem) + wanted.offset;
    if (wanted.length <= OFI_CARRY_INLINE) {
        ofi_serve_inline(na_class, peer, &wanted, memory, (const uint8_t *) data + sizeof(wanted),
                         size - sizeof(wanted));
        return;
    }
    carry = na_class->carry_count < OFI_CARRIES ? ofi_carry_get(na_class) : NULL;
    if (carry == NULL) {
        ofi_serve_answer(na_class, peer, wanted.id, NA_PLUGIN_NOMEM, NULL, 0);
        return;
    }
    *carry = (struct ofi_carry){
        .request.kind = OFI_REQUEST_CARRY,
        .peer = peer,
        .address = ((struct ofi_peer *) peer->priv)->address,
        .mem = mem,
        .memory = memory,
        .wanted = wanted,
        .mark = wanted.id,
    };
    na_class->carry_count++;
    kit_list_append(&na_class->carries, &carry->of_class);
    kit_list_append(&mem->carries, &carry->of_mem);
    if (na_class->carry_due == NULL && ofi_carry_try(na_class, carry))
        return;
    if (na_class->carry_due == NULL)
        na_class->carry_due_end = &na_class->carry_due;
    *na_class->carry_due_end = carry;
    na_class->carry_due_end = &carry->next;
}

/* The fabric is done with a piece. That of a get was answered when it left. */
void ofi_serve_done(struct na_plugin_class *na_class, struct ofi_request *request, int32_t status)
{
    struct ofi_carry *carry = (struct ofi_carry *) (void *) request;
    struct ofi_address *address = carry->address;
    struct fabric_peer *peer = carry->peer;
    uint64_t id = carry->wanted.id;
    bool is_put = carry->wanted.is_put != 0;

    ofi_carry_free(na_class, carry);
    if (peer != NULL && is_put)
        ofi_serve_answer(na_class, peer, id, status, NULL, 0);
    ofi_address_drop_request(na_class, address);
}

/* Starts those that wait for room, in order. */
void ofi_serve_retry(struct na_plugin_class *na_class)
{
    while (na_class->carry_due != NULL && ofi_carry_try(na_class, na_class->carry_due))
        continue;
}

/* Memory is deregistered: what is under way ends before the caller may free it. */
void ofi_serve_withdraw(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    uint64_t end = kit_host->clock_ns() + OFI_WITHDRAW_NS;
    struct kit_link *link, *next;

    for (link = mem->carries.next; link != &mem->carries; link = next) {
        struct ofi_carry *carry = kit_container(link, struct ofi_carry, of_mem);
        struct fabric_peer *peer = carry->peer;
        uint64_t id = carry->wanted.id;

        next = link->next;
        if (carry->is_started)
            continue;
        ofi_carry_unqueue(na_class, carry);
        ofi_carry_free(na_class, carry);
        ofi_serve_answer(na_class, peer, id, NA_PLUGIN_PERMISSION, NULL, 0);
        next = mem->carries.next; /* that may have ended a peer, and what it asked for */
    }
    while (!kit_list_empty(&mem->carries) && na_class->endpoint != NULL &&
           kit_host->clock_ns() < end && ofi_poll(&na_class->base) == NA_PLUGIN_SUCCESS)
        continue;
    if (!kit_list_empty(&mem->carries) && na_class->endpoint != NULL) {
        OFI_LOG_WARNING("a peer does not end its transfer with memory at %p, which is deregistered:"
                        " its connection is broken",
                        ofi_mem_base(mem));
        ofi_cut(na_class, mem);
    }
    if (!kit_list_empty(&mem->carries) && na_class->endpoint != NULL)
        OFI_LOG_ERROR("provider '%s' does not let go of memory at %p",
                      na_class->info->fabric_attr->prov_name, ofi_mem_base(mem));
    while (!kit_list_empty(&mem->carries))
        kit_list_remove(mem->carries.next);
}

/* The peer is closed: what the fabric works on for it ends by itself. With NULL the endpoint is. */
void ofi_serve_drop(struct na_plugin_class *na_class, const struct fabric_peer *peer)
{
    struct kit_link *link, *next;

    for (link = na_class->carries.next; link != &na_class->carries; link = next) {
        struct ofi_carry *carry = kit_container(link, struct ofi_carry, of_class);

        next = link->next;
        if (peer != NULL && carry->peer != peer)
            continue;
        carry->peer = NULL;
        if (carry->is_started && peer != NULL)
            continue;
        if (!carry->is_started)
            ofi_carry_unqueue(na_class, carry);
        ofi_carry_free(na_class, carry);
    }
    while (peer == NULL && na_class->carries_free != NULL) {
        struct ofi_carry *carry = na_class->carries_free;

        na_class->carries_free = carry->next;
        kit_host->mem_free(carry);
    }
}

/* Whether pieces are under way in libfabric, of one region or, with NULL, of any. */
bool ofi_serve_is_busy(const struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    return ofi_serve_is_busy_with(na_class, NULL, mem);
}

/* The same for one peer or, with NULL, for any. */
bool ofi_serve_is_busy_with(const struct na_plugin_class *na_class,
                            const struct ofi_address *address, const struct na_plugin_mem *mem)
{
    for (const struct kit_link *link = na_class->carries.next; link != &na_class->carries;
         link = link->next) {
        const struct ofi_carry *carry = kit_container(link, struct ofi_carry, of_class);

        if (carry->is_started && (mem == NULL || carry->mem == mem) &&
            (address == NULL || carry->address == address))
            return true;
    }
    return false;
}

static struct ofi_carry_request ofi_serve_read(const void *data)
{
    struct ofi_carry_request wire;

    memcpy(&wire, data, sizeof(wire));
    return (struct ofi_carry_request){
        .id = le64toh(wire.id),
        .region = le64toh(wire.region),
        .key = wire.key,
        .offset = le64toh(wire.offset),
        .length = le64toh(wire.length),
        .is_put = le32toh(wire.is_put),
        .memory_key = le64toh(wire.memory_key),
        .memory_address = le64toh(wire.memory_address),
        .mark_key = le64toh(wire.mark_key),
        .mark_address = le64toh(wire.mark_address),
    };
}

static int32_t ofi_serve_find(const struct na_plugin_class *na_class,
                              const struct fabric_peer *peer,
                              const struct ofi_carry_request *wanted, struct na_plugin_mem **mem_p)
{
    int32_t ret = ofi_mem_reach(na_class, peer->name, wanted->region, &wanted->key, wanted->offset,
                                wanted->length, wanted->is_put != 0, mem_p);

    if (ret == NA_PLUGIN_SUCCESS && wanted->length > OFI_CARRY_INLINE && !na_class->is_carrying)
        return NA_PLUGIN_PROTOCOL_ERROR; /* within a node nothing else travels so */
    return ret == NA_PLUGIN_SUCCESS && wanted->length == 0 ? NA_PLUGIN_OVERFLOW : ret;
}

static void ofi_serve_inline(struct na_plugin_class *na_class, struct fabric_peer *peer,
                             const struct ofi_carry_request *wanted, uint8_t *memory,
                             const uint8_t *data, uint64_t size)
{
    if (wanted->is_put == 0) {
        ofi_serve_answer(na_class, peer, wanted->id, NA_PLUGIN_SUCCESS, memory, wanted->length);
        return;
    }
    if (size == wanted->length)
        memcpy(memory, data, size);
    ofi_serve_answer(na_class, peer, wanted->id,
                     size == wanted->length ? NA_PLUGIN_SUCCESS : NA_PLUGIN_PROTOCOL_ERROR, NULL,
                     0);
}

/* Who cannot be answered is given up: nothing else would end its transfer. */
static void ofi_serve_answer(struct na_plugin_class *na_class, struct fabric_peer *peer,
                             uint64_t id, int32_t status, const void *data, uint64_t size)
{
    uint8_t record[sizeof(struct ofi_carry_answer) + OFI_CARRY_INLINE];
    struct ofi_carry_answer answer = {
        .id = htole64(id),
        .status = (int32_t) htole32((uint32_t) status),
    };

    memcpy(record, &answer, sizeof(answer));
    if (size != 0)
        memcpy(record + sizeof(answer), data, size);
    if (fabric_control_send(&na_class->base, peer, OFI_CARRY_ANSWER, record,
                            sizeof(answer) + size) == NA_PLUGIN_NOMEM)
        fabric_peer_failed(&na_class->base, peer, NA_PLUGIN_NOMEM,
                           "there is no memory to answer it");
}

/* False when there is no room. Otherwise it may be gone afterwards. */
static bool ofi_carry_try(struct na_plugin_class *na_class, struct ofi_carry *carry)
{
    struct fabric_peer *peer = carry->peer;
    uint64_t id = carry->wanted.id;
    ssize_t ret = ofi_carry_issue(na_class, carry);

    if (ret == -FI_EAGAIN)
        return false;
    ofi_carry_unqueue(na_class, carry);
    if (ret != 0) {
        ofi_carry_free(na_class, carry);
        ofi_serve_answer(na_class, peer, id, ofi_status((int) -ret), NULL, 0);
        return true;
    }
    carry->is_started = true;
    carry->address->requests++;
    if (carry->wanted.is_put == 0)
        ofi_serve_answer(na_class, peer, id, NA_PLUGIN_SUCCESS, NULL, 0);
    return true;
}

/* A get's data and its mark leave as one: the mark proves that the data came. */
static ssize_t ofi_carry_issue(struct na_plugin_class *na_class, struct ofi_carry *carry)
{
    const struct ofi_carry_request *wanted = &carry->wanted;
    bool is_put = wanted->is_put != 0;
    struct iovec vectors[2] = {
        {carry->memory, wanted->length},
        {&carry->mark, sizeof(carry->mark)},
    };
    struct fi_rma_iov remote[2] = {
        {wanted->memory_address, wanted->length, wanted->memory_key},
        {wanted->mark_address, sizeof(carry->mark), wanted->mark_key},
    };
    void *descriptors[2] = {NULL, NULL};
    struct fi_msg_rma message = {
        .msg_iov = vectors,
        .desc = descriptors,
        .iov_count = is_put ? 1 : 2,
        .addr = carry->address->fi_addr,
        .rma_iov = remote,
        .rma_iov_count = is_put ? 1 : 2,
        .context = &carry->request.context,
    };

    if (na_class->endpoint == NULL)
        return -FI_EHOSTUNREACH;
    return is_put ? fi_readmsg(na_class->endpoint, &message, FI_COMPLETION)
                  : fi_writemsg(na_class->endpoint, &message, FI_COMPLETION);
}

static struct ofi_carry *ofi_carry_get(struct na_plugin_class *na_class)
{
    struct ofi_carry *carry = na_class->carries_free;

    if (carry == NULL)
        return kit_host->mem_alloc(sizeof(*carry), 0);
    na_class->carries_free = carry->next;
    return carry;
}

static void ofi_carry_free(struct na_plugin_class *na_class, struct ofi_carry *carry)
{
    kit_list_remove(&carry->of_class);
    kit_list_remove(&carry->of_mem);
    na_class->carry_count--;
    carry->next = na_class->carries_free;
    na_class->carries_free = carry;
}

/* Out of those that wait for room, if it is one. */
static void ofi_carry_unqueue(struct na_plugin_class *na_class, const struct ofi_carry *carry)
{
    struct ofi_carry **link = &na_class->carry_due;

    while (*link != NULL && *link != carry)
        link = &(*link)->next;
    if (*link == NULL)
        return;
    *link = carry->next;
    if (carry->next == NULL)
        na_class->carry_due_end = link;
}
