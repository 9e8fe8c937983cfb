// Plays random calls that concern memory, and prints what each said and what is in the memory. The same seed gives the
// same lines on every system, wherever the memory lies. Arguments: the seed and the number of steps.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)
#define COUNT 24

enum kind { NONE, MAPPED, BLOCK };
static struct {
    enum kind kind;
    char *at;
    size_t bytes;
    // Whether it begins with a page on every system.
    int is_aligned;
    // Whether something was mapped into it: then the kernel may have it for one mapping or for several, which no
    // program can rely on.
    int is_pieced;
} all[COUNT];
static uint64_t state;
static int ends[2];

static uint64_t next(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (state >> 11) % below : 0;
}

// How the kernel answers to who reads a byte.
static int is_readable(const char *at) {
    char byte;
    if (write(ends[1], at, 1) != 1)
        return 0;
    if (read(ends[0], &byte, 1) != 1)
        abort();
    return 1;
}

static uint64_t hash(int index) {
    uint64_t sum = 14695981039346656037ul;
    char *at = all[index].at;
    size_t bytes = all[index].bytes;
    for (size_t done = 0; done < bytes;) {
        size_t rest = PAGE - (uintptr_t)(at + done) % PAGE, count = rest < bytes - done ? rest : bytes - done;
        if (is_readable(at + done))
            for (size_t i = 0; i < count; i++)
                sum = (sum ^ (unsigned char)at[done + i]) * 1099511628211ul;
        else
            sum = (sum ^ 256) * 1099511628211ul;
        done += count;
    }
    return sum;
}

static void fill(char *at, size_t bytes) {
    uint64_t with = next(0), own = state;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)((own >> (i % 8) * 8) + i / 7);
    (void)with;
}

static size_t some_bytes(void) {
    switch (next(4)) {
    case 0:
        return 1 + next(300);
    case 1:
        return 1 + next(60000);
    case 2:
        return 1 + next(2 * MIB);
    default:
        return 1 + next(6 * MIB);
    }
}

static size_t whole(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void say(const char *what, int index, long result) {
    printf("%s %d: %ld %d", what, index, result, result < 0 ? errno : 0);
    if (index >= 0 && all[index].kind != NONE)
        printf(" %zu %016lx", all[index].bytes, hash(index));
    puts("");
}

// Some of the whole pages of a region.
static size_t inside(int index, char **at) {
    size_t pages = all[index].is_aligned ? all[index].bytes / PAGE : 0;
    if (pages == 0)
        return 0;
    size_t first = next(pages), count = 1 + next(pages - first);
    *at = all[index].at + first * PAGE;
    return count * PAGE;
}

static void make(int index) {
    size_t bytes = some_bytes(), align = 8ul << next(19);
    int is_zero = 0;
    void *at = NULL;
    all[index].kind = BLOCK;
    all[index].is_aligned = all[index].is_pieced = 0;
    switch (next(5)) {
    case 0:
        bytes = whole(bytes);
        all[index].kind = MAPPED;
        all[index].is_aligned = 1;
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            at = NULL;
        is_zero = next(2);
        break;
    case 1:
        at = calloc(1 + next(3), bytes = bytes / 3 + 1);
        is_zero = 1;
        break;
    case 2:
        if (posix_memalign(&at, align, bytes))
            at = NULL;
        all[index].is_aligned = align >= PAGE;
        break;
    default:
        at = malloc(bytes);
    }
    if (!at)
        abort();
    all[index].at = at;
    all[index].bytes = bytes;
    if (!is_zero)
        fill(at, bytes);
    say("make", index, 0);
}

static void end(int index) {
    if (all[index].kind == MAPPED) {
        say("munmap", -1, munmap(all[index].at, all[index].bytes));
    } else {
        free(all[index].at);
        say("free", -1, 0);
    }
    all[index].kind = NONE;
}

static void resize(int index) {
    size_t had = all[index].bytes, bytes = some_bytes();
    if (all[index].kind == MAPPED && all[index].is_pieced)
        return;
    if (all[index].kind == MAPPED) {
        bytes = whole(bytes);
        char *at = mremap(all[index].at, had, bytes, MREMAP_MAYMOVE);
        if (at == MAP_FAILED) {
            say("mremap", index, -1);
            return;
        }
        all[index].at = at;
    } else {
        char *at = realloc(all[index].at, bytes);
        if (!at)
            abort();
        all[index].at = at;
        all[index].is_aligned = 0;
        if (bytes > had)
            fill(at + had, bytes - had);
    }
    all[index].bytes = bytes;
    say("resize", index, 0);
}

static void forget(int index) {
    char *at;
    size_t bytes = inside(index, &at);
    if (bytes)
        say("dontneed", index, madvise(at, bytes, MADV_DONTNEED));
}

static void protect(int index) {
    char *at;
    size_t bytes = inside(index, &at);
    if (!bytes)
        return;
    say("mprotect", index, mprotect(at, bytes, next(2) ? PROT_NONE : PROT_READ));
    say("mprotect", index, mprotect(at, bytes, PROT_READ | PROT_WRITE));
    fill(at, bytes / 2);
    say("written", index, 0);
}

static void replace(int index) {
    char *at;
    size_t bytes = inside(index, &at);
    if (!bytes)
        return;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    all[index].is_pieced = 1;
    if (next(2) && munmap(at, bytes))
        abort();
    say("fixed", index, mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == at ? 0 : -1);
    if (next(2))
        fill(at, bytes / 3);
    say("written", index, 0);
}

static void write_some(int index) {
    size_t first = next(all[index].bytes);
    fill(all[index].at + first, 1 + next(all[index].bytes - first));
    say("write", index, 0);
}

static void child(void) {
    fflush(stdout);
    uint64_t before = state;
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        for (int i = 0; i < COUNT; i++)
            if (all[i].kind != NONE) {
                say("child has", i, 0);
                write_some(i);
                if (next(3) == 0)
                    resize(i);
                if (next(4) == 0)
                    end(i);
                else if (next(4) == 0)
                    forget(i);
            }
        make(0);
        fflush(stdout);
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status)
        abort();
    state = before + 1;
}

