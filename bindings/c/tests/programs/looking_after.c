// Looking after regions: listing, holders, damage, removal; and a file system that is full.
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

typedef struct {
    const char *wanted;
    stillframe_region_info info;
    int calls, stop_after;
    char problem[400];
} search;

static bool find(void *context, const stillframe_region_info *info) {
    search *search = context;
    if (strcmp(info->name, search->wanted) == 0) {
        search->info = *info;
        snprintf(search->problem, sizeof search->problem, "%s", info->problem);
    }
    return ++search->calls != search->stop_after;
}

static void regions_are_listed_and_removed(void) {
    stillframe_region_options options = {.keep = 3, .bound_bytes = 64 << 20};
    stillframe_region *region;
    OK(stillframe_create("list/a", &options, &region));
    double x = 1;
    OK(stillframe_track(region, "x", "float64", 0, NULL, &x));
    OK(stillframe_publish(region, 3, NULL));
    stillframe_region *other = make("list/b");
    search search = {.wanted = "list/a"};
    OK(stillframe_list(NULL, find, &search));
    CHECK(search.calls == 2 && search.info.state == STILLFRAME_LIVE && search.info.pid == (uint32_t)getpid());
    CHECK(search.info.has_version && search.info.newest == 3 && search.info.keep == 3 && search.info.published == 1);
    CHECK(search.info.bound_bytes == 64 << 20 && search.info.allocated_bytes > 0 && search.problem[0] == 0);
    CHECK(search.info.ranks == 0 && search.info.created_ns > 0);
    search.calls = 0, search.stop_after = 1;
    OK(stillframe_list(NULL, find, &search));
    CHECK(search.calls == 1);
    uint64_t freed = 0;
    FAILS(STILLFRAME_IN_USE, "list/a", stillframe_remove_region(NULL, "list/a", false, &freed));
    OK(stillframe_close(region));
    OK(stillframe_list(NULL, find, &search));
    CHECK(search.info.state == STILLFRAME_DEAD);
    OK(stillframe_remove_region(NULL, "list/a", false, &freed));
    CHECK(freed > 0);
    FAILS(STILLFRAME_NO_REGION, "list/a", stillframe_remove_region(NULL, "list/a", false, NULL));
    OK(stillframe_remove_region(NULL, "list/b", true, NULL));
    OK(stillframe_close(other));
    search.calls = search.stop_after = 0;
    OK(stillframe_list("/nowhere/at/all", find, &search));
    CHECK(search.calls == 0);
}

static void what_nobody_needs_is_collected(void) {
    stillframe_region *dead = make("dead"), *held = make("held"), *alive = make("alive");
    OK(stillframe_publish(held, 1, NULL));
    stillframe_observer *observer = look("held");
    stillframe_snapshot *snapshot = newest(observer);
    OK(stillframe_close(dead));
    OK(stillframe_close(held));
    uint32_t removed;
    OK(stillframe_collect(NULL, &removed));
    CHECK(removed == 1);
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(alive));
    OK(stillframe_collect(NULL, &removed));
    CHECK(removed == 1);
    OK(stillframe_collect(NULL, NULL));
}

static bool find_self(void *context, const stillframe_holder *holder) {
    if (holder->pid == getpid() && !holder->enclave && holder->has_version && holder->version == 4 && holder->command[0])
        ++*(int *)context;
    return true;
}

static bool count_lines(void *context, const char *line) {
    CHECK(line[0] != 0);
    ++*(int *)context;
    return true;
}

static bool first_line(void *context, const char *line) {
    snprintf(context, 400, "%s", line);
    return false;
}

