/* Situations of programs that use TCASM's interface, one for each name on the command line. A scene that finds something
 * other than it should says so and ends with 1. The second argument is the name of the scene's file. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS_UPDATE 8
#define PAGE 4096u
#define PUBLISH (MS_SYNC | MS_UPDATE)

static const char *name;

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("line %d: %s is not so (errno %d: %s)\n", __LINE__, #what, errno, strerror(errno));                 \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static int file_of(const char *path, size_t bytes) {
    int file = shm_open(path, O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0);
    CHECK(ftruncate(file, (off_t)bytes) == 0);
    return file;
}

static unsigned char *work_on(int file, size_t bytes) {
    unsigned char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(data != MAP_FAILED);
    return data;
}

static const unsigned char *look(int file, size_t bytes) {
    const unsigned char *view = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    CHECK(view != MAP_FAILED);
    return view;
}

static void let_go(const void *view, size_t bytes) { CHECK(munmap((void *)view, bytes) == 0); }

/* Whether all bytes from start to end are equal to value. */
static int is(const unsigned char *bytes, size_t start, size_t end, int value) {
    for (size_t i = start; i < end; i++)
        if (bytes[i] != (unsigned char)value) {
            printf("byte %zu is %d, not %d\n", i, bytes[i], value);
            return 0;
        }
    return 1;
}

static int shows(int file, size_t bytes, int value) {
    const unsigned char *view = look(file, bytes);
    int so = is(view, 0, bytes, value);
    let_go(view, bytes);
    return so;
}

