/* SPDX-License-Identifier: BSD-3-Clause */
/* The headers of RPC messages: checksums and seals, and the checks of received messages. */
#include "hg/header.h"

#include "engine/checksum.h"
#include "hg/session.h"
#include "hg/sessions.h"

#include <inttypes.h>

/* Messages with other flags are refused, because these may change the layout. */
#define HG_HEADER_KNOWN_FLAGS                                                            \
    (HG_HEADER_PLAIN_FLAGS | HG_CORE_HEADER_HAS_PAYLOAD_HASH | HG_CORE_HEADER_HAS_HASH | \
     HG_CORE_HEADER_HAS_SEAL | HG_CORE_HEADER_HELLO)

_Static_assert(sizeof(struct hg_core_header_request) == 16, "wire format");
_Static_assert(sizeof(struct hg_core_header_response) == 16, "wire format");
_Static_assert(sizeof(struct hg_core_header_hash) == 8, "wire format");
_Static_assert(sizeof(struct hg_core_header_seal) == 32, "wire format");

static void hg_header_hash(struct hg_msg *msg);
static uint32_t hg_header_hash_of(const char *header, uint32_t payload_hash);
static hg_return_t hg_header_check(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                   uint16_t magic, uint8_t version, uint8_t flags,
                                   bool is_known_magic);
static inline hg_return_t hg_header_check_proof(struct hg_handle *handle, const struct hg_msg *msg,
                                                bool is_request, na_tag_t tag);
static hg_return_t hg_header_check_key(struct hg_handle *handle, const struct hg_msg *msg,
                                       bool is_request, na_tag_t tag);
static const char *hg_header_key_reason(hg_return_t ret, bool has_key, bool is_request,
                                        uint8_t flags);
static hg_return_t hg_header_check_sealed_request(struct hg_handle *handle,
                                                  const struct hg_msg *msg, na_tag_t tag);
static hg_return_t hg_header_check_sealed_response(struct hg_handle *handle,
                                                   const struct hg_msg *msg);
static hg_return_t hg_header_check_hash(struct hg_handle *handle, const struct hg_msg *msg);

hg_return_t hg_header_check_request(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                    na_tag_t tag, struct hg_core_header_request *header)
{
    hg_return_t ret;
    bool is_known;

    if (size < msg->header + sizeof(*header)) {
        hg_count(&handle->info.context->counters.refused_header);
        HG_LOG_DEBUG("refused a request of %zu bytes, it is shorter than its header", size);
        return HG_PROTOCOL_ERROR;
    }
    memcpy(header, msg->buf + msg->header, sizeof(*header));
    header->hg = le16toh(header->hg);
    header->cookie = le16toh(header->cookie);
    header->id = le64toh(header->id);
    is_known = header->hg == HG_CORE_REQUEST_MAGIC || header->hg == HG_CORE_ABANDON_MAGIC;
    ret = hg_header_check(handle, msg, size, header->hg, header->protocol, header->flags, is_known);
    if (ret == HG_SUCCESS)
        ret = hg_header_check_proof(handle, msg, true, tag);
    return ret;
}

hg_return_t hg_header_check_response(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                     struct hg_core_header_response *header)
{
    hg_return_t ret;
    bool is_known;

    if (size < msg->header + sizeof(*header)) {
        hg_count(&handle->info.context->counters.refused_header);
        HG_LOG_DEBUG("refused a response of %zu bytes, it is shorter than its header", size);
        return HG_PROTOCOL_ERROR;
    }
    memcpy(header, msg->buf + msg->header, sizeof(*header));
    header->hg = le16toh(header->hg);
    header->cookie = le16toh(header->cookie);
    header->id = le64toh(header->id);
    is_known = header->hg == HG_CORE_RESPONSE_MAGIC || header->hg == HG_CORE_ACK_MAGIC;
    ret = hg_header_check(handle, msg, size, header->hg, header->protocol, header->flags, is_known);
    if (ret == HG_SUCCESS)
        ret = hg_header_check_proof(handle, msg, false, 0);
    /* Anybody may have sent such a response, so the caller must not trust the code. */
    if (ret == HG_PERMISSION && !(header->flags & HG_CORE_HEADER_HAS_SEAL) &&
        header->ret_code == HG_HOSTUNREACH)
        ret = HG_HOSTUNREACH;
    /* A late response, which has another cookie, may have the id of another RPC. */
    if (ret == HG_SUCCESS &&
        (header->ret_code >= HG_RETURN_MAX ||
         (header->id != handle->info.id &&
          hg_header_cookie(header->cookie, header->cookie_high) == handle->cookie))) {
        hg_count(&handle->info.context->counters.refused_header);
        HG_LOG_DEBUG("refused a response with code %u for RPC %#" PRIx64, header->ret_code,
                     header->id);
        ret = HG_PROTOCOL_ERROR;
    }
    return ret;
}

