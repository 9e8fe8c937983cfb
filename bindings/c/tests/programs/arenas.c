// Arenas: many regions in one file.
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MIB = 1 << 20 };

static stillframe_arena *make_arena(const char *name, uint64_t bytes) {
    stillframe_arena_options options = {.bytes = bytes, .regions = 100};
    stillframe_arena *arena;
    OK(stillframe_arena_create(name, &options, &arena));
    CHECK(arena != NULL);
    return arena;
}

static stillframe_region *make_in(stillframe_arena *arena, const char *name) {
    // No threads but this one: the allocator of the sanitizers leaves its locks as they are in a child.
    stillframe_region_options options = {.arena = arena, .rule = STILLFRAME_FAIL, .threads = 1};
    stillframe_region *region;
    OK(stillframe_create(name, &options, &region));
    return region;
}

// Removes the files of an arena, all of whose regions were removed.
static void remove_arena(const char *name) {
    static const char *const files[] = {"arena", "lease", "lease.producer", ""};
    for (int i = 0; i < 4; i++) {
        char path[4000];
        snprintf(path, sizeof path, "%s/%s/%s", getenv("STILLFRAME_DIR"), name, files[i]);
        if (remove(path) != 0)
            FAIL("%s: %s", path, strerror(errno));
    }
}

static bool count(void *context, const stillframe_arena_region *region) {
    CHECK(region->name[0] == 'r' && region->bytes > 0 && !region->removed);
    return ++*(int *)context != 2;
}

static void many_regions_are_published_observed_and_taken_over(void) {
    enum { REGIONS = 20, NUMBERS = 100 };
    stillframe_arena *arena = make_arena("pool", 1024 * MIB);
    stillframe_region *regions[REGIONS];
    int numbers[REGIONS][NUMBERS];
    char name[40];
    for (int i = 0; i < REGIONS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        regions[i] = make_in(arena, name);
        OK(stillframe_track(regions[i], "numbers", "int32", 1, SHAPE(NUMBERS), numbers[i]));
        for (uint64_t version = 1; version <= 3; version++) {
            for (int n = 0; n < NUMBERS; n++)
                numbers[i][n] = 1000 * i + n + (int)version;
            OK(stillframe_publish(regions[i], version, NULL));
        }
    }
    stillframe_arena_usage usage;
    OK(stillframe_arena_usage_of(arena, &usage));
    CHECK(usage.bytes == 1024 * MIB && usage.regions == REGIONS && usage.regions_max == 100);
    CHECK(usage.tables_bytes > 0 && usage.free_bytes > 0 && usage.tables_bytes + usage.free_bytes < usage.bytes);
    CHECK(usage.small_chunks > 0 && (uint64_t)usage.free_chunks * 2 * MIB <= usage.free_bytes);
    int calls = 0;
    OK(stillframe_arena_regions(arena, count, &calls));
    CHECK(calls == 2);
    // Regions go on when the handle of their arena has ended.
    OK(stillframe_arena_close(arena));
    FAILS(STILLFRAME_BAD_HANDLE, "this arena has ended", stillframe_arena_usage_of(arena, &usage));
    for (int i = 0; i < REGIONS; i++) {
        numbers[i][0] = -i;
        OK(stillframe_publish(regions[i], 4, NULL));
        snprintf(name, sizeof name, "pool/r%d", i);
        CHECK(shows(name, "numbers", numbers[i], sizeof numbers[i]));
        OK(stillframe_close(regions[i]));
    }
    // The next producers go on from what the last ones left.
    OK(stillframe_arena_open("pool", NULL, &arena));
    for (int i = 0; i < REGIONS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        regions[i] = make_in(arena, name);
        bool found;
        uint64_t version;
        OK(stillframe_recovered(regions[i], &found, &version));
        CHECK(found && version == 4);
    }
    stillframe_region *other;
    stillframe_region_options options = {.arena = arena};
    FAILS(STILLFRAME_IN_USE, "r3", stillframe_create("r3", &options, &other));
    for (int i = 0; i < REGIONS; i++)
        OK(stillframe_unlink(regions[i]));
    OK(stillframe_arena_usage_of(arena, &usage));
    CHECK(usage.regions == 0);
    OK(stillframe_arena_close(arena));
    remove_arena("pool");
}

