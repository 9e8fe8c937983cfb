// Programs that define only some of malloc's family themselves: two that count before the C library's own or before whatever comes next, and one
// that has another memory.
#define _GNU_SOURCE

#include "scene.h"

#ifdef FORWARDS
#include <dlfcn.h>

// Of what is looked up before it is known.
static char early[4096];

void *malloc(size_t bytes) {
    static void *(*next)(size_t);
    static int is_looking;
    if (is_looking)
        return early;
    is_looking = 1;
    if (!next)
        next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    is_looking = 0;
    return next(bytes);
}

void free(void *block) {
    static void (*next)(void *);
    if (!next)
        next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    if (block != early)
        next(block);
}
#elif defined COUNTS
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
static long calls;

void *malloc(size_t bytes) {
    calls++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    calls++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
    calls++;
    return __libc_realloc(block, bytes);
}

void free(void *block) {
    __libc_free(block);
}
#else
static _Alignas(64) char memory[1 << 20];
static size_t used;

void *malloc(size_t bytes) {
    size_t *block = (size_t *)(memory + used);
    bytes = (bytes + 31) & ~(size_t)15;
    used += bytes + 16;
    block[0] = bytes;
    return block + 2;
}

void free(void *block) {
    (void)block;
}

void *calloc(size_t count, size_t bytes) {
    return memset(malloc(count * bytes), 0, count * bytes);
}

void *realloc(void *block, size_t bytes) {
    void *next = malloc(bytes);
    size_t had = block ? ((size_t *)block)[-2] : 0;
    return block ? memcpy(next, block, had < bytes ? had : bytes) : next;
}

void *memalign(size_t align, size_t bytes) {
    size_t at = (size_t)malloc(bytes + align);
    return (void *)((at + align - 1) & ~(align - 1));
}

int posix_memalign(void **block, size_t align, size_t bytes) {
    *block = memalign(align, bytes);
    return 0;
}

void *aligned_alloc(size_t align, size_t bytes) {
    return memalign(align, bytes);
}
#endif

int main(void) {
#ifdef FORWARDS
    // What it asks for comes from the pool all the same.
    char *array = block(20 * MIB);
    CHECK(page_kib(array + 10 * MIB) == large_kib);
    free(array);
#endif
    void *aligned = NULL;
    if (posix_memalign(&aligned, 64, 100000))
        return 1;
    memset(aligned, 1, 100000);
    free(aligned);
    char *text = malloc(100);
    strcpy(text, "abc");
    text = reallocarray(text, 10, 100);
    int is_kept = text && !strcmp(text, "abc");
    free(text);
    return is_kept ? 0 : 1;
}
