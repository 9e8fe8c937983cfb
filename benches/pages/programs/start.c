// A program that takes memory at its start and touches all of it.
//
//     start malloc MIB            the arrays of a simulation: half in eight large ones, three eighths in blocks of 32 MiB, and an
//                                 eighth in blocks of 64 KiB
//     start populate MIB          as much in one mmap with MAP_POPULATE
//     start populate MIB reserved the same from the pages that the machine has reserved
//     start populate MIB FILE     the same of a new file, which goes again: FILE lies in a pool of large pages
//
// `ready_seconds` is the moment at which all of it is there.
#define _GNU_SOURCE
#include "report.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, LARGE_ARRAYS = 8 };

static void fail(const char *what, const char *name, size_t bytes) {
    fprintf(stderr, "%s of %zu bytes, %s: %s\n", what, bytes, name, strerror(errno));
    exit(1);
}

static size_t touch(char *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PAGE_BYTES)
        ((volatile char *)memory)[at] = 1;
    return bytes;
}

// So many blocks, each of which is kept.
static size_t take_blocks(size_t count, size_t bytes) {
    size_t taken = 0;
    for (size_t at = 0; at < count; at++)
        taken += touch(take(bytes), bytes);
    return taken;
}

static size_t take_arrays(size_t bytes) {
    size_t small = 64 << 10, middle = 32 << 20;
    size_t taken = take_blocks(LARGE_ARRAYS / 2, bytes / 2 / LARGE_ARRAYS);
    taken += take_blocks(bytes / 8 / small, small);
    taken += take_blocks(bytes * 3 / 8 / middle, middle);
    return taken + take_blocks(LARGE_ARRAYS / 2, bytes / 2 / LARGE_ARRAYS);
}

static size_t populate(size_t bytes, const char *from) {
    int flags = MAP_POPULATE, file = -1;
    if (!from)
        flags |= MAP_PRIVATE | MAP_ANONYMOUS;
    else if (!strcmp(from, "reserved"))
        flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
    else {
        flags |= MAP_SHARED;
        file = open(from, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0)
            fail("open for a mapping", from, bytes);
        unlink(from);
        if (ftruncate(file, (off_t)bytes))
            fail("ftruncate", from, bytes);
    }
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (memory == MAP_FAILED)
        fail("mmap", from ? from : "anonymous", bytes);
    // MAP_POPULATE says nothing where there was not enough; the touch would.
    return touch(memory, bytes);
}

int main(int argc, char **argv) {
    Times times = {.begin = now_seconds()};
    size_t bytes = (size_t)number(argc, argv, 2, 64) << 20, taken;
    const char *how = argc > 1 ? argv[1] : "malloc";
    begin_steps(&times);
    if (!strcmp(how, "malloc"))
        taken = take_arrays(bytes);
    else if (!strcmp(how, "populate"))
        taken = populate(bytes, argc > 3 ? argv[3] : NULL);
    else {
        fprintf(stderr, "usage: %s malloc|populate [MIB [reserved|FILE]]\n", argv[0]);
        return 2;
    }
    end_steps(&times);
    char check[32];
    snprintf(check, sizeof check, "%zu MiB", taken >> 20);
    print_report(&times, 1, check);
}
