/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two classes in one process, the origin and the target of bulk transfers.
 */
#include "bulk_fixture.h"

#include <time.h>

static void side_open(struct side *side)
{
    side->hg_class = test_class_open(HG_TRUE, NULL);
    assert_non_null(side->hg_class);
    side->context = HG_Context_create(side->hg_class);
    assert_non_null(side->context);
    assert_int_equal(HG_Addr_self(side->hg_class, &side->self), HG_SUCCESS);
}

static void side_close(struct side *side)
{
    assert_int_equal(HG_Addr_free(side->hg_class, side->self), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(side->context), HG_SUCCESS);
    assert_int_equal(HG_Finalize(side->hg_class), HG_SUCCESS);
}

int pair_open(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    char name[256];
    hg_size_t size = sizeof(name);

    assert_non_null(pair);
    side_open(&pair->origin);
    side_open(&pair->target);
    assert_int_equal(HG_Addr_to_string(pair->origin.hg_class, name, &size, pair->origin.self),
                     HG_SUCCESS);
    assert_int_equal(HG_Addr_lookup2(pair->target.hg_class, name, &pair->origin_addr), HG_SUCCESS);
    *state = pair;
    return 0;
}

int pair_close(void **state)
{
    struct pair *pair = *state;

    assert_int_equal(HG_Addr_free(pair->target.hg_class, pair->origin_addr), HG_SUCCESS);
    side_close(&pair->target);
    side_close(&pair->origin);
    free(pair);
    return 0;
}

void pair_progress(struct pair *pair)
{
    unsigned int count = 0;

    (void) HG_Progress(pair->origin.context, 0);
    (void) HG_Progress(pair->target.context, 0);
    while (HG_Trigger(pair->origin.context, 0, 1, &count) == HG_SUCCESS && count > 0)
        ;
    while (HG_Trigger(pair->target.context, 0, 1, &count) == HG_SUCCESS && count > 0)
        ;
}

void pair_wait(struct pair *pair, const struct outcome *outcome)
{
    time_t start = time(NULL);

    while (outcome->count == 0 && time(NULL) < start + 20)
        pair_progress(pair);
    assert_int_equal(outcome->count, 1);
}

hg_return_t outcome_set(const struct hg_cb_info *info)
{
    struct outcome *outcome = info->arg;

    outcome->count++;
    outcome->ret = info->ret;
    outcome->info = *info;
    return HG_SUCCESS;
}

void memory_make(struct memory *memory, hg_class_t *hg_class, uint32_t count,
                 const hg_size_t *sizes, uint8_t flags, unsigned int seed)
{
    memory->count = count;
    memory->size = 0;
    memory->ptrs = calloc(count, sizeof(*memory->ptrs));
    memory->sizes = calloc(count, sizeof(*memory->sizes));
    for (uint32_t i = 0; i < count; i++) {
        unsigned char *bytes = malloc(sizes[i] > 0 ? (size_t) sizes[i] : 1);

        for (hg_size_t j = 0; j < sizes[i]; j++)
            bytes[j] = (unsigned char) (seed = seed * 1103515245u + 12345u, seed >> 16);
        memory->ptrs[i] = bytes;
        memory->sizes[i] = sizes[i];
        memory->size += sizes[i];
    }
    assert_int_equal(
        HG_Bulk_create(hg_class, count, memory->ptrs, memory->sizes, flags, &memory->bulk),
        HG_SUCCESS);
    assert_int_equal(HG_Bulk_get_size(memory->bulk), memory->size);
    assert_int_equal(HG_Bulk_get_segment_count(memory->bulk), count);
    assert_int_equal(HG_Bulk_get_flags(memory->bulk), flags);
}

void memory_free(struct memory *memory)
{
    assert_int_equal(HG_Bulk_free(memory->bulk), HG_SUCCESS);
    for (uint32_t i = 0; i < memory->count; i++)
        free(memory->ptrs[i]);
    free(memory->ptrs);
    free(memory->sizes);
}

void memory_get(const struct memory *memory, char *flat)
{
    for (uint32_t i = 0; i < memory->count; i++) {
        memcpy(flat, memory->ptrs[i], (size_t) memory->sizes[i]);
        flat += memory->sizes[i];
    }
}

void memory_put(const struct memory *memory, const char *flat)
{
    for (uint32_t i = 0; i < memory->count; i++) {
        memcpy(memory->ptrs[i], flat, (size_t) memory->sizes[i]);
        flat += memory->sizes[i];
    }
}

hg_bulk_t bulk_send(hg_bulk_t bulk, unsigned long flags, hg_class_t *to)
{
    hg_size_t size = HG_Bulk_get_serialize_size(bulk, flags);
    char *buf = malloc((size_t) size);
    hg_bulk_t received = HG_BULK_NULL;

    assert_int_equal(HG_Bulk_serialize(buf, size, flags, bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_deserialize(to, &received, buf, size), HG_SUCCESS);
    memset(buf, 0, (size_t) size);
    free(buf);
    assert_int_equal(HG_Bulk_get_size(received), HG_Bulk_get_size(bulk));
    assert_int_equal(HG_Bulk_get_segment_count(received), HG_Bulk_get_segment_count(bulk));
    assert_int_equal(HG_Bulk_get_flags(received), HG_Bulk_get_flags(bulk));
    return received;
}

hg_return_t transfer(struct pair *pair, hg_bulk_op_t op, hg_bulk_t origin, hg_size_t origin_offset,
                     hg_bulk_t local, hg_size_t local_offset, hg_size_t size)
{
    struct outcome outcome = {0, HG_OTHER_ERROR, {{{NULL}}, NULL, HG_CB_LOOKUP, HG_OTHER_ERROR}};
    hg_op_id_t op_id = HG_OP_ID_NULL;
    hg_return_t ret;

    ret = HG_Bulk_transfer(pair->target.context, outcome_set, &outcome, op, pair->origin_addr,
                           origin, origin_offset, local, local_offset, size, &op_id);
    if (ret != HG_SUCCESS) {
        pair_progress(pair);
        assert_int_equal(outcome.count, 0);
        return ret;
    }
    assert_ptr_not_equal(op_id, HG_OP_ID_NULL);
    pair_wait(pair, &outcome);
    assert_int_equal(outcome.info.type, HG_CB_BULK);
    assert_int_equal(outcome.info.info.bulk.op, op);
    assert_int_equal(outcome.info.info.bulk.size, size);
    assert_ptr_equal(outcome.info.info.bulk.origin_handle, origin);
    assert_ptr_equal(outcome.info.info.bulk.local_handle, local);
    return outcome.ret;
}
