// Scenes of the calls by which programs and their libraries change memory, beside those of scenes.c. Each ends with 0 where everything was as it
// is on any system, and where what was asked for lay in pages of the size that is said. The argument: a scene.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <fcntl.h>

#include "scene.h"

static int is_resident(const void *page) {
    unsigned char there = 0;
    CHECK(!mincore((void *)page, 4096, &there));
    return there & 1;
}

// Advice that changes nothing that a program sees costs no large page, also where some of an array is ordinary memory.
static void advised_in_part(void) {
    enum { POPULATE_WRITE = 23, COLD = 20 };
    int all[] = {MADV_HUGEPAGE, MADV_NORMAL, MADV_WILLNEED, MADV_FREE, COLD, POPULATE_WRITE, MADV_DONTFORK, MADV_DOFORK, MADV_DONTDUMP, MADV_DODUMP};
    // The process is small yet.
    char *first = block(2 * MIB);
    fill(first, 2 * MIB, 1);
    char *array = block(64 * MIB);
    CHECK(page_kib(array + 32 * MIB) == large_kib && page_kib(first) != large_kib);
    char *begin = first + 3 * MIB > array ? first : array;
    begin = (char *)(((uintptr_t)begin + 4095) & ~(uintptr_t)4095);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fill(array, 64 * MIB, 7);
        CHECK(!madvise(begin, 60 * MIB, all[i]) || errno == EINVAL);
        CHECK(page_kib(array + 32 * MIB) == large_kib);
        // What may be taken of it any time is not large.
        CHECK(is_all(array + 8 * MIB, 48 * MIB, 7));
    }
    fill(array, 64 * MIB, 7);
    CHECK(!madvise(begin, 60 * MIB, MADV_DONTNEED));
    CHECK(page_kib(array + 32 * MIB) == large_kib && is_all(begin, 60 * MIB, 0));
    CHECK(array[64 * MIB - 4096] == 7);
}

// Libraries that have memory registered with a device hear of each page that goes, also where the heap gives it up.
static void cached(void) {
    int (*has_heard)(const void *) = (int (*)(const void *))dlsym(RTLD_DEFAULT, "has_heard");
    CHECK(has_heard);
    size_t bytes = 64 * MIB;
    char *array = block(bytes);
    uintptr_t before = (uintptr_t)array;
    fill(array, bytes, 1);
    free(array);
    char *next = calloc(1, bytes);
    // Blocks begin at other lines of the caches each.
    CHECK((uintptr_t)next / 65536 == before / 65536);
    int gone = 0;
    for (size_t at = 4096; at < bytes - 4096; at += 4096)
        if (!is_resident((char *)(((uintptr_t)next + at) & ~(uintptr_t)4095))) {
            CHECK(has_heard(next + at));
            gone++;
        }
    CHECK(is_all(next, bytes, 0));
    // A block of which the program took a part away is made whole again when it is freed.
    char *cut = block(16 * MIB);
    fill(cut, 16 * MIB, 1);
    char *part = (char *)(((uintptr_t)cut + 4 * MIB) & ~(uintptr_t)4095);
    CHECK(!mprotect(part, MIB, PROT_READ) && !has_heard(part));
    free(cut);
    CHECK(has_heard(part));
    fprintf(stderr, "%d pages are gone\n", gone);
}

// What is to be there at once takes its memory once.
static void populated(void) {
    free(block(12 * MIB));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    // No multiple of a large page.
    size_t bytes = 64 * MIB + 4096;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(at != MAP_FAILED);
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < (long)((bytes + 16 * MIB) >> 10));
    CHECK(is_resident(at) && is_resident(at + 32 * MIB));
    CHECK(!munmap(at, bytes));
}

// A monitor of libraries that have memory registered with a device asks to hear what is unmapped. What a device has of memory stays there.
static void registered(void) {
    alarm(60);
    free(block(12 * MIB));
    int descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    CHECK(descriptor >= 0);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP};
    CHECK(!ioctl(descriptor, UFFDIO_API, &api));
    char *mapped = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED && is_resident(mapped));
    struct uffdio_register range = {.range = {(uintptr_t)mapped, 4 * MIB}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(!ioctl(descriptor, UFFDIO_REGISTER, &range));
    CHECK(is_resident(mapped) && is_resident(mapped + 4 * MIB - 4096));
    // Of the pool's pages the kernel refuses what is no whole one, and the monitor asks for whole ones then.
    char *array = (char *)(((uintptr_t)block(18 * MIB) + 2 * MIB - 1) & ~(2 * MIB - 1));
    range.range.start = (uintptr_t)array + 4096;
    range.range.len = 4096;
    CHECK(ioctl(descriptor, UFFDIO_REGISTER, &range) == -1 && errno == EINVAL);
    range.range.start = (uintptr_t)array;
    range.range.len = 16 * MIB;
    CHECK(!ioctl(descriptor, UFFDIO_REGISTER, &range));
    CHECK(page_kib(array) == large_kib);
    close(descriptor);
}

static int deep(int left) {
    volatile char some[4096];
    some[0] = some[4095] = (char)left;
    return left ? deep(left - 1) + some[0] : 0;
}

static void *nothing(void *of) {
    return of;
}

