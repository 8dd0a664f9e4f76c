/* SPDX-License-Identifier: BSD-3-Clause */
#include "hg/session.h"

#include "engine/timer.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static void session_seal(struct hg_session *session, char *header, size_t size, uint64_t reference,
                         uint64_t number, na_tag_t tag);
static size_t seal_offset(const char *header);

_Static_assert(sizeof(((struct hg_core_header_seal *) 0)->tag) == KIT_AUTH_TAG, "wire format");

struct hg_session *hg_session_new(uint64_t id, const struct kit_auth_keys *keys)
{
    struct hg_session *session = calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    session->id = id;
    session->made_ns = hg_clock_ns();
    memcpy(session->send, keys->send, sizeof(session->send));
    memcpy(session->receive, keys->receive, sizeof(session->receive));
    atomic_init(&session->ref, 1);
    return session;
}

void hg_session_unref(struct hg_session *session)
{
    if (session == NULL || atomic_fetch_sub_explicit(&session->ref, 1, memory_order_acq_rel) != 1)
        return;
    if (session->na_addr != NULL)
        NA_Addr_free(session->na_class, session->na_addr);
    hg_window_fini(&session->window);
    kit_auth_wipe(session, sizeof(*session));
    free(session);
}

uint64_t hg_session_seal(struct hg_session *session, char *header, size_t size, na_tag_t tag)
{
    const uint64_t number = atomic_fetch_add_explicit(&session->sent, 1, memory_order_relaxed) + 1;

    session_seal(session, header, size, session->id, number, tag);
    return number;
}

void hg_session_seal_expected(struct hg_session *session, char *header, size_t size,
                              uint64_t request)
{
    const uint64_t number =
        atomic_fetch_add_explicit(&session->sent_expected, 1, memory_order_relaxed) + 1;

    session_seal(session, header, size, request, number | HG_SESSION_EXPECTED, 0);
}

void hg_session_unsend(struct hg_session *session, uint64_t number)
{
    (void) atomic_compare_exchange_strong(&session->sent, &number, number - 1);
}

void hg_session_read_seal(const char *header, struct hg_core_header_seal *seal)
{
    memcpy(seal, header + seal_offset(header), sizeof(*seal));
    seal->reference = le64toh(seal->reference);
    seal->number = le64toh(seal->number);
}

bool hg_session_verify(const struct hg_session *session, char *header, size_t size,
                       const struct hg_core_header_seal *seal, na_tag_t tag)
{
    memset(header + seal_offset(header) + offsetof(struct hg_core_header_seal, tag), 0,
           sizeof(seal->tag));
    return kit_auth_fits(seal->tag, session->receive, seal->number, tag, header, size, size);
}

/* The authentication tag covers the whole message, with zeros in place of the tag. */
static void session_seal(struct hg_session *session, char *header, size_t size, uint64_t reference,
                         uint64_t number, na_tag_t tag)
{
    char *at = header + seal_offset(header);
    struct hg_core_header_seal seal = {
        .reference = htole64(reference),
        .number = htole64(number),
    };

    memcpy(at, &seal, sizeof(seal));
    kit_auth_write(seal.tag, session->send, number, tag, header, size, size);
    memcpy(at + offsetof(struct hg_core_header_seal, tag), seal.tag, sizeof(seal.tag));
}

/* The seal follows the checksums. */
static size_t seal_offset(const char *header)
{
    const uint8_t flags = (uint8_t) header[offsetof(struct hg_core_header_request, flags)];

    return sizeof(struct hg_core_header_request) +
           ((flags & HG_CORE_HEADER_HAS_HASH) ? sizeof(struct hg_core_header_hash) : 0);
}