static void ends_well(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Runs what follows in a child, to whose end the parent waits. */
#define IN_A_CHILD(work)                                                                                               \
    do {                                                                                                               \
        pid_t child_ = fork();                                                                                         \
        CHECK(child_ >= 0);                                                                                            \
        if (child_ == 0) {                                                                                             \
            work;                                                                                                      \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        ends_well(child_);                                                                                             \
    } while (0)

/* Open files whose name has this in it. */
static size_t open_files(const char *part) {
    size_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    struct dirent *entry;
    while ((entry = readdir(all))) {
        char path[512] = "";
        if (readlinkat(dirfd(all), entry->d_name, path, sizeof path - 1) > 0 && strstr(path, part))
            count++;
    }
    closedir(all);
    return count;
}

/* Versions that this process holds, and its producer's and observer's own. */
static size_t holds(void) { return open_files("/lease"); }

static void first_publish(void) {
    size_t bytes = 100 * PAGE;
    int file = file_of(name, bytes);
    CHECK(pwrite(file, "begin", 5, 0) == 5);
    unsigned char *data = work_on(file, bytes);
    const unsigned char *early = look(file, bytes);
    CHECK(memcmp(early, "begin", 5) == 0 && is(early, 5, bytes, 0));
    memset(data, 1, bytes);
    CHECK(memcmp(early, "begin", 5) == 0);
    const unsigned char *unpublished = look(file, bytes);
    CHECK(memcmp(unpublished, "begin", 5) == 0);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    CHECK(memcmp(early, "begin", 5) == 0 && is(early, 5, bytes, 0));
    CHECK(memcmp(unpublished, "begin", 5) == 0);
    CHECK(shows(file, bytes, 1));
    const unsigned char *one = look(file, bytes);
    memset(data, 2, bytes);
    CHECK(is(one, 0, bytes, 1));
    CHECK(msync(data, bytes, PUBLISH) == 0);
    CHECK(is(one, 0, bytes, 1) && shows(file, bytes, 2));
    IN_A_CHILD(CHECK(shows(file, bytes, 2)));
    /* The file itself is as it was. */
    char begin[5];
    CHECK(pread(file, begin, 5, 0) == 5 && memcmp(begin, "begin", 5) == 0);
}

static void never_unmapping(void) {
    size_t bytes = 30 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    enum { VIEWS = 200 };
    const unsigned char *views[VIEWS];
    for (int i = 0; i < VIEWS; i++) {
        memset(data + (i % 30) * PAGE, i, PAGE);
        CHECK(msync(data, bytes, PUBLISH) == 0);
        views[i] = look(file, bytes);
        CHECK(look(file, bytes) != views[i]);
    }
    for (int i = 0; i < VIEWS; i++)
        for (int page = 0; page < 30; page++) {
            int last = i - ((i - page) % 30 + 30) % 30;
            CHECK(is(views[i] + page * PAGE, 0, PAGE, last < 0 ? 0 : last));
        }
}

static void parts(void) {
    size_t bytes = 40 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data, 1, bytes);
    /* The first publish of all is of one page: everything else is as in the file. */
    CHECK(msync(data + 3 * PAGE, PAGE, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    CHECK(is(view, 0, 3 * PAGE, 0) && is(view, 3 * PAGE, 4 * PAGE, 1) && is(view, 4 * PAGE, bytes, 0));
    let_go(view, bytes);
    /* Neither begin nor end at a page: rounded outwards. */
    CHECK(msync(data + 5 * PAGE + 100, PAGE, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 4 * PAGE, 5 * PAGE, 0) && is(view, 5 * PAGE, 7 * PAGE, 1) && is(view, 7 * PAGE, bytes, 0));
    let_go(view, bytes);
    memset(data + 3 * PAGE, 2, 3 * PAGE);
    CHECK(msync(data + 5 * PAGE, 1, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 3 * PAGE, 4 * PAGE, 1) && is(view, 5 * PAGE, 6 * PAGE, 2) && is(view, 6 * PAGE, 7 * PAGE, 1));
    let_go(view, bytes);
    /* Nothing is forgotten. */
    CHECK(msync(data, bytes, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 0, 3 * PAGE, 1) && is(view, 3 * PAGE, 6 * PAGE, 2) && is(view, 6 * PAGE, bytes, 1));
    let_go(view, bytes);
    CHECK(msync(data, 0, PUBLISH) == 0);
    CHECK(msync(data, bytes, MS_ASYNC | MS_UPDATE) == 0);
    CHECK(msync(data, bytes, MS_UPDATE) == 0);
}

static void ways_of_mapping(void) {
    size_t bytes = 20 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    for (size_t page = 0; page < 20; page++)
        memset(data + page * PAGE, (int)page + 1, PAGE);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    for (int kind = 0; kind < 2; kind++) {
        int flags = kind ? MAP_PRIVATE : MAP_SHARED;
        const unsigned char *middle = mmap(NULL, 3 * PAGE, PROT_READ, flags, file, 7 * PAGE);
        CHECK(middle != MAP_FAILED && middle[0] == 8 && middle[3 * PAGE - 1] == 10);
        let_go(middle, 3 * PAGE);
        const unsigned char *odd = mmap(NULL, 2 * PAGE + 77, PROT_READ, flags, file, PAGE);
        CHECK(odd != MAP_FAILED && odd[0] == 2 && odd[2 * PAGE + 76] == 4);
        let_go(odd, 2 * PAGE + 77);
        unsigned char *place = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(place != MAP_FAILED);
        unsigned char *fixed = mmap(place + PAGE, 4 * PAGE, PROT_READ, flags | MAP_FIXED | MAP_POPULATE, file, 0);
        CHECK(fixed == place + PAGE && fixed[0] == 1 && fixed[4 * PAGE - 1] == 4);
        /* Something else over a part of the view. */
        CHECK(mmap(fixed + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
              fixed + PAGE);
        CHECK(fixed[PAGE] == 0 && fixed[0] == 1 && fixed[2 * PAGE] == 3);
        fixed[PAGE] = 9;
        let_go(place, 8 * PAGE);
        unsigned char *hint = mmap(place, 2 * PAGE, PROT_READ, flags, file, 0);
        CHECK(hint == place && hint[0] == 1);
        let_go(hint, 2 * PAGE);
        /* Longer than the file: what lies behind its end is no memory, as the kernel has it. */
        const unsigned char *longer = mmap(NULL, bytes + 5 * PAGE, PROT_READ, flags, file, 0);
        CHECK(longer != MAP_FAILED && longer[bytes - 1] == 20);
        pid_t child = fork();
        if (child == 0) {
            volatile unsigned char beyond = longer[bytes + PAGE];
            _exit(beyond);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
        let_go(longer, bytes + 5 * PAGE);
    }
    /* Errors are the kernel's. */
    CHECK(mmap(NULL, 0, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 1) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(NULL, (size_t)1 << 60, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED && errno == ENOMEM);
    int blind = shm_open(name, O_RDWR, 0);
    close(blind);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, blind, 0) == MAP_FAILED && errno == EBADF);
    /* A private view may be made writable, and what is written there is its own. */
    unsigned char *own = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(mprotect(own, bytes, PROT_READ | PROT_WRITE) == 0);
    memset(own, 99, bytes);
    const unsigned char *after = look(file, bytes);
    CHECK(after[0] == 1 && data[0] == 1 && own[0] == 99);
}

static void unmapping_in_pieces(void) {
    size_t bytes = 30 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data, 1, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    CHECK(shows(file, bytes, 1));
    size_t before = holds();
    for (int round = 0; round < 50; round++) {
        const unsigned char *view = look(file, bytes);
        CHECK(holds() == before + 1);
        memset(data, round, bytes);
        CHECK(msync(data, bytes, PUBLISH) == 0);
        int shown = round == 0 ? 1 : round - 1;
        let_go(view + 10 * PAGE, 5 * PAGE);
        CHECK(is(view, 0, 10 * PAGE, shown) && is(view, 15 * PAGE, bytes, shown));
        let_go(view, 3 * PAGE);
        CHECK(is(view, 3 * PAGE, 10 * PAGE, shown) && holds() == before + 1);
        let_go(view, 20 * PAGE);
        CHECK(is(view, 20 * PAGE, bytes, shown) && holds() == before + 1);
        let_go(view + 20 * PAGE, 10 * PAGE);
        CHECK(holds() == before);
    }
}

static void *look_again_and_again(void *argument) {
    int file = *(int *)argument;
    for (int round = 0; round < 1500; round++) {
        const unsigned char *view = look(file, 64 * PAGE);
        CHECK(is(view, 0, 64 * PAGE, view[0]));
        let_go(view, 64 * PAGE);
        /* Unrelated memory comes and goes among the views. */
        void *other = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        let_go(other, PAGE);
    }
    return NULL;
}

static void many_threads(void) {
    size_t bytes = 64 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, look_again_and_again, &file) == 0);
    for (int step = 0; step < 1000; step++) {
        memset(data, step, bytes);
        CHECK(msync(data, bytes, PUBLISH) == 0);
        if (step % 100 == 0)
            IN_A_CHILD(CHECK(shows(file, bytes, step)));
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void fork_keeps_views(void) {
    size_t bytes = 50 * PAGE;
    int file = file_of(name, bytes), go[2];
    CHECK(pipe(go) == 0);
    unsigned char *data = work_on(file, bytes);
    memset(data, 7, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char word;
        CHECK(read(go[0], &word, 1) == 1);
        CHECK(is(view, 0, bytes, 7));
        CHECK(shows(file, bytes, 199));
        let_go(view, bytes);
        /* The child's copy of the producer's memory is no producer while its parent is one. */
        CHECK(msync(data, bytes, PUBLISH) == -1 && errno == EBUSY);
        _exit(0);
    }
    let_go(view, bytes);
    for (int step = 0; step < 200; step++) {
        memset(data, step, bytes);
        CHECK(msync(data, bytes, PUBLISH) == 0);
    }
    CHECK(write(go[1], "x", 1) == 1);
    ends_well(child);
    memset(data, 201, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0 && shows(file, bytes, 201));
}

static int ask[2], answer[2];

static void *publish_when_asked(void *data) {
    char word;
    CHECK(read(ask[0], &word, 1) == 1);
    CHECK(msync(data, PAGE, PUBLISH) == 0);
    CHECK(write(answer[1], "x", 1) == 1);
    return NULL;
}

static void keep_the_fork_waiting(void) {
    char word;
    CHECK(write(ask[1], "x", 1) == 1);
    CHECK(read(answer[0], &word, 1) == 1);
}

/* Another thread publishes for the first time while a fork has begun already. */
static void forked_while_first_publishing(void) {
    CHECK(pipe(ask) == 0 && pipe(answer) == 0);
    unsigned char *data = work_on(file_of(name, PAGE), PAGE);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, publish_when_asked, data) == 0);
    CHECK(pthread_atfork(keep_the_fork_waiting, NULL, NULL) == 0);
    IN_A_CHILD(CHECK(holds() == 0));
    CHECK(holds() > 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *publish_in_vain(void *data) {
    CHECK(msync(data, PAGE, PUBLISH) == -1 && errno == EBUSY);
    return NULL;
}

/* Another thread says something, at a standard error that takes no more, when a child is forked that has to say something
 * as well. */
static void complaints_of_a_child(void) {
    int file = file_of(name, PAGE), full[2], heard[2];
    unsigned char *data = work_on(file, PAGE), *twice = work_on(file, PAGE);
    CHECK(msync(data, PAGE, PUBLISH) == 0);
    char other[256], text[1 << 16];
    snprintf(other, sizeof other, "%s.other", name);
    int other_file = file_of(other, PAGE);
    unsigned char *other_data = work_on(other_file, PAGE), *other_twice = work_on(other_file, PAGE);
    CHECK(pipe(full) == 0 && pipe(heard) == 0);
    CHECK(fcntl(full[1], F_SETFL, O_NONBLOCK) == 0);
    memset(text, '.', sizeof text);
    while (write(full[1], text, sizeof text) > 0)
        ;
    CHECK(fcntl(full[1], F_SETFL, 0) == 0);
    int error = dup(STDERR_FILENO);
    CHECK(dup2(full[1], STDERR_FILENO) == STDERR_FILENO);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, publish_in_vain, twice) == 0);
    usleep(300000);
    IN_A_CHILD({
        CHECK(dup2(heard[1], STDERR_FILENO) == STDERR_FILENO);
        CHECK(msync(other_data, PAGE, PUBLISH) == 0);
        CHECK(msync(other_twice, PAGE, PUBLISH) == -1 && errno == EBUSY);
    });
    CHECK(fcntl(heard[0], F_SETFL, O_NONBLOCK) == 0);
    ssize_t bytes = read(heard[0], text, sizeof text - 1);
    CHECK(bytes > 0);
    text[bytes] = 0;
    CHECK(strstr(text, "another mapping of the same bytes publishes them") != NULL);
    CHECK(dup2(error, STDERR_FILENO) == STDERR_FILENO);
    CHECK(read(full[0], text, sizeof text) == sizeof text);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void several_files(void) {
    size_t bytes = 10 * PAGE;
    int files[5];
    unsigned char *data[5];
    for (int i = 0; i < 5; i++) {
        char other[256];
        snprintf(other, sizeof other, "%s.%d", name, i);
        files[i] = file_of(other, bytes);
        data[i] = work_on(files[i], bytes);
    }
    for (int step = 0; step < 20; step++)
        for (int i = 0; i < 5; i++) {
            memset(data[i], step * 5 + i, bytes);
            CHECK(msync(data[i], bytes, PUBLISH) == 0);
            for (int j = 0; j < 5; j++)
                CHECK(shows(files[j], bytes, j <= i ? step * 5 + j : step ? (step - 1) * 5 + j : 0));
        }
}

static void pieces_of_a_file(void) {
    size_t bytes = 20 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *head = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    unsigned char *body = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 5 * PAGE);
    CHECK(head != MAP_FAILED && body != MAP_FAILED);
    memset(head, 1, 2 * PAGE);
    memset(body, 2, 10 * PAGE);
    CHECK(msync(body, 10 * PAGE, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    CHECK(is(view, 0, 5 * PAGE, 0) && is(view, 5 * PAGE, 15 * PAGE, 2) && is(view, 15 * PAGE, bytes, 0));
    CHECK(msync(head, 2 * PAGE, PUBLISH) == 0);
    const unsigned char *both = look(file, bytes);
    CHECK(is(both, 0, 2 * PAGE, 1) && is(both, 2 * PAGE, 5 * PAGE, 0) && is(both, 5 * PAGE, 15 * PAGE, 2));
    CHECK(is(view, 0, 5 * PAGE, 0));
    /* Two memories for the same bytes cannot both be right. */
    unsigned char *twice = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(is(twice, 0, 2 * PAGE, 1));
    CHECK(msync(twice, 2 * PAGE, PUBLISH) == -1 && errno == EBUSY);
    unsigned char *across = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, PAGE);
    CHECK(is(across, 0, PAGE, 1) && is(across, PAGE, 4 * PAGE, 0));
    CHECK(msync(across, 4 * PAGE, PUBLISH) == -1 && errno == EBUSY);
    let_go(head, 2 * PAGE);
    memset(twice, 3, 2 * PAGE);
    CHECK(msync(twice, 2 * PAGE, PUBLISH) == 0);
    const unsigned char *again = look(file, bytes);
    CHECK(is(again, 0, 2 * PAGE, 3) && is(again, 5 * PAGE, 15 * PAGE, 2));
    let_go(twice, 2 * PAGE);
    let_go(across, 4 * PAGE);
    let_go(body, 10 * PAGE);
    /* Nobody produces any more; a new mapping of one piece takes the others along. */
    unsigned char *anew = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(is(anew, 0, 2 * PAGE, 3));
    anew[0] = 4;
    CHECK(msync(anew, 2 * PAGE, PUBLISH) == 0);
    const unsigned char *last = look(file, bytes);
    CHECK(last[0] == 4 && is(last, 1, 2 * PAGE, 3) && is(last, 5 * PAGE, 15 * PAGE, 2));
    let_go(anew, 2 * PAGE);
    /* A shorter mapping, and one that has parts of two others: what they do not have stays. */
    unsigned char *less = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    memset(less, 5, PAGE);
    CHECK(msync(less, PAGE, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 0, PAGE, 5) && is(view, PAGE, 2 * PAGE, 3) && is(view, 2 * PAGE, 5 * PAGE, 0));
    CHECK(is(view, 5 * PAGE, 15 * PAGE, 2) && is(view, 15 * PAGE, bytes, 0));
    unsigned char *middle = mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, PAGE);
    CHECK(is(middle, 0, PAGE, 3) && is(middle, PAGE, 4 * PAGE, 0) && is(middle, 4 * PAGE, 6 * PAGE, 2));
    memset(middle, 6, 6 * PAGE);
    CHECK(msync(middle + 4 * PAGE, PAGE, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 0, PAGE, 5) && is(view, PAGE, 2 * PAGE, 3) && is(view, 2 * PAGE, 5 * PAGE, 0));
    CHECK(is(view, 5 * PAGE, 6 * PAGE, 6) && is(view, 6 * PAGE, 15 * PAGE, 2) && is(view, 15 * PAGE, bytes, 0));
    CHECK(msync(middle, 6 * PAGE, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 0, PAGE, 5) && is(view, PAGE, 7 * PAGE, 6) && is(view, 7 * PAGE, 15 * PAGE, 2));
    /* One piece out of the midst of another. */
    let_go(middle, 6 * PAGE);
    unsigned char *inner = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 3 * PAGE);
    memset(inner, 7, 2 * PAGE);
    CHECK(msync(inner, 2 * PAGE, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 0, PAGE, 5) && is(view, PAGE, 3 * PAGE, 6) && is(view, 3 * PAGE, 5 * PAGE, 7));
    CHECK(is(view, 5 * PAGE, 7 * PAGE, 6) && is(view, 7 * PAGE, 15 * PAGE, 2));
    /* What was mapped before another mapping published the same bytes does not know them. */
    unsigned char *late = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 3 * PAGE);
    memset(inner, 8, 2 * PAGE);
    CHECK(msync(inner, 2 * PAGE, PUBLISH) == 0);
    let_go(inner, 2 * PAGE);
    CHECK(msync(late, 2 * PAGE, PUBLISH) == -1 && errno == EBUSY);
    let_go(late, 2 * PAGE);
    late = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 3 * PAGE);
    CHECK(is(late, 0, 2 * PAGE, 8) && msync(late, 2 * PAGE, PUBLISH) == 0);
    let_go(late, 2 * PAGE);
    let_go(less, PAGE);
    /* The whole file again. */
    unsigned char *whole = work_on(file, bytes);
    CHECK(is(whole, 0, PAGE, 5) && is(whole, PAGE, 3 * PAGE, 6) && is(whole, 3 * PAGE, 5 * PAGE, 8));
    CHECK(is(whole, 5 * PAGE, 7 * PAGE, 6) && is(whole, 7 * PAGE, 15 * PAGE, 2) && is(whole, 15 * PAGE, bytes, 0));
    whole[bytes - 1] = 9;
    CHECK(msync(whole, bytes, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(memcmp(view, whole, bytes) == 0);
}

static void the_next_producer(void) {
    size_t bytes = 64 * PAGE;
    int file = file_of(name, bytes);
    IN_A_CHILD({
        unsigned char *data = work_on(file, bytes);
        memset(data, 1, bytes);
        CHECK(msync(data, bytes, PUBLISH) == 0);
        memset(data, 2, 10 * PAGE);
        CHECK(msync(data, bytes, PUBLISH) == 0);
        memset(data, 9, bytes);
        kill(getpid(), 0);
    });
    unsigned char *data = work_on(file, bytes);
    CHECK(is(data, 0, 10 * PAGE, 2) && is(data, 10 * PAGE, bytes, 1));
    memset(data + 30 * PAGE, 3, 10 * PAGE);
    /* The rest of it is what the last producer published. */
    CHECK(msync(data + 30 * PAGE, PAGE, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    CHECK(is(view, 0, 10 * PAGE, 2) && is(view, 10 * PAGE, 30 * PAGE, 1) && is(view, 30 * PAGE, 31 * PAGE, 3));
    CHECK(is(view, 31 * PAGE, bytes, 1));
    CHECK(msync(data, bytes, PUBLISH) == 0);
    const unsigned char *all = look(file, bytes);
    CHECK(is(all, 10 * PAGE, 30 * PAGE, 1) && is(all, 30 * PAGE, 40 * PAGE, 3) && is(all, 40 * PAGE, bytes, 1));
    let_go(data, bytes);
    for (int step = 10; step < 20; step++) {
        data = work_on(file, bytes);
        CHECK(data[0] == (step == 10 ? 2 : step - 1));
        memset(data, step, PAGE);
        CHECK(msync(data, bytes, PUBLISH) == 0);
        let_go(data, bytes);
    }
}

/* Makes a mapping of a page of a file a producer's, looks at the file, and unmaps both. */
static void use(int file, int is_published, int value) {
    unsigned char *data = work_on(file, PAGE);
    memset(data, value, PAGE);
    if (is_published)
        CHECK(msync(data, PAGE, PUBLISH) == 0);
    CHECK(shows(file, PAGE, is_published ? value : 0));
    let_go(data, PAGE);
}

static void removed_files(void) {
    size_t bytes = 10 * PAGE;
    char path[512];
    snprintf(path, sizeof path, "/dev/shm%s", name);
    for (int way = 0; way < 4; way++) {
        int file = file_of(name, bytes);
        CHECK(shows(file, bytes, 0));
        unsigned char *data = work_on(file, bytes);
        memset(data, way + 1, bytes);
        CHECK(msync(data, bytes, PUBLISH) == 0);
        const unsigned char *view = look(file, bytes);
        switch (way) {
        case 0: CHECK(shm_unlink(name) == 0); break;
        case 1: CHECK(unlink(path) == 0); break;
        case 2: CHECK(unlinkat(AT_FDCWD, path, 0) == 0); break;
        /* As a program would that has nothing preloaded: the next file of the name has another number. */
        case 3: CHECK(syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0); break;
        }
        CHECK(is(view, 0, bytes, way + 1));
        CHECK(msync(data, bytes, PUBLISH) == -1 && errno == ENOENT);
        let_go(data, bytes);
        let_go(view, bytes);
        close(file);
        CHECK(holds() == 0);
    }
    /* What is removed unseen when it is mapped no more is let go when the next file comes. */
    int file = file_of(name, bytes);
    use(file, 1, 1);
    CHECK(syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0);
    CHECK(holds() == 1 && close(file) == 0);
    file = file_of(name, bytes);
    CHECK(shows(file, bytes, 0));
    CHECK(holds() <= 1);
    unsigned char *data = work_on(file, bytes);
    CHECK(is(data, 0, bytes, 0));
    memset(data, 50, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0 && shows(file, bytes, 50));
    CHECK(shm_unlink("/no such file") == -1 && errno == ENOENT);
    CHECK(unlink("/no such file") == -1 && errno == ENOENT);
    CHECK(remove("/no such file") == -1 && errno == ENOENT);
}

static void renamed_files(void) {
    size_t bytes = 10 * PAGE;
    char first[512], second[512];
    snprintf(first, sizeof first, "/dev/shm%s", name);
    snprintf(second, sizeof second, "/dev/shm%s.final", name);
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data, 1, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    CHECK(rename(first, second) == 0);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == ENOENT);
    unsigned char *anew = work_on(file, bytes);
    memset(anew, 2, bytes);
    CHECK(msync(anew, bytes, PUBLISH) == 0);
    CHECK(shows(file, bytes, 2));
    IN_A_CHILD(CHECK(shows(file, bytes, 2)));
    CHECK(rename(second, first) == 0);
    CHECK(shows(file, bytes, 1));
    memset(data, 3, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    CHECK(shows(file, bytes, 3));
    CHECK(is(view, 0, bytes, 1));
    CHECK(rename(first, second) == 0);
    CHECK(unlink(second) == 0);
}

/* Uses a file that nobody used before, in one of the ways there are. */
static void use_another_file(int number) {
    char path[256];
    snprintf(path, sizeof path, "%s.%d", name, number);
    int file = file_of(path, PAGE);
    switch (number % 4) {
    case 0: use(file, 1, number % 250 + 1); break;
    case 1: use(file, 0, 1); break;
    case 2: CHECK(shows(file, PAGE, 0)); break;
    case 3: break;
    }
    CHECK(shm_unlink(path) == 0);
    /* What has no name is none of the library's concern. */
    CHECK(shows(file, PAGE, 0));
    CHECK(close(file) == 0);
}

/* Bytes that this process has from its allocator. */
static size_t allocated(void) {
    struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
}

/* Nothing is kept of files that are mapped no more, so that a fork has nothing of them to wait for. */
static void files_that_come_and_go(void) {
    enum { FIRST = 400, ALL = 8400, LEAST_OF_A_FILE = 100 };
    int number = 0;
    while (number < FIRST)
        use_another_file(number++);
    size_t before = allocated();
    while (number < ALL)
        use_another_file(number++);
    size_t after = allocated();
    if (after >= before + (ALL - FIRST) * LEAST_OF_A_FILE)
        printf("%zu bytes became %zu\n", before, after);
    CHECK(after < before + (ALL - FIRST) * LEAST_OF_A_FILE);
    IN_A_CHILD(use_another_file(number));
}

/* Of all regions that were looked at only those of the last ones stay open. */
static void many_published_files(void) {
    enum { FILES = 150 };
    char path[256];
    IN_A_CHILD(for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s.%d", name, i);
        use(file_of(path, PAGE), 1, i + 1);
    });
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s.%d", name, i);
        int file = file_of(path, PAGE);
        CHECK(shows(file, PAGE, i + 1));
        CHECK(close(file) == 0);
        CHECK(holds() >= 1 && holds() <= 64);
    }
    IN_A_CHILD({
        CHECK(shows(file_of(path, PAGE), PAGE, FILES));
        use(file_of(path, PAGE), 1, 1);
    });
    CHECK(shows(file_of(path, PAGE), PAGE, 1));
}

/* A file without a name is none of the library's concern, until it gets one. */
static void a_name_for_a_mapped_file(void) {
    char link[64], path[512];
    int file = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    CHECK(file >= 0 && ftruncate(file, PAGE) == 0);
    CHECK(shows(file, PAGE, 0));
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    snprintf(path, sizeof path, "/dev/shm%s", name);
    CHECK(linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0);
    use(file_of(name, PAGE), 1, 1);
}

/* The first file of a new file system at /dev/shm. */
static int first_file_of_another(const char *path, struct stat *stat) {
    CHECK(umount("/dev/shm") == 0 && mount("none", "/dev/shm", "tmpfs", 0, "size=16m") == 0);
    int file = file_of(path, PAGE);
    CHECK(fstat(file, stat) == 0);
    return file;
}

/* A file that has device and inode of an earlier one is a file of its own. */
static void numbers_used_again(void) {
    for (int is_named = 0; is_named < 2; is_named++) {
        struct stat old, new;
        int file = first_file_of_another(name, &old);
        if (is_named)
            use(file, 1, 1);
        else
            CHECK(shm_unlink(name) == 0 && shows(file, PAGE, 0));
        char path[256];
        snprintf(path, sizeof path, "%s.%d", name, is_named);
        /* Others mount file systems as well, so the number of the device may be another one. */
        int attempts = 0;
        do {
            CHECK(close(file) == 0 && attempts++ < 100);
            file = first_file_of_another(path, &new);
        } while (new.st_dev != old.st_dev);
        CHECK(new.st_ino == old.st_ino);
        CHECK(shows(file, PAGE, 0));
        use(file, 1, 2);
        CHECK(close(file) == 0);
    }
}

static volatile int is_enough;

static void *use_other_files(void *first) {
    for (int number = *(int *)first; !is_enough; number++)
        use_another_file(number);
    return NULL;
}

/* Children that use the library, forked while other threads map and unmap what was never mapped before. */
static void forked_beside_new_files(void) {
    int firsts[] = {0, 1 << 20};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, use_other_files, &firsts[i]) == 0);
    int file = file_of(name, PAGE);
    unsigned char *data = work_on(file, PAGE);
    for (int round = 0; round < 200; round++) {
        memset(data, round + 1, PAGE);
        CHECK(msync(data, PAGE, PUBLISH) == 0);
        IN_A_CHILD({
            alarm(60);
            CHECK(shows(file, PAGE, round + 1));
            for (int i = 0; i < 4; i++)
                use_another_file((2 << 20) + i);
            let_go(data, PAGE);
        });
    }
    is_enough = 1;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void errors(void) {
    size_t bytes = 10 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    /* Where nothing can be published the kernel has the word, which does not know the flag. */
    unsigned char *other = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(msync(other, bytes, PUBLISH) == -1 && errno == EINVAL);
    CHECK(msync((void *)look(file, bytes), bytes, PUBLISH) == -1 && errno == EINVAL);
    unsigned char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(msync(shared, bytes, PUBLISH) == -1 && errno == EINVAL);
    CHECK(msync(shared, bytes, MS_SYNC) == 0);
    CHECK(msync(data, bytes, MS_SYNC) == 0);
    CHECK(msync(data, bytes, MS_SYNC | MS_ASYNC | MS_UPDATE) == -1 && errno == EINVAL);
    CHECK(msync(data, bytes, PUBLISH | 64) == -1 && errno == EINVAL);
    CHECK(msync(data, SIZE_MAX, PUBLISH) == -1 && errno == ENOMEM);
    errno = 77;
    CHECK(msync(data, bytes, PUBLISH) == 0 && errno == 77);
    let_go(look(file, bytes), bytes);
    CHECK(errno == 77);
    /* More than the mapping: what there is gets published. */
    data[0] = 5;
    CHECK(munmap(mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes) == 0);
    CHECK(mprotect(data, bytes, PROT_NONE) == 0);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == EACCES);
    CHECK(mprotect(data, bytes, PROT_READ | PROT_WRITE) == 0);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    CHECK(view[0] == 5);
    /* A mapping that lost a part is several: they are published, and the lack is told. */
    memset(data, 4, bytes);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    let_go(data + 3 * PAGE, PAGE);
    memset(data, 5, 3 * PAGE);
    memset(data + 4 * PAGE, 6, 6 * PAGE);
    CHECK(msync(data, PAGE, PUBLISH) == 0);
    view = look(file, bytes);
    CHECK(is(view, 0, PAGE, 5) && is(view, PAGE, bytes, 4));
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == ENOMEM);
    view = look(file, bytes);
    CHECK(is(view, 0, 3 * PAGE, 5) && is(view, 3 * PAGE, 4 * PAGE, 4) && is(view, 4 * PAGE, bytes, 6));
    let_go(data, 3 * PAGE);
    let_go(data + 4 * PAGE, bytes - 4 * PAGE);
    data = work_on(file, bytes);
    CHECK(data[0] == 5 && msync(data, bytes, PUBLISH) == 0);
    /* A file without length has nothing to publish, and a short one less than the mapping. */
    char empty[256];
    snprintf(empty, sizeof empty, "%s.empty", name);
    int small = file_of(empty, 0);
    unsigned char *nothing = work_on(small, 4 * PAGE);
    CHECK(msync(nothing, 4 * PAGE, PUBLISH) == -1 && errno == EINVAL);
    CHECK(ftruncate(small, PAGE + 10) == 0);
    memset(nothing, 6, PAGE + 10);
    CHECK(msync(nothing, 4 * PAGE, PUBLISH) == 0);
    view = look(small, 4 * PAGE);
    CHECK(is(view, 0, PAGE + 10, 6) && is(view, PAGE + 10, 2 * PAGE, 0));
    /* Moved and grown. */
    CHECK(ftruncate(small, 8 * PAGE) == 0);
    nothing = mremap(nothing, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    CHECK(nothing != MAP_FAILED);
    memset(nothing, 8, 8 * PAGE);
    CHECK(msync(nothing, 8 * PAGE, PUBLISH) == 0 && shows(small, 8 * PAGE, 8));
    shm_unlink(empty);
}