static void an_arena_that_is_full_says_who_has_how_much(void) {
    enum { BYTES = 3 * MIB };
    stillframe_arena *arena = make_arena("full", 16 * MIB);
    stillframe_region *region = make_in(arena, "big");
    char *mine = malloc(BYTES);
    memset(mine, 1, BYTES);
    OK(stillframe_track(region, "mine", "uint8", 1, SHAPE(BYTES), mine));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("full/big");
    stillframe_snapshot *held[8];
    int holds = 0;
    stillframe_status status = STILLFRAME_OK;
    for (uint64_t version = 2; status == STILLFRAME_OK && holds < 8; version++) {
        held[holds++] = newest(observer);
        memset(mine, (int)version, BYTES);
        status = stillframe_publish(region, version, NULL);
    }
    const char *text = stillframe_error_text();
    if (status != STILLFRAME_ARENA_FULL || !strstr(text, "arena 'full'") || !strstr(text, "big"))
        FAIL("a full arena gives %s: %s", stillframe_status_name(status), text);
    const char *view;
    for (int i = 0; i < holds; i++) {
        OK(stillframe_view(held[i], "mine", (const void **)&view, NULL));
        CHECK(view[0] == i + 1 && view[BYTES - 1] == i + 1);
        OK(stillframe_release(held[i]));
    }
    // What was written is part of the next version.
    OK(stillframe_publish(region, 100, NULL));
    CHECK(shows("full/big", "mine", mine, BYTES));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
    free(mine);
    OK(stillframe_arena_close(arena));
    remove_arena("full");
}

static void an_arena_may_be_handed_in(void) {
    int file = memfd_create("stillframe-test", MFD_CLOEXEC);
    CHECK(file >= 0);
    stillframe_arena_options options = {.bytes = 16 * MIB};
    stillframe_arena *arena, *again;
    OK(stillframe_arena_from_descriptor(file, "vm", &options, &arena));
    // The descriptor stays the program's.
    struct stat about;
    CHECK(fstat(file, &about) == 0 && about.st_size == 16 * MIB);
    char path[60];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int read_only = open(path, O_RDONLY | O_CLOEXEC);
    OK(stillframe_arena_from_descriptor(read_only, "vm", NULL, &again));
    close(read_only);
    close(file);
    stillframe_region *region = make_in(arena, "u");
    double x = 5;
    OK(stillframe_track(region, "x", "float64", 0, NULL, &x));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_arena *const arenas[] = {arena, again};
    for (int i = 0; i < 2; i++) {
        stillframe_observer_options look = {.arena = arenas[i]};
        stillframe_observer *observer;
        OK(stillframe_open("u", &look, &observer));
        stillframe_snapshot *snapshot = newest(observer);
        double found;
        OK(stillframe_read(snapshot, "x", 0, &found, sizeof found));
        CHECK(found == 5);
        OK(stillframe_release(snapshot));
        OK(stillframe_observer_close(observer));
        FAILS(STILLFRAME_NO_REGION, "'other'", stillframe_open("other", &look, &observer));
    }
    stillframe_region_options in = {.arena = again};
    stillframe_region *other;
    FAILS(STILLFRAME_BAD_OPTION, "opened to look only", stillframe_create("other", &in, &other));
    OK(stillframe_unlink(region));
    OK(stillframe_arena_close(again));
    OK(stillframe_arena_close(arena));
}

static stillframe_arena *hand_in(const char *name) {
    int file = memfd_create("stillframe-test", MFD_CLOEXEC);
    CHECK(file >= 0);
    stillframe_arena_options options = {.bytes = 64 * MIB};
    stillframe_arena *arena;
    OK(stillframe_arena_from_descriptor(file, name, &options, &arena));
    close(file);
    return arena;
}

