/* SPDX-License-Identifier: BSD-3-Clause */
/* BMI's error codes. */

#include "bmi_na.h"

static const struct {
    int code;
    int32_t status;
    const char *reason;
} errors[] = {
    {BMI_ENOMEM, NA_PLUGIN_NOMEM, "out of memory"},
    {BMI_EBUSY, NA_PLUGIN_BUSY, "it is in use"},
    {BMI_EINVAL, NA_PLUGIN_INVALID_ARG, "an argument is not right"},
    {BMI_EMFILE, NA_PLUGIN_NOMEM, "there are no file descriptors left"},
    {BMI_EPIPE, NA_PLUGIN_HOSTUNREACH, "the connection was closed"},
    {BMI_EPROTO, NA_PLUGIN_PROTOCOL_ERROR, "a message does not fit its receive"},
    {BMI_EBADMSG, NA_PLUGIN_HOSTUNREACH, "what came was not BMI's"},
    {BMI_EMSGSIZE, NA_PLUGIN_MSGSIZE, "a message is too long"},
    {BMI_EADDRINUSE, NA_PLUGIN_ADDRINUSE, "the port is taken"},
    {BMI_EADDRNOTAVAIL, NA_PLUGIN_ADDRNOTAVAIL, "the address is not of this machine"},
    {BMI_ENETUNREACH, NA_PLUGIN_HOSTUNREACH, "the network cannot be reached"},
    {BMI_ENOBUFS, NA_PLUGIN_NOMEM, "the system is out of memory"},
    {BMI_ETIMEDOUT, NA_PLUGIN_HOSTUNREACH, "its host does not answer"},
    {BMI_ECONNREFUSED, NA_PLUGIN_HOSTUNREACH, "nobody listens there"},
    {BMI_EHOSTUNREACH, NA_PLUGIN_HOSTUNREACH, "its host cannot be reached"},
    {BMI_EACCES, NA_PLUGIN_ACCESS, "the system does not allow it"},
    {BMI_ECONNRESET, NA_PLUGIN_HOSTUNREACH, "the connection was reset"},
    {BMI_ECANCEL, NA_PLUGIN_CANCELED, "it was cancelled"},
#ifdef BMI_EEXIST /* an installed BMI's, for operations on a broken connection */
    {BMI_EEXIST, NA_PLUGIN_HOSTUNREACH, "the connection broke"},
#endif
};

/* `error` is negative, as BMI returns it. */
int32_t bmi_na_status(int error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == -error)
            return errors[i].status;
    return NA_PLUGIN_IO_ERROR;
}

const char *bmi_na_reason(int error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == -error)
            return errors[i].reason;
    return "BMI failed";
}
