// The observer's side: holding versions, waiting for them, reading them, comparing them.
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static stillframe_region *region;
static int32_t *data;
enum { COUNT = 40000 };

static void begin(const char *name, uint32_t keep) {
    stillframe_region_options options = {.keep = keep};
    OK(stillframe_create(name, &options, &region));
    OK(stillframe_array(region, "data", "int32", 1, SHAPE(COUNT), (void **)&data));
}

static void publish(uint64_t version) {
    OK(stillframe_set_int(region, "step", (int64_t)version));
    OK(stillframe_publish(region, version, NULL));
}

static void a_snapshot_does_not_change_while_it_is_held(void) {
    begin("held", 1);
    data[7] = 1;
    publish(1);
    stillframe_observer *observer = look("held");
    stillframe_snapshot *old = newest(observer);
    const int32_t *view;
    size_t bytes;
    OK(stillframe_view(old, "data", (const void **)&view, &bytes));
    for (uint64_t version = 2; version < 30; version++) {
        data[7] = (int32_t)version;
        publish(version);
        CHECK(view[7] == 1 && view[8] == 0);
    }
    // An observer that ends leaves its snapshots.
    OK(stillframe_observer_close(observer));
    CHECK(view[7] == 1);
    int32_t copy[3];
    OK(stillframe_read(old, "data", 6 * sizeof *copy, copy, sizeof copy));
    CHECK(copy[0] == 0 && copy[1] == 1 && copy[2] == 0);
    // And the end of the producer does, too.
    OK(stillframe_unlink(region));
    CHECK(view[7] == 1);
    OK(stillframe_release(old));
}

static void threads_enter_what_is_viewed(void) {
    begin("entered", 1);
    data[7] = 1;
    data[COUNT - 1] = 2;
    publish(1);
    stillframe_observer *observer;
    stillframe_observer_options options = {.populate_threads = 3};
    OK(stillframe_open("entered", &options, &observer));
    stillframe_snapshot *snapshot = newest(observer);
    const int32_t *view;
    size_t bytes;
    OK(stillframe_view(snapshot, "data", (const void **)&view, &bytes));
    CHECK(bytes == COUNT * sizeof *view && view[6] == 0 && view[7] == 1 && view[COUNT - 1] == 2);
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    options.populate_threads = 1025;
    FAILS(STILLFRAME_BAD_OPTION, "1025", stillframe_open("entered", &options, &observer));
    options = (stillframe_observer_options){.reserved = {1}};
    FAILS(STILLFRAME_BAD_ARGUMENT, "reserved", stillframe_open("entered", &options, &observer));
    OK(stillframe_unlink(region));
}

