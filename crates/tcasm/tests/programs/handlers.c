/* A signal handler that removes files, in a program whose memory is being allocated when the signal comes; an allocator that
 * gives memory back; and a program that counts who looks at its environment. The arguments are the name of a file to be published, and whether the handler
 * blocks its signal. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLISH (MS_SYNC | 8)
#define PAGE 4096u

static char elsewhere[] = "/tmp/tcasm-handler-XXXXXX", below[512], of_name[512];

/* Whether an allocation would wait for ever for one that was interrupted. */
static volatile sig_atomic_t is_allocating;

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            is_allocating = 0;                                                                                         \
            unlink(elsewhere);                                                                                         \
            dprintf(1, "line %d: %s is not so (errno %d)\n", __LINE__, #what, errno);                                  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

void *malloc(size_t bytes) {
    CHECK(!is_allocating);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    CHECK(!is_allocating);
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    CHECK(!is_allocating);
    return __libc_realloc(memory, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    CHECK(!is_allocating);
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

void free(void *memory) {
    CHECK(!is_allocating);
    __libc_free(memory);
}

static volatile unsigned long looks;

char *getenv(const char *name) {
    size_t length = strlen(name);
    looks++;
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

static void remove_files(int signal) {
    (void)signal;
    is_allocating = 1;
    CHECK(unlink(elsewhere) == 0);
    CHECK(unlink(below) == 0);
    CHECK(unlinkat(AT_FDCWD, of_name, 0) == 0);
    CHECK(unlink("/dev/shm/no such file") == -1 && errno == ENOENT);
    is_allocating = 0;
}

/* As an allocator does that has locks meanwhile: memory of its own, between mappings of files. */
static void give_memory_back(int file) {
    char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (int page = 0; page < 3; page += 2)
        CHECK(mmap(memory + page * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) != MAP_FAILED);
    is_allocating = 1;
    CHECK(munmap(memory + PAGE, PAGE) == 0);
    is_allocating = 0;
    CHECK(munmap(memory, PAGE) == 0 && munmap(memory + 2 * PAGE, PAGE) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    struct sigaction action = {.sa_handler = remove_files, .sa_flags = strcmp(argv[2], "nodefer") ? 0 : SA_NODEFER};
    snprintf(of_name, sizeof of_name, "/dev/shm%s", argv[1]);
    snprintf(below, sizeof below, "/dev/shm%s.pid", argv[1]);
    CHECK(close(mkstemp(elsewhere)) == 0);
    CHECK(close(open(below, O_CREAT | O_RDWR, 0600)) == 0);
    int file = shm_open(argv[1], O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0 && ftruncate(file, 10 * PAGE) == 0);
    char *data = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(data != MAP_FAILED && msync(data, 10 * PAGE, PUBLISH) == 0);
    unsigned long before = looks;
    for (int step = 0; step < 100; step++) {
        data[0]++;
        CHECK(msync(data, 10 * PAGE, PUBLISH) == 0);
    }
    CHECK(looks == before);
    give_memory_back(file);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(access(elsewhere, F_OK) == -1 && access(below, F_OK) == -1 && access(of_name, F_OK) == -1);
    /* What the handler left is done by the next call, or at the end. */
    CHECK(action.sa_flags != 0 || (msync(data, 10 * PAGE, PUBLISH) == -1 && errno == ENOENT));
    puts("done");
    return 0;
}
