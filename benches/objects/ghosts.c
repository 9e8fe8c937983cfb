// What the exchange of ghost cells takes, among ranks on a square grid: by MPI_Neighbor_alltoallw, and by an object.
//
//     mpiexec -n 4 ghosts mpi|loaned|copied N DEPTH STEPS [NAME]
//
// The grid has 2 x 2 blocks of N x N x DEPTH numbers, or with 2 ranks 2 x 1; each rank wants the faces of its neighbours, N x DEPTH
// numbers each: that along x lies together in the neighbour's memory, that along y in N pieces of DEPTH. mpi: the block lies in an array with a frame, and
// one call moves the faces out of it and into it. loaned: the block is a loaned fragment, and the faces are fragments to read:
// a step is a publish and a reattach for each neighbour. copied: the same with a fragment that stays at its address, of which the program
// writes the faces alone, so that a publish copies them.
//
// Before each exchange the ranks write their blocks, of `copied` the faces alone, and wait for each other, sleeping, which is not
// timed. They wait in memory that they share; where MPI has none for all of them, as they run in namespaces of one machine, in the file that
// GHOSTS_GATE names.
// Rank 0 prints a sum of all faces, and of the times until the last rank had its faces, in microseconds, the median over the steps, and
// what the fastest tenth of them takes at most.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stillframe.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WAIT_MS 60000

static int rank, n, depth, steps, at[2], blocks[2] = {2, 1};
static MPI_Comm grid;
// Lets nobody spin who waits: there may be fewer processors than ranks.
static pthread_barrier_t *gate;
static MPI_Win window = MPI_WIN_NULL;

static void check(stillframe_status status, const char *what) {
    if (status) {
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, stillframe_error_text());
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
}

// What an element of the block is in a step.
static inline double element(int step, int x, int y, int z) { return step * 4096.0 + (rank + 1) * 64 + (x + 3 * y + z) % 61; }

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

// The rows of the block that are faces: of the neighbour along x the first or the last x, along y the first or the last y.
static void write_block(double *block, size_t line, size_t plane, int step, int all) {
    int face_x = at[0] == 0 ? n - 1 : 0, face_y = blocks[1] == 1 ? -1 : at[1] == 0 ? n - 1 : 0;
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++)
            if (all || x == face_x || y == face_y)
                for (int z = 0; z < depth; z++)
                    block[x * plane + y * line + z] = element(step, x, y, z);
}

static double sum(const double *face, size_t line) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int z = 0; z < depth; z++)
            sum += face[i * line + z];
    return sum;
}

static double by_messages(double *times) {
    // A frame around x and y.
    size_t line = depth, plane = (size_t)(n + 2) * line;
    double *block = calloc((size_t)(n + 2) * plane, sizeof *block);
    MPI_Datatype send[4], receive[4];
    int counts[4];
    MPI_Aint zeros[4] = {0};
    // The neighbours of a Cartesian grid come in the order -x, +x, -y, +y.
    for (int side = 0; side < 4; side++) {
        int along = side / 2, is_after = side % 2;
        int sizes[] = {n + 2, n + 2, depth}, extents[] = {n, n, depth};
        extents[along] = 1;
        int inner[] = {1, 1, 0}, outer[] = {1, 1, 0};
        inner[along] = is_after ? n : 1;
        outer[along] = is_after ? n + 1 : 0;
        MPI_Type_create_subarray(3, sizes, extents, inner, MPI_ORDER_C, MPI_DOUBLE, &send[side]);
        MPI_Type_create_subarray(3, sizes, extents, outer, MPI_ORDER_C, MPI_DOUBLE, &receive[side]);
        MPI_Type_commit(&send[side]);
        MPI_Type_commit(&receive[side]);
        counts[side] = 1;
    }
    double total = 0;
    for (int step = 1; step <= steps; step++) {
        write_block(block + plane + line, line, plane, step, 1);
        pthread_barrier_wait(gate);
        double begin = MPI_Wtime();
        MPI_Neighbor_alltoallw(block, counts, zeros, send, block, counts, zeros, receive, grid);
        times[step - 1] = MPI_Wtime() - begin;
        total += sum(block + (at[0] == 0 ? n + 1 : 0) * plane + line, line);
        if (blocks[1] == 2)
            total += sum(block + plane + (at[1] == 0 ? n + 1 : 0) * line, plane);
    }
    free(block);
    return total;
}

