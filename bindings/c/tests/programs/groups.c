// The ranks of a parallel program, each a producer by itself, seen as one.
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

enum { RANKS = 3 };

static stillframe_region *ranks[RANKS];
static int32_t *data[RANKS];

static void begin(const char *name) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        stillframe_region_options options = {.rank = rank, .ranks = RANKS, .drift = 8};
        OK(stillframe_create(name, &options, &ranks[rank]));
        OK(stillframe_array(ranks[rank], "data", "int32", 1, SHAPE(2000), (void **)&data[rank]));
    }
}

static void publish(uint32_t rank, uint64_t version) {
    data[rank][0] = (int32_t)(version * 10 + rank);
    OK(stillframe_publish(ranks[rank], version, NULL));
}

static void end(void) {
    for (int rank = 0; rank < RANKS; rank++)
        OK(stillframe_unlink(ranks[rank]));
}

// The snapshots are of this version on all ranks.
static void check_held(stillframe_snapshot **held, uint64_t version) {
    for (int rank = 0; rank < RANKS; rank++) {
        stillframe_snapshot_info info;
        OK(stillframe_describe(held[rank], &info));
        CHECK(info.version == version);
        int32_t first;
        OK(stillframe_read(held[rank], "data", 0, &first, sizeof first));
        CHECK(first == (int32_t)(version * 10 + (uint64_t)rank));
        OK(stillframe_release(held[rank]));
    }
}

static bool find_rank_1(void *context, const stillframe_region_info *info) {
    if (strcmp(info->name, "group/1") == 0)
        *(stillframe_region_info *)context = *info;
    return true;
}

static void a_group_shows_the_newest_version_that_all_ranks_have(void) {
    begin("group");
    stillframe_group *group;
    OK(stillframe_group_open("group", NULL, &group));
    uint32_t size, count;
    OK(stillframe_group_size(group, &size));
    CHECK(size == RANKS);
    stillframe_snapshot *held[RANKS + 1];
    FAILS(STILLFRAME_RANK_MISSING, "no version yet", stillframe_group_newest(group, held, RANKS));
    CHECK(held[0] == NULL && held[2] == NULL);
    for (uint64_t version = 1; version <= 6; version++)
        publish(0, version);
    for (uint64_t version = 1; version <= 3; version++)
        publish(1, version);
    for (uint64_t version = 1; version <= 4; version++)
        publish(2, version);
    OK(stillframe_group_newest(group, held, RANKS + 1));
    check_held(held, 3);
    OK(stillframe_group_newest_after(group, 1, 0, held, RANKS));
    check_held(held, 3);
    uint64_t version;
    OK(stillframe_group_wait_newer(group, 2, 0, &version));
    CHECK(version == 3);
    FAILS(STILLFRAME_TIMEOUT, "rank 1 of 3", stillframe_group_next_after(group, 3, 20, held, RANKS));
    FAILS(STILLFRAME_VERSION_GONE, "group/", stillframe_group_version(group, 4, held, RANKS));
    FAILS(STILLFRAME_BAD_ARGUMENT, "the group has 3 ranks, and there is room for 2",
          stillframe_group_newest(group, held, 2));
    publish(1, 4);
    OK(stillframe_group_next_after(group, 3, 0, held, RANKS));
    check_held(held, 4);
    OK(stillframe_group_version(group, 4, held, RANKS));
    check_held(held, 4);
    uint64_t numbers[2];
    size_t versions;
    OK(stillframe_group_versions(group, numbers, 2, &versions));
    CHECK(versions >= 1 && numbers[versions > 1 ? 1 : 0] <= 4);
    OK(stillframe_group_versions(group, NULL, 0, &versions));
    CHECK(versions >= 1);
    bool alive = false;
    OK(stillframe_group_alive(group, &alive));
    CHECK(alive);
    stillframe_region_info info = {.rank = 99};
    OK(stillframe_list(NULL, find_rank_1, &info));
    CHECK(info.rank == 1 && info.ranks == RANKS && info.newest == 4);
    stillframe_rank infos[RANKS];
    OK(stillframe_group_ranks(group, infos, 2, &count));
    CHECK(count == RANKS && infos[0].state == STILLFRAME_RANK_LIVE && infos[0].newest == 6 && infos[0].behind == 0);
    CHECK(infos[1].rank == 1 && infos[1].has_version && infos[1].newest == 4 && infos[1].behind == 2);
    CHECK(infos[1].pid == (uint32_t)getpid());
    OK(stillframe_group_close(group));
    FAILS(STILLFRAME_BAD_HANDLE, "this group has ended", stillframe_group_size(group, &size));
    end();
}

