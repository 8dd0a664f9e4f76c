/* SPDX-License-Identifier: BSD-3-Clause */
/* From the init string to the fi_info that is opened. */

#include "ofi.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The parsed address of the init string. */
struct ofi_source {
    char domain[128]; /* empty: any */
    char name[128];   /* OFI_NAMING_STRING */
    char service[16]; /* OFI_NAMING_RAW: the endpoint's number, empty for any */
    struct sockaddr_storage address;
    bool has_address;
};

static int32_t ofi_source_parse(const struct ofi_protocol *protocol,
                                const struct na_plugin_init *init, struct ofi_source *source);
static int32_t ofi_source_parse_socket(const struct ofi_protocol *protocol,
                                       const struct na_plugin_init *init, const char *text,
                                       struct ofi_source *source);
static int32_t ofi_source_parse_string(const char *text, struct ofi_source *source);
static int32_t ofi_source_generate_name(struct ofi_source *source);
static int32_t ofi_source_parse_raw(const char *text, struct ofi_source *source);
static int32_t ofi_source_getinfo(struct na_plugin_class *na_class,
                                  const struct na_plugin_init *init,
                                  const struct ofi_source *source, struct fi_info **list_p);
static struct fi_info *ofi_info_choose(const struct na_plugin_class *na_class,
                                       const struct ofi_source *source, struct fi_info *list);
static bool ofi_info_is_elsewhere(const struct ofi_source *source, const struct fi_info *info);
static int32_t ofi_explain_missing(const struct na_plugin_class *na_class,
                                   const struct ofi_source *source, int error);

int32_t ofi_select(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    struct ofi_protocol *protocol = &na_class->protocol;
    struct ofi_source source;
    struct fi_info *list = NULL, *picked;
    char reason[512];
    uint32_t format;
    int32_t ret;

    (void) snprintf(na_class->protocol_name, sizeof(na_class->protocol_name), "%s", init->protocol);
    if (strlen(init->protocol) >= sizeof(na_class->protocol_name) ||
        !ofi_protocol_find(na_class->protocol_name, protocol)) {
        OFI_LOG_ERROR("'%.80s' is neither a protocol nor a provider of libfabric", init->protocol);
        return NA_PLUGIN_PROTONOSUPPORT;
    }
    format = ofi_offered_format(protocol);
    if (format == FI_FORMAT_UNSPEC) { /* an address cannot be parsed without a format */
        ofi_missing_text(protocol, reason, sizeof(reason));
        OFI_LOG_ERROR("%s", reason);
        return NA_PLUGIN_NODEV;
    }
    if (protocol->naming == OFI_NAMING_RAW)
        protocol->naming = ofi_format_naming(format);
    ret = ofi_source_parse(protocol, init, &source);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_source_getinfo(na_class, init, &source, &list);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    picked = ofi_info_choose(na_class, &source, list);
    if (picked != NULL) {
        na_class->info = fi_dupinfo(picked);
        ret = na_class->info != NULL ? NA_PLUGIN_SUCCESS : NA_PLUGIN_NOMEM;
    } else {
        ret = ofi_explain_missing(na_class, &source, FI_ENODATA);
    }
    fi_freeinfo(list);
    return ret;
}

static int32_t ofi_source_parse(const struct ofi_protocol *protocol,
                                const struct na_plugin_init *init, struct ofi_source *source)
{
    const char *text = init->address != NULL ? init->address : "";

    memset(source, 0, sizeof(*source));
    switch (protocol->naming) {
    case OFI_NAMING_SOCKET:
        return ofi_source_parse_socket(protocol, init, text, source);
    case OFI_NAMING_STRING:
        return ofi_source_parse_string(text, source);
    default:
        return ofi_source_parse_raw(text, source);
    }
}

/* "[domain/][host][:port]", where a host may also be an interface, or a domain of the provider. */
static int32_t ofi_source_parse_socket(const struct ofi_protocol *protocol,
                                       const struct na_plugin_init *init, const char *text,
                                       struct ofi_source *source)
{
    const char *slash = strrchr(text, '/');
    char reason[KIT_LOCATION_REASON_MAX];
    struct kit_location location;
    int32_t ret;