/* What a process sees of its own mappings: how many bytes it may use how. */
static void print_mappings(const char *what) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end, offset;
        char kind[5], path[1024] = "";
        sscanf(line, "%lx-%lx %4s %lx %*s %*s %1000s", &start, &end, kind, &offset, path);
        if (strstr(path, name + 1) || strstr(path, "plain-file"))
            printf("%s: %lu bytes %s at %lu of %s\n", what, end - start, kind, offset,
                   strstr(path, "plain-file") ? "a plain file" : "the shared file");
    }
    fclose(maps);
}

/* Everything that must be as without the library: run with and without it, it prints the same. */
static void plain(void) {
    size_t bytes = 16 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const unsigned char *view = look(file, bytes);
    unsigned char *private = work_on(file, bytes);
    memset(shared, 1, bytes);
    CHECK(is(view, 0, bytes, 1) && is(private, 0, bytes, 1));
    memset(private, 2, PAGE);
    memset(shared, 3, bytes);
    printf("%d %d %d\n", view[0], private[0], private[PAGE]);
    printf("msync %d %d\n", msync(shared, bytes, MS_SYNC), msync(private, bytes, MS_ASYNC));
    int result = msync(shared, bytes, PUBLISH);
    printf("msync with the flag %d %d\n", result, errno);
    print_mappings("mapped");
    char path[] = "/tmp/plain-file-XXXXXX";
    int disk = mkstemp(path);
    CHECK(ftruncate(disk, 4 * PAGE) == 0);
    unsigned char *a = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, disk, 0);
    unsigned char *b = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE, disk, PAGE);
    a[0] = 1;
    result = msync(a, PAGE, PUBLISH);
    printf("a file elsewhere %d %d %d\n", b[0], result, errno);
    print_mappings("elsewhere");
    a = mremap(a, 4 * PAGE, 2 * PAGE, 0);
    print_mappings("shrunk");
    let_go(private + 4 * PAGE, 2 * PAGE);
    let_go(view, PAGE);
    print_mappings("in pieces");
    CHECK(mprotect(shared, PAGE, PROT_READ) == 0);
    print_mappings("protected");
    result = munmap((char *)shared + 1, PAGE);
    printf("munmap %d %d\n", result, errno);
    void *bad = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, 12345, 0);
    printf("mmap %d %d\n", bad == MAP_FAILED, errno);
    printf("files %zu\n", open_files(""));
    unlink(path);
    printf("unlink %d\n", shm_unlink(name));
}

