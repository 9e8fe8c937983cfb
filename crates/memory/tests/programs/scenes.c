// Scenes of programs that know nothing of large pages. Each ends with 0 where everything was as it is on any system,
// and where what was asked for lay in pages of the size that is said. The arguments: a scene, and what it needs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <threads.h>
#include <ucontext.h>
#include <unistd.h>

#include "scene.h"

// A large block is there at once, in large pages; freed and asked for again it costs nothing, and calloc finds zeros.
static void heap(void) {
    size_t bytes = 20 * MIB;
    char *at = block(bytes);
    long before = faults();
    fill(at, bytes, 1);
    CHECK(faults() - before < 16);
    CHECK(page_kib(at + 2 * MIB) == large_kib && page_kib(at + bytes - 1) == large_kib);
    free(at);
    before = faults();
    for (int step = 0; step < 100; step++) {
        at = block(bytes);
        fill(at, bytes, 2);
        free(at);
    }
    CHECK(faults() - before < 16);
    at = calloc(bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        CHECK(at[i] == 0);
    free(at);
    // Small blocks follow.
    for (int i = 0; i < 100000; i++)
        ((char *)block(48))[47] = 1;
    char *small = block(48);
    CHECK(page_kib(small) == large_kib || page_kib(small) == 4);
}

// Blocks of a power of two take what they are, and no more.
static void tight(void) {
    char *blocks[2];
    for (int i = 0; i < 2; i++) {
        blocks[i] = block(32 * MIB);
        CHECK(page_kib(blocks[i] + 2 * MIB) == large_kib && page_kib(blocks[i] + 32 * MIB - 1) == large_kib);
        CHECK(malloc_usable_size(blocks[i]) < 32 * MIB + 64 * 1024);
    }
    // What both had is one free block.
    free(blocks[0]);
    free(blocks[1]);
    char *both = block(64 * MIB);
    CHECK(page_kib(both + 2 * MIB) == large_kib && page_kib(both + 64 * MIB - 1) == large_kib);
    // What is shrunk is another's.
    uintptr_t begin = (uintptr_t)both;
    CHECK((uintptr_t)realloc(both, 8 * MIB) == begin);
    char *rest = block(48 * MIB);
    CHECK(page_kib(rest + 48 * MIB - 1) == large_kib);
    CHECK((uintptr_t)rest > begin);
}

// A block that grows by little each time stays where it is as long as nothing is behind it, and has what it had.
static void grows(void) {
    char *at = block(MIB), *first = at;
    for (size_t bytes = 1; bytes < 200; bytes++) {
        memset(at + (bytes - 1) * MIB, (char)bytes, MIB);
        at = realloc(at, (bytes + 1) * MIB);
        CHECK(at == first);
    }
    // Now something is.
    char *behind = block(2 * MIB);
    fill(behind, 2 * MIB, 7);
    at = realloc(at, 300 * MIB);
    CHECK(at && at != first);
    for (size_t mib = 0; mib < 199; mib++)
        CHECK(at[mib * MIB] == (char)(mib + 1) && at[mib * MIB + MIB - 1] == (char)(mib + 1));
    CHECK(is_all(behind, 2 * MIB, 7));
    // And back into what the allocator of small blocks has.
    at = realloc(at, 1000);
    CHECK(at && at[0] == 1 && at[999] == 1);
}

enum { ROWS = 20000 };

// Of rows of two arrays each, which grow side by side as those of a sparse matrix, those of a kind lie one behind the other.
static void grow_apart(void) {
    static char *one[ROWS], *other[ROWS];
    for (int row = 0; row < ROWS; row++) {
        for (size_t count = 4; count <= 32; count *= 2) {
            CHECK(one[row] = realloc(one[row], 4 * count));
            CHECK(other[row] = realloc(other[row], 8 * count));
            memset(one[row] + 2 * count, 1, 2 * count);
            memset(other[row] + 4 * count, 2, 4 * count);
        }
    }
    int behind = 0;
    for (int row = 1; row < ROWS; row++)
        behind += one[row] == one[row - 1] + 128;
    CHECK(behind > ROWS / 10 * 9);
    for (int row = 0; row < ROWS; row++) {
        CHECK(is_all(one[row] + 8, 120, 1) && is_all(other[row] + 16, 240, 2));
        free(one[row]);
        free(other[row]);
    }
}

static void tag(char *at, size_t bytes, char with) {
    fill(at, bytes, with);
    at[bytes - 1] = with;
}

static int is_tagged(char *at, size_t bytes, char with) {
    return is_all(at, bytes, with) && at[bytes - 1] == with;
}

// Each of several threads takes, changes and frees large blocks in any order, and finds in each what it wrote.
static void *takes_large(void *seed) {
    enum { BLOCKS = 12 };
    unsigned state = (unsigned)(uintptr_t)seed * 7919 + 1;
    struct {
        char *at;
        size_t bytes;
        char with;
    } all[BLOCKS] = {0};
    for (int step = 0; step < 1500; step++) {
        unsigned some[4];
        for (int i = 0; i < 4; i++)
            some[i] = (state = state * 1103515245 + 12345) >> 8;
        int slot = (int)(some[0] % BLOCKS);
        size_t bytes = MIB + some[1] % (8 * MIB), had = all[slot].bytes;
        char with = (char)(1 + step % 100 + (int)(uintptr_t)seed), *at = all[slot].at;
        CHECK(!at || is_tagged(at, had, all[slot].with));
        if (at && some[2] % 3 == 0) {
            at = realloc(at, bytes);
            CHECK(at && is_all(at, had < bytes ? had : bytes, all[slot].with));
        } else {
            free(at);
            size_t align = (size_t)4096 << some[3] % 14;
            if (some[2] % 4 == 0) {
                at = calloc(1, bytes);
                CHECK(at && is_tagged(at, bytes, 0));
            } else if (some[2] % 4 == 1) {
                bytes += 2 * MIB;
                CHECK(!posix_memalign((void **)&at, align, bytes) && (uintptr_t)at % align == 0);
            } else
                at = block(bytes);
        }
        CHECK(malloc_usable_size(at) >= bytes);
        tag(at, bytes, with);
        all[slot].at = at, all[slot].bytes = bytes, all[slot].with = with;
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(!all[i].at || is_tagged(all[i].at, all[i].bytes, all[i].with));
        free(all[i].at);
    }
    return NULL;
}

static void large(void) {
    pthread_t all[3];
    for (uintptr_t i = 0; i < 3; i++)
        CHECK(!pthread_create(&all[i], NULL, takes_large, (void *)i));
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_join(all[i], NULL));
    // What they had is one free block now.
    long before = faults();
    fill(block(96 * MIB), 96 * MIB, 1);
    CHECK(faults() - before < 16);
}