    if (slash != NULL) {
        size_t length = (size_t) (slash - text);

        if (length == 0 || length >= sizeof(source->domain)) {
            OFI_LOG_ERROR("'%.100s': a domain's name is expected before '/'", text);
            return NA_PLUGIN_INVALID_ARG;
        }
        memcpy(source->domain, text, length);
        text = slash + 1;
    }
    ret = kit_location_parse(text, &location, reason);
    if (ret != NA_PLUGIN_SUCCESS)
        goto refuse;
    if (source->domain[0] == '\0' && location.host[0] != '\0' &&
        if_nametoindex(location.host) == 0 && strlen(location.host) < sizeof(source->domain) &&
        ofi_offered_domain(protocol, location.host)) {
        memcpy(source->domain, location.host, strlen(location.host) + 1);
        location.host[0] = '\0';
    }
    if (source->domain[0] != '\0' && !ofi_offered_domain(protocol, source->domain)) {
        OFI_LOG_ERROR("provider '%s' has no domain '%s' on this machine", protocol->provider,
                      source->domain);
        return NA_PLUGIN_NODEV;
    }
    /* A domain with the name of an interface implies the address of that interface. */
    if (source->domain[0] != '\0' && location.host[0] == '\0' &&
        if_nametoindex(source->domain) != 0)
        memcpy(location.host, source->domain, strlen(source->domain) + 1);
    if (location.host[0] == '\0' && init->ip_subnet == NULL && !protocol->tcp_port &&
        location.port == 0)
        return NA_PLUGIN_SUCCESS; /* the provider chooses an address of its own devices */
    ret = kit_location_resolve_local(&location, init->ip_subnet, init->addr_format,
                                     &source->address, reason);
    if (ret == NA_PLUGIN_SUCCESS) {
        source->has_address = true;
        return NA_PLUGIN_SUCCESS;
    }

refuse:
    OFI_LOG_ERROR("cannot listen at '%.100s': %s", text, reason);
    return ret;
}

/* Takes the caller's name, or generates one. */
static int32_t ofi_source_parse_string(const char *text, struct ofi_source *source)
{
    if (text[0] == '\0')
        return ofi_source_generate_name(source);
    if (!ofi_string_name_check(text)) {
        OFI_LOG_ERROR("'%.80s' cannot name an endpoint: 1 to %d letters, digits, '-', '_', '.'",
                      text, OFI_STRING_NAME_MAX);
        return NA_PLUGIN_INVALID_ARG;
    }
    memcpy(source->name, text, strlen(text) + 1);
    return NA_PLUGIN_SUCCESS;
}

/* A unique name that cannot be guessed: "amalgam-ofi.<uid>.<pid>-<random>". */
static int32_t ofi_source_generate_name(struct ofi_source *source)
{
    struct kit_key random;

    if (kit_key_draw(&random) != NA_PLUGIN_SUCCESS) {
        OFI_LOG_ERROR("no random numbers for the name of an endpoint (%s)", strerror(errno));
        return NA_PLUGIN_IO_ERROR;
    }
    (void) snprintf(source->name, sizeof(source->name),
                    "amalgam-ofi.%u.%u-%016" PRIx64 "%016" PRIx64, (unsigned int) geteuid(),
                    (unsigned int) getpid(), random.word[0], random.word[1]);
    return NA_PLUGIN_SUCCESS;
}

/* "[domain][:number]" */
static int32_t ofi_source_parse_raw(const char *text, struct ofi_source *source)
{
    struct kit_location location;
    char reason[KIT_LOCATION_REASON_MAX];
    int32_t ret = kit_location_parse(text, &location, reason);

    if (ret != NA_PLUGIN_SUCCESS || strlen(location.host) >= sizeof(source->domain)) {
        OFI_LOG_ERROR("'%.100s' is not of the form domain:number%s%s", text,
                      ret != NA_PLUGIN_SUCCESS ? ": " : "", ret != NA_PLUGIN_SUCCESS ? reason : "");
        return NA_PLUGIN_INVALID_ARG;
    }
    memcpy(source->domain, location.host, strlen(location.host) + 1);
    if (location.has_port)
        (void) snprintf(source->service, sizeof(source->service), "%u", location.port);
    return NA_PLUGIN_SUCCESS;
}