/* Publishes until there is no room, then waits for a word, and publishes once more. */
static void without_room(void) {
    size_t bytes = 10 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    int step = 0, result;
    do {
        memset(data, ++step, bytes);
        result = msync(data, bytes, PUBLISH);
        usleep(2000);
    } while (result == 0);
    CHECK(result == -1 && errno == ENOSPC);
    memset(data, 77, 5 * PAGE);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == ENOSPC);
    puts("full");
    fflush(stdout);
    CHECK(getchar() == EOF);
    memset(data + 5 * PAGE, 77, 5 * PAGE);
    CHECK(msync(data, bytes, PUBLISH) == 0 && shows(file, bytes, 77));
}

/* Where regions have room for 4 MiB. */
static void a_small_file_system(void) {
    size_t bytes = 2048 * PAGE, few = 160 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data, 1, bytes);
    for (int again = 0; again < 3; again++) {
        CHECK(msync(data, bytes, PUBLISH) == -1 && errno == ENOSPC);
        CHECK(is(data, 0, bytes, 1) && shows(file, bytes, 0));
    }
    char other[256];
    snprintf(other, sizeof other, "%s.few", name);
    int small = file_of(other, few);
    unsigned char *less = work_on(small, few);
    /* A view of each version takes memory until there is no more; then it is let go, and publishing goes on. */
    enum { ROUNDS = 100 };
    const unsigned char *views[ROUNDS];
    int held = 0, failed = 0;
    for (int step = 0; step < ROUNDS; step++) {
        memset(less, step, few);
        if (msync(less, few, PUBLISH) == 0) {
            views[held++] = look(small, few);
            continue;
        }
        CHECK(errno == ENOSPC);
        failed++;
        while (held > 0)
            let_go(views[--held], few);
        CHECK(msync(less, few, PUBLISH) == 0 && shows(small, few, step));
    }
    CHECK(failed > 0);
}

