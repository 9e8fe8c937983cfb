// Checkpoints while a program runs, and beginning again from them, with other numbers of ranks too.
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

static char store[64];

// A directory for checkpoints, which is not there yet.
static void make_store(void) {
    strcpy(store, "/tmp/stillframe-c-XXXXXX");
    CHECK(mkdtemp(store) != NULL);
    strcat(store, "/ckpt");
}

static void remove_store(void) {
    char command[128];
    *strrchr(store, '/') = 0;
    snprintf(command, sizeof command, "rm -rf '%s'", store);
    CHECK(system(command) == 0);
}

// Saves the newest version of a region or group.
static void save(const char *name) {
    stillframe_checkpoint_options options = {.flags = STILLFRAME_CHECKPOINT_ONCE};
    stillframe_checkpointer *checkpointer;
    OK(stillframe_checkpoint_start(name, store, &options, &checkpointer));
    stillframe_checkpoint_info info;
    do {
        usleep(1000);
        OK(stillframe_checkpoint_status(checkpointer, &info));
    } while (info.state == STILLFRAME_CHECKPOINT_RUNNING);
    CHECK(info.state == STILLFRAME_CHECKPOINT_ENDED && info.saved == 1 && strcmp(info.error, "") == 0);
    OK(stillframe_checkpoint_stop(checkpointer, NULL));
}

static stillframe_region *begin_again(const char *name, uint32_t rank, uint32_t ranks, stillframe_origin *origin) {
    stillframe_recovery_options options = {.checkpoints = store, .region = {.rank = rank, .ranks = ranks}};
    stillframe_region *region;
    OK(stillframe_recover(name, &options, &region, origin));
    return region;
}

// What a walk over the variables of the recovered version met: name, type and shape of each.
static char variables[256];

static bool note_variable(void *context, const stillframe_recovered_variable *found) {
    (void)context;
    size_t at = strlen(variables);
    at += (size_t)snprintf(variables + at, sizeof variables - at, "%s %s ", found->name, found->dtype);
    for (uint32_t axis = 0; axis < found->rank; axis++)
        at += (size_t)snprintf(variables + at, sizeof variables - at, "%s%zu", axis ? "," : "", found->shape[axis]);
    snprintf(variables + at, sizeof variables - at, ";");
    return true;
}

static const char *recovered_variables(stillframe_region *region) {
    variables[0] = 0;
    OK(stillframe_recovered_variables(region, note_variable, NULL));
    return variables;
}

static void a_checkpointer_saves_what_is_published_and_says_what_is_safe(void) {
    make_store();
    stillframe_region *region = make("saved");
    int32_t u[5000] = {0};
    OK(stillframe_track(region, "u", "int32", 1, SHAPE(5000), u));
    OK(stillframe_publish(region, 1, NULL));
    bool safe = true, found = true;
    OK(stillframe_is_safe(store, 1, &safe));
    OK(stillframe_newest_safe(store, &found, NULL));
    CHECK(!safe && !found);
    stillframe_checkpoint_options options = {
        .every = 10, .keep = 2, .keep_every = 20, .compress = "zstd", .chunk_bytes = 8192, .threads = 1, .nice = -1};
    stillframe_checkpointer *checkpointer;
    OK(stillframe_checkpoint_start("saved", store, &options, &checkpointer));
    stillframe_checkpointer *second;
    FAILS(STILLFRAME_LOCKED, "writes checkpoints into", stillframe_checkpoint_start("saved", store, NULL, &second));
    CHECK(second == NULL);
    for (uint64_t version = 2; version <= 50; version++) {
        u[version] = (int32_t)version;
        OK(stillframe_publish(region, version, NULL));
        if (version % 10 == 0) {
            OK(stillframe_checkpoint_wait_safe(checkpointer, version, 60000, &safe));
            CHECK(safe);
        }
    }
    OK(stillframe_checkpoint_wait_safe(checkpointer, 51, 10, &safe));
    CHECK(!safe);
    uint64_t newest;
    OK(stillframe_checkpoint_wait_safe_from(checkpointer, 31, 0, &found, &newest));
    CHECK(found && newest == 50);
    OK(stillframe_checkpoint_wait_safe_from(checkpointer, 51, 10, &found, NULL));
    CHECK(!found);
    stillframe_checkpoint_info info;
    OK(stillframe_checkpoint_status(checkpointer, &info));
    CHECK(info.state == STILLFRAME_CHECKPOINT_RUNNING && info.has_safe && info.newest_safe == 50);
    CHECK(info.written_bytes > 0 && info.linked_bytes > 0 && strcmp(info.error, "") == 0);
    OK(stillframe_checkpoint_stop(checkpointer, &info));
    CHECK(info.state == STILLFRAME_CHECKPOINT_ENDED && info.newest_safe == 50 && info.missed == 0);
    FAILS(STILLFRAME_BAD_HANDLE, "this checkpointer has ended", stillframe_checkpoint_status(checkpointer, &info));
    OK(stillframe_checkpoint_stop(NULL, NULL));
    OK(stillframe_newest_safe(store, &found, &newest));
    CHECK(found && newest == 50);
    OK(stillframe_wait_safe(store, 40, 0, &safe));
    CHECK(safe);
    OK(stillframe_wait_safe_from(store, 31, 0, &found, &newest));
    CHECK(found && newest == 50);
    OK(stillframe_wait_safe_from(store, 51, 10, &found, &newest));
    CHECK(!found && newest == 0);
    OK(stillframe_is_safe(store, 20, &safe));
    CHECK(safe);
    OK(stillframe_is_safe(store, 30, &safe));
    CHECK(!safe);
    OK(stillframe_unlink(region));
    remove_store();
}

