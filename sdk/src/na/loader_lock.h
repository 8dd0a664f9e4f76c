/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of the loader: of what is known of plugin files. */

#ifndef NA_LOADER_LOCK_H
#define NA_LOADER_LOCK_H

/* Between these the records do not change. */
void na_loader_lock(void);
void na_loader_unlock(void);

/* The same around a fork(). */
void na_loader_fork_begin(void);
void na_loader_fork_end(void);

#endif /* NA_LOADER_LOCK_H */
