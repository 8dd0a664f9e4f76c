/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI starts the processes and passes the address on; RPCs go over another transport.
 *     mpiexec -n 4 mpi_bootstrap ofi+tcp
 * Rank 0 serves until the other ranks have called it, and all end together.
 */
#include "example.h"

#include <mpi.h>

MERCURY_GEN_PROC(rank_t, ((int32_t) (rank)))

static int64_t sum;   /* of the ranks that have called */
static int32_t calls; /* number of ranks that have called */

static hg_return_t add(hg_handle_t handle)
{
    rank_t in;

    if (HG_Get_input(handle, &in) == HG_SUCCESS) {
        sum += in.rank;
        calls++;
        HG_Free_input(handle, &in);
    }
    return example_answer(handle, NULL);
}

static void call(const struct example *example, const char *address, hg_id_t id, int rank)
{
    rank_t in = {rank};
    hg_addr_t target;
    hg_handle_t handle;

    CHECK(HG_Addr_lookup2(example->hg_class, address, &target));
    CHECK(HG_Create(example->context, target, id, &handle));
    CHECK(example_call(example->context, handle, &in));
    CHECK(HG_Destroy(handle));
    CHECK(HG_Addr_free(example->hg_class, target));
}

int main(int argc, char **argv)
{
    struct example example;
    char address[512] = "";
    hg_size_t size = sizeof(address);
    hg_addr_t self;
    hg_id_t id;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    example.hg_class = HG_Init(argc > 1 ? argv[1] : "na+sm", rank == 0);
    example.context = example.hg_class != NULL ? HG_Context_create(example.hg_class) : NULL;
    if (example.context == NULL)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    id = MERCURY_REGISTER(example.hg_class, "add", rank_t, void, add);

    if (rank == 0) {
        CHECK(HG_Addr_self(example.hg_class, &self));
        CHECK(HG_Addr_to_string(example.hg_class, address, &size, self));
        CHECK(HG_Addr_free(example.hg_class, self));
    }
    MPI_Bcast(address, sizeof(address), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        while (calls < ranks - 1)
            example_progress(example.context);
        printf("%d ranks called, their sum is %lld\n", (int) calls, (long long) sum);
    } else {
        call(&example, address, id, rank);
    }
    example_close(&example);
    MPI_Finalize();
    return 0;
}