static void options_of_checkpoints_that_cannot_be_are_refused(void) {
    make_store();
    stillframe_checkpointer *checkpointer;
    FAILS(STILLFRAME_NO_REGION, "'none'", stillframe_checkpoint_start("none", store, NULL, &checkpointer));
    CHECK(checkpointer == NULL);
    stillframe_region *region = make("refused");
    stillframe_checkpoint_options options = {.compress = "gzip"};
    FAILS(STILLFRAME_BAD_ARGUMENT, "'gzip' is neither",
          stillframe_checkpoint_start("refused", store, &options, &checkpointer));
    options = (stillframe_checkpoint_options){.flags = 64};
    FAILS(STILLFRAME_BAD_ARGUMENT, "0x40", stillframe_checkpoint_start("refused", store, &options, &checkpointer));
    options = (stillframe_checkpoint_options){.when = "step >"};
    FAILS(STILLFRAME_EXPRESSION, "step >", stillframe_checkpoint_start("refused", store, &options, &checkpointer));
    options = (stillframe_checkpoint_options){.held = 1000};
    FAILS(STILLFRAME_BAD_OPTION, "held", stillframe_checkpoint_start("refused", store, &options, &checkpointer));
    options = (stillframe_checkpoint_options){.nice = 20};
    FAILS(STILLFRAME_BAD_OPTION, "nice", stillframe_checkpoint_start("refused", store, &options, &checkpointer));
    options = (stillframe_checkpoint_options){.trust = "everybody"};
    FAILS(STILLFRAME_BAD_OPTION, "everybody", stillframe_checkpoint_start("refused", store, &options, &checkpointer));
    options = (stillframe_checkpoint_options){.reserved = {1}};
    FAILS(STILLFRAME_BAD_ARGUMENT, "reserved", stillframe_checkpoint_start("refused", store, &options, &checkpointer));
    FAILS(STILLFRAME_BAD_HANDLE, "the call is for: checkpointer",
          stillframe_checkpoint_stop((stillframe_checkpointer *)region, NULL));
    OK(stillframe_unlink(region));
    remove_store();
}

