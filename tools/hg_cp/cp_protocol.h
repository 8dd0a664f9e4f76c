/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPCs between the two sides of hg_cp. A copy is one open, then pulls that each carry the
 * descriptor of a part of the file, then one close. */

#ifndef AMALGAM_CP_PROTOCOL_H
#define AMALGAM_CP_PROTOCOL_H

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

/* Longest reason that an answer carries, with its end. */
#define CP_TEXT_SIZE 512

/* Largest block, and most blocks, that one copy may have in its pipeline. */
#define CP_BLOCK_MAX (UINT64_C(256) << 20)
#define CP_DEPTH_MAX 256U

/* Largest part of the file that one RPC offers, and most of them that wait at the target. */
#define CP_PART_MAX  (UINT64_C(1) << 30)
#define CP_PARTS_MAX 8U

/* What an answer says; the text says it in words. */
enum cp_status {
    CP_OK,
    CP_FAILED
};

/* Open: a file of this name and size will come. The descriptor is of a number, CP_ALIVE_SIZE bytes,
 * that the origin increases while it runs: the target looks at it when nothing else is in flight,
 * and a transport that finds the origin gone fails that. */
#define CP_ALIVE_SIZE sizeof(uint64_t)
MERCURY_GEN_PROC(cp_open_in_t, ((hg_const_string_t) (name))((uint64_t) (size))((uint32_t) (mode))(
                                   (uint8_t) (force))((hg_bulk_t) (alive)))
MERCURY_GEN_PROC(cp_open_out_t,
                 ((uint32_t) (status))((uint64_t) (session))((hg_const_string_t) (text)))

/* Pull: size bytes from offset are at the descriptor. Answered when they are written. */
MERCURY_GEN_PROC(cp_pull_in_t,
                 ((uint64_t) (session))((uint64_t) (offset))((uint64_t) (size))((hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(cp_pull_out_t, ((uint32_t) (status))((hg_const_string_t) (text)))

/* Close: keep the file if its digest is this one, or drop it. Answered when it has its name. */
MERCURY_GEN_PROC(cp_close_in_t, ((uint64_t) (session))((uint8_t) (keep))((uint64_t) (digest_high))(
                                    (uint64_t) (digest_low)))
MERCURY_GEN_PROC(cp_close_out_t, ((uint32_t) (status))((hg_const_string_t) (text)))

struct cp_rpc_ids {
    hg_id_t open, pull, close;
};

/* Registers the RPCs; the callbacks are NULL in the origin. */
bool cp_protocol_register(hg_class_t *hg_class, hg_rpc_cb_t open, hg_rpc_cb_t pull,
                          hg_rpc_cb_t close, struct cp_rpc_ids *ids);

#endif /* AMALGAM_CP_PROTOCOL_H */
