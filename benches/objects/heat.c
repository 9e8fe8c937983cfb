// Heat in a plate whose surroundings are 0, with neighbours' cells from messages or from an object.
//
//     mpiexec -n 2 heat mpi|object SIZE STEPS [NAME]
//
// mpi: each rank has a block with a frame of ghost cells, in two arrays, and exchanges the frame by MPI_Sendrecv. object: each rank
// has a loaned fragment of the plate, and its ghost cells are fragments to read. Both compute the same to the last bit. Rank 0
// prints the exclusive or of all cells' bits, and the seconds of the steps. Ten more go before those: in the first ones memory is
// taken, and of a fragment made of large pages, which takes a tenth of a second once.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stillframe.h>
#include <string.h>

#define WAIT_MS 60000
#define FIRST_STEPS 10

static int rank, ranks, rows, columns, up, down, left, right;
static int size, steps, top, first, h, w;
static MPI_Comm plate;

static void check(stillframe_status status, const char *what) {
    if (status) {
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, stillframe_error_text());
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
}

// A hot disc, and a warm bar beside it.
static double initial(int gy, int gx) {
    double dy = 3.0 * gy - size, dx = 3.0 * gx - size;
    if (4 * (dx * dx + dy * dy) < (double)size * size)
        return 100;
    return 2 * gx >= size && 8 * gx < 7 * size && 8 * gy >= 5 * size && 4 * gy < 3 * size ? 60 : 0;
}

static inline double average(const double *n, const double *c, const double *s) {
    return 0.28 * c[0] + 0.14 * ((n[0] + s[0]) + (c[-1] + c[1])) + 0.04 * ((n[-1] + n[1]) + (s[-1] + s[1]));
}

static uint64_t bits_of(const double *u, size_t line) {
    uint64_t bits = 0, cell;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            memcpy(&cell, &u[y * line + x], sizeof cell);
            bits ^= cell;
        }
    return bits;
}