// A program that bounds its own addresses goes on in those that it has.
static void bounded(void) {
    char *first = block(20 * MIB);
    fill(first, 20 * MIB, 1);
    struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
    CHECK(!setrlimit(RLIMIT_AS, &limit));
    void *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, nothing, NULL) && !pthread_join(thread, NULL));
    CHECK(deep(1000) != 12345);
    CHECK(is_all(first, 20 * MIB, 1));
    // What comes later lies in the pool as before.
    char *second = block(20 * MIB);
    CHECK(page_kib(second + 10 * MIB) == large_kib);
    free(second);
    free(first);
    // The limit holds.
    CHECK(!malloc((size_t)5 << 30) && errno == ENOMEM);
}

// A child has no room for what its parent has in the pool: that is an error, and kills nobody.
static void forks_without_memory(void) {
    size_t bytes = 200 * MIB;
    char *array = block(bytes), *other = mmap(NULL, 100 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(other != MAP_FAILED && page_kib(array + bytes / 2) == large_kib);
    memset(array, 1, bytes);
    memset(other, 1, 100 * MIB);
    CHECK(fork() == -1 && errno == ENOMEM);
    CHECK(is_all(array, bytes, 1) && is_all(other, 100 * MIB, 1));
}

static char *file_of(size_t bytes, int *file) {
    CHECK((*file = memfd_create("own", MFD_CLOEXEC)) >= 0 && !ftruncate(*file, (off_t)bytes));
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
    CHECK(at != MAP_FAILED);
    fill(at, bytes, 9);
    return at;
}

static char *anonymous(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

// What a program maps, or moves, to addresses that it unmapped before is its own: no block comes to lie there, none grows over it.
static void placed(void) {
    int file;
    // A mapping is moved there.
    char *first = anonymous(64 * MIB), *own = file_of(32 * MIB, &file);
    CHECK(!munmap(first + 32 * MIB, 32 * MIB));
    CHECK(mremap(own, 32 * MIB, 32 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, first + 32 * MIB) == first + 32 * MIB);
    for (int i = 0; i < 4; i++)
        memset(block(20 * MIB), 1, 20 * MIB);
    CHECK(is_all(first + 32 * MIB, 32 * MIB, 9));
    // It ends where a block begins that is another's.
    size_t half = MIB / 2;
    for (int is_grown = 0; is_grown < 2; is_grown++) {
        char *array = anonymous(16 * MIB + half), *behind = block(2 * MIB);
        own = file_of(half, &file);
        CHECK(behind >= array + 16 * MIB + half && behind < array + 17 * MIB);
        if (is_grown)
            CHECK(!munmap(array + 16 * MIB, half));
        else
            CHECK(!munmap(array, 16 * MIB + half));
        char *fixed = mmap(array + 16 * MIB, half, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
        CHECK(fixed == array + 16 * MIB);
        if (is_grown) {
            array = mremap(array, 16 * MIB, 16 * MIB + half / 2, 0);
            CHECK(array == MAP_FAILED && errno == ENOMEM);
        } else {
            for (int i = 0; i < 3; i++)
                memset(block(16 * MIB + 200 * 1024), 1, 16 * MIB + 200 * 1024);
        }
        CHECK(is_all(own, half, 9) && is_all(fixed, half, 9));
    }
}

enum { THREADS = 4 };
static atomic_long counts[THREADS];
static atomic_int is_over;

static void *counts_on(void *number) {
    while (!is_over)
        counts[(intptr_t)number]++;
    return number;
}

// Threads that stand on blocks of the heap, and are more than there are processors: the kernel writes to their thread-local data when it takes them
// off one. Pages beside their stacks are cut meanwhile.
static void preempted(void) {
    alarm(120);
    size_t bytes = 8 * MIB;
    char *all = NULL;
    CHECK(!posix_memalign((void **)&all, 2 * MIB, THREADS * bytes) && page_kib(all) == large_kib);
    fill(all, THREADS * bytes, 1);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) {
        pthread_attr_t attributes;
        CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstack(&attributes, all + i * bytes + 65536, 262144));
        CHECK(!pthread_create(&threads[i], &attributes, counts_on, (void *)i));
    }
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < THREADS; i++) {
            // In the large page of the stack, and one in another.
            for (size_t at = MIB; at < 4 * MIB; at += 2 * MIB)
                CHECK(!mprotect(all + i * bytes + at, 4096, round % 2 ? PROT_READ | PROT_WRITE : PROT_READ));
            for (long before = counts[i]; counts[i] == before;)
                sched_yield();
        }
    is_over = 1;
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(threads[i], NULL));
    for (int i = 0; i < THREADS; i++)
        CHECK(is_all(all + i * bytes + MIB, bytes - MIB, 1));
}

// A program at fixed addresses has a jump of its own at the address of a function of a library.
static void pointed(void) {
    void *(*volatile give)(size_t) = malloc;
    void (*volatile take)(void *) = free;
    char *array = give(20 * MIB);
    CHECK(array && page_kib(array + 10 * MIB) == large_kib);
    take(array);
}

int main(int count, char **arguments) {
    const char *scene = count > 1 ? arguments[1] : "";
    struct {
        const char *name;
        void (*play)(void);
    } all[] = {{"advised_in_part", advised_in_part}, {"cached", cached}, {"populated", populated}, {"registered", registered},
               {"placed", placed}, {"preempted", preempted}, {"pointed", pointed}, {"bounded", bounded}, {"forks_without_memory", forks_without_memory}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(scene, all[i].name)) {
            all[i].play();
            return 0;
        }
    return 2;
}
