/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of HELLO: keep an offer, and respond with a HELLO_ACK. That reveals nothing
 * about the key to a peer without it. It costs a few scalar multiplications, so it is made in
 * HG_Trigger(), where handlers run.
 */
#include "hg/answer.h"

#include "engine/random.h"
#include "hg/header.h"
#include "hg/respond.h"
#include "hg/sessions.h"

#include <endian.h>

static hg_return_t answer_make(struct hg_handle *handle);
static hg_return_t answer_offer(struct hg_handle *handle, const struct hg_hello *hello, uint64_t id,
                                const struct kit_auth_keys *keys);

void hg_answer_run(struct hg_completion *completion)
{
    struct hg_handle *handle = util_container_of(completion, struct hg_handle, completion);
    const hg_return_t ret = answer_make(handle);

    handle->in.has_payload = false;
    hg_respond_error(handle, ret);
}

/* Write the HELLO_ACK into the handle's response. */
static hg_return_t answer_make(struct hg_handle *handle)
{
    const struct hg_rpc_class *rpc_class = hg_rpc_class(handle->info.hg_class);
    const struct hg_msg *in = &handle->in, *out = &handle->out;
    struct kit_auth_keys keys[HG_HELLO_KEYS];
    hg_return_t ret = HG_SUCCESS;
    struct hg_hello_ack ack;
    struct hg_hello hello;
    uint32_t count;
    uint64_t id;

    if (in->used != sizeof(hello)) {
        hg_count(&handle->info.context->counters.refused_header);
        HG_LOG_DEBUG("refused a HELLO of %zu bytes", in->used);
        return HG_PROTOCOL_ERROR;
    }
    memcpy(&hello, in->buf + hg_msg_payload_offset(in, in->flags), sizeof(hello));
    if (!hg_random_bytes(&id, sizeof(id)))
        return HG_FAULT;
    id &= ~UINT64_C(1);
    memset(&ack, 0, sizeof(ack));
    memcpy(ack.instance, rpc_class->instance, sizeof(ack.instance));
    ack.session = htole64(id);
    count = hg_hello_answer(rpc_class->secrets, &hello, &ack, keys);
    if (count == 0) {
        hg_count(&handle->info.context->counters.refused_header);
        HG_LOG_DEBUG("refused a HELLO whose share is none");
        return HG_PROTOCOL_ERROR;
    }
    for (uint32_t i = 0; i < count && ret == HG_SUCCESS; i++)
        ret = answer_offer(handle, &hello, id | i, &keys[i]);
    kit_auth_wipe(keys, sizeof(keys));
    handle->deferred_payload = HG_HELLO_ACK_FIXED + count * sizeof(struct hg_hello_proof);
    memcpy(out->buf + hg_msg_payload_offset(out, HG_CORE_HEADER_HELLO), &ack,
           handle->deferred_payload);
    return ret;
}

static hg_return_t answer_offer(struct hg_handle *handle, const struct hg_hello *hello, uint64_t id,
                                const struct kit_auth_keys *keys)
{
    struct hg_session *session = hg_session_new(id, keys);

    if (session == NULL)
        return HG_NOMEM;
    memcpy(session->instance, hello->instance, sizeof(session->instance));
    session->na_class = hg_handle_path(handle)->na_class;
    session->origin = handle->info.context_id;
    session->path = handle->path;
    if (NA_Addr_dup(session->na_class, handle->source.na_addr[handle->path], &session->na_addr) !=
        NA_SUCCESS) {
        session->na_addr = NULL;
        hg_session_unref(session);
        return HG_NOMEM;
    }
    return hg_sessions_offer(handle->info.context, session);
}
