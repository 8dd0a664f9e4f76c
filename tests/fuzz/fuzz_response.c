/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses: an origin forwards an RPC, and the input is the response. */

#include "fuzz.h"

#include "mercury.h"
#include "mercury_core_header.h"
#include "mercury_macros.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"
#include "mercury_proc_string.h"
#include "na.h"

#define RPC_RICH 2

/* Generated, so that what was decoded before an error is released, too. */
MERCURY_GEN_PROC(rich_t, ((hg_string_t) (text))((hg_bulk_t) (bulk))((uint64_t) (number)))

static hg_class_t *hg_class;
static hg_context_t *context;
static hg_handle_t handle;
static na_class_t *na_class;
static na_context_t *na_context;
static na_op_id_t *receive_op, *send_op;
static uint8_t request[4096], *response;
static void *response_data;
static na_addr_t *source, *kept;
static na_tag_t tag;
static size_t request_size;
static bool received, was_sent;
static unsigned int ended;

static hg_return_t on_response(const struct hg_cb_info *info)
{
    rich_t rich = {0};

    ended++;
    if (info->ret == HG_SUCCESS && HG_Get_output(info->info.forward.handle, &rich) == HG_SUCCESS)
        (void) HG_Free_output(info->info.forward.handle, &rich);
    return HG_SUCCESS;
}

static void on_request(const struct na_cb_info *info)
{
    FUZZ_CHECK(info->ret == NA_SUCCESS);
    source = info->info.recv_unexpected.source;
    tag = info->info.recv_unexpected.tag;
    request_size = info->info.recv_unexpected.actual_buf_size;
    received = true;
}

static void on_sent(const struct na_cb_info *info)
{
    (void) info;
    was_sent = true;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    na_addr_t *self;
    hg_addr_t addr;
    char name[256];
    size_t size = sizeof(name);

    (void) argc;
    (void) argv;
    fuzz_setup();
    HG_Set_log_level("none");
    hg_class = HG_Init("na+sm", HG_FALSE);
    na_class = NA_Initialize("na+sm", true);
    FUZZ_CHECK(hg_class != NULL && na_class != NULL);
    context = HG_Context_create(hg_class);
    na_context = NA_Context_create(na_class);
    FUZZ_CHECK(context != NULL && na_context != NULL);
    (void) HG_Register(hg_class, RPC_RICH, NULL, hg_proc_rich_t, NULL);
    FUZZ_CHECK(NA_Addr_self(na_class, &self) == NA_SUCCESS);
    FUZZ_CHECK(NA_Addr_to_string(na_class, name, &size, self) == NA_SUCCESS);
    NA_Addr_free(na_class, self);
    FUZZ_CHECK(HG_Addr_lookup2(hg_class, name, &addr) == HG_SUCCESS);
    FUZZ_CHECK(HG_Create(context, addr, RPC_RICH, &handle) == HG_SUCCESS);
    receive_op = NA_Op_create(na_class, NA_OP_SINGLE);
    send_op = NA_Op_create(na_class, NA_OP_SINGLE);
    response =
        NA_Msg_buf_alloc(na_class, NA_Msg_get_max_expected_size(na_class), NA_SEND, &response_data);
    FUZZ_CHECK(receive_op != NULL && send_op != NULL && response != NULL);
    return 0;
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

/* Makes a response of a valid header, unless the input changes it, and the rest of the input. */
static size_t answer(struct fuzz_input *input)
{
    const uint64_t how = fuzz_take(input, 1);
    const size_t max = NA_Msg_get_max_expected_size(na_class);
    struct hg_core_header_response header;
    struct hg_core_header_request asked;
    size_t size;

    size = fuzz_take_bytes(input, response, max);
    if ((how & 1) == 0 || size < sizeof(header))
        return size > 0 ? size : 1;
    FUZZ_CHECK(request_size >= sizeof(asked));
    memcpy(&asked, request, sizeof(asked));
    memcpy(&header, response, sizeof(header));
    header.hg = HG_CORE_RESPONSE_MAGIC;
    header.protocol = HG_CORE_PROTOCOL_VERSION;
    header.id = asked.id;
    if ((how & 2) == 0) {
        header.cookie = asked.cookie;
        header.cookie_high = asked.cookie_high;
    }
    if ((how & 4) == 0)
        header.ret_code = 0;
    if ((how & 8) == 0)
        header.flags &= (uint8_t) ~HG_CORE_HEADER_HAS_HASH;
    memcpy(response, &header, sizeof(header));
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const unsigned int before = ended;

    received = was_sent = false;
    FUZZ_CHECK(NA_Msg_recv_unexpected(na_class, na_context, on_request, NULL, request,
                                      sizeof(request), NULL, receive_op) == NA_SUCCESS);
    FUZZ_CHECK(HG_Forward(handle, on_response, NULL, NULL) == HG_SUCCESS);
    while (!received)
        progress();
    size = answer(&input);
    FUZZ_CHECK(NA_Msg_send_expected(na_class, na_context, on_sent, NULL, response, size,
                                    response_data, source, 0, tag, send_op) == NA_SUCCESS);
    while (!was_sent)
        progress();
    if (kept == NULL)
        kept = source; /* keeps the connection, which would end with its last reference each time */
    else
        NA_Addr_free(na_class, source);
    for (int i = 0; i < 100 && ended == before; i++)
        progress();
    if (ended == before)
        FUZZ_CHECK(HG_Cancel(handle) == HG_SUCCESS);
    for (int i = 0; i < 1000000 && ended == before; i++)
        progress();
    FUZZ_CHECK(ended == before + 1);
    while (HG_Ref_get(handle) > 1)
        progress();
    /* A response in several parts may cause an acknowledgement in a message of its own. */
    for (int i = 0; i < 4; i++)
        progress();
    return 0;
}
