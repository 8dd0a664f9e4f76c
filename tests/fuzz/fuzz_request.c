/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests with any header, checksums and payload, to a target that decodes a string, a bulk handle
 * and numbers. */

#include "fuzz.h"

#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_core_header.h"
#include "mercury_macros.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"
#include "mercury_proc_string.h"
#include "na.h"

#include <xxhash.h>

#define MESSAGES_MAX 4
#define DRAIN_POLLS  200

enum {
    RPC_NULL = 1,
    RPC_RICH = 2,
    RPC_ONEWAY = 3
};

/* Generated, so that what was decoded before an error is released, too. */
MERCURY_GEN_PROC(rich_t, ((hg_string_t) (text))((hg_bulk_t) (bulk))((uint64_t) (number)))

static hg_class_t *hg_class;
static hg_context_t *context;
static na_class_t *na_class;
static na_context_t *na_context;
static na_addr_t *target;
static na_op_id_t *op;
static uint8_t *message;
static void *message_data;
static size_t message_max;
static unsigned int sent;

static hg_return_t handle_null(hg_handle_t handle)
{
    (void) HG_Respond(handle, NULL, NULL, NULL);
    return HG_Destroy(handle);
}

static hg_return_t handle_rich(hg_handle_t handle)
{
    rich_t rich = {0};

    if (HG_Get_input(handle, &rich) == HG_SUCCESS) {
        if (rich.bulk != HG_BULK_NULL)
            (void) HG_Bulk_get_size(rich.bulk);
        (void) HG_Respond(handle, NULL, NULL, &rich);
        (void) HG_Free_input(handle, &rich);
    }
    return HG_Destroy(handle);
}

static void target_open(void)
{
    na_class_t *sender;
    hg_addr_t self;
    char name[256];
    hg_size_t size = sizeof(name);

    hg_class = HG_Init("na+sm", HG_TRUE);
    FUZZ_CHECK(hg_class != NULL);
    context = HG_Context_create(hg_class);
    FUZZ_CHECK(context != NULL);
    (void) HG_Register(hg_class, RPC_NULL, NULL, NULL, handle_null);
    (void) HG_Register(hg_class, RPC_RICH, hg_proc_rich_t, hg_proc_rich_t, handle_rich);
    (void) HG_Register(hg_class, RPC_ONEWAY, hg_proc_rich_t, NULL, handle_rich);
    (void) HG_Registered_disable_response(hg_class, RPC_ONEWAY, HG_TRUE);
    FUZZ_CHECK(HG_Addr_self(hg_class, &self) == HG_SUCCESS);
    FUZZ_CHECK(HG_Addr_to_string(hg_class, name, &size, self) == HG_SUCCESS);
    (void) HG_Addr_free(hg_class, self);
    sender = NA_Initialize("na+sm", false);
    FUZZ_CHECK(sender != NULL);
    na_class = sender;
    na_context = NA_Context_create(sender);
    FUZZ_CHECK(na_context != NULL);
    FUZZ_CHECK(NA_Addr_lookup(sender, name, &target) == NA_SUCCESS);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    HG_Set_log_level("none");
    target_open();
    op = NA_Op_create(na_class, NA_OP_SINGLE);
    message_max = NA_Msg_get_max_unexpected_size(na_class);
    message = NA_Msg_buf_alloc(na_class, message_max, NA_SEND, &message_data);
    FUZZ_CHECK(op != NULL && message != NULL);
    return 0;
}

static void on_sent(const struct na_cb_info *info)
{
    (void) info;
    sent++;
}

static void progress(void)
{
    unsigned int count;

    (void) NA_Poll(na_class, na_context, &count);
    (void) NA_Trigger(na_context, 10, &count);
    (void) HG_Progress(context, 0);
    do
        (void) HG_Trigger(context, 0, 16, &count);
    while (count > 0);
}

/* Fills in valid fields, as far as the input selects them, so that the message passes the first
 * checks. */
static void dress(struct fuzz_input *input, uint8_t *bytes, size_t size)
{
    const uint64_t how = fuzz_take(input, 1);
    struct hg_core_header_request request;
    struct hg_core_header_hash hash;
    uint8_t hashed[sizeof(request) + 4];

    (void) fuzz_take_bytes(input, bytes, size);
    if (size < sizeof(request) || (how & 1) == 0)
        return;
    memcpy(&request, bytes, sizeof(request));
    request.hg = (how & 2) != 0 ? HG_CORE_ACK_MAGIC : HG_CORE_REQUEST_MAGIC;
    request.protocol = HG_CORE_PROTOCOL_VERSION;
    if ((how & 4) != 0)
        request.id = 1 + (how >> 3) % 3;
    if ((how & 32) != 0)
        request.flags &= (uint8_t) ~(HG_CORE_HEADER_MORE_DATA);
    memcpy(bytes, &request, sizeof(request));
    if ((request.flags & HG_CORE_HEADER_HAS_HASH) == 0 || size < sizeof(request) + sizeof(hash))
        return;
    hash.payload = (request.flags & HG_CORE_HEADER_HAS_PAYLOAD_HASH) != 0
                       ? (uint32_t) XXH3_64bits(bytes + sizeof(request) + sizeof(hash),
                                                size - sizeof(request) - sizeof(hash))
                       : 0;
    memcpy(hashed, &request, sizeof(request));
    memcpy(hashed + sizeof(request), &hash.payload, 4);
    hash.header = (uint32_t) XXH3_64bits(hashed, sizeof(hashed));
    if ((how & 64) == 0)
        memcpy(bytes + sizeof(request), &hash, sizeof(hash));
}

/* Input: for each message its size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct hg_diag_counters counters;
    unsigned int polls = 0;

    for (int i = 0; i < MESSAGES_MAX && input.size > 0; i++) {
        const unsigned int before = sent;
        size_t length = fuzz_take(&input, 2) % 2048;

        if (length > input.size)
            length = input.size;
        if (length == 0)
            length = 1;
        memset(message, 0, length);
        dress(&input, message, length);
        FUZZ_CHECK(NA_Msg_send_unexpected(na_class, na_context, on_sent, NULL, message, length,
                                          message_data, target, 0, 1, op) == NA_SUCCESS);
        while (sent == before)
            progress();
    }
    progress();
    /* Transfers from memory that does not exist have to end as well. */
    do {
        progress();
        FUZZ_CHECK(HG_Class_get_counters(hg_class, &counters) == HG_SUCCESS);
    } while (counters.rpc_req_recv_active_count != 0 && ++polls < DRAIN_POLLS);
    return 0;
}
