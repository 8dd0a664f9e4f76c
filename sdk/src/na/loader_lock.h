/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of the loader. */

#ifndef NA_LOADER_LOCK_H
#define NA_LOADER_LOCK_H

/* Guards the records of plugin files. */
void na_loader_lock(void);
void na_loader_unlock(void);

/* Called before and after a fork(), so that the child finds the lock in a defined state. */
void na_loader_fork_begin(void);
void na_loader_fork_end(void);

#endif /* NA_LOADER_LOCK_H */
