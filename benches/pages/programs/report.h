// What the programs of this benchmark say of themselves: a clock, page faults, and one line of JSON.
#ifndef PAGES_REPORT_H
#define PAGES_REPORT_H

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Faults of this process from the first call on, with and without a disk: those that stop it, where the kernel counts them
// (perf), else also the pages that it has the kernel fill at once.
static inline long count_faults(void) {
    static int counter = -2;
    struct perf_event_attr faults = {.type = PERF_TYPE_SOFTWARE, .size = sizeof faults, .config = PERF_COUNT_SW_PAGE_FAULTS};
    struct rusage usage;
    long long count;
    if (counter == -2)
        counter = (int)syscall(SYS_perf_event_open, &faults, 0, -1, -1, 0);
    if (counter >= 0 && read(counter, &count, sizeof count) == sizeof count)
        return (long)count;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

// How much of this process lies in large pages, transparent or reserved.
static inline long large_bytes(void) {
    static const char *const names[] = {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:",
                                        "Private_Hugetlb:"};
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file))
        for (size_t at = 0; at < sizeof names / sizeof *names; at++)
            if (!strncmp(line, names[at], strlen(names[at])))
                kib += strtol(line + strlen(names[at]), NULL, 10);
    fclose(file);
    return kib * 1024;
}

static inline void *take(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "malloc of %zu bytes failed\n", bytes);
        exit(1);
    }
    return memory;
}

static inline long number(int argc, char **argv, int at, long otherwise) {
    char *end;
    if (argc <= at)
        return otherwise;
    long value = strtol(argv[at], &end, 10);
    if (*end || value <= 0) {
        fprintf(stderr, "%s: not a positive number: %s\n", argv[0], argv[at]);
        exit(2);
    }
    return value;
}

// When each part of a program began, and how many faults there had been.
typedef struct {
    double begin, steps_begin, steps_end;
    long faults_begin, faults_end;
} Times;

static inline void begin_steps(Times *times) {
    // The first look at the clock touches a page of its own.
    now_seconds();
    times->faults_begin = count_faults();
    times->steps_begin = now_seconds();
}

static inline void end_steps(Times *times) {
    times->steps_end = now_seconds();
    times->faults_end = count_faults();
}

// Call it while the memory is still there. Looking for large pages takes time that is not the program's: `look_seconds`.
// `ready_seconds` is the end of the steps by the clock CLOCK_MONOTONIC, which other processes read, too.
static inline void print_report(const Times *times, long steps, const char *check) {
    double look = now_seconds();
    long large = large_bytes();
    double now = now_seconds();
    printf("{\"seconds\": %.6f, \"setup_seconds\": %.6f, \"step_seconds\": %.6f, \"ready_seconds\": %.9f, \"steps\": %ld, "
           "\"step_faults\": %ld, \"faults\": %ld, \"large_bytes\": %ld, \"look_seconds\": %.6f, \"check\": \"%s\"}\n",
           look - times->begin, times->steps_begin - times->begin, times->steps_end - times->steps_begin, times->steps_end,
           steps, times->faults_end - times->faults_begin, count_faults(), large, now - look, check);
    fflush(stdout);
}

#endif
