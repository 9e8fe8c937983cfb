// Watches a heat run: its total heat, and where the centre of the heat is, in the newest version each time.
//
//     look [NAME]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stillframe.h>
#include <string.h>

// Ends the program with what failed and why.
static void fail(const char *what) {
    fprintf(stderr, "look: %s: %s\n", what, stillframe_error_text());
    exit(1);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "heat";
    stillframe_group *group;
    uint32_t ranks, columns = 1;
    // Takes only what the ranks leave.
    stillframe_observer_options options = {.wait_ms = 30000, .polite = &(stillframe_polite){0}};
    if (stillframe_group_open(name, &options, &group))
        fail("cannot open the group");
    if (stillframe_group_size(group, &ranks))
        fail("cannot tell its size");
    // The ranks lie row by row on as square a grid as their number allows.
    for (uint32_t divisor = 1; divisor * divisor <= ranks; divisor++)
        if (ranks % divisor == 0)
            columns = divisor;

    stillframe_snapshot **parts = calloc(ranks, sizeof *parts);
    int64_t seen = -1;
    stillframe_status status;
    while ((status = stillframe_group_newest_after(group, seen, -1, parts, ranks)) == STILLFRAME_OK) {
        double heat = 0, moment_y = 0, moment_x = 0;
        uint64_t bits = 0, cell;
        size_t top = 0, left = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            stillframe_snapshot_info info;
            stillframe_variable u;
            const void *data;
            size_t bytes;
            if (stillframe_describe(parts[rank], &info) || stillframe_variable_named(parts[rank], "u", &u)
                || stillframe_view(parts[rank], "u", &data, &bytes))
                fail("cannot read u");
            seen = (int64_t)info.version;
            // Axes are (y, x) with a frame of ghost cells; the strides tell C order from Fortran order.
            size_t height = u.shape[0] - 2, width = u.shape[1] - 2;
            for (size_t y = 0; y < height; y++)
                for (size_t x = 0; x < width; x++) {
                    double value;
                    memcpy(&cell, (const char *)data + (ptrdiff_t)(y + 1) * u.strides[0] + (ptrdiff_t)(x + 1) * u.strides[1],
                           sizeof cell);
                    memcpy(&value, &cell, sizeof value);
                    bits ^= cell;
                    heat += value;
                    moment_y += value * (double)(top + y);
                    moment_x += value * (double)(left + x);
                }
            left += width;
            if (rank % columns == columns - 1) {
                left = 0;
                top += height;
            }
            stillframe_release(parts[rank]);
        }
        printf("version %lld: heat %.4f, bits %016llx, centre (%.2f, %.2f)\n", (long long)seen, heat,
               (unsigned long long)bits, moment_y / heat, moment_x / heat);
        fflush(stdout);
    }
    // The ranks have ended together; anything else is a failure that the text explains.
    if (status != STILLFRAME_PRODUCER_GONE)
        fail(name);
    free(parts);
    stillframe_group_close(group);
}
