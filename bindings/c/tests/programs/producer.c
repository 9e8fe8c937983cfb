// The producer's side: variables of each kind, publishing, what is counted and recovered.
#include "check.h"

#include <time.h>
#include <fcntl.h>
#include <sys/uio.h>

static void a_tracked_array_is_shown_as_it_was_at_each_publish(void) {
    stillframe_region *region = make("tracked");
    double *u = calloc(10000, sizeof *u);
    OK(stillframe_track(region, "u", "float64", 2, SHAPE(100, 100), u));
    for (uint64_t version = 1; version <= 5; version++) {
        u[version * 1000] = (double)version;
        stillframe_published published;
        OK(stillframe_publish(region, version, &published));
        CHECK(published.version == version && !published.skipped && published.total_pages >= 20);
        CHECK(shows("tracked", "u", u, 10000 * sizeof *u));
    }
    free(u);
    OK(stillframe_unlink(region));
}

static void a_tracked_array_may_move_and_change_its_shape(void) {
    stillframe_region *region = make("moving");
    size_t lengths[] = {10, 5000, 3, 100000, 0, 77};
    for (uint64_t version = 0; version < 6; version++) {
        size_t length = lengths[version];
        int32_t *data = malloc(length * sizeof *data + 1);
        for (size_t i = 0; i < length; i++)
            data[i] = (int32_t)(i * (version + 1));
        OK(stillframe_track(region, "data", "int32", 1, &length, data));
        OK(stillframe_publish(region, version, NULL));
        CHECK(shows("moving", "data", data, length * sizeof *data));
        free(data);
    }
    OK(stillframe_unlink(region));
}

static void a_tracked_array_that_was_given_up_keeps_its_last_content(void) {
    stillframe_region *region = make("given-up");
    float *data = malloc(4000 * sizeof *data), *copy = malloc(4000 * sizeof *data);
    for (int i = 0; i < 4000; i++)
        copy[i] = data[i] = (float)i;
    OK(stillframe_track(region, "data", "float32", 1, SHAPE(4000), data));
    OK(stillframe_publish(region, 1, NULL));
    OK(stillframe_track(region, "data", "float32", 0, NULL, NULL));
    free(data);
    OK(stillframe_publish(region, 2, NULL));
    CHECK(shows("given-up", "data", copy, 4000 * sizeof *copy));
    free(copy);
    OK(stillframe_unlink(region));
}

static void a_part_of_a_tracked_array_can_be_published_alone(void) {
    enum { BYTES = 10 * 4096 };
    stillframe_region *region = make("parts");
    char *data = aligned_alloc(4096, BYTES), *wanted = malloc(BYTES), *before = calloc(1, BYTES);
    memset(data, 1, BYTES);
    stillframe_declaration declaration = {.name = "data", .dtype = "uint8", .kind = STILLFRAME_TRACKED};
    uint32_t number;
    OK(stillframe_declare(region, &declaration, &number));
    FAILS(STILLFRAME_OUT_OF_RANGE, "outside its 0 bytes", stillframe_track_part(region, number, 0, 4096, NULL));
    OK(stillframe_track_at(region, number, 1, SHAPE(BYTES), STILLFRAME_C, data));
    FAILS(STILLFRAME_OUT_OF_RANGE, "outside its 40960 bytes", stillframe_track_part(region, number, 40960, 1, NULL));
    OK(stillframe_track_part(region, number, 4096, 4096, NULL));
    FAILS(STILLFRAME_WRONG_SHAPE, "no version shows the rest of it", stillframe_publish(region, 1, NULL));
    OK(stillframe_track_part(region, number, 4096, 4096, (void *)(uintptr_t)64));
    FAILS(STILLFRAME_NO_MEMORY_THERE, "no memory at 0x40", stillframe_publish(region, 1, NULL));
    OK(stillframe_track_part(region, number, 4096, 4096, before));
    OK(stillframe_publish(region, 1, NULL));
    memset(wanted, 0, BYTES);
    memset(wanted + 4096, 1, 4096);
    CHECK(shows("parts", "data", wanted, BYTES));
    // It counted for one version.
    OK(stillframe_publish(region, 2, NULL));
    CHECK(shows("parts", "data", data, BYTES));
    memcpy(wanted, data, BYTES);
    memset(data, 2, BYTES);
    OK(stillframe_track_part(region, number, 3 * 4096 + 10, 4096, NULL));
    OK(stillframe_publish(region, 3, NULL));
    memset(wanted + 3 * 4096, 2, 2 * 4096);
    CHECK(shows("parts", "data", wanted, BYTES));
    OK(stillframe_publish(region, 4, NULL));
    CHECK(shows("parts", "data", data, BYTES));
    OK(stillframe_unlink(region));
    free(data);
    free(wanted);
    free(before);
}

