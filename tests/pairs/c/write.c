/* A writer of an object in C: write DIR OBJECT RANK RANKS. See ../objects.py for what it has to do. */
#include <stdio.h>
#include <stdlib.h>

#include <stillframe.h>

typedef struct {
    float rho;
    int64_t id;
} cell;

static void check(stillframe_status status) {
    if (status != STILLFRAME_OK) {
        fprintf(stderr, "write: %s: %s\n", stillframe_status_name(status), stillframe_error_text());
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    int rank = atoi(argv[3]), ranks = atoi(argv[4]);
    stillframe_object_options options = {.dir = argv[1]};
    stillframe_object *object;
    check(stillframe_object_create(
        argv[2], "type Cell struct { rho float32; id int64 }\nvar grid [12,10] float64\nvar cells [30]Cell", &options, &object));
    int first = rank * 12 / ranks, rows = (rank + 1) * 12 / ranks - first;
    int begin = rank * 30 / ranks, count = (rank + 1) * 30 / ranks - begin;
    stillframe_drepl_binding bindings[] = {{"first", first}, {"rows", rows}, {"begin", begin}, {"count", count}};
    stillframe_attach_options attach = {.bindings = bindings, .binding_count = 4, .keep = 3, .has_rank = 1, .rank = (uint32_t)rank};
    stillframe_fragment *fragment;
    char *data;
    check(stillframe_object_attach(
        object, "view aligned { var grid [x:rows,y:10] = grid[x+first,y]; var cells [i:count] = cells[i+begin] }", &attach,
        &fragment, (void **)&data));
    double *grid = (double *)data;
    cell *cells = (cell *)(grid + rows * 10);
    for (int version = 1; version <= 3; version++) {
        for (int x = 0; x < rows; x++)
            for (int y = 0; y < 10; y++)
                grid[10 * x + y] = 10000 * version + 100 * (x + first) + y;
        for (int i = 0; i < count; i++)
            cells[i] = (cell){(float)(1000 * version + i + begin), -(i + begin) - version};
        check(stillframe_fragment_publish(fragment, (uint64_t)version, NULL));
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    check(stillframe_fragment_detach(fragment));
    check(stillframe_object_close(object));
}
