// fork, signals, and the ends of processes.
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static stillframe_region *region;

// Runs work in a child. One that is done kills itself: at an orderly end leak checkers miss what belonged to threads that a
// child does not have.
static void in_child(void (*work)(void)) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(240);
        work();
        fflush(NULL);
        raise(SIGKILL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        FAIL("the child ended with %#x", status);
}

static double *data;
static stillframe_observer *observer;
static stillframe_snapshot *snapshot;
static stillframe_loan *loan;
static stillframe_kept *kept;

static void use_all_handles(void) {
    const char *words = "belongs to the process that forked this one";
    FAILS(STILLFRAME_FORKED, words, stillframe_publish(region, 9, NULL));
    FAILS(STILLFRAME_FORKED, words, stillframe_track(region, "x", "float64", 0, NULL, data));
    FAILS(STILLFRAME_FORKED, words, stillframe_newest(observer, &(stillframe_snapshot *){NULL}));
    const void *view;
    FAILS(STILLFRAME_FORKED, words, stillframe_view(snapshot, "data", &view, NULL));
    FAILS(STILLFRAME_FORKED, words, stillframe_release(snapshot));
    FAILS(STILLFRAME_FORKED, words, stillframe_observer_close(observer));
    FAILS(STILLFRAME_FORKED, words, stillframe_loan_submit(loan));
    FAILS(STILLFRAME_FORKED, words, stillframe_kept_free(kept));
    FAILS(STILLFRAME_FORKED, words, stillframe_unlink(region));
    FAILS(STILLFRAME_FORKED, words, stillframe_close(region));
    FAILS(STILLFRAME_BAD_HANDLE, "NULL", stillframe_publish(NULL, 9, NULL));
    // The memory of the parent's variables is a copy here, and what it writes stays here.
    CHECK(data[0] == 1);
    data[0] = 100;
    // What the child opens is its own.
    stillframe_observer *mine = look("forked");
    OK(stillframe_release(newest(mine)));
    OK(stillframe_observer_close(mine));
    stillframe_region *own = make("child");
    OK(stillframe_publish(own, 1, NULL));
    OK(stillframe_unlink(own));
}

static void handles_of_the_parent_are_refused_in_a_child(void) {
    // No threads but this one: the allocator of the sanitizers leaves its locks as they are in a child.
    stillframe_region_options options = {.threads = 1};
    OK(stillframe_create("forked", &options, &region));
    OK(stillframe_array(region, "data", "float64", 1, SHAPE(10000), (void **)&data));
    stillframe_declaration declaration = {
        .name = "frame", .dtype = "uint8", .kind = STILLFRAME_LOANED, .rank = 1, .shape = SHAPE(100)};
    uint32_t number, other;
    OK(stillframe_declare(region, &declaration, &number));
    void *address;
    OK(stillframe_array(region, "other", "uint8", 0, NULL, &address));
    OK(stillframe_find(region, "other", &other));
    OK(stillframe_remove_keeping(region, other, &kept));
    data[0] = 1;
    OK(stillframe_publish(region, 1, NULL));
    OK(stillframe_loan_begin(region, number, &loan, &address, NULL));
    observer = look("forked");
    snapshot = newest(observer);
    in_child(use_all_handles);
    // The parent did not notice.
    const double *view;
    OK(stillframe_view(snapshot, "data", (const void **)&view, NULL));
    CHECK(view[0] == 1 && data[0] == 1);
    memset(address, 5, 100);
    OK(stillframe_loan_submit(loan));
    data[0] = 2;
    OK(stillframe_publish(region, 2, NULL));
    CHECK(shows("forked", "data", data, 80000));
    CHECK(shows("forked", "frame", address, 100));
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    OK(stillframe_kept_free(kept));
    OK(stillframe_unlink(region));
}

// The sanitizers' own locks would be left behind: see above.
#ifndef __SANITIZE_ADDRESS__
static volatile sig_atomic_t stop;

static void *keep_publishing(void *unused) {
    (void)unused;
    for (uint64_t version = 1; !stop; version++)
        OK(stillframe_publish(region, version, NULL));
    return NULL;
}