static void a_section_is_shown_without_what_lies_between_its_elements(void) {
    enum { N = 130, M = 90 };
    stillframe_region *region = make("sections");
    double *u = malloc(N * M * sizeof *u);
    for (size_t i = 0; i < N * M; i++)
        u[i] = (double)i / 3;
    stillframe_declaration inner = {.name = "inner", .dtype = "float64", .kind = STILLFRAME_TRACKED};
    stillframe_declaration column = {.name = "column", .dtype = "float32", .kind = STILLFRAME_TRACKED};
    uint32_t numbers[2];
    OK(stillframe_declare(region, &inner, &numbers[0]));
    OK(stillframe_declare(region, &column, &numbers[1]));
    const ptrdiff_t strides[] = {M * sizeof *u, sizeof *u}, upwards[] = {-(ptrdiff_t)(M * sizeof *u)};
    OK(stillframe_track_section(region, numbers[0], 2, SHAPE(N - 2, M - 2), strides, NULL, STILLFRAME_C, u + M + 1));
    OK(stillframe_track_section(region, numbers[1], 1, SHAPE(N), upwards, "float64", STILLFRAME_C, u + (N - 1) * M));
    FAILS(STILLFRAME_OUT_OF_RANGE, "column", stillframe_track_part(region, numbers[1], 0, 1, NULL));
    double *wanted = malloc((N - 2) * (M - 2) * sizeof *wanted);
    float reversed[N];
    for (uint64_t version = 1; version <= 3; version++) {
        u[version * M + 5] = -(double)version;
        u[version * M] = (double)version / 7;
        OK(stillframe_publish(region, version, NULL));
        for (size_t row = 0; row < N; row++) {
            reversed[row] = (float)u[(N - 1 - row) * M];
            if (row > 0 && row < N - 1)
                memcpy(wanted + (row - 1) * (M - 2), u + row * M + 1, (M - 2) * sizeof *u);
        }
        CHECK(shows("sections", "inner", wanted, (N - 2) * (M - 2) * sizeof *u));
        CHECK(shows("sections", "column", reversed, sizeof reversed));
    }
    // Of float64 there is no int32, which is said when it is published.
    OK(stillframe_track_section(region, numbers[1], 1, SHAPE(N), upwards, "int32", STILLFRAME_C, u + (N - 1) * M));
    FAILS(STILLFRAME_WRONG_SHAPE, "int32 cannot be shown as float32", stillframe_publish(region, 4, NULL));
    OK(stillframe_track_section(region, numbers[1], 0, NULL, NULL, NULL, STILLFRAME_C, NULL));
    OK(stillframe_publish(region, 4, NULL));
    CHECK(shows("sections", "column", reversed, sizeof reversed));
    // One version is given another section, the next shows what is followed again.
    const size_t one[] = {N}, four[] = {4};
    const ptrdiff_t downwards[] = {M * sizeof *u}, close_by[] = {sizeof(float)};
    stillframe_given given[] = {{.data = u + 1, .shape = one, .variable = numbers[1], .rank = 1, .strides = downwards, .dtype = "float64"}};
    OK(stillframe_publish_with(region, 5, given, 1, NULL));
    float second[N];
    for (size_t row = 0; row < N; row++)
        second[row] = (float)u[row * M + 1];
    CHECK(shows("sections", "column", second, sizeof second));
    // Of the variable's own type, and without gaps.
    given[0] = (stillframe_given){.data = second, .shape = four, .variable = numbers[1], .rank = 1, .strides = close_by};
    OK(stillframe_publish_with(region, 6, given, 1, NULL));
    CHECK(shows("sections", "column", second, 4 * sizeof *second));
    given[0].dtype = "float64", given[0].strides = NULL;
    FAILS(STILLFRAME_BAD_ARGUMENT, "given.strides", stillframe_publish_with(region, 7, given, 1, NULL));
    given[0].dtype = "float33", given[0].strides = close_by;
    FAILS(STILLFRAME_BAD_ARGUMENT, "float33", stillframe_publish_with(region, 7, given, 1, NULL));
    given[0].dtype = "int32";
    FAILS(STILLFRAME_WRONG_SHAPE, "int32 cannot be shown as float32", stillframe_publish_with(region, 7, given, 1, NULL));
    OK(stillframe_unlink(region));
    free(u);
    free(wanted);
}

static void a_managed_array_is_memory_of_the_region(void) {
    stillframe_region *region = make("managed");
    int64_t *data;
    OK(stillframe_array(region, "data", "int64", 1, SHAPE(3000), (void **)&data));
    CHECK((uintptr_t)data % 4096 == 0 && data[0] == 0 && data[2999] == 0);
    for (int i = 0; i < 3000; i++)
        data[i] = i;
    OK(stillframe_publish(region, 1, NULL));
    CHECK(shows("managed", "data", data, 3000 * sizeof *data));
    uint32_t number;
    OK(stillframe_find(region, "data", &number));
    void *again;
    size_t bytes;
    OK(stillframe_data(region, number, &again, &bytes));
    CHECK(again == data && bytes == 3000 * sizeof *data);
    OK(stillframe_resize(region, number, 2, SHAPE(400, 1000), &again));
    data = again;
    CHECK(data[2999] == 2999 && data[3000] == 0 && data[399999] == 0);
    OK(stillframe_publish(region, 2, NULL));
    CHECK(shows("managed", "data", data, 400000 * sizeof *data));
    OK(stillframe_remove(region, "data"));
    OK(stillframe_publish(region, 3, NULL));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "data", stillframe_find(region, "data", &number));
    OK(stillframe_unlink(region));
}

static void what_a_resized_array_gets_is_zero(void) {
    stillframe_region *region = make("resized");
    char *data;
    OK(stillframe_array(region, "data", "bytes1", 1, SHAPE(100000), (void **)&data));
    memset(data, 7, 100000);
    OK(stillframe_publish(region, 1, NULL));
    uint32_t number;
    OK(stillframe_find(region, "data", &number));
    OK(stillframe_resize(region, number, 1, SHAPE(100), (void **)&data));
    OK(stillframe_publish(region, 2, NULL));
    OK(stillframe_resize(region, number, 1, SHAPE(100000), (void **)&data));
    char *wanted = calloc(1, 100000);
    memset(wanted, 7, 100);
    CHECK(memcmp(data, wanted, 100000) == 0);
    OK(stillframe_publish(region, 3, NULL));
    CHECK(shows("resized", "data", wanted, 100000));
    free(wanted);
    OK(stillframe_unlink(region));
}