/* Bytes that a file takes. */
static size_t taken(int file) {
    struct stat about;
    CHECK(fstat(file, &about) == 0);
    return (size_t)about.st_blocks * 512;
}

/* The file itself has zeros where the memory over it was written, and the kernel may drop those where it looks for memory. */
static void takes_at_most(int line, int file, size_t most) {
    size_t found = taken(file);
    if (found > most) {
        printf("line %d: the file takes %zu bytes, and %zu at most were to be\n", line, found, most);
        exit(1);
    }
}

/* Of a sparse file neither what is published nor what is mapped anew takes more than what was written. */
static void holes_of_a_file(void) {
    size_t pages = 2000, bytes = pages * PAGE + 77, written = 200;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data + 100 * PAGE, 1, 100 * PAGE);
    memset(data + 1500 * PAGE, 2, 100 * PAGE);
    takes_at_most(__LINE__, file, written * PAGE);
    /* First a part, so that the rest is as in the file; then the rest; then nothing that is new. */
    CHECK(msync(data + 100 * PAGE, PAGE, PUBLISH) == 0);
    takes_at_most(__LINE__, file, written * PAGE);
    const unsigned char *view = look(file, bytes);
    CHECK(is(view, 0, 100 * PAGE, 0) && is(view, 100 * PAGE, 101 * PAGE, 1) && is(view, 101 * PAGE, bytes, 0));
    let_go(view, bytes);
    for (int again = 0; again < 3; again++) {
        CHECK(msync(data, bytes, PUBLISH) == 0);
        takes_at_most(__LINE__, file, written * PAGE);
        view = look(file, bytes);
        CHECK(is(view, 0, 100 * PAGE, 0) && is(view, 100 * PAGE, 200 * PAGE, 1) && is(view, 200 * PAGE, 1500 * PAGE, 0));
        CHECK(is(view, 1500 * PAGE, 1600 * PAGE, 2) && is(view, 1600 * PAGE, bytes, 0));
        let_go(view, bytes);
    }
    /* What was a hole is written. */
    memset(data + 700 * PAGE, 3, PAGE);
    data[bytes - 1] = 4;
    written += 2;
    CHECK(msync(data, bytes, PUBLISH) == 0);
    takes_at_most(__LINE__, file, written * PAGE);
    view = look(file, bytes);
    CHECK(is(view, 200 * PAGE, 700 * PAGE, 0) && is(view, 700 * PAGE, 701 * PAGE, 3));
    CHECK(is(view, 1600 * PAGE, bytes - 1, 0) && view[bytes - 1] == 4);
    let_go(view, bytes);
    let_go(data, bytes);
    /* The next producer goes on, and then one whose file has lost what it had. */
    for (int cut = 0; cut < 2; cut++) {
        if (cut)
            CHECK(ftruncate(file, 0) == 0 && ftruncate(file, (off_t)bytes) == 0);
        CHECK(lseek(file, 5, SEEK_SET) == 5);
        data = work_on(file, bytes);
        CHECK(lseek(file, 0, SEEK_CUR) == 5);
        takes_at_most(__LINE__, file, written * PAGE);
        CHECK(is(data, 100 * PAGE, 150 * PAGE, 1) && is(data, 1500 * PAGE, 1600 * PAGE, 2));
        CHECK(is(data, 150 * PAGE, 151 * PAGE, cut ? 5 : 1) && is(data, 151 * PAGE, 200 * PAGE, 1));
        CHECK(is(data, 700 * PAGE, 701 * PAGE, 3) && data[bytes - 1] == 4);
        memset(data + 150 * PAGE, 5 + cut, PAGE);
        CHECK(msync(data + 150 * PAGE, PAGE, PUBLISH) == 0);
        takes_at_most(__LINE__, file, written * PAGE);
        view = look(file, bytes);
        CHECK(is(view, 0, 100 * PAGE, 0) && is(view, 150 * PAGE, 151 * PAGE, 5 + cut) && view[bytes - 1] == 4);
        CHECK(is(view, 200 * PAGE, 700 * PAGE, 0) && is(view, 151 * PAGE, 200 * PAGE, 1));
        let_go(view, bytes);
        let_go(data, bytes);
    }
}

