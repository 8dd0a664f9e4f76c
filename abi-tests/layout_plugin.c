/* SPDX-License-Identifier: BSD-3-Clause */
/* Every struct and every constant of the plugin ABI, and since which minor they are there. */

#include "layout.h"
#include "na_plugin.h"

SIZE(na_plugin_offer, 32);
AT(na_plugin_offer, protocol, 0);
AT(na_plugin_offer, device, 8);
AT(na_plugin_offer, reason, 16);
AT(na_plugin_offer, priority, 24);
AT(na_plugin_offer, flags, 28);

GROWS(na_host, 72);
AT(na_host, abi_version, 0);
AT(na_host, size, 4);
AT(na_host, op_complete, 8);
AT(na_host, op_complete_recv, 16);
AT(na_host, op_complete_multi_recv, 24);
AT(na_host, mem_alloc, 32);
AT(na_host, mem_free, 40);
AT(na_host, log_enabled, 48);
AT(na_host, log, 56);
AT(na_host, clock_ns, 64);
#if LAYOUT_MINOR >= 1
AT(na_host, get_extension, 72);
#endif

GROWS(na_plugin_init, 88);
AT(na_plugin_init, size, 0);
AT(na_plugin_init, listen, 4);
AT(na_plugin_init, class_name, 8);
AT(na_plugin_init, protocol, 16);
AT(na_plugin_init, address, 24);
AT(na_plugin_init, ip_subnet, 32);
AT(na_plugin_init, auth_key, 40);
AT(na_plugin_init, max_unexpected_size, 48);
AT(na_plugin_init, max_expected_size, 56);
AT(na_plugin_init, progress_mode, 64);
AT(na_plugin_init, thread_mode, 68);
AT(na_plugin_init, addr_format, 72);
AT(na_plugin_init, traffic_class, 76);
AT(na_plugin_init, max_contexts, 80);
AT(na_plugin_init, request_mem_device, 84);
#if LAYOUT_MINOR >= 1
AT(na_plugin_init, options, 88);
AT(na_plugin_init, auth_key_also, 96);
AT(na_plugin_init, encrypt, 104);
AT(na_plugin_init, mem_per_session, 108);
#endif

GROWS(na_plugin_class_info, 56);
AT(na_plugin_class_info, size, 0);
AT(na_plugin_class_info, max_tag, 4);
AT(na_plugin_class_info, capabilities, 8);
AT(na_plugin_class_info, max_unexpected_size, 16);
AT(na_plugin_class_info, max_expected_size, 24);
AT(na_plugin_class_info, unexpected_header_size, 32);
AT(na_plugin_class_info, expected_header_size, 40);
AT(na_plugin_class_info, max_rma_size, 48);
#if LAYOUT_MINOR >= 1
AT(na_plugin_class_info, max_segments, 56);
#endif

GROWS(na_plugin, 384);
AT(na_plugin, abi_version, 0);
AT(na_plugin, size, 4);
AT(na_plugin, name, 8);
AT(na_plugin, version, 16);
AT(na_plugin, description, 24);
AT(na_plugin, class_names, 32);
AT(na_plugin, op_size, 40);
AT(na_plugin, op_align, 44);
AT(na_plugin, capabilities, 48);
AT(na_plugin, enumerate, 56);
AT(na_plugin, initialize, 64);
AT(na_plugin, finalize, 72);
AT(na_plugin, context_create, 80);
AT(na_plugin, context_stop, 88);
AT(na_plugin, context_destroy, 96);
AT(na_plugin, op_initialize, 104);
AT(na_plugin, op_finalize, 112);
AT(na_plugin, addr_lookup, 120);
AT(na_plugin, addr_free, 128);
AT(na_plugin, addr_dup, 136);
AT(na_plugin, addr_self, 144);
AT(na_plugin, addr_is_self, 152);
AT(na_plugin, addr_compare, 160);
AT(na_plugin, addr_to_string, 168);
AT(na_plugin, addr_set_remove, 176);
AT(na_plugin, msg_buf_alloc, 184);
AT(na_plugin, msg_buf_free, 192);
AT(na_plugin, msg_init_unexpected, 200);
AT(na_plugin, msg_init_expected, 208);
AT(na_plugin, msg_send_unexpected, 216);
AT(na_plugin, msg_recv_unexpected, 224);
AT(na_plugin, msg_send_expected, 232);
AT(na_plugin, msg_recv_expected, 240);
AT(na_plugin, mem_create, 248);
AT(na_plugin, mem_destroy, 256);
AT(na_plugin, mem_register, 264);
AT(na_plugin, mem_deregister, 272);
AT(na_plugin, mem_serialize_size, 280);
AT(na_plugin, mem_serialize, 288);
AT(na_plugin, mem_deserialize, 296);
AT(na_plugin, put, 304);
AT(na_plugin, get, 312);
AT(na_plugin, poll, 320);
AT(na_plugin, poll_wait, 328);
AT(na_plugin, poll_get_fd, 336);
AT(na_plugin, poll_try_wait, 344);
AT(na_plugin, wake, 352);
AT(na_plugin, cancel, 360);
AT(na_plugin, get_extension, 368);
AT(na_plugin, cleanup, 376);
#if LAYOUT_MINOR >= 1
AT(na_plugin, cancel_trusted, 384);
AT(na_plugin, option_names, 392);
AT(na_plugin, addr_capabilities, 400);
#endif