// Whoever gets a freed block finds memory, whatever the program had done to its pages, and nothing else of what was there.
static void reused(void) {
    char path[] = "/tmp/reused-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && !unlink(path) && !ftruncate(file, 4096) && pwrite(file, "precious", 8, 0) == 8);
    for (int how = 0; how < 6; how++) {
        size_t bytes = 40 * MIB;
        char *at = NULL, *other = NULL;
        CHECK(!posix_memalign((void **)&at, 4096, bytes));
        memset(at, 1, bytes);
        char *part = at + 9 * MIB;
        if (how == 0)
            CHECK(!mprotect(part, 4096, PROT_READ));
        else if (how == 1)
            CHECK(!munmap(part, MIB));
        else if (how == 2)
            CHECK(mmap(part, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == part);
        else if (how == 3)
            CHECK(mremap(part, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, at + 20 * MIB) == at + 20 * MIB);
        else if (how == 4)
            CHECK(!madvise(part, 4096, MADV_DONTFORK));
        else
            CHECK(mremap(part, 2 * MIB, MIB, 0) == part);
        if (how == 1 || how == 3 || how == 5) {
            // Nobody else is put where the program took memory away.
            other = mmap(part + (how == 5) * MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(other != MAP_FAILED && (other < at || other >= at + bytes));
            memset(other, 7, MIB);
        }
        free(at);
        char *next = calloc(1, bytes - MIB);
        CHECK(next >= at && next < at + bytes);
        for (size_t i = 0; i < bytes - MIB; i++)
            CHECK(next[i] == 0);
        memset(next, 2, bytes - MIB);
        char kept[9] = {0};
        CHECK(pread(file, kept, 8, 0) == 8 && !strcmp(kept, "precious"));
        CHECK(!other || (is_all(other, MIB, 7) && !munmap(other, MIB)));
        free(next);
    }
    close(file);
}

// What a block in the pool was advised is forgotten with it: a child of who has it next finds what he wrote.
static void advised(void) {
    enum { GUARD_INSTALL = 102 };
    int all[] = {MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTDUMP, GUARD_INSTALL};
    size_t bytes = 16 * MIB;
    for (int i = 0; i < 4; i++) {
        char *at = NULL;
        CHECK(!posix_memalign((void **)&at, 4096, bytes));
        fill(at, bytes, 1);
        // None of it was ever touched by such a call.
        char *more = NULL;
        CHECK(!posix_memalign((void **)&more, 2 * MIB, bytes));
        fill(more, bytes, 1);
        CHECK(page_kib(more + 4 * MIB) == large_kib);
        CHECK(!madvise(more + 4 * MIB + 4096, 6 * MIB, all[i]) || (all[i] == GUARD_INSTALL && errno == EINVAL));
        free(more);
        char *next = NULL;
        CHECK(!posix_memalign((void **)&next, 2 * MIB, bytes) && next == more);
        fill(next, bytes, 7);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(is_all(next, bytes, 7) ? 0 : 1);
        CHECK(ended(child) == 0);
        // The next one is to have pages of the pool again.
        CHECK(malloc(12 * MIB));
    }
}

// What a child has not got of a block is nobody's: neither its own mappings come to lie there, nor is it lost when the block is freed.
static void child_holes(void) {
    size_t bytes = 16 * MIB;
    char *at = NULL;
    CHECK(!posix_memalign((void **)&at, 4096, bytes));
    fill(at, bytes, 1);
    CHECK(!madvise(at + 4096, 12 * MIB, MADV_DONTFORK));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        enum { MAPPINGS = 64 };
        char *all[MAPPINGS];
        for (int i = 0; i < MAPPINGS; i++) {
            size_t some = i % 2 ? 8 * MIB : 4096;
            all[i] = mmap(NULL, some, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(all[i] != MAP_FAILED && (all[i] >= at + bytes || all[i] + some <= at));
            *all[i] = 5;
        }
        CHECK(at[0] == 1 && is_all(at + 13 * MIB, 2 * MIB, 1));
        free(at);
        char *next = block(bytes);
        fill(next, bytes, 9);
        for (int i = 0; i < MAPPINGS; i++)
            CHECK(*all[i] == 5);
        _exit(is_all(next, bytes, 9) ? 0 : 1);
    }
    CHECK(ended(child) == 0 && is_all(at, bytes, 1));
}

// Memory of a block that consists of several large pages moves as one, with what is in it, and can grow on.
static void moves(void) {
    free(block(16 * MIB));
    for (int how = 0; how < 4; how++) {
        size_t bytes = 150 * MIB, more = bytes + 4096;
        char *at = NULL, *to = NULL;
        CHECK(!posix_memalign((void **)&at, 4096, bytes + 8 * MIB));
        fill(at, bytes + 8 * MIB, 3);
        if (how == 1)
            more = bytes / 2;
        if (how == 3)
            bytes = more = MIB;
        int flags = MREMAP_MAYMOVE;
        if (how > 0) {
            to = mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(to != MAP_FAILED);
            flags |= MREMAP_FIXED;
        }
        char *moved = mremap(at, bytes, more, flags, to);
        CHECK(moved != MAP_FAILED && (!to || moved == to));
        CHECK(is_all(moved, more < bytes ? more : bytes, 3) && is_all(at + bytes, 8 * MIB, 3));
        if (more > bytes)
            CHECK(is_all(moved + bytes, more - bytes, 0));
        fill(moved, more, 4);
        char *grown = mremap(moved, more, more + 10 * MIB, MREMAP_MAYMOVE);
        CHECK(grown != MAP_FAILED && is_all(grown, more, 4) && is_all(grown + more, 10 * MIB, 0));
        free(at);
        char *next = block(bytes + 8 * MIB);
        fill(next, bytes + 8 * MIB, 5);
        CHECK(is_all(grown, more, 4) && !munmap(grown, more + 10 * MIB));
        free(next);
    }
    char *at = NULL;
    CHECK(!posix_memalign((void **)&at, 4096, 4 * MIB));
    fill(at, 4 * MIB, 1);
    CHECK(mremap(at, MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, at + 4096) == MAP_FAILED && errno == EINVAL);
    CHECK(mremap(at, MIB, 0, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
    CHECK(mremap(at + 1, MIB, MIB, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
    CHECK(is_all(at, 4 * MIB, 1));
}

static volatile int holes_are_over;
static void *maps_on(void *unused) {
    enum { MAPPINGS = 16 };
    char *all[MAPPINGS] = {0};
    for (unsigned i = 0; !holes_are_over; i++) {
        char **slot = &all[i % MAPPINGS];
        size_t bytes = MIB / 2;
        CHECK(!*slot || (**slot == (char)(i % MAPPINGS) && !munmap(*slot, bytes)));
        *slot = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(*slot != MAP_FAILED && **slot == 0);
        **slot = (char)(i % MAPPINGS);
    }
    return unused;
}

// Nobody gets addresses that a block has for a moment no memory at.
static void holes(void) {
    size_t bytes = 24 * MIB;
    free(block(2 * bytes));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, maps_on, NULL));
    for (int i = 0, rounds = by_tier(300, 3000); i < rounds; i++) {
        char *at = NULL, *moved = NULL;
        CHECK(!posix_memalign((void **)&at, 4096, bytes));
        CHECK(mremap(at + 4 * MIB, 2 * MIB, MIB, 0) == at + 4 * MIB);
        CHECK((moved = mremap(at + 8 * MIB, MIB, MIB + 4096, MREMAP_MAYMOVE)) != MAP_FAILED);
        CHECK(!munmap(at + 16 * MIB, 2 * MIB) && !munmap(moved, MIB + 4096));
        free(at);
        CHECK((at = malloc(bytes)));
        fill(at, bytes, 77);
        free(at);
    }
    holes_are_over = 1;
    CHECK(!pthread_join(thread, NULL));
}

static volatile long ticks, *counted_ticks;
static void tick(int number) {
    (void)number;
    ticks++;
    ++*counted_ticks;
}

// What the handler of a signal writes while its thread has a page cut is not lost, and nobody waits for himself.
static void ticked(void) {
    enum { PAGES = 20 };
    char *all = NULL;
    CHECK(!posix_memalign((void **)&all, 2 * MIB, (PAGES + 1) * 2 * MIB));
    memset(all, 0, (PAGES + 1) * 2 * MIB);
    signal(SIGALRM, tick);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    for (int i = 0; i < PAGES; i++) {
        counted_ticks = (long *)(all + i * 2 * MIB);
        ticks = 0;
        CHECK(!setitimer(ITIMER_REAL, &often, 0));
        CHECK(!mprotect(all + i * 2 * MIB + MIB, 4096, PROT_READ));
        for (long seen = ticks; ticks < seen + 2;)
            ;
        CHECK(!setitimer(ITIMER_REAL, &never, 0));
        CHECK(*counted_ticks == ticks);
    }
}

static long resident_mib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages / 256;
}

// A large array that is written in places only takes memory there only, also when its block is had before, and when it moves.
static void sparse(void) {
    size_t bytes = (size_t)sysconf(_SC_PHYS_PAGES) * 4096 / 8 * 5;
    char *at = calloc(1, bytes);
    CHECK(at);
    at[5] = at[bytes - 1] = 1;
    free(at);
    long before = resident_mib();
    at = calloc(1, bytes);
    CHECK(at && at[5] == 0 && at[bytes - 1] == 0);
    CHECK(resident_mib() < before + 64);
    at[7] = 3;
    char *behind = block(2 * MIB);
    at = realloc(at, bytes + 32 * MIB);
    CHECK(at && at[7] == 3 && at[5] == 0 && resident_mib() < before + 64);
    free(behind);
}

// Of many large blocks and mappings a page each is used, and some memory besides: less than the group of this process may have.
static void limited(void) {
    for (int i = 0; i < 20; i++) {
        int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
        char *mapped = mmap(NULL, 24 * MIB, protection, flags, -1, 0), *allocated = block(24 * MIB);
        CHECK(mapped != MAP_FAILED);
        mapped[5] = allocated[5] = 1;
    }
    fill(block(40 * MIB), 40 * MIB, 2);
}

// A child has what its parent has, and nothing of what it gave back.
static void freed_forks(void) {
    free(memset(block(120 * MIB), 1, 120 * MIB));
    char *at = block(4 * MIB);
    fill(at, 4 * MIB, 3);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(is_all(at, 4 * MIB, 3) && resident_mib() < 60 ? 0 : 1);
    CHECK(ended(child) == 0);
}

// Threads come and go while the process forks, and children have threads, too.
static void *comes_and_goes(void *unused) {
    free(block(1000));
    return unused;
}

static volatile int is_stopped;
static void *starts_threads(void *unused) {
    while (!is_stopped) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, comes_and_goes, NULL))
            pthread_join(thread, NULL);
    }
    return unused;
}

static void passing_threads(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
        CHECK(!pthread_create(&all[i], NULL, starts_threads, NULL));
    for (int round = 0, rounds = by_tier(100, 400); round < rounds; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(120);
            pthread_t thread;
            _exit(pthread_create(&thread, NULL, comes_and_goes, NULL) || pthread_join(thread, NULL));
        }
        CHECK(ended(child) == 0);
    }
    is_stopped = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