static void removed_memory_can_be_kept_beyond_the_region(void) {
    stillframe_region *region = make("kept");
    char *data;
    OK(stillframe_array(region, "data", "bytes1", 1, SHAPE(100000), (void **)&data));
    memset(data, 7, 100000);
    OK(stillframe_publish(region, 1, NULL));
    uint32_t number;
    OK(stillframe_find(region, "data", &number));
    stillframe_kept *kept;
    OK(stillframe_remove_keeping(region, number, &kept));
    data[5] = 8;
    OK(stillframe_publish(region, 2, NULL));
    OK(stillframe_unlink(region));
    CHECK(data[4] == 7 && data[5] == 8 && data[99999] == 7);
    data[99999] = 9;
    OK(stillframe_kept_free(kept));
}

static void a_loan_is_shown_by_the_publish_after_its_submit(void) {
    stillframe_region *region = make("loaned");
    stillframe_declaration declaration = {
        .name = "frame", .dtype = "uint16", .kind = STILLFRAME_LOANED, .rank = 1, .shape = SHAPE(5000)};
    uint32_t number;
    OK(stillframe_declare(region, &declaration, &number));
    for (uint64_t version = 1; version < 20; version++) {
        stillframe_loan *loan;
        uint16_t *data, wanted[5000];
        size_t bytes;
        OK(stillframe_loan_begin(region, number, &loan, (void **)&data, &bytes));
        CHECK(bytes == sizeof wanted);
        for (int i = 0; i < 5000; i++)
            wanted[i] = data[i] = (uint16_t)(i + version);
        if (version % 4 == 3) {
            data[0] = 9999;
            OK(stillframe_loan_discard(loan));
            for (int i = 0; i < 5000; i++)
                wanted[i]--;
        } else {
            OK(stillframe_loan_submit(loan));
        }
        OK(stillframe_publish(region, version, NULL));
        CHECK(shows("loaned", "frame", wanted, sizeof wanted));
    }
    OK(stillframe_unlink(region));
}

