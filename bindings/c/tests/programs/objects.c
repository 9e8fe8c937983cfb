// Objects: one name for data that many processes hold.
#include "check.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { N = 8, PATIENCE_MS = 60000 };

static const char *grid = "var grid [8,8] float64";

// valgrind cannot map as many addresses as there are by default.
#define SMALL .arena_bytes = 1 << 30, .arena_fragments = 1000

static stillframe_object *create(const char *name) {
    stillframe_object_options options = {SMALL};
    stillframe_object *object;
    OK(stillframe_object_create(name, grid, &options, &object));
    CHECK(object != NULL);
    return object;
}

// Rows of the grid, to be written.
static stillframe_fragment *write_rows(stillframe_object *object, int64_t first, int64_t rows, double **data) {
    stillframe_drepl_binding bindings[] = {{"first", first}, {"rows", rows}};
    stillframe_attach_options options = {.bindings = bindings, .binding_count = 2, .keep = 2, .wait_ms = 1};
    options.has_rank = 1, options.rank = (uint32_t)(first / rows);
    stillframe_fragment *fragment;
    OK(stillframe_object_attach(object, "{ var g [x:rows,y:8] = grid[x+first,y] }", &options, &fragment, (void **)data));
    CHECK(fragment != NULL && *data != NULL);
    return fragment;
}

static void fill(double *data, size_t count, double value) {
    for (size_t i = 0; i < count; i++)
        data[i] = value + (double)i;
}

static stillframe_fragment_info info_of(stillframe_fragment *fragment) {
    stillframe_fragment_info info;
    OK(stillframe_fragment_describe(fragment, &info));
    return info;
}

static void readers_get_what_writers_publish_in_any_layout(void) {
    stillframe_object *object = create("layouts");
    double *upper, *lower;
    stillframe_fragment *first = write_rows(object, 0, 4, &upper), *second = write_rows(object, 4, 4, &lower);
    stillframe_fragment *turned;
    const double *t;
    OK(stillframe_object_attach_read(object, "view t columnmajor { var t [x:2,y:8] = grid[x+3,y] }", NULL, &turned,
                                     (const void **)&t));
    CHECK(t[0] == 0 && t[15] == 0 && info_of(turned).version == 0 && !info_of(turned).writable);
    fill(upper, 4 * N, 0);
    fill(lower, 4 * N, 4 * N);
    stillframe_published published;
    OK(stillframe_fragment_publish(first, 1, &published));
    CHECK(published.version == 1 && !published.skipped && published.total_pages == 1);
    FAILS(STILLFRAME_TIMEOUT, "grid[4", stillframe_fragment_reattach(turned, 1, 1));
    OK(stillframe_fragment_publish(second, 1, NULL));
    OK(stillframe_fragment_reattach(turned, 1, PATIENCE_MS));
    for (int y = 0; y < N; y++)
        CHECK(t[2 * y] == 3 * N + y && t[2 * y + 1] == 4 * N + y);
    stillframe_fragment_info info = info_of(turned);
    CHECK(info.published_ns > UINT64_C(1000000000000000000) && info_of(first).published_ns == 0);
    CHECK(info.version == 1 && info.bytes == 128 && info.variable_count == 1 && !info.shown);
    info = info_of(second);
    CHECK(info.version == 1 && info.writable && info.number != info_of(first).number);

    // The newest complete version, whatever came in between, at the same address.
    for (uint64_t version = 2; version < 5; version++) {
        upper[3 * N] = (double)version;
        OK(stillframe_fragment_publish(first, version, NULL));
        OK(stillframe_fragment_publish(second, version, NULL));
    }
    uint64_t newest, versions[8];
    size_t count;
    OK(stillframe_fragment_reattach_newer(turned, 1, PATIENCE_MS, &newest));
    CHECK(newest == 4 && t[0] == 4 && t[1] == 4 * N);
    OK(stillframe_object_newest(object, &newest));
    OK(stillframe_object_versions(object, versions, 8, &count));
    CHECK(newest == 4 && count >= 1 && versions[count - 1] == 4);
    OK(stillframe_object_wait_newer(object, 3, PATIENCE_MS, NULL));
    OK(stillframe_object_wait_for(object, 4, PATIENCE_MS));
    FAILS(STILLFRAME_TIMEOUT, "version 5", stillframe_object_wait_for(object, 5, 1));
    FAILS(STILLFRAME_TIMEOUT, "rank 0", stillframe_object_wait_newer(object, 4, 1, &newest));
    FAILS(STILLFRAME_TIMEOUT, "rank 1", stillframe_fragment_reattach_newer(turned, 4, 1, NULL));
    FAILS(STILLFRAME_NOT_INCREASING, "does not follow 4", stillframe_fragment_publish(first, 4, NULL));
    FAILS(STILLFRAME_OBJECT_GREATEST_NUMBER, "smaller", stillframe_fragment_publish(first, UINT64_MAX, NULL));
    FAILS(STILLFRAME_OBJECT_LOST, "newest complete version", stillframe_fragment_reattach(turned, 1, PATIENCE_MS));
    CHECK(t[0] == 4);
    // Back to the beginning.
    OK(stillframe_fragment_reattach(turned, 0, 0));
    CHECK(t[0] == 0 && info_of(turned).version == 0);

    OK(stillframe_fragment_detach(turned));
    OK(stillframe_fragment_detach(first));
    FAILS(STILLFRAME_IN_USE, "rank 1", stillframe_object_remove(NULL, "layouts", false));
    OK(stillframe_fragment_detach(second));
    FAILS(STILLFRAME_OBJECT_ENDED, "all writers have left", stillframe_object_wait_newer(object, 4, PATIENCE_MS, NULL));
    OK(stillframe_object_close(object));
    OK(stillframe_object_remove(NULL, "layouts", false));
}

