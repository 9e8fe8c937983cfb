/* What the programs have in common: checks that say what failed and where, memory, and other processes. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xasm.h>

#define PAGE ((size_t)4096)

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s (errno %d: %s; %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno), \
                    xpmem_error());                                                                                   \
            _exit(1);                                                                                                 \
        }                                                                                                             \
    } while (0)

/* The call fails with this number, and its text has these words. */
#define FAILS(call, number, words)                                             \
    do {                                                                       \
        errno = 0;                                                             \
        CHECK((intptr_t)(call) == -1);                                         \
        CHECK(errno == (number));                                              \
        CHECK(strstr(xpmem_error(), words));                                   \
    } while (0)

/* Zeroed memory of so many pages. */
static inline unsigned char *pages(size_t count)
{
    void *at = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* Bytes that differ from page to page, and from seed to seed. */
static inline unsigned char pattern(size_t at, unsigned seed)
{
    return (unsigned char)(at * 31 + at / PAGE * 7 + seed);
}

static inline void fill(unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern(i, seed);
}

static inline int is_filled(const unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern(i, seed))
            return 0;
    return 1;
}

/* The end of a process that has to end well. */
static inline void reap(pid_t process)
{
    int status;
    while (waitpid(process, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Starts this program anew, as a process that knows nothing of this one but a segment. */
static inline pid_t start(const char *role, long long segid)
{
    char number[32];
    snprintf(number, sizeof number, "%lld", segid);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        /* It is not to outlive a test that ends before it. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "scenes", "peer", role, number, (char *)NULL);
        _exit(127);
    }
    return process;
}

static inline void play(const char *role, long long segid)
{
    reap(start(role, segid));
}

/* Whether a write, or a read, ends a child by a signal. */
static inline int is_fatal(volatile unsigned char *at, int writing)
{
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        signal(SIGSEGV, SIG_DFL);
        if (writing)
            *at = 1;
        else
            (void)*at;
        _exit(0);
    }
    int status;
    CHECK(waitpid(process, &status, 0) == process);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static inline xpmem_segid_t make(void *at, size_t bytes, int mode)
{
    xpmem_segid_t segid = xpmem_make(at, bytes, XPMEM_PERMIT_MODE, (void *)(intptr_t)mode);
    CHECK(segid > 0);
    return segid;
}

static inline xpmem_apid_t get(xpmem_segid_t segid, int flags)
{
    xpmem_apid_t apid = xpmem_get(segid, flags, XPMEM_PERMIT_MODE, NULL);
    CHECK(apid > 0);
    return apid;
}

static inline unsigned char *attach(xpmem_apid_t apid, off_t offset, size_t bytes)
{
    struct xpmem_addr addr = {apid, offset};
    void *at = xpmem_attach(addr, bytes, NULL);
    CHECK(at != (void *)-1);
    return at;
}

/* Any attachment that may fail. */
static inline void *try_attach(xpmem_apid_t apid, off_t offset, size_t bytes, void *at)
{
    struct xpmem_addr addr = {apid, offset};
    return xpmem_attach(addr, bytes, at);
}

#endif