static void a_group_in_an_arena_that_was_handed_in_is_observed_as_one(void) {
    enum { RANKS = 2 };
    stillframe_arena *arena = hand_in("vm"), *wrong = hand_in("other");
    stillframe_region *regions[RANKS];
    double x[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        stillframe_region_options options = {.arena = arena, .rank = rank, .ranks = RANKS, .keep = 2, .threads = 1};
        OK(stillframe_create("g", &options, &regions[rank]));
        OK(stillframe_track(regions[rank], "x", "float64", 0, NULL, &x[rank]));
        // Rank 0 is a version ahead.
        for (uint64_t version = 1; version <= 3 - rank; version++) {
            x[rank] = 10 * (double)version + rank;
            OK(stillframe_publish(regions[rank], version, NULL));
        }
    }
    stillframe_observer_options look = {.arena = arena};
    stillframe_group *group;
    OK(stillframe_group_open("g", &look, &group));
    uint32_t size;
    OK(stillframe_group_size(group, &size));
    CHECK(size == RANKS);
    uint64_t versions[4];
    size_t count;
    OK(stillframe_group_versions(group, versions, 4, &count));
    CHECK(count == 2 && versions[0] == 1 && versions[1] == 2);
    stillframe_snapshot *snapshots[RANKS];
    for (uint64_t version = 1; version <= 2; version++) {
        OK(stillframe_group_version(group, version, snapshots, RANKS));
        for (int rank = 0; rank < RANKS; rank++) {
            double found;
            OK(stillframe_read(snapshots[rank], "x", 0, &found, sizeof found));
            CHECK(found == 10 * (double)version + rank);
            OK(stillframe_release(snapshots[rank]));
        }
    }
    FAILS(STILLFRAME_VERSION_GONE, "'vm/g/1'", stillframe_group_version(group, 3, snapshots, RANKS));
    FAILS(STILLFRAME_TIMEOUT, "'vm/g'", stillframe_group_next_after(group, 2, 1, snapshots, RANKS));
    OK(stillframe_group_close(group));
    // Nobody finds it by a name, nor in another arena.
    FAILS(STILLFRAME_NO_REGION, "'vm/g'", stillframe_group_open("vm/g", NULL, &group));
    look.arena = wrong;
    FAILS(STILLFRAME_NO_REGION, "'g'", stillframe_group_open("g", &look, &group));
    look.wait_ms = 1;
    FAILS(STILLFRAME_TIMEOUT, "'g'", stillframe_group_open("g", &look, &group));
    CHECK(group == NULL);
    look = (stillframe_observer_options){.arena = arena};
    FAILS(STILLFRAME_NOT_GROUP, "'g/0'", stillframe_group_open("g/0", &look, &group));
    stillframe_observer *observer;
    FAILS(STILLFRAME_IS_GROUP, "'g'", stillframe_open("g", &look, &observer));
    for (int rank = 0; rank < RANKS; rank++)
        OK(stillframe_unlink(regions[rank]));
    OK(stillframe_arena_close(wrong));
    OK(stillframe_arena_close(arena));
}

static void what_cannot_be_is_refused(void) {
    stillframe_arena *arena;
    FAILS(STILLFRAME_NO_ARENA, "there is no arena 'none'", stillframe_arena_open("none", NULL, &arena));
    CHECK(arena == NULL);
    FAILS(STILLFRAME_BAD_OPTION, "bytes", stillframe_arena_create("none", NULL, &arena));
    FAILS(STILLFRAME_BAD_ARGUMENT, "argument arena: it is NULL", stillframe_arena_open("none", NULL, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "argument name: it is NULL", stillframe_arena_open(NULL, NULL, &arena));
    FAILS(STILLFRAME_BAD_ARGUMENT, "descriptor: -1 is none", stillframe_arena_from_descriptor(-1, "a", NULL, &arena));
    FAILS(STILLFRAME_BAD_ARGUMENT, "is none: Bad file descriptor",
          stillframe_arena_from_descriptor(1 << 20, "a", NULL, &arena));
    stillframe_arena_options options = {.bytes = 16 * MIB, .flags = 64};
    FAILS(STILLFRAME_BAD_ARGUMENT, "bits 0x40 have no meaning", stillframe_arena_create("a", &options, &arena));
    options.flags = STILLFRAME_ARENA_LOOK;
    FAILS(STILLFRAME_BAD_ARGUMENT, "for stillframe_arena_open", stillframe_arena_create("a", &options, &arena));
    options.flags = 0, options.reserved[8] = 1;
    FAILS(STILLFRAME_BAD_ARGUMENT, "set the whole structure to 0", stillframe_arena_create("a", &options, &arena));
    options = (stillframe_arena_options){.bytes = 16 * MIB, .mode = 0070};
    FAILS(STILLFRAME_BAD_OPTION, "locks the owner out", stillframe_arena_create("a", &options, &arena));
    OK(stillframe_arena_close(NULL));

    arena = make_arena("once", 16 * MIB);
    stillframe_arena *again;
    options = (stillframe_arena_options){.bytes = 32 * MIB, .regions = 100};
    FAILS(STILLFRAME_BAD_OPTION, "'once' is there already", stillframe_arena_create("once", &options, &again));
    FAILS(STILLFRAME_BAD_HANDLE, "this is a handle for: arena; the call is for: region",
          stillframe_close((stillframe_region *)arena));
    stillframe_region_options in = {.arena = arena, .dir = "/dev/shm"};
    stillframe_region *region;
    FAILS(STILLFRAME_BAD_ARGUMENT, "no meaning beside options.arena", stillframe_create("r", &in, &region));
    stillframe_observer_options look = {.arena = arena, .dir = "/dev/shm"};
    stillframe_group *group;
    FAILS(STILLFRAME_BAD_ARGUMENT, "no meaning beside options.arena", stillframe_group_open("r", &look, &group));
    look = (stillframe_observer_options){.arena = arena, .populate_threads = 1};
    FAILS(STILLFRAME_BAD_ARGUMENT, "not for groups", stillframe_group_open("r", &look, &group));
    look.populate_threads = 0;
    FAILS(STILLFRAME_NO_REGION, "'r'", stillframe_group_open("r", &look, &group));
    options = (stillframe_arena_options){.flags = STILLFRAME_ARENA_LOOK};
    OK(stillframe_arena_open("once", &options, &again));
    stillframe_arena_usage usage;
    OK(stillframe_arena_usage_of(again, &usage));
    CHECK(usage.regions == 0 && usage.free_bytes > 0);
    in = (stillframe_region_options){.arena = again};
    FAILS(STILLFRAME_BAD_OPTION, "opened to look only", stillframe_create("r", &in, &region));
    OK(stillframe_arena_close(again));
    OK(stillframe_arena_close(arena));
    in.arena = arena;
    FAILS(STILLFRAME_BAD_HANDLE, "this arena has ended", stillframe_create("r", &in, &region));
    FAILS(STILLFRAME_BAD_HANDLE, "this arena has ended", stillframe_group_open("r", &look, &group));
    remove_arena("once");
}

static void *fill(void *arena) {
    char name[40];
    snprintf(name, sizeof name, "thread-%d", (int)gettid());
    for (int round = 0; round < 20; round++) {
        stillframe_region *region = make_in(arena, name);
        int number = round;
        OK(stillframe_track(region, "number", "int32", 0, NULL, &number));
        OK(stillframe_publish(region, 1, NULL));
        OK(stillframe_unlink(region));
    }
    return NULL;
}

static void threads_make_regions_in_one_arena(void) {
    stillframe_arena *arena = make_arena("threads", 1024 * MIB);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, fill, arena) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    stillframe_arena_usage usage;
    OK(stillframe_arena_usage_of(arena, &usage));
    CHECK(usage.regions == 0);
    OK(stillframe_arena_close(arena));
    remove_arena("threads");
}

