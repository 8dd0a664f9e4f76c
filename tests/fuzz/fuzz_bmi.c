/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that arrive at a socket of the embedded BMI, with and without matching receives. */

#include "fuzz.h"

#include "bmi.h"
#include "tcp_wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAMES_MAX 16
#define RECEIVES   4 /* with tags from 0 */
#define BYTES      2000

static struct BMI_instance *instance;
static bmi_context_id context;
static int port;

/* A connection and its receives. */
struct connection {
    int fd;
    BMI_addr_t addr; /* 0 before the first unexpected message */
    uint8_t *bufs[RECEIVES];
    bmi_op_id_t ids[RECEIVES];
    unsigned int posted, completed; /* bit i: receive i */
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    instance = BMI_instance_create(NULL);
    FUZZ_CHECK(instance != NULL);
    BMI_instance_use(instance);
    FUZZ_CHECK(BMI_initialize("bmi_tcp", "tcp://127.0.0.1:0",
                              BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC) == 0);
    FUZZ_CHECK(BMI_open_context(&context) == 0);
    FUZZ_CHECK(BMI_get_info(0, BMI_TCP_GET_PORT, &port) == 0);
    return 0;
}

static void connection_open(struct connection *connection)
{
    const struct linger linger = {.l_onoff = 1}; /* closes with a reset: so many connections in
                                                  * TIME_WAIT would use up the ports */
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};

    memset(connection, 0, sizeof(*connection));
    for (int i = 0; i < RECEIVES; i++) {
        connection->bufs[i] = malloc(BYTES);
        FUZZ_CHECK(connection->bufs[i] != NULL);
    }
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(connection->fd >= 0);
    (void) setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    /* Other programs on the machine may have used up the ports for a while. The fuzzer's timer may
     * interrupt the call; calling again waits for the connection that has begun. */
    for (int tries = 0; connect(connection->fd, (struct sockaddr *) &name, sizeof(name)) != 0;
         tries++) {
        if (errno == EINTR)
            continue;
        FUZZ_CHECK(errno == EADDRNOTAVAIL && tries < 6000);
        (void) usleep(10000);
    }
}

/* The first unexpected message identifies the sender; then receives are posted. */
static void take_unexpected(struct connection *connection)
{
    struct BMI_unexpected_info info;
    int count = 0;

    while (BMI_testunexpected(1, &count, &info, BMI_TEST_ONLY) >= 0 && count == 1) {
        if (info.buffer == NULL)
            continue;
        FUZZ_CHECK(info.size >= 0);
        if (connection->addr == 0) {
            connection->addr = info.addr;
            (void) BMI_set_info(info.addr, BMI_INC_ADDR_REF, NULL);
        }
        (void) BMI_unexpected_free(info.addr, info.buffer);
    }
    for (int i = 0; i < RECEIVES && connection->addr != 0; i++) {
        bmi_size_t size = 0;
        int ret;

        if ((connection->posted >> i & 1) != 0)
            continue;
        ret = BMI_post_recv(&connection->ids[i], connection->addr, connection->bufs[i], BYTES,
                            &size, BMI_EXT_ALLOC, i, (void *) (uintptr_t) i, context, NULL);
        connection->posted |= 1u << i;
        if (ret != 0)
            connection->completed |= 1u << i;
        FUZZ_CHECK(ret != 1 || (size >= 0 && size <= BYTES));
    }
}

static void take_completions(struct connection *connection)
{
    bmi_error_code_t error;
    bmi_op_id_t id;
    bmi_size_t size;
    void *number;
    int count = 0;

    while (BMI_testcontext(1, &id, &count, &error, &size, &number, BMI_TEST_ONLY, context) >= 0 &&
           count == 1) {
        const unsigned int bit = 1u << (uintptr_t) number;

        FUZZ_CHECK((connection->posted & bit) != 0 && (connection->completed & bit) == 0);
        FUZZ_CHECK(error != 0 || (size >= 0 && size <= BYTES));
        connection->completed |= bit;
    }
}

static void progress(struct connection *connection)
{
    for (int i = 0; i < 3; i++) {
        (void) BMI_progress(0);
        take_unexpected(connection);
        take_completions(connection);
    }
}

/* Checks that each receive completes once. */
static void connection_close(struct connection *connection)
{
    for (int i = 0; i < RECEIVES; i++)
        if (((connection->posted & ~connection->completed) >> i & 1) != 0)
            (void) BMI_cancel(connection->ids[i], context);
    take_completions(connection);
    FUZZ_CHECK(connection->posted == connection->completed);
    (void) close(connection->fd);
    progress(connection);
    if (connection->addr != 0)
        (void) BMI_set_info(connection->addr, BMI_DEC_ADDR_REF, NULL);
    for (int i = 0; i < RECEIVES; i++)
        free(connection->bufs[i]);
}

/* Encodes a header with fields of the input. */
static size_t frame_head(struct fuzz_input *input, uint64_t how, size_t length, uint8_t *bytes)
{
    struct wire_header header = {
        .mode = (how & 2) != 0 ? WIRE_UNEXPECTED << (how >> 2) % 3 : (uint32_t) fuzz_take(input, 4),
        .tag = (int32_t) ((how & 16) != 0 ? how >> 5 & 3 : fuzz_take(input, 4)),
        .source = (how & 128) != 0 ? 0 : (uint32_t) fuzz_take(input, 4),
        .size = length,
    };

    if ((how & 1) == 0)
        header.size = fuzz_take(input, 8);
    wire_encode(bytes, &header);
    return WIRE_HEADER_SIZE;
}

/* Input: for each frame its options and its length; a length of 0 is followed by raw bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct connection connection;
    uint8_t bytes[WIRE_HEADER_SIZE + BYTES];

    connection_open(&connection);
    for (int i = 0; i < FRAMES_MAX && input.size > 0; i++) {
        const uint64_t how = fuzz_take(&input, 1);
        const size_t length = fuzz_take(&input, 2) % BYTES;
        size_t used = length != 0 ? frame_head(&input, how, length, bytes) : 0;

        memset(bytes + used, 0, BYTES);
        (void) fuzz_take_bytes(&input, bytes + used, length != 0 ? length : how);
        used += length != 0 ? length : how;
        if (send(connection.fd, bytes, used, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break; /* the other side closed the connection */
        progress(&connection);
    }
    connection_close(&connection);
    return 0;
}
