// Figure 1 of Otstott et al., "A Foundation for Automated Placement of Data", mended so that it runs: heat on a plate that lies in
// blocks on the ranks. docs/figure1.md compares it with the printed text.
//
//     mpiexec -n 6 figure1 [--check] [LENGTH [HEIGHT [STEPS]]]
//
// With --check each rank computes the whole plate by itself, too, and compares its block after each step, to the last bit.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stillframe.h>

enum { WAIT_MS = 30000 };

static int length = 30, height = 30, steps = 100, rank, ranks;

// The ghost cells of a block, from the left, right, upper and lower neighbours; NULL at the rim of the plate, where all is 0.
static const double *lg, *rg, *ug, *bg;
static int xrange, yrange;

static void check(stillframe_status status) {
    if (status == STILLFRAME_OK)
        return;
    fprintf(stderr, "rank %d: %s (%s)\n", rank, stillframe_error_text(), stillframe_status_name(status));
    // It may return.
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

// A cell of the block or of its ghost cells: -1 <= x <= xrange, -1 <= y <= yrange. Ghost cells above and below have the corners.
static double cell(const double *g, int x, int y) {
    if (y == -1)
        return ug ? ug[x + 1] : 0;
    if (y == yrange)
        return bg ? bg[x + 1] : 0;
    if (x == -1)
        return lg ? lg[y] : 0;
    if (x == xrange)
        return rg ? rg[y] : 0;
    return g[x * yrange + y];
}

static double average(double a, double b, double c, double d, double e, double f, double g, double h, double i) {
    return 0.28 * a + 0.14 * (b + c + d + e) + 0.04 * (f + g + h + i);
}

#define G(x, y) cell(g, x, y)
#define AVERAGE_AT(x, y)                                                                                  \
    average(G(x, y), G(x - 1, y), G(x + 1, y), G(x, y - 1), G(x, y + 1), G(x - 1, y - 1), G(x + 1, y - 1), \
            G(x - 1, y + 1), G(x + 1, y + 1))

// What the plate begins with: a hot spot off the middle.
static double initial(int x, int y) {
    return 4 * x > length && 2 * x < length && 3 * y > height && 4 * y < 3 * height ? 100 : 0;
}

// The plate as a single process computes it, with a rim of zeros around it. Returns the array that has the next step.
static const double *serial_step(double *plates[2], int step) {
    const double *old = plates[step % 2];
    double *new = plates[(step + 1) % 2];
    int row = height + 2;
    for (int x = 1; x <= length; x++)
        for (int y = 1; y <= height; y++) {
            const double *c = old + x * row + y;
            new[x * row + y] = average(c[0], c[-row], c[row], c[-1], c[1], c[-row - 1], c[row - 1], c[-row + 1], c[row + 1]);
        }
    return new;
}

static void compare(const double *g, const double *plate, int xmin, int ymin, int step) {
    for (int x = 0; x < xrange; x++)
        if (memcmp(g + x * yrange, plate + (x + xmin + 1) * (height + 2) + ymin + 1, yrange * sizeof *g) != 0) {
            fprintf(stderr, "rank %d, step %d: row %d is not that of a serial run\n", rank, step, x + xmin);
            MPI_Abort(MPI_COMM_WORLD, 1);
            exit(1);
        }
}

static stillframe_fragment *attach_ghosts(stillframe_object *heat, const char *text, const stillframe_drepl_binding *block,
                                          const double **ghosts) {
    stillframe_attach_read_options options = {.bindings = block, .binding_count = 4};
    stillframe_fragment *fragment;
    check(stillframe_object_attach_read(heat, text, &options, &fragment, (const void **)ghosts));
    return fragment;
}

// Says what the last version holds, as anybody may see it.
static void report(stillframe_object *heat, uint64_t version, int is_checked) {
    stillframe_attach_read_options options = {.has_version = 1, .version = version, .wait_ms = WAIT_MS};
    stillframe_fragment *whole;
    const double *u;
    check(stillframe_object_attach_read(heat, "{ var u = grid }", &options, &whole, (const void **)&u));
    double sum = 0;
    uint64_t bits = 0, one;
    for (int i = 0; i < length * height; i++) {
        sum += u[i];
        memcpy(&one, u + i, sizeof one);
        bits ^= one;
    }
    printf("step %d, heat %.6f, bits %016llx%s\n", steps, sum, (unsigned long long)bits,
           is_checked ? ", each step equal to a serial run" : "");
    check(stillframe_fragment_detach(whole));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int is_checked = argc > 1 && strcmp(argv[1], "--check") == 0, *sizes[] = {&length, &height, &steps};
    for (int i = 0; i < 3 && i + 1 + is_checked < argc; i++)
        *sizes[i] = atoi(argv[i + 1 + is_checked]);
    int blocks[2] = {0, 0};
    MPI_Dims_create(ranks, 2, blocks);
    int nlength = blocks[0], nheight = blocks[1];
    if (length < nlength || height < nheight || steps < 0) {
        fprintf(stderr, "%d by %d cells are too few for %d by %d ranks\n", length, height, nlength, nheight);
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }

    stillframe_object *heat;
    if (rank == 0) {
        // Whatever an earlier run left: only a living one is in the way.
        stillframe_status status = stillframe_object_remove(NULL, "heatsim", false);
        if (status != STILLFRAME_NO_OBJECT)
            check(status);
        stillframe_drepl_binding extents[] = {{"length", length}, {"height", height}};
        stillframe_object_options options = {.bindings = extents, .binding_count = 2};
        check(stillframe_object_create("heatsim", "var grid [length,height] float64", &options, &heat));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0)
        check(stillframe_object_open("heatsim", NULL, &heat));

    // The block of this rank. Blocks differ by one cell where the plate does not divide evenly.
    int i = rank % nlength, j = rank / nlength;
    int xmin = i * length / nlength, ymin = j * height / nheight;
    xrange = (i + 1) * length / nlength - xmin;
    yrange = (j + 1) * height / nheight - ymin;
    stillframe_drepl_binding block[] = {{"xmin", xmin}, {"ymin", ymin}, {"xrange", xrange}, {"yrange", yrange}};
    stillframe_attach_options options = {.bindings = block, .binding_count = 4, .has_rank = 1, .rank = rank};
    options.flags = STILLFRAME_ATTACH_LOANED;
    stillframe_fragment *mine, *ghosts[4];
    double *next;
    check(stillframe_object_attach(heat, "{ var g [x:xrange,y:yrange] = grid[x+xmin,y+ymin] }", &options, &mine,
                                   (void **)&next));
    int count = 0;
    if (xmin > 0)
        ghosts[count++] = attach_ghosts(heat, "{ var left [x:1,y:yrange] = grid[x+xmin-1,y+ymin] }", block, &lg);
    if (xmin + xrange < length)
        ghosts[count++] = attach_ghosts(heat, "{ var right [x:1,y:yrange] = grid[x+xmin+xrange,y+ymin] }", block, &rg);
    if (ymin > 0)
        ghosts[count++] =
            attach_ghosts(heat, "view clipped { var upper [x:xrange+2,y:1] = grid[x+xmin-1,y+ymin-1] }", block, &ug);
    if (ymin + yrange < height)
        ghosts[count++] =
            attach_ghosts(heat, "view clipped { var lower [x:xrange+2,y:1] = grid[x+xmin-1,y+ymin+yrange] }", block, &bg);

    // Version 1 is what the plate begins with, version 1 + n what it is after n steps.
    for (int x = 0; x < xrange; x++)
        for (int y = 0; y < yrange; y++)
            next[x * yrange + y] = initial(x + xmin, y + ymin);
    check(stillframe_fragment_publish(mine, 1, NULL));

    double *plates[2] = {NULL, NULL};
    size_t cells = (size_t)(length + 2) * (height + 2);
    if (is_checked) {
        for (int k = 0; k < 2; k++)
            if ((plates[k] = calloc(cells, sizeof(double))) == NULL) {
                MPI_Abort(MPI_COMM_WORLD, 1);
                exit(1);
            }
        for (int x = 0; x < length; x++)
            for (int y = 0; y < height; y++)
                plates[0][(x + 1) * (height + 2) + y + 1] = initial(x, y);
    }

    for (int step = 0; step < steps; step++) {
        for (int k = 0; k < count; k++)
            check(stillframe_fragment_reattach(ghosts[k], step + 1, WAIT_MS));
        const double *g;
        check(stillframe_fragment_previous(mine, (const void **)&g, NULL));
        check(stillframe_fragment_next(mine, (void **)&next, NULL));
        for (int x = 0; x < xrange; x++)
            for (int y = 0; y < yrange; y++)
                next[x * yrange + y] = AVERAGE_AT(x, y);
        if (is_checked)
            compare(next, serial_step(plates, step), xmin, ymin, step + 1);
        check(stillframe_fragment_publish(mine, step + 2, NULL));
    }

    if (rank == 0)
        report(heat, steps + 1, is_checked);
    // Nobody detaches what another one may still read.
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < count; k++)
        check(stillframe_fragment_detach(ghosts[k]));
    check(stillframe_fragment_detach(mine));
    check(stillframe_object_close(heat));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        check(stillframe_object_remove(NULL, "heatsim", false));
    free(plates[0]);
    free(plates[1]);
    MPI_Finalize();
}