static void a_declaration_says_everything_of_a_variable(void) {
    stillframe_region *region = make("declared");
    stillframe_attribute attributes[] = {
        {.name = "long_name", .type = STILLFRAME_TEXT, .text = "velocity"},
        {.name = "level", .type = STILLFRAME_INT, .integer = -3},
        {.name = "scale", .type = STILLFRAME_FLOAT, .real = 0.25},
        {.name = "checked", .type = STILLFRAME_BOOL, .integer = 1},
    };
    const char *record = "{\"fields\":[{\"name\":\"x\",\"dtype\":\"float32\",\"offset\":0},"
                         "{\"name\":\"id\",\"dtype\":\"int32\",\"offset\":4}],\"bytes\":8}";
    stillframe_declaration declaration = {
        .name = "cells",
        .dtype = record,
        .units = "m/s",
        .kind = STILLFRAME_TRACKED,
        .order = STILLFRAME_FORTRAN,
        .attribute_count = 4,
        .attributes = attributes,
    };
    uint32_t number;
    OK(stillframe_declare(region, &declaration, &number));
    struct {
        float x;
        int32_t id;
    } cells[6] = {{1, 2}, {3, 4}, {5, 6}, {0, 0}, {0, 0}, {7, 8}};
    OK(stillframe_track_at(region, number, 2, SHAPE(2, 3), STILLFRAME_FORTRAN, cells));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("declared");
    stillframe_snapshot *snapshot = newest(observer);
    stillframe_variable variable;
    OK(stillframe_variable_named(snapshot, "cells", &variable));
    CHECK(strcmp(variable.name, "cells") == 0 && strcmp(variable.dtype, record) == 0);
    CHECK(strcmp(variable.units, "m/s") == 0 && variable.order == STILLFRAME_FORTRAN);
    CHECK(variable.rank == 2 && variable.shape[0] == 2 && variable.shape[1] == 3 && variable.shape[2] == 0);
    CHECK(variable.strides[0] == 8 && variable.strides[1] == 16);
    CHECK(variable.bytes == sizeof cells && variable.item_bytes == 8 && variable.attribute_count == 4);
    stillframe_attribute found;
    OK(stillframe_attribute_named(snapshot, "cells", "long_name", &found));
    CHECK(found.type == STILLFRAME_TEXT && strcmp(found.text, "velocity") == 0);
    OK(stillframe_attribute_named(snapshot, "cells", "level", &found));
    CHECK(found.type == STILLFRAME_INT && found.integer == -3 && found.text == NULL);
    OK(stillframe_attribute_named(snapshot, "cells", "scale", &found));
    CHECK(found.type == STILLFRAME_FLOAT && found.real == 0.25);
    OK(stillframe_attribute_at(snapshot, "cells", 0, &found));
    CHECK(found.type == STILLFRAME_BOOL && found.integer == 1 && strcmp(found.name, "checked") == 0);
    CHECK(shows("declared", "cells", cells, sizeof cells));
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void a_variable_says_which_part_of_a_global_array_it_is(void) {
    stillframe_region *region = make("part");
    stillframe_declaration declaration = {
        .name = "u",
        .dtype = "float64",
        .rank = 2,
        .shape = SHAPE(4, 8),
        .offset = SHAPE(4, 0),
        .global_shape = SHAPE(16, 8),
    };
    OK(stillframe_declare(region, &declaration, NULL));
    declaration.name = "beyond";
    declaration.offset = SHAPE(13, 0);
    FAILS(STILLFRAME_WRONG_SHAPE, "[16, 8]", stillframe_declare(region, &declaration, NULL));
    declaration.global_shape = NULL;
    FAILS(STILLFRAME_BAD_ARGUMENT, "declaration.global_shape", stillframe_declare(region, &declaration, NULL));
    // The shape of a tracked variable comes with its array.
    uint32_t number;
    stillframe_declaration tracked = {.name = "v",
                                      .dtype = "int32",
                                      .kind = STILLFRAME_TRACKED,
                                      .rank = 1,
                                      .offset = SHAPE(2),
                                      .global_shape = SHAPE(5)};
    OK(stillframe_declare(region, &tracked, &number));
    int32_t v[4] = {1, 2, 3, 4};
    OK(stillframe_track(region, "v", "int32", 1, SHAPE(4), v));
    FAILS(STILLFRAME_WRONG_SHAPE, "'v'", stillframe_publish(region, 1, NULL));
    OK(stillframe_track(region, "v", "int32", 1, SHAPE(3), v));
    OK(stillframe_array(region, "whole", "int8", 1, SHAPE(3), &(void *){NULL}));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("part");
    stillframe_snapshot *snapshot = newest(observer);
    stillframe_variable variable;
    OK(stillframe_variable_named(snapshot, "u", &variable));
    CHECK(variable.offset && variable.offset[0] == 4 && variable.offset[1] == 0);
    CHECK(variable.global_shape && variable.global_shape[0] == 16 && variable.global_shape[1] == 8);
    OK(stillframe_variable_named(snapshot, "v", &variable));
    CHECK(variable.rank == 1 && variable.offset[0] == 2 && variable.global_shape[0] == 5);
    OK(stillframe_variable_named(snapshot, "whole", &variable));
    CHECK(variable.offset == NULL && variable.global_shape == NULL);
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

// Whether a variable begins there in the region's newest version, and has as many rows.
static int is_part(const char *region, const char *name, size_t offset, size_t rows) {
    stillframe_observer *observer = look(region);
    stillframe_snapshot *snapshot = newest(observer);
    stillframe_variable variable;
    OK(stillframe_variable_named(snapshot, name, &variable));
    int is = variable.offset && variable.offset[0] == offset && variable.global_shape[0] == 1000 && variable.shape[0] == rows;
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    return is;
}

static void a_variable_becomes_another_part(void) {
    stillframe_region *region = make("repart");
    stillframe_declaration declaration = {.name = "u",
                                          .dtype = "int32",
                                          .rank = 2,
                                          .shape = SHAPE(400, 8),
                                          .offset = SHAPE(300, 0),
                                          .global_shape = SHAPE(1000, 8)};
    uint32_t u, t, w;
    OK(stillframe_declare(region, &declaration, &u));
    declaration.name = "w";
    declaration.kind = STILLFRAME_LOANED;
    OK(stillframe_declare(region, &declaration, &w));
    declaration.name = "t";
    declaration.kind = STILLFRAME_TRACKED;
    OK(stillframe_declare(region, &declaration, &t));
    int32_t *data, *own = calloc(1000 * 8, sizeof *own);
    OK(stillframe_data(region, u, (void **)&data, NULL));
    for (int32_t i = 0; i < 400 * 8; i++)
        data[i] = own[i] = i + 1;
    OK(stillframe_track(region, "t", "int32", 2, SHAPE(400, 8), own));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("repart");
    stillframe_snapshot *old = newest(observer);

    const size_t all[] = {1000, 8};
    void *after = data;
    FAILS(STILLFRAME_WRONG_SHAPE, "'u'", stillframe_repart(region, u, 2, SHAPE(701, 8), SHAPE(300, 0), all, &after));
    FAILS(STILLFRAME_WRONG_SHAPE, "'t'", stillframe_repart(region, t, 2, SHAPE(1, 9), SHAPE(0, 0), all, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "argument offset: it is NULL",
          stillframe_repart(region, u, 2, SHAPE(1, 8), NULL, all, &after));
    FAILS(STILLFRAME_BAD_ARGUMENT, "argument global_shape: it is NULL",
          stillframe_repart(region, u, 2, SHAPE(1, 8), SHAPE(0, 0), NULL, &after));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "'number 99'",
          stillframe_repart(region, 99, 2, SHAPE(1, 8), SHAPE(0, 0), all, &after));
    CHECK(after == data && data[399 * 8 + 7] == 3200);
    OK(stillframe_publish(region, 2, NULL));
    CHECK(is_part("repart", "u", 300, 400) && is_part("repart", "t", 300, 400) && is_part("repart", "w", 300, 400));

    OK(stillframe_repart(region, u, 2, SHAPE(700, 8), SHAPE(200, 0), all, (void **)&data));
    CHECK(data[0] == 1 && data[399 * 8 + 7] == 3200 && data[400 * 8] == 0 && data[699 * 8 + 7] == 0);
    OK(stillframe_repart(region, w, 2, SHAPE(10, 8), SHAPE(990, 0), all, &after));
    CHECK(after == NULL);
    OK(stillframe_repart(region, t, 2, SHAPE(100, 8), SHAPE(900, 0), all, &after));
    CHECK(after == NULL);
    FAILS(STILLFRAME_WRONG_SHAPE, "'t'", stillframe_publish(region, 3, NULL));
    OK(stillframe_track(region, "t", "int32", 2, SHAPE(100, 8), own + 8));
    stillframe_loan *loan;
    void *lent;
    size_t bytes;
    OK(stillframe_loan_begin(region, w, &loan, &lent, &bytes));
    CHECK(bytes == 10 * 8 * sizeof(int32_t));
    memcpy(lent, own, bytes);
    OK(stillframe_loan_submit(loan));
    OK(stillframe_publish(region, 3, NULL));
    CHECK(is_part("repart", "u", 200, 700) && is_part("repart", "t", 900, 100) && is_part("repart", "w", 990, 10));
    CHECK(shows("repart", "u", data, 700 * 8 * sizeof *data) && shows("repart", "t", own + 8, 100 * 8 * sizeof *own));

    OK(stillframe_repart(region, u, 2, SHAPE(0, 8), SHAPE(1000, 0), all, (void **)&data));
    OK(stillframe_publish(region, 4, NULL));
    CHECK(is_part("repart", "u", 1000, 0));
    // A version that is held is as it was.
    stillframe_variable variable;
    OK(stillframe_variable_named(old, "u", &variable));
    CHECK(variable.offset[0] == 300 && variable.shape[0] == 400);
    OK(stillframe_release(old));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
    free(own);
}

static void every_dtype_and_rank_arrives(void) {
    const struct {
        const char *name;
        size_t bytes;
    } dtypes[] = {{"int8", 1},    {"int16", 2},   {"int32", 4},     {"int64", 8},       {"uint8", 1},
                  {"uint16", 2},  {"uint32", 4},  {"uint64", 8},    {"float32", 4},     {"float64", 8},
                  {"complex64", 8}, {"complex128", 16}, {"bool", 1}, {"bytes7", 7}};
    stillframe_region *region = make("dtypes");
    unsigned char data[16 * 256];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        OK(stillframe_track(region, dtypes[i].name, dtypes[i].name, 8, SHAPE(2, 1, 2, 2, 1, 2, 2, 1), data));
    OK(stillframe_track(region, "scalar", "float64", 0, NULL, data));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("dtypes");
    stillframe_snapshot *snapshot = newest(observer);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        stillframe_variable variable;
        OK(stillframe_variable_at(snapshot, i, &variable));
        CHECK(strcmp(variable.dtype, dtypes[i].name) == 0 && variable.rank == 8 && variable.shape[6] == 2);
        CHECK(variable.item_bytes == dtypes[i].bytes && variable.bytes == 32 * dtypes[i].bytes);
        CHECK(shows("dtypes", dtypes[i].name, data, 32 * dtypes[i].bytes));
    }
    CHECK(shows("dtypes", "scalar", data, 8));
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void attributes_are_those_of_one_version(void) {
    stillframe_region *region = make("attributes");
    OK(stillframe_set_float(region, "time", 0.5));
    OK(stillframe_set_int(region, "step", -9));
    OK(stillframe_set_bool(region, "last", true));
    OK(stillframe_set_text(region, "phase", "früh"));
    OK(stillframe_set_float(region, "time", 0.75));
    OK(stillframe_publish(region, 1, NULL));
    OK(stillframe_set_int(region, "kept", 1));
    FAILS(STILLFRAME_NOT_INCREASING, "version 1 does not follow version 1", stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("attributes");
    stillframe_snapshot *snapshot = newest(observer);
    stillframe_snapshot_info info;
    OK(stillframe_describe(snapshot, &info));
    CHECK(strcmp(info.region, "attributes") == 0 && info.version == 1 && info.attribute_count == 4);
    stillframe_attribute found;
    OK(stillframe_attribute_named(snapshot, NULL, "time", &found));
    CHECK(found.real == 0.75);
    OK(stillframe_attribute_named(snapshot, NULL, "phase", &found));
    CHECK(strcmp(found.text, "früh") == 0);
    FAILS(STILLFRAME_UNKNOWN_ATTRIBUTE, "last, phase, step, time",
          stillframe_attribute_named(snapshot, NULL, "kept", &found));
    OK(stillframe_release(snapshot));
    // A failed publish keeps them for the next.
    OK(stillframe_publish(region, 2, NULL));
    snapshot = newest(observer);
    OK(stillframe_describe(snapshot, &info));
    OK(stillframe_attribute_at(snapshot, NULL, 0, &found));
    CHECK(info.attribute_count == 1 && strcmp(found.name, "kept") == 0);
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void the_next_producer_goes_on_from_the_last_version(void) {
    stillframe_region *region = make("recovered");
    bool found = true;
    uint64_t version = 5;
    OK(stillframe_recovered(region, &found, &version));
    CHECK(!found && version == 0);
    OK(stillframe_newest_published(region, &found, NULL));
    CHECK(!found);
    double *data;
    OK(stillframe_array(region, "data", "float64", 1, SHAPE(1000), (void **)&data));
    data[10] = 1.5;
    OK(stillframe_publish(region, 41, NULL));
    stillframe_region *second;
    FAILS(STILLFRAME_IN_USE, "recovered", stillframe_create("recovered", NULL, &second));
    CHECK(second == NULL);
    OK(stillframe_close(region));
    region = make("recovered");
    OK(stillframe_recovered(region, &found, &version));
    CHECK(found && version == 41);
    OK(stillframe_newest_published(region, &found, &version));
    CHECK(found && version == 41);
    OK(stillframe_array(region, "data", "float64", 1, SHAPE(1000), (void **)&data));
    CHECK(data[10] == 1.5);
    OK(stillframe_unlink(region));
}

static void statistics_and_tracker_are_told(void) {
    stillframe_region_options options = {.tracker = "full_copy", .threads = 1};
    stillframe_region *region;
    OK(stillframe_create("statistics", &options, &region));
    const char *tracker;
    OK(stillframe_tracker(region, &tracker));
    CHECK(strcmp(tracker, "full_copy") == 0);
    char *data;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(40960), (void **)&data));
    for (uint64_t version = 0; version < 3; version++) {
        data[version * 4096]++;
        OK(stillframe_publish(region, version, NULL));
    }
    stillframe_statistics statistics;
    OK(stillframe_statistics_of(region, &statistics));
    CHECK(statistics.published == 3 && statistics.skipped == 0 && statistics.total_pages == 10);
    CHECK(statistics.copied_pages >= 3 && statistics.plane_bytes > 0 && statistics.publish_seconds > 0);
    OK(stillframe_unlink(region));
}

static void options_reach_the_engine(void) {
    stillframe_region_options options = {.bound_bytes = 1 << 20, .rule = STILLFRAME_SKIP, .keep = 2};
    options.flags = STILLFRAME_NO_LARGE_PAGES | STILLFRAME_NO_DEMOTION;
    stillframe_region *region;
    OK(stillframe_create("options", &options, &region));
    char *data;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(400 * 1024), (void **)&data));
    stillframe_published published;
    memset(data, 1, 400 * 1024);
    OK(stillframe_publish(region, 1, &published));
    CHECK(!published.skipped);
    // Held, it cannot make way for the second after this one.
    stillframe_observer *observer = look("options");
    stillframe_snapshot *first = newest(observer), *second;
    memset(data, 2, 400 * 1024);
    OK(stillframe_publish(region, 2, &published));
    CHECK(!published.skipped);
    second = newest(observer);
    memset(data, 3, 400 * 1024);
    OK(stillframe_publish(region, 3, &published));
    CHECK(published.skipped && published.version == 3 && published.copied_pages == 0);
    OK(stillframe_release(first));
    OK(stillframe_publish(region, 4, &published));
    CHECK(!published.skipped);
    CHECK(shows("options", "data", data, 400 * 1024));
    OK(stillframe_release(second));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
    options.rule = STILLFRAME_FAIL;
    OK(stillframe_create("options", &options, &region));
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(2 << 20), (void **)&data));
    memset(data, 1, 2 << 20);
    FAILS(STILLFRAME_BOUND, "its bound of 1048576 bytes", stillframe_publish(region, 1, NULL));
    OK(stillframe_unlink(region));
}