static void odd(void) {
    void *one = malloc(0), *two = malloc(0);
    CHECK(one && two && one != two);
    free(one);
    free(two);
    free(NULL);
    errno = 0;
    volatile size_t huge = PTRDIFF_MAX;
    CHECK(!malloc(huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!malloc(huge * 2 + 1) && errno == ENOMEM);
    errno = 0;
    CHECK(!calloc(huge, 4) && errno == ENOMEM);
    errno = 0;
    CHECK(!reallocarray(NULL, huge, 4) && errno == ENOMEM);
    errno = 0;
    CHECK(!malloc((size_t)1 << 46) && errno == ENOMEM);
    void *aligned = (void *)1;
    CHECK(posix_memalign(&aligned, 3, 8) == EINVAL && posix_memalign(&aligned, 4, 8) == EINVAL && aligned == (void *)1);
    CHECK(posix_memalign(&aligned, 64, huge) == ENOMEM);
    for (size_t align = 8; align <= 8 * MIB; align *= 2)
        for (size_t bytes = 1; bytes <= 4 * MIB; bytes *= 64) {
            CHECK(posix_memalign(&aligned, align, bytes) == 0 && (uintptr_t)aligned % align == 0);
            memset(aligned, 7, bytes);
            CHECK(malloc_usable_size(aligned) >= bytes);
            void *more = realloc(aligned, bytes * 2);
            CHECK(more && ((char *)more)[bytes - 1] == 7);
            free(more);
            CHECK((aligned = aligned_alloc(align, bytes)) && (uintptr_t)aligned % align == 0);
            free(aligned);
            CHECK((aligned = memalign(align, bytes)) && (uintptr_t)aligned % align == 0);
            free(aligned);
        }
    CHECK((uintptr_t)(one = valloc(100)) % 4096 == 0);
    free(one);
    CHECK((uintptr_t)(one = pvalloc(4097)) % 4096 == 0 && malloc_usable_size(one) >= 8192);
    free(one);
    char *grows = NULL;
    for (size_t bytes = 1; bytes < 16 * MIB; bytes += bytes / 3 + 1) {
        CHECK(grows = realloc(grows, bytes));
        grows[bytes - 1] = (char)bytes;
        CHECK(grows[0] == 1);
    }
    CHECK(!realloc(grows, huge) && errno == ENOMEM && grows[0] == 1);
    CHECK((grows = realloc(grows, 10)) && grows[0] == 1);
    CHECK(!realloc(grows, 0));
    errno = 77;
    free(block(100));
    free(block(30 * MIB));
    CHECK(errno == 77);
    CHECK(malloc_usable_size(NULL) == 0);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    malloc_trim(0);
    mallinfo2();
}

static sigjmp_buf back;
static void leap(int number) {
    siglongjmp(back, number);
}

static int faults_at(volatile char *at, int is_write) {
    int number = sigsetjmp(back, 1);
    if (number)
        return number;
    if (is_write)
        *at = 1;
    else
        (void)*at;
    return 0;
}

// What the kernel cannot do with large pages.
static void cut(void) {
    signal(SIGSEGV, leap);
    signal(SIGBUS, leap);
    size_t bytes = 16 * MIB;
    char *at = block(bytes), *page = (char *)(((uintptr_t)at + 5 * MIB) / 4096 * 4096);
    fill(at, bytes, 3);
    CHECK(page_kib(page) == large_kib);
    // The kernel gives and takes pages where it is told.
    CHECK(madvise(page, 3 * 4096, MADV_DONTNEED) == 0);
    CHECK(page[0] == 0 && page[3 * 4096 - 1] == 0 && is_all(at, page - at, 3) && page_kib(page) == large_kib);
    CHECK(madvise(page, MIB, MADV_HUGEPAGE) == 0 && madvise(page + 1, MIB, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(mprotect(page, 4096, PROT_READ) == 0);
    CHECK(faults_at(page, 0) == 0 && faults_at(page, 1) == SIGSEGV && faults_at(page + 4096, 1) == 0);
    CHECK(mprotect(page, 4096, PROT_NONE) == 0 && faults_at(page, 0) == SIGSEGV);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0 && faults_at(page, 1) == 0);
    CHECK(is_all(at, page - at, 3) && page_kib(at + 12 * MIB) == large_kib && page_kib(page) == 4);
    page += 4 * MIB;
    CHECK(mmap(page, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
    CHECK(page[0] == 0 && page[-4096 + (at - page) % 4096] == 3);
    memset(page, 9, 8192);
    CHECK(madvise(page, 4096, MADV_DONTNEED) == 0 && page[0] == 0 && page[4096] == 9);
    CHECK(mprotect(page, 4096, PROT_NONE) == 0);
    CHECK(munmap(page, 4096) == 0 && faults_at(page, 0) == SIGSEGV);
    CHECK(mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
    free(at);
    // Memory that is protected by the page is small from the begin.
    CHECK(posix_memalign((void **)&page, 4096, 3 * 4096) == 0 && mprotect(page, 4096, PROT_NONE) == 0);
    CHECK(faults_at(page, 0) == SIGSEGV && faults_at(page + 4096, 1) == 0);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    free(page);
}

#define WINDOWS 20
static char *counted;
static long counts[WINDOWS];
static void *counts_on(void *unused) {
    volatile char *is_over = counted + WINDOWS * 2 * MIB;
    while (!*is_over)
        for (int i = 0; i < WINDOWS; i++) {
            ++*(volatile long *)(counted + i * 2 * MIB);
            counts[i]++;
        }
    return unused;
}

// Pages are cut while another thread writes beside them.
static void busy_cut(void) {
    CHECK(posix_memalign((void **)&counted, 2 * MIB, (WINDOWS + 1) * 2 * MIB) == 0);
    memset(counted, 0, (WINDOWS + 1) * 2 * MIB);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, counts_on, NULL) == 0);
    for (int i = 0; i < WINDOWS; i++) {
        char *page = counted + i * 2 * MIB + MIB;
        CHECK(page_kib(page) == large_kib);
        CHECK(mprotect(page, 4096, PROT_READ) == 0 && page_kib(page) == 4);
    }
    counted[WINDOWS * 2 * MIB] = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < WINDOWS; i++)
        CHECK(counts[i] > 0 && *(long *)(counted + i * 2 * MIB) == counts[i]);
}

// What a program maps itself.
static void maps(void) {
    size_t bytes = 16 * MIB;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    long before = faults();
    fill(at, bytes, 1);
    CHECK(faults() - before < 16);
    CHECK(madvise(at + 4096, 4096, MADV_DONTNEED) == 0 && at[4096] == 0 && at[0] == 1);
    CHECK(mprotect(at + 8192, 4096, PROT_NONE) == 0 && mprotect(at + 8192, 4096, PROT_READ | PROT_WRITE) == 0);
    at[4096] = 1;
    char *more = mremap(at, bytes, 2 * bytes, MREMAP_MAYMOVE);
    CHECK(more != MAP_FAILED && is_all(more, bytes, 1));
    before = faults();
    CHECK(is_all(more + bytes, bytes, 0));
    fill(more + bytes, bytes, 2);
    CHECK(faults() - before < 32);
    CHECK(mremap(more, 2 * bytes, bytes / 2, 0) == more && is_all(more, bytes / 2, 1));
    CHECK(munmap(more + MIB, 4096) == 0 && more[MIB - 4096] == 1);
    CHECK(munmap(more, bytes / 2) == 0);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    // Who maps more than there is touches little of it.
    before = faults();
    at = mmap(NULL, (size_t)1 << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED && faults() - before < 100);
    CHECK(munmap(at, (size_t)1 << 40) == 0);
    char *end = sbrk(0);
    CHECK(sbrk(12 * MIB) == end);
    before = faults();
    fill(end, 12 * MIB, 5);
    CHECK(faults() - before < 600);
    CHECK(brk(end + MIB) == 0 && sbrk(0) == end + MIB && is_all(end, MIB, 5));
}

// What the pool has not there is not.
static void strict(void) {
    static char *blocks[1000], *small[100000];
    int count = 0;
    while (count < 1000 && (blocks[count] = malloc(MIB)))
        memset(blocks[count++], 1, MIB);
    CHECK(count > 20 && count < 120 && errno == ENOMEM);
    errno = 0;
    CHECK(mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    int pieces = 0;
    while (pieces < 100000 && (small[pieces] = malloc(8192)))
        memset(small[pieces++], 2, 8192);
    CHECK(pieces < 100000 && errno == ENOMEM);
    CHECK(fork() == -1 && errno == ENOMEM && !system("true"));
    free(blocks[--count]);
    CHECK((blocks[count] = malloc(MIB)));
    for (int i = 0; i < count; i++)
        CHECK(is_all(blocks[i], MIB, 1));
    for (int i = 0; i < pieces; i++)
        CHECK(is_all(small[i], 8192, 2));
}

static size_t free_mib(void) {
    struct statfs pool;
    CHECK(!statfs(getenv("STILLFRAME_PAGES"), &pool));
    return pool.f_bfree * pool.f_bsize / MIB;
}

static char *map_mib(size_t mib, size_t bytes) {
    char *at = mmap(NULL, mib * MIB + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && is_all(at, mib * MIB + bytes, 0));
    return at;
}

// What the program maps lies in the pool, and goes back to it.
static void mapped(void) {
    free(block(16 * MIB));
    for (int i = 1; i < 4; i++) {
        // Whole windows, and not.
        for (int bytes = 0; bytes < 200; bytes += 100) {
            char *at = map_mib(20, bytes);
            CHECK(page_kib(at) == large_kib && page_kib(at + 19 * MIB) == large_kib);
            memset(at, i, 20 * MIB + bytes);
            size_t during = free_mib();
            CHECK(!munmap(at, 20 * MIB + bytes) && free_mib() == during + 20);
        }
    }
    // Parts of it, also of two at once.
    char *at = map_mib(24, 0), *next = map_mib(16, 0);
    memset(at, 1, 24 * MIB);
    memset(next, 2, 16 * MIB);
    size_t during = free_mib();
    CHECK(!munmap(at, 4 * MIB) && free_mib() == during + 4 && is_all(at + 4 * MIB, 20 * MIB, 1));
    CHECK(!munmap(at + 9 * MIB, 4096) && is_all(at + 4 * MIB, 5 * MIB, 1) && is_all(at + 9 * MIB + 4096, 15 * MIB - 4096, 1));
    if (next == at + 24 * MIB) {
        CHECK(!munmap(at + 20 * MIB, 8 * MIB) && free_mib() == during + 12);
        CHECK(is_all(at + 9 * MIB + 4096, 11 * MIB - 4096, 1) && is_all(next + 4 * MIB, 12 * MIB, 2));
    }
    CHECK(!munmap(at, 24 * MIB) && !munmap(next, 16 * MIB) && free_mib() + 4 >= during + 40);
    // Who wants memory at a multiple of something maps more, and unmaps what is before and behind.
    for (int i = 0; i < 40; i++) {
        during = free_mib();
        at = map_mib(40, 0);
        char *aligned = (char *)(((uintptr_t)at + 16 * MIB - 1) & ~(16 * MIB - 1)) + 4096;
        CHECK(!munmap(at, (size_t)(aligned - at)) && !munmap(aligned + 16 * MIB, (size_t)(at + 24 * MIB - aligned)));
        memset(aligned, i, 16 * MIB);
        CHECK(is_all(aligned, 16 * MIB, (char)i) && !munmap(aligned, 16 * MIB) && free_mib() + 8 >= during);
    }
    // Something else is mapped over parts.
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    at = map_mib(24, 0);
    memset(at, 6, 24 * MIB);
    CHECK(!munmap(at + 3 * MIB, 5 * MIB));
    CHECK(mmap(at + 4 * MIB, MIB, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == at + 4 * MIB);
    CHECK(mmap(at + 11 * MIB, 8 * MIB, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == at + 11 * MIB);
    CHECK(is_all(at + 4 * MIB, MIB, 0) && is_all(at, 3 * MIB, 6) && is_all(at + 8 * MIB, 3 * MIB, 6));
    CHECK(is_all(at + 11 * MIB, 8 * MIB, 0) && is_all(at + 19 * MIB, 5 * MIB, 6));
    memset(at + 11 * MIB, 7, 8 * MIB);
    pid_t child = fork();
    if (child == 0)
        _exit(is_all(at + 8 * MIB, 3 * MIB, 6) && is_all(at + 11 * MIB, 8 * MIB, 7) ? 0 : 1);
    CHECK(ended(child) == 0 && !munmap(at, 24 * MIB));
    at = map_mib(24, 0);
    CHECK(!munmap(at, 24 * MIB));
    // What the program has there stays beside blocks that come and go, and what fails changes nothing.
    at = map_mib(16, 0);
    next = map_mib(16, 0);
    memset(at, 8, 16 * MIB);
    CHECK(mmap(next, 8 * MIB, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == next);
    memset(next, 9, 8 * MIB);
    errno = 0;
    CHECK(mmap(at, 8 * MIB, PROT_READ, MAP_PRIVATE | MAP_FIXED, 12345, 0) == MAP_FAILED && errno == EBADF && is_all(at, 16 * MIB, 8));
    CHECK(!munmap(at, 16 * MIB));
    for (int i = 0; i < 4; i++) {
        char *blocks[] = {map_mib(16, 0), block(20 * MIB), block(5 * MIB)};
        memset(blocks[1], 1, 20 * MIB);
        memset(blocks[2], 1, 5 * MIB);
        CHECK(!munmap(blocks[0], 16 * MIB) && is_all(next, 8 * MIB, 9) && is_all(next + 8 * MIB, 8 * MIB, 0));
        free(blocks[1]);
        free(blocks[2]);
    }
    CHECK(!munmap(next, 16 * MIB));
    // Also where it unmapped what was there: a part at the end, a part at the begin, or all.
    for (int part = 0; part < 3; part++) {
        at = map_mib(64, 0);
        char *own = at + (part == 0 ? 32 * MIB : 0), *rest = part == 0 ? at : at + 32 * MIB;
        size_t own_bytes = part == 2 ? 64 * MIB : 32 * MIB;
        CHECK(!munmap(own, own_bytes));
        CHECK(mmap(own + 4096, own_bytes - 4096, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == own + 4096);
        memset(own + 4096, 7, own_bytes - 4096);
        char *blocks[] = {block(20 * MIB), block(5 * MIB), map_mib(16, 0), block(MIB)};
        memset(blocks[0], 1, 20 * MIB);
        memset(blocks[1], 1, 5 * MIB);
        memset(blocks[3], 1, MIB);
        CHECK(is_all(own + 4096, own_bytes - 4096, 7));
        free(blocks[0]);
        free(blocks[1]);
        free(blocks[3]);
        CHECK(!munmap(blocks[2], 16 * MIB) && !munmap(own + 4096, own_bytes - 4096));
        CHECK(part == 2 || !munmap(rest, 32 * MIB));
    }
    at = map_mib(20, 0);
    memset(at, 5, 20 * MIB);
    CHECK(!munmap(at + 4096, 20 * MIB - 4096) && is_all(at, 4096, 5) && !munmap(at, 4096));
    // It grows, shrinks and moves.
    at = map_mib(16, 0);
    memset(at, 2, 16 * MIB);
    at = mremap(at, 16 * MIB, 24 * MIB, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED && page_kib(at + 23 * MIB) == large_kib && is_all(at, 16 * MIB, 2) && is_all(at + 16 * MIB, 8 * MIB, 0));
    memset(at, 3, 24 * MIB);
    during = free_mib();
    CHECK(mremap(at, 24 * MIB, 6 * MIB, 0) == at && is_all(at, 6 * MIB, 3) && free_mib() == during + 18);
    at = mremap(at, 6 * MIB, 16 * MIB, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED && is_all(at, 6 * MIB, 3) && is_all(at + 6 * MIB, 10 * MIB, 0));
    char *behind = map_mib(16, 0);
    memset(behind, 4, 16 * MIB);
    during = free_mib();
    if (behind == at + 16 * MIB) {
        errno = 0;
        CHECK(mremap(at, 16 * MIB, 24 * MIB, 0) == MAP_FAILED && errno == ENOMEM && free_mib() == during && page_kib(at) == large_kib);
    }
    at = mremap(at, 16 * MIB, 24 * MIB, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED && is_all(at, 6 * MIB, 3) && is_all(at + 6 * MIB, 18 * MIB, 0) && is_all(behind, 16 * MIB, 4));
    // What was done to it is not done to whoever maps next.
    CHECK(!mprotect(at + 8192, 4096, PROT_NONE) && !madvise(at + 4 * MIB, 4096, MADV_DONTFORK));
    CHECK(!madvise(at, 4096, MADV_DONTNEED) && at[0] == 0 && at[4096] == 3);
    char *moved = mremap(at, 24 * MIB, 32 * MIB, MREMAP_MAYMOVE);
    if (moved != MAP_FAILED) {
        CHECK(moved[4096] == 3 && is_all(moved + 24 * MIB, 8 * MIB, 0) && !munmap(moved, 32 * MIB));
    } else {
        CHECK(errno == EFAULT && !munmap(at, 24 * MIB));
    }
    CHECK(!munmap(behind, 16 * MIB));
    at = map_mib(24, 0);
    memset(at, 5, 24 * MIB);
    child = fork();
    if (child == 0) {
        CHECK(is_all(at, 24 * MIB, 5) && !munmap(at, 24 * MIB));
        memset(map_mib(16, 0), 6, 16 * MIB);
        _exit(0);
    }
    CHECK(ended(child) == 0 && is_all(at, 24 * MIB, 5) && !munmap(at, 24 * MIB));
    // Of more than half of what there is the program may want little, of small ones too, and reservations want nothing.
    size_t most = free_mib() / 2 + 4;
    at = map_mib(most, 0);
    CHECK(page_kib(at + MIB) != large_kib && !munmap(at, most * MIB));
    char *others[] = {mmap(NULL, 16 * MIB, PROT_NONE, flags, -1, 0),
                      mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, -1, 0),
                      mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0),
                      mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
                      mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(others[i] != MAP_FAILED && page_kib(others[i]) != large_kib && !munmap(others[i], 8 * MIB));
}

// The launcher's caller sets a limit of 700 MiB of addresses.
static void limits(void) {
    void *blocks[2000];
    int count = 0;
    while (count < 2000 && (blocks[count] = malloc(MIB)))
        memset(blocks[count++], 1, MIB);
    CHECK(count > 80 && count < 700 && errno == ENOMEM);
    while (count > 0)
        free(blocks[--count]);
    CHECK(blocks[0] = malloc(32 * MIB));
    memset(blocks[0], 1, 32 * MIB);
}

static void locked(void) {
    struct rlimit limit = {0, 0};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    fill(block(24 * MIB), 24 * MIB, 1);
}

static void *allocates(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed + 1;
    char *blocks[64] = {0};
    for (int i = 0; i < 3000; i++) {
        state = state * 1103515245 + 12345;
        char **slot = &blocks[state >> 16 & 63];
        if (*slot) {
            CHECK((*slot)[0] == (char)(uintptr_t)seed);
            free(*slot);
        }
        size_t bytes = 1 + (state >> 8) % 5000;
        *slot = memset(block(bytes), (char)(uintptr_t)seed, bytes);
    }
    char stack[200000];
    memset(stack, 1, sizeof stack);
    for (int i = 0; i < 63; i++)
        free(blocks[i]);
    if ((uintptr_t)seed % 10 == 1)
        pthread_exit(blocks[63]);
    return blocks[63];
}

static void threads(void) {
    free(block(10 * MIB));
    pthread_t all[100];
    for (int round = 0; round < 2; round++) {
        for (uintptr_t i = 0; i < 100; i++)
            CHECK(pthread_create(&all[i], NULL, allocates, (void *)i) == 0);
        for (int i = 0; i < 100; i++) {
            void *left = NULL;
            CHECK(pthread_join(all[i], &left) == 0);
            free(left);
        }
    }
}

// Whoever writes after a fork has its own: parent, child, and the child's child.
static void forks(void) {
    size_t bytes = 24 * MIB;
    char *at = block(bytes);
    fill(at, bytes, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(is_all(at, bytes, 1) && page_kib(at) == 4);
        fill(at, bytes, 2);
        char *own = block(9 * MIB);
        fill(own, 9 * MIB, 4);
        pid_t next = fork();
        if (next == 0) {
            fill(at, bytes, 3);
            _exit(is_all(at, bytes, 3) && is_all(own, 9 * MIB, 4) ? 5 : 1);
        }
        CHECK(WEXITSTATUS(ended(next)) == 5);
        _exit(is_all(at, bytes, 2) ? 6 : 1);
    }
    fill(at, bytes / 2, 7);
    CHECK(ended(child) == 6 << 8);
    CHECK(is_all(at, bytes / 2, 7) && is_all(at + bytes / 2, bytes / 2, 1) && page_kib(at + bytes - 1) == large_kib);
    // A child that runs another program, in all ways.
    char *true_[] = {"/bin/true", NULL};
    if ((child = fork()) == 0) {
        execv(true_[0], true_);
        _exit(1);
    }
    CHECK(ended(child) == 0);
    if ((child = vfork()) == 0) {
        execv(true_[0], true_);
        _exit(1);
    }
    CHECK(ended(child) == 0);
    CHECK(posix_spawn(&child, true_[0], NULL, NULL, true_, environ) == 0 && ended(child) == 0);
    CHECK(system("exit 3") == 3 << 8);
    CHECK(is_all(at, bytes / 2, 7));
    if ((child = fork()) == 0) {
        // The C library's own fork.
        CHECK(daemon(1, 1) == 0 && is_all(at, bytes / 2, 7));
        fill(at, bytes, 9);
        _exit(0);
    }
    CHECK(ended(child) == 0);
    CHECK(is_all(at, bytes / 2, 7));
}

static volatile int is_over;
// Gives each page that is touched first a content of its own.
static void *serves_faults(void *descriptor) {
    static char page[4096] __attribute__((aligned(4096)));
    memset(page, 7, sizeof page);
    struct uffd_msg message;
    while (read(*(int *)descriptor, &message, sizeof message) == sizeof message) {
        struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~(__u64)4095, .src = (uintptr_t)page, .len = 4096};
        CHECK(!ioctl(*(int *)descriptor, UFFDIO_COPY, &copy));
    }
    return NULL;
}

// A program fills its memory itself as it is touched: mapped, grown, and of the heap.
static void lazy(void) {
    alarm(60);
    free(block(16 * MIB));
    static int descriptor;
    CHECK((descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC)) >= 0);
    struct uffdio_api api = {.api = UFFD_API};
    CHECK(!ioctl(descriptor, UFFDIO_API, &api));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, serves_faults, &descriptor));
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    // The last page is not whole.
    char *mapped = mmap(NULL, 16 * MIB + 100, protection, flags, -1, 0), *grown = mmap(NULL, 4 * MIB, protection, flags, -1, 0);
    CHECK(mapped != MAP_FAILED && grown != MAP_FAILED);
    grown = mremap(grown, 4 * MIB, 16 * MIB, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED);
    char *heap = (char *)(((uintptr_t)block(18 * MIB) + 2 * MIB - 1) & ~(2 * MIB - 1));
    char *all[] = {mapped, grown, heap};
    for (int i = 0; i < 3; i++) {
        size_t bytes = 16 * MIB + (i ? 0 : 4096);
        // What was written before stays.
        all[i][5 * MIB] = 3;
        struct uffdio_register range = {.range = {(uintptr_t)all[i], bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
        CHECK(!ioctl(descriptor, UFFDIO_REGISTER, &range));
        for (size_t at = 0; at < bytes; at += 4096)
            CHECK(all[i][at] == (at == 5 * MIB ? 3 : 7));
    }
}

static char *written;
static size_t written_bytes;
static void *writes(void *unused) {
    for (char with = 1; !is_over; with++)
        fill(written, written_bytes, with);
    return unused;
}

// Forks while other threads write everything, and the pool may be empty.
static void busy_forks(void) {
    written_bytes = 40 * MIB;
    written = block(written_bytes);
    pthread_t all[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&all[i], NULL, writes, NULL) == 0);
    int done = 0, failed = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            fill(written, written_bytes, 100);
            _exit(is_all(written, written_bytes, 100) ? 0 : 1);
        }
        if (child < 0) {
            CHECK(errno == ENOMEM);
            failed++;
            continue;
        }
        CHECK(ended(child) == 0);
        done++;
    }
    is_over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(all[i], NULL);
    printf("%d %d\n", done, failed);
}

static _Atomic pid_t forking;
static _Atomic int has_forked;
static void *forks_once(void *unused) {
    forking = (pid_t)syscall(SYS_gettid);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    has_forked = 1;
    CHECK(child > 0 && ended(child) == 0);
    return unused;
}

// Threads have memory while a child that copies is stopped, as by a debugger.
static void stopped_copy(void) {
    alarm(60);
    fill(block(200 * MIB), 200 * MIB, 1);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, forks_once, NULL));
    while (!forking)
        sched_yield();
    char path[64], text[16] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/children", forking);
    int children = open(path, O_RDONLY);
    CHECK(children >= 0);
    while (pread(children, text, sizeof text - 1, 0) <= 0 && !has_forked)
        sched_yield();
    pid_t child = atoi(text);
    // Where the copy was faster there is nothing to see.
    if (child)
        kill(child, SIGSTOP);
    fill(block(40 * MIB), 40 * MIB, 2);
    if (child)
        kill(child, SIGCONT);
    CHECK(!pthread_join(thread, NULL));
    close(children);
}

