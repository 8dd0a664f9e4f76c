/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses. Each is an object of the plugin; the core only passes it on. */

#include "na/class.h"
#include "na/log.h"

#include <string.h>

#define ADDRESS_STRING_MAX 65536u /* longest string of an address, with its terminating null */

static bool args_are_valid(const struct na_class *na_class, const void *what, const char *name);
static na_return_t addr_made(const struct na_class *na_class, int32_t status,
                             struct na_plugin_addr *addr, na_addr_t **addr_p);
static size_t string_size(na_class_t *na_class, na_addr_t *addr);
static bool string_is_sound(const struct na_class *na_class, const char *buf, size_t buf_size,
                            uint64_t size);

na_return_t NA_Addr_lookup(na_class_t *na_class, const char *name, na_addr_t **addr_p)
{
    struct na_plugin_addr *addr = NULL;
    int32_t status;
    na_return_t ret;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (!args_are_valid(na_class, name, "name") || !args_are_valid(na_class, addr_p, "addr_p"))
        return NA_INVALID_ARG;
    status = na_class->table.addr_lookup(na_class->plugin_class, name, &addr);
    ret = addr_made(na_class, status, addr, addr_p);
    if (ret != NA_SUCCESS)
        NA_LOG_DEBUG("no address for \"%.256s\": %s", name, NA_Error_to_string(ret));
    return ret;
}

void NA_Addr_free(na_class_t *na_class, na_addr_t *addr)
{
    if (na_class_fork_refused(na_class, __func__))
        return;
    if (addr == NULL)
        return;
    if (args_are_valid(na_class, addr, "addr"))
        na_class->table.addr_free(na_class->plugin_class, (struct na_plugin_addr *) addr);
}

na_return_t NA_Addr_set_remove(na_class_t *na_class, na_addr_t *addr)
{
    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (!args_are_valid(na_class, addr, "addr"))
        return NA_INVALID_ARG;
    if (na_class->table.addr_set_remove == NULL)
        return NA_SUCCESS;
    return na_return_from_plugin(
        na_class->table.addr_set_remove(na_class->plugin_class, (struct na_plugin_addr *) addr));
}

na_return_t NA_Addr_self(na_class_t *na_class, na_addr_t **addr_p)
{
    struct na_plugin_addr *addr = NULL;
    int32_t status;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (!args_are_valid(na_class, addr_p, "addr_p"))
        return NA_INVALID_ARG;
    status = na_class->table.addr_self(na_class->plugin_class, &addr);
    return addr_made(na_class, status, addr, addr_p);
}

na_return_t NA_Addr_dup(na_class_t *na_class, na_addr_t *addr, na_addr_t **new_addr_p)
{
    struct na_plugin_addr *copy = NULL;
    int32_t status;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (!args_are_valid(na_class, addr, "addr") ||
        !args_are_valid(na_class, new_addr_p, "new_addr_p"))
        return NA_INVALID_ARG;
    status =
        na_class->table.addr_dup(na_class->plugin_class, (struct na_plugin_addr *) addr, &copy);
    return addr_made(na_class, status, copy, new_addr_p);
}

bool NA_Addr_cmp(na_class_t *na_class, na_addr_t *addr1, na_addr_t *addr2)
{
    if (na_class_fork_refused(na_class, __func__))
        return false;
    if (addr1 == addr2)
        return true;
    if (addr1 == NULL || addr2 == NULL || !args_are_valid(na_class, addr1, "addr1"))
        return false;
    return na_class->table.addr_compare(na_class->plugin_class, (struct na_plugin_addr *) addr1,
                                        (struct na_plugin_addr *) addr2) != 0;
}

bool NA_Addr_is_self(na_class_t *na_class, na_addr_t *addr)
{
    if (na_class_fork_refused(na_class, __func__))
        return false;
    return args_are_valid(na_class, addr, "addr") &&
           na_class->table.addr_is_self(na_class->plugin_class, (struct na_plugin_addr *) addr) !=
               0;
}

na_return_t NA_Addr_to_string(na_class_t *na_class, char *buf, size_t *buf_size, na_addr_t *addr)
{
    uint64_t size;
    na_return_t ret;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (!args_are_valid(na_class, addr, "addr") || !args_are_valid(na_class, buf_size, "buf_size"))
        return NA_INVALID_ARG;
    size = buf != NULL ? *buf_size : 0;
    ret = na_return_from_plugin(na_class->table.addr_to_string(
        na_class->plugin_class, (struct na_plugin_addr *) addr, buf, &size));
    if ((ret == NA_SUCCESS || ret == NA_OVERFLOW) &&
        !string_is_sound(na_class, ret == NA_SUCCESS ? buf : NULL, *buf_size, size)) {
        if (buf != NULL && *buf_size > 0)
            buf[0] = '\0';
        return NA_FAULT;
    }
    if (ret == NA_SUCCESS || ret == NA_OVERFLOW)
        *buf_size = (size_t) size;
    return ret;
}