static void a_publish_that_fails_ends_no_program_and_loses_nothing_that_was_written(void) {
    enum { COUNT = 200000 };
    stillframe_region_options options = {.keep = 1, .rule = STILLFRAME_FAIL, .bound_bytes = 1 << 19};
    stillframe_region *region;
    stillframe_observer *observer;
    OK(stillframe_create("days", &options, &region));
    OK(stillframe_open("days", NULL, &observer));
    float *u = calloc(COUNT, sizeof *u);
    CHECK(u != NULL);
    // As where the file system is full: there is no room for all of it, and for a part there is.
    OK(stillframe_track(region, "u", "float32", 1, SHAPE(COUNT), u));
    for (uint64_t version = 1; version <= 3; version++) {
        for (size_t i = 0; i < COUNT; i++)
            u[i] = (float)version;
        FAILS(STILLFRAME_BOUND, "its bound of 524288 bytes", stillframe_publish(region, version, NULL));
        stillframe_snapshot *none;
        FAILS(STILLFRAME_NO_VERSION, "days", stillframe_newest(observer, &none));
    }
    OK(stillframe_track(region, "u", "float32", 1, SHAPE(1000), u));
    OK(stillframe_publish(region, 4, NULL));
    CHECK(shows("days", "u", u, 1000 * sizeof *u));
    // What was written before a publish that failed is in the next one.
    u[5] = 7;
    FAILS(STILLFRAME_NOT_INCREASING, "does not follow version 4", stillframe_publish(region, 4, NULL));
    OK(stillframe_publish(region, 5, NULL));
    CHECK(shows("days", "u", u, 1000 * sizeof *u));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
    free(u);
}