static void *allocates_on(void *seed) {
    while (!is_over)
        free(allocates(seed));
    return seed;
}

static int by_address(const void *left, const void *right) {
    const char *one = *(char *const *)left, *other = *(char *const *)right;
    return (one > other) - (one < other);
}

// A child of a process that has threads has no block again that it freed of its parent's: it never enters the allocator, in which a thread of
// the parent may have been.
static void orphan(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, allocates_on, (void *)1));
    enum { COUNT = 1000 };
    char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        memset(blocks[i] = block(64), i, 64);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        char *grown = realloc(blocks[7], 400), *shrunk = realloc(blocks[8], 10);
        CHECK(grown && is_all(grown, 64, 7) && shrunk && is_all(shrunk, 10, 8));
        memset(grown, 9, 400);
        free(grown);
        free(shrunk);
        for (int i = 9; i < COUNT; i++)
            free(blocks[i]);
        qsort(blocks, COUNT, sizeof *blocks, by_address);
        for (int i = 0; i < 20000; i++) {
            char *next = i % 3 == 0 ? calloc(1, 64) : block(64);
            CHECK(next && (i % 3 || is_all(next, 64, 0)));
            CHECK(!bsearch(&next, blocks, COUNT, sizeof *blocks, by_address));
            memset(next, 1, 64);
        }
        void *aligned;
        CHECK(!posix_memalign(&aligned, 256, 100) && (uintptr_t)aligned % 256 == 0);
        CHECK(!malloc_usable_size(NULL) && malloc_usable_size(aligned) >= 100 && malloc_usable_size(blocks[0]) >= 64);
        free(aligned);
        // Large ones are as ever.
        fill(block(8 * MIB), 8 * MIB, 3);
        is_over = 1;
        for (int i = 0; i < 20; i++)
            CHECK(!pthread_create(&thread, NULL, allocates_on, (void *)1) && !pthread_join(thread, NULL));
        pid_t grandchild = fork();
        if (grandchild == 0) {
            free(block(64));
            exit(0);
        }
        CHECK(ended(grandchild) == 0);
        exit(0);
    }
    CHECK(ended(child) == 0);
    is_over = 1;
    CHECK(!pthread_join(thread, NULL));
}

