/* SPDX-License-Identifier: BSD-3-Clause */
/* Identity of the host that this process runs on. */

#include "na/log.h"
#include "na_sm.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define ID_BYTES     sizeof(na_sm_id_t)
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define MACHINE_FILE "/etc/machine-id"

static size_t read_line(const char *path, char *line, size_t size);
static void hash_text(const char *text, size_t length, unsigned char *bytes);
static int digit_value(char c);

na_return_t NA_SM_Host_id_get(na_sm_id_t *id_p)
{
    char line[256] = "";
    size_t length;

    if (id_p == NULL) {
        NA_LOG_ERROR("id_p is NULL; pass where the id goes");
        return NA_INVALID_ARG;
    }
    length = read_line(BOOT_ID_FILE, line, sizeof(line));
    if (length == NA_SM_HOST_ID_LEN && NA_SM_String_to_host_id(line, id_p) == NA_SUCCESS)
        return NA_SUCCESS;
    length = read_line(MACHINE_FILE, line, sizeof(line));
    if (length == 0 && gethostname(line, sizeof(line) - 1) == 0)
        length = strlen(line);
    if (length == 0) {
        NA_LOG_ERROR("neither " BOOT_ID_FILE " nor " MACHINE_FILE
                     " nor the host's name can be read");
        return NA_NOENTRY;
    }
    hash_text(line, length, *id_p);
    return NA_SUCCESS;
}

na_return_t NA_SM_Host_id_to_string(na_sm_id_t id, char *string)
{
    static const char digits[] = "0123456789abcdef";
    char *out = string;

    if (id == NULL || string == NULL) {
        NA_LOG_ERROR("id or string is NULL; pass an id, and room for %d characters",
                     NA_SM_HOST_ID_LEN + 1);
        return NA_INVALID_ARG;
    }
    for (size_t i = 0; i < ID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[id[i] >> 4];
        *out++ = digits[id[i] & 15];
    }
    *out = '\0';
    return NA_SUCCESS;
}

na_return_t NA_SM_String_to_host_id(const char *string, na_sm_id_t *id_p)
{
    unsigned char bytes[ID_BYTES];
    const char *in = string;

    if (string == NULL || id_p == NULL) {
        NA_LOG_ERROR("string or id_p is NULL; pass a host id's string, and where the id goes");
        return NA_INVALID_ARG;
    }
    for (size_t i = 0; i < ID_BYTES; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && *in++ != '-')
            goto malformed;
        if (digit_value(in[0]) < 0 || digit_value(in[1]) < 0)
            goto malformed;
        bytes[i] = (unsigned char) (digit_value(in[0]) << 4 | digit_value(in[1]));
        in += 2;
    }
    if (*in != '\0')
        goto malformed;
    memcpy(*id_p, bytes, ID_BYTES);
    return NA_SUCCESS;

malformed:
    NA_LOG_ERROR("\"%.40s\" is not a host id: 8-4-4-4-12 hexadecimal digits are expected", string);
    return NA_PROTOCOL_ERROR;
}

void NA_SM_Host_id_copy(na_sm_id_t *dst_p, na_sm_id_t src)
{
    if (dst_p != NULL && src != NULL)
        memmove(*dst_p, src, ID_BYTES);
}

bool NA_SM_Host_id_cmp(na_sm_id_t id1, na_sm_id_t id2)
{
    return id1 == id2 || (id1 != NULL && id2 != NULL && memcmp(id1, id2, ID_BYTES) == 0);
}

/* Reads the first line of a file, without its newline. Returns its length; 0: no file, or empty. */
static size_t read_line(const char *path, char *line, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;

    if (fd >= 0) {
        got = read(fd, line, size - 1);
        (void) close(fd);
    }
    line[got > 0 ? got : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return strlen(line);
}

/* Fills an id with two FNV-1a hashes of the text, which start from different values. */
static void hash_text(const char *text, size_t length, unsigned char *bytes)
{
    uint64_t hash[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};

    for (size_t i = 0; i < 2 * length; i++) {
        uint64_t *part = &hash[i / length];

        *part = (*part ^ (unsigned char) text[i % length]) * UINT64_C(0x100000001b3);
    }
    memcpy(bytes, hash, sizeof(hash));
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}
