/* SPDX-License-Identifier: BSD-3-Clause */
/* Serialized bulk descriptors: random bytes, and damaged valid ones, with and without a matching
 * checksum. */

#include "fuzz.h"

#include "bulk/bulk_internal.h"
#include "bulk/bulk_wire.h"
#include "mercury.h"
#include "mercury_bulk.h"

#define KINDS    4
#define GOOD_MAX 16384

static hg_class_t *hg_class;
static hg_context_t *context;
static uint8_t good[KINDS][GOOD_MAX];
static size_t good_size[KINDS];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct {
        uint32_t count;
        uint8_t access;
        unsigned long flags;
        bool is_bound;
    } kinds[KINDS] = {{1, HG_BULK_READWRITE, 0, false},
                      {1, HG_BULK_READ_ONLY, HG_BULK_EAGER, false},
                      {3, HG_BULK_READ_ONLY, HG_BULK_EAGER, true},
                      {2, HG_BULK_READWRITE, HG_BULK_SM, true}};
    static char memory[3][64];
    static hg_size_t sizes[3] = {40, 7, 13};
    void *bases[3] = {memory[0], memory[1], memory[2]};

    (void) argc;
    (void) argv;
    fuzz_setup();
    hg_class = HG_Init("na+sm", HG_TRUE);
    FUZZ_CHECK(hg_class != NULL);
    context = HG_Context_create(hg_class);
    FUZZ_CHECK(context != NULL);
    for (int i = 0; i < KINDS; i++) {
        hg_bulk_t bulk;

        FUZZ_CHECK(HG_Bulk_create(hg_class, kinds[i].count, bases, sizes, kinds[i].access, &bulk) ==
                   HG_SUCCESS);
        if (kinds[i].is_bound)
            FUZZ_CHECK(HG_Bulk_bind(bulk, context) == HG_SUCCESS);
        good_size[i] = (size_t) HG_Bulk_get_serialize_size(bulk, kinds[i].flags);
        FUZZ_CHECK(good_size[i] <= GOOD_MAX);
        FUZZ_CHECK(HG_Bulk_serialize(good[i], good_size[i], kinds[i].flags, bulk) == HG_SUCCESS);
    }
    return 0;
}

static void sign(uint8_t *bytes, size_t size)
{
    uint8_t *pos = bytes + HG_BULK_WIRE_CHECKSUM_AT;

    if (size >= HG_BULK_WIRE_HEADER_SIZE)
        hg_bulk_wire_put(&pos, hg_bulk_wire_checksum(bytes, size), 4);
}

static void use(hg_bulk_t bulk)
{
    const hg_size_t size = HG_Bulk_get_size(bulk);
    const hg_uint32_t count = HG_Bulk_get_segment_count(bulk);
    uint8_t bytes[GOOD_MAX];
    hg_size_t length;

    (void) HG_Bulk_get_flags(bulk);
    FUZZ_CHECK(count > 0 || size == 0);
    length = HG_Bulk_get_serialize_size(bulk, 0);
    if (length <= sizeof(bytes))
        (void) HG_Bulk_serialize(bytes, length, 0, bulk);
    FUZZ_CHECK(HG_Bulk_free(bulk) == HG_SUCCESS);
}

/* Input: which valid descriptor, options, bytes. The bytes are used alone, or are XORed with the
 * valid descriptor and may extend it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const size_t kind = fuzz_take(&input, 1) % KINDS;
    const uint64_t how = fuzz_take(&input, 1);
    hg_bulk_t bulk = HG_BULK_NULL;
    uint8_t *bytes = fuzz_copy(&input);

    size = input.size;
    if ((how & 1) != 0) {
        size_t longer = input.size > good_size[kind] ? input.size : good_size[kind];

        bytes = realloc(bytes, longer);
        FUZZ_CHECK(bytes != NULL);
        if (longer > input.size)
            memset(bytes + input.size, 0, longer - input.size);
        for (size_t i = 0; i < good_size[kind]; i++)
            bytes[i] ^= good[kind][i];
        size = longer;
    }
    if ((how & 2) != 0)
        sign(bytes, size);
    if (HG_Bulk_deserialize(hg_class, &bulk, bytes, size) == HG_SUCCESS)
        use(bulk);
    else
        FUZZ_CHECK(bulk == HG_BULK_NULL);
    free(bytes);
    return 0;
}
