// A signal that comes while a snapshot's texts are made, and whose handler asks for them.
#include "check.h"

#include <signal.h>

// The allocation of this thread at which the signal comes: the library's own thread allocates, too.
static _Thread_local volatile sig_atomic_t is_armed;
static volatile sig_atomic_t busy, other;
static stillframe_snapshot *snapshot;

void *__libc_malloc(size_t bytes);

// What the handler allocates meets no allocation that it interrupted: none has begun.
void *malloc(size_t bytes) {
    if (is_armed && --is_armed == 0)
        raise(SIGUSR1);
    return __libc_malloc(bytes);
}

static void describe(int signal) {
    (void)signal;
    stillframe_snapshot_info info;
    switch (stillframe_describe(snapshot, &info)) {
    case STILLFRAME_BUSY: busy++; break;
    default: other++;
    }
}

static void a_handler_that_interrupts_the_making_of_texts_finds_the_snapshot_busy(void) {
    struct sigaction action = {.sa_handler = describe};
    sigaction(SIGUSR1, &action, NULL);
    stillframe_region *region;
    OK(stillframe_create("texts", NULL, &region));
    double *u;
    OK(stillframe_array(region, "u", "float64", 1, SHAPE(10), (void **)&u));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("texts");
    for (int allocation = 1; allocation <= 4; allocation++) {
        snapshot = newest(observer);
        busy = other = 0;
        is_armed = allocation;
        stillframe_snapshot_info info;
        OK(stillframe_describe(snapshot, &info));
        is_armed = 0;
        CHECK(busy == 1 && other == 0);
        CHECK(strcmp(info.region, "texts") == 0 && info.variable_count == 1);
        stillframe_variable variable;
        OK(stillframe_variable_named(snapshot, "u", &variable));
        CHECK(strcmp(variable.dtype, "float64") == 0);
        OK(stillframe_release(snapshot));
    }
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

int main(int argc, char **argv) {
    // A handler that waits for what it interrupted waits for ever.
    alarm(60);
    static const test tests[] = {TEST(a_handler_that_interrupts_the_making_of_texts_finds_the_snapshot_busy)};
    return run_tests(argc, argv, tests, sizeof tests / sizeof *tests);
}