static uint64_t by_messages(double *seconds) {
    int line = w + 2;
    size_t cells = (size_t)(h + 2) * line;
    double *u = calloc(cells, sizeof *u), *next = calloc(cells, sizeof *next);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            u[(y + 1) * line + x + 1] = initial(top + y, first + x);
    MPI_Datatype column;
    MPI_Type_vector(h + 2, 1, line, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    double begin = 0;
    for (int step = 1; step <= FIRST_STEPS + steps; step++) {
        if (step == FIRST_STEPS + 1) {
            MPI_Barrier(plate);
            begin = MPI_Wtime();
        }
        MPI_Sendrecv(u + line, line, MPI_DOUBLE, up, 0, u + (h + 1) * line, line, MPI_DOUBLE, down, 0, plate, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + h * line, line, MPI_DOUBLE, down, 1, u, line, MPI_DOUBLE, up, 1, plate, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + 1, 1, column, left, 2, u + w + 1, 1, column, right, 2, plate, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + w, 1, column, right, 3, u, 1, column, left, 3, plate, MPI_STATUS_IGNORE);
        for (int y = 1; y <= h; y++) {
            const double *c = u + y * line;
            for (int x = 1; x <= w; x++)
                next[y * line + x] = average(c - line + x, c + x, c + line + x);
        }
        double *last = u;
        u = next;
        next = last;
    }
    MPI_Barrier(plate);
    *seconds = MPI_Wtime() - begin;
    uint64_t bits = bits_of(u + line + 1, line);
    MPI_Type_free(&column);
    free(u);
    free(next);
    return bits;
}

// Ghost cells: a fragment to read of an extent, with the first cell at (y, x) of the plate, which may lie beyond its rim.
static stillframe_fragment *ghosts(stillframe_object *object, int y, int x, int height, int width, const double **data) {
    const char *text = "view v readonly clipped { var v [i:h,j:w] = plate[i+y,j+x] }";
    stillframe_drepl_binding bindings[] = {{"h", height}, {"w", width}, {"y", y}, {"x", x}};
    stillframe_attach_read_options options = {.bindings = bindings, .binding_count = 4, .threads = 1};
    stillframe_fragment *fragment;
    check(stillframe_object_attach_read(object, text, &options, &fragment, (const void **)data), "ghosts");
    return fragment;
}

static uint64_t by_object(const char *name, double *seconds) {
    stillframe_object *object;
    stillframe_drepl_binding extent = {"n", size};
    stillframe_object_options options = {.bindings = &extent, .binding_count = 1};
    check(stillframe_object_create(name, "var plate [n,n] float64", &options, &object), "create");
    stillframe_drepl_binding bindings[] = {{"h", h}, {"w", w}, {"y", top}, {"x", first}};
    stillframe_attach_options attach = {
        .bindings = bindings, .binding_count = 4, .has_rank = 1, .rank = rank, .flags = STILLFRAME_ATTACH_LOANED};
    stillframe_fragment *block;
    double *next;
    const char *text = "{ var u [i:h,j:w] = plate[i+y,j+x] }";
    check(stillframe_object_attach(object, text, &attach, &block, (void **)&next), "attach");
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            next[y * w + x] = initial(top + y, first + x);
    // The rows above and below with their corners, and the columns beside.
    const double *above, *below, *before, *behind;
    stillframe_fragment *frame[] = {
        ghosts(object, top - 1, first - 1, 1, w + 2, &above), ghosts(object, top + h, first - 1, 1, w + 2, &below),
        ghosts(object, top, first - 1, h, 1, &before), ghosts(object, top, first + w, h, 1, &behind)};
    const double *u;
    double edge[3][3], begin = 0;
    int last = FIRST_STEPS + steps + 1;
    for (int step = 1; step <= last; step++) {
        if (step == FIRST_STEPS + 1) {
            MPI_Barrier(plate);
            begin = MPI_Wtime();
        }
        check(stillframe_fragment_publish(block, step, NULL), "publish");
        if (step == last)
            break;
        for (int side = 0; side < 4; side++)
            check(stillframe_fragment_reattach(frame[side], step, WAIT_MS), "reattach");
        check(stillframe_fragment_previous(block, (const void **)&u, NULL), "previous");
        check(stillframe_fragment_next(block, (void **)&next, NULL), "next");
        for (int y = 0; y < h; y++) {
            const double *n = y > 0 ? u + (size_t)(y - 1) * w : above + 1;
            const double *c = u + (size_t)y * w;
            const double *s = y + 1 < h ? u + (size_t)(y + 1) * w : below + 1;
            double *out = next + (size_t)y * w;
            for (int x = 1; x < w - 1; x++)
                out[x] = average(n + x, c + x, s + x);
            // The first and the last cell of a row have neighbours in other fragments.
            for (int x = 0; x < w; x += w > 1 ? w - 1 : 1) {
                for (int j = -1; j <= 1; j++) {
                    int beside = x + j < 0 ? -1 : x + j >= w ? 1 : 0;
                    const double *column = beside < 0 ? before : behind;
                    edge[0][j + 1] = y == 0 ? above[x + j + 1] : beside ? column[y - 1] : n[x + j];
                    edge[1][j + 1] = beside ? column[y] : c[x + j];
                    edge[2][j + 1] = y + 1 == h ? below[x + j + 1] : beside ? column[y + 1] : s[x + j];
                }
                out[x] = average(edge[0] + 1, edge[1] + 1, edge[2] + 1);
            }
        }
    }
    MPI_Barrier(plate);
    *seconds = MPI_Wtime() - begin;
    check(stillframe_fragment_previous(block, (const void **)&u, NULL), "previous");
    uint64_t bits = bits_of(u, w);
    for (int side = 0; side < 4; side++)
        check(stillframe_fragment_detach(frame[side]), "detach");
    check(stillframe_fragment_detach(block), "detach");
    check(stillframe_object_close(object), "close");
    return bits;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc < 4) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        exit(2);
    }
    size = atoi(argv[2]);
    steps = atoi(argv[3]);
    // The ranks lie row by row on as square a grid as their number allows.
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    columns = 1;
    for (int divisor = 1; divisor * divisor <= ranks; divisor++)
        if (ranks % divisor == 0)
            columns = divisor;
    rows = ranks / columns;
    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){rows, columns}, (int[]){0, 0}, 0, &plate);
    MPI_Comm_rank(plate, &rank);
    MPI_Cart_shift(plate, 0, 1, &up, &down);
    MPI_Cart_shift(plate, 1, 1, &left, &right);
    top = rank / columns * size / rows, first = rank % columns * size / columns;
    h = (rank / columns + 1) * size / rows - top, w = (rank % columns + 1) * size / columns - first;
    double seconds;
    int is_object = strcmp(argv[1], "object") == 0;
    uint64_t bits = is_object ? by_object(argc > 4 ? argv[4] : "heat", &seconds) : by_messages(&seconds), all;
    MPI_Reduce(&bits, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, plate);
    if (rank == 0)
        printf("bits %016llx, %.6f s\n", (unsigned long long)all, seconds);
    MPI_Finalize();
}