hg_return_t hg_header_check_payload(const struct hg_handle *handle, const struct hg_msg *msg)
{
    const size_t offset = hg_msg_payload_offset(msg, msg->flags);
    struct hg_core_header_hash hash;

    if (!(msg->flags & HG_CORE_HEADER_HAS_PAYLOAD_HASH))
        return HG_SUCCESS;
    memcpy(&hash, msg->buf + msg->header + sizeof(struct hg_core_header_request), sizeof(hash));
    if (le32toh(hash.payload) == (uint32_t) hg_checksum(msg->buf + offset, msg->used, 0))
        return HG_SUCCESS;
    hg_count(&handle->info.context->counters.refused_checksum);
    HG_LOG_ERROR("the payload of RPC %#" PRIx64 " does not match its checksum; it was damaged",
                 handle->info.id);
    return HG_CHECKSUM_ERROR;
}

size_t hg_header_seal(const struct hg_handle *handle, char *header, na_tag_t tag, bool is_expected)
{
    const size_t size = hg_header_size(HG_CORE_HEADER_HAS_SEAL);

    /* An origin's handle may have the session of an earlier request, on the other path. */
    if (util_likely(handle->session == NULL ||
                    !(hg_rpc_class(handle->info.hg_class)->msg_flags[handle->path] &
                      HG_CORE_HEADER_HAS_SEAL)))
        return sizeof(struct hg_core_header_request);
    header[offsetof(struct hg_core_header_request, protocol)] = HG_CORE_SEALED_VERSION;
    header[offsetof(struct hg_core_header_request, flags)] |= HG_CORE_HEADER_HAS_SEAL;
    if (is_expected)
        hg_session_seal_expected(handle->session, header, size, handle->number);
    else
        (void) hg_session_seal(handle->session, header, size, tag);
    return size;
}

void hg_header_seal_message(struct hg_handle *handle, struct hg_msg *msg)
{
    char *header = msg->buf + msg->header;

    if (msg->flags & (HG_CORE_HEADER_HAS_SEAL | HG_CORE_HEADER_HELLO))
        header[offsetof(struct hg_core_header_request, protocol)] = HG_CORE_SEALED_VERSION;
    if (msg->flags & HG_CORE_HEADER_HAS_HASH)
        hg_header_hash(msg);
    if (msg->flags & HG_CORE_HEADER_HAS_SEAL) {
        const size_t size = hg_header_size(msg->flags) + msg->used;

        if (handle->is_origin)
            handle->number = hg_session_seal(handle->session, header, size, handle->tag);
        else
            hg_session_seal_expected(handle->session, header, size, handle->number);
    }
}

static void hg_header_hash(struct hg_msg *msg)
{
    char *header = msg->buf + msg->header;
    struct hg_core_header_hash hash = {0, 0};

    if (msg->flags & HG_CORE_HEADER_HAS_PAYLOAD_HASH)
        hash.payload = htole32((uint32_t) hg_checksum(
            msg->buf + hg_msg_payload_offset(msg, msg->flags), msg->used, 0));
    hash.header = htole32(hg_header_hash_of(header, hash.payload));
    memcpy(header + sizeof(struct hg_core_header_request), &hash, sizeof(hash));
}

/* Returns the checksum of the header and the payload's checksum. */
static uint32_t hg_header_hash_of(const char *header, uint32_t payload_hash)
{
    char bytes[sizeof(struct hg_core_header_request) + sizeof(payload_hash)];

    memcpy(bytes, header, sizeof(struct hg_core_header_request));
    memcpy(bytes + sizeof(struct hg_core_header_request), &payload_hash, sizeof(payload_hash));
    return (uint32_t) hg_checksum(bytes, sizeof(bytes), 0);
}

static hg_return_t hg_header_check(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                   uint16_t magic, uint8_t version, uint8_t flags,
                                   bool is_known_magic)
{
    const uint8_t wanted = (flags & (HG_CORE_HEADER_HAS_SEAL | HG_CORE_HEADER_HELLO))
                               ? HG_CORE_SEALED_VERSION
                               : HG_CORE_PROTOCOL_VERSION;
    struct hg_counters *counters = &handle->info.context->counters;
    size_t offset;

    if (util_unlikely(!is_known_magic)) {
        hg_count(&counters->refused_magic);
        HG_LOG_DEBUG("refused a message of %zu bytes that starts with %#x", size, magic);
        return HG_PROTOCOL_ERROR;
    }
    if (util_unlikely(version != wanted)) {
        HG_LOG_WRITE(hg_count_level(&counters->refused_version),
                     "refused a message of wire version %u, this library has version %u%s; both "
                     "sides must use the same",
                     version, wanted,
                     wanted == HG_CORE_SEALED_VERSION ? " of messages with a key" : "");
        return HG_PROTOCOL_ERROR;
    }
    offset = hg_msg_payload_offset(msg, flags);
    if (util_unlikely((flags & ~HG_HEADER_KNOWN_FLAGS) != 0 || size < offset || size > msg->size)) {
        hg_count(&counters->refused_header);
        HG_LOG_DEBUG("refused a message of %zu bytes with flags %#x", size, flags);
        return HG_PROTOCOL_ERROR;
    }
    msg->flags = flags;
    msg->used = size - offset;
    msg->has_payload = true;
    return HG_SUCCESS;
}

