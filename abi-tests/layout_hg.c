/* SPDX-License-Identifier: BSD-3-Clause */
/* Every struct and every enumerator that programs share with libamalgam-hg, as of 1.0. */

#include "layout.h"
#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_core.h"
#include "mercury_ext.h"
#include "mercury_proc.h"
#include "mercury_proc_ext.h"
#include "mercury_string_object.h"

GROWS(hg_init_info, 112);
AT(hg_init_info, na_init_info, 0);
AT(hg_init_info, na_class, 48);
AT(hg_init_info, request_post_init, 56);
AT(hg_init_info, request_post_incr, 60);
AT(hg_init_info, auto_sm, 64);
AT(hg_init_info, sm_info_string, 72);
AT(hg_init_info, checksum_level, 80);
AT(hg_init_info, no_bulk_eager, 84);
AT(hg_init_info, no_loopback, 85);
AT(hg_init_info, stats, 86);
AT(hg_init_info, no_multi_recv, 87);
AT(hg_init_info, release_input_early, 88);
AT(hg_init_info, traffic_class, 92);
AT(hg_init_info, no_overflow, 96);
AT(hg_init_info, multi_recv_op_max, 100);
AT(hg_init_info, multi_recv_copy_threshold, 104);
#if LAYOUT_MINOR >= 1
AT(hg_init_info, auth_key_also, 112);
AT(hg_init_info, encrypt, 120);
AT(hg_init_info, mem_per_session, 121);
#endif

SIZE(hg_diag_counters, 72);
AT(hg_diag_counters, rpc_req_sent_count, 0);
AT(hg_diag_counters, rpc_req_recv_count, 8);
AT(hg_diag_counters, rpc_resp_sent_count, 16);
AT(hg_diag_counters, rpc_resp_recv_count, 24);
AT(hg_diag_counters, rpc_req_extra_count, 32);
AT(hg_diag_counters, rpc_resp_extra_count, 40);
AT(hg_diag_counters, rpc_req_recv_active_count, 48);
AT(hg_diag_counters, rpc_multi_recv_copy_count, 56);
AT(hg_diag_counters, bulk_count, 64);

SIZE(hg_info, 40);
AT(hg_info, hg_class, 0);
AT(hg_info, context, 8);
AT(hg_info, addr, 16);
AT(hg_info, id, 24);
AT(hg_info, context_id, 32);

SIZE(hg_bulk_attr, 16);
AT(hg_bulk_attr, mem_type, 0);
AT(hg_bulk_attr, device, 8);

SIZE(hg_cb_info_lookup, 8);
AT(hg_cb_info_lookup, addr, 0);

SIZE(hg_cb_info_forward, 8);
AT(hg_cb_info_forward, handle, 0);

SIZE(hg_cb_info_respond, 8);
AT(hg_cb_info_respond, handle, 0);

SIZE(hg_cb_info_bulk, 32);
AT(hg_cb_info_bulk, origin_handle, 0);
AT(hg_cb_info_bulk, local_handle, 8);
AT(hg_cb_info_bulk, op, 16);
AT(hg_cb_info_bulk, size, 24);

SIZE(hg_cb_info, 48);
AT(hg_cb_info, info, 0);
AT(hg_cb_info, info.lookup, 0);
AT(hg_cb_info, info.forward, 0);
AT(hg_cb_info, info.respond, 0);
AT(hg_cb_info, info.bulk, 0);
AT(hg_cb_info, arg, 32);
AT(hg_cb_info, type, 40);
AT(hg_cb_info, ret, 44);

GROWS(hg_ext_counters, 80);
AT(hg_ext_counters, refused_magic_count, 0);
AT(hg_ext_counters, refused_version_count, 8);
AT(hg_ext_counters, refused_header_count, 16);
AT(hg_ext_counters, refused_checksum_count, 24);
AT(hg_ext_counters, unknown_rpc_count, 32);
AT(hg_ext_counters, late_response_count, 40);
AT(hg_ext_counters, send_error_count, 48);
AT(hg_ext_counters, sm_req_sent_count, 56);
AT(hg_ext_counters, sm_req_recv_count, 64);
AT(hg_ext_counters, sm_bulk_count, 72);
#if LAYOUT_MINOR >= 1
AT(hg_ext_counters, timeout_count, 80);
AT(hg_ext_counters, parked_count, 88);
AT(hg_ext_counters, forward_done_count, 96);
AT(hg_ext_counters, forward_canceled_count, 104);
AT(hg_ext_counters, forward_timeout_count, 112);
AT(hg_ext_counters, forward_error_count, 120);
AT(hg_ext_counters, bulk_bytes, 128);
AT(hg_ext_counters, bulk_canceled_count, 136);
AT(hg_ext_counters, bulk_timeout_count, 144);
AT(hg_ext_counters, bulk_error_count, 152);
AT(hg_ext_counters, retry_count, 160);
AT(hg_ext_counters, req_sent_bytes, 168);
AT(hg_ext_counters, req_recv_bytes, 176);
AT(hg_ext_counters, resp_sent_bytes, 184);
AT(hg_ext_counters, resp_recv_bytes, 192);
AT(hg_ext_counters, queued_count, 200);
AT(hg_ext_counters, waiting_count, 208);
AT(hg_ext_counters, refused_key_count, 216);
AT(hg_ext_counters, overflow_queued_count, 224);
AT(hg_ext_counters, overflow_waiting_count, 232);
AT(hg_ext_counters, overflow_refused_count, 240);
AT(hg_ext_counters, overflow_bytes, 248);
#endif

