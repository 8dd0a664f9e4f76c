/* SPDX-License-Identifier: BSD-3-Clause */
/* Every struct and every enumerator that programs share with libamalgam-na, as of 1.0. */

#include "layout.h"
#include "na.h"
#include "na_ext.h"
#include "na_sm.h"

GROWS(na_init_info, 48);
AT(na_init_info, ip_subnet, 0);
AT(na_init_info, auth_key, 8);
AT(na_init_info, max_unexpected_size, 16);
AT(na_init_info, max_expected_size, 24);
AT(na_init_info, progress_mode, 32);
AT(na_init_info, addr_format, 36);
AT(na_init_info, max_contexts, 40);
AT(na_init_info, thread_mode, 41);
AT(na_init_info, request_mem_device, 42);
AT(na_init_info, traffic_class, 44);
#if LAYOUT_MINOR >= 1
AT(na_init_info, auth_key_also, 48);
AT(na_init_info, encrypt, 56);
AT(na_init_info, mem_per_session, 57);
#endif

SIZE(na_init_info_4_0, 48);
AT(na_init_info_4_0, ip_subnet, 0);
AT(na_init_info_4_0, auth_key, 8);
AT(na_init_info_4_0, max_unexpected_size, 16);
AT(na_init_info_4_0, max_expected_size, 24);
AT(na_init_info_4_0, progress_mode, 32);
AT(na_init_info_4_0, addr_format, 36);
AT(na_init_info_4_0, max_contexts, 40);
AT(na_init_info_4_0, thread_mode, 41);
AT(na_init_info_4_0, request_mem_device, 42);

SIZE(na_segment, 16);
AT(na_segment, base, 0);
AT(na_segment, len, 8);

SIZE(na_protocol_info, 32);
AT(na_protocol_info, next, 0);
AT(na_protocol_info, class_name, 8);
AT(na_protocol_info, protocol_name, 16);
AT(na_protocol_info, device_name, 24);

SIZE(na_cb_info_recv_unexpected, 24);
AT(na_cb_info_recv_unexpected, actual_buf_size, 0);
AT(na_cb_info_recv_unexpected, source, 8);
AT(na_cb_info_recv_unexpected, tag, 16);

SIZE(na_cb_info_multi_recv_unexpected, 40);
AT(na_cb_info_multi_recv_unexpected, actual_buf_size, 0);
AT(na_cb_info_multi_recv_unexpected, source, 8);
AT(na_cb_info_multi_recv_unexpected, tag, 16);
AT(na_cb_info_multi_recv_unexpected, actual_buf, 24);
AT(na_cb_info_multi_recv_unexpected, last, 32);

SIZE(na_cb_info_recv_expected, 8);
AT(na_cb_info_recv_expected, actual_buf_size, 0);

SIZE(na_cb_info, 56);
AT(na_cb_info, info, 0);
AT(na_cb_info, info.recv_unexpected, 0);
AT(na_cb_info, info.multi_recv_unexpected, 0);
AT(na_cb_info, info.recv_expected, 0);
AT(na_cb_info, arg, 40);
AT(na_cb_info, type, 48);
AT(na_cb_info, ret, 52);

SIZE(na_plugin_protocol, 32);
AT(na_plugin_protocol, name, 0);
AT(na_plugin_protocol, device_name, 8);
AT(na_plugin_protocol, priority, 16);
AT(na_plugin_protocol, node_local, 20);
AT(na_plugin_protocol, usable, 21);
AT(na_plugin_protocol, reason, 24);

SIZE(na_plugin_limit, 16);
AT(na_plugin_limit, name, 0);
AT(na_plugin_limit, value, 8);

SIZE(na_plugin_info, 80);
AT(na_plugin_info, version, 0);
AT(na_plugin_info, description, 8);
AT(na_plugin_info, class_names, 16);
AT(na_plugin_info, class_name_count, 24);
AT(na_plugin_info, capabilities, 32);
AT(na_plugin_info, capability_count, 40);
AT(na_plugin_info, limits, 48);
AT(na_plugin_info, limit_count, 56);
AT(na_plugin_info, protocols, 64);
AT(na_plugin_info, protocol_count, 72);

SIZE(na_plugin_record, 56);
AT(na_plugin_record, next, 0);
AT(na_plugin_record, name, 8);
AT(na_plugin_record, path, 16);
AT(na_plugin_record, stage, 24);
AT(na_plugin_record, code, 28);
AT(na_plugin_record, text, 32);
AT(na_plugin_record, abi_version, 40);
AT(na_plugin_record, loaded, 44);
AT(na_plugin_record, info, 48);

SIZE(na_selection_candidate, 32);
AT(na_selection_candidate, class_name, 0);
AT(na_selection_candidate, protocol_name, 8);
AT(na_selection_candidate, picked, 16);
AT(na_selection_candidate, reason, 24);

SIZE(na_selection, 48);
AT(na_selection, info_string, 0);
AT(na_selection, class_name, 8);
AT(na_selection, protocol_name, 16);
AT(na_selection, plugin_path, 24);
AT(na_selection, candidate_count, 32);
AT(na_selection, candidates, 40);

SIZE(na_counter, 56);
AT(na_counter, name, 0);
AT(na_counter, value, 48);

VALUE(NA_ADDR_UNSPEC, 0);
VALUE(NA_ADDR_IPV4, 1);
VALUE(NA_ADDR_IPV6, 2);
VALUE(NA_ADDR_NATIVE, 3);

