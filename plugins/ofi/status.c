/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric's errors as NA's, and opening and closing its objects. */

#include "ofi.h"

#include <string.h>

/* `error` is positive. */
int32_t ofi_status(int error)
{
    switch (error) {
    case 0:
        return NA_PLUGIN_SUCCESS;
    case FI_EAGAIN:
        return NA_PLUGIN_AGAIN;
    case FI_ENOMEM:
    case FI_ENOSPC: /* a device takes no further registration */
        return NA_PLUGIN_NOMEM;
    case FI_EPERM:
    case FI_EACCES:
    case FI_ENOKEY:
    case FI_EKEYREJECTED:
        return NA_PLUGIN_PERMISSION;
    case FI_EBUSY:
        return NA_PLUGIN_BUSY;
    case FI_ENODEV:
    case FI_ENODATA:
        return NA_PLUGIN_NODEV;
    case FI_EINVAL:
        return NA_PLUGIN_INVALID_ARG;
    case FI_EMSGSIZE:
    case FI_ETRUNC:
    case FI_ETOOSMALL:
        return NA_PLUGIN_MSGSIZE;
    case FI_EOPNOTSUPP:
    case FI_ENOSYS:
        return NA_PLUGIN_OPNOTSUPPORTED;
    case FI_EADDRINUSE:
        return NA_PLUGIN_ADDRINUSE;
    case FI_EADDRNOTAVAIL:
        return NA_PLUGIN_ADDRNOTAVAIL;
    case FI_ENETDOWN:
    case FI_ENETUNREACH:
    case FI_ECONNABORTED:
    case FI_ECONNRESET:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_ETIMEDOUT:
    case FI_ECONNREFUSED:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_EREMOTEIO:
    case FI_EIO:
    case EPIPE:
    case FI_ECANCELED: /* flushed with its connection: this plugin never calls fi_cancel() */
        return NA_PLUGIN_HOSTUNREACH;
    default:
        return NA_PLUGIN_IO_ERROR;
    }
}

/* An unspecific error of a send means that the peer cannot be reached. */
int32_t ofi_send_status(int error)
{
    int32_t status = ofi_status(error);

    return status == NA_PLUGIN_IO_ERROR || status == NA_PLUGIN_INVALID_ARG ? NA_PLUGIN_HOSTUNREACH
                                                                           : status;
}

/* `error` is negative, as libfabric returns it. */
int32_t ofi_failed(const struct na_plugin_class *na_class, const char *object, int error)
{
    char where[128] = "";

    if (na_class->protocol.naming == OFI_NAMING_SOCKET && na_class->info->src_addr != NULL) {
        struct sockaddr_storage address = {0};

        if (na_class->info->src_addrlen <= sizeof(address)) {
            memcpy(&address, na_class->info->src_addr, na_class->info->src_addrlen);
            kit_location_format(&address, where, sizeof(where));
        }
    }
    OFI_LOG_ERROR("provider '%s', domain '%s'%s%s: %s could not be opened (%s)",
                  na_class->info->fabric_attr->prov_name, na_class->info->domain_attr->name,
                  where[0] != '\0' ? " at " : "", where, object, fi_strerror(-error));
    return ofi_status(-error);
}

/* Opens and enables an endpoint on the class's completion queue. Returns 0 or a negative error. */
int ofi_endpoint_create(struct na_plugin_class *na_class, struct fi_info *info, struct fid_av *av,
                        struct fid_ep **endpoint_p)
{
    struct fid_ep *endpoint;
    int error = fi_endpoint(na_class->domain, info, &endpoint, NULL);

    if (error != 0)
        return error;
    error = fi_ep_bind(endpoint, &av->fid, 0);
    if (error == 0)
        error = fi_ep_bind(endpoint, &na_class->cq->fid, FI_SEND | FI_RECV);
    if (error == 0)
        error = fi_enable(endpoint);
    if (error == 0)
        *endpoint_p = endpoint;
    else
        ofi_close(&endpoint->fid);
    return error;
}

void ofi_close(struct fid *fid)
{
    int error = fi_close(fid);

    if (error != 0)
        OFI_LOG_WARNING("libfabric could not close an object (%s)", fi_strerror(-error));
}