static pthread_barrier_t together;

static void *publish_the_first_page(void *data) {
    pthread_barrier_wait(&together);
    CHECK(msync(data, PAGE, PUBLISH) == 0);
    return NULL;
}

/* What one thread writes into a hole while another publishes a part for the first time is found by the next publish. */
static void holes_written_beside_a_publish(void) {
    size_t pages = 16384, bytes = pages * PAGE, page = pages / 2 * PAGE;
    for (unsigned round = 0; round < 400; round++) {
        int file = file_of(name, bytes);
        unsigned char *data = work_on(file, bytes);
        data[0] = 1;
        pthread_t thread;
        CHECK(pthread_barrier_init(&together, NULL, 2) == 0);
        CHECK(pthread_create(&thread, NULL, publish_the_first_page, data) == 0);
        pthread_barrier_wait(&together);
        struct timespec pause = {0, (long)(round * 7919 % 3000) * 1000};
        nanosleep(&pause, NULL);
        data[page] = 7;
        CHECK(msync(data + page, PAGE, PUBLISH) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        const unsigned char *view = look(file, bytes);
        CHECK(view[0] == 1 && is(view, page, page + 1, 7) && is(view, page + 1, page + PAGE, 0));
        let_go(view, bytes);
        let_go(data, bytes);
        close(file);
        CHECK(pthread_barrier_destroy(&together) == 0 && shm_unlink(name) == 0);
    }
}

/* Holes stay holes where they were watched before, in a mapping of which a part is gone or that was moved. */
static void holes_of_what_is_left_of_a_mapping(void) {
    size_t pages = 3000, bytes = pages * PAGE, written = 20;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data + 10 * PAGE, 1, written * PAGE);
    CHECK(msync(data, bytes, PUBLISH) == 0 && taken(file) <= written * PAGE);
    let_go(data, PAGE);
    data += PAGE;
    bytes -= PAGE;
    CHECK(msync(data, bytes, PUBLISH) == 0 && taken(file) <= written * PAGE);
    CHECK(ftruncate(file, (off_t)(bytes + 100 * PAGE)) == 0);
    data = mremap(data, bytes, bytes + 50 * PAGE, MREMAP_MAYMOVE);
    CHECK(data != MAP_FAILED);
    bytes += 50 * PAGE;
    data[12 * PAGE] = 2;
    data[bytes - 1] = 3;
    written++;
    CHECK(msync(data, bytes, PUBLISH) == 0 && taken(file) <= written * PAGE);
    const unsigned char *view = look(file, bytes + PAGE);
    CHECK(is(view, 0, 10 * PAGE, 0) && is(view, 10 * PAGE, 13 * PAGE, 1) && view[13 * PAGE] == 2);
    CHECK(is(view, 14 * PAGE, 30 * PAGE, 1) && is(view, 30 * PAGE, bytes + PAGE - 1, 0) && view[bytes + PAGE - 1] == 3);
    let_go(view, bytes + PAGE);
}