SIZE(hg_proc_cursor, 24);
AT(hg_proc_cursor, next, 0);
AT(hg_proc_cursor, left, 8);
AT(hg_proc_cursor, op, 16);
AT(hg_proc_cursor, reserved, 20);

SIZE(hg_string_object, 16);
AT(hg_string_object, data, 0);
AT(hg_string_object, is_const, 8);
AT(hg_string_object, is_owned, 9);

VALUE(NA_TC_UNSPEC, 0);
VALUE(NA_TC_BEST_EFFORT, 1);
VALUE(NA_TC_LOW_LATENCY, 2);
VALUE(NA_TC_BULK_DATA, 3);
VALUE(NA_TC_DEDICATED_ACCESS, 4);
VALUE(NA_TC_SCAVENGER, 5);
VALUE(NA_TC_NETWORK_CTRL, 6);

VALUE(HG_CHECKSUM_NONE, 0);
VALUE(HG_CHECKSUM_RPC_HEADERS, 1);
VALUE(HG_CHECKSUM_RPC_PAYLOAD, 2);

VALUE(HG_SUCCESS, 0);
VALUE(HG_PERMISSION, 1);
VALUE(HG_NOENTRY, 2);
VALUE(HG_INTERRUPT, 3);
VALUE(HG_AGAIN, 4);
VALUE(HG_NOMEM, 5);
VALUE(HG_ACCESS, 6);
VALUE(HG_FAULT, 7);
VALUE(HG_BUSY, 8);
VALUE(HG_EXIST, 9);
VALUE(HG_NODEV, 10);
VALUE(HG_INVALID_ARG, 11);
VALUE(HG_PROTOCOL_ERROR, 12);
VALUE(HG_OVERFLOW, 13);
VALUE(HG_MSGSIZE, 14);
VALUE(HG_PROTONOSUPPORT, 15);
VALUE(HG_OPNOTSUPPORTED, 16);
VALUE(HG_ADDRINUSE, 17);
VALUE(HG_ADDRNOTAVAIL, 18);
VALUE(HG_HOSTUNREACH, 19);
VALUE(HG_TIMEOUT, 20);
VALUE(HG_CANCELED, 21);
VALUE(HG_IO_ERROR, 22);
VALUE(HG_HOSTFIREWALL, 23);
VALUE(HG_CHECKSUM_ERROR, 24);
VALUE(HG_NA_ERROR, 25);
VALUE(HG_OTHER_ERROR, 26);

VALUE(HG_CB_LOOKUP, 0);
VALUE(HG_CB_FORWARD, 1);
VALUE(HG_CB_RESPOND, 2);
VALUE(HG_CB_BULK, 3);

VALUE(HG_UNDEF, 0);
VALUE(HG_INPUT, 1);
VALUE(HG_OUTPUT, 2);

VALUE(HG_ENCODE, 0);
VALUE(HG_DECODE, 1);
VALUE(HG_FREE, 2);

VALUE(HG_MEM_TYPE_HOST, 0);
VALUE(HG_MEM_TYPE_CUDA, 1);
VALUE(HG_MEM_TYPE_ROCM, 2);
VALUE(HG_MEM_TYPE_ZE, 3);

VALUE(HG_BULK_PUSH, 0);
VALUE(HG_BULK_PULL, 1);

VALUE(HG_CRC16, 0);
VALUE(HG_CRC32, 1);
VALUE(HG_CRC64, 2);
VALUE(HG_NOHASH, 3);

VALUE(HG_PROC_ENCODING_RAW, 0);
VALUE(HG_PROC_ENCODING_PORTABLE, 1);

VALUE(HG_INVALID_PARAM, 11);
VALUE(HG_SIZE_ERROR, 14);
VALUE(HG_NOMEM_ERROR, 5);
VALUE(HG_NO_MATCH, 2);
VALUE(HG_CORE_SM, 1);
VALUE(HG_MAX_IDLE_TIME, 3600000);
VALUE(HG_SIZE_MAX, UINT64_MAX);
VALUE(HG_BULK_READ_ONLY, 1);
VALUE(HG_BULK_WRITE_ONLY, 2);
VALUE(HG_BULK_READWRITE, 3);
VALUE(HG_BULK_SM, 4);
VALUE(HG_BULK_EAGER, 8);
VALUE(HG_PROC_SM, 1);
VALUE(HG_PROC_BULK_EAGER, 2);
VALUE(HG_TRUE, 1);
VALUE(HG_FALSE, 0);
VALUE(HG_CORE_MORE_DATA, 1);
#if LAYOUT_MINOR >= 1
VALUE(HG_OVERFLOW_TIMEOUT_DEFAULT, 300000);
VALUE(HG_OVERFLOW_BUDGET_DEFAULT, 1073741824);
VALUE(HG_OVERFLOW_PEER_BUDGET_DEFAULT, 268435456);
VALUE(HG_MAX_IN_FLIGHT_DEFAULT, UINT32_MAX);
VALUE(HG_POLL_TIME_DEFAULT, UINT32_MAX);
#endif
#ifndef __cplusplus /* there a pointer is no constant */
VALUE((uintptr_t) HG_OP_ID_IGNORE, 1);
VALUE((uintptr_t) HG_CORE_OP_ID_IGNORE, 1);
#endif