// Children of a process whose threads allocate, and begin, all the time. Each allocates, too, and begins a thread.
static void storm(void) {
    free(block(10 * MIB));
    pthread_t all[6];
    for (uintptr_t i = 0; i < 6; i++)
        CHECK(pthread_create(&all[i], NULL, allocates_on, (void *)(10 * i)) == 0);
    int done = 0;
    for (int i = 0, rounds = by_tier(10, 40); i < rounds; i++) {
        pthread_t brief;
        CHECK(pthread_create(&brief, NULL, allocates, (void *)20) == 0);
        pid_t child = fork();
        if (child == 0) {
            alarm(150);
            pthread_t own;
            CHECK(pthread_create(&own, NULL, allocates, (void *)30) == 0);
            free(allocates((void *)40));
            pthread_join(own, NULL);
            free(block(3 * MIB));
            _exit(0);
        }
        CHECK(child > 0 || errno == ENOMEM);
        CHECK(pthread_join(brief, NULL) == 0);
        if (child > 0) {
            CHECK(ended(child) == 0);
            done++;
        }
    }
    is_over = 1;
    for (int i = 0; i < 6; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
    CHECK(done > 0);
}

static char zeros[12 << 20];
static int numbers[3 << 20] = {1, 2, 3, [1 << 20] = 5, [(1 << 20) + 2048] = 6, [2 << 20] = 7};
static char *const pointers[] = {zeros, zeros + 1};

static char *page_of(void *address) {
    return (char *)((uintptr_t)address / 4096 * 4096);
}

// What lies in the program: static arrays and COMMON blocks.
static void loaded(void) {
    CHECK(numbers[0] == 1 && numbers[2] == 3 && numbers[3] == 0 && numbers[(3 << 20) - 1] == 0);
    CHECK(pointers[1] == zeros + 1);
    CHECK(page_kib(zeros + 5 * MIB) == large_kib && page_kib((char *)numbers + 5 * MIB) == large_kib);
    long before = faults();
    fill(zeros, sizeof zeros, 1);
    fill((char *)numbers, sizeof numbers, 1);
    CHECK(faults() - before < 1100);
    pid_t child = fork();
    if (child == 0) {
        CHECK(is_all(zeros, sizeof zeros, 1));
        fill(zeros, sizeof zeros, 2);
        _exit(0);
    }
    CHECK(ended(child) == 0 && is_all(zeros, sizeof zeros, 1));
    char *page = (char *)(((uintptr_t)zeros + 6 * MIB) / 4096 * 4096);
    CHECK(mprotect(page, 4096, PROT_READ) == 0 && page[0] == zeros[page - zeros]);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    CHECK(madvise(page, 4096, MADV_DONTNEED) == 0 && page[0] == 0);
    // Of a private mapping of a file the file's content is there again.
    int *second = numbers + (1 << 20), *third = numbers + (2 << 20);
    page = page_of(second);
    page[-1] = page[12288] = 9;
    CHECK(madvise(page, 12288, MADV_DONTNEED) == 0 && second[0] == 5 && second[1] == 0 && second[2048] == 6);
    CHECK(page[-1] == 9 && page[12288] == 9);
    // The same in memory that became ordinary, whatever its protection, and not where something else was mapped since.
    page = page_of(third);
    *third = 9;
    CHECK(mprotect(page, 4096, PROT_READ) == 0 && *third == 9);
    CHECK(madvise(page, 4096, MADV_DONTNEED) == 0 && *third == 7);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(page, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) == page && *third == 0);
    CHECK(madvise(page, 4096, MADV_DONTNEED) == 0 && *third == 0);
}