static void a_region_begins_with_memory_or_a_checkpoint_or_nothing_and_says_which(void) {
    make_store();
    stillframe_origin origin;
    stillframe_region *region = begin_again("heat", 0, 0, &origin);
    CHECK(origin.kind == STILLFRAME_ORIGIN_FRESH && origin.version == 0 && strcmp(origin.path, "") == 0);
    CHECK(strstr(origin.sentence, "nothing") && strcmp(origin.skipped, "") == 0);
    double *t;
    int32_t u[100];
    for (int i = 0; i < 100; i++)
        u[i] = i;
    CHECK(strcmp(recovered_variables(region), "") == 0);
    FAILS(STILLFRAME_NOTHING_RECOVERED, "'u'",
          stillframe_read_recovered(region, "u", "int32", 1, NULL, SHAPE(100), STILLFRAME_C, u));
    OK(stillframe_array(region, "t", "float64", 1, SHAPE(1000), (void **)&t));
    t[999] = 0.5;
    OK(stillframe_track(region, "u", "int32", 2, SHAPE(20, 5), u));
    OK(stillframe_set_float(region, "time", 1.5));
    OK(stillframe_publish(region, 7, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "it has published", stillframe_recovered_variables(region, note_variable, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "it has published",
          stillframe_read_recovered(region, "u", "int32", 1, NULL, SHAPE(100), STILLFRAME_C, u));
    save("heat");
    t[999] = 0.75;
    u[99] = -1;
    OK(stillframe_publish(region, 8, NULL));
    OK(stillframe_close(region));

    region = begin_again("heat", 0, 0, &origin);
    CHECK(origin.kind == STILLFRAME_ORIGIN_MEMORY && origin.version == 8 && strstr(origin.sentence, "version 8"));
    CHECK(strcmp(recovered_variables(region), "t float64 1000;u int32 20,5;") == 0);
    OK(stillframe_array(region, "t", "float64", 1, SHAPE(1000), (void **)&t));
    CHECK(t[999] == 0.75);
    int32_t read[20][5] = {{0}}, turned[3][2];
    OK(stillframe_read_recovered(region, "u", "int32", 2, NULL, SHAPE(20, 5), STILLFRAME_C, read));
    CHECK(memcmp(read, u, sizeof u) == 0);
    OK(stillframe_read_recovered(region, "u", "int32", 2, SHAPE(4, 2), SHAPE(2, 3), STILLFRAME_FORTRAN, turned));
    CHECK(turned[0][0] == 22 && turned[0][1] == 27 && turned[2][0] == 24 && turned[2][1] == 29);
    OK(stillframe_unlink(region));

    // What was in memory is gone, as after the machine was started again.
    region = begin_again("heat", 0, 0, &origin);
    CHECK(origin.kind == STILLFRAME_ORIGIN_CHECKPOINT && origin.version == 7 && strstr(origin.path, "v000000000007"));
    CHECK(strstr(origin.sentence, origin.path));
    CHECK(strcmp(recovered_variables(region), "t float64 1000;u int32 20,5;") == 0);
    FAILS(STILLFRAME_BAD_ARGUMENT, "visitor", stillframe_recovered_variables(region, NULL, NULL));
    stillframe_attribute time;
    OK(stillframe_recovered_attribute(region, "time", &time));
    CHECK(time.type == STILLFRAME_FLOAT && time.real == 1.5);
    FAILS(STILLFRAME_UNKNOWN_ATTRIBUTE, "but time", stillframe_recovered_attribute(region, "tim", &time));
    OK(stillframe_array(region, "t", "float64", 1, SHAPE(1000), (void **)&t));
    CHECK(t[999] == 0.5);
    OK(stillframe_read_recovered(region, "u", "int32", 2, NULL, SHAPE(20, 5), STILLFRAME_C, read));
    CHECK(read[19][4] == 99);
    FAILS(STILLFRAME_WRONG_DTYPE, "int64",
          stillframe_read_recovered(region, "u", "int64", 1, NULL, SHAPE(1), STILLFRAME_C, read));
    FAILS(STILLFRAME_WRONG_SHAPE, "'u'",
          stillframe_read_recovered(region, "u", "int32", 2, SHAPE(19, 0), SHAPE(2, 5), STILLFRAME_C, read));
    // A corner is read by a program that says so.
    FAILS(STILLFRAME_WRONG_SHAPE, "offset",
          stillframe_read_recovered(region, "u", "int32", 2, NULL, SHAPE(10, 5), STILLFRAME_C, read));
    OK(stillframe_read_recovered(region, "u", "int32", 2, SHAPE(0, 0), SHAPE(10, 5), STILLFRAME_C, read));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "'w'",
          stillframe_read_recovered(region, "w", "int32", 2, NULL, SHAPE(2, 5), STILLFRAME_C, read));
    OK(stillframe_unlink(region));

    stillframe_recovery_options options = {.checkpoints = store, .version = 3, .has_version = 1};
    FAILS(STILLFRAME_NO_SUCH_VERSION, "3", stillframe_recover("heat", &options, &region, NULL));
    CHECK(region == NULL);
    region = make("plain");
    FAILS(STILLFRAME_BAD_ARGUMENT, "made by stillframe_create", stillframe_fill(region, 0));
    FAILS(STILLFRAME_BAD_ARGUMENT, "made by stillframe_create",
          stillframe_recovered_variables(region, note_variable, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "made by stillframe_create", stillframe_recovered_attribute(region, "time", &time));
    OK(stillframe_unlink(region));
    remove_store();
}

enum { ROWS = 13, COLUMNS = 6 };

// A rank's rows of the global array.
static size_t first_row(uint32_t rank, uint32_t ranks) { return rank * ROWS / ranks; }

// The same after the load was balanced: the first rank has one more, the last one less.
static size_t balanced_row(uint32_t rank, uint32_t ranks) {
    return first_row(rank, ranks) + (rank > 0 && rank < ranks);
}

// A run of so many ranks that checks what it begins with, goes one version on, and ends; in memory or in a checkpoint. Those
// of odd versions balance their load before they begin.
static void run(uint32_t ranks, uint64_t version, uint32_t wanted_kind) {
    stillframe_region *regions[8];
    int32_t *managed[8], *tracked[8];
    size_t (*row)(uint32_t, uint32_t) = version % 2 ? balanced_row : first_row;
    // As they would all at once: no rank publishes before all have what they begin with.
    for (uint32_t rank = 0; rank < ranks; rank++) {
        stillframe_origin origin;
        regions[rank] = begin_again("plate", rank, ranks, &origin);
        if (origin.kind != wanted_kind || origin.version != version - 1)
            FAIL("rank %u of %u: %s", rank, ranks, origin.sentence);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        size_t top = first_row(rank, ranks), rows = first_row(rank + 1, ranks) - top;
        stillframe_declaration declaration = {.name = "m",
                                              .dtype = "int32",
                                              .rank = 2,
                                              .shape = SHAPE(rows, COLUMNS),
                                              .offset = SHAPE(top, 0),
                                              .global_shape = SHAPE(ROWS, COLUMNS)};
        uint32_t variable;
        OK(stillframe_declare(regions[rank], &declaration, &variable));
        OK(stillframe_data(regions[rank], variable, (void **)&managed[rank], NULL));
        OK(stillframe_fill(regions[rank], variable));
        top = row(rank, ranks);
        rows = row(rank + 1, ranks) - top;
        OK(stillframe_repart(regions[rank], variable, 2, SHAPE(rows, COLUMNS), SHAPE(top, 0), SHAPE(ROWS, COLUMNS),
                             (void **)&managed[rank]));
        OK(stillframe_fill(regions[rank], variable));
        declaration.name = "t";
        declaration.kind = STILLFRAME_TRACKED;
        OK(stillframe_declare(regions[rank], &declaration, &variable));
        FAILS(STILLFRAME_WRONG_KIND, "tracked", stillframe_fill(regions[rank], variable));
        OK(stillframe_repart(regions[rank], variable, 2, SHAPE(rows, COLUMNS), SHAPE(top, 0), SHAPE(ROWS, COLUMNS), NULL));
        tracked[rank] = calloc(rows * COLUMNS, sizeof **tracked);
        if (version > 1)
            OK(stillframe_read_recovered(regions[rank], "t", "int32", 2, NULL, SHAPE(rows, COLUMNS), STILLFRAME_C,
                                         tracked[rank]));
        OK(stillframe_track(regions[rank], "t", "int32", 2, SHAPE(rows, COLUMNS), tracked[rank]));
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        size_t top = row(rank, ranks), cells = (row(rank + 1, ranks) - top) * COLUMNS;
        for (size_t cell = 0; cell < cells; cell++) {
            int32_t was = version > 1 ? (int32_t)(top * COLUMNS + cell + 1000 * (version - 1)) : 0;
            CHECK(managed[rank][cell] == was && tracked[rank][cell] == was);
            managed[rank][cell] = tracked[rank][cell] = (int32_t)(top * COLUMNS + cell + 1000 * version);
        }
        OK(stillframe_publish(regions[rank], version, NULL));
    }
    save("plate");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        OK(stillframe_close(regions[rank]));
        free(tracked[rank]);
    }
}

static void a_group_goes_on_with_any_number_of_ranks(void) {
    make_store();
    run(4, 1, STILLFRAME_ORIGIN_FRESH);
    run(4, 2, STILLFRAME_ORIGIN_MEMORY);
    run(3, 3, STILLFRAME_ORIGIN_MEMORY);
    OK(stillframe_remove_region(NULL, "plate", false, NULL));
    run(3, 4, STILLFRAME_ORIGIN_CHECKPOINT);
    OK(stillframe_remove_region(NULL, "plate", false, NULL));
    run(6, 5, STILLFRAME_ORIGIN_CHECKPOINT);
    run(1, 6, STILLFRAME_ORIGIN_MEMORY);
    OK(stillframe_remove_region(NULL, "plate", false, NULL));
    // By which ranks that begin at once agree on what to begin with.
    char note[256];
    snprintf(note, sizeof note, "%s/.plate.recovery", getenv("STILLFRAME_DIR"));
    unlink(note);
    remove_store();
}

int main(int argc, char **argv) {
    alarm(230);
    const test tests[] = {
        TEST(a_checkpointer_saves_what_is_published_and_says_what_is_safe),
        TEST(options_of_checkpoints_that_cannot_be_are_refused),
        TEST(a_region_begins_with_memory_or_a_checkpoint_or_nothing_and_says_which),
        TEST(a_group_goes_on_with_any_number_of_ranks),
    };
    return RUN_TESTS(tests);
}