static void ghosts_are_clipped_at_the_rim(void) {
    stillframe_object *object = create("ghosts");
    double *g;
    stillframe_fragment *all = write_rows(object, 0, 8, &g);
    fill(g, N * N, 1);
    OK(stillframe_fragment_publish(all, 7, NULL));
    stillframe_attach_read_options options = {.has_version = 1, .version = 7, .wait_ms = PATIENCE_MS, .threads = 1};
    stillframe_fragment *ghosts;
    const double *u;
    OK(stillframe_object_attach_read(object, "view clipped { var u [x:10,y:10] = grid[x-1,y-1] }", &options, &ghosts,
                                     (const void **)&u));
    for (int x = 0; x < N + 2; x++)
        for (int y = 0; y < N + 2; y++) {
            int is_rim = x == 0 || y == 0 || x == N + 1 || y == N + 1;
            CHECK(u[10 * x + y] == (is_rim ? 0 : g[N * (x - 1) + y - 1]));
        }
    options.version = 8, options.wait_ms = 1;
    stillframe_fragment *late;
    FAILS(STILLFRAME_TIMEOUT, "version 8",
          stillframe_object_attach_read(object, "{ var u = grid }", &options, &late, NULL));
    CHECK(late == NULL);
    OK(stillframe_fragment_detach(ghosts));
    OK(stillframe_fragment_detach(all));
    OK(stillframe_object_remove(NULL, "ghosts", false));
    FAILS(STILLFRAME_OBJECT_REMOVED, "create it anew", stillframe_object_attach(object, "{ var u = grid }", NULL, &all, NULL));
    OK(stillframe_object_close(object));
}

