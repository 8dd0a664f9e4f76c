/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of MPI: rank 1 sends requests, rank 0 answers. mpiexec starts both ranks. MPI always
 * polls, so --busy makes no difference. */

#include "compare.hpp"

#include <mpi.h>

enum {
    TAG_REQUEST,
    TAG_REPLY,
    TAG_END
};

static std::string version()
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    (void) MPI_Get_library_version(text, &length);
    return std::string(text, std::min(std::strcspn(text, ",\n"), size_t(length)));
}

/* --in-flight receives are posted in advance; each is posted again when its request is answered. */
static void serve(const compare_options &options)
{
    std::vector<std::vector<char>> buffers(options.in_flight, std::vector<char>(options.size));
    std::vector<MPI_Request> requests(options.in_flight);
    int index;

    auto receive = [&](size_t i) {
        (void) MPI_Irecv(buffers[i].data(), int(options.size), MPI_BYTE, 1, MPI_ANY_TAG,
                         MPI_COMM_WORLD, &requests[i]);
    };
    for (size_t i = 0; i < requests.size(); i++)
        receive(i);
    for (unsigned ended = 0; ended < options.in_flight;) {
        MPI_Status status;

        (void) MPI_Waitany(int(requests.size()), requests.data(), &index, &status);
        if (status.MPI_TAG == TAG_END) {
            ended++;
            continue;
        }
        (void) MPI_Send(buffers[size_t(index)].data(), int(options.reply), MPI_BYTE, 1, TAG_REPLY,
                        MPI_COMM_WORLD);
        receive(size_t(index));
    }
}

/* Answers arrive in the order of the requests, so drive() waits for the slots in turn. */
static void drive(const compare_options &options, compare_window &window)
{
    std::vector<std::vector<char>> buffers(options.in_flight, std::vector<char>(options.size));
    std::vector<MPI_Request> requests(options.in_flight);
    std::vector<uint64_t> starts(options.in_flight);
    std::vector<char> reply(options.reply);
    unsigned running = 0;

    auto start = [&](size_t i) {
        starts[i] = compare_now();
        (void) MPI_Isend(buffers[i].data(), int(options.size), MPI_BYTE, 0, TAG_REQUEST,
                         MPI_COMM_WORLD, &requests[i]);
        running++;
    };
    auto finish = [&](size_t i) {
        (void) MPI_Recv(reply.data(), int(options.reply), MPI_BYTE, 0, TAG_REPLY, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
        (void) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        running--;
        return window.complete(starts[i], compare_now());
    };
    start(0);
    (void) finish(0);
    window.open();
    for (size_t i = 0; i < options.in_flight; i++)
        start(i);
    for (size_t i = 0; running > 0; i = (i + 1) % options.in_flight) {
        if (finish(i))
            start(i);
    }
    for (size_t i = 0; i < options.in_flight; i++)
        (void) MPI_Send(nullptr, 0, MPI_BYTE, 0, TAG_END, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    compare_options options = compare_parse(argc, argv);
    compare_result result{};
    std::atomic<bool> started = true;
    int rank, size;

    (void) alarm(COMPARE_TIME_LIMIT);
    (void) MPI_Init(&argc, &argv);
    (void) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void) MPI_Comm_size(MPI_COMM_WORLD, &size);
    compare_check(size == 2, "usage: mpiexec -n 2 compare_mpi [OPTION]...");
    if (rank == 0) {
        serve(options);
    } else {
        compare_window window(options, result, started);

        drive(options, window);
        window.close();
        compare_print({"mpi", version(), nullptr, nullptr}, double(result.count) / result.seconds,
                      result.p50_us, result.p99_us);
    }
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