SIZE(na_plugin_extension, 8);
AT(na_plugin_extension, size, 0);
AT(na_plugin_extension, reserved, 4);

SIZE(na_plugin_segment, 16);
AT(na_plugin_segment, base, 0);
AT(na_plugin_segment, length, 8);

GROWS(na_plugin_mem_segments, 24);
AT(na_plugin_mem_segments, extension, 0);
AT(na_plugin_mem_segments, max_segments, 8);
AT(na_plugin_mem_segments, mem_create_segments, 16);

GROWS(na_plugin_multi_recv, 16);
AT(na_plugin_multi_recv, extension, 0);
AT(na_plugin_multi_recv, msg_multi_recv_unexpected, 8);

GROWS(na_plugin_addr_serialize, 32);
AT(na_plugin_addr_serialize, extension, 0);
AT(na_plugin_addr_serialize, addr_serialize_size, 8);
AT(na_plugin_addr_serialize, addr_serialize, 16);
AT(na_plugin_addr_serialize, addr_deserialize, 24);

#if LAYOUT_MINOR >= 1
SIZE(na_plugin_wrap_candidate, 24);
AT(na_plugin_wrap_candidate, plugin, 0);
AT(na_plugin_wrap_candidate, class_name, 8);
AT(na_plugin_wrap_candidate, offer, 16);

SIZE(na_plugin_wrap_events, 24);
AT(na_plugin_wrap_events, complete, 0);
AT(na_plugin_wrap_events, complete_recv, 8);
AT(na_plugin_wrap_events, complete_multi_recv, 16);

GROWS(na_plugin_wrap, 32);
AT(na_plugin_wrap, extension, 0);
AT(na_plugin_wrap, select, 8);
AT(na_plugin_wrap, op_create, 16);
AT(na_plugin_wrap, op_destroy, 24);
AT(na_plugin_wrap, options_split, 32);

GROWS(na_plugin_counters, 16);
AT(na_plugin_counters, extension, 0);
AT(na_plugin_counters, counters_get, 8);

GROWS(na_plugin_offer_details, 16);
AT(na_plugin_offer_details, extension, 0);
AT(na_plugin_offer_details, offer_describe, 8);

GROWS(na_plugin_peer_events, 16);
AT(na_plugin_peer_events, extension, 0);
AT(na_plugin_peer_events, peer_events_set, 8);

GROWS(na_plugin_mem_grant, 16);
AT(na_plugin_mem_grant, extension, 0);
AT(na_plugin_mem_grant, mem_grant, 8);

GROWS(na_plugin_mem_alloc, 24);
AT(na_plugin_mem_alloc, extension, 0);
AT(na_plugin_mem_alloc, mem_alloc, 8);
AT(na_plugin_mem_alloc, mem_free, 16);
#endif