VALUE(NA_ADDR_FIREWALL, 1);

VALUE(NA_TC_UNSPEC, 0);
VALUE(NA_TC_BEST_EFFORT, 1);
VALUE(NA_TC_LOW_LATENCY, 2);
VALUE(NA_TC_BULK_DATA, 3);
VALUE(NA_TC_DEDICATED_ACCESS, 4);
VALUE(NA_TC_SCAVENGER, 5);
VALUE(NA_TC_NETWORK_CTRL, 6);

VALUE(NA_MEM_TYPE_HOST, 0);
VALUE(NA_MEM_TYPE_CUDA, 1);
VALUE(NA_MEM_TYPE_ROCM, 2);
VALUE(NA_MEM_TYPE_ZE, 3);

VALUE(NA_SUCCESS, 0);
VALUE(NA_PERMISSION, 1);
VALUE(NA_NOENTRY, 2);
VALUE(NA_INTERRUPT, 3);
VALUE(NA_AGAIN, 4);
VALUE(NA_NOMEM, 5);
VALUE(NA_ACCESS, 6);
VALUE(NA_FAULT, 7);
VALUE(NA_BUSY, 8);
VALUE(NA_EXIST, 9);
VALUE(NA_NODEV, 10);
VALUE(NA_INVALID_ARG, 11);
VALUE(NA_PROTOCOL_ERROR, 12);
VALUE(NA_OVERFLOW, 13);
VALUE(NA_MSGSIZE, 14);
VALUE(NA_PROTONOSUPPORT, 15);
VALUE(NA_OPNOTSUPPORTED, 16);
VALUE(NA_ADDRINUSE, 17);
VALUE(NA_ADDRNOTAVAIL, 18);
VALUE(NA_HOSTUNREACH, 19);
VALUE(NA_TIMEOUT, 20);
VALUE(NA_CANCELED, 21);
VALUE(NA_IO_ERROR, 22);
VALUE(NA_HOSTFIREWALL, 23);

VALUE(NA_CB_SEND_UNEXPECTED, 0);
VALUE(NA_CB_RECV_UNEXPECTED, 1);
VALUE(NA_CB_MULTI_RECV_UNEXPECTED, 2);
VALUE(NA_CB_SEND_EXPECTED, 3);
VALUE(NA_CB_RECV_EXPECTED, 4);
VALUE(NA_CB_PUT, 5);
VALUE(NA_CB_GET, 6);

VALUE(NA_LOG_LEVEL_NONE, 0);
VALUE(NA_LOG_LEVEL_ERROR, 1);
VALUE(NA_LOG_LEVEL_WARNING, 2);
VALUE(NA_LOG_LEVEL_INFO, 3);
VALUE(NA_LOG_LEVEL_DEBUG, 4);

VALUE(NA_PLUGIN_STAGE_SEARCH, 0);
VALUE(NA_PLUGIN_STAGE_OPEN, 1);
VALUE(NA_PLUGIN_STAGE_ENTRY, 2);
VALUE(NA_PLUGIN_STAGE_TABLE, 3);
VALUE(NA_PLUGIN_STAGE_READY, 4);

VALUE(NA_PLUGIN_LOADED, 0);
VALUE(NA_PLUGIN_FOUND, 1);
VALUE(NA_PLUGIN_MISSING, 2);
VALUE(NA_PLUGIN_UNSAFE, 3);
VALUE(NA_PLUGIN_OPEN_FAILED, 4);
VALUE(NA_PLUGIN_NO_ENTRY, 5);
VALUE(NA_PLUGIN_ABI_TOO_OLD, 6);
VALUE(NA_PLUGIN_ABI_TOO_NEW, 7);
VALUE(NA_PLUGIN_INVALID_TABLE, 8);
VALUE(NA_PLUGIN_DUPLICATE, 9);
VALUE(NA_PLUGIN_REFUSED, 10);
VALUE(NA_PLUGIN_BAD_NAME, 11);

VALUE(NA_OPT_MULTI_RECV, 1);
VALUE(NA_OPT_FIREWALL_ADDR, 2);
VALUE(NA_MAX_IDLE_TIME, 3600000);
VALUE(NA_CONTEXT_ID_MAX, 255);
VALUE(NA_SEND, 1);
VALUE(NA_RECV, 2);
VALUE(NA_MULTI_RECV, 4);
VALUE(NA_ALLOC_MAX, 8);
VALUE(NA_OP_SINGLE, 0);
VALUE(NA_OP_MULTI, 1);
VALUE(NA_TAG_MAX, 4294967295);
VALUE(NA_MEM_READ_ONLY, 1);
VALUE(NA_MEM_WRITE_ONLY, 2);
VALUE(NA_MEM_READWRITE, 3);
VALUE(NA_NO_BLOCK, 1);
VALUE(NA_NO_RETRY, 2);
VALUE(NA_THREAD_MODE_SINGLE_CLS, 1);
VALUE(NA_THREAD_MODE_SINGLE_CTX, 2);
VALUE(NA_THREAD_MODE_SINGLE, 3);
VALUE(NA_PLUGIN_LOAD_ALL, 1);
#if LAYOUT_MINOR >= 1
VALUE(NA_LOADER_LOAD_ALL, 1);
#endif
VALUE(NA_SM_HOST_ID_LEN, 36);
