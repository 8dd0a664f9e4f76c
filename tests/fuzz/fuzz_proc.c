/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding: a sequence of proc calls that the input selects, with bytes that the input provides. */

#include "fuzz.h"

#include "mercury.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"
#include "mercury_proc_ext.h"
#include "mercury_proc_string.h"

#define STEPS_MAX 32

/* A decoded value, which is released afterwards. */
struct step {
    uint8_t code;
    union {
        uint64_t number;
        hg_string_t string;
        hg_const_string_t const_string;
        hg_string_object_t object;
        hg_bulk_t bulk;
        uint8_t bytes[64];
    } value;
};

enum {
    CLASSES = 2,
    CODES = 13
};

static hg_class_t *classes[CLASSES];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    for (int i = 0; i < CLASSES; i++) {
        classes[i] = HG_Init("na+sm", HG_FALSE);
        FUZZ_CHECK(classes[i] != NULL);
    }
    FUZZ_CHECK(hg_proc_class_set_encoding(classes[1], HG_PROC_ENCODING_PORTABLE) == HG_SUCCESS);
    return 0;
}

static hg_return_t run_step(hg_proc_t proc, struct step *step)
{
    switch (step->code % CODES) {
    case 0:
        return hg_proc_uint8_t(proc, &step->value);
    case 1:
        return hg_proc_int16_t(proc, &step->value);
    case 2:
        return hg_proc_uint32_t(proc, &step->value);
    case 3:
        return hg_proc_int64_t(proc, &step->value);
    case 4:
        return hg_proc_hg_string_t(proc, &step->value.string);
    case 5:
        return hg_proc_hg_const_string_t(proc, &step->value.const_string);
    case 6:
        return hg_proc_hg_string_object_t(proc, &step->value.object);
    case 7:
        return hg_proc_hg_bulk_t(proc, &step->value.bulk);
    case 8:
        return hg_proc_bytes(proc, step->value.bytes, step->code / CODES);
    case 9:
        return hg_proc_hg_size_t(proc, &step->value);
    case 10:
        return hg_proc_uint16_t(proc, &step->value);
    case 11: {
        void *place = hg_proc_save_ptr(proc, step->code / CODES);

        if (place == NULL)
            return HG_OVERFLOW;
        memcpy(step->value.bytes, place, step->code / CODES);
        return hg_proc_restore_ptr(proc, place, step->code / CODES);
    }
    default:
        FUZZ_CHECK(hg_proc_get_size_left(proc) <= hg_proc_get_size(proc));
        return HG_SUCCESS;
    }
}

/* Input: the class, the checksum, the number of steps, the steps, the bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const unsigned int how = (unsigned int) fuzz_take(&input, 1);
    const size_t count = fuzz_take(&input, 1) % (STEPS_MAX + 1);
    struct step steps[STEPS_MAX];
    hg_return_t ret = HG_SUCCESS;
    size_t done = 0;
    uint8_t *bytes;
    hg_proc_t proc;

    memset(steps, 0, sizeof(steps));
    for (size_t i = 0; i < count; i++)
        steps[i].code = (uint8_t) fuzz_take(&input, 1);
    bytes = fuzz_copy(&input);
    if (hg_proc_create_set(classes[how & 1], bytes, input.size, HG_DECODE,
                           (hg_proc_hash_t) ((how >> 1) % 4), &proc) != HG_SUCCESS) {
        free(bytes);
        return 0;
    }
    while (done < count && (ret = run_step(proc, &steps[done])) == HG_SUCCESS)
        done++;
    if (ret == HG_SUCCESS)
        (void) hg_proc_flush(proc);
    /* Decoded values are released as the generated code does. */
    FUZZ_CHECK(hg_proc_reset(proc, NULL, 0, HG_FREE) == HG_SUCCESS);
    for (size_t i = 0; i < done; i++)
        if (steps[i].code % CODES >= 4 && steps[i].code % CODES <= 7)
            (void) run_step(proc, &steps[i]);
    FUZZ_CHECK(hg_proc_free(proc) == HG_SUCCESS);
    free(bytes);
    return 0;
}
