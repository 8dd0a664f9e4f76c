/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared object without an entry function; it exports an arbitrary variable. */

extern __attribute__((visibility("default"))) int empty_object;
int empty_object = 1;
