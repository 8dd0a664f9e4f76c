/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headers of RPC messages. Plain headers, without checksum, seal or HELLO, are written and read
 * inline; all others by header.c.
 */
#ifndef HG_HEADER_H
#define HG_HEADER_H

#include "hg/handle.h"

#include <endian.h>
#include <string.h>

/* Bits of a cookie. It has the next bits of the generation after the tag; a response returns it. */
#define HG_COOKIE_MASK        0x00ffffffu

#define HG_CORE_ABANDON_MAGIC 0x4348 /* "HC": the origin does not wait for the response any more */

/*
 * Seal the header of a control message about a handle's RPC, if the handle has a session. The
 * buffer has room for the seal. Returns the size of the message after NA's header.
 */
size_t hg_header_seal(const struct hg_handle *handle, char *header, na_tag_t tag, bool is_expected);

static inline uint32_t hg_header_cookie(uint16_t low, uint8_t high)
{
    return (uint32_t) high << 16 | low;
}

/* Check the payload's checksum, if there is one. */
hg_return_t hg_header_check_payload(const struct hg_handle *handle, const struct hg_msg *msg);

/* Flags of messages that are not plain. */
#define HG_HEADER_SPECIAL_FLAGS \
    (HG_CORE_HEADER_HAS_HASH | HG_CORE_HEADER_HAS_SEAL | HG_CORE_HEADER_HELLO)

static inline size_t hg_header_size(uint8_t flags)
{
    return sizeof(struct hg_core_header_request) +
           ((flags & HG_CORE_HEADER_HAS_HASH) ? sizeof(struct hg_core_header_hash) : 0) +
           ((flags & HG_CORE_HEADER_HAS_SEAL) ? sizeof(struct hg_core_header_seal) : 0);
}

/* Returns the offset of the payload in the buffer of a message. */
static inline size_t hg_msg_payload_offset(const struct hg_msg *msg, uint8_t flags)
{
    if (util_likely(!(flags & HG_HEADER_SPECIAL_FLAGS)))
        return msg->header + sizeof(struct hg_core_header_request);
    return msg->header + hg_header_size(flags);
}

/* Flags that a plain message may have; its payload directly follows the header. */
#define HG_HEADER_PLAIN_FLAGS \
    (HG_CORE_HEADER_MORE_DATA | HG_CORE_HEADER_NO_RESPONSE | HG_CORE_HEADER_PORTABLE)

/* Add the checksums and the seal that the flags of a message ask for. */
void hg_header_seal_message(struct hg_handle *handle, struct hg_msg *msg);

/*
 * Check the header of a message of `size` bytes, and set `flags` and `used` of `msg`. A refused
 * message is counted and logged.
 *
 * With a key a valid request sets the handle's session. HG_PERMISSION (wrong key or none) and
 * HG_HOSTUNREACH (no such session) are to be sent to the origin. For a response these two mean that
 * it is not sealed in the session, so that anybody may have sent it; HG_AGAIN means that it is
 * sealed for another request. With these three codes *header is set.
 */
hg_return_t hg_header_check_request(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                    na_tag_t tag, struct hg_core_header_request *header);
hg_return_t hg_header_check_response(struct hg_handle *handle, struct hg_msg *msg, size_t size,
                                     struct hg_core_header_response *header);

/* Complete a message after its header; returns the size of the whole message. */
static UTIL_ALWAYS_INLINE size_t hg_header_finish(struct hg_handle *handle, struct hg_msg *msg,
                                                  uint8_t flags, size_t payload)
{
    msg->flags = flags;
    msg->used = payload;
    msg->has_payload = true;
    if (util_unlikely((flags & HG_HEADER_SPECIAL_FLAGS) != 0))
        hg_header_seal_message(handle, msg);
    return hg_msg_payload_offset(msg, flags) + payload;
}