/* Without a key, a plain message has no proof to check. */
static inline hg_return_t hg_header_check_proof(struct hg_handle *handle, const struct hg_msg *msg,
                                                bool is_request, na_tag_t tag)
{
    const struct hg_rpc_class *hg_class = hg_rpc_class(handle->info.hg_class);

    if (util_likely(!((msg->flags | hg_class->msg_flags[handle->path]) & HG_HEADER_SPECIAL_FLAGS)))
        return HG_SUCCESS;
    return hg_header_check_key(handle, msg, is_request, tag);
}

/* Check that the sender proves our key, or, without a key, that the message uses none. */
static hg_return_t __attribute__((__noinline__))
hg_header_check_key(struct hg_handle *handle, const struct hg_msg *msg, bool is_request,
                    na_tag_t tag)
{
    const bool has_key = (hg_rpc_class(handle->info.hg_class)->msg_flags[handle->path] &
                          HG_CORE_HEADER_HAS_SEAL) != 0;
    const bool is_hello = (msg->flags & HG_CORE_HEADER_HELLO) != 0;
    hg_return_t ret = HG_SUCCESS;

    /* A HELLO or HELLO_ACK has no other flag. */
    if (is_hello)
        ret = has_key && msg->flags == HG_CORE_HEADER_HELLO &&
                      (is_request || handle->in.flags == HG_CORE_HEADER_HELLO)
                  ? HG_SUCCESS
                  : HG_PERMISSION;
    else if (has_key && (msg->flags & HG_CORE_HEADER_HAS_SEAL) && is_request)
        ret = hg_header_check_sealed_request(handle, msg, tag);
    else if (has_key && (msg->flags & HG_CORE_HEADER_HAS_SEAL) && handle->session != NULL)
        ret = hg_header_check_sealed_response(handle, msg);
    else if (has_key || (msg->flags & HG_CORE_HEADER_HAS_SEAL))
        ret = HG_PERMISSION;
    if (ret != HG_SUCCESS && ret != HG_AGAIN)
        HG_LOG_WRITE(hg_count_level(&handle->info.context->counters.refused_key),
                     "refused a message: %s",
                     hg_header_key_reason(ret, has_key, is_request, msg->flags));
    if (ret == HG_SUCCESS && (msg->flags & HG_CORE_HEADER_HAS_HASH))
        ret = hg_header_check_hash(handle, msg);
    return ret;
}

/* A peer with the right key, too, responds without a seal to a request that it refused. */
static const char *hg_header_key_reason(hg_return_t ret, bool has_key, bool is_request,
                                        uint8_t flags)
{
    if (ret == HG_HOSTUNREACH)
        return "there is no such session here (any more)";
    if (ret == HG_CANCELED)
        return "it has come before";
    if (!has_key)
        return "its sender has a key (auth_key), and we have none";
    if (flags & (HG_CORE_HEADER_HAS_SEAL | HG_CORE_HEADER_HELLO))
        return "the auth_key of its sender is not ours";
    return is_request ? "we have a key (auth_key), and its sender has none"
                      : "it has no seal: its sender has no key (auth_key), or refused ours";
}

static hg_return_t hg_header_check_sealed_request(struct hg_handle *handle,
                                                  const struct hg_msg *msg, na_tag_t tag)
{
    hg_return_t ret;

    handle->session = hg_sessions_check(
        handle->info.context, handle->path, handle->source.na_addr[handle->path],
        msg->buf + msg->header, hg_header_size(msg->flags) + msg->used, tag, &handle->number, &ret);
    return ret;
}

/* HG_AGAIN: the response is valid in the session, but for another request. */
static hg_return_t hg_header_check_sealed_response(struct hg_handle *handle,
                                                   const struct hg_msg *msg)
{
    struct hg_core_header_seal seal;

    hg_session_read_seal(msg->buf + msg->header, &seal);
    if (!(seal.number & HG_SESSION_EXPECTED) ||
        !hg_session_verify(handle->session, msg->buf + msg->header,
                           hg_header_size(msg->flags) + msg->used, &seal, 0))
        return HG_PERMISSION;
    return seal.reference == handle->number ? HG_SUCCESS : HG_AGAIN;
}

static hg_return_t hg_header_check_hash(struct hg_handle *handle, const struct hg_msg *msg)
{
    const char *header = msg->buf + msg->header;
    struct hg_core_header_hash hash;

    memcpy(&hash, header + sizeof(struct hg_core_header_request), sizeof(hash));
    if (le32toh(hash.header) == hg_header_hash_of(header, hash.payload))
        return HG_SUCCESS;
    HG_LOG_WRITE(hg_count_level(&handle->info.context->counters.refused_checksum),
                 "refused a message whose header does not match its checksum; it was damaged");
    return HG_CHECKSUM_ERROR;
}