static bool keep_info(void *context, const stillframe_region_info *info) {
    if (strcmp(info->name, "crowded") != 0)
        return true;
    *(stillframe_region_info *)context = *info;
    return false;
}

static bool keep_holder(void *context, const stillframe_holder *holder) {
    *(stillframe_holder *)context = *holder;
    return false;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// All members 0 but the bound and the wait: what a program gets that says nothing of a rule.
static void a_publish_without_room_waits_a_while_and_is_then_left_out(void) {
    stillframe_region_options options = {.bound_bytes = 1 << 20, .wait_ms = 300};
    stillframe_region *region;
    OK(stillframe_create("crowded", &options, &region));
    char *data;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(400 * 1024), (void **)&data));
    stillframe_declaration declaration = {
        .name = "lent", .dtype = "uint8", .kind = STILLFRAME_LOANED, .rank = 1, .shape = SHAPE(400 * 1024)};
    uint32_t lent;
    OK(stillframe_declare(region, &declaration, &lent));
    memset(data, 1, 400 * 1024);
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("crowded");
    stillframe_snapshot *first = newest(observer);
    memset(data, 2, 400 * 1024);
    OK(stillframe_publish(region, 2, NULL));
    stillframe_published published;
    double begin = now();
    // Only the first of them waits: there is no time for all to.
    for (uint64_t version = 3; version < 1003; version++) {
        memset(data, (int)version, 400 * 1024);
        OK(stillframe_publish(region, version, &published));
        CHECK(published.skipped);
    }
    CHECK(now() - begin >= 0.3);
    stillframe_loan *loan;
    void *memory;
    size_t bytes;
    FAILS(STILLFRAME_BOUND, "its bound of 1048576 bytes", stillframe_loan_begin(region, lent, &loan, &memory, &bytes));
    stillframe_region_info info;
    OK(stillframe_list(NULL, keep_info, &info));
    CHECK(info.skipping == 1000 && info.skipped == 1000 && info.skipping_ns > info.created_ns && info.waiting_ns == 0);
    stillframe_holder holder;
    OK(stillframe_holders(NULL, "crowded", keep_holder, &holder));
    CHECK(holder.pid == getpid() && holder.versions == 1 && holder.version == 1);
    OK(stillframe_release(first));
    OK(stillframe_publish(region, 2000, &published));
    CHECK(!published.skipped && shows("crowded", "data", data, 400 * 1024));
    OK(stillframe_list(NULL, keep_info, &info));
    CHECK(info.skipping == 0 && info.skipping_ns == 0);
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void bytes_written_by_a_device_can_be_marked(void) {
    stillframe_region *region = make("marked");
    char *data;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(8 * 4096), (void **)&data));
    stillframe_published published;
    for (uint64_t version = 1; version <= 20; version++)
        OK(stillframe_publish(region, version, &published));
    uint32_t number;
    OK(stillframe_find(region, "data", &number));
    OK(stillframe_mark_dirty(region, number, 4096, 4097));
    OK(stillframe_publish(region, 21, &published));
    CHECK(published.copied_pages >= 2);
    FAILS(STILLFRAME_OUT_OF_RANGE, "32768", stillframe_mark_dirty(region, number, 32768, 1));
    FAILS(STILLFRAME_OUT_OF_RANGE, "32768", stillframe_mark_dirty(region, number, 1, SIZE_MAX));
    OK(stillframe_unlink(region));
}

