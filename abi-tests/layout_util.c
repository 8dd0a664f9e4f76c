/* SPDX-License-Identifier: BSD-3-Clause */
/* Every struct and every enumerator that programs share with libamalgam-util, as of 1.0. */

#include "mercury_thread_pool.h" /* before all others, as ISO C needs it */

#include "layout.h"
#include "mercury_hash_table.h"
#include "mercury_log.h"
#include "mercury_mem.h"
#include "mercury_poll.h"

SIZE(hg_poll_event, 16);
AT(hg_poll_event, events, 0);
AT(hg_poll_event, data, 8);

SIZE(hg_hash_table_iter, 24);
AT(hg_hash_table_iter, hash_table, 0);
AT(hg_hash_table_iter, next_entry, 8);
AT(hg_hash_table_iter, next_chain, 16);

SIZE(hg_thread_work, 24);
AT(hg_thread_work, func, 0);
AT(hg_thread_work, args, 8);
AT(hg_thread_work, entry, 16);

SIZE(hg_dlog_entry, 56);
AT(hg_dlog_entry, file, 0);
AT(hg_dlog_entry, line, 8);
AT(hg_dlog_entry, func, 16);
AT(hg_dlog_entry, msg, 24);
AT(hg_dlog_entry, data, 32);
AT(hg_dlog_entry, time, 40);

SIZE(hg_dlog_dcount32, 40);
AT(hg_dlog_dcount32, name, 0);
AT(hg_dlog_dcount32, descr, 8);
AT(hg_dlog_dcount32, c, 16);
AT(hg_dlog_dcount32, l, 24);

SIZE(hg_dlog_dcount64, 40);
AT(hg_dlog_dcount64, name, 0);
AT(hg_dlog_dcount64, descr, 8);
AT(hg_dlog_dcount64, c, 16);
AT(hg_dlog_dcount64, l, 24);

/* The size of a mutex is the C library's for the machine. */
#define BEHIND_LOCK (16 + sizeof(hg_thread_mutex_t))
SIZE(hg_dlog, BEHIND_LOCK + 64);
AT(hg_dlog, dlog_magic, 0);
AT(hg_dlog, dlock, 16);
AT(hg_dlog, cnts32, BEHIND_LOCK);
AT(hg_dlog, cnts64, BEHIND_LOCK + 16);
AT(hg_dlog, le, BEHIND_LOCK + 32);
AT(hg_dlog, lesize, BEHIND_LOCK + 40);
AT(hg_dlog, leloop, BEHIND_LOCK + 44);
AT(hg_dlog, lefree, BEHIND_LOCK + 48);
AT(hg_dlog, leadds, BEHIND_LOCK + 52);
AT(hg_dlog, lestop, BEHIND_LOCK + 56);
AT(hg_dlog, mallocd, BEHIND_LOCK + 60);

SIZE(hg_log_outlet, 48);
AT(hg_log_outlet, name, 0);
AT(hg_log_outlet, state, 8);
AT(hg_log_outlet, level, 12);
AT(hg_log_outlet, parent, 16);
AT(hg_log_outlet, debug_log, 24);
AT(hg_log_outlet, registered, 32);
AT(hg_log_outlet, entry, 40);

VALUE(HG_LOG_PASS, 0);
VALUE(HG_LOG_OFF, 1);
VALUE(HG_LOG_ON, 2);
VALUE(HG_LOG_LEVEL_NONE, 0);
VALUE(HG_LOG_LEVEL_FATAL, 1);
VALUE(HG_LOG_LEVEL_ERROR, 2);
VALUE(HG_LOG_LEVEL_WARNING, 3);
VALUE(HG_LOG_LEVEL_MIN_DEBUG, 4);
VALUE(HG_LOG_LEVEL_INFO, 5);
VALUE(HG_LOG_LEVEL_DEBUG, 6);

VALUE(HG_POLLIN, 1);
VALUE(HG_POLLOUT, 2);
VALUE(HG_POLLERR, 4);
VALUE(HG_POLLHUP, 8);
VALUE(HG_POLLINTR, 16);
VALUE(HG_DLOG_MAGICLEN, 16);
VALUE(HG_UTIL_STAMP_MAX, 128);
VALUE(HG_UTIL_SUCCESS, 0);
VALUE(HG_UTIL_FAIL, -1);
VALUE(HG_MEM_CACHE_LINE_SIZE, 64);
VALUE(HG_MEM_PAGE_SIZE, 4096);