static void variables_say_what_they_are(void) {
    stillframe_object_options options = {SMALL};
    stillframe_object *object;
    OK(stillframe_object_create("cells", "type Cell struct { rho float32; id int64 }\nvar mesh [5]Cell\nvar n int32", &options,
                                &object));
    stillframe_fragment *arrays, *records;
    char *data;
    const char *text = "view s aligned columnmajor { var n = n; var rho [i] = mesh[i].rho; var id [i] = mesh[i].id }";
    OK(stillframe_object_attach(object, text, NULL, &arrays, (void **)&data));
    stillframe_variable rho, id, n;
    size_t rho_at, id_at, n_at;
    OK(stillframe_fragment_variable(arrays, "rho", &rho, &rho_at));
    OK(stillframe_fragment_variable(arrays, "id", &id, &id_at));
    OK(stillframe_fragment_variable(arrays, "n", &n, &n_at));
    CHECK(strcmp(rho.name, "rho") == 0 && strcmp(rho.dtype, "float32") == 0 && strcmp(rho.units, "") == 0);
    CHECK(rho.order == STILLFRAME_FORTRAN && rho.rank == 1 && rho.shape[0] == 5 && rho.strides[0] == 4);
    CHECK(rho.bytes == 20 && rho.item_bytes == 4 && rho_at == 4 && id_at == 24 && id.bytes == 40 && n_at == 0 && n.rank == 0);
    FAILS(STILLFRAME_OBJECT_VARIABLE, "n, rho, id", stillframe_fragment_variable(arrays, NULL, &n, &n_at));
    FAILS(STILLFRAME_OBJECT_VARIABLE, "'e'", stillframe_fragment_variable(arrays, "e", &n, &n_at));
    for (int i = 0; i < 5; i++)
        ((float *)(data + rho_at))[i] = (float)i, ((int64_t *)(data + id_at))[i] = 10 * i;
    *(int32_t *)(data + n_at) = 5;
    OK(stillframe_fragment_publish(arrays, 1, NULL));
    struct {
        float rho;
        int64_t id;
    } const *cells;
    OK(stillframe_object_attach_read(object, "view aligned { var mesh = mesh }", NULL, &records, (const void **)&cells));
    OK(stillframe_fragment_reattach(records, 1, PATIENCE_MS));
    for (int i = 0; i < 5; i++)
        CHECK(cells[i].rho == (float)i && cells[i].id == 10 * i);
    FAILS(STILLFRAME_OBJECT_VARIABLE, "use its bytes", stillframe_fragment_variable(records, NULL, &n, &n_at));
    OK(stillframe_fragment_detach(records));
    OK(stillframe_object_attach_read(object, "{ var n = n; var id [i] = mesh[i].id }", NULL, &records, NULL));
    FAILS(STILLFRAME_OBJECT_VARIABLE, "say 'aligned'", stillframe_fragment_variable(records, "id", &n, &n_at));
    OK(stillframe_fragment_detach(records));
    OK(stillframe_fragment_detach(arrays));
    OK(stillframe_object_close(object));
    OK(stillframe_object_remove(NULL, "cells", false));
}

