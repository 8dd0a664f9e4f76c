/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that come in parts, because they are longer than what their way takes at once. Of each
 * sender one is put together at a time: its parts come in order, one with offset 0 begins a message
 * whatever became of the one before, and when all are there it is as any other. The caller holds
 * the lock that guards the memory, as of kit_match.h. Since 1.2.
 */

#ifndef KIT_PARTS_H
#define KIT_PARTS_H

#include "kit_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a part says of itself. All of it comes from the peer. */
struct kit_part {
    uint32_t kind; /* of the message; it, ids and tag are the caller's to check and to use */
    uint32_t source_id;
    uint32_t dest_id;
    uint32_t queue; /* of the sender's, which has one for each name of ours */
    uint32_t tag;
    uint32_t total;  /* bytes of the message */
    uint32_t offset; /* where the part belongs */
    uint32_t size;   /* bytes of the part */
};

/* A message of which the first `filled` bytes have come; `first` says what it is. */
struct kit_parted {
    struct kit_parted *next;
    struct kit_part first;
    uint64_t
        taken; /* counts the parts of all messages: the least is of the one that waits longest */
    uint32_t filled;
    /* its bytes are behind it: kit_parted_data() */
};

/* The memory for such messages. */
struct kit_parts {
    uint64_t longest;   /* bytes of the longest message: more is refused */
    uint64_t bytes_max; /* of all messages that are begun */
    uint64_t taken;     /* parts */
    struct kit_parted *free;
    uint32_t kept;  /* those in `free` */
    uint32_t count; /* and all */
};

/* What became of a part. */
enum kit_part_result {
    KIT_PART_TAKEN,    /* its bytes go to data + offset, then kit_part_is_last() is asked */
    KIT_PART_BAD,      /* no honest sender sends this */
    KIT_PART_STRAY,    /* its message has not begun, or was abandoned: to be dropped */
    KIT_PART_NO_MEMORY /* for a message that begins */
};

/* The bytes of the message; they live as long as it does. */
static inline uint8_t *kit_parted_data(struct kit_parted *parted)
{
    return (uint8_t *) (parted + 1);
}

/* `*parted` is the sender's, NULL at first, and lives until kit_parted_drop(). */
enum kit_part_result kit_part_take(struct kit_parts *parts, struct kit_parted **parted,
                                   const struct kit_part *part);

/* The bytes of the part were copied. True: the message is whole, and the caller's to take. */
bool kit_part_is_last(struct kit_parted *parted, const struct kit_part *part);

/* The whole message cannot be taken yet: its last part is going to come again. */
void kit_part_again(struct kit_parted *parted, const struct kit_part *part);

/*
 * What was begun is over, if anything was, and `*parted` is NULL; a few buffers are kept for the
 * next messages, until kit_parts_free().
 */
void kit_parted_drop(struct kit_parts *parts, struct kit_parted **parted);

/* Frees what is kept. */
void kit_parts_free(struct kit_parts *parts);

#ifdef __cplusplus
}
#endif

#endif /* KIT_PARTS_H */