size_t NA_Addr_get_serialize_size(na_class_t *na_class, na_addr_t *addr)
{
    const struct na_plugin_addr_serialize *serialize;

    if (na_class_fork_refused(na_class, __func__))
        return 0;
    if (!args_are_valid(na_class, addr, "addr"))
        return 0;
    serialize = &na_class->transport->addr_serialize;
    if (serialize->addr_serialize_size != NULL)
        return (size_t) serialize->addr_serialize_size(na_class->plugin_class,
                                                       (struct na_plugin_addr *) addr);
    return string_size(na_class, addr);
}

/* A plugin without NA_PLUGIN_EXT_ADDR_SERIALIZE sends the address as a null-terminated string. */
na_return_t NA_Addr_serialize(na_class_t *na_class, void *buf, size_t buf_size, na_addr_t *addr)
{
    const struct na_plugin_addr_serialize *serialize;
    size_t size = buf_size;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (!args_are_valid(na_class, addr, "addr") || !args_are_valid(na_class, buf, "buf"))
        return NA_INVALID_ARG;
    serialize = &na_class->transport->addr_serialize;
    if (serialize->addr_serialize != NULL)
        return na_return_from_plugin(serialize->addr_serialize(
            na_class->plugin_class, (struct na_plugin_addr *) addr, buf, buf_size));
    return NA_Addr_to_string(na_class, buf, &size, addr);
}

na_return_t NA_Addr_deserialize(na_class_t *na_class, na_addr_t **addr_p, const void *buf,
                                size_t buf_size, uint64_t flags)
{
    const struct na_plugin_addr_serialize *serialize;
    struct na_plugin_addr *addr = NULL;
    int32_t status;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (!args_are_valid(na_class, addr_p, "addr_p") || !args_are_valid(na_class, buf, "buf"))
        return NA_INVALID_ARG;
    serialize = &na_class->transport->addr_serialize;
    if (serialize->addr_deserialize != NULL) {
        status = serialize->addr_deserialize(na_class->plugin_class, buf, buf_size, flags, &addr);
    } else if (memchr(buf, '\0', buf_size) == NULL) {
        NA_LOG_ERROR("a serialized address of %zu bytes has no end", buf_size);
        return NA_PROTOCOL_ERROR;
    } else {
        status = na_class->table.addr_lookup(na_class->plugin_class, buf, &addr);
    }
    return addr_made(na_class, status, addr, addr_p);
}

static bool args_are_valid(const struct na_class *na_class, const void *what, const char *name)
{
    if (util_likely(na_class != NULL && what != NULL))
        return true;
    NA_LOG_ERROR("%s is NULL; pass a valid one", na_class == NULL ? "na_class" : name);
    return false;
}

static na_return_t addr_made(const struct na_class *na_class, int32_t status,
                             struct na_plugin_addr *addr, na_addr_t **addr_p)
{
    na_return_t ret = na_return_from_plugin(status);

    if (ret == NA_SUCCESS && addr == NULL) {
        NA_LOG_ERROR("plugin %s made an address that is NULL; report it to the plugin's maker",
                     na_class->transport->name);
        ret = NA_FAULT;
    }
    *addr_p = ret == NA_SUCCESS ? (na_addr_t *) addr : NULL;
    return ret;
}

static size_t string_size(na_class_t *na_class, na_addr_t *addr)
{
    size_t size = 0;

    return NA_Addr_to_string(na_class, NULL, &size, addr) == NA_SUCCESS ? size : 0;
}

/* Checks the size that the plugin reported, and, unless `buf` is NULL, the string that it wrote. */
static bool string_is_sound(const struct na_class *na_class, const char *buf, size_t buf_size,
                            uint64_t size)
{
    const char *wrong = NULL;

    if (size == 0 || size > ADDRESS_STRING_MAX)
        wrong = "too long, or empty";
    else if (buf != NULL && (size > buf_size || memchr(buf, '\0', (size_t) size) == NULL))
        wrong = "without an end";
    if (wrong != NULL)
        NA_LOG_ERROR("plugin %s gave an address of %llu bytes that is %s (%u is the most); report "
                     "it to the plugin's maker",
                     na_class->transport->name, (unsigned long long) size, wrong,
                     ADDRESS_STRING_MAX);
    return wrong == NULL;
}
