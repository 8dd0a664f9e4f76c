/* SPDX-License-Identifier: BSD-3-Clause */
/* Serialized addresses and memory handles: random bytes, and damaged valid ones. */

#include "fuzz.h"

#include "msg_sim.h"
#include "na.h"

enum what {
    SM_ADDRESS,
    MSG_ADDRESS,
    SM_MEMORY,
    WHATS
};

#define GOOD_MAX 1024

static na_class_t *na_class;
static struct sim_net net;
static struct na_plugin_class *node;
static struct na_plugin_context *node_context;
static const struct na_plugin_addr_serialize *fabric;
static uint8_t good[WHATS][GOOD_MAX];
static size_t good_size[WHATS];
static na_mem_handle_t *good_mem; /* stays registered for all inputs */

static void make_good_sm(void)
{
    static char memory[4096];
    na_addr_t *self;

    FUZZ_CHECK(NA_Addr_self(na_class, &self) == NA_SUCCESS);
    good_size[SM_ADDRESS] = NA_Addr_get_serialize_size(na_class, self);
    FUZZ_CHECK(NA_Addr_serialize(na_class, good[SM_ADDRESS], GOOD_MAX, self) == NA_SUCCESS);
    NA_Addr_free(na_class, self);
    FUZZ_CHECK(NA_Mem_handle_create(na_class, memory, sizeof(memory), NA_MEM_READWRITE,
                                    &good_mem) == NA_SUCCESS);
    FUZZ_CHECK(NA_Mem_register(na_class, good_mem, NA_MEM_TYPE_HOST, 0) == NA_SUCCESS);
    good_size[SM_MEMORY] = NA_Mem_handle_get_serialize_size(na_class, good_mem);
    FUZZ_CHECK(NA_Mem_handle_serialize(na_class, good[SM_MEMORY], GOOD_MAX, good_mem) ==
               NA_SUCCESS);
}

static void make_good_fabric(void)
{
    struct na_plugin_addr *self;

    FUZZ_CHECK(kit_msg_addr_self(node, &self) == NA_PLUGIN_SUCCESS);
    good_size[MSG_ADDRESS] = fabric->addr_serialize_size(node, self);
    FUZZ_CHECK(fabric->addr_serialize(node, self, good[MSG_ADDRESS], GOOD_MAX) ==
               NA_PLUGIN_SUCCESS);
    kit_msg_addr_free(node, self);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    na_class = NA_Initialize("na+sm", true);
    FUZZ_CHECK(na_class != NULL);
    sim_net_setup(&net);
    node = sim_open(&net, "node", NULL);
    node_context = sim_context(node, 0);
    fabric = kit_msg_get_extension(NA_PLUGIN_EXT_ADDR_SERIALIZE);
    make_good_sm();
    make_good_fabric();
    return 0;
}

static void try_fabric(const uint8_t *bytes, size_t size)
{
    struct na_plugin_addr *addr = NULL;
    char text[2048];
    uint64_t length = sizeof(text);

    if (fabric->addr_deserialize(node, bytes, size, 0, &addr) != NA_PLUGIN_SUCCESS)
        return;
    FUZZ_CHECK(addr != NULL);
    FUZZ_CHECK(kit_msg_addr_to_string(node, addr, text, &length) == NA_PLUGIN_SUCCESS);
    FUZZ_CHECK(length == strlen(text) + 1);
    kit_msg_addr_free(node, addr);
    sim_poll(node_context, NULL, 1);
}

static void try_sm(enum what what, const uint8_t *bytes, size_t size)
{
    na_mem_handle_t *mem = NULL;
    na_addr_t *addr = NULL;

    if (what == SM_MEMORY) {
        if (NA_Mem_handle_deserialize(na_class, &mem, bytes, size) == NA_SUCCESS)
            NA_Mem_handle_free(na_class, mem);
    } else if (NA_Addr_deserialize(na_class, &addr, bytes, size, 0) == NA_SUCCESS) {
        NA_Addr_free(na_class, addr);
    }
}

/* Input: the kind, whether to damage a valid one, and bytes, which are used alone or are XORed with
 * the valid one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const enum what what = (enum what)(fuzz_take(&input, 1) % WHATS);
    const bool damage = fuzz_take(&input, 1) % 2 != 0;
    uint8_t *bytes = fuzz_copy(&input);

    size = input.size;
    if (damage) {
        free(bytes);
        size = good_size[what];
        bytes = malloc(size);
        FUZZ_CHECK(bytes != NULL);
        memcpy(bytes, good[what], size);
        for (size_t i = 0; i < size && i < input.size; i++)
            bytes[i] ^= input.data[i];
    }
    if (what == MSG_ADDRESS)
        try_fabric(bytes, size);
    else
        try_sm(what, bytes, size);
    free(bytes);
    return 0;
}
