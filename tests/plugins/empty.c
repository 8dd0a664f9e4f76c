/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared object that has no entry function of its own. */

extern int empty_object;
int empty_object = 1;
