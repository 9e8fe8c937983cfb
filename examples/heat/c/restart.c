// Heat in a plate whose surroundings are an infinite sink: at each step each cell becomes the weighted average of itself and
// its eight neighbours, and whatever lies outside is 0. Each rank has a block of the plate with a frame of ghost cells.
//
// It goes on from what the last run left in memory or in ./checkpoints, whatever number of ranks that had.
//
//     mpiexec -n 4 restart [HEIGHT [WIDTH [STEPS [NAME]]]]
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stillframe.h>
#include <string.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int height = argc > 1 ? atoi(argv[1]) : 96;
    int width = argc > 2 ? atoi(argv[2]) : 128;
    int steps = argc > 3 ? atoi(argv[3]) : 200;
    const char *name = argc > 4 ? argv[4] : "heat";

    // The ranks lie row by row on as square a grid as their number allows.
    int rank, ranks, columns = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int divisor = 1; divisor * divisor <= ranks; divisor++)
        if (ranks % divisor == 0)
            columns = divisor;
    int rows = ranks / columns, up, down, left, right;
    MPI_Comm plate;
    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){rows, columns}, (int[]){0, 0}, 0, &plate);
    MPI_Comm_rank(plate, &rank);
    MPI_Cart_shift(plate, 0, 1, &up, &down);
    MPI_Cart_shift(plate, 1, 1, &left, &right);
    int top = rank / columns * height / rows, first = rank % columns * width / columns;
    int h = (rank / columns + 1) * height / rows - top, w = (rank % columns + 1) * width / columns - first;

    // A hot disc, and a warm bar beside it. With row y and column x, cell (y, x) of the block is u[(y + 1) * line + x + 1].
    int line = w + 2;
    double smaller = height < width ? height : width;
    size_t cells = (size_t)(h + 2) * line;
    double *u = calloc(cells, sizeof *u), *next = calloc(cells, sizeof *next);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int gy = top + y, gx = first + x;
            double dy = 3.0 * gy - height, dx = 3.0 * gx - width;
            if (4 * (dx * dx + dy * dy) < smaller * smaller)
                u[(y + 1) * line + x + 1] = 100;
            else if (2 * gx >= width && 8 * gx < 7 * width && 8 * gy >= 5 * height && 4 * gy < 3 * height)
                u[(y + 1) * line + x + 1] = 60;
        }
    MPI_Datatype column;
    MPI_Type_vector(h + 2, 1, line, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);

    stillframe_recovery_options recovery = {.checkpoints = "checkpoints", .region = {.rank = rank, .ranks = ranks}};
    stillframe_declaration part = {.name = "u", .dtype = "float64", .kind = STILLFRAME_TRACKED, .rank = 2,
                                   .offset = (size_t[]){top, first}, .global_shape = (size_t[]){height + 2, width + 2}};
    stillframe_region *region;
    stillframe_origin origin;
    if (stillframe_recover(name, &recovery, &region, &origin) || stillframe_declare(region, &part, NULL) ||
        (origin.kind && stillframe_read_recovered(region, "u", "float64", 2, NULL, (size_t[]){h + 2, w + 2}, STILLFRAME_C, u)))
        fprintf(stderr, "rank %d: %s\n", rank, stillframe_error_text()), MPI_Abort(plate, 1), exit(1);
    if (rank == 0) printf("%s: %s\n", name, origin.sentence);
    double begin = MPI_Wtime();
    for (int step = (int)origin.version + 1; step <= steps; step++) {
        // Rows first; the columns then carry the corners along.
        MPI_Sendrecv(u + line, line, MPI_DOUBLE, up, 0, u + (h + 1) * line, line, MPI_DOUBLE, down, 0, plate,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + h * line, line, MPI_DOUBLE, down, 1, u, line, MPI_DOUBLE, up, 1, plate, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + 1, 1, column, left, 2, u + w + 1, 1, column, right, 2, plate, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + w, 1, column, right, 3, u, 1, column, left, 3, plate, MPI_STATUS_IGNORE);
        for (int y = 1; y <= h; y++)
            for (int x = 1; x <= w; x++) {
                const double *c = u + y * line + x, *n = c - line, *s = c + line;
                next[y * line + x] =
                    0.28 * c[0] + 0.14 * ((n[0] + s[0]) + (c[-1] + c[1])) + 0.04 * ((n[-1] + n[1]) + (s[-1] + s[1]));
            }
        double *last = u;
        u = next;
        next = last;
        stillframe_track(region, "u", "float64", 2, (size_t[]){h + 2, w + 2}, u);
        if (stillframe_publish(region, step, NULL)) fprintf(stderr, "rank %d: %s\n", rank, stillframe_error_text());
    }
    double seconds = MPI_Wtime() - begin;

    // The exclusive or of all cells' bits tells whether two runs agree to the last one, however the plate is divided.
    double heat = 0, heat_all;
    uint64_t bits = 0, bits_all, cell;
    for (int y = 1; y <= h; y++)
        for (int x = 1; x <= w; x++) {
            heat += u[y * line + x];
            memcpy(&cell, &u[y * line + x], sizeof cell);
            bits ^= cell;
        }
    MPI_Reduce(&heat, &heat_all, 1, MPI_DOUBLE, MPI_SUM, 0, plate);
    MPI_Reduce(&bits, &bits_all, 1, MPI_UINT64_T, MPI_BXOR, 0, plate);
    if (rank == 0)
        printf("%s: %d x %d on %d ranks, step %d, heat %.4f, bits %016llx, %.6f s\n", name, height, width, ranks, steps,
               heat_all, (unsigned long long)bits_all, seconds);
    MPI_Type_free(&column);
    free(u);
    free(next);
    MPI_Finalize();
}
