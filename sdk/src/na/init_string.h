/* SPDX-License-Identifier: BSD-3-Clause */
/* Init strings: the grammar of the first argument of NA_Initialize(). */

#ifndef NA_INIT_STRING_H
#define NA_INIT_STRING_H

#include "na_types.h"

/*
 *   init string = choice *( "," choice )
 *   choice      = ( "auto" / word / plugin "+" protocol ) [ "://" [ address ] ]
 *   word        = plugin or protocol; the plugin comes first if both have that name
 *   plugin      = 1*( letter / digit / "_" / "-" )
 *   protocol    = 1*( letter / digit / "_" / "-" / "." / ";" / "+" )
 *   address     = *( any visible character but "," )
 *
 * If the plugin has options, the last "?" of an address separates them from it, see na/options.h.
 * The first "+" ends the plugin's name; the protocol may contain further "+" that have a name on
 * both sides. A comma always begins the next choice, so that a protocol made of several names
 * separates them by ";" (`tcp;ofi_rxm`, `rc;cma`).
 */

#define NA_INIT_STRING_MAX   4096 /* longest init string */
#define NA_PLUGIN_NAME_MAX   64   /* longest plugin name */
#define NA_PROTOCOL_NAME_MAX 1024 /* longest protocol that a plugin may offer */

struct na_init_choice {
    char *plugin;   /* NULL: any plugin */
    char *protocol; /* NULL: any protocol (`auto`) */
    char *address;  /* NULL: none */
};

struct na_init_string {
    size_t count;
    struct na_init_choice *choices;
};

/*
 * Parses an init string. On NA_INVALID_ARG `reason` gets the error and its position, which counts
 * from 1. The caller frees `parsed` with na_init_string_free(), which is safe after a failure, too.
 */
na_return_t na_init_string_parse(const char *string, struct na_init_string *parsed, char *reason,
                                 size_t reason_size);

void na_init_string_free(struct na_init_string *parsed);

/* Returns whether a plugin or one of its class names may have this name. */
bool na_plugin_name_is_valid(const char *name);

/* Returns whether an init string can name a protocol of this name. */
bool na_protocol_name_is_valid(const char *name);

#endif /* NA_INIT_STRING_H */
