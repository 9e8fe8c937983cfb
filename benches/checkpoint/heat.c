// Heat in a plate, on ranks that have a block of rows each, with a checkpoint every so many steps: none, published for
// `still checkpoint` to save, or written inline with MPI-IO and synced.
//
//     mpiexec -n 4 heat SIZE STEPS EVERY plain
//     mpiexec -n 4 heat SIZE STEPS EVERY publish NAME
//     mpiexec -n 4 heat SIZE STEPS EVERY inline DIR
//
// The state is one array of SIZE + 2 rows and columns, whose frame is always 0. What belongs to a rank is contiguous, in
// memory and in the file: nothing is easier for MPI-IO. Begins with the first character of the standard input, and prints
// one line of JSON.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stillframe.h>
#include <string.h>

enum { KEPT = 3 };

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(int status, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (status == MPI_SUCCESS)
        return;
    MPI_Error_string(status, text, &length);
    fail(what, text);
}

// All ranks' rows into one file, which is on disk when this returns; the oldest of KEPT + 1 goes.
static void write_inline(const char *dir, int step, int every, const double *rows, int count, MPI_Offset offset, int rank) {
    char path[4096];
    MPI_File file;
    MPI_Status status;
    snprintf(path, sizeof path, "%s/%012d.part", dir, step);
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), path);
    check(MPI_File_write_at_all(file, offset, rows, count, MPI_DOUBLE, &status), path);
    check(MPI_File_sync(file), path);
    check(MPI_File_close(&file), path);
    if (rank == 0) {
        char whole[4096];
        snprintf(whole, sizeof whole, "%s/%012d", dir, step);
        if (rename(path, whole))
            fail(whole, "cannot be renamed");
        snprintf(whole, sizeof whole, "%s/%012d", dir, step - KEPT * every);
        remove(whole);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc < 5)
        fail(argv[0], "SIZE STEPS EVERY plain|publish|inline [NAME|DIR]");
    int size = atoi(argv[1]), steps = atoi(argv[2]), every = atoi(argv[3]);
    int publishes = !strcmp(argv[4], "publish"), inlines = !strcmp(argv[4], "inline");
    const char *target = argc > 5 ? argv[5] : "heat";
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    int top = (int)((long)rank * size / ranks), h = (int)((long)(rank + 1) * size / ranks) - top;

    size_t line = size + 2, cells = (h + 2) * line;
    double *u = calloc(cells, sizeof *u), *next = calloc(cells, sizeof *next);
    if (!u || !next)
        fail("memory", "there is none");
    // Numbers that differ everywhere: nothing that a file system or a disk could make less of.
    for (int y = 1; y <= h; y++)
        for (int x = 1; x <= size; x++) {
            uint64_t mixed = ((uint64_t)(top + y) << 32 | (uint32_t)x) * 0x9e3779b97f4a7c15u;
            u[y * line + x] = (double)((mixed ^ mixed >> 29) >> 11) / (double)(1ull << 53);
        }

    stillframe_region *region = publishes ? stillframe_begin(target, rank, ranks) : NULL;
    if (publishes && !region)
        fail("stillframe_begin", stillframe_error_text());
    double saving = 0, saving_all;
    if (rank == 0)
        getchar();
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int step = 1; step <= steps; step++) {
        MPI_Sendrecv(u + line, line, MPI_DOUBLE, up, 0, u + (h + 1) * line, line, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + h * line, line, MPI_DOUBLE, down, 1, u, line, MPI_DOUBLE, up, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int y = 1; y <= h; y++) {
            const double *restrict n = u + (y - 1) * line, *restrict c = n + line, *restrict s = c + line;
            double *restrict out = next + y * line;
            for (int x = 1; x <= size; x++)
                out[x] =
                    0.28 * c[x] + 0.14 * ((n[x] + s[x]) + (c[x - 1] + c[x + 1])) + 0.04 * ((n[x - 1] + n[x + 1]) + (s[x - 1] + s[x + 1]));
        }
        double *last = u;
        u = next;
        next = last;
        // The last steps have no checkpoint behind them, so that both ways have time to end what they began.
        if (step % every || step == steps)
            continue;
        double start = MPI_Wtime();
        if (publishes) {
            stillframe_track(region, "u", "float64", 2, (size_t[]){h, line}, u + line);
            if (stillframe_publish(region, step, NULL))
                fail("stillframe_publish", stillframe_error_text());
        }
        if (inlines)
            write_inline(target, step, every, u + line, (int)(h * line), (MPI_Offset)(top * line * sizeof *u), rank);
        saving += MPI_Wtime() - start;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begin;

    uint64_t bits = 0, bits_all, cell;
    for (size_t i = line; i < (h + 1) * line; i++) {
        memcpy(&cell, &u[i], sizeof cell);
        bits ^= cell;
    }
    MPI_Reduce(&bits, &bits_all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    MPI_Reduce(&saving, &saving_all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"seconds\": %.6f, \"saving_seconds\": %.6f, \"bits\": \"%016llx\", \"bytes\": %zu}\n", seconds, saving_all,
               (unsigned long long)bits_all, (size_t)size * line * sizeof *u);
    // The memory outlives the region, which is ended with the process.
    MPI_Finalize();
}