static void holders_damage_and_limits_are_told(void) {
    stillframe_region *region = make("told");
    OK(stillframe_publish(region, 4, NULL));
    stillframe_observer *observer = look("told");
    stillframe_snapshot *snapshot = newest(observer), *again = newest(observer);
    int holds = 0, lines = 0;
    OK(stillframe_holders(NULL, "told", find_self, &holds));
    CHECK(holds >= 1);
    OK(stillframe_release(again));
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_verify(NULL, "told", count_lines, &lines));
    CHECK(lines == 0);
    OK(stillframe_diagnose(NULL, count_lines, &lines));
    CHECK(lines > 6);
    char line[400] = "";
    OK(stillframe_diagnose(NULL, first_line, line));
    CHECK(strncmp(line, "kernel: Linux ", 14) == 0);
    FAILS(STILLFRAME_NO_REGION, "'nobody'", stillframe_holders(NULL, "nobody", find_self, &holds));
    OK(stillframe_close(region));
    // A head that is too short is damage, for all who come.
    char path[4000];
    snprintf(path, sizeof path, "%s/told/head", getenv("STILLFRAME_DIR"));
    CHECK(truncate(path, 100) == 0);
    OK(stillframe_verify(NULL, "told", first_line, line));
    CHECK(strstr(line, "head at byte 100"));
    FAILS(STILLFRAME_CORRUPT, "head at byte 100", stillframe_open("told", NULL, &observer));
    FAILS(STILLFRAME_CORRUPT, "the region is damaged", stillframe_create("told", NULL, &region));
    search search = {.wanted = "told"};
    OK(stillframe_list(NULL, find, &search));
    CHECK(search.info.state == STILLFRAME_UNREADABLE && strstr(search.problem, "head at byte 100"));
    OK(stillframe_remove_region(NULL, "told", false, NULL));
}

// Needs a file system of its own, and so the right to mount one.
static void a_full_directory_is_an_error_and_no_signal(void) {
    char dir[4000];
    snprintf(dir, sizeof dir, "%s/full", getenv("STILLFRAME_DIR"));
    CHECK(mkdir(dir, 0700) == 0);
    if (mount("stillframe-test", dir, "tmpfs", 0, "size=4m") != 0) {
        printf("  left out: mounting is not allowed here\n");
        rmdir(dir);
        return;
    }
    stillframe_region_options options = {.dir = dir, .rule = STILLFRAME_FAIL};
    stillframe_region *region;
    stillframe_status status = stillframe_create("r", &options, &region);
    if (status != STILLFRAME_OK)
        umount2(dir, MNT_DETACH);
    OK(status);
    enum { BYTES = 3 << 20 };
    char *mine = malloc(BYTES);
    memset(mine, 1, BYTES);
    OK(stillframe_track(region, "mine", "uint8", 1, SHAPE(BYTES), mine));
    status = stillframe_publish(region, 1, NULL);
    stillframe_observer_options look = {.dir = dir};
    stillframe_observer *observer;
    stillframe_snapshot *snapshot;
    if (status == STILLFRAME_OK) {
        OK(stillframe_open("r", &look, &observer));
        OK(stillframe_newest(observer, &snapshot));
        memset(mine, 2, BYTES);
        FAILS(STILLFRAME_NO_SPACE, "bytes free and this needs", stillframe_publish(region, 2, NULL));
        const char *view;
        OK(stillframe_view(snapshot, "mine", (const void **)&view, NULL));
        CHECK(view[0] == 1 && view[BYTES - 1] == 1);
        OK(stillframe_release(snapshot));
        // Fewer pages have room, and nothing that was written is forgotten.
        OK(stillframe_track(region, "mine", "uint8", 1, SHAPE(4096), mine));
        OK(stillframe_publish(region, 2, NULL));
        OK(stillframe_newest(observer, &snapshot));
        OK(stillframe_view(snapshot, "mine", (const void **)&view, NULL));
        CHECK(view[0] == 2 && view[4095] == 2);
        OK(stillframe_release(snapshot));
        OK(stillframe_observer_close(observer));
    }
    stillframe_region *second;
    for (int i = 0; i < 2000 && status == STILLFRAME_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "more-%d", i);
        status = stillframe_create(name, &options, &second);
        if (status == STILLFRAME_OK)
            OK(stillframe_close(second));
    }
    char text[3000];
    snprintf(text, sizeof text, "%s", stillframe_error_text());
    OK(stillframe_unlink(region));
    free(mine);
    umount2(dir, MNT_DETACH);
    rmdir(dir);
    if (status != STILLFRAME_NO_SPACE)
        FAIL("a full directory gives %s: %s", stillframe_status_name(status), text);
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(regions_are_listed_and_removed),
        TEST(what_nobody_needs_is_collected),
        TEST(holders_damage_and_limits_are_told),
        TEST(a_full_directory_is_an_error_and_no_signal),
    };
    return RUN_TESTS(tests);
}
