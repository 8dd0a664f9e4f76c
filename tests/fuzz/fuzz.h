/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzz targets share: reading the input piece by piece, and assertions. */

#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry points that the fuzzer calls. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An assertion that has to hold for every input; a failure aborts, which the fuzzer reports. */
#define FUZZ_CHECK(condition)                                                                \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            (void) fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                         \
        }                                                                                    \
    } while (0)

/* The rest of the input; reading beyond its end gives zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

static inline uint64_t fuzz_take(struct fuzz_input *input, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes && input->size > 0; i++, input->data++, input->size--)
        value |= (uint64_t) input->data[0] << 8 * i;
    return value;
}

static inline size_t fuzz_take_bytes(struct fuzz_input *input, void *buf, size_t size)
{
    const size_t taken = size < input->size ? size : input->size;

    if (taken > 0)
        memcpy(buf, input->data, taken);
    input->data += taken;
    input->size -= taken;
    return taken;
}

/* Copies the rest of the input to an allocation of exactly that size, so that an overrun is
 * detected. */
static inline uint8_t *fuzz_copy(const struct fuzz_input *input)
{
    uint8_t *copy = malloc(input->size > 0 ? input->size : 1);

    FUZZ_CHECK(copy != NULL);
    if (input->size > 0)
        memcpy(copy, input->data, input->size);
    return copy;
}

/* Returns a string of the rest of the input, which the caller frees. Each "@" is replaced by
 * `name`, which is known only at run time. */
static inline char *fuzz_string(const struct fuzz_input *input, const char *name)
{
    const size_t length = strlen(name);
    char *string = malloc(input->size * (length + 1) + 1), *end = string;

    FUZZ_CHECK(string != NULL);
    for (size_t i = 0; i < input->size && input->data[i] != 0; i++) {
        if (input->data[i] == '@' && length > 0) {
            memcpy(end, name, length);
            end += length;
        } else {
            *end++ = (char) input->data[i];
        }
    }
    *end = '\0';
    return string;
}

/* Uses the plugins of the build tree, and disables the log. */
void fuzz_setup(void);

#endif /* FUZZ_H */