static void use_the_region(void) {
    FAILS(STILLFRAME_FORKED, "forked", stillframe_publish(region, 1u << 30, NULL));
    stillframe_region *own = make("child");
    OK(stillframe_publish(own, 1, NULL));
    OK(stillframe_unlink(own));
}

static void a_fork_while_another_thread_publishes_leaves_no_lock_behind(void) {
    region = make("busy");
    OK(stillframe_array(region, "data", "float64", 1, SHAPE(1000), (void **)&data));
    stop = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, keep_publishing, NULL) == 0);
    for (int round = 0; round < 30; round++)
        in_child(use_the_region);
    stop = 1;
    pthread_join(thread, NULL);
    OK(stillframe_unlink(region));
}

static void live_once(const char *name) {
    stillframe_region *own = make(name);
    OK(stillframe_publish(own, 1, NULL));
    stillframe_observer *mine = look(name);
    OK(stillframe_release(newest(mine)));
    OK(stillframe_observer_close(mine));
    OK(stillframe_unlink(own));
}

static void *keep_living(void *name) {
    while (!stop)
        live_once(name);
    return NULL;
}

static void live_in_a_child(void) { live_once("child"); }

static void a_fork_while_other_threads_make_and_look_at_regions_leaves_no_lock_behind(void) {
    stop = 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, keep_living, i ? "one" : "other") == 0);
    for (int round = 0; round < 30; round++)
        in_child(live_in_a_child);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
#endif

static volatile sig_atomic_t busy, refused, other;

// A program should not do this; it must not hang for it. What the handler allocates meets no allocation that it interrupted
// here: the program does nothing outside of publish, and there the handler is sent away before it allocates.
static void publish_nothing(int signal) {
    (void)signal;
    switch (stillframe_publish(region, 0, NULL)) {
    case STILLFRAME_BUSY: busy++; break;
    case STILLFRAME_NOT_INCREASING: refused++; break;
    default: other++;
    }
}

// Runs inside a call that has nothing to do with the region.
static bool raise_a_signal(void *context, const stillframe_region_info *info) {
    (void)context, (void)info;
    raise(SIGUSR1);
    return false;
}

static void a_signal_handler_that_interrupts_a_publish_finds_the_region_busy(void) {
    stillframe_region_options options = {.bound_bytes = 500 << 10, .rule = STILLFRAME_WAIT, .wait_ms = 400};
    OK(stillframe_create("signals", &options, &region));
    char *bytes;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(200 << 10), (void **)&bytes));
    memset(bytes, 1, 200 << 10);
    OK(stillframe_publish(region, 1, NULL));
    observer = look("signals");
    snapshot = newest(observer);
    memset(bytes, 2, 200 << 10);
    OK(stillframe_publish(region, 2, NULL));
    memset(bytes, 3, 200 << 10);
    busy = refused = other = 0;
    struct sigaction action = {.sa_handler = publish_nothing}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {.it_interval = {.tv_usec = 50000}, .it_value = {.tv_usec = 50000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    // It waits for room, which nobody makes, until it is interrupted.
    while (busy < 3)
        FAILS(STILLFRAME_BOUND, "stillframe_publish: region 'signals' uses", stillframe_publish(region, 3, NULL));
    timer = (struct itimerval){0};
    setitimer(ITIMER_REAL, &timer, NULL);
    // One may still be on its way.
    sigaction(SIGALRM, &ignore, NULL);
    CHECK(other == 0);
    // The handler's call was refused before it touched anything.
    OK(stillframe_release(snapshot));
    OK(stillframe_publish(region, 4, NULL));
    CHECK(shows("signals", "data", bytes, 200 << 10));
    OK(stillframe_observer_close(observer));
    // Outside of calls with this region the handler gets through, inside of calls with others too.
    busy = refused = 0;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    OK(stillframe_list(NULL, raise_a_signal, NULL));
    CHECK(busy == 0 && refused == 2 && other == 0);
    OK(stillframe_unlink(region));
}

static void signals_that_come_at_any_instant_of_a_publish_never_hang_it(void) {
    region = make("any-instant");
    char *bytes;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(4096), (void **)&bytes));
    busy = refused = other = 0;
    uint64_t version = 1;
    OK(stillframe_publish(region, version, NULL));
    struct sigaction action = {.sa_handler = publish_nothing}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {.it_interval = {.tv_usec = 200}, .it_value = {.tv_usec = 200}};
    setitimer(ITIMER_REAL, &timer, NULL);
    while (busy < 200 && version < 2000000) {
        bytes[version % 4096]++;
        stillframe_status status = stillframe_publish(region, ++version, NULL);
        if (status != STILLFRAME_OK) {
            other += 1000;
            break;
        }
    }
    timer = (struct itimerval){0};
    setitimer(ITIMER_REAL, &timer, NULL);
    // One may still be on its way.
    sigaction(SIGALRM, &ignore, NULL);
    if (other || busy < 200)
        FAIL("%d signals found it busy, %d did not, %d anything else", busy, refused, other);
    OK(stillframe_publish(region, ++version, NULL));
    CHECK(shows("any-instant", "data", bytes, 4096));
    OK(stillframe_unlink(region));
}