/* Write the header before `payload` bytes of payload; returns the size of the whole message. */
static UTIL_ALWAYS_INLINE size_t hg_header_write_request(struct hg_handle *handle, uint8_t flags,
                                                         size_t payload)
{
    struct hg_msg *msg = &handle->in;
    struct hg_core_header_request *header = (void *) (msg->buf + msg->header);

    *header = (struct hg_core_header_request){
        .hg = htole16(HG_CORE_REQUEST_MAGIC),
        .protocol = HG_CORE_PROTOCOL_VERSION,
        .flags = flags,
        .cookie = htole16((uint16_t) handle->cookie),
        .origin = handle->info.context->id,
        .cookie_high = (uint8_t) (handle->cookie >> 16),
        .id = htole64(handle->info.id),
    };
    return hg_header_finish(handle, msg, flags, payload);
}

static UTIL_ALWAYS_INLINE size_t hg_header_write_response(struct hg_handle *handle, uint16_t magic,
                                                          uint8_t flags, hg_return_t ret_code,
                                                          size_t payload)
{
    struct hg_msg *msg = &handle->out;
    struct hg_core_header_response *header = (void *) (msg->buf + msg->header);

    *header = (struct hg_core_header_response){
        .hg = htole16(magic),
        .protocol = HG_CORE_PROTOCOL_VERSION,
        .flags = flags,
        .cookie = htole16((uint16_t) handle->cookie),
        .ret_code = (uint8_t) ret_code,
        .cookie_high = (uint8_t) (handle->cookie >> 16),
        .id = htole64(handle->info.id),
    };
    return hg_header_finish(handle, msg, flags, payload);
}

/* Accept a plain message; false if the message or the class needs the checks of header.c. */
static UTIL_ALWAYS_INLINE bool hg_header_accept_plain(const struct hg_handle *handle,
                                                      struct hg_msg *msg, size_t size,
                                                      uint8_t flags)
{
    const unsigned int all =
        flags | (unsigned int) hg_rpc_class(handle->info.hg_class)->msg_flags[handle->path];

    if (util_unlikely((all & ~(unsigned int) HG_HEADER_PLAIN_FLAGS) != 0 || size > msg->size))
        return false;
    msg->flags = flags;
    msg->used = size - msg->header - sizeof(struct hg_core_header_request);
    msg->has_payload = true;
    return true;
}

/* Like hg_header_check_request(), with a fast path for plain messages. */
static UTIL_ALWAYS_INLINE hg_return_t hg_header_read_request(struct hg_handle *handle, size_t size,
                                                             na_tag_t tag,
                                                             struct hg_core_header_request *header)
{
    struct hg_msg *msg = &handle->in;

    if (util_likely(size >= msg->header + sizeof(*header))) {
        memcpy(header, msg->buf + msg->header, sizeof(*header));
        header->hg = le16toh(header->hg);
        header->cookie = le16toh(header->cookie);
        header->id = le64toh(header->id);
        if (util_likely(header->hg == HG_CORE_REQUEST_MAGIC &&
                        header->protocol == HG_CORE_PROTOCOL_VERSION) &&
            hg_header_accept_plain(handle, msg, size, header->flags))
            return HG_SUCCESS;
    }
    return hg_header_check_request(handle, msg, size, tag, header);
}

/* Like hg_header_check_response(), with a fast path for plain messages. */
static UTIL_ALWAYS_INLINE hg_return_t hg_header_read_response(
    struct hg_handle *handle, size_t size, struct hg_core_header_response *header)
{
    struct hg_msg *msg = &handle->out;

    if (util_likely(size >= msg->header + sizeof(*header))) {
        memcpy(header, msg->buf + msg->header, sizeof(*header));
        header->hg = le16toh(header->hg);
        header->cookie = le16toh(header->cookie);
        header->id = le64toh(header->id);
        if (util_likely(header->hg == HG_CORE_RESPONSE_MAGIC &&
                        header->protocol == HG_CORE_PROTOCOL_VERSION &&
                        header->ret_code < HG_RETURN_MAX && header->id == handle->info.id) &&
            hg_header_accept_plain(handle, msg, size, header->flags))
            return HG_SUCCESS;
    }
    return hg_header_check_response(handle, msg, size, header);
}

#endif /* HG_HEADER_H */