// A device that knows pages, not addresses: a pipe that vmsplice gave one.
static int told_of(const void *page) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    const struct iovec vector = {.iov_base = (void *)page, .iov_len = 4096};
    CHECK(vmsplice(ends[1], &vector, 1, 0) == 4096);
    close(ends[1]);
    return ends[0];
}

static bool device_sees(int device, const char *page) {
    char seen[4096];
    CHECK(read(device, seen, sizeof seen) == sizeof seen);
    close(device);
    return memcmp(seen, page, sizeof seen) == 0;
}

static void pinned_memory_keeps_its_pages(void) {
    enum { BYTES = 2 << 20 };
    stillframe_region_options options = {.tracker = "private_cow"};
    stillframe_region *region;
    OK(stillframe_create("pinned", &options, &region));
    const size_t shape[] = {BYTES};
    stillframe_declaration declaration = {
        .name = "pinned", .dtype = "uint8", .rank = 1, .shape = shape, .flags = STILLFRAME_PINNED};
    uint32_t pinned, plain, loaned;
    OK(stillframe_declare(region, &declaration, &pinned));
    char *data, *others;
    OK(stillframe_data(region, pinned, (void **)&data, NULL));
    OK(stillframe_array(region, "plain", "uint8", 1, shape, (void **)&others));
    OK(stillframe_find(region, "plain", &plain));
    data[5] = others[5] = 1;
    const int knows_data = told_of(data);
    int knows_others = told_of(others);
    for (uint64_t version = 1; version <= 5; version++) {
        data[5] = others[5] = (char)version;
        OK(stillframe_publish(region, version, NULL));
        data[5] = others[5] = 77;
    }
    CHECK(device_sees(knows_data, data));
    CHECK(!device_sees(knows_others, others));
    // Pinned after it was taken apart, and let go again.
    OK(stillframe_pin(region, plain));
    knows_others = told_of(others);
    for (uint64_t version = 6; version <= 10; version++) {
        OK(stillframe_publish(region, version, NULL));
        others[5] = (char)version;
    }
    CHECK(device_sees(knows_others, others));
    OK(stillframe_unpin(region, plain));
    FAILS(STILLFRAME_IS_PINNED, "'pinned' is pinned", stillframe_resize(region, pinned, 1, SHAPE(BYTES + 1), NULL));
    OK(stillframe_resize(region, pinned, 1, SHAPE(BYTES - 4096), NULL));
    OK(stillframe_unpin(region, pinned));
    OK(stillframe_resize(region, pinned, 1, SHAPE(2 * BYTES), NULL));
    declaration.flags = 2;
    declaration.name = "refused";
    FAILS(STILLFRAME_BAD_ARGUMENT, "flags", stillframe_declare(region, &declaration, NULL));
    declaration.flags = STILLFRAME_PINNED;
    declaration.kind = STILLFRAME_LOANED;
    FAILS(STILLFRAME_WRONG_KIND, "loaned", stillframe_declare(region, &declaration, NULL));
    declaration.flags = 0;
    OK(stillframe_declare(region, &declaration, &loaned));
    FAILS(STILLFRAME_WRONG_KIND, "loaned", stillframe_pin(region, loaned));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "99", stillframe_pin(region, 99));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "99", stillframe_unpin(region, 99));
    OK(stillframe_unlink(region));
}