static void loaned_fragments_compute_the_next_from_the_previous(void) {
    stillframe_object *object = create("loaned");
    stillframe_attach_options options = {.flags = STILLFRAME_ATTACH_LOANED};
    stillframe_fragment *fragment, *reader;
    double *next;
    const double *previous, *u;
    size_t bytes;
    OK(stillframe_object_attach(object, "{ var g = grid }", &options, &fragment, (void **)&next));
    OK(stillframe_object_attach_read(object, "{ var u = grid }", NULL, &reader, (const void **)&u));
    OK(stillframe_fragment_previous(fragment, (const void **)&previous, &bytes));
    CHECK(previous == NULL && bytes == 0 && next[0] == 0 && next[63] == 0);
    fill(next, N * N, 0);
    for (uint64_t version = 1; version < 10; version++) {
        OK(stillframe_fragment_publish(fragment, version, NULL));
        OK(stillframe_fragment_reattach(reader, version, PATIENCE_MS));
        for (int i = 0; i < N * N; i++)
            CHECK(u[i] == i + (double)version - 1);
        OK(stillframe_fragment_previous(fragment, (const void **)&previous, &bytes));
        OK(stillframe_fragment_next(fragment, (void **)&next, NULL));
        CHECK(bytes == sizeof(double[N * N]) && previous != next);
        for (int i = 0; i < N * N; i++)
            next[i] = previous[i] + 1;
    }
    FAILS(STILLFRAME_BAD_ARGUMENT, "attached to be read", stillframe_fragment_next(reader, (void **)&next, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "attached to be read", stillframe_fragment_publish(reader, 99, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "attached to be written", stillframe_fragment_reattach(fragment, 99, 0));
    OK(stillframe_fragment_detach(reader));
    OK(stillframe_fragment_detach(fragment));
    OK(stillframe_object_attach(object, "{ var g = grid }", &(stillframe_attach_options){.flags = STILLFRAME_ATTACH_ZEROS}, &fragment,
                                (void **)&next));
    CHECK(next[0] == 0 && next[63] == 0);
    OK(stillframe_fragment_publish(fragment, 10, NULL));
    stillframe_attach_read_options follow = {.prefetch = 1, .has_version = 1, .version = 10, .wait_ms = PATIENCE_MS};
    OK(stillframe_object_attach_read(object, "{ var u = grid }", &follow, &reader, (const void **)&u));
    CHECK(u[63] == 0);
    OK(stillframe_fragment_detach(reader));
    OK(stillframe_fragment_detach(fragment));
    OK(stillframe_object_close(object));
    OK(stillframe_object_remove(NULL, "loaned", false));
}

static void what_cannot_be_is_refused(void) {
    stillframe_object *object, *other;
    stillframe_fragment *fragment, *none;
    double *data;
    FAILS(STILLFRAME_NO_OBJECT, "'refused'", stillframe_object_open("refused", NULL, &object));
    FAILS(STILLFRAME_TIMEOUT, "'refused'",
          stillframe_object_open("refused", &(stillframe_object_options){.wait_ms = 1}, &object));
    FAILS(STILLFRAME_TIMEOUT, "'refused'",
          stillframe_object_open("refused",
                                 &(stillframe_object_options){
                                     .wait_ms = 20, .flags = STILLFRAME_OBJECT_LOOK, .dir = "/dev/shm/stillframe-none"},
                                 &object));
    FAILS(STILLFRAME_NO_OBJECT, "'refused'", stillframe_object_remove("/dev/shm/stillframe-none", "refused", true));
    FAILS(STILLFRAME_BAD_ARGUMENT, "text", stillframe_object_create("refused", NULL, NULL, &object));
    CHECK(object == NULL);
    FAILS(STILLFRAME_DREPL_TEXT, "`M`", stillframe_object_create("refused", "var grid [M] float64", NULL, &object));
    FAILS(STILLFRAME_BAD_NAME, "", stillframe_object_create("a b", grid, NULL, &object));
    stillframe_object_options options = {.reserved = {1}};
    FAILS(STILLFRAME_BAD_ARGUMENT, "reserved", stillframe_object_create("refused", grid, &options, &object));
    options = (stillframe_object_options){.flags = 2};
    FAILS(STILLFRAME_BAD_ARGUMENT, "flags", stillframe_object_create("refused", grid, &options, &object));
    options.flags = STILLFRAME_OBJECT_LOOK;
    FAILS(STILLFRAME_BAD_ARGUMENT, "no meaning here", stillframe_object_create("refused", grid, &options, &object));

    stillframe_drepl_binding m = {"M", 8};
    options = (stillframe_object_options){.bindings = &m, .binding_count = 1, .initial = 5, SMALL};
    OK(stillframe_object_create("refused", "var grid [M,M] float64", &options, &object));
    OK(stillframe_object_create("refused", "var grid [M,M] float64", &options, &other));
    OK(stillframe_object_close(other));
    stillframe_object_info info;
    OK(stillframe_object_describe(object, &info));
    CHECK(strcmp(info.name, "refused") == 0 && strcmp(info.text, "var grid [M,M] float64") == 0 && info.initial == 5);
    FAILS(STILLFRAME_OBJECT_OTHER_TEXT, "M=8", stillframe_object_create("refused", grid, NULL, &other));
    CHECK(other == NULL);
    options = (stillframe_object_options){.flags = STILLFRAME_OBJECT_LOOK};
    OK(stillframe_object_open("refused", &options, &other));
    OK(stillframe_object_close(other));

    FAILS(STILLFRAME_DREPL_TEXT, "gird", stillframe_object_attach(object, "{ var g = gird }", NULL, &fragment, NULL));
    FAILS(STILLFRAME_OBJECT_NOT_WRITABLE, "readonly",
          stillframe_object_attach(object, "view readonly { var g = grid }", NULL, &fragment, NULL));
    CHECK(fragment == NULL);
    stillframe_attach_options at = {.flags = 4};
    FAILS(STILLFRAME_BAD_ARGUMENT, "flags", stillframe_object_attach(object, "{ var g = grid }", &at, &fragment, NULL));
    fragment = write_rows(object, 0, 4, &data);
    // Both are named, and what they have in common.
    at = (stillframe_attach_options){.wait_ms = 1, .has_rank = 1, .rank = 7};
    FAILS(STILLFRAME_OBJECT_OVERLAP, "rank 7",
          stillframe_object_attach(object, "{ var g [x:2,y:8] = grid[x+3,y] }", &at, &none, (void **)&data));
    CHECK(none == NULL && data == NULL && strstr(stillframe_error_text(), "rank 0") != NULL);
    at = (stillframe_attach_options){.has_version = 1, .version = 4};
    FAILS(STILLFRAME_OBJECT_REFUSED, "too late", stillframe_object_attach(object, "{ var g [x:2,y:8] = grid[x+6,y] }", &at, &none, NULL));
    FAILS(STILLFRAME_BAD_HANDLE, "the call is for: attached fragment",
          stillframe_fragment_publish((stillframe_fragment *)object, 6, NULL));
    FAILS(STILLFRAME_BAD_HANDLE, "handle for: attached fragment",
          stillframe_object_newest((stillframe_object *)fragment, &(uint64_t){0}));
    FAILS(STILLFRAME_BAD_HANDLE, "the object is NULL", stillframe_object_attach(NULL, "{ var g = grid }", NULL, &none, NULL));
    // An object may be closed before its fragments.
    OK(stillframe_object_close(object));
    FAILS(STILLFRAME_BAD_HANDLE, "this object has ended", stillframe_object_describe(object, &info));
    OK(stillframe_fragment_publish(fragment, 6, NULL));
    OK(stillframe_fragment_detach(fragment));
    FAILS(STILLFRAME_BAD_HANDLE, "this attached fragment has ended", stillframe_fragment_publish(fragment, 7, NULL));
    OK(stillframe_fragment_detach(NULL));
    OK(stillframe_object_close(NULL));
    OK(stillframe_object_remove(NULL, "refused", false));
    FAILS(STILLFRAME_NO_OBJECT, "'refused'", stillframe_object_remove(NULL, "refused", false));
}

struct seen {
    int writers, alive, versions;
    pid_t pid;
};

static bool see_writer(void *context, const stillframe_writer *writer) {
    struct seen *seen = context;
    CHECK(writer->has_rank && writer->rank == (uint32_t)seen->writers && writer->from == 1 && !writer->has_left);
    CHECK(strstr(writer->text, "g [x:rows,y:8]") != NULL && writer->binding_count == 2);
    CHECK(strcmp(writer->bindings[0].name, "first") == 0 && writer->bindings[0].value == 4 * seen->writers);
    CHECK(strcmp(writer->bindings[1].name, "rows") == 0 && writer->bindings[1].value == 4);
    CHECK(strncmp(writer->region, "objects/killed/", 15) == 0);
    CHECK(seen->writers == 0 || (pid_t)writer->pid == seen->pid);
    seen->writers++, seen->alive += (int)writer->alive, seen->versions += (int)writer->version_count;
    return true;
}

static bool see_name(void *context, const char *name) {
    strcat(strcat(context, name), " ");
    return true;
}

static void *wait_for_both(void *reader) {
    OK(stillframe_fragment_reattach(reader, 1, PATIENCE_MS));
    return NULL;
}

static void a_writer_that_is_killed_is_named(void) {
    stillframe_object *object = create("killed");
    double *data;
    const double *u;
    stillframe_fragment *mine = write_rows(object, 0, 4, &data), *reader;
    OK(stillframe_object_attach_read(object, "{ var u = grid }", NULL, &reader, (const void **)&u));
    pthread_t thread;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        const char *words = "belongs to the process that forked this one: open the object again";
        FAILS(STILLFRAME_FORKED, words, stillframe_fragment_publish(mine, 1, NULL));
        FAILS(STILLFRAME_FORKED, words, stillframe_fragment_detach(mine));
        FAILS(STILLFRAME_FORKED, words, stillframe_object_close(object));
        stillframe_object *own;
        OK(stillframe_object_open("killed", &(stillframe_object_options){SMALL}, &own));
        double *lower;
        stillframe_fragment *other = write_rows(own, 4, 4, &lower);
        fill(lower, 4 * N, 4 * N);
        OK(stillframe_fragment_publish(other, 1, NULL));
        pause();
    }
    CHECK(pthread_create(&thread, NULL, wait_for_both, reader) == 0);
    fill(data, 4 * N, 0);
    OK(stillframe_fragment_publish(mine, 1, NULL));
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < N * N; i++)
        CHECK(u[i] == i);
    struct seen seen = {.pid = child};
    OK(stillframe_object_writers(object, see_writer, &seen));
    CHECK(seen.writers == 2 && seen.alive == 2 && seen.versions == 2);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    OK(stillframe_fragment_publish(mine, 2, NULL));
    FAILS(STILLFRAME_OBJECT_LOST, "rank 1", stillframe_fragment_reattach(reader, 2, PATIENCE_MS));
    CHECK(u[N * N - 1] == N * N - 1);
    seen = (struct seen){.pid = child};
    OK(stillframe_object_writers(object, see_writer, &seen));
    CHECK(seen.writers == 2 && seen.alive == 1);
    char names[100] = "";
    OK(stillframe_object_list(NULL, see_name, names));
    CHECK(strcmp(names, "killed ") == 0);
    OK(stillframe_object_list("/dev/shm/stillframe-none", see_name, names));
    OK(stillframe_fragment_detach(reader));
    OK(stillframe_fragment_detach(mine));
    OK(stillframe_object_close(object));
    OK(stillframe_object_remove(NULL, "killed", false));
}

