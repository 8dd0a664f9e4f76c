/* SPDX-License-Identifier: BSD-3-Clause */
/* Introductions to the ucx plugin; the digest is made valid if the input selects that. */

#include "fuzz.h"

#include "kit_base.h"
#include "ucx.h"

#include <endian.h>

/* Offsets in an introduction. */
#define AT_MAGIC   0
#define AT_VERSION 4
#define AT_SIZE    8
#define AT_ADDRESS 12
#define AT_DIGEST  16
#define AT_NAME    124

#define MAGIC      0x4c485855u

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    return 0;
}

static void put(uint8_t *bytes, size_t at, uint64_t value, size_t size)
{
    value = htole64(value);
    memcpy(bytes + at, &value, size);
}

/* Makes the head, the sum of the sizes and the digest valid, as selected by `how`. */
static void dress(uint64_t how, uint8_t *bytes, size_t size)
{
    if ((how & 1) != 0) {
        put(bytes, AT_MAGIC, MAGIC, 4);
        put(bytes, AT_VERSION, UCX_HELLO_VERSION, 2);
        put(bytes, AT_SIZE, size, 4);
    }
    if ((how & 2) != 0 && size > UCX_HELLO_HEAD) {
        const size_t rest = size - UCX_HELLO_HEAD, name = how >> 3;

        put(bytes, AT_NAME - 4, 0, 4);
        put(bytes, AT_NAME, name, 2);
        put(bytes, AT_ADDRESS, rest > name ? rest - name : rest, 4);
    }
    if ((how & 4) != 0)
        put(bytes, AT_DIGEST,
            kit_digest_add(KIT_DIGEST_NONE, bytes + UCX_HELLO_REST, size - UCX_HELLO_REST), 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const uint64_t how = fuzz_take(&input, 1);
    struct ucx_hello hello;
    uint32_t told = 0;
    uint8_t *bytes;

    if (input.size < UCX_HELLO_HEAD)
        return 0;
    bytes = fuzz_copy(&input);
    dress(how, bytes, input.size);
    if (ucx_hello_head(bytes, &told) == NULL) {
        FUZZ_CHECK(told > UCX_HELLO_HEAD && told <= UCX_HELLO_MAX);
        if (told == input.size && ucx_hello_read(bytes, told, &hello) == NULL) {
            const uint8_t *address = hello.address;

            FUZZ_CHECK(address + hello.address_size <= bytes + told);
            FUZZ_CHECK(strlen(hello.name) > 0);
        }
    }
    free(bytes);
    return 0;
}
