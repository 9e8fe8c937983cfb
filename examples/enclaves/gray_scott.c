// The Gray-Scott reaction on a square whose edges are joined, which publishes as it goes.
//
//     gray_scott REGION [CELLS [STEPS [EVERY]]]
//
// Two substances diffuse; v feeds on u, decays, and u is fed from outside. The region's name says where it is published:
// `guest/gray-scott` is in the memory of the enclave `guest`. Nothing else here knows of virtual machines.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <stillframe.h>

// Spots that divide until they fill the square.
static const double feed = 0.0367, decay = 0.0649, diffusion_u = 0.16, diffusion_v = 0.08;

// What flows to cell (y, x) from its four neighbours.
static double inflow(const double *a, size_t n, size_t y, size_t x) {
    size_t above = y ? y - 1 : n - 1, below = y + 1 < n ? y + 1 : 0, left = x ? x - 1 : n - 1, right = x + 1 < n ? x + 1 : 0;
    return a[above * n + x] + a[below * n + x] + a[y * n + left] + a[y * n + right] - 4 * a[y * n + x];
}

// One step of time. The changes are computed for all cells before any cell changes.
static void advance(double *u, double *v, double *du, double *dv, size_t n) {
    for (size_t y = 0; y < n; y++)
        for (size_t x = 0; x < n; x++) {
            size_t i = y * n + x;
            double eaten = u[i] * v[i] * v[i];
            du[i] = diffusion_u * inflow(u, n, y, x) - eaten + feed * (1 - u[i]);
            dv[i] = diffusion_v * inflow(v, n, y, x) + eaten - (feed + decay) * v[i];
        }
    for (size_t i = 0; i < n * n; i++) {
        u[i] += du[i];
        v[i] += dv[i];
    }
}

// u everywhere, and a few drops of v of 8 by 8 cells, always the same.
static void begin(double *u, double *v, size_t n) {
    for (size_t i = 0; i < n * n; i++)
        u[i] = 1;
    srand(1);
    for (size_t drop = 0; drop < 4 + n * n / 8000; drop++) {
        size_t top = rand() % n, left = rand() % n;
        for (size_t y = top; y < top + 8; y++)
            for (size_t x = left; x < left + 8; x++) {
                u[y % n * n + x % n] = 0.5;
                v[y % n * n + x % n] = 0.25 + 0.05 * rand() / RAND_MAX;
            }
    }
}

static void check(stillframe_status status) {
    if (status == STILLFRAME_OK)
        return;
    fprintf(stderr, "gray_scott: %s\n", stillframe_error_text());
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: gray_scott REGION [CELLS [STEPS [EVERY]]]\n");
        return 2;
    }
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 192;
    uint64_t steps = argc > 3 ? strtoul(argv[3], NULL, 10) : 12000, every = argc > 4 ? strtoul(argv[4], NULL, 10) : 60;
    double *u = calloc(n * n, sizeof *u), *v = calloc(n * n, sizeof *v);
    double *du = calloc(n * n, sizeof *du), *dv = calloc(n * n, sizeof *dv);
    begin(u, v, n);
    struct utsname machine;
    uname(&machine);

    stillframe_region *region;
    check(stillframe_create(argv[1], NULL, &region));
    check(stillframe_track(region, "u", "float64", 2, (size_t[]){n, n}, u));
    check(stillframe_track(region, "v", "float64", 2, (size_t[]){n, n}, v));
    for (uint64_t step = 0;; step++) {
        if (step % every == 0) {
            check(stillframe_set_int(region, "step", (int64_t)step));
            check(stillframe_set_text(region, "kernel", machine.release));
            check(stillframe_publish(region, step / every, NULL));
        }
        if (step == steps)
            break;
        advance(u, v, du, dv, n);
    }
    check(stillframe_close(region));
    free(u);
    free(v);
    free(du);
    free(dv);
}
