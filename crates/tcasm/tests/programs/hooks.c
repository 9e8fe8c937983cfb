/* A library that follows the memory of a process as MPI libraries do, by standing in for the C library's calls. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct hooked {
    unsigned long maps, unmaps, remaps, protects, syncs;
    void *address;
    size_t bytes;
} hooked;

static void note(unsigned long *count, void *address, size_t bytes) {
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    hooked.address = address;
    hooked.bytes = bytes;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    note(&hooked.maps, address, bytes);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

int munmap(void *address, size_t bytes) {
    note(&hooked.unmaps, address, bytes);
    return (int)syscall(SYS_munmap, address, bytes);
}

void *mremap(void *address, size_t bytes, size_t new_bytes, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    void *to = va_arg(rest, void *);
    va_end(rest);
    note(&hooked.remaps, address, bytes);
    return (void *)syscall(SYS_mremap, address, bytes, new_bytes, flags, to);
}

int mprotect(void *address, size_t bytes, int protection) {
    note(&hooked.protects, address, bytes);
    return (int)syscall(SYS_mprotect, address, bytes, protection);
}

int msync(void *address, size_t bytes, int flags) {
    note(&hooked.syncs, address, bytes);
    return (int)syscall(SYS_msync, address, bytes, flags);
}
