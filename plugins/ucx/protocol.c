/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol in an init string is a list of transports and aliases as in UCX_TLS, joined by '+'
 * (ucx+tcp+cma). UCX documents the aliases; `ucx_info -d` shows the names of transports.
 */

#include "ucx.h"

#include <stdio.h>
#include <string.h>

struct ucx_alias {
    const char *name;
    const char *transports[6]; /* patterns; a '*' at the end matches any rest */
};

static bool ucx_token_covers(const char *token, size_t length, const char *transport);
static bool ucx_token_is_known(const char *token, size_t length);
static bool ucx_token_is_present(const char *token, size_t length);
static bool ucx_pattern_matches(const char *pattern, const char *transport);
static const struct ucx_alias *ucx_alias_find(const char *token, size_t length);

static const struct ucx_alias ucx_aliases[] = {
    {"all", {"*"}},
    {"sm", {"sysv", "posix", "xpmem", "cma", "knem"}},
    {"shm", {"sysv", "posix", "xpmem", "cma", "knem"}},
    {"mm", {"sysv", "posix", "xpmem"}},
    {"ib", {"rc_*", "ud_*", "dc_*"}},
    {"rc", {"rc_*"}},
    {"rc_v", {"rc_verbs"}},
    {"rc_x", {"rc_mlx5"}},
    {"ud", {"ud_*"}},
    {"ud_v", {"ud_verbs"}},
    {"ud_x", {"ud_mlx5"}},
    {"dc", {"dc_*"}},
    {"dc_x", {"dc_mlx5"}},
    {"ugni", {"ugni_*"}},
    {"cuda", {"cuda_*", "gdr_copy"}},
    {"rocm", {"rocm_*"}},
    {"ze", {"ze_*"}},
};

/* Transports that this machine may lack: asking for one is not reported as an unknown word. */
static const char *const ucx_transports[] = {
    "self",     "tcp",       "sysv",     "posix",    "cma",       "knem",      "xpmem",
    "rc_verbs", "rc_mlx5",   "ud_verbs", "ud_mlx5",  "dc_mlx5",   "ugni_rdma", "ugni_smsg",
    "ugni_udt", "cuda_copy", "cuda_ipc", "gdr_copy", "rocm_copy", "rocm_ipc",  "rocm_gdr",
    "ze_copy",  "ze_ipc",    "ze_gdr",   "srd",      "gga_mlx5",
};

/* Converts a protocol to the value of UCX_TLS. False if a word of it is unknown. */
bool ucx_protocol_to_tls(const char *protocol, char tls[UCX_TLS_MAX])
{
    size_t length = strlen(protocol), begin = 0;

    if (length == 0 || length >= UCX_TLS_MAX)
        return false;
    memcpy(tls, protocol, length + 1);
    for (size_t i = 0; i <= length; i++) {
        if (protocol[i] != '+' && protocol[i] != '\0')
            continue;
        if (i == begin || !ucx_token_is_known(protocol + begin, i - begin))
            return false;
        if (protocol[i] == '+')
            tls[i] = ',';
        begin = i + 1;
    }
    return true;
}

/* True if the machine has no transport for a word of the list, which is written to `missing`. */
bool ucx_protocol_missing(const char *tls, char *missing, size_t size)
{
    for (const char *token = tls;;) {
        size_t length = strcspn(token, ",");

        if (!ucx_token_is_present(token, length)) {
            (void) snprintf(missing, size, "%.*s", (int) length, token);
            return true;
        }
        if (token[length] == '\0')
            return false;
        token += length + 1;
    }
}

/* Whether the list has a transport, which this machine may lack. */
bool ucx_protocol_has(const char *tls, const char *transport)
{
    for (const char *token = tls;;) {
        size_t length = strcspn(token, ",");

        if (ucx_token_covers(token, length, transport))
            return true;
        if (token[length] == '\0')
            return false;
        token += length + 1;
    }
}

static bool ucx_token_covers(const char *token, size_t length, const char *transport)
{
    const struct ucx_alias *alias = ucx_alias_find(token, length);

    if (alias == NULL)
        return strlen(transport) == length && memcmp(token, transport, length) == 0;
    for (size_t i = 0; i < sizeof(alias->transports) / sizeof(alias->transports[0]); i++)
        if (alias->transports[i] != NULL && ucx_pattern_matches(alias->transports[i], transport))
            return true;
    return false;
}

static bool ucx_token_is_known(const char *token, size_t length)
{
    if (ucx_alias_find(token, length) != NULL)
        return true;
    for (size_t i = 0; i < sizeof(ucx_transports) / sizeof(ucx_transports[0]); i++)
        if (strlen(ucx_transports[i]) == length && memcmp(token, ucx_transports[i], length) == 0)
            return true;
    return ucx_token_is_present(token, length);
}

static bool ucx_token_is_present(const char *token, size_t length)
{
    const struct ucx_resource *list;
    uint32_t count = ucx_resources(&list);

    for (uint32_t i = 0; i < count; i++)
        if (ucx_token_covers(token, length, list[i].transport))
            return true;
    return false;
}

static bool ucx_pattern_matches(const char *pattern, const char *transport)
{
    size_t length = strlen(pattern);

    if (pattern[length - 1] == '*')
        return strncmp(pattern, transport, length - 1) == 0;
    return strcmp(pattern, transport) == 0;
}

static const struct ucx_alias *ucx_alias_find(const char *token, size_t length)
{
    for (size_t i = 0; i < sizeof(ucx_aliases) / sizeof(ucx_aliases[0]); i++)
        if (strlen(ucx_aliases[i].name) == length &&
            memcmp(token, ucx_aliases[i].name, length) == 0)
            return &ucx_aliases[i];
    return NULL;
}
