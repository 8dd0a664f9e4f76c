/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPCs between the two sides of hg_cp. A copy is one open, then pulls, each with the
 * descriptor of a part of the file, then one close. */

#ifndef AMALGAM_CP_PROTOCOL_H
#define AMALGAM_CP_PROTOCOL_H

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

/* Maximum length of an error text in an answer, with its null byte. */
#define CP_TEXT_SIZE 512

/* Maximum size and number of the blocks in the pipeline of a copy. */
#define CP_BLOCK_MAX (UINT64_C(256) << 20)
#define CP_DEPTH_MAX 256U

/* Maximum size of a part of the file that one RPC offers, and maximum number of parts that wait
 * at the target. */
#define CP_PART_MAX  (UINT64_C(1) << 30)
#define CP_PARTS_MAX 8U

/* Result in an answer; the text explains it. */
enum cp_status {
    CP_OK,
    CP_FAILED
};

/* Open: announces a file of this name and size. The descriptor covers a number of CP_ALIVE_SIZE
 * bytes that the origin increments while it runs. The target pulls it when nothing else is in
 * flight; the pull fails if the transport finds the origin gone. */
#define CP_ALIVE_SIZE sizeof(uint64_t)
MERCURY_GEN_PROC(cp_open_in_t, ((hg_const_string_t) (name))((uint64_t) (size))((uint32_t) (mode))(
                                   (uint8_t) (force))((hg_bulk_t) (alive)))
MERCURY_GEN_PROC(cp_open_out_t,
                 ((uint32_t) (status))((uint64_t) (session))((hg_const_string_t) (text)))

/* Pull: offers size bytes of the file from offset by a descriptor. Answered after the write. */
MERCURY_GEN_PROC(cp_pull_in_t,
                 ((uint64_t) (session))((uint64_t) (offset))((uint64_t) (size))((hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(cp_pull_out_t, ((uint32_t) (status))((hg_const_string_t) (text)))

/* Close: publishes the file if its digest matches, or drops it. Answered after that. */
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