static void work_in_a_child(stillframe_arena *arena, stillframe_region *region) {
    const char *words = "belongs to the process that forked this one";
    stillframe_arena_usage usage;
    FAILS(STILLFRAME_FORKED, words, stillframe_arena_usage_of(arena, &usage));
    FAILS(STILLFRAME_FORKED, words, stillframe_arena_close(arena));
    FAILS(STILLFRAME_FORKED, words, stillframe_publish(region, 9, NULL));
    stillframe_region_options in = {.arena = arena};
    stillframe_region *other;
    FAILS(STILLFRAME_FORKED, words, stillframe_create("other", &in, &other));
    // What the child opens is its own, and the parent's region is not free.
    stillframe_arena *own;
    OK(stillframe_arena_open("forked", NULL, &own));
    in.arena = own;
    FAILS(STILLFRAME_IN_USE, "parent", stillframe_create("parent", &in, &other));
    other = make_in(own, "child");
    int number = 7;
    OK(stillframe_track(other, "number", "int32", 0, NULL, &number));
    OK(stillframe_publish(other, 1, NULL));
    CHECK(shows("forked/parent", "number", &(int){1}, sizeof number));
    raise(SIGKILL);
}

static void a_child_opens_its_own_and_leaves_its_regions_whole(void) {
    stillframe_arena *arena = make_arena("forked", 16 * MIB);
    stillframe_region *region = make_in(arena, "parent");
    int number = 1;
    OK(stillframe_track(region, "number", "int32", 0, NULL, &number));
    OK(stillframe_publish(region, 1, NULL));
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(240);
        work_in_a_child(arena, region);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        FAIL("the child ended with %#x", status);
    CHECK(shows("forked/child", "number", &(int){7}, sizeof number));
    number = 2;
    OK(stillframe_publish(region, 2, NULL));
    CHECK(shows("forked/parent", "number", &number, sizeof number));
    stillframe_region *taken = make_in(arena, "child");
    bool found;
    OK(stillframe_recovered(taken, &found, NULL));
    CHECK(found);
    OK(stillframe_unlink(taken));
    OK(stillframe_unlink(region));
    OK(stillframe_arena_close(arena));
    remove_arena("forked");
}

int main(int argc, char **argv) {
    const test tests[] = {
        // First, as long as there were no threads.
        TEST(a_child_opens_its_own_and_leaves_its_regions_whole),
        TEST(many_regions_are_published_observed_and_taken_over),
        TEST(an_arena_that_is_full_says_who_has_how_much),
        TEST(an_arena_may_be_handed_in),
        TEST(a_group_in_an_arena_that_was_handed_in_is_observed_as_one),
        TEST(what_cannot_be_is_refused),
        TEST(threads_make_regions_in_one_arena),
    };
    return RUN_TESTS(tests);
}