static double by_object(const char *name, int is_loaned, double *times) {
    stillframe_object *object;
    stillframe_drepl_binding extents[] = {{"n", 2 * n}, {"m", blocks[1] * n}, {"d", depth}};
    stillframe_object_options options = {.bindings = extents, .binding_count = 3};
    check(stillframe_object_create(name, "var u [n,m,d] float64", &options, &object), "create");
    stillframe_drepl_binding bindings[] = {{"m", n}, {"x", at[0] * n}, {"y", at[1] * n}};
    stillframe_attach_options attach = {.bindings = bindings, .binding_count = 3, .has_rank = 1, .rank = rank};
    attach.flags = is_loaned ? STILLFRAME_ATTACH_LOANED : 0;
    stillframe_fragment *fragment, *faces[2];
    double *block;
    const char *text = "{ var b [i:m,j:m,k:d] = u[i+x,j+y,k] }";
    check(stillframe_object_attach(object, text, &attach, &fragment, (void **)&block), "attach");
    const char *texts[] = {"{ var f [j:m,k:d] = u[x,j+y,k] }", "{ var f [i:m,k:d] = u[i+x,y,k] }"};
    const double *seen[2];
    for (int along = 0; along < blocks[1]; along++) {
        stillframe_drepl_binding place[] = {{"m", n}, {"x", at[0] * n}, {"y", at[1] * n}};
        place[1 + along].value = at[along] == 0 ? n : n - 1;
        stillframe_attach_read_options read = {.bindings = place, .binding_count = 3, .threads = 1};
        check(stillframe_object_attach_read(object, texts[along], &read, &faces[along], (const void **)&seen[along]), "faces");
    }
    double total = 0;
    for (int step = 1; step <= steps; step++) {
        check(stillframe_fragment_next(fragment, (void **)&block, NULL), "next");
        write_block(block, depth, (size_t)n * depth, step, is_loaned || step == 1);
        pthread_barrier_wait(gate);
        double begin = MPI_Wtime();
        check(stillframe_fragment_publish(fragment, step, NULL), "publish");
        for (int along = 0; along < blocks[1]; along++)
            check(stillframe_fragment_reattach(faces[along], step, WAIT_MS), "reattach");
        times[step - 1] = MPI_Wtime() - begin;
        for (int along = 0; along < blocks[1]; along++)
            total += sum(seen[along], depth);
    }
    // Nobody leaves before all have their faces.
    MPI_Barrier(grid);
    for (int along = 0; along < blocks[1]; along++)
        check(stillframe_fragment_detach(faces[along]), "detach");
    check(stillframe_fragment_detach(fragment), "detach");
    check(stillframe_object_close(object), "close");
    return total;
}

// Memory that all ranks share.
static void *share(size_t bytes) {
    const char *path = getenv("GHOSTS_GATE");
    if (!path) {
        void *memory;
        MPI_Aint there;
        int unit;
        MPI_Win_allocate_shared(rank == 0 ? (MPI_Aint)bytes : 0, 1, MPI_INFO_NULL, grid, &memory, &window);
        MPI_Win_shared_query(window, 0, &there, &unit, &memory);
        return memory;
    }
    int file = open(path, O_RDWR | O_CREAT, 0600);
    void *memory = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    close(file);
    return memory;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 5 || (ranks != 4 && ranks != 2)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        exit(2);
    }
    n = atoi(argv[2]);
    depth = atoi(argv[3]);
    steps = atoi(argv[4]);
    blocks[1] = ranks / 2;
    MPI_Cart_create(MPI_COMM_WORLD, 2, blocks, (int[]){0, 0}, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, at);
    gate = share(sizeof *gate);
    if (rank == 0) {
        pthread_barrierattr_t shared;
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(gate, &shared, ranks);
    }
    MPI_Barrier(grid);
    double *times = calloc(steps, sizeof *times), *last = calloc(steps, sizeof *last), all;
    int is_mpi = strcmp(argv[1], "mpi") == 0, is_loaned = strcmp(argv[1], "loaned") == 0;
    double total = is_mpi ? by_messages(times) : by_object(argc > 5 ? argv[5] : "ghosts", is_loaned, times);
    MPI_Reduce(times, last, steps, MPI_DOUBLE, MPI_MAX, 0, grid);
    MPI_Reduce(&total, &all, 1, MPI_DOUBLE, MPI_SUM, 0, grid);
    if (rank == 0) {
        // The first steps make page tables, and memory.
        int from = steps > 8 ? 4 : 0;
        qsort(last + from, steps - from, sizeof *last, compare);
        printf("sum %.1f, %.3f us, %.3f us\n", all, last[from + (steps - from) / 2] * 1e6, last[from + (steps - from) / 10] * 1e6);
        fflush(stdout);
    }
    if (window != MPI_WIN_NULL)
        MPI_Win_free(&window);
    MPI_Finalize();
}
