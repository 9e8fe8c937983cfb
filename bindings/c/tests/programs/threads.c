// Several threads with the same handles.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 300 };

static stillframe_region *region;
static atomic_ulong next_version;
static atomic_int published, refused;

static void *publish(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t version = atomic_fetch_add(&next_version, 1);
        stillframe_status status = stillframe_publish(region, version, NULL);
        // Another thread may have published a later number first.
        if (status == STILLFRAME_OK) {
            atomic_fetch_add(&published, 1);
        } else {
            CHECK(status == STILLFRAME_NOT_INCREASING);
            atomic_fetch_add(&refused, 1);
        }
        OK(stillframe_set_int(region, "round", i));
    }
    return NULL;
}

static void *observe(void *observer) {
    stillframe_snapshot *snapshot;
    int64_t seen = 0;
    for (int i = 0; i < ROUNDS; i++) {
        stillframe_status status = stillframe_newest_after(observer, seen, 1000, &snapshot);
        if (status == STILLFRAME_TIMEOUT || status == STILLFRAME_PRODUCER_GONE)
            break;
        CHECK(status == STILLFRAME_OK);
        stillframe_snapshot_info info;
        OK(stillframe_describe(snapshot, &info));
        CHECK((int64_t)info.version > seen);
        seen = (int64_t)info.version;
        unsigned char bytes[100];
        OK(stillframe_read(snapshot, "data", 0, bytes, sizeof bytes));
        OK(stillframe_release(snapshot));
    }
    return NULL;
}

static void threads_that_publish_wait_for_each_other(void) {
    region = make("threads");
    void *data;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(100000), &data));
    atomic_store(&next_version, 1);
    OK(stillframe_publish(region, atomic_fetch_add(&next_version, 1), NULL));
    stillframe_observer *observer = look("threads");
    pthread_t threads[2 * THREADS];
    for (int i = 0; i < 2 * THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, i % 2 ? publish : observe, i % 2 ? NULL : observer) == 0);
    for (int i = 1; i < 2 * THREADS; i += 2)
        pthread_join(threads[i], NULL);
    CHECK(published + refused == THREADS * ROUNDS && published > 0);
    OK(stillframe_close(region));
    for (int i = 0; i < 2 * THREADS; i += 2)
        pthread_join(threads[i], NULL);
    OK(stillframe_observer_close(observer));
    OK(stillframe_remove_region(NULL, "threads", false, NULL));
}

static void *read_until_released(void *snapshot) {
    const void *data;
    stillframe_status status;
    do {
        status = stillframe_view(snapshot, "data", &data, NULL);
    } while (status == STILLFRAME_OK);
    CHECK(status == STILLFRAME_BAD_HANDLE && strstr(stillframe_error_text(), "this snapshot has ended"));
    return NULL;
}

static void a_handle_may_end_while_other_threads_use_it(void) {
    region = make("ending");
    void *data;
    OK(stillframe_array(region, "data", "uint8", 1, SHAPE(100), &data));
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("ending");
    for (int round = 0; round < 50; round++) {
        stillframe_snapshot *snapshot = newest(observer);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, read_until_released, snapshot) == 0);
        OK(stillframe_release(snapshot));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

static void *make_and_end(void *number) {
    char name[32];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "many-%d", *(int *)number);
        stillframe_region *mine = make(name);
        double x = i;
        OK(stillframe_track(mine, "x", "float64", 0, NULL, &x));
        OK(stillframe_publish(mine, 1, NULL));
        CHECK(shows(name, "x", &x, sizeof x));
        OK(stillframe_unlink(mine));
    }
    // Each thread has a text of its own.
    CHECK(stillframe_publish(NULL, 1, NULL) == STILLFRAME_BAD_HANDLE);
    CHECK(strstr(stillframe_error_text(), "stillframe_publish: the region is NULL"));
    return NULL;
}

static void handles_of_many_threads_do_not_meet(void) {
    CHECK(stillframe_release((void *)(uintptr_t)8) == STILLFRAME_BAD_HANDLE);
    char before[200];
    snprintf(before, sizeof before, "%s", stillframe_error_text());
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, make_and_end, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(strcmp(before, stillframe_error_text()) == 0);
}

static void more_handles_than_the_first_table_has_room_for(void) {
    region = make("plenty");
    OK(stillframe_publish(region, 1, NULL));
    stillframe_observer *observer = look("plenty");
    enum { HANDLES = 700 };
    static stillframe_snapshot *snapshots[HANDLES];
    for (int i = 0; i < HANDLES; i++)
        snapshots[i] = newest(observer);
    for (int i = 0; i < HANDLES; i++)
        for (int j = 0; j < i; j += 97)
            CHECK(snapshots[i] != snapshots[j]);
    for (int i = 0; i < HANDLES; i++)
        OK(stillframe_release(snapshots[i]));
    FAILS(STILLFRAME_BAD_HANDLE, "has ended", stillframe_release(snapshots[HANDLES - 1]));
    OK(stillframe_observer_close(observer));
    OK(stillframe_unlink(region));
}

int main(int argc, char **argv) {
    const test tests[] = {
        TEST(threads_that_publish_wait_for_each_other),
        TEST(a_handle_may_end_while_other_threads_use_it),
        TEST(handles_of_many_threads_do_not_meet),
        TEST(more_handles_than_the_first_table_has_room_for),
    };
    return RUN_TESTS(tests);
}
