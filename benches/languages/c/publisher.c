/* The publisher in C. See ../run.py for what it has to do. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stillframe.h>

#define PAGE_BYTES ((size_t)4096)

/* Hides from the compiler that memory is not read again. */
#define KEEP(memory) __asm__ volatile("" : : "r"(memory) : "memory")

static void check(stillframe_status status) {
    if (status != STILLFRAME_OK) {
        fprintf(stderr, "publisher: %s: %s\n", stillframe_status_name(status), stillframe_error_text());
        exit(1);
    }
}

static uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Page-aligned, populated memory from the ordinary allocator. */
static unsigned char *allocate(size_t bytes) {
    unsigned char *memory = calloc(bytes + PAGE_BYTES, 1);
    if (memory == NULL) exit(1);
    memset(memory, 1, bytes + PAGE_BYTES);
    return memory + (PAGE_BYTES - (uintptr_t)memory % PAGE_BYTES) % PAGE_BYTES;
}

/* The finishing steps of splitmix64. */
static uint64_t hash(uint64_t number) {
    number += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

static size_t choose_pages(bool random, double share, size_t total, uint64_t step, uint32_t *pages) {
    uint64_t seed = random ? step + 1 : 0, threshold = (uint64_t)(share * 4294967296.0);
    size_t count = 0;
    for (uint32_t page = 0; page < total; page++)
        if (hash(seed << 32 | page) >> 32 < threshold) pages[count++] = page;
    return count;
}

static void write_pages(unsigned char *memory, const uint32_t *pages, size_t count, uint64_t value) {
    for (size_t i = 0; i < count; i++) memset(memory + pages[i] * PAGE_BYTES, (unsigned char)value, PAGE_BYTES);
    KEEP(memory);
}

static uint64_t copy_ns(unsigned char *target, const unsigned char *source, size_t bytes) {
    uint64_t begin = clock_ns();
    memcpy(target, source, bytes);
    KEEP(target);
    return clock_ns() - begin;
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    const char *dir = argv[1], *name = argv[2], *bench = argv[3], *kind = argv[4];
    size_t bytes = strtoul(argv[5], NULL, 10);
    bool random = strcmp(argv[7], "random") == 0, given = strcmp(kind, "given") == 0;
    double share = strtod(argv[8], NULL);
    stillframe_region *region;
    stillframe_region_options options = {.dir = dir, .keep = 1, .threads = (uint32_t)strtoul(argv[6], NULL, 10)};
    check(stillframe_create(name, &options, &region));
    void *memory;
    if (strcmp(kind, "managed") == 0) {
        check(stillframe_array(region, "data", "uint8", 1, &bytes, &memory));
    } else {
        memory = allocate(bytes);
        check(stillframe_track(region, "data", "uint8", 1, &bytes, memory));
    }
    unsigned char *source = allocate(bytes), *target = allocate(bytes);
    uint32_t *pages = malloc(bytes / PAGE_BYTES * sizeof *pages);
    if (pages == NULL) return 1;
    memset(memory, 1, bytes);
    uint64_t version = 0, first, second;
    while (scanf("%" SCNu64, &first) == 1) {
        if (strcmp(bench, "rate") == 0) {
            uint64_t begin = clock_ns();
            for (uint64_t i = 0; i < first; i++) {
                version++;
                memset(memory, (unsigned char)version, bytes);
                if (given) check(stillframe_track(region, "data", "uint8", 1, &bytes, memory));
                check(stillframe_publish(region, version, NULL));
            }
            uint64_t publish_ns = clock_ns() - begin, memcpy_ns = 0;
            for (uint64_t i = 0; i < first; i++) memcpy_ns += copy_ns(target, source, bytes);
            printf("%" PRIu64 " %" PRIu64 "\n", publish_ns, memcpy_ns);
        } else {
            if (scanf("%" SCNu64, &second) != 1) return 2;
            size_t count = choose_pages(random, share, bytes / PAGE_BYTES, first, pages);
            uint64_t begin = clock_ns();
            write_pages(memory, pages, count, first);
            uint64_t written = clock_ns(), plain_ns = 0, memcpy_ns = 0;
            stillframe_published published;
            if (given) check(stillframe_track(region, "data", "uint8", 1, &bytes, memory));
            check(stillframe_publish(region, first + 1, &published));
            uint64_t end = clock_ns();
            if (second != 0) {
                uint64_t plain = clock_ns();
                write_pages(source, pages, count, first);
                plain_ns = clock_ns() - plain;
                memcpy_ns = copy_ns(target, source, bytes);
            }
            printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %zu %" PRIu64 " %" PRIu64 "\n", written - begin,
                   end - written, plain_ns, memcpy_ns, count, published.dirty_pages, published.copied_pages);
        }
        fflush(stdout);
    }
    check(stillframe_unlink(region));
    return 0;
}
