/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Byte order: BYTE_ORDER, what <arpa/inet.h> has, and its like for 64 bits.
 */
#ifndef MERCURY_INET_H
#define MERCURY_INET_H

#include "mercury_byteswap.h"
#include "mercury_util_config.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

/* Where <endian.h> does not show them. */
#ifndef BYTE_ORDER
#    define LITTLE_ENDIAN __ORDER_LITTLE_ENDIAN__
#    define BIG_ENDIAN    __ORDER_BIG_ENDIAN__
#    define BYTE_ORDER    __BYTE_ORDER__
#endif

/* 64 bits from the host's order to the network's, and back. */
#ifndef htonll
#    if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#        define htonll(x) bswap_64(x)
#    else
#        define htonll(x) (x)
#    endif
#endif
#ifndef ntohll
#    define ntohll(x) htonll(x)
#endif

#endif /* MERCURY_INET_H */
