// What the scenes of programs have in common.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

extern char **environ;

// Of the pool's pages: 2 MiB, unless the environment says otherwise.
static int large_kib = 2048;

// KiB of the pages that an address lies in.
static inline int page_kib(const void *address) {
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    int is_in = 0, found = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long begin, end;
        int kib;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            is_in = begin <= (unsigned long)address && (unsigned long)address < end;
        else if (is_in && sscanf(line, "KernelPageSize: %d kB", &kib) == 1)
            found = kib;
    }
    fclose(file);
    return found;
}

static inline long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

// Rounds in the short tier of tests, and in the long one (.config/nextest.toml).
static inline int by_tier(int in_short, int in_long) {
    const char *profile = getenv("NEXTEST_PROFILE");
    return !profile || !strcmp(profile, "default") ? in_short : in_long;
}

static inline void fill(char *at, size_t bytes, char with) {
    for (size_t i = 0; i < bytes; i += 4096)
        at[i] = with;
}

static inline int is_all(const char *at, size_t bytes, char with) {
    for (size_t i = 0; i < bytes; i += 4096)
        if (at[i] != with)
            return 0;
    return 1;
}

static inline void *block(size_t bytes) {
    char *at = malloc(bytes);
    CHECK(at);
    return at;
}

static inline int ended(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}