static void regions_and_groups_are_told_apart(void) {
    begin("kinds");
    stillframe_observer *observer;
    FAILS(STILLFRAME_IS_GROUP, "'kinds' is a group of 3 ranks", stillframe_open("kinds", NULL, &observer));
    OK(stillframe_open("kinds/1", NULL, &observer));
    OK(stillframe_observer_close(observer));
    stillframe_group *group;
    FAILS(STILLFRAME_NO_REGION, "'none'", stillframe_group_open("none", NULL, &group));
    CHECK(group == NULL);
    stillframe_observer_options options = {.wait_ms = 20};
    FAILS(STILLFRAME_TIMEOUT, "none", stillframe_group_open("none", &options, &group));
    options = (stillframe_observer_options){.populate_threads = 2};
    FAILS(STILLFRAME_BAD_ARGUMENT, "populate", stillframe_group_open("kinds", &options, &group));
    stillframe_region *single = make("single");
    FAILS(STILLFRAME_NOT_GROUP, "'single' is not a group", stillframe_group_open("single", NULL, &group));
    OK(stillframe_unlink(single));
    end();
}

static void rank_that_stops(void) {
    stillframe_region *rank = stillframe_begin("dying", 1, 2);
    int32_t x = 1;
    OK(stillframe_track(rank, "x", "int32", 0, NULL, &x));
    OK(stillframe_publish(rank, 1, NULL));
    OK(stillframe_publish(rank, 2, NULL));
    pause();
}

static void a_rank_that_dies_is_named(void) {
    // Before this process has threads, whose locks the allocator of the sanitizers would leave behind in the child.
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(240);
        rank_that_stops();
        _exit(1);
    }
    stillframe_region *rank = stillframe_begin("dying", 0, 2);
    int32_t x = 0;
    OK(stillframe_track(rank, "x", "int32", 0, NULL, &x));
    for (uint64_t version = 1; version <= 4; version++)
        OK(stillframe_publish(rank, version, NULL));
    stillframe_observer_options options = {.wait_ms = 60000};
    stillframe_group *group;
    OK(stillframe_group_open("dying", &options, &group));
    uint64_t version;
    OK(stillframe_group_wait_newer(group, 1, 60000, &version));
    CHECK(version == 2);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    stillframe_snapshot *held[2];
    FAILS(STILLFRAME_RANK_GONE, "rank 1 of 2 of group 'dying' is gone",
          stillframe_group_next_after(group, 2, -1, held, 2));
    stillframe_rank infos[2];
    uint32_t count;
    OK(stillframe_group_ranks(group, infos, 2, &count));
    CHECK(infos[1].state == STILLFRAME_RANK_DEAD && infos[1].pid == (uint32_t)child && infos[1].newest == 2);
    CHECK(infos[0].state == STILLFRAME_RANK_LIVE);
    // What all have can still be held.
    OK(stillframe_group_newest(group, held, 2));
    OK(stillframe_release(held[0]));
    OK(stillframe_release(held[1]));
    OK(stillframe_group_close(group));
    OK(stillframe_unlink(rank));
    OK(stillframe_remove_region(NULL, "dying/1", false, NULL));
}

static void ranks_that_died_apart_go_on_together(void) {
    begin("again");
    for (uint64_t version = 1; version <= 5; version++)
        publish(0, version);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        for (uint64_t version = 1; version <= 3; version++)
            publish(rank, version);
    for (int rank = 0; rank < RANKS; rank++)
        OK(stillframe_close(ranks[rank]));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        stillframe_region_options options = {
            .rank = rank, .ranks = RANKS, .flags = STILLFRAME_ROLLBACK, .rollback = 3};
        OK(stillframe_create("again", &options, &ranks[rank]));
        OK(stillframe_array(ranks[rank], "data", "int32", 1, SHAPE(2000), (void **)&data[rank]));
        CHECK(data[rank][0] == (int32_t)(30 + rank));
        publish(rank, 4);
    }
    stillframe_group *group;
    OK(stillframe_group_open("again", NULL, &group));
    stillframe_snapshot *held[RANKS];
    OK(stillframe_group_newest(group, held, RANKS));
    check_held(held, 4);
    OK(stillframe_group_close(group));
    end();
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(a_group_shows_the_newest_version_that_all_ranks_have),
        TEST(regions_and_groups_are_told_apart),
        TEST(a_rank_that_dies_is_named),
        TEST(ranks_that_died_apart_go_on_together),
    };
    return RUN_TESTS(tests);
}