static int deep(int left) {
    volatile char here[64 << 10];
    here[0] = here[sizeof here / 2] = (char)left;
    return left == 0 ? here[0] : deep(left - 1) + here[sizeof here / 2];
}

// 6 MiB of the stack are there before anybody stands on them.
static void *stands(void *unused) {
    long before = faults();
    deep(90);
    CHECK(faults() - before < 40);
    return unused;
}

static void stack(void) {
    free(block(16 * MIB));
    long before = faults();
    deep(90);
    CHECK(faults() - before < 40);
    pthread_t thread;
    pthread_attr_t attributes;
    void *lowest;
    size_t bytes;
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &lowest, &bytes) == 0 && bytes > 7 * MIB);
    pthread_attr_destroy(&attributes);
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 8 * MIB) == 0);
    CHECK(pthread_create(&thread, &attributes, stands, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

// Takes MiB in blocks of 1 MiB, and keeps and checks them all.
static void take(int mib, int is_waiting) {
    char **blocks = block(mib * sizeof *blocks);
    for (int i = 0; i < mib; i++)
        fill(blocks[i] = block(MIB), MIB, (char)i);
    for (int i = 0; i < mib; i++)
        CHECK(is_all(blocks[i], MIB, (char)i));
    puts("taken");
    fflush(stdout);
    if (is_waiting)
        getchar();
    for (int i = 0; i < mib; i++)
        free(blocks[i]);
    free(blocks);
}

static void opens(const char *path) {
    free(block(16 * MIB));
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library && dlsym(library, "late_version") != NULL);
    CHECK(!dlopen("/nowhere.so", RTLD_NOW) && dlerror());
    CHECK(dlclose(library) == 0);
}

static void aborts(void) {
    fill(block(16 * MIB), 16 * MIB, 0x5a);
    abort();
}

static pthread_barrier_t together_now;
static void *asks(void *unused) {
    size_t bytes = 100 * MIB;
    pthread_barrier_wait(&together_now);
    char *at = malloc(bytes);
    if (at)
        at[bytes - 1] = 1;
    pthread_barrier_wait(&together_now);
    int has_got = at != 0;
    free(at);
    return has_got ? &together_now : 0;
}

// Threads that ask for large blocks at the same moment all get one.
static void together(void) {
    int count = by_tier(8, 24);
    pthread_t threads[24];
    CHECK(!pthread_barrier_init(&together_now, 0, (unsigned)count));
    for (int i = 0; i < count; i++)
        CHECK(!pthread_create(&threads[i], 0, asks, 0));
    for (int i = 0; i < count; i++) {
        void *got;
        CHECK(!pthread_join(threads[i], &got) && got);
    }
}

static void *asks_once(void *unused) {
    // More than there is yet, so that memory is looked for.
    free(block(80 * MIB));
    return unused;
}

// A thread with as small a stack as there may be asks for memory.
static void small_stack(void) {
    free(block(20 * MIB));
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(!pthread_attr_init(&attributes));
    CHECK(!pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN)));
    CHECK(!pthread_create(&thread, &attributes, asks_once, 0) && !pthread_join(thread, 0));
}

// Whatever the kernel does not let a container do: calls that it refuses.
static void refuse_call(int number) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

static atomic_int is_said;
static int waits_for_word(void *unused) {
    while (!is_said)
        usleep(100);
    return unused != NULL;
}

