/* SPDX-License-Identifier: BSD-3-Clause */
/* The dynamic symbols and needed libraries of a shared object, read from its file. */

#ifndef AMALGAM_CONF_ELF_FILE_H
#define AMALGAM_CONF_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Called for each dynamic symbol, and for each needed library (then `needed` is true). */
typedef void (*conf_elf_fn)(void *arg, const char *name, bool defined, bool needed);

/* False: `reason` says what is wrong with the file. */
bool conf_elf_read(const char *path, conf_elf_fn function, void *arg, char *reason, size_t size);

#endif /* AMALGAM_CONF_ELF_FILE_H */