/* Several mappings that are moved in one call, which Linux does from 6.17 on, stay what they are. */
static void mappings_moved_together(void) {
    int file = file_of(name, 8 * PAGE), fixed = MAP_PRIVATE | MAP_FIXED, both = PROT_READ | PROT_WRITE;
    unsigned char *from = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *to = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(from != MAP_FAILED && to != MAP_FAILED);
    CHECK(mmap(from, PAGE, both, fixed, file, 0) == from);
    CHECK(mmap(from + PAGE, PAGE, both, fixed, file, 5 * PAGE) == from + PAGE);
    CHECK(mmap(from + 2 * PAGE, PAGE, both, fixed | MAP_ANONYMOUS, -1, 0) == from + 2 * PAGE);
    from[0] = 1;
    from[PAGE] = 5;
    from[2 * PAGE] = 99;
    CHECK(msync(from, PAGE, PUBLISH) == 0 && msync(from + PAGE, PAGE, PUBLISH) == 0);
    unsigned char *data = mremap(from, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (data == MAP_FAILED) {
        CHECK(errno == EFAULT || errno == EINVAL);
        data = from;
    } else {
        CHECK(msync(from, PAGE, PUBLISH) == -1);
    }
    data[0] = 11;
    data[PAGE] = 55;
    CHECK(msync(data, PAGE, PUBLISH) == 0 && msync(data + PAGE, PAGE, PUBLISH) == 0);
    CHECK(msync(data + 2 * PAGE, PAGE, PUBLISH) == -1);
    const unsigned char *view = look(file, 8 * PAGE);
    CHECK(view[0] == 11 && is(view, PAGE, 5 * PAGE, 0) && view[5 * PAGE] == 55 && is(view, 6 * PAGE, 8 * PAGE, 0));
    let_go(view, 8 * PAGE);
}

/* Takes all of the shared memory that is left. */
static int fill_up(const char *path) {
    int file = shm_open(path, O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0);
    static char page[PAGE];
    while (write(file, page, PAGE) == PAGE)
        ;
    CHECK(errno == ENOSPC);
    return file;
}

/* Where the shared memory has 16 MiB: the files of the programs and the regions together. */
static void a_full_shared_memory(void) {
    size_t bytes = 10 << 20, half = bytes / 2;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data, 1, half);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    char path[256];
    snprintf(path, sizeof path, "%s.fill", name);
    int fill = fill_up(path);
    /* Nothing is left: what needs no room goes on, what needs some is an error. */
    CHECK(msync(data, bytes, PUBLISH) == 0 || errno == ENOSPC);
    memset(data, 2, half);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == ENOSPC);
    CHECK(msync(data + PAGE, PAGE, PUBLISH) == 0 || errno == ENOSPC);
    let_go(data, bytes);
    data = work_on(file, bytes);
    CHECK(is(data, 2 * PAGE, half, 1));
    let_go(data, bytes);
    /* The file loses its pages, and somebody else takes them: there is no room for what was published. */
    CHECK(ftruncate(file, 0) == 0 && ftruncate(file, (off_t)bytes) == 0);
    close(fill_up(path));
    CHECK(lseek(fill, 0, SEEK_END) > 0);
    static char page[PAGE];
    while (write(fill, page, PAGE) == PAGE)
        ;
    CHECK(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) == MAP_FAILED && errno == ENOSPC);
    CHECK(shm_unlink(path) == 0 && close(fill) == 0);
    data = work_on(file, bytes);
    CHECK(is(data, 2 * PAGE, half, 1));
}

/* A publish without room changes nothing of what the next one shows. Regions have room for 4 MiB. */
static void a_publish_that_fails_changes_nothing(void) {
    size_t bytes = 2048 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *first = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, PAGE);
    unsigned char *second = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 5 * PAGE);
    unsigned char *last = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, (off_t)(bytes - PAGE));
    CHECK(first != MAP_FAILED && second != MAP_FAILED && last != MAP_FAILED);
    memset(first, 1, 2 * PAGE);
    memset(second, 2, 2 * PAGE);
    memset(last, 3, PAGE);
    CHECK(msync(first, 2 * PAGE, PUBLISH) == 0 && msync(second, 2 * PAGE, PUBLISH) == 0);
    CHECK(msync(last, PAGE, PUBLISH) == 0);
    let_go(first, 2 * PAGE);
    let_go(second, 2 * PAGE);
    /* It has all of the first and a part of the second. */
    unsigned char *large = mmap(NULL, bytes - PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(large != MAP_FAILED);
    memset(large, 4, bytes - PAGE);
    for (int again = 0; again < 3; again++) {
        CHECK(msync(large, bytes - PAGE, PUBLISH) == -1 && errno == ENOSPC);
        memset(last, 5 + again, PAGE);
        CHECK(msync(last, PAGE, PUBLISH) == 0);
        const unsigned char *view = look(file, bytes);
        CHECK(is(view, 0, PAGE, 0) && is(view, PAGE, 3 * PAGE, 1) && is(view, 3 * PAGE, 5 * PAGE, 0));
        CHECK(is(view, 5 * PAGE, 7 * PAGE, 2) && is(view, 7 * PAGE, bytes - PAGE, 0));
        CHECK(is(view, bytes - PAGE, bytes, 5 + again));
        let_go(view, bytes);
    }
    let_go(large, bytes - PAGE);
    unsigned char *less = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, PAGE);
    CHECK(less != MAP_FAILED && is(less, 0, 2 * PAGE, 1) && is(less, 4 * PAGE, 5 * PAGE, 2));
    memset(less, 9, 5 * PAGE);
    CHECK(msync(less, 5 * PAGE, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    CHECK(is(view, 0, PAGE, 0) && is(view, PAGE, 6 * PAGE, 9) && is(view, 6 * PAGE, 7 * PAGE, 2));
    CHECK(is(view, bytes - PAGE, bytes, 7));
}

/* What may be read is known page by page. */
static void unreadable_pages(void) {
    size_t bytes = 10 * PAGE;
    int file = file_of(name, bytes);
    unsigned char *data = work_on(file, bytes);
    memset(data, 1, bytes);
    CHECK(mprotect(data + 3 * PAGE, PAGE, PROT_NONE) == 0);
    CHECK(mprotect(data + 7 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == EACCES);
    CHECK(mprotect(data + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == EACCES);
    /* A call that fails does not say that it may be read. */
    CHECK(mprotect(data + 3 * PAGE + 1, PAGE, PROT_READ | PROT_WRITE) == -1 && errno == EINVAL);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == EACCES);
    CHECK(mprotect(data + 3 * PAGE, PAGE, PROT_READ) == 0);
    CHECK(msync(data, bytes, PUBLISH) == 0 && shows(file, bytes, 1));
    CHECK(mprotect(data + 1, PAGE, PROT_NONE) == -1 && errno == EINVAL);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    let_go(data, bytes);
    /* A mapping that is moved takes it along. */
    data = work_on(file, bytes);
    CHECK(mprotect(data, bytes, PROT_NONE) == 0);
    data = mremap(data, bytes, 2 * bytes, MREMAP_MAYMOVE);
    CHECK(data != MAP_FAILED);
    CHECK(msync(data, bytes, PUBLISH) == -1 && errno == EACCES);
    CHECK(mprotect(data, 2 * bytes, PROT_READ | PROT_WRITE) == 0);
    CHECK(is(data, 0, bytes, 1) && msync(data, bytes, PUBLISH) == 0);
}

/* What the library of hooks.c saw last. */
struct hooked {
    unsigned long maps, unmaps, remaps, protects, syncs;
    void *address;
    size_t bytes;
};

/* A library that follows the process's memory learns of every call. */
static void hooked_calls(void) {
    struct hooked *seen = dlsym(RTLD_DEFAULT, "hooked");
    CHECK(seen != NULL);
    size_t bytes = 10 * PAGE;
    int file = file_of(name, bytes);
    unsigned long maps = seen->maps;
    unsigned char *other = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(other != MAP_FAILED && seen->maps == maps + 1);
    unsigned long protects = seen->protects, syncs = seen->syncs, unmaps = seen->unmaps, remaps = seen->remaps;
    CHECK(mprotect(other, bytes, PROT_READ) == 0 && seen->protects == protects + 1 && seen->address == other);
    CHECK(msync(other, bytes, MS_ASYNC) == 0 && seen->syncs == syncs + 1 && seen->address == other);
    CHECK(mremap(other, bytes, bytes / 2, 0) == other && seen->remaps == remaps + 1 && seen->address == other);
    let_go(other, bytes / 2);
    CHECK(seen->unmaps == unmaps + 1 && seen->address == other && seen->bytes == bytes / 2);
    /* And of those that this library has its own part in. */
    maps = seen->maps;
    unsigned char *data = work_on(file, bytes);
    CHECK(seen->maps > maps);
    memset(data, 1, bytes);
    protects = seen->protects;
    CHECK(mprotect(data, bytes, PROT_NONE) == 0 && seen->protects > protects);
    CHECK(mprotect(data, bytes, PROT_READ | PROT_WRITE) == 0);
    CHECK(msync(data, bytes, PUBLISH) == 0);
    const unsigned char *view = look(file, bytes);
    let_go(view, bytes);
    CHECK(seen->address == view && seen->bytes == bytes);
    view = look(file, bytes);
    remaps = seen->remaps;
    data = mremap(data, bytes, bytes / 2, 0);
    CHECK(data != MAP_FAILED && seen->remaps == remaps + 1);
    let_go(data, bytes / 2);
    CHECK(seen->address == data && seen->bytes == bytes / 2);
    let_go(view, bytes);
    CHECK(seen->address == view && seen->bytes == bytes);
}

static unsigned char *volatile published;

static void *publish_until_it_fails(void *unused) {
    while (msync(published, 500 * PAGE, PUBLISH) == 0)
        ;
    return unused;
}

static void unmapped_while_publishing(void) {
    size_t bytes = 500 * PAGE;
    int file = file_of(name, bytes);
    for (int round = 0; round < 100; round++) {
        unsigned char *data = work_on(file, bytes);
        memset(data, round, bytes);
        published = data;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, publish_until_it_fails, NULL) == 0);
        usleep((useconds_t)(round * 37 % 3000));
        let_go(round % 2 ? data : data + 100 * PAGE, round % 2 ? bytes : 300 * PAGE);
        CHECK(pthread_join(thread, NULL) == 0);
        /* What was left of it was published piece by piece. */
        const unsigned char *view = look(file, bytes);
        CHECK(is(view, 0, 100 * PAGE, view[0]) && is(view, 100 * PAGE, 400 * PAGE, view[100 * PAGE]));
        CHECK(is(view, 400 * PAGE, bytes, view[400 * PAGE]));
        let_go(view, bytes);
        /* Where it is gone, something of the library's own may be by now. */
        if (round % 2 == 0) {
            let_go(data, 100 * PAGE);
            let_go(data + 400 * PAGE, 100 * PAGE);
        }
    }
}

