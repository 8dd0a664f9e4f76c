/* SPDX-License-Identifier: BSD-3-Clause */
/* Init strings: what the caller of NA_Initialize() asks for. */

#ifndef NA_INIT_STRING_H
#define NA_INIT_STRING_H

#include "na_types.h"

/*
 *   init string = choice *( "," choice )
 *   choice      = ( "auto" / word / plugin "+" protocol ) [ "://" [ address ] ]
 *   word        = protocol, or the name of a plugin if nobody offers a protocol of that name
 *   plugin      = 1*( letter / digit / "_" / "-" )
 *   protocol    = 1*( letter / digit / "_" / "-" / "." / ";" / "+" )
 *   address     = *( any visible character but "," )
 *
 * What follows the last "?" of an address is its options, if the plugin has any: see na/options.h.
 * The first "+" ends the plugin's name: what follows belongs to the protocol, where a "+" has a
 * name on both sides. A comma always begins the next choice: a protocol that is a list has ";"
 * between its parts (`tcp;ofi_rxm`, `rc;cma`).
 */

#define NA_INIT_STRING_MAX   4096 /* longest init string */
#define NA_PLUGIN_NAME_MAX   64   /* longest plugin name */
#define NA_PROTOCOL_NAME_MAX 1024 /* longest protocol that a plugin may offer */

/* One choice. */
struct na_init_choice {
    char *plugin;   /* NULL: any plugin */
    char *protocol; /* NULL: any protocol, that is `auto` */
    char *address;  /* NULL: none */
};

struct na_init_string {
    size_t count;
    struct na_init_choice *choices;
};

/*
 * Parses an init string. On NA_INVALID_ARG `reason` says what is wrong, and at which position,
 * counted from 1. The result is to be freed with na_init_string_free(), which may also be called
 * after failure.
 */
na_return_t na_init_string_parse(const char *string, struct na_init_string *parsed, char *reason,
                                 size_t reason_size);

void na_init_string_free(struct na_init_string *parsed);

/* Whether a plugin, or an alias of it, may have this name. */
bool na_plugin_name_is_valid(const char *name);

/* Whether an init string can ask for a protocol of this name. */
bool na_protocol_name_is_valid(const char *name);

#endif /* NA_INIT_STRING_H */
