/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking round trips between two ranks over MPI without Amalgam; prints JSON. It does not use
 * raw.c, because MPI starts both processes itself.
 * Usage: mpiexec -n 2 mpi_raw [BYTES [SECONDS]]
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES_MAX 65536
#define BATCH     1000
#define WARM_UP   2000
#define TRIPS_MAX 10000000

static void trips(int rank, int bytes, int count, double *times);
static int compare(const void *a, const void *b);

int main(int argc, char **argv)
{
    int bytes = argc > 1 ? atoi(argv[1]) : 8, rank, size, level, go_on = 1, count = 0;
    double seconds = argc > 2 ? atof(argv[2]) : 1.0, begin, *times;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return 1;
    (void) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void) MPI_Comm_size(MPI_COMM_WORLD, &size);
    times = calloc(TRIPS_MAX, sizeof(*times));
    if (size != 2 || times == NULL || bytes < 0 || bytes > BYTES_MAX) {
        (void) fprintf(stderr, "usage: mpiexec -n 2 mpi_raw [BYTES [SECONDS]]\n");
        (void) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    trips(rank, bytes, WARM_UP, times);
    begin = MPI_Wtime();
    while (go_on != 0) {
        trips(rank, bytes, BATCH, times + count);
        count += BATCH;
        go_on = MPI_Wtime() - begin < seconds && count + BATCH <= TRIPS_MAX;
        (void) MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        qsort(times, (size_t) count, sizeof(*times), compare);
        (void) printf(
            "{\"bytes\": %d, \"round_trips\": %d, \"median_us\": %.3f, \"p99_us\": %.3f}\n", bytes,
            count, times[count / 2] * 1e6, times[count - count / 100 - 1] * 1e6);
    }
    free(times);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}

static void trips(int rank, int bytes, int count, double *times)
{
    static char buffer[BYTES_MAX];

    for (int i = 0; i < count; i++) {
        double begin = MPI_Wtime();

        if (rank == 0)
            (void) MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        (void) MPI_Recv(buffer, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            (void) MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        times[i] = MPI_Wtime() - begin;
    }
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;

    return (left > right) - (left < right);
}