static void confined(void) {
    size_t bytes = 20 * MIB;
    char *at = block(bytes);
    fill(at, bytes, 7);
    refuse_call(SYS_process_vm_writev);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int is_whole = is_all(at, bytes, 7);
        fill(at, bytes, 8);
        _exit(is_whole && is_all(at, bytes, 8) ? 0 : 1);
    }
    CHECK(ended(child) == 0 && is_all(at, bytes, 7));
    // Nobody can be made to wait any more, so with a second thread a large page stays whole.
    refuse_call(SYS_userfaultfd);
    char *part = (char *)(((uintptr_t)at + 2 * MIB) & ~(2 * MIB - 1));
    thrd_t other;
    CHECK(thrd_create(&other, waits_for_word, NULL) == thrd_success);
    errno = 0;
    CHECK(mprotect(part + 4096, 4096, PROT_READ) == -1 && errno == ENOMEM);
    is_said = 1;
    CHECK(thrd_join(other, NULL) == thrd_success);
    pthread_t thread;
    CHECK(!pthread_create(&thread, 0, asks_once, 0) && !pthread_join(thread, 0));
    errno = 0;
    CHECK(mprotect(part + 4096, 4096, PROT_READ) == -1 && errno == ENOMEM);
    fill(at, bytes, 9);
    CHECK(is_all(at, bytes, 9));
}

static int stacked;
static void *forks_there(void *unused) {
    errno = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    stacked = child > 0 && ended(child) == 0;
    return unused;
}

// A thread whose stack is a block of the heap stands on ordinary memory, and forks.
static void own_stack(void) {
    size_t bytes = 8 * MIB;
    free(block(20 * MIB));
    void *stack = 0;
    CHECK(!posix_memalign(&stack, 4096, bytes) && page_kib((char *)stack + bytes - 4096) > 4);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstack(&attributes, stack, bytes));
    CHECK(!pthread_create(&thread, &attributes, forks_there, 0) && !pthread_join(thread, 0));
    CHECK(stacked && page_kib((char *)stack + bytes - 4096) == 4);
}

static void empty(void) {}
enum { FIBERS = 40 };
static ucontext_t callers;
static atomic_int fiber_turn = -1, is_there, fiber_signals;
static char *fiber_stacks[FIBERS];

static void counts_signal(int number) {
    (void)number;
    fiber_signals++;
}

// Of as many arguments as it is given, of which some are on its stack.
static void stands_there(int a, int b, int c, int d, int e, int f, int g, int h) {
    CHECK(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8);
    is_there = 1;
    for (int mine = fiber_turn; fiber_turn == mine;)
        ;
}

static void *runs_fibers(void *unused) {
    for (int i = 0; i < FIBERS; i++) {
        while (fiber_turn != i)
            ;
        ucontext_t fiber;
        CHECK(!getcontext(&fiber));
        fiber.uc_stack.ss_sp = fiber_stacks[i];
        fiber.uc_stack.ss_size = MIB;
        fiber.uc_link = &callers;
        makecontext(&fiber, (void (*)(void))stands_there, 8, 1, 2, 3, 4, 5, 6, 7, 8);
        CHECK(page_kib(fiber_stacks[i] + MIB / 2) == 4 && !swapcontext(&callers, &fiber));
    }
    return unused;
}

static void *sends(void *to) {
    while (fiber_turn < FIBERS) {
        pthread_kill(*(pthread_t *)to, SIGUSR1);
        usleep(20);
    }
    return NULL;
}

// A thread on a stack of malloc's gets signals while another cuts memory beside it; and it forks there.
static void fibers(void) {
    char *beside[FIBERS];
    signal(SIGUSR1, counts_signal);
    free(block(20 * MIB));
    for (int i = 0; i < FIBERS; i++) {
        fill(fiber_stacks[i] = block(MIB), MIB, 1);
        fill(beside[i] = block(MIB + MIB / 8), MIB, 1);
    }
    pthread_t runner, sender;
    CHECK(!pthread_create(&runner, NULL, runs_fibers, NULL) && !pthread_create(&sender, NULL, sends, &runner));
    for (int i = 0; i < FIBERS; i++) {
        is_there = 0;
        fiber_turn = i;
        while (!is_there)
            ;
        char *page = (char *)(((uintptr_t)beside[i] + 65536) / 4096 * 4096);
        usleep(200);
        CHECK(!mprotect(page, 4096, PROT_READ));
        usleep(200);
    }
    int seen = fiber_signals;
    while (fiber_signals < seen + 2)
        ;
    fiber_turn = FIBERS;
    CHECK(!pthread_join(sender, NULL) && !pthread_join(runner, NULL));
    ucontext_t fiber;
    CHECK(!getcontext(&fiber));
    CHECK((fiber.uc_stack.ss_sp = block(8 * MIB)) && page_kib((char *)fiber.uc_stack.ss_sp + 4 * MIB) > 4);
    fiber.uc_stack.ss_size = 8 * MIB;
    fiber.uc_link = &callers;
    makecontext(&fiber, empty, 0);
    CHECK(!swapcontext(&callers, &fiber));
    makecontext(&fiber, (void (*)(void))forks_there, 1, 0);
    CHECK(!swapcontext(&callers, &fiber) && stacked);
    // What is no description of a stack the kernel refuses.
    CHECK(sigaltstack((stack_t *)8, NULL) == -1 && errno == EFAULT);
}

static void *waits(void *unused) {
    for (;;)
        pause();
    return unused;
}

// A process that has used up the pool forks, though the C library writes to what lies there in the child: with several
// threads it opens the locks of files.
static void full_forks(void) {
    enum { FILES = 64 };
    FILE *files[FILES];
    size_t bytes = 20 * MIB;
    // The first blocks of a process are ordinary memory.
    for (int i = 0; i < 4000; i++)
        memset(block(4000), 1, 4000);
    for (int i = 0; i < FILES; i++) {
        CHECK((files[i] = fopen("/dev/null", "w")));
        memset(block(100000), 1, 100000);
    }
    CHECK(page_kib(files[FILES - 1]) > 4);
    // More than there is.
    char *first = block(bytes);
    for (int i = 0; i < 8; i++)
        fill(block(bytes), bytes, 5);
    fill(first, bytes, 5);
    pthread_t thread;
    CHECK(!pthread_create(&thread, 0, waits, 0));
    for (int round = 0; round < 8; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int is_whole = is_all(first, bytes, 5);
            fill(first, bytes, 6);
            _exit(is_whole && fputs("there", files[round]) >= 0 ? 0 : 1);
        }
        CHECK(ended(child) == 0 && is_all(first, bytes, 5));
    }
}

static volatile sig_atomic_t rung;
static void rings(int number) {
    free(block(64 * MIB));
    rung = number;
}

// A signal that comes while the process forks, whose handler asks for memory, waits until that is done.
static void rung_at(void) {
    size_t bytes = 24 * MIB;
    char *at = block(bytes);
    fill(at, bytes, 3);
    signal(SIGALRM, rings);
    for (int round = 0; round < 20; round++) {
        struct itimerval soon = {{0, 0}, {0, 200 + 700 * round}};
        rung = 0;
        CHECK(!setitimer(ITIMER_REAL, &soon, 0));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(is_all(at, bytes, 3) ? 0 : 1);
        while (!rung)
            usleep(100);
        CHECK(ended(child) == 0);
    }
}

static atomic_int is_cancelled, has_all;
static void *allocates_cancelled(void *unused) {
    while (!is_cancelled)
        ;
    // More than the pool has, of which the library says so.
    for (int i = 0; i < 20; i++)
        fill(block(8 * MIB), 8 * MIB, 1);
    has_all = 1;
    pthread_testcancel();
    return unused;
}

// A thread that somebody has cancelled gets its memory before it ends: to ask for it is no place to end at.
static void cancelled(void) {
    alarm(60);
    free(block(16 * MIB));
    pthread_t thread;
    void *left = NULL;
    CHECK(!pthread_create(&thread, NULL, allocates_cancelled, NULL) && !pthread_cancel(thread));
    is_cancelled = 1;
    CHECK(!pthread_join(thread, &left) && left == PTHREAD_CANCELED && has_all);
    fill(block(90 * MIB), 90 * MIB, 1);
}

static atomic_int taker;
static void *takes_more(void *unused) {
    taker = (int)syscall(SYS_gettid);
    for (int i = 0; i < 20; i++)
        fill(block(8 * MIB), 8 * MIB, 1);
    has_all = 1;
    return unused;
}

// Whether a thread of this process waits until it has written to standard error.
static int waits_to_say(int thread) {
    char path[64];
    long call = -1;
    unsigned long descriptor = 0;
    char state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    FILE *file = fopen(path, "r");
    if (file) {
        int count = fscanf(file, "%ld %lx", &call, &descriptor);
        fclose(file);
        return count == 2 && call == SYS_write && descriptor == 2;
    }
    // Where the kernel tells no calls: there is nothing else that it could sleep for.
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    CHECK((file = fopen(path, "r")) && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    return state == 'S';
}

// Standard error is a pipe that nobody reads yet. One thread waits until it can say that the pool is empty, and all others go on.
static void unheard(void) {
    alarm(120);
    char line[4096] = {0};
    int flags = fcntl(2, F_GETFL);
    CHECK(!fcntl(2, F_SETFL, flags | O_NONBLOCK));
    while (write(2, line, sizeof line) > 0 || write(2, line, 1) > 0)
        ;
    CHECK(errno == EAGAIN && !fcntl(2, F_SETFL, flags));
    free(block(16 * MIB));
    pthread_t thread, other;
    CHECK(!pthread_create(&thread, NULL, takes_more, NULL));
    while (!taker || !waits_to_say(taker)) {
        if (has_all)
            _exit(3);
        usleep(1000);
    }
    takes_more(NULL);
    for (int i = 0; i < 100000; i++)
        memset(block(1000), 1, 1000);
    CHECK(!pthread_create(&other, NULL, comes_and_goes, NULL) && !pthread_join(other, NULL));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        fill(block(20 * MIB), 20 * MIB, 1);
        syscall(SYS_exit_group, 0);
    }
    CHECK(ended(child) == 0);
    puts("taken");
    fflush(stdout);
    CHECK(!pthread_join(thread, NULL));
}