static void who_is_trusted_is_said(void) {
    stillframe_region_options options = {.trust = "everybody"};
    FAILS(STILLFRAME_BAD_OPTION, "everybody", stillframe_create("trusting", &options, &region));
    options.trust = "own";
    OK(stillframe_create("trusting", &options, &region));
    stillframe_observer *observer;
    stillframe_observer_options looking = {.trust = "user:"};
    FAILS(STILLFRAME_BAD_OPTION, "user:", stillframe_open("trusting", &looking, &observer));
    looking.trust = "own";
    OK(stillframe_open("trusting", &looking, &observer));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void versions_are_found_by_their_number(void) {
    begin("numbers", 4);
    for (uint64_t version = 10; version <= 60; version += 10)
        publish(version);
    stillframe_observer *observer = look("numbers");
    stillframe_version_info infos[3];
    size_t count;
    OK(stillframe_versions(observer, NULL, 0, &count));
    CHECK(count == 4);
    OK(stillframe_versions(observer, infos, 3, &count));
    CHECK(count == 4 && infos[0].version == 30 && infos[2].version == 50 && infos[0].published_ns > 0);
    stillframe_snapshot *snapshot;
    OK(stillframe_version(observer, 40, &snapshot));
    stillframe_snapshot_info info;
    OK(stillframe_describe(snapshot, &info));
    CHECK(info.version == 40 && info.variable_count == 1 && info.published_ns > 0 && info.total_pages == 40);
    OK(stillframe_release(snapshot));
    FAILS(STILLFRAME_VERSION_GONE, "oldest 30, newest 60", stillframe_version(observer, 10, &snapshot));
    CHECK(snapshot == NULL);
    OK(stillframe_next_after(observer, -1, 0, &snapshot));
    OK(stillframe_describe(snapshot, &info));
    CHECK(info.version == 30);
    OK(stillframe_release(snapshot));
    OK(stillframe_next_after(observer, 40, 0, &snapshot));
    OK(stillframe_describe(snapshot, &info));
    CHECK(info.version == 50);
    OK(stillframe_release(snapshot));
    OK(stillframe_newest_after(observer, 40, 0, &snapshot));
    OK(stillframe_describe(snapshot, &info));
    CHECK(info.version == 60);
    OK(stillframe_release(snapshot));
    uint64_t version;
    OK(stillframe_wait_newer(observer, 59, 0, &version));
    CHECK(version == 60);
    FAILS(STILLFRAME_TIMEOUT, "waited", stillframe_wait_newer(observer, 60, 20, &version));
    FAILS(STILLFRAME_TIMEOUT, "the next version", stillframe_next_after(observer, 60, 20, &snapshot));
    FAILS(STILLFRAME_TIMEOUT, "a newer version", stillframe_newest_after(observer, 60, 0, &snapshot));
    bool alive = false;
    OK(stillframe_producer_alive(observer, &alive));
    CHECK(alive);
    OK(stillframe_close(region));
    OK(stillframe_producer_alive(observer, &alive));
    CHECK(!alive);
    FAILS(STILLFRAME_PRODUCER_GONE, "numbers", stillframe_next_after(observer, 60, -1, &snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_remove_region(NULL, "numbers", false, NULL));
}

static void *publish_later(void *unused) {
    (void)unused;
    usleep(50000);
    publish(1);
    return NULL;
}

static void an_observer_waits_for_a_region_and_its_first_version(void) {
    stillframe_observer *observer;
    FAILS(STILLFRAME_NO_REGION, "'later'", stillframe_open("later", NULL, &observer));
    CHECK(observer == NULL);
    stillframe_observer_options options = {.wait_ms = 20};
    FAILS(STILLFRAME_TIMEOUT, "to appear", stillframe_open("later", &options, &observer));
    begin("later", 1);
    OK(stillframe_open("later", NULL, &observer));
    stillframe_snapshot *snapshot;
    FAILS(STILLFRAME_NO_VERSION, "later", stillframe_newest(observer, &snapshot));
    OK(stillframe_observer_close(observer));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, publish_later, NULL) == 0);
    options.wait_ms = 60000;
    OK(stillframe_open("later", &options, &observer));
    OK(stillframe_release(newest(observer)));
    pthread_join(thread, NULL);
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

typedef struct {
    size_t next, calls, bytes, stop_after;
    unsigned char *copy;
} walk;

static bool copy_chunk(void *context, size_t offset, const void *chunk, size_t bytes) {
    walk *walk = context;
    CHECK(offset == walk->next && bytes > 0);
    memcpy(walk->copy + walk->bytes, chunk, bytes);
    walk->next = offset + bytes;
    walk->bytes += bytes;
    return ++walk->calls != walk->stop_after;
}

static bool note_range(void *context, size_t offset, size_t bytes) {
    walk *walk = context;
    CHECK(offset >= walk->next);
    walk->next = offset + bytes;
    walk->bytes += bytes;
    walk->calls++;
    return walk->calls != walk->stop_after;
}

static void pieces_and_changes_are_walked_over(void) {
    begin("pieces", 2);
    for (int i = 0; i < COUNT; i++)
        data[i] = i;
    publish(1);
    for (int i = 0; i < COUNT; i += 4096)
        data[i] = -1;
    publish(2);
    stillframe_observer *observer = look("pieces");
    stillframe_snapshot *old, *new = newest(observer);
    OK(stillframe_version(observer, 1, &old));
    static unsigned char copy[COUNT * sizeof *data];
    walk walk = {.copy = copy};
    OK(stillframe_chunks(new, "data", 0, sizeof copy, copy_chunk, &walk));
    CHECK(walk.bytes == sizeof copy && memcmp(copy, data, sizeof copy) == 0 && walk.calls > 1);
    walk.next = 5001, walk.bytes = 0, walk.calls = 0;
    OK(stillframe_chunks(new, "data", 5001, 20000, copy_chunk, &walk));
    CHECK(walk.bytes == 20000 && memcmp(copy, (char *)data + 5001, 20000) == 0);
    walk.next = 0, walk.calls = 0, walk.bytes = 0, walk.stop_after = 2;
    OK(stillframe_chunks(new, "data", 0, sizeof copy, copy_chunk, &walk));
    CHECK(walk.calls == 2);
    FAILS(STILLFRAME_OUT_OF_RANGE, "160000", stillframe_chunks(new, "data", 1, sizeof copy, copy_chunk, &walk));
    FAILS(STILLFRAME_OUT_OF_RANGE, "160000", stillframe_read(new, "data", SIZE_MAX, copy, 2));
    walk.next = 0, walk.calls = 0, walk.bytes = 0, walk.stop_after = 0;
    OK(stillframe_changed(new, old, "data", note_range, &walk));
    // One page in four.
    CHECK(walk.calls == 10 && walk.bytes == 10 * 4096);
    walk.next = 0, walk.calls = 0, walk.bytes = 0;
    OK(stillframe_changed(new, new, "data", note_range, &walk));
    CHECK(walk.calls == 0);
    const void *seen;
    OK(stillframe_view(old, "data", &seen, NULL));
    FAILS(STILLFRAME_BAD_ARGUMENT, "the same snapshot", stillframe_advance(old, old));
    for (int version = 3; version < 20; version++) {
        OK(stillframe_advance(old, new));
        FAILS(STILLFRAME_BAD_HANDLE, "", stillframe_release(old));
        OK(stillframe_view(new, "data", &seen, NULL));
        CHECK(memcmp(seen, data, sizeof copy) == 0);
        for (size_t at = (size_t)version; at < COUNT; at += 5000)
            data[at]++;
        OK(stillframe_publish(region, version, NULL));
        old = new;
        OK(stillframe_newest(observer, &new));
    }
    OK(stillframe_release(old));
    OK(stillframe_release(new));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static bool use_the_snapshot(void *context, size_t offset, const void *chunk, size_t bytes) {
    stillframe_snapshot *snapshot = *(stillframe_snapshot **)context;
    unsigned char byte;
    OK(stillframe_read(snapshot, "data", offset, &byte, 1));
    OK(stillframe_publish(region, 2, NULL));
    // The hold lasts until the walk is over.
    OK(stillframe_release(snapshot));
    CHECK(byte == *(const unsigned char *)chunk && bytes > 0);
    return false;
}

static void a_visitor_may_use_what_it_visits(void) {
    begin("visitor", 1);
    data[0] = 77;
    publish(1);
    stillframe_observer *observer = look("visitor");
    stillframe_snapshot *snapshot = newest(observer);
    OK(stillframe_chunks(snapshot, "data", 0, 4, use_the_snapshot, &snapshot));
    FAILS(STILLFRAME_BAD_HANDLE, "has ended", stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void variables_without_bytes_have_an_address_all_the_same(void) {
    region = make("nothing");
    OK(stillframe_track(region, "empty", "float64", 2, SHAPE(0, 5), &region));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("nothing");
    stillframe_snapshot *snapshot = newest(observer);
    const void *view;
    size_t bytes;
    OK(stillframe_view(snapshot, "empty", &view, &bytes));
    CHECK(view != NULL && bytes == 0);
    OK(stillframe_read(snapshot, "empty", 0, NULL, 0));
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void a_polite_observer_takes_what_others_leave(void) {
    stillframe_region *region = make("polite");
    double *u = calloc(1000, sizeof *u);
    OK(stillframe_track(region, "u", "float64", 1, SHAPE(1000), u));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_polite polite = {.share = 2};
    stillframe_observer_options options = {.polite = &polite};
    stillframe_observer *observer = NULL;
    FAILS(STILLFRAME_BAD_OPTION, "share", stillframe_open("polite", &options, &observer));
    polite = (stillframe_polite){.processors = "one"};
    FAILS(STILLFRAME_BAD_OPTION, "'one'", stillframe_open("polite", &options, &observer));
    polite = (stillframe_polite){.reserved = {1}};
    FAILS(STILLFRAME_BAD_ARGUMENT, "reserved", stillframe_open("polite", &options, &observer));
    // A process that is polite stays so.
    pid_t child = fork();
    if (child == 0) {
        polite = (stillframe_polite){.share = 0.1, .bytes_per_s = 1 << 30, .processors = "0-1023"};
        stillframe_snapshot *snapshot = NULL;
        int seen = !stillframe_open("polite", &options, &observer) && !stillframe_newest(observer, &snapshot)
            && sched_getscheduler(0) == SCHED_IDLE;
        // What it has from its parent is not to be looked for.
        if (seen)
            raise(SIGKILL);
        _exit(1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    free(u);
    OK(stillframe_unlink(region));
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(a_snapshot_does_not_change_while_it_is_held),
        TEST(threads_enter_what_is_viewed),
        TEST(who_is_trusted_is_said),
        TEST(versions_are_found_by_their_number),
        TEST(an_observer_waits_for_a_region_and_its_first_version),
        TEST(pieces_and_changes_are_walked_over),
        TEST(a_visitor_may_use_what_it_visits),
        TEST(variables_without_bytes_have_an_address_all_the_same),
        TEST(a_polite_observer_takes_what_others_leave),
    };
    return RUN_TESTS(tests);
}
