// A variable that is followed and one that is given once: what each version shows. The same scene is in the tests of the other
// languages.
#include "check.h"

enum { FOLLOWED = 3000, GIVEN = 5000 };

static double a[FOLLOWED], b[GIVEN];
static stillframe_region *region;
static uint32_t u;
static uint64_t version;

static void begin(const char *name) {
    region = make(name);
    stillframe_declaration declaration = {.name = "u", .dtype = "float64", .kind = STILLFRAME_TRACKED};
    OK(stillframe_declare(region, &declaration, &u));
    version = 0;
}

static void fill(double *array, size_t count, double value) {
    for (size_t i = 0; i < count; i++)
        array[i] = value;
}

static void publish(void) { OK(stillframe_publish(region, ++version, NULL)); }

static stillframe_given array_b(size_t *count) {
    return (stillframe_given){.data = b, .shape = count, .variable = u, .rank = 1};
}

static void publish_with_b(size_t count) {
    stillframe_given given = array_b(&count);
    stillframe_published published;
    OK(stillframe_publish_with(region, ++version, &given, 1, &published));
    CHECK(published.version == version && !published.skipped);
}

// Whether u has this many elements in the newest version, all of this value.
static int has(const char *name, double value, size_t count) {
    double wanted[GIVEN];
    fill(wanted, count, value);
    return shows(name, "u", wanted, count * sizeof *wanted);
}

static void what_is_given_once_is_shown_once_and_what_is_followed_again(void) {
    begin("given-beside-followed");
    fill(a, FOLLOWED, 1);
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(FOLLOWED), a));
    publish();
    CHECK(has("given-beside-followed", 1, FOLLOWED));
    fill(b, GIVEN, 20);
    fill(a, FOLLOWED, 2);
    publish_with_b(GIVEN);
    CHECK(has("given-beside-followed", 20, GIVEN));
    fill(b, GIVEN, 21);
    fill(a, FOLLOWED, 3);
    publish();
    CHECK(has("given-beside-followed", 3, FOLLOWED));
    fill(a, FOLLOWED, 4);
    size_t count = GIVEN;
    stillframe_given given = array_b(&count);
    FAILS(STILLFRAME_NOT_INCREASING, "version", stillframe_publish_with(region, version, &given, 1, NULL));
    CHECK(has("given-beside-followed", 3, FOLLOWED));
    publish();
    CHECK(has("given-beside-followed", 4, FOLLOWED));
    fill(a, FOLLOWED, 5);
    publish_with_b(0);
    CHECK(has("given-beside-followed", 0, 0));
    publish();
    CHECK(has("given-beside-followed", 5, FOLLOWED));
    OK(stillframe_track(region, "u", "float64", 0, NULL, NULL));
    fill(a, FOLLOWED, 6);
    publish();
    CHECK(has("given-beside-followed", 5, FOLLOWED));
    fill(b, GIVEN, 22);
    publish_with_b(GIVEN);
    CHECK(has("given-beside-followed", 22, GIVEN));
    fill(b, GIVEN, 23);
    publish();
    CHECK(has("given-beside-followed", 22, GIVEN));
    OK(stillframe_unlink(region));
}

static void what_was_given_once_can_be_followed_later(void) {
    begin("given-first");
    fill(b, GIVEN, 20);
    publish_with_b(GIVEN);
    CHECK(has("given-first", 20, GIVEN));
    fill(b, GIVEN, 21);
    publish();
    CHECK(has("given-first", 20, GIVEN));
    fill(a, FOLLOWED, 1);
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(FOLLOWED), a));
    publish();
    CHECK(has("given-first", 1, FOLLOWED));
    fill(a, FOLLOWED, 2);
    publish();
    CHECK(has("given-first", 2, FOLLOWED));
    OK(stillframe_unlink(region));
}

// Memory that was given is the program's again after the call, to be freed as well.
static void nobody_looks_at_what_was_given_after_the_call(void) {
    begin("given-freed");
    for (int round = 0; round < 6; round++) {
        size_t count = 100000 + 1000 * (size_t)round;
        double *once = malloc(count * sizeof *once), *wanted = malloc(count * sizeof *wanted);
        fill(once, count, round);
        fill(wanted, count, round);
        stillframe_given given = {.data = once, .shape = &count, .variable = u, .rank = 1};
        if (round % 2)
            FAILS(STILLFRAME_NOT_INCREASING, "version", stillframe_publish_with(region, version, &given, 1, NULL));
        else
            OK(stillframe_publish_with(region, ++version, &given, 1, NULL));
        free(once);
        publish();
        if (round % 2 == 0)
            CHECK(shows("given-freed", "u", wanted, count * sizeof *wanted));
        free(wanted);
    }
    OK(stillframe_unlink(region));
}

