/* A reader of an object in C: read DIR OBJECT VERSION. See ../objects.py for what it prints. */
#include <stdio.h>
#include <stdlib.h>

#include <stillframe.h>

typedef struct {
    float rho;
    int64_t id;
} cell;

static stillframe_object *object;
static uint64_t version;

static void check(stillframe_status status) {
    if (status != STILLFRAME_OK) {
        fprintf(stderr, "read: %s: %s\n", stillframe_status_name(status), stillframe_error_text());
        exit(1);
    }
}

static const void *attach(const char *text) {
    stillframe_attach_read_options options = {.has_version = 1, .version = version, .wait_ms = 20000};
    stillframe_fragment *fragment; /* kept until the end */
    const void *data;
    check(stillframe_object_attach_read(object, text, &options, &fragment, &data));
    return data;
}

static void print(const char *name, const double *numbers, int count) {
    printf("%s", name);
    for (int i = 0; i < count; i++)
        printf(" %d", (int)numbers[i]);
    putchar('\n');
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    stillframe_object_options options = {.dir = argv[1], .wait_ms = 20000, .flags = STILLFRAME_OBJECT_LOOK};
    check(stillframe_object_open(argv[2], &options, &object));
    version = strtoull(argv[3], NULL, 10);
    print("turned", attach("{ var t [y:10,x:12] = grid[x,y] }"), 120);
    print("coarse", attach("{ var c [i,j] = grid[i*4,j*3] }"), 12);
    print("column", attach("{ var c [x] = grid[11-x,7] }"), 12);
    print("ghosts", attach("view clipped { var u [x:14,y:3] = grid[x-1,y+8] }"), 42);
    const cell *cells = attach("view aligned { var cells [i:20] = cells[i+5] }");
    printf("cells");
    for (int i = 0; i < 20; i++)
        printf(" %d %d", (int)cells[i].rho, (int)cells[i].id);
    putchar('\n');
}
