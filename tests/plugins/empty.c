/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared object that has no entry function of its own; it exports data, of any name. */

extern __attribute__((visibility("default"))) int empty_object;
int empty_object = 1;
