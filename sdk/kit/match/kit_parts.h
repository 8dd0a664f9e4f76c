/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reassembly of messages that are sent in parts, because they are longer than the transport's
 * frames. One message of each sender is reassembled at a time: its parts come in order, and a part
 * with offset 0 begins a message, even if the previous one is incomplete. The caller's lock guards
 * all objects here, as those of kit_match.h. Since 1.2.
 */

#ifndef KIT_PARTS_H
#define KIT_PARTS_H

#include "kit_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Header of a part. It comes from the peer and is not trusted. */
struct kit_part {
    uint32_t kind; /* of the message; kind, ids and tag are only compared here */
    uint32_t source_id;
    uint32_t dest_id;
    uint32_t queue; /* queue of the sender, which has one for each name of ours */
    uint32_t tag;
    uint32_t total;  /* bytes of the message */
    uint32_t offset; /* of the part in the message */
    uint32_t size;   /* bytes of the part */
};

/* A message of which the first `filled` bytes have come. */
struct kit_parted {
    struct kit_parted *next;
    struct kit_part first; /* header of the first part */
    uint64_t taken;        /* kit_parts.taken at its last part: the least has waited longest */
    uint32_t filled;
    /* the bytes of the message follow: kit_parted_data() */
};

/* The memory for messages that are being reassembled. */
struct kit_parts {
    uint64_t longest;   /* bytes of the longest message; a longer one is refused */
    uint64_t bytes_max; /* of all messages that are being reassembled */
    uint64_t taken;     /* count of parts taken */
    struct kit_parted *free;
    uint32_t kept;  /* length of `free` */
    uint32_t count; /* number of allocated messages, with those in `free` */
};

/* What the caller does with a part of a message. */
enum kit_part_result {
    KIT_PART_TAKEN,    /* copy its bytes to kit_parted_data() + offset, call kit_part_is_last() */
    KIT_PART_BAD,      /* invalid */
    KIT_PART_STRAY,    /* its message has not begun or was dropped; drop the part */
    KIT_PART_NO_MEMORY /* for a new message */
};

/* Returns the bytes of the message, valid until kit_parted_drop(). */
static inline uint8_t *kit_parted_data(struct kit_parted *parted)
{
    return (uint8_t *) (parted + 1);
}

/* Takes a part. `*parted` is of its sender, initially NULL, and lives until kit_parted_drop(). */
enum kit_part_result kit_part_take(struct kit_parts *parts, struct kit_parted **parted,
                                   const struct kit_part *part);

/* Counts a part whose bytes were copied. True: the message is complete. */
bool kit_part_is_last(struct kit_parted *parted, const struct kit_part *part);

/* The complete message cannot be delivered yet: its last part will be taken again. */
void kit_part_again(struct kit_parted *parted, const struct kit_part *part);

/* Frees the message, if there is one, or keeps its memory for reuse; `*parted` is NULL then. */
void kit_parted_drop(struct kit_parts *parts, struct kit_parted **parted);

/* Frees the memory that is kept for reuse. */
void kit_parts_free(struct kit_parts *parts);

#ifdef __cplusplus
}
#endif

#endif /* KIT_PARTS_H */