static void publish_until_killed(void) {
    stillframe_region *mine = make("killed");
    uint64_t *numbers;
    OK(stillframe_array(mine, "numbers", "uint64", 1, SHAPE(20000), (void **)&numbers));
    for (uint64_t version = 1;; version++) {
        for (int i = 0; i < 20000; i++)
            numbers[i] = version;
        OK(stillframe_publish(mine, version, NULL));
    }
}

static void a_producer_that_is_killed_leaves_its_last_version_whole(void) {
    for (int round = 0; round < 5; round++) {
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            publish_until_killed();
            _exit(0);
        }
        stillframe_observer_options options = {.wait_ms = 60000};
        OK(stillframe_open("killed", &options, &observer));
        uint64_t version;
        OK(stillframe_wait_newer(observer, 20 + round, 60000, &version));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        snapshot = newest(observer);
        stillframe_snapshot_info info;
        OK(stillframe_describe(snapshot, &info));
        const uint64_t *view;
        OK(stillframe_view(snapshot, "numbers", (const void **)&view, NULL));
        for (int i = 0; i < 20000; i++)
            CHECK(view[i] == info.version);
        FAILS(STILLFRAME_PRODUCER_GONE, "killed",
              stillframe_next_after(observer, (int64_t)info.version, -1, &(stillframe_snapshot *){NULL}));
        OK(stillframe_release(snapshot));
        OK(stillframe_observer_close(observer));
        OK(stillframe_remove_region(NULL, "killed", false, NULL));
    }
}

static void begin_and_die(void) {
    region = stillframe_begin("crashed", 0, 0);
    CHECK(region);
    uint64_t number = 7;
    OK(stillframe_track(region, "number", "uint64", 0, NULL, &number));
    OK(stillframe_publish(region, 7, NULL));
}

static void what_a_killed_run_left_is_set_aside_by_the_next_that_begins(void) {
    in_child(begin_and_die);
    region = stillframe_begin("crashed", 0, 0);
    CHECK(region);
    uint64_t number = 1;
    OK(stillframe_track(region, "number", "uint64", 0, NULL, &number));
    OK(stillframe_publish(region, 1, NULL));
    observer = look("crashed~1");
    snapshot = newest(observer);
    uint64_t found = 0;
    OK(stillframe_read(snapshot, "number", 0, &found, sizeof found));
    CHECK(found == 7);
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    stillframe_region *other;
    FAILS(STILLFRAME_BAD_NAME, "did not end by itself", stillframe_create("crashed~1", NULL, &other));
    OK(stillframe_unlink(region));
    FAILS(STILLFRAME_NO_REGION, "crashed~1", stillframe_open("crashed~1", NULL, &observer));
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(handles_of_the_parent_are_refused_in_a_child),
#ifndef __SANITIZE_ADDRESS__
        TEST(a_fork_while_another_thread_publishes_leaves_no_lock_behind),
        TEST(a_fork_while_other_threads_make_and_look_at_regions_leaves_no_lock_behind),
#endif
        TEST(a_signal_handler_that_interrupts_a_publish_finds_the_region_busy),
        TEST(signals_that_come_at_any_instant_of_a_publish_never_hang_it),
        TEST(a_producer_that_is_killed_leaves_its_last_version_whole),
        TEST(what_a_killed_run_left_is_set_aside_by_the_next_that_begins),
    };
    return RUN_TESTS(tests);
}
