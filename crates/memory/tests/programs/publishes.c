// A program that publishes an array of the heap, which lies in the pool, and knows nothing of that. The argument: a directory
// for its region.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stillframe.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, stillframe_error_text()); \
            exit(1); \
        } \
    } while (0)
#define OK(call) CHECK((call) == STILLFRAME_OK)

#define LENGTH ((size_t)3 << 20)

static int is_shown(stillframe_observer *observer, const double *u, uint64_t version) {
    stillframe_snapshot *snapshot;
    stillframe_snapshot_info info;
    const double *shown;
    size_t bytes;
    OK(stillframe_newest(observer, &snapshot));
    OK(stillframe_describe(snapshot, &info));
    OK(stillframe_view(snapshot, "u", (const void **)&shown, &bytes));
    int is_same = info.version == version && bytes == LENGTH * sizeof *u && !memcmp(shown, u, bytes);
    OK(stillframe_release(snapshot));
    return is_same;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    double *u = calloc(LENGTH, sizeof *u);
    CHECK(u);
    stillframe_region_options options = {.dir = arguments[1]};
    stillframe_observer_options looking = {.dir = arguments[1], .wait_ms = 10000};
    stillframe_region *region;
    stillframe_observer *observer = NULL;
    size_t shape[] = {LENGTH};
    OK(stillframe_create("u", &options, &region));
    OK(stillframe_track(region, "u", "float64", 1, shape, u));
    for (uint64_t version = 1; version <= 40; version++) {
        // All of it, a little, or nothing.
        if (version % 8 == 1)
            for (size_t i = 0; i < LENGTH; i++)
                u[i] = (double)version;
        else if (version % 8)
            for (size_t i = 0; i < 5; i++)
                u[(version * 104729 + i * 611953) % LENGTH] = (double)version;
        stillframe_published published;
        OK(stillframe_publish(region, version, &published));
        if (!observer)
            OK(stillframe_open("u", &looking, &observer));
        CHECK(is_shown(observer, u, version));
        if (version == 20) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                memset(u, 1, LENGTH * sizeof *u);
                _exit(0);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            CHECK(is_shown(observer, u, version));
        }
    }
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
    free(u);
    puts("fine");
    return 0;
}