VALUE(NA_PLUGIN_ABI_MAJOR, 1);
VALUE(NA_PLUGIN_SUCCESS, 0);
VALUE(NA_PLUGIN_PERMISSION, 1);
VALUE(NA_PLUGIN_NOENTRY, 2);
VALUE(NA_PLUGIN_INTERRUPT, 3);
VALUE(NA_PLUGIN_AGAIN, 4);
VALUE(NA_PLUGIN_NOMEM, 5);
VALUE(NA_PLUGIN_ACCESS, 6);
VALUE(NA_PLUGIN_FAULT, 7);
VALUE(NA_PLUGIN_BUSY, 8);
VALUE(NA_PLUGIN_EXIST, 9);
VALUE(NA_PLUGIN_NODEV, 10);
VALUE(NA_PLUGIN_INVALID_ARG, 11);
VALUE(NA_PLUGIN_PROTOCOL_ERROR, 12);
VALUE(NA_PLUGIN_OVERFLOW, 13);
VALUE(NA_PLUGIN_MSGSIZE, 14);
VALUE(NA_PLUGIN_PROTONOSUPPORT, 15);
VALUE(NA_PLUGIN_OPNOTSUPPORTED, 16);
VALUE(NA_PLUGIN_ADDRINUSE, 17);
VALUE(NA_PLUGIN_ADDRNOTAVAIL, 18);
VALUE(NA_PLUGIN_HOSTUNREACH, 19);
VALUE(NA_PLUGIN_TIMEOUT, 20);
VALUE(NA_PLUGIN_CANCELED, 21);
VALUE(NA_PLUGIN_IO_ERROR, 22);
VALUE(NA_PLUGIN_HOSTFIREWALL, 23);
VALUE(NA_PLUGIN_LOG_ERROR, 1);
VALUE(NA_PLUGIN_LOG_WARNING, 2);
VALUE(NA_PLUGIN_LOG_INFO, 3);
VALUE(NA_PLUGIN_LOG_DEBUG, 4);
VALUE(NA_PLUGIN_CAP_RMA, 1);
VALUE(NA_PLUGIN_CAP_RMA_NATIVE, 2);
VALUE(NA_PLUGIN_CAP_WAIT_FD, 4);
VALUE(NA_PLUGIN_CAP_CANCEL_SEND, 8);
VALUE(NA_PLUGIN_CAP_PEER_DEATH, 16);
VALUE(NA_PLUGIN_CAP_DEVICE_MEM, 32);
VALUE(NA_PLUGIN_CAP_FORWARD_PROG, 64);
#if LAYOUT_MINOR >= 1
VALUE(NA_PLUGIN_CAP_NO_THREADS, 128);
VALUE(NA_PLUGIN_CAP_AUTHENTICATED, 256);
VALUE(NA_PLUGIN_CAP_ENCRYPTED, 512);
VALUE(NA_PLUGIN_CAP_SECOND_KEY, 1024);
VALUE(NA_PLUGIN_CAP_MEM_PER_SESSION, 2048);
#endif
VALUE(NA_PLUGIN_OFFER_USABLE, 1);
VALUE(NA_PLUGIN_OFFER_NODE_LOCAL, 2);
VALUE(NA_PLUGIN_OFFER_NAMED_ONLY, 4);
VALUE(NA_PLUGIN_MEM_READ, 1);
VALUE(NA_PLUGIN_MEM_WRITE, 2);
VALUE(NA_PLUGIN_MEM_TYPE_HOST, 0);
VALUE(NA_PLUGIN_MEM_TYPE_CUDA, 1);
VALUE(NA_PLUGIN_MEM_TYPE_ROCM, 2);
VALUE(NA_PLUGIN_MEM_TYPE_ZE, 3);
VALUE(NA_PLUGIN_PROGRESS_BUSY, 1);
VALUE(NA_PLUGIN_PROGRESS_NO_RETRY, 2);
VALUE(NA_PLUGIN_THREAD_SINGLE_CLASS, 1);
VALUE(NA_PLUGIN_THREAD_SINGLE_CONTEXT, 2);
VALUE(NA_PLUGIN_ADDR_UNSPEC, 0);
VALUE(NA_PLUGIN_ADDR_IPV4, 1);
VALUE(NA_PLUGIN_ADDR_IPV6, 2);
VALUE(NA_PLUGIN_ADDR_NATIVE, 3);
VALUE(NA_PLUGIN_TC_UNSPEC, 0);
VALUE(NA_PLUGIN_TC_BEST_EFFORT, 1);
VALUE(NA_PLUGIN_TC_LOW_LATENCY, 2);
VALUE(NA_PLUGIN_TC_BULK_DATA, 3);
VALUE(NA_PLUGIN_TC_DEDICATED, 4);
VALUE(NA_PLUGIN_TC_SCAVENGER, 5);
VALUE(NA_PLUGIN_TC_NETWORK_CTRL, 6);
VALUE(NA_PLUGIN_BUF_SEND, 1);
VALUE(NA_PLUGIN_BUF_RECV, 2);
VALUE(NA_PLUGIN_BUF_MULTI_RECV, 4);
