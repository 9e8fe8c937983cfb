// What can be done with memory that the kernel never had: in a file of a file system on it, or as a device.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(is) ((is) ? (void)0 : (fprintf(stderr, "%d: %s (errno %d)\n", __LINE__, #is, errno), exit(1)))
enum { LARGE = 2 << 20, BYTES = 64 << 20 };

static long faults(void) {
    struct rusage usage;
    CHECK(!getrusage(RUSAGE_SELF, &usage));
    return usage.ru_minflt;
}

// Where a mapping can have large pages.
static char *place(void) {
    char *at = mmap(0, BYTES + LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return (char *)(((uintptr_t)at + LARGE - 1) & ~(uintptr_t)(LARGE - 1));
}

static char *map(int file, int flags) {
    return mmap(place(), BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0);
}

// A file on it is mapped 2 MiB at a time.
static void in_file(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && !fallocate(file, 0, 0, BYTES));
    char *at = map(file, MAP_SHARED);
    CHECK(at != MAP_FAILED);
    long before = faults();
    for (size_t i = 0; i < BYTES; i += 4096)
        at[i] = 1;
    long count = faults() - before;
    printf("%ld faults for %d MiB of a file\n", count, BYTES >> 20);
    CHECK(count < 2 * BYTES / LARGE);
    CHECK(!unlink(path));
}

// The device is mapped shared or not at all: a child writes into its parent's memory. So no program's memory lies there.
static void as_device(const char *path) {
    int device = open(path, O_RDWR);
    CHECK(device >= 0);
    CHECK(map(device, MAP_PRIVATE) == MAP_FAILED && errno == EINVAL);
    CHECK(fallocate(device, 0, 0, LARGE) && ftruncate(device, BYTES));
    char *at = map(device, MAP_SHARED);
    CHECK(at != MAP_FAILED);
    memset(at, 1, BYTES);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        at[0] = 7;
        _exit(0);
    }
    CHECK(waitpid(child, 0, 0) == child && at[0] == 7);
    printf("the device is shared memory only\n");
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    (strcmp(arguments[1], "file") ? as_device : in_file)(arguments[2]);
    return 0;
}
