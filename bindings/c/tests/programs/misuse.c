// What goes wrong: every mistake has a status and a text that names it, and the next call works.
#include "check.h"

#include <sys/mman.h>
#include <sys/utsname.h>

static bool never(void *context, const stillframe_region_info *info) {
    (void)context, (void)info;
    return false;
}

static void handles_that_are_none_are_told_apart(void) {
    stillframe_region *region = make("handles");
    OK(stillframe_track(region, "u", "uint8", 1, SHAPE(1), &region));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("handles");
    stillframe_snapshot *snapshot = newest(observer);
    FAILS(STILLFRAME_BAD_HANDLE, "stillframe_publish: the region is NULL", stillframe_publish(NULL, 1, NULL));
    FAILS(STILLFRAME_BAD_HANDLE, "this is a handle for: snapshot; the call is for: region",
          stillframe_publish((stillframe_region *)snapshot, 1, NULL));
    stillframe_snapshot *none;
    FAILS(STILLFRAME_BAD_HANDLE, "the call is for: observer", stillframe_newest((stillframe_observer *)region, &none));
    CHECK(none == NULL);
    int local = 0;
    void *heap = malloc(64);
    FAILS(STILLFRAME_BAD_HANDLE, "is no handle of a region", stillframe_publish((void *)&local, 1, NULL));
    FAILS(STILLFRAME_BAD_HANDLE, "is no handle of a snapshot", stillframe_release(heap));
    FAILS(STILLFRAME_BAD_HANDLE, "is no handle", stillframe_release((void *)(uintptr_t)1));
    FAILS(STILLFRAME_BAD_HANDLE, "is no handle", stillframe_release((void *)UINTPTR_MAX));
    free(heap);
    OK(stillframe_release(snapshot));
    FAILS(STILLFRAME_BAD_HANDLE, "this snapshot has ended", stillframe_release(snapshot));
    const void *data;
    FAILS(STILLFRAME_BAD_HANDLE, "this snapshot has ended", stillframe_view(snapshot, "u", &data, NULL));
    CHECK(data == NULL);
    OK(stillframe_observer_close(observer));
    FAILS(STILLFRAME_BAD_HANDLE, "this observer has ended", stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
    FAILS(STILLFRAME_BAD_HANDLE, "this region has ended", stillframe_close(region));
    FAILS(STILLFRAME_BAD_HANDLE, "this region has ended", stillframe_publish(region, 2, NULL));
    // A later one does not take over an old handle.
    stillframe_region *next = make("handles");
    CHECK(next != region);
    FAILS(STILLFRAME_BAD_HANDLE, "this region has ended", stillframe_publish(region, 2, NULL));
    OK(stillframe_unlink(next));
    OK(stillframe_close(NULL));
    OK(stillframe_unlink(NULL));
    OK(stillframe_release(NULL));
    OK(stillframe_observer_close(NULL));
    OK(stillframe_group_close(NULL));
    OK(stillframe_loan_discard(NULL));
    OK(stillframe_kept_free(NULL));
    FAILS(STILLFRAME_BAD_HANDLE, "the loan is NULL", stillframe_loan_submit(NULL));
}

static void begin_says_why_it_gave_null(void) {
    stillframe_region *region = stillframe_begin("begun", 0, 0);
    CHECK(region != NULL);
    CHECK(stillframe_begin("begun", 0, 0) == NULL);
    CHECK(strstr(stillframe_error_text(), "stillframe_begin: region 'begun' has a living producer"));
    FAILS(STILLFRAME_BAD_HANDLE, "is NULL: was it made, and did that succeed? stillframe_begin: region 'begun' has",
          stillframe_publish(NULL, 1, NULL));
    OK(stillframe_publish(region, 7, NULL));
    OK(stillframe_close(region));
    region = stillframe_begin("begun", 0, 0);
    bool found;
    OK(stillframe_newest_published(region, &found, NULL));
    CHECK(!found);
    OK(stillframe_publish(region, 1, NULL));
    OK(stillframe_unlink(region));
    CHECK(stillframe_begin("begun", 3, 2) == NULL);
    CHECK(stillframe_begin(NULL, 0, 0) == NULL);
    CHECK(strstr(stillframe_error_text(), "argument name: it is NULL"));
}

static void arguments_that_cannot_be_are_named(void) {
    stillframe_region *region;
    FAILS(STILLFRAME_BAD_ARGUMENT, "stillframe_create: argument region: it is NULL", stillframe_create("a", NULL, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "argument name: it is NULL", stillframe_create(NULL, NULL, &region));
    FAILS(STILLFRAME_BAD_ARGUMENT, "not UTF-8", stillframe_create("\xff", NULL, &region));
    FAILS(STILLFRAME_BAD_NAME, "region", stillframe_create("", NULL, &region));
    FAILS(STILLFRAME_BAD_NAME, "region", stillframe_create("../up", NULL, &region));
    stillframe_region_options options = {.rule = 7};
    FAILS(STILLFRAME_BAD_ARGUMENT, "no rule 7", stillframe_create("a", &options, &region));
    options = (stillframe_region_options){.flags = 0x90};
    FAILS(STILLFRAME_BAD_ARGUMENT, "bits 0x90", stillframe_create("a", &options, &region));
    options = (stillframe_region_options){.keep = 1000};
    FAILS(STILLFRAME_BAD_OPTION, "keep", stillframe_create("a", &options, &region));
    options = (stillframe_region_options){.memory_unit = "2M"};
    FAILS(STILLFRAME_BAD_OPTION, "small, large", stillframe_create("a", &options, &region));
    options = (stillframe_region_options){.tracker = "magic"};
    FAILS(STILLFRAME_BAD_OPTION, "'magic'", stillframe_create("a", &options, &region));
    options = (stillframe_region_options){.rank = 2};
    FAILS(STILLFRAME_BAD_ARGUMENT, "options.ranks", stillframe_create("a", &options, &region));
    options = (stillframe_region_options){.rank = 2, .ranks = 2};
    FAILS(STILLFRAME_BAD_OPTION, "2 is not below 2", stillframe_create("a", &options, &region));
    memset(&options, 0xff, sizeof options);
    FAILS(STILLFRAME_BAD_ARGUMENT, "set the whole structure to 0", stillframe_create("a", &options, &region));
    FAILS(STILLFRAME_BAD_ARGUMENT, "not aligned",
          stillframe_create("a", (void *)((char *)&options + 1), &region));
    CHECK(region == NULL);

    region = make("arguments");
    double x = 1, *data;
    FAILS(STILLFRAME_BAD_ARGUMENT, "'float65' is no dtype", stillframe_track(region, "x", "float65", 0, NULL, &x));
    FAILS(STILLFRAME_BAD_ARGUMENT, "no JSON", stillframe_track(region, "x", "{\"fields\":3}", 0, NULL, &x));
    FAILS(STILLFRAME_BAD_ARGUMENT, "9 dimensions", stillframe_track(region, "x", "float64", 9, NULL, &x));
    FAILS(STILLFRAME_BAD_ARGUMENT, "argument shape: it is NULL", stillframe_track(region, "x", "float64", 1, NULL, &x));
    FAILS(STILLFRAME_BAD_NAME, "has a blank", stillframe_track(region, "a b", "float64", 0, NULL, &x));
    FAILS(STILLFRAME_WRONG_SHAPE, "too many",
          stillframe_array(region, "x", "float64", 2, SHAPE(SIZE_MAX, 2), (void **)&data));
    OK(stillframe_track(region, "x", "float64", 0, NULL, &x));
    FAILS(STILLFRAME_WRONG_SHAPE, "too many", stillframe_track(region, "x", "float64", 2, SHAPE(SIZE_MAX, 9), &x));
    FAILS(STILLFRAME_WRONG_DTYPE, "holds float64, not int32", stillframe_track(region, "x", "int32", 0, NULL, &x));
    FAILS(STILLFRAME_VARIABLE_EXISTS, "'x'", stillframe_array(region, "x", "float64", 0, NULL, (void **)&data));
    CHECK(data == NULL);
    OK(stillframe_array(region, "y", "float64", 0, NULL, (void **)&data));
    FAILS(STILLFRAME_WRONG_KIND, "is managed, and this call is for tracked",
          stillframe_track(region, "y", "float64", 0, NULL, &x));
    uint32_t number, other;
    OK(stillframe_find(region, "x", &number));
    OK(stillframe_find(region, "y", &other));
    void *address = &x;
    size_t bytes;
    stillframe_loan *loan;
    stillframe_kept *kept;
    FAILS(STILLFRAME_WRONG_KIND, "'x' is tracked", stillframe_data(region, number, &address, &bytes));
    CHECK(address == NULL);
    FAILS(STILLFRAME_WRONG_KIND, "'x' is tracked", stillframe_resize(region, number, 0, NULL, NULL));
    FAILS(STILLFRAME_WRONG_KIND, "'x' is tracked", stillframe_remove_keeping(region, number, &kept));
    FAILS(STILLFRAME_WRONG_KIND, "'y' is managed", stillframe_loan_begin(region, other, &loan, &address, &bytes));
    CHECK(loan == NULL && kept == NULL);
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "'number 99'; it has x, y", stillframe_data(region, 99, &address, &bytes));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "'z'; it has x, y", stillframe_remove(region, "z"));
    FAILS(STILLFRAME_BAD_ARGUMENT, "no order 5", stillframe_track_at(region, number, 0, NULL, 5, &x));
    stillframe_declaration declaration = {.name = "z", .dtype = "int8", .kind = 3};
    FAILS(STILLFRAME_BAD_ARGUMENT, "no kind 3", stillframe_declare(region, &declaration, NULL));
    declaration = (stillframe_declaration){.name = "z"};
    FAILS(STILLFRAME_BAD_ARGUMENT, "declaration.dtype: it is NULL", stillframe_declare(region, &declaration, NULL));
    stillframe_attribute attribute = {.name = "a", .type = 4};
    declaration = (stillframe_declaration){
        .name = "z", .dtype = "int8", .attribute_count = 1, .attributes = &attribute};
    FAILS(STILLFRAME_BAD_ARGUMENT, "no type 4", stillframe_declare(region, &declaration, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "declaration: it is NULL", stillframe_declare(region, NULL, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "value: it is NULL", stillframe_set_text(region, "a", NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "visitor: it is NULL", stillframe_list(NULL, NULL, NULL));
    OK(stillframe_list(NULL, never, NULL));

    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("arguments");
    stillframe_snapshot *snapshot = newest(observer);
    stillframe_variable variable;
    stillframe_attribute found;
    FAILS(STILLFRAME_BAD_ARGUMENT, "there are 2 variables, so no number 2",
          stillframe_variable_at(snapshot, 2, &variable));
    FAILS(STILLFRAME_BAD_ARGUMENT, "there are 0 attributes", stillframe_attribute_at(snapshot, "x", 0, &found));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "'q'; it has x, y", stillframe_variable_named(snapshot, "q", &variable));
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "'q'", stillframe_attribute_at(snapshot, "q", 0, &found));
    FAILS(STILLFRAME_BAD_ARGUMENT, "out: it is NULL", stillframe_read(snapshot, "x", 0, NULL, 8));
    FAILS(STILLFRAME_BAD_ARGUMENT, "info: it is NULL", stillframe_describe(snapshot, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "visitor: it is NULL", stillframe_chunks(snapshot, "x", 0, 8, NULL, NULL));
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void calls_in_the_wrong_order_fail(void) {
    stillframe_region *region = make("order");
    stillframe_declaration declaration = {
        .name = "frame", .dtype = "uint8", .kind = STILLFRAME_LOANED, .rank = 1, .shape = SHAPE(100)};
    uint32_t number;
    OK(stillframe_declare(region, &declaration, &number));
    stillframe_loan *loan;
    void *data;
    OK(stillframe_loan_begin(region, number, &loan, &data, NULL));
    memset(data, 3, 100);
    OK(stillframe_loan_submit(loan));
    FAILS(STILLFRAME_BAD_HANDLE, "this loan has ended", stillframe_loan_submit(loan));
    FAILS(STILLFRAME_BAD_HANDLE, "this loan has ended", stillframe_loan_discard(loan));
    OK(stillframe_publish(region, 5, NULL));
    FAILS(STILLFRAME_NOT_INCREASING, "version 5 does not follow version 5", stillframe_publish(region, 5, NULL));
    FAILS(STILLFRAME_NOT_INCREASING, "version 4 does not follow", stillframe_publish(region, 4, NULL));
    FAILS(STILLFRAME_BAD_OPTION, "take 18446744073709551614 at most", stillframe_publish(region, UINT64_MAX, NULL));
    FAILS(STILLFRAME_BAD_OPTION, "take 18446744073709551614 at most", stillframe_publish_start(region, UINT64_MAX, NULL, 0, 0));
    OK(stillframe_publish(region, 6, NULL));
    OK(stillframe_loan_begin(region, number, &loan, &data, NULL));
    OK(stillframe_unlink(region));
    memset(data, 4, 100);
    FAILS(STILLFRAME_BAD_HANDLE, "this region has ended", stillframe_loan_submit(loan));
    FAILS(STILLFRAME_BAD_HANDLE, "this loan has ended", stillframe_loan_discard(loan));
}

// The name is free when its region is closed, and what is written into a loan of it reaches nobody.
static void loans_end_with_their_region(void) {
    stillframe_declaration declaration = {
        .name = "frame", .dtype = "uint8", .kind = STILLFRAME_LOANED, .rank = 1, .shape = SHAPE(100)};
    stillframe_loan *late[4];
    void *memory[4];
    for (uint64_t run = 0; run < 4; ++run) {
        stillframe_region *region = make("lent");
        uint32_t number;
        OK(stillframe_declare(region, &declaration, &number));
        stillframe_loan *loan;
        void *data;
        OK(stillframe_loan_begin(region, number, &late[run], &memory[run], NULL));
        OK(stillframe_loan_begin(region, number, &loan, &data, NULL));
        memset(data, (int)run, 100);
        OK(stillframe_loan_submit(loan));
        OK(stillframe_publish(region, run, NULL));
        OK(stillframe_close(region));
        for (uint64_t before = 0; before <= run; ++before) memset(memory[before], 99, 100);
        stillframe_observer *observer = look("lent");
        stillframe_snapshot *snapshot = newest(observer);
        const void *seen;
        OK(stillframe_view(snapshot, "frame", &seen, NULL));
        for (int at = 0; at < 100; ++at) CHECK(((const unsigned char *)seen)[at] == run);
        OK(stillframe_release(snapshot));
        OK(stillframe_observer_close(observer));
    }
    for (int run = 0; run < 3; ++run) OK(stillframe_loan_discard(late[run]));
    FAILS(STILLFRAME_BAD_HANDLE, "this region has ended", stillframe_loan_submit(late[3]));
    OK(stillframe_unlink(make("lent")));
}

static int is_linux(int major, int minor) {
    struct utsname name;
    int found_major = 0, found_minor = 0;
    CHECK(uname(&name) == 0 && sscanf(name.release, "%d.%d", &found_major, &found_minor) == 2);
    return found_major > major || (found_major == major && found_minor >= minor);
}

// What publish says of memory that is not there, and that nothing is lost by it.
static void tracked_memory_that_was_freed_is_named(void) {
    stillframe_region *region = make("freed");
    const size_t bytes = 1 << 20;
    char *gone = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stays = malloc(bytes);
    CHECK(gone != MAP_FAILED);
    memset(gone, 1, bytes);
    memset(stays, 1, bytes);
    OK(stillframe_track(region, "stays", "uint8", 1, &bytes, stays));
    OK(stillframe_track(region, "gone", "uint8", 1, &bytes, gone));
    for (uint64_t version = 1; version < 5; version++)
        OK(stillframe_publish(region, version, NULL));
    stays[5000] = 2;
    munmap(gone, bytes);
    for (int attempt = 0; attempt < 3; attempt++)
        FAILS(STILLFRAME_NO_MEMORY_THERE, "variable 'gone': there is no memory at 0x",
              stillframe_publish(region, 5, NULL));
    OK(stillframe_track(region, "gone", "uint8", 0, NULL, NULL));
    OK(stillframe_publish(region, 5, NULL));
    CHECK(shows("freed", "stays", stays, bytes));
    memset(stays, 1, bytes);
    CHECK(shows("freed", "gone", stays, bytes));
    // A page in the middle, the last page, and memory that nobody may read, which Linux tells from 6.11 on.
    for (int where = 0; where < 2 + is_linux(6, 11); where++) {
        gone = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(gone, 7, bytes);
        OK(stillframe_track(region, "gone", "uint8", 1, &bytes, gone));
        if (where == 2)
            CHECK(mprotect(gone + 8192, 4096, PROT_NONE) == 0);
        else
            munmap(gone + (where ? bytes - 4096 : 8192), 4096);
        FAILS(STILLFRAME_NO_MEMORY_THERE, "gone", stillframe_publish(region, 6 + (uint64_t)where * 10, NULL));
        OK(stillframe_track(region, "gone", "uint8", 1, SHAPE(8192), gone));
        OK(stillframe_publish(region, 6 + (uint64_t)where * 10, NULL));
        CHECK(shows("freed", "gone", gone, 8192));
        munmap(gone, bytes);
    }
    // A file that is cut shorter beneath its mapping, where touching the rest is a signal.
    if (is_linux(6, 11)) {
        int file = memfd_create("cut", MFD_CLOEXEC);
        CHECK(file >= 0 && ftruncate(file, (off_t)bytes) == 0);
        gone = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(gone != MAP_FAILED);
        memset(gone, 3, bytes);
        OK(stillframe_track(region, "gone", "uint8", 1, &bytes, gone));
        OK(stillframe_publish(region, 50, NULL));
        CHECK(ftruncate(file, 8192) == 0);
        FAILS(STILLFRAME_NO_MEMORY_THERE, "gone", stillframe_publish(region, 51, NULL));
        OK(stillframe_track(region, "gone", "uint8", 1, SHAPE(8192), gone));
        OK(stillframe_publish(region, 51, NULL));
        CHECK(shows("freed", "gone", gone, 8192));
        munmap(gone, bytes);
        close(file);
    }
    // An address out of the blue.
    OK(stillframe_track(region, "gone", "uint8", 1, SHAPE(100), (void *)(uintptr_t)64));
    FAILS(STILLFRAME_NO_MEMORY_THERE, "0x40", stillframe_publish(region, 100, NULL));
    OK(stillframe_track(region, "gone", "uint8", 1, SHAPE(100), (void *)(UINTPTR_MAX - 50)));
    FAILS(STILLFRAME_NO_MEMORY_THERE, "gone", stillframe_publish(region, 100, NULL));
    OK(stillframe_unlink(region));
    free(stays);
}

static void every_status_has_a_name_and_every_text_its_end(void) {
    CHECK(strcmp(stillframe_status_name(STILLFRAME_OK), "OK") == 0);
    CHECK(strcmp(stillframe_status_name(STILLFRAME_NO_MEMORY_THERE), "NO_MEMORY_THERE") == 0);
    CHECK(strcmp(stillframe_status_name(-1), "?") == 0);
    CHECK(strlen(stillframe_library_version()) >= 5);
    // Texts that are too long are cut between two characters.
    char name[20000];
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "ü", 3);
    stillframe_region *region;
    CHECK(stillframe_create(name, NULL, &region) != STILLFRAME_OK);
    size_t length = strlen(stillframe_error_text());
    CHECK(length > 1000 && length < 2048);
}

// What the language of a caller takes for true is any byte but 0; compilers of Fortran have 1, -1, and what a program copied.
static unsigned char truth;

static unsigned char go_on_to_the_next_range(void *context, size_t offset, size_t bytes) {
    (void)offset, (void)bytes;
    ++*(int *)context;
    return truth;
}

static unsigned char go_on_to_the_next_region(void *context, const stillframe_region_info *info) {
    (void)info;
    ++*(int *)context;
    return truth;
}

static void any_byte_but_0_is_true(void) {
    typedef stillframe_status (*set_byte)(stillframe_region *, const char *, unsigned char);
    typedef stillframe_status (*remove_byte)(const char *, const char *, unsigned char, uint64_t *);
    const set_byte set = (set_byte)(void (*)(void))stillframe_set_bool;
    const remove_byte removing = (remove_byte)(void (*)(void))stillframe_remove_region;
    const unsigned char truths[] = {1, 2, 128, 254, 255};
    for (size_t i = 0; i < sizeof truths; i++) {
        truth = truths[i];
        stillframe_region *region = make("truths"), *other = make("beside");
        char *data;
        OK(stillframe_array(region, "u", "bytes1", 1, SHAPE(5 * 4096), (void **)&data));
        OK(set(region, "yes", truth));
        OK(set(region, "no", 0));
        OK(stillframe_publish(region, 1, NULL));
        stillframe_observer *observer = look("truths");
        stillframe_snapshot *older = newest(observer);
        stillframe_attribute yes, no;
        OK(stillframe_attribute_named(older, NULL, "yes", &yes));
        OK(stillframe_attribute_named(older, NULL, "no", &no));
        CHECK(yes.integer == 1 && no.integer == 0);
        data[0] = data[2 * 4096] = data[4 * 4096] = 1;
        OK(stillframe_publish(region, 2, NULL));
        stillframe_snapshot *newer = newest(observer);
        int ranges = 0, regions = 0;
        OK(stillframe_changed(newer, older, "u", (stillframe_range_visitor)(void (*)(void))go_on_to_the_next_range, &ranges));
        if (ranges != 3)
            FAIL("%d of 3 ranges for %d", ranges, truth);
        OK(stillframe_list(NULL, (stillframe_region_visitor)(void (*)(void))go_on_to_the_next_region, &regions));
        if (regions != 2)
            FAIL("%d of 2 regions for %d", regions, truth);
        OK(stillframe_release(older));
        OK(stillframe_release(newer));
        OK(stillframe_observer_close(observer));
        FAILS(STILLFRAME_IN_USE, "", removing(NULL, "beside", 0, NULL));
        OK(removing(NULL, "beside", truth, NULL));
        OK(stillframe_unlink(region));
        OK(stillframe_close(other));
    }
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(handles_that_are_none_are_told_apart),
        TEST(begin_says_why_it_gave_null),
        TEST(arguments_that_cannot_be_are_named),
        TEST(calls_in_the_wrong_order_fail),
        TEST(loans_end_with_their_region),
        TEST(tracked_memory_that_was_freed_is_named),
        TEST(any_byte_but_0_is_true),
        TEST(every_status_has_a_name_and_every_text_its_end),
    };
    return RUN_TESTS(tests);
}