static void a_part_that_was_asked_for_is_of_what_is_followed(void) {
    begin("given-beside-part");
    fill(a, FOLLOWED, 1);
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(FOLLOWED), a));
    publish();
    OK(stillframe_track_part(region, u, 0, 8, NULL));
    fill(b, GIVEN, 20);
    publish_with_b(GIVEN);
    CHECK(has("given-beside-part", 20, GIVEN));
    fill(a, FOLLOWED, 2);
    publish();
    CHECK(has("given-beside-part", 2, FOLLOWED));
    OK(stillframe_unlink(region));
}

// malloc(0) may give NULL: what an array without elements shows is not a matter of its address.
static void an_array_without_elements_takes_the_place_of_the_former_one(void) {
    begin("given-empty");
    size_t none = 0, no_rows[] = {0, 7};
    stillframe_given given = array_b(&none);
    given.data = NULL;
    for (int way = 0; way < 4; way++) {
        fill(a, FOLLOWED, way);
        OK(stillframe_track(region, "u", "float64", 1, SHAPE(FOLLOWED), a));
        publish();
        CHECK(has("given-empty", way, FOLLOWED));
        if (way == 0)
            OK(stillframe_track(region, "u", "float64", 1, &none, NULL));
        else if (way == 1)
            OK(stillframe_track_at(region, u, 2, no_rows, STILLFRAME_FORTRAN, NULL));
        for (int strides = 0; way == 2 && strides < 2; strides++)
            OK(stillframe_track_section(region, u, 2, no_rows, strides ? (ptrdiff_t[]){56, 8} : NULL, NULL, STILLFRAME_C, NULL));
        OK(stillframe_publish_with(region, ++version, &given, way == 3, NULL));
        CHECK(has("given-empty", 0, 0));
        if (way < 3)
            publish();
        CHECK(has("given-empty", 0, 0));
    }
    publish();
    CHECK(has("given-empty", 3, FOLLOWED));
    // Without such an extent it is no array, and the last content stays.
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(FOLLOWED), NULL));
    fill(a, FOLLOWED, 4);
    publish();
    CHECK(has("given-empty", 3, FOLLOWED));
    OK(stillframe_unlink(region));
}

static void what_cannot_be_given_is_refused_and_nothing_is_published(void) {
    begin("given-wrong");
    fill(a, FOLLOWED, 1);
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(FOLLOWED), a));
    publish();
    void *data;
    OK(stillframe_array(region, "managed", "float64", 1, SHAPE(3), &data));
    uint32_t managed;
    OK(stillframe_find(region, "managed", &managed));
    size_t count = GIVEN, counts[] = {SIZE_MAX / 2, 2};
    stillframe_given twice[] = {array_b(&count), array_b(&count)}, given = array_b(&count);
    FAILS(STILLFRAME_WRONG_SHAPE, "'u': it was given twice", stillframe_publish_with(region, 2, twice, 2, NULL));
    given.variable = managed;
    FAILS(STILLFRAME_WRONG_KIND, "'managed'", stillframe_publish_with(region, 2, &given, 1, NULL));
    given.variable = 77;
    FAILS(STILLFRAME_UNKNOWN_VARIABLE, "number 77", stillframe_publish_with(region, 2, &given, 1, NULL));
    given = array_b(&count);
    given.data = NULL;
    FAILS(STILLFRAME_BAD_ARGUMENT, "'u' is NULL", stillframe_publish_with(region, 2, &given, 1, NULL));
    given = array_b(counts);
    given.rank = 2;
    FAILS(STILLFRAME_WRONG_SHAPE, "'u'", stillframe_publish_with(region, 2, &given, 1, NULL));
    given.rank = 9;
    FAILS(STILLFRAME_BAD_ARGUMENT, "9 dimensions", stillframe_publish_with(region, 2, &given, 1, NULL));
    given = array_b(&count);
    given.order = 7;
    FAILS(STILLFRAME_BAD_ARGUMENT, "order 7", stillframe_publish_with(region, 2, &given, 1, NULL));
    given = array_b(&count);
    given.reserved = 1;
    FAILS(STILLFRAME_BAD_ARGUMENT, "reserved", stillframe_publish_with(region, 2, &given, 1, NULL));
    given = array_b(NULL);
    FAILS(STILLFRAME_BAD_ARGUMENT, "shape", stillframe_publish_with(region, 2, &given, 1, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "given", stillframe_publish_with(region, 2, NULL, 1, NULL));
    CHECK(has("given-wrong", 1, FOLLOWED));
    OK(stillframe_publish_with(region, 2, NULL, 0, NULL));
    CHECK(has("given-wrong", 1, FOLLOWED));
    OK(stillframe_unlink(region));
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(what_is_given_once_is_shown_once_and_what_is_followed_again),
        TEST(what_was_given_once_can_be_followed_later),
        TEST(nobody_looks_at_what_was_given_after_the_call),
        TEST(a_part_that_was_asked_for_is_of_what_is_followed),
        TEST(an_array_without_elements_takes_the_place_of_the_former_one),
        TEST(what_cannot_be_given_is_refused_and_nothing_is_published),
    };
    return RUN_TESTS(tests);
}