static int32_t ofi_source_getinfo(struct na_plugin_class *na_class,
                                  const struct na_plugin_init *init,
                                  const struct ofi_source *source, struct fi_info **list_p)
{
    const struct ofi_protocol *protocol = &na_class->protocol;
    struct fi_info *hints = ofi_hints_create(protocol, init);
    bool has_service = source->service[0] != '\0';
    int32_t ret;
    int error;

    if (hints == NULL)
        return NA_PLUGIN_NOMEM;
    ret = ofi_hints_set_source(hints, protocol, source->domain[0] != '\0' ? source->domain : NULL,
                               source->has_address ? &source->address : NULL,
                               source->name[0] != '\0' ? source->name : NULL);
    if (ret == NA_PLUGIN_SUCCESS && init->auth_key != NULL && init->auth_key[0] != '\0')
        ret = ofi_hints_set_auth_key(hints, protocol, init->auth_key);
    if (ret == NA_PLUGIN_SUCCESS) {
        error = fi_getinfo(
            OFI_API_VERSION, has_service && source->domain[0] != '\0' ? source->domain : NULL,
            has_service ? source->service : NULL, has_service ? FI_SOURCE : 0, hints, list_p);
        if (error != 0)
            ret = ofi_explain_missing(na_class, source, -error);
    }
    fi_freeinfo(hints);
    return ret;
}

/*
 * Returns the first entry for the init string. A provider with FI_EP_RDM of its own is preferred to
 * one below a utility provider, unless the init string names the latter.
 */
static struct fi_info *ofi_info_choose(const struct na_plugin_class *na_class,
                                       const struct ofi_source *source, struct fi_info *list)
{
    const struct ofi_protocol *protocol = &na_class->protocol;
    struct fi_info *layered = NULL;

    for (struct fi_info *info = list; info != NULL; info = info->next) {
        if (!ofi_protocol_has_provider(protocol, info->fabric_attr->prov_name))
            continue;
        /* Providers over sockets match the address alone, and ignore another domain's name. */
        if (protocol->naming == OFI_NAMING_SOCKET && source->domain[0] != '\0' &&
            strcmp(info->domain_attr->name, source->domain) != 0)
            continue;
        if (ofi_info_is_elsewhere(source, info))
            continue;
        if (strcmp(info->fabric_attr->prov_name, protocol->provider) == 0)
            return ofi_device_choose(info);
        if (layered == NULL)
            layered = info;
    }
    return layered != NULL ? ofi_device_choose(layered) : NULL;
}

/* If the device does not have the address asked for, verbs offers the device's own instead. */
static bool ofi_info_is_elsewhere(const struct ofi_source *source, const struct fi_info *info)
{
    const struct sockaddr_storage any = {.ss_family = source->address.ss_family};
    struct sockaddr_storage offered = {0};

    if (!source->has_address || info->src_addr == NULL || info->src_addrlen > sizeof(offered) ||
        ofi_host_equal(&source->address, &any))
        return false;
    memcpy(&offered, info->src_addr, info->src_addrlen);
    return !ofi_host_equal(&source->address, &offered);
}

static int32_t ofi_explain_missing(const struct na_plugin_class *na_class,
                                   const struct ofi_source *source, int error)
{
    const struct ofi_protocol *protocol = &na_class->protocol;
    char offered[256], where[288] = "";

    if (source->has_address) {
        int used = source->domain[0] != '\0'
                       ? snprintf(where, sizeof(where), " on %s at ", source->domain)
                       : snprintf(where, sizeof(where), " at ");

        kit_location_format(&source->address, where + used, sizeof(where) - (size_t) used);
    } else if (source->domain[0] != '\0') {
        (void) snprintf(where, sizeof(where), " on %s", source->domain);
    }
    ofi_offered_domains(protocol, offered, sizeof(offered));
    OFI_LOG_ERROR("provider '%s' of libfabric offers nothing%s that fits (%s); it has: %s",
                  protocol->provider, where, fi_strerror(error), offered);
    return error == FI_ENODATA ? NA_PLUGIN_NODEV : ofi_status(error);
}
