// What the C tests have in common. A test is a function; main names those of its program in a list.
#ifndef CHECK_H
#define CHECK_H

#include <stillframe.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Ends the test's program and says why. exit would run what a half-done test left.
#define FAIL(...)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        fflush(NULL);                                                                              \
        _exit(1);                                                                                  \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("%s is false; last error: %s", #condition, stillframe_error_text());              \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        stillframe_status got_ = (call);                                                           \
        if (got_ != STILLFRAME_OK)                                                                 \
            FAIL("%s gives %s: %s", #call, stillframe_status_name(got_), stillframe_error_text()); \
    } while (0)

// The call fails with this status, and its text has these words.
#define FAILS(status, words, call)                                                                 \
    do {                                                                                           \
        stillframe_status got_ = (call);                                                           \
        if (got_ != (status))                                                                      \
            FAIL("%s gives %s, not %s: %s", #call, stillframe_status_name(got_), #status,          \
                 stillframe_error_text());                                                         \
        if (!strstr(stillframe_error_text(), (words)))                                             \
            FAIL("'%s' is not in: %s", (words), stillframe_error_text());                          \
    } while (0)

#define SHAPE(...) ((size_t[]){__VA_ARGS__})

typedef struct {
    const char *name;
    void (*run)(void);
} test;

#define TEST(function) {#function, function}

// Threads that copy in the background end by themselves, soon after what they worked for is closed. What valgrind finds of one
// that has not ended looks like a leak.
static inline void await_threads(void) {
    int threads = 0;
    for (int trial = 0; trial < 600 && threads != 1; trial++) {
        if (trial > 0)
            usleep(100000);
        FILE *status = fopen("/proc/self/status", "r");
        CHECK(status != NULL);
        char line[256];
        while (fgets(line, sizeof line, status))
            sscanf(line, "Threads: %d", &threads);
        fclose(status);
    }
    if (threads != 1)
        FAIL("%d threads have not ended", threads - 1);
}

// Runs all tests of a program, or those named on its command line.
static inline int run_tests(int argc, char **argv, const test *tests, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int wanted = argc < 2;
        for (int arg = 1; arg < argc; arg++)
            wanted |= strcmp(argv[arg], tests[i].name) == 0;
        if (!wanted)
            continue;
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run();
    }
    await_threads();
    return 0;
}

#define RUN_TESTS(tests) run_tests(argc, argv, tests, sizeof(tests) / sizeof *(tests))

static inline stillframe_region *make(const char *name) {
    stillframe_region *region;
    OK(stillframe_create(name, NULL, &region));
    CHECK(region != NULL);
    return region;
}

static inline stillframe_observer *look(const char *name) {
    stillframe_observer *observer;
    OK(stillframe_open(name, NULL, &observer));
    return observer;
}

static inline stillframe_snapshot *newest(stillframe_observer *observer) {
    stillframe_snapshot *snapshot;
    OK(stillframe_newest(observer, &snapshot));
    return snapshot;
}

// Whether a variable has these bytes in the region's newest version.
static inline int shows(const char *region, const char *variable, const void *wanted, size_t wanted_bytes) {
    stillframe_observer *observer = look(region);
    stillframe_snapshot *snapshot = newest(observer);
    const void *data;
    size_t bytes;
    OK(stillframe_view(snapshot, variable, &data, &bytes));
    int same = bytes == wanted_bytes && memcmp(data, wanted, bytes) == 0;
    OK(stillframe_release(snapshot));
    OK(stillframe_observer_close(observer));
    return same;
}

#endif