static uint64_t number_ = 1;

static size_t below(size_t limit) {
    number_ = number_ * 6364136223846793005u + 1442695040888963407u;
    return (number_ >> 33) % limit;
}

enum { MOST = 700, VIEWS_MOST = 40 };

/* A view with a copy of what it should show, page by page; pages that were unmapped have no address any more. */
struct model_view {
    unsigned char *at;
    size_t pages, first;
    unsigned char expected[MOST];
    char is_mapped[MOST];
};

static void check_view(const struct model_view *view) {
    for (size_t page = 0; page < view->pages; page++)
        if (view->is_mapped[page]) {
            CHECK(view->at[page * PAGE] == view->expected[page]);
            CHECK(view->at[page * PAGE + PAGE - 1] == view->expected[page]);
        }
}

/* Everything in any order, against a plain copy of what each memory should hold. Each page has one value throughout. */
static void anything(void) {
    static unsigned char shown[MOST], memory[MOST];
    static struct model_view views[VIEWS_MOST];
    size_t count = 0, bytes = MOST * PAGE;
    int file = file_of(name, bytes);
    for (const char *c = name; *c; c++)
        number_ = number_ * 31 + (unsigned char)*c;
    unsigned char *data = work_on(file, bytes);
    for (int step = 0; step < 4000; step++) {
        size_t first = below(MOST), pages = 1 + below(below(4) ? 8 : MOST - first);
        if (first + pages > MOST)
            pages = MOST - first;
        switch (below(8)) {
        case 0:
        case 1: {
            int value = (int)below(256);
            memset(data + first * PAGE, value, pages * PAGE);
            memset(memory + first, value, pages);
            break;
        }
        case 2: {
            /* Begin and end anywhere in their pages. */
            size_t start = first * PAGE + below(PAGE), end = (first + pages - 1) * PAGE + 1 + below(PAGE);
            if (start >= end)
                start = first * PAGE;
            CHECK(msync(data + start, end - start, PUBLISH) == 0);
            memcpy(shown + first, memory + first, pages);
            break;
        }
        case 3:
            CHECK(msync(data, bytes, PUBLISH) == 0);
            memcpy(shown, memory, MOST);
            break;
        case 4:
            if (count < VIEWS_MOST) {
                struct model_view *view = &views[count++];
                int flags = (below(2) ? MAP_SHARED : MAP_PRIVATE) | (below(4) ? 0 : MAP_POPULATE);
                view->at = mmap(NULL, pages * PAGE, PROT_READ, flags, file, (off_t)(first * PAGE));
                CHECK(view->at != MAP_FAILED);
                view->pages = pages;
                memcpy(view->expected, shown + first, pages);
                memset(view->is_mapped, 1, pages);
                check_view(view);
            }
            break;
        case 5:
        case 6:
            if (count > 0) {
                struct model_view *view = &views[below(count)];
                size_t from = below(view->pages), some = 1 + below(view->pages - from);
                if (below(3) == 0)
                    from = 0, some = view->pages;
                /* What was unmapped before may be somebody else's now. */
                for (size_t page = from; page < from + some; page++) {
                    size_t end = page;
                    while (end < from + some && view->is_mapped[end])
                        end++;
                    if (end > page)
                        let_go(view->at + page * PAGE, (end - page) * PAGE);
                    memset(view->is_mapped + page, 0, end - page);
                    page = end;
                }
                if (!memchr(view->is_mapped, 1, view->pages))
                    *view = views[--count];
            }
            break;
        case 7:
            if (below(10) == 0) {
                let_go(data, bytes);
                data = work_on(file, bytes);
                memcpy(memory, shown, MOST);
            } else if (below(3) == 0) {
                /* A part of it anew: by unmapping it first, or over what is there. */
                if (below(2))
                    let_go(data + first * PAGE, pages * PAGE);
                CHECK(mmap(data + first * PAGE, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file,
                           (off_t)(first * PAGE)) == data + first * PAGE);
                memcpy(memory + first, shown + first, pages);
            } else if (below(10) == 0) {
                IN_A_CHILD(for (size_t i = 0; i < count; i++) check_view(&views[i]));
            }
            break;
        }
        if (count > 0)
            check_view(&views[below(count)]);
        if (step % 100 == 0)
            for (size_t page = 0; page < MOST; page++)
                CHECK(data[page * PAGE + below(PAGE)] == memory[page]);
    }
    for (size_t i = 0; i < count; i++)
        check_view(&views[i]);
    CHECK(holds() <= 2 + 8);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*play)(void);
    } scenes[] = {
        {"first_publish", first_publish},
        {"never_unmapping", never_unmapping},
        {"parts", parts},
        {"ways_of_mapping", ways_of_mapping},
        {"unmapping_in_pieces", unmapping_in_pieces},
        {"many_threads", many_threads},
        {"fork_keeps_views", fork_keeps_views},
        {"forked_while_first_publishing", forked_while_first_publishing},
        {"complaints_of_a_child", complaints_of_a_child},
        {"several_files", several_files},
        {"pieces_of_a_file", pieces_of_a_file},
        {"the_next_producer", the_next_producer},
        {"removed_files", removed_files},
        {"renamed_files", renamed_files},
        {"files_that_come_and_go", files_that_come_and_go},
        {"many_published_files", many_published_files},
        {"a_name_for_a_mapped_file", a_name_for_a_mapped_file},
        {"numbers_used_again", numbers_used_again},
        {"forked_beside_new_files", forked_beside_new_files},
        {"errors", errors},
        {"plain", plain},
        {"without_room", without_room},
        {"anything", anything},
        {"unmapped_while_publishing", unmapped_while_publishing},
        {"a_small_file_system", a_small_file_system},
        {"holes_of_a_file", holes_of_a_file},
        {"mappings_moved_together", mappings_moved_together},
        {"holes_written_beside_a_publish", holes_written_beside_a_publish},
        {"holes_of_what_is_left_of_a_mapping", holes_of_what_is_left_of_a_mapping},
        {"a_full_shared_memory", a_full_shared_memory},
        {"a_publish_that_fails_changes_nothing", a_publish_that_fails_changes_nothing},
        {"unreadable_pages", unreadable_pages},
        {"hooked_calls", hooked_calls},
    };
    CHECK(argc == 3);
    name = argv[2];
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(scenes[i].name, argv[1]) == 0) {
            scenes[i].play();
            return 0;
        }
    printf("there is no scene %s\n", argv[1]);
    return 2;
}