static atomic_int is_read_enough;
static atomic_long lines_read, all_flushed;

// Reads lines into memory that grows, while it has the file.
static void *reads_lines(void *path) {
    while (!is_read_enough) {
        FILE *file = fopen(path, "r");
        CHECK(file);
        char *line = NULL;
        size_t bytes = 0;
        // Each line is kept.
        for (; getline(&line, &bytes, file) > 0; line = NULL, bytes = 0)
            lines_read++;
        fclose(file);
    }
    return path;
}

static void *flushes_all(void *unused) {
    while (!is_read_enough) {
        fflush(NULL);
        all_flushed++;
    }
    return unused;
}

// A thread reads a file, another one flushes all, and this one forks: each goes on.
static void files_and_forks(void) {
    alarm(150);
    char path[] = "/tmp/stillframe-lines-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *file = fdopen(descriptor, "w");
    CHECK(file);
    for (int i = 0; i < 2000; i++)
        fprintf(file, "%0300d\n", i);
    fclose(file);
    fill(block(12 * MIB), 12 * MIB, 1);
    pthread_t reader, flusher;
    CHECK(!pthread_create(&reader, NULL, reads_lines, path) && !pthread_create(&flusher, NULL, flushes_all, NULL));
    for (int forks = 0; forks < 200 || lines_read < 200000 || all_flushed < 2000; forks++) {
        pid_t child = fork();
        CHECK(child >= 0 || errno == ENOMEM);
        if (child == 0) {
            // A child may use files, too.
            fflush(NULL);
            _exit(0);
        }
        CHECK(child < 0 || ended(child) == 0);
    }
    is_read_enough = 1;
    CHECK(!pthread_join(reader, NULL) && !pthread_join(flusher, NULL));
    unlink(path);
}

static char *written;
static size_t written_bytes;
static atomic_int is_written_enough;
static void *writes_on(void *unused) {
    while (!is_written_enough)
        for (size_t at = 0; at < written_bytes; at += 65536)
            written[at]++;
    return unused;
}

// All of the pool is in use and written, and no descriptor is to be had: a child that could not copy all is an error of its fork.
static void full_forks_unseen(void) {
    alarm(150);
    written = block(written_bytes = 60 * MIB);
    fill(written, written_bytes, 1);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, writes_on, NULL));
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
    for (int i = 0; i < 20; i++) {
        pid_t child = i % 2 ? fork() : _Fork();
        if (child == 0)
            _exit(0);
        CHECK(child > 0 ? ended(child) == 0 : errno == ENOMEM);
    }
    // The last one has memory, and files can be had again.
    is_written_enough = 1;
    CHECK(!pthread_join(thread, NULL));
    fill(block(1 * MIB), 1 * MIB, 1);
    for (int descriptor = 3; descriptor < 64; descriptor++)
        close(descriptor);
    pid_t child = fork();
    CHECK(child >= 0 || errno == ENOMEM);
    if (child == 0)
        _exit(0);
    CHECK(child < 0 || ended(child) == 0);
}

static volatile long *forked;
static pid_t (*forks_by)(void);
static void forks_when_rung(int number) {
    (void)number;
    int before = errno;
    pid_t child = forks_by();
    if (child == 0)
        _exit(0);
    CHECK(child > 0 ? ended(child) == 0 : errno == EAGAIN);
    forked[child > 0]++;
    errno = before;
}

static void *reads_on(void *into) {
    int zeros = open("/dev/zero", O_RDONLY);
    CHECK(zeros >= 0);
    while (!is_over)
        for (size_t at = 0; at < 24 * MIB; at += 65536)
            // A signal may end it early.
            CHECK(read(zeros, (char *)into + at, 65536) > 0);
    close(zeros);
    return into;
}

// The kernel writes into memory of a thread while another one forks, and nothing of the pool is left: no read fails of that.
static void reads_and_forks(void) {
    char *into = block(24 * MIB);
    for (int i = 0; i < 100 && free_mib() > 4; i++)
        fill(block(3 * MIB), 3 * MIB, 1);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, reads_on, into));
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        CHECK(child > 0 ? ended(child) == 0 : errno == ENOMEM);
    }
    is_over = 1;
    CHECK(!pthread_join(thread, NULL));
}

// A handler of a signal forks, while its thread takes and frees memory. It may have to do so again.
static void rung_forks(void) {
    enum { FORKS = 100 };
    forked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(forked != MAP_FAILED);
    pid_t (*by[])(void) = {fork, _Fork};
    for (int i = 0; i < 4; i++) {
        // A large block, and small ones that need more room each time.
        int is_large = i < 2;
        forks_by = by[i % 2];
        forked[0] = forked[1] = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            signal(SIGALRM, forks_when_rung);
            long seen = -1;
            for (long step = 0; forked[1] < FORKS; step++) {
                // Once each time: a fork may take longer than until the next one.
                long all = forked[0] + forked[1];
                struct itimerval soon = {{0, 0}, {0, 300 + all % 50}};
                if (all > seen)
                    CHECK(!setitimer(ITIMER_REAL, &soon, 0));
                seen = all;
                char *volatile at = block(is_large ? 2 * MIB : 2000);
                *at = 1;
                if (is_large || step % 64)
                    free(at);
            }
            _exit(0);
        }
        // Who hangs forks no more.
        int waits = 0;
        for (long seen = -1; waitpid(child, NULL, WNOHANG) == 0; usleep(100000)) {
            waits = forked[1] == seen ? waits + 1 : 0;
            if (waits > 1000)
                kill(child, SIGKILL);
            CHECK(waits <= 1000);
            seen = forked[1];
        }
        CHECK(forked[1] >= FORKS);
    }
}

// Who takes the number of standard error for a file of his own finds only his own in it.
static void own_file(const char *path) {
    close(2);
    CHECK(open(path, O_CREAT | O_TRUNC | O_RDWR, 0600) == 2);
    for (int i = 0; i < 8; i++)
        CHECK(malloc(20 * MIB));
    _exit(lseek(2, 0, SEEK_END) == 0 ? 0 : 1);
}

int main(int count, char **arguments) {
    const char *scene = count > 1 ? arguments[1] : "";
    int number = count > 2 ? atoi(arguments[2]) : 0;
    if (getenv("LARGE_KIB"))
        large_kib = atoi(getenv("LARGE_KIB"));
    struct {
        const char *name;
        void (*play)(void);
    } all[] = {{"reused", reused}, {"ticked", ticked}, {"sparse", sparse}, {"limited", limited}, {"reads_and_forks", reads_and_forks}, {"strict", strict}, {"mapped", mapped}, {"orphan", orphan}, {"stopped_copy", stopped_copy}, {"freed_forks", freed_forks},
               {"passing_threads", passing_threads}, {"tight", tight}, {"grows", grows}, {"grow_apart", grow_apart}, {"large", large}, {"heap", heap},       {"odd", odd},     {"cut", cut}, {"busy_cut", busy_cut},
               {"maps", maps},       {"limits", limits},   {"locked", locked}, {"threads", threads},
               {"forks", forks},     {"busy_forks", busy_forks}, {"storm", storm}, {"loaded", loaded}, {"stack", stack},
               {"aborts", aborts},   {"together", together}, {"small_stack", small_stack}, {"confined", confined},
               {"own_stack", own_stack}, {"rung_at", rung_at}, {"full_forks", full_forks},
               {"rung_forks", rung_forks},
               {"files_and_forks", files_and_forks},
               {"lazy", lazy},
               {"full_forks_unseen", full_forks_unseen},
               {"advised", advised}, {"child_holes", child_holes},
               {"cancelled", cancelled}, {"unheard", unheard},
               {"fibers", fibers}, {"moves", moves}, {"holes", holes}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(scene, all[i].name)) {
            all[i].play();
            return 0;
        }
    if (!strcmp(scene, "take"))
        take(number, 0);
    else if (!strcmp(scene, "hold"))
        take(number, 1);
    else if (!strcmp(scene, "hold_and_take")) {
        take(number, 1);
        take(2 * number, 0);
    } else if (!strcmp(scene, "opens"))
        opens(arguments[2]);
    else if (!strcmp(scene, "own_file"))
        own_file(arguments[2]);
    else
        return 2;
    return 0;
}
