/* SPDX-License-Identifier: BSD-3-Clause */
/* Data of the soak that all its processes generate alike. */
#include "soak.h"

#include "../test_count.h"
#include "../test_random.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

hg_return_t soak_proc_data(hg_proc_t proc, void *arg)
{
    struct soak_data *data = arg;
    hg_return_t ret;

    if (hg_proc_get_op(proc) == HG_FREE) {
        free(data->bytes);
        data->bytes = NULL;
        return HG_SUCCESS;
    }
    if (hg_proc_get_op(proc) == HG_DECODE)
        data->bytes = NULL;
    if ((ret = hg_proc_uint64_t(proc, &data->number)) != HG_SUCCESS ||
        (ret = hg_proc_uint64_t(proc, &data->digest)) != HG_SUCCESS ||
        (ret = hg_proc_uint32_t(proc, &data->size)) != HG_SUCCESS ||
        (ret = hg_proc_uint32_t(proc, &data->reply_size)) != HG_SUCCESS ||
        (ret = hg_proc_uint32_t(proc, &data->hold_ms)) != HG_SUCCESS ||
        (ret = hg_proc_uint32_t(proc, &data->is_wrong)) != HG_SUCCESS)
        return ret;
    if (data->size > SOAK_PAYLOAD)
        return HG_PROTOCOL_ERROR;
    if (hg_proc_get_op(proc) == HG_DECODE) {
        data->bytes = malloc(data->size + 1);
        if (data->bytes == NULL)
            return HG_NOMEM;
    }
    ret = hg_proc_bytes(proc, data->bytes, data->size);
    if (ret != HG_SUCCESS && hg_proc_get_op(proc) == HG_DECODE) {
        free(data->bytes);
        data->bytes = NULL;
    }
    return ret;
}

const unsigned char *soak_block(void)
{
    static uint64_t block[SOAK_BLOCK / sizeof(uint64_t)];
    uint64_t state = 1;

    if (block[0] == 0)
        for (size_t i = 0; i < SOAK_BLOCK / sizeof(uint64_t); i++)
            block[i] = test_random(&state);
    return (const unsigned char *) block;
}

void soak_fill_source(unsigned char *source, uint64_t generation)
{
    uint64_t state = generation;

    for (size_t i = 0; i < SOAK_SOURCE; i += sizeof(uint64_t)) {
        const uint64_t word = test_random(&state);

        memcpy(source + i, &word, sizeof(word));
    }
}

const unsigned char *soak_bytes(uint64_t number, uint64_t size)
{
    return soak_block() + (number * 2654435761u) % (SOAK_BLOCK - size);
}

uint64_t soak_digest(const void *bytes, uint64_t size)
{
    return XXH3_64bits(bytes, (size_t) size);
}

int soak_descriptors(void)
{
    return test_count("/proc/self/fd");
}

int soak_descriptors_at_rest(const char *init_string)
{
    hg_class_t *hg_class = HG_Init(init_string, false);
    hg_context_t *context = hg_class != NULL ? HG_Context_create(hg_class) : NULL;

    if (context != NULL)
        (void) HG_Context_destroy(context);
    if (hg_class != NULL)
        (void) HG_Finalize(hg_class);
    return soak_descriptors();
}
