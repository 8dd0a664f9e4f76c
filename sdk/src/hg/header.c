/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header of RPC messages: writing it, and checking what came from the wire.
 */

#include "hg/header.h"

#include "engine/checksum.h"

#include <inttypes.h>

/* Flags that a message may carry; others are refused, they may change the layout. */
#define HG_HEADER_KNOWN_FLAGS                                                            \
    (HG_HEADER_PLAIN_FLAGS | HG_CORE_HEADER_HAS_PAYLOAD_HASH | HG_CORE_HEADER_HAS_HASH | \
     HG_CORE_HEADER_HAS_TAG)

_Static_assert(sizeof(struct hg_core_header_request) == 16, "wire format");
_Static_assert(sizeof(struct hg_core_header_response) == 16, "wire format");
_Static_assert(sizeof(struct hg_core_header_hash) == 8, "wire format");

static uint64_t hg_header_tag(const hg_class_t *hg_class, const struct hg_msg *msg, uint8_t flags,
                              size_t payload);
static hg_return_t hg_header_check_tag(struct hg_handle *handle, const struct hg_msg *msg);
static void hg_header_hash(struct hg_msg *msg, uint8_t flags, size_t payload);
static uint32_t hg_header_hash_of(const char *header, uint32_t payload_hash);
static hg_return_t hg_header_check(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                   uint16_t magic, uint8_t version, uint8_t flags,
                                   bool is_known_magic);
static hg_return_t hg_header_check_seals(struct hg_handle *handle, const struct hg_msg *msg);
static hg_return_t hg_header_check_hash(struct hg_handle *handle, const struct hg_msg *msg);

hg_return_t hg_header_check_request(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                    struct hg_core_header_request *header)
{
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
    return hg_header_check(handle, msg, size, header->hg, header->protocol, header->flags,
                           is_known);
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
    /* A late one, which the cookie tells, may be of another RPC. */
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

size_t hg_header_seal(const hg_class_t *hg_class, char *header)
{
    const size_t size = sizeof(struct hg_core_header_request);
    uint64_t tag;

    if (util_likely(!(hg_rpc_class(hg_class)->hash_flags & HG_CORE_HEADER_HAS_TAG)))
        return size;
    header[offsetof(struct hg_core_header_request, flags)] |= HG_CORE_HEADER_HAS_TAG;
    tag = htole64(hg_key_tag(&hg_rpc_class(hg_class)->key, header, size, NULL, 0));
    memcpy(header + size, &tag, sizeof(tag));
    return size + sizeof(tag);
}

void hg_header_seal_message(const struct hg_handle *handle, struct hg_msg *msg)
{
    if (msg->flags & HG_CORE_HEADER_HAS_HASH)
        hg_header_hash(msg, msg->flags, msg->used);
    if (msg->flags & HG_CORE_HEADER_HAS_TAG) {
        const uint64_t tag =
            htole64(hg_header_tag(handle->info.hg_class, msg, msg->flags, msg->used));

        memcpy(msg->buf + hg_msg_payload_offset(msg, msg->flags) - sizeof(tag), &tag, sizeof(tag));
    }
}

static void hg_header_hash(struct hg_msg *msg, uint8_t flags, size_t payload)
{
    char *header = msg->buf + msg->header;
    struct hg_core_header_hash hash = {0, 0};

    if (flags & HG_CORE_HEADER_HAS_PAYLOAD_HASH)
        hash.payload = htole32(
            (uint32_t) hg_checksum(msg->buf + hg_msg_payload_offset(msg, flags), payload, 0));
    hash.header = htole32(hg_header_hash_of(header, hash.payload));
    memcpy(header + sizeof(struct hg_core_header_request), &hash, sizeof(hash));
}

/* Over all of the message but the transport's header and the tag itself. */
static uint64_t hg_header_tag(const hg_class_t *hg_class, const struct hg_msg *msg, uint8_t flags,
                              size_t payload)
{
    const size_t offset = hg_msg_payload_offset(msg, flags);

    return hg_key_tag(&hg_rpc_class(hg_class)->key, msg->buf + msg->header,
                      offset - msg->header - sizeof(struct hg_core_header_tag), msg->buf + offset,
                      payload);
}

/* Checksum of the header and of the payload's checksum. */
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
    struct hg_counters *counters = &handle->info.context->counters;
    size_t offset;

    if (util_unlikely(!is_known_magic)) {
        hg_count(&counters->refused_magic);
        HG_LOG_DEBUG("refused a message of %zu bytes that starts with %#x", size, magic);
        return HG_PROTOCOL_ERROR;
    }
    if (util_unlikely(version != HG_CORE_PROTOCOL_VERSION)) {
        HG_LOG_WRITE(hg_count_level(&counters->refused_version),
                     "refused a message of wire version %u, this library has version %u; both "
                     "sides must use the same",
                     version, HG_CORE_PROTOCOL_VERSION);
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
    if (util_unlikely(
            ((flags | hg_rpc_class(handle->info.hg_class)->hash_flags) & HG_HEADER_SEALS) != 0))
        return hg_header_check_seals(handle, msg);
    return HG_SUCCESS;
}

static hg_return_t __attribute__((__noinline__))
hg_header_check_seals(struct hg_handle *handle, const struct hg_msg *msg)
{
    if (((msg->flags | hg_rpc_class(handle->info.hg_class)->hash_flags) & HG_CORE_HEADER_HAS_TAG) !=
            0 &&
        hg_header_check_tag(handle, msg) != HG_SUCCESS)
        return HG_PERMISSION;
    if (msg->flags & HG_CORE_HEADER_HAS_HASH)
        return hg_header_check_hash(handle, msg);
    return HG_SUCCESS;
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

/* Whoever has another key, or none where we have one, or one where we have none. */
static hg_return_t hg_header_check_tag(struct hg_handle *handle, const struct hg_msg *msg)
{
    const hg_class_t *hg_class = handle->info.hg_class;
    const bool has_tag = (msg->flags & HG_CORE_HEADER_HAS_TAG) != 0;
    uint64_t tag;

    if (!has_tag && hg_rpc_class(hg_class)->is_authenticated[handle->path])
        return HG_SUCCESS;
    if (has_tag && hg_rpc_class(hg_class)->has_key) {
        memcpy(&tag, msg->buf + hg_msg_payload_offset(msg, msg->flags) - sizeof(tag), sizeof(tag));
        if (le64toh(tag) == hg_header_tag(hg_class, msg, msg->flags, msg->used))
            return HG_SUCCESS;
    }
    HG_LOG_WRITE(hg_count_level(&handle->info.context->counters.refused_key),
                 "refused a message: the auth_key of its sender is not ours");
    return HG_PERMISSION;
}