static void thousands_of_objects_share_what_they_have_open(void) {
    enum { COUNT = 200 };
    static stillframe_object *objects[COUNT];
    static stillframe_fragment *fragments[COUNT];
    stillframe_object_options small = {SMALL};
    for (int i = 0; i < COUNT; i++) {
        char name[20];
        snprintf(name, sizeof name, "many/%d", i);
        OK(stillframe_object_create(name, "var x [4] int32", &small, &objects[i]));
        int32_t *x;
        OK(stillframe_object_attach(objects[i], "{ var x = x }", NULL, &fragments[i], (void **)&x));
        x[3] = i;
        OK(stillframe_fragment_publish(fragments[i], 1, NULL));
    }
    for (int i = 0; i < COUNT; i++) {
        stillframe_attach_read_options options = {.has_version = 1, .version = 1};
        stillframe_fragment *reader;
        const int32_t *x;
        OK(stillframe_object_attach_read(objects[i], "{ var x = x }", &options, &reader, (const void **)&x));
        CHECK(x[3] == i);
        OK(stillframe_fragment_detach(reader));
        OK(stillframe_fragment_detach(fragments[i]));
        OK(stillframe_object_close(objects[i]));
        char name[20];
        snprintf(name, sizeof name, "many/%d", i);
        OK(stillframe_object_remove(NULL, name, false));
    }
}

static int remove_path(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)kind, (void)where;
    return remove(path);
}

// What all objects of a directory have in common stays there.
static void remove_rest(void) {
    static const char *const parts[] = {".objects", "objects"};
    for (int i = 0; i < 2; i++) {
        char path[4000];
        snprintf(path, sizeof path, "%s/%s", getenv("STILLFRAME_DIR"), parts[i]);
        if (nftw(path, remove_path, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
            FAIL("%s: %s", path, strerror(errno));
    }
}

int main(int argc, char **argv) {
    alarm(200);
    const test tests[] = {
        TEST(readers_get_what_writers_publish_in_any_layout),
        TEST(ghosts_are_clipped_at_the_rim),
        TEST(variables_say_what_they_are),
        TEST(loaned_fragments_compute_the_next_from_the_previous),
        TEST(what_cannot_be_is_refused),
        TEST(a_writer_that_is_killed_is_named),
        TEST(thousands_of_objects_share_what_they_have_open),
    };
    int status = RUN_TESTS(tests);
    remove_rest();
    return status;
}
