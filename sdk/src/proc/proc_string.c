/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processing of strings. A length from the wire is checked against the bytes left before memory is
 * allocated, and the characters are checked for null bytes.
 */
#include "mercury_proc_string.h"

#include "engine/log.h"
#include "proc/proc_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* Portable length that stands for NULL; no string can be that long here. */
#define HG_STRING_PORTABLE_NULL UINT32_MAX

static hg_return_t hg_proc_string(struct hg_proc *proc, char **string_p);
static hg_return_t hg_proc_string_encode(struct hg_proc *proc, const char *string);
static hg_return_t hg_proc_string_decode(struct hg_proc *proc, char **string_p);
static hg_return_t hg_proc_string_copy(struct hg_proc *proc, hg_size_t wire, char **string_p);

hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void *data)
{
    return hg_proc_hg_string_t(proc, data);
}

hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void *data)
{
    /* Through memcpy(): hg_string_t and hg_const_string_t are different types to the compiler. */
    char *string;
    hg_return_t ret;

    memcpy(&string, data, sizeof(string));
    ret = hg_proc_string(proc, &string);
    memcpy(data, &string, sizeof(string));
    return ret;
}

hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void *string)
{
    hg_string_object_t *object = string;

    switch (hg_proc_get_op(proc)) {
    case HG_ENCODE:
        return hg_proc_string_encode(proc, object->data);
    case HG_DECODE:
        object->is_const = false;
        object->is_owned = true;
        return hg_proc_string_decode(proc, &object->data);
    default:
        return hg_string_object_free(object);
    }
}

static hg_return_t hg_proc_string(struct hg_proc *proc, char **string_p)
{
    switch (hg_proc_get_op(proc)) {
    case HG_ENCODE:
        return hg_proc_string_encode(proc, *string_p);
    case HG_DECODE:
        return hg_proc_string_decode(proc, string_p);
    default:
        free(*string_p);
        *string_p = NULL;
        return HG_SUCCESS;
    }
}

static hg_return_t hg_proc_string_encode(struct hg_proc *proc, const char *string)
{
    size_t length = string != NULL ? strlen(string) : 0;
    uint32_t wire = 0;
    hg_return_t ret;

    if (length >= UINT32_MAX) {
        HG_LOG_ERROR("string of %zu characters is too long; pass it as bulk data", length);
        return HG_OVERFLOW;
    }
    if (string == NULL)
        wire = proc->is_portable ? HG_STRING_PORTABLE_NULL : 0;
    else
        wire = (uint32_t) length + (proc->is_portable ? 0 : 1);
    ret = hg_proc_uint32_t(proc, &wire);
    if (ret != HG_SUCCESS || string == NULL)
        return ret;
    /* Encoding only reads. */
    return hg_proc_bytes(proc, (void *) (uintptr_t) string, proc->is_portable ? length : wire);
}

static hg_return_t hg_proc_string_decode(struct hg_proc *proc, char **string_p)
{
    uint32_t wire = 0;
    hg_return_t ret;

    *string_p = NULL;
    ret = hg_proc_uint32_t(proc, &wire);
    if (ret != HG_SUCCESS)
        return ret;
    if (wire == (proc->is_portable ? HG_STRING_PORTABLE_NULL : 0))
        return HG_SUCCESS;
    return hg_proc_string_copy(proc, wire, string_p);
}

/* Decode a string of `wire` bytes, which include the null byte in the raw encoding only. */
static hg_return_t hg_proc_string_copy(struct hg_proc *proc, hg_size_t wire, char **string_p)
{
    size_t length = (size_t) (proc->is_portable ? wire : wire - 1);
    hg_size_t padding = hg_proc_padded(proc, wire) - wire;
    char *bytes;
    char *string;
    hg_return_t ret = hg_proc_take(proc, wire + padding, &bytes);

    if (ret != HG_SUCCESS)
        return ret;
    if (memchr(bytes, 0, length) != NULL || (!proc->is_portable && bytes[length] != 0)) {
        HG_LOG_ERROR("%zu characters are not a string: NUL inside of it or none at its end",
                     length);
        return HG_PROTOCOL_ERROR;
    }
    ret = hg_proc_padding_check(bytes + wire, padding);
    if (ret != HG_SUCCESS)
        return ret;
    string = malloc(length + 1);
    if (string == NULL) {
        HG_LOG_ERROR("cannot decode a string of %zu characters: out of memory", length);
        return HG_NOMEM;
    }
    memcpy(string, bytes, length);
    string[length] = 0;
    *string_p = string;
    return HG_SUCCESS;
}