static void a_version_can_be_published_in_the_background(void) {
    enum { COUNT = 200000 };
    stillframe_region *region = make("background");
    double *u = calloc(COUNT, sizeof *u), *given = calloc(1000, sizeof *given);
    bool found = true, done = false;
    stillframe_published published;
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(COUNT), u));
    OK(stillframe_publish_finish(region, &published, &found));
    OK(stillframe_publish_test(region, &done));
    CHECK(!found && done);
    OK(stillframe_track(region, "given", "float64", 0, NULL, NULL));
    stillframe_given arrays = {.data = given, .shape = SHAPE(1000), .rank = 1};
    OK(stillframe_find(region, "given", &arrays.variable));
    for (uint64_t version = 1; version <= 20; version++) {
        for (size_t i = 0; i < COUNT; i++)
            u[i] = given[i % 1000] = (double)(version + i);
        OK(stillframe_set_int(region, "step", (int64_t)version));
        OK(stillframe_publish_start(region, version, &arrays, 1, 0));
        for (done = false; version % 2 == 0 && !done;)
            OK(stillframe_publish_test(region, &done));
        OK(stillframe_publish_finish(region, &published, &found));
        CHECK(found && published.version == version && !published.skipped && published.copied_pages >= 300);
        CHECK(shows("background", "u", u, COUNT * sizeof *u) && shows("background", "given", given, 1000 * sizeof *given));
    }
    // With a guard it shows what was there, whatever is written and freed meanwhile.
    double *copy = malloc(COUNT * sizeof *copy);
    memcpy(copy, u, COUNT * sizeof *u);
    OK(stillframe_publish_start(region, 21, NULL, 0, STILLFRAME_PUBLISH_GUARD));
    memset(u, 0, COUNT * sizeof *u);
    OK(stillframe_track(region, "u", "float64", 0, NULL, NULL));
    free(u);
    OK(stillframe_publish_finish(region, NULL, NULL));
    CHECK(shows("background", "u", copy, COUNT * sizeof *copy));
    FAILS(STILLFRAME_NOT_INCREASING, "21", stillframe_publish_start(region, 21, NULL, 0, 0));
    FAILS(STILLFRAME_BAD_ARGUMENT, "flags", stillframe_publish_start(region, 22, NULL, 0, 2));
    FAILS(STILLFRAME_BAD_ARGUMENT, "done", stillframe_publish_test(region, NULL));
    // What is closed is finished first.
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(COUNT), copy));
    copy[0] = 77;
    OK(stillframe_publish_start(region, 22, NULL, 0, 0));
    OK(stillframe_close(region));
    CHECK(shows("background", "u", copy, COUNT * sizeof *copy));
    free(copy);
    free(given);
    OK(stillframe_unlink(make("background")));
}

static void who_writes_what_is_being_published_is_told(void) {
    enum { COUNT = 200000 };
    setenv("STILLFRAME_CHECK", "1", 1);
    stillframe_region *region = make("checked");
    unsetenv("STILLFRAME_CHECK");
    double *u = calloc(COUNT, sizeof *u);
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(COUNT), u));
    OK(stillframe_publish_start(region, 1, NULL, 0, 0));
    u[COUNT / 2] = 1;
    stillframe_status status = stillframe_publish_finish(region, NULL, NULL);
    // One tracker publishes at once what is started.
    if (status != STILLFRAME_OK) {
        CHECK(status == STILLFRAME_WRITTEN && strstr(stillframe_error_text(), "variable 'u'") && strstr(stillframe_error_text(), "page 19"));
        OK(stillframe_publish(region, 1, NULL));
        CHECK(shows("checked", "u", u, COUNT * sizeof *u));
    }
    free(u);
    OK(stillframe_unlink(region));
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(a_tracked_array_is_shown_as_it_was_at_each_publish),
        TEST(a_tracked_array_may_move_and_change_its_shape),
        TEST(a_tracked_array_that_was_given_up_keeps_its_last_content),
        TEST(a_part_of_a_tracked_array_can_be_published_alone),
        TEST(a_section_is_shown_without_what_lies_between_its_elements),
        TEST(a_version_can_be_published_in_the_background),
        TEST(who_writes_what_is_being_published_is_told),
        TEST(a_managed_array_is_memory_of_the_region),
        TEST(what_a_resized_array_gets_is_zero),
        TEST(removed_memory_can_be_kept_beyond_the_region),
        TEST(a_loan_is_shown_by_the_publish_after_its_submit),
        TEST(a_declaration_says_everything_of_a_variable),
        TEST(a_variable_says_which_part_of_a_global_array_it_is),
        TEST(a_variable_becomes_another_part),
        TEST(every_dtype_and_rank_arrives),
        TEST(attributes_are_those_of_one_version),
        TEST(the_next_producer_goes_on_from_the_last_version),
        TEST(statistics_and_tracker_are_told),
        TEST(options_reach_the_engine),
        TEST(a_publish_that_fails_ends_no_program_and_loses_nothing_that_was_written),
        TEST(a_publish_without_room_waits_a_while_and_is_then_left_out),
        TEST(bytes_written_by_a_device_can_be_marked),
        TEST(pinned_memory_keeps_its_pages),
    };
    return RUN_TESTS(tests);
}