static void wrong(void) {
    char *at = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at, 4 * PAGE);
    say("mmap", -1, (long)mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    say("mmap", -1, (long)mmap(NULL, 3 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_SHARED, 77, 1));
    say("munmap", -1, munmap(at + 1, PAGE));
    say("madvise", -1, madvise(at, PAGE, MADV_DONTNEED));
    say("madvise", -1, madvise(at, PAGE, 12345));
    say("mprotect", -1, mprotect(at, PAGE, PROT_READ));
    say("mprotect", -1, mprotect(at + 1, PAGE, PROT_READ));
    say("mremap", -1, (long)mremap(at, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    say("malloc", -1, malloc(PTRDIFF_MAX - next(100)) ? 0 : -1);
    void *block = (void *)7;
    say("posix_memalign", -1, -posix_memalign(&block, 24, 8));
}

static void grow(void) {
    size_t bytes = PAGE * (1 + next(1000));
    char *at = sbrk(bytes);
    if (at == (void *)-1)
        abort();
    for (int i = 0; i < COUNT; i++)
        if (all[i].kind == NONE) {
            for (size_t place = 0; place < bytes; place++)
                if (at[place])
                    abort();
            return;
        }
}

int main(int count, char **arguments) {
    state = 88172645463325252ul ^ (uint64_t)atoi(arguments[1]) * 0x9e3779b97f4a7c15ul;
    int steps = count > 2 ? atoi(arguments[2]) : 100;
    if (pipe(ends))
        abort();
    for (int step = 0; step < steps; step++) {
        int index = (int)next(COUNT), what = (int)next(100);
        if (all[index].kind == NONE)
            make(index);
        else if (what < 20)
            end(index);
        else if (what < 40)
            resize(index);
        else if (what < 52)
            forget(index);
        else if (what < 62)
            protect(index);
        else if (what < 70)
            replace(index);
        else if (what < 90)
            write_some(index);
        else if (what < 94)
            child();
        else if (what < 97)
            wrong();
        else
            grow();
    }
    for (int i = 0; i < COUNT; i++)
        say("end", i, 0);
    return 0;
}
