/* What XPMEM's documentation says of its calls, played by one process and those that it starts. */
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* ---- sharing ---- */

static void sharing(void)
{
    unsigned char *memory = pages(16);
    fill(memory, 16 * PAGE, 1);
    errno = 77;
    xpmem_segid_t segid = make(memory, 16 * PAGE, 0600);
    CHECK(errno == 77);
    CHECK(is_filled(memory, 16 * PAGE, 1));
    play("reads and writes", segid);
    CHECK(is_filled(memory, 16 * PAGE, 2));
    fill(memory, 16 * PAGE, 1);
    play("reads and writes", segid);
    CHECK(is_filled(memory, 16 * PAGE, 2));
    CHECK(xpmem_remove(segid) == 0);
    CHECK(is_filled(memory, 16 * PAGE, 2));
}

static void reads_and_writes(xpmem_segid_t segid)
{
    xpmem_apid_t apid = get(segid, XPMEM_RDWR);
    unsigned char *seen = attach(apid, 0, 16 * PAGE);
    CHECK(is_filled(seen, 16 * PAGE, 1));
    fill(seen, 16 * PAGE, 2);
    CHECK(xpmem_detach(seen) == 0);
    CHECK(xpmem_release(apid) == 0);
}

/* Both sides see what the other writes, at once. */
static void talking(void)
{
    unsigned char *memory = pages(1);
    xpmem_segid_t segid = make(memory, PAGE, 0600);
    pid_t other = start("answers", segid);
    _Atomic unsigned *question = (_Atomic unsigned *)memory, *answer = question + 1;
    for (unsigned turn = 1; turn <= 1000; turn++) {
        atomic_store(question, turn);
        while (atomic_load(answer) != turn)
            sched_yield();
    }
    reap(other);
}

static void answers(xpmem_segid_t segid)
{
    unsigned char *memory = attach(get(segid, XPMEM_RDWR), 0, PAGE);
    _Atomic unsigned *question = (_Atomic unsigned *)memory, *answer = question + 1;
    for (unsigned turn = 1; turn <= 1000; turn++) {
        while (atomic_load(question) != turn)
            sched_yield();
        atomic_store(answer, turn);
    }
}

static unsigned char zeroed[4 * 4096] __attribute__((aligned(4096)));

/* Memory of the allocator, of the program, and what may only be read. */
static void kinds_of_memory(void)
{
    void *large, *small;
    CHECK(posix_memalign(&large, PAGE, 400 * PAGE) == 0);
    CHECK(posix_memalign(&small, PAGE, 4 * PAGE) == 0);
    unsigned char *kinds[] = {large, small, zeroed};
    size_t bytes[] = {400 * PAGE, 4 * PAGE, 4 * PAGE};
    for (int i = 0; i < 3; i++) {
        fill(kinds[i], bytes[i], 5);
        xpmem_segid_t segid = make(kinds[i], bytes[i], 0600);
        CHECK(is_filled(kinds[i], bytes[i], 5));
        unsigned char *seen = attach(get(segid, XPMEM_RDWR), 0, bytes[i]);
        CHECK(is_filled(seen, bytes[i], 5));
        fill(seen, bytes[i], 6);
        CHECK(is_filled(kinds[i], bytes[i], 6));
        CHECK(xpmem_remove(segid) == 0);
    }
    /* The allocator goes on. */
    free(large);
    free(small);
    for (int i = 0; i < 1000; i++) {
        char *piece = malloc(1 + i * 37);
        CHECK(piece);
        memset(piece, i, 1 + i * 37);
        free(piece);
    }
    unsigned char *memory = pages(4);
    fill(memory, 4 * PAGE, 9);
    CHECK(mprotect(memory + PAGE, 2 * PAGE, PROT_READ) == 0);
    xpmem_segid_t segid = make(memory, 4 * PAGE, 0600);
    CHECK(is_filled(memory, 4 * PAGE, 9));
    CHECK(is_fatal(memory + PAGE, 1));
    memory[0] = 1;
    memory[3 * PAGE] = 1;
    CHECK(attach(get(segid, XPMEM_RDONLY), 3 * PAGE, PAGE)[0] == 1);
}

/* ---- places and sizes ---- */

static void places(void)
{
    unsigned char *memory = pages(8);
    fill(memory, 8 * PAGE, 3);
    xpmem_segid_t segid = make(memory, 8 * PAGE, 0600);
    xpmem_apid_t apid = get(segid, XPMEM_RDWR);

    /* An offset within a page is one within a page of the attachment. */
    unsigned char *at = attach(apid, 2 * PAGE + 100, 10);
    CHECK((uintptr_t)at % PAGE == 100);
    for (size_t i = 0; i < 10; i++)
        CHECK(at[i] == pattern(2 * PAGE + 100 + i, 3));
    CHECK(xpmem_detach(at) == 0);

    at = attach(apid, 7 * PAGE, 1);
    CHECK(at[0] == pattern(7 * PAGE, 3));
    CHECK(at[PAGE - 1] == pattern(8 * PAGE - 1, 3));
    /* Any address in it ends it, and once. */
    CHECK(xpmem_detach(at + 5) == 0);
    FAILS(xpmem_detach(at), EINVAL, "nothing is attached");

    FAILS(try_attach(apid, 0, 0, NULL), EINVAL, "0 bytes");
    FAILS(try_attach(apid, 0, 8 * PAGE + 1, NULL), EINVAL, "a segment that has 32768");
    FAILS(try_attach(apid, 1, 8 * PAGE, NULL), EINVAL, "a segment that has 32768");
    FAILS(try_attach(apid, 8 * PAGE, 1, NULL), EINVAL, "a segment that has 32768");
    FAILS(try_attach(apid, -(off_t)PAGE, PAGE, NULL), EINVAL, "a segment that has 32768");
    FAILS(try_attach(apid, 0, SIZE_MAX, NULL), EINVAL, "a segment that has 32768");
    FAILS(try_attach(apid, INT64_MAX, 1, NULL), EINVAL, "a segment that has 32768");
    FAILS(try_attach(0, 0, PAGE, NULL), EINVAL, "0 is none");
    FAILS(try_attach(apid + 1, 0, PAGE, NULL), ENOENT, "was not granted");

    /* At an address that the program has ready. */
    unsigned char *room = pages(10);
    FAILS(try_attach(apid, 0, PAGE, room + 8), EINVAL, "no page begins");
    CHECK(try_attach(apid, PAGE, 2 * PAGE, room + PAGE) == room + PAGE);
    CHECK(is_filled(memory, 8 * PAGE, 3) && room[0] == 0 && room[3 * PAGE] == 0);
    CHECK(room[PAGE] == pattern(PAGE, 3));
    FAILS(try_attach(apid, 0, PAGE, room + 2 * PAGE), ENOMEM, "an attachment");
    FAILS(try_attach(apid, 0, 8 * PAGE, room), ENOMEM, "an attachment");
    CHECK(xpmem_detach(room + PAGE) == 0);
    CHECK(is_fatal(room + PAGE, 0));

    /* Two of the same pages, which end with what was granted for them. */
    unsigned char *one = attach(apid, 0, 8 * PAGE), *two = attach(apid, 0, 8 * PAGE);
    xpmem_apid_t reading = get(segid, XPMEM_RDONLY);
    unsigned char *three = attach(reading, 0, 8 * PAGE);
    CHECK(one != two && one != three && two != three);
    one[0] = 200;
    CHECK(two[0] == 200 && three[0] == 200 && memory[0] == 200);
    CHECK(is_fatal(three, 1) && !is_fatal(two, 1));
    CHECK(xpmem_release(apid) == 0);
    CHECK(is_fatal(one, 0) && is_fatal(two, 0) && three[0] == 1);
    FAILS(xpmem_release(apid), ENOENT, "was not granted");
    FAILS(try_attach(apid, 0, PAGE, NULL), ENOENT, "was not granted");
    CHECK(xpmem_release(reading) == 0);
}

static void arguments(void)
{
    unsigned char *memory = pages(4);
    void *mode = (void *)0600;
    CHECK(xpmem_version() == XPMEM_CURRENT_VERSION);
    CHECK(strcmp(xpmem_error(), "") == 0);
    FAILS(xpmem_make(NULL, XPMEM_MAXADDR_SIZE, XPMEM_PERMIT_MODE, mode), EINVAL, "all memory of a process");
    FAILS(xpmem_make(memory, 0, XPMEM_PERMIT_MODE, mode), EINVAL, "no whole pages");
    FAILS(xpmem_make(memory, 100, XPMEM_PERMIT_MODE, mode), EINVAL, "no whole pages");
    FAILS(xpmem_make(memory + 8, PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "no page begins");
    FAILS(xpmem_make(NULL, PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "no page begins");
    FAILS(xpmem_make(memory, SIZE_MAX / PAGE * PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "there are no");
    FAILS(xpmem_make(memory, PAGE, 2, mode), EINVAL, "XPMEM_PERMIT_MODE");
    FAILS(xpmem_make(memory, PAGE, XPMEM_PERMIT_MODE, (void *)01000), EINVAL, "no mode");

    /* Memory that cannot be moved to where others find it. */
    CHECK(munmap(memory + PAGE, PAGE) == 0);
    FAILS(xpmem_make(memory, 4 * PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "nothing is mapped");
    FAILS(xpmem_make(memory + PAGE, PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "nothing is mapped");
    CHECK(mprotect(memory + 2 * PAGE, PAGE, PROT_NONE) == 0);
    FAILS(xpmem_make(memory + 2 * PAGE, 2 * PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "may not be read");
    int file = open("/proc/self/exe", O_RDONLY);
    void *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(mapped != MAP_FAILED);
    FAILS(xpmem_make(mapped, PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "a mapping of the file");
    void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    FAILS(xpmem_make(shared, PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "shared by other means");
    char here;
    FAILS(xpmem_make((void *)((uintptr_t)&here / PAGE * PAGE), PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "a stack");

    FAILS(xpmem_get(0, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), EINVAL, "above 0");
    FAILS(xpmem_get(-5, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), EINVAL, "above 0");
    FAILS(xpmem_get(12345, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), ENOENT, "there is no segment");
    FAILS(xpmem_get(INT64_MAX, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), ENOENT, "there is no segment");
    FAILS(xpmem_remove(0), EINVAL, "above 0");
    FAILS(xpmem_remove(12345), ENOENT, "there is no segment");
    FAILS(xpmem_release(-1), EINVAL, "above 0");
    FAILS(xpmem_release(1), ENOENT, "was not granted");
    FAILS(xpmem_detach(NULL), EINVAL, "nothing is attached");
    FAILS(xpmem_detach(&here), EINVAL, "nothing is attached");

    xpmem_segid_t segid = make(memory + 3 * PAGE, PAGE, 0600);
    FAILS(xpmem_get(segid, 0, XPMEM_PERMIT_MODE, NULL), EINVAL, "XPMEM_RDONLY");
    FAILS(xpmem_get(segid, XPMEM_RDONLY | XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), EINVAL, "XPMEM_RDONLY");
    FAILS(xpmem_get(segid, XPMEM_RDWR, 0, NULL), EINVAL, "XPMEM_PERMIT_MODE");
    CHECK(xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, (void *)0666) > 0);
    /* What is attached is its maker's to share. */
    unsigned char *attached = attach(get(segid, XPMEM_RDWR), 0, PAGE);
    FAILS(xpmem_make(attached, PAGE, XPMEM_PERMIT_MODE, mode), EINVAL, "attached from another segment");
}

/* ---- the ends of segments ---- */

static void removing(void)
{
    unsigned char *memory = pages(4);
    xpmem_segid_t segid = make(memory, 4 * PAGE, 0600);
    xpmem_apid_t apid = get(segid, XPMEM_RDWR);
    unsigned char *seen = attach(apid, 0, 4 * PAGE);
    play("cannot remove", segid);
    CHECK(xpmem_remove(segid) == 0);
    FAILS(xpmem_remove(segid), ENOENT, "there is no segment");
    FAILS(xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), ENOENT, "there is no segment");
    FAILS(try_attach(apid, 0, PAGE, NULL), ENOENT, "there is no segment");
    /* What was attached goes on. */
    fill(seen, 4 * PAGE, 8);
    CHECK(is_filled(memory, 4 * PAGE, 8));
    CHECK(xpmem_detach(seen) == 0 && xpmem_release(apid) == 0);

    /* Once more, and in parts. */
    for (int again = 0; again < 3; again++) {
        segid = make(memory, 4 * PAGE, 0600);
        CHECK(is_filled(memory, 4 * PAGE, 8));
        CHECK(is_filled(attach(get(segid, XPMEM_RDONLY), 0, 4 * PAGE), 4 * PAGE, 8));
        CHECK(xpmem_remove(segid) == 0);
    }
}

static void cannot_remove(xpmem_segid_t segid)
{
    FAILS(xpmem_remove(segid), EACCES, "another process's");
}

/* Segments of the same pages are each for themselves. */
static void overlapping(void)
{
    unsigned char *memory = pages(12);
    fill(memory, 12 * PAGE, 4);
    xpmem_segid_t first = make(memory, 8 * PAGE, 0600), second = make(memory + 4 * PAGE, 8 * PAGE, 0600),
                  third = make(memory + 2 * PAGE, 10 * PAGE, 0400), inner = make(memory + 5 * PAGE, PAGE, 0600);
    CHECK(first != second && second != third && third != inner);
    CHECK(is_filled(memory, 12 * PAGE, 4));
    unsigned char *seen[] = {attach(get(first, XPMEM_RDWR), 0, 8 * PAGE), attach(get(second, XPMEM_RDWR), 0, 8 * PAGE),
                             attach(get(third, XPMEM_RDONLY), 0, 10 * PAGE), attach(get(inner, XPMEM_RDWR), 0, PAGE)};
    size_t begin[] = {0, 4, 2, 5}, count[] = {8, 8, 10, 1};
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 4; i++)
            for (size_t page = 0; page < count[i]; page++)
                CHECK(seen[i][page * PAGE + 1] == memory[(begin[i] + page) * PAGE + 1]);
        for (size_t page = 0; page < 12; page++)
            memory[page * PAGE + 1] = (unsigned char)(turn * 12 + page);
    }
    /* A part that goes over two files. */
    unsigned char *part = attach(get(second, XPMEM_RDWR), 3 * PAGE, 3 * PAGE);
    for (size_t page = 0; page < 3; page++)
        CHECK(part[page * PAGE + 1] == memory[(7 + page) * PAGE + 1]);
    CHECK(xpmem_remove(first) == 0);
    unsigned char *late = attach(get(second, XPMEM_RDWR), 0, 8 * PAGE);
    late[1] = 99;
    CHECK(memory[4 * PAGE + 1] == 99 && seen[0][4 * PAGE + 1] == 99);
    CHECK(xpmem_remove(second) == 0 && xpmem_remove(inner) == 0);
    CHECK(attach(get(third, XPMEM_RDONLY), 2 * PAGE, PAGE)[1] == 99);
    CHECK(xpmem_remove(third) == 0);
}

/* The bits of all modes that files with pages have. */
static unsigned modes_of_pages(void)
{
    char path[4096];
    unsigned bits = 0;
    DIR *dir = opendir(getenv("STILLFRAME_DIR"));
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat about;
        if (!strstr(entry->d_name, ".pages"))
            continue;
        snprintf(path, sizeof path, "%s/%s", getenv("STILLFRAME_DIR"), entry->d_name);
        CHECK(stat(path, &about) == 0);
        bits |= about.st_mode & 0777;
    }
    closedir(dir);
    return bits;
}

/* A permit for some pages is none for others that were shared together with them. */
static void permits(void)
{
    unsigned char *memory = pages(4);
    fill(memory, 4 * PAGE, 1);
    void *all = (void *)0644;
    xpmem_segid_t whole = make(memory, 4 * PAGE, 0600);
    FAILS(xpmem_make(memory, PAGE, XPMEM_PERMIT_MODE, all), EINVAL, "shared together with more, by the mode 0600");
    CHECK(modes_of_pages() == 0600);
    CHECK(is_filled(attach(get(whole, XPMEM_RDWR), 0, 4 * PAGE), 4 * PAGE, 1));
    /* All of them, and some for fewer. */
    xpmem_segid_t open = make(memory, 4 * PAGE, 0644), part = make(memory + PAGE, PAGE, 0400);
    CHECK(modes_of_pages() == 0644);
    CHECK(xpmem_remove(whole) == 0 && xpmem_remove(open) == 0 && xpmem_remove(part) == 0);
    /* What nobody is shown any more is moved. */
    whole = make(memory, 4 * PAGE, 0600);
    CHECK(xpmem_remove(whole) == 0);
    part = make(memory, PAGE, 0644);
    CHECK(modes_of_pages() == 0644 && is_filled(memory, 4 * PAGE, 1));
    CHECK(xpmem_remove(part) == 0);
}

/* ---- children and threads ---- */

static void forking(void)
{
    unsigned char *memory = pages(4), *own = pages(1);
    fill(memory, 4 * PAGE, 1);
    xpmem_segid_t segid = make(memory, 4 * PAGE, 0600);
    xpmem_apid_t apid = get(segid, XPMEM_RDWR);
    unsigned char *seen = attach(apid, 0, 4 * PAGE);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* What is shared is shared with it, too, and what was granted it has. */
        fill(memory, 2 * PAGE, 2);
        CHECK(is_filled(seen, 2 * PAGE, 2));
        CHECK(attach(apid, 0, PAGE)[1] == pattern(1, 2));
        CHECK(xpmem_detach(seen) == 0);
        FAILS(xpmem_remove(segid), EACCES, "another process's");
        /* It makes segments of its own, which end with it: also of memory that its parent shares, from then on its own. */
        own[0] = 7;
        xpmem_segid_t mine = make(own, PAGE, 0600), inherited = make(memory + 2 * PAGE, PAGE, 0600);
        CHECK(mine != segid && inherited != segid);
        play("sees 7", mine);
        memory[2 * PAGE] = 55;
        CHECK(attach(get(inherited, XPMEM_RDONLY), 0, PAGE)[0] == 55);
        exit(0);
    }
    reap(child);
    CHECK(is_filled(memory, 2 * PAGE, 2) && is_filled(seen, 2 * PAGE, 2));
    CHECK(memory[2 * PAGE] == pattern(2 * PAGE, 1) && own[0] == 0);
    fill(memory, 16384, 1);
    CHECK(attach(get(segid, XPMEM_RDWR), 0, 4 * PAGE)[9] == pattern(9, 1));
    CHECK(xpmem_remove(segid) == 0);
}

static void sees_7(xpmem_segid_t segid)
{
    CHECK(attach(get(segid, XPMEM_RDONLY), 0, PAGE)[0] == 7);
}

/* A segment goes with its maker, though a child of that lives on. */
static void left_by_its_maker(void)
{
    int ends[2], stay[2];
    CHECK(pipe(ends) == 0 && pipe(stay) == 0);
    pid_t maker = fork();
    CHECK(maker >= 0);
    if (maker == 0) {
        unsigned char *memory = pages(2);
        fill(memory, 2 * PAGE, 6);
        xpmem_segid_t segid = make(memory, 2 * PAGE, 0600);
        if (fork() == 0) {
            char byte;
            close(stay[1]);
            /* Until it runs it has its parent's files, and with them the lock. */
            CHECK(write(ends[1], &segid, sizeof segid) == sizeof segid);
            CHECK(read(stay[0], &byte, 1) == 0);
            _exit(0);
        }
        pause();
    }
    close(stay[0]);
    xpmem_segid_t segid;
    CHECK(read(ends[0], &segid, sizeof segid) == sizeof segid);
    xpmem_apid_t apid = get(segid, XPMEM_RDWR);
    unsigned char *seen = attach(apid, 0, 2 * PAGE);
    CHECK(kill(maker, SIGKILL) == 0 && waitpid(maker, NULL, 0) == maker);
    FAILS(xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), ENOENT, "its maker has ended");
    FAILS(try_attach(apid, 0, PAGE, NULL), ENOENT, "its maker has ended");
    CHECK(is_filled(seen, 2 * PAGE, 6));
    fill(seen, 2 * PAGE, 7);
    CHECK(is_filled(seen, 2 * PAGE, 7));
    close(stay[1]);
}

static atomic_int is_over;

static void *going_round(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int round = 0; round < 100; round++) {
        size_t count = 1 + (seed + round) % 5;
        unsigned char *memory = pages(count);
        fill(memory, count * PAGE, seed + round);
        xpmem_segid_t segid = make(memory, count * PAGE, 0600);
        xpmem_apid_t apid = get(segid, XPMEM_RDWR);
        unsigned char *seen = attach(apid, 0, count * PAGE);
        CHECK(is_filled(seen, count * PAGE, seed + round));
        seen[0] ^= 1;
        CHECK(memory[0] == seen[0]);
        FAILS(xpmem_detach(memory), EINVAL, "nothing is attached");
        CHECK(xpmem_detach(seen) == 0 && xpmem_release(apid) == 0 && xpmem_remove(segid) == 0);
        FAILS(xpmem_remove(segid), ENOENT, "there is no segment");
        CHECK(munmap(memory, count * PAGE) == 0);
    }
    return NULL;
}

static void *forking_all_the_time(void *argument)
{
    (void)argument;
    while (!atomic_load(&is_over)) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* Whatever the other threads were doing, the library is whole here. */
            unsigned char *memory = pages(1);
            memory[0] = 3;
            xpmem_segid_t segid = make(memory, PAGE, 0600);
            CHECK(attach(get(segid, XPMEM_RDONLY), 0, 1)[0] == 3);
            CHECK(xpmem_remove(segid) == 0);
            exit(0);
        }
        reap(child);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t going[4], forks;
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&going[i], NULL, going_round, (void *)(i * 50)) == 0);
    CHECK(pthread_create(&forks, NULL, forking_all_the_time, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(going[i], NULL) == 0);
    atomic_store(&is_over, 1);
    CHECK(pthread_join(forks, NULL) == 0);
}

static volatile sig_atomic_t refused, let_in;

static void interrupting(int signal)
{
    (void)signal;
    int before = errno;
    if (xpmem_version() == XPMEM_CURRENT_VERSION && xpmem_detach(NULL) == -1) {
        if (errno == EBUSY)
            refused++;
        else
            let_in++;
    }
    errno = before;
}

/* A signal handler that comes in the middle of a call is refused, and waits for nothing. */
static void interrupted(void)
{
    struct sigaction action = {.sa_handler = interrupting, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    unsigned char *memory = pages(64);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < 50 || refused < 5; round++) {
        xpmem_segid_t segid = make(memory, 64 * PAGE, 0600);
        xpmem_apid_t apid = get(segid, XPMEM_RDWR);
        CHECK(attach(apid, 0, PAGE)[0] == 0);
        CHECK(xpmem_get(INT64_MAX, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL) == -1 && errno == ENOENT);
        CHECK(xpmem_release(apid) == 0 && xpmem_remove(segid) == 0);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

/* ---- names ---- */

static void names(void)
{
    unsigned char *memory = pages(3);
    FAILS(xemem_lookup_segid("field"), ENOENT, "no segment 'field'");
    xemem_segid_t first = xemem_make(memory, PAGE, "field"), second = xemem_make(memory + PAGE, PAGE, "field"),
                  other = xemem_make(memory + 2 * PAGE, PAGE, "group/1/field"), none = xemem_make(memory, PAGE, NULL);
    CHECK(first > 0 && second > 0 && other > 0 && none > 0);
    CHECK(xemem_lookup_segid("field") == second);
    CHECK(xemem_lookup_segid("group/1/field") == other);
    FAILS(xemem_lookup_segid("group"), ENOENT, "no segment 'group'");
    play("finds the newest", second);
    CHECK(xemem_remove(second) == 0);
    CHECK(xemem_lookup_segid("field") == first);
    CHECK(xemem_remove(first) == 0);
    FAILS(xemem_lookup_segid("field"), ENOENT, "no segment 'field'");
    const char *bad[] = {"", "a b", "../up", "/root", "a//b", ".hidden", "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(xemem_make(memory, PAGE, bad[i]), EINVAL, "");
        FAILS(xemem_lookup_segid(bad[i]), EINVAL, "");
    }
    FAILS(xemem_lookup_segid(NULL), EINVAL, "NULL");
    /* XPMEM's calls and XEMEM's are of the same segments. */
    xemem_apid_t apid = xemem_get(none, XEMEM_RDWR);
    CHECK(apid > 0);
    attach(apid, 0, PAGE)[3] = 33;
    CHECK(memory[3] == 33);
    CHECK(xpmem_release(apid) == 0 && xpmem_remove(none) == 0);
}

static void finds_the_newest(xpmem_segid_t segid)
{
    CHECK(xemem_lookup_segid("field") == segid);
}

/* ---- snapshots ---- */

static vaddr_t map_backed(size_t count, size_t backing, vmpagesize_t page, const char *name)
{
    vaddr_t start = 0;
    CHECK(arena_map_backed_region_anywhere(MY_ASPACE, &start, count * PAGE, backing * PAGE, VM_USER, BK_ARENA, page, name,
                                           0) == 0);
    CHECK(start && start % PAGE == 0);
    return start;
}

static id_t copy(void)
{
    id_t id = 0;
    CHECK(aspace_copy(MY_ASPACE, &id, 0) == 0);
    CHECK(id);
    return id;
}

static void snapshots(void)
{
    unsigned char *one = (unsigned char *)map_backed(20, 200, VM_PAGE_4KB, "cow region");
    unsigned char *two = (unsigned char *)map_backed(1200, 6000, VM_PAGE_2MB, "cow region");
    /* At an address of the program's choice. */
    unsigned char *place = pages(600);
    CHECK(munmap(place, 600 * PAGE) == 0);
    CHECK(arena_map_backed_region(getpid(), (vaddr_t)place, 600 * PAGE, 3000 * PAGE, VM_USER | VM_READ | VM_WRITE, BK_ARENA,
                                  VM_PAGE_2MB, NULL, 0) == 0);
    CHECK(place[0] == 0 && place[600 * PAGE - 1] == 0);
    unsigned char *all[] = {one, two, place};
    size_t bytes[] = {20 * PAGE, 1200 * PAGE, 600 * PAGE};
    FAILS(xemem_make(one, PAGE, "early"), EINVAL, "call aspace_copy first");

    xemem_segid_t segids[3][3];
    id_t copies[3];
    for (unsigned step = 0; step < 3; step++) {
        for (int i = 0; i < 3; i++)
            fill(all[i], bytes[i], step);
        copies[step] = copy();
        for (int i = 0; i < 3; i++) {
            segids[step][i] = xemem_make(all[i], bytes[i], "snapshot");
            CHECK(segids[step][i] > 0);
        }
    }
    CHECK(copies[0] != copies[1] && copies[1] != copies[2]);
    for (int i = 0; i < 3; i++)
        memset(all[i], 0xee, bytes[i]);
    /* Copies need not be kept for segments to stay. */
    for (int step = 0; step < 3; step++)
        CHECK(aspace_destroy(copies[step]) == 0);
    for (int i = 0; i < 30; i++)
        CHECK(aspace_destroy(copy()) == 0);
    for (unsigned step = 0; step < 3; step++)
        for (int i = 0; i < 3; i++) {
            unsigned char *seen = attach(get(segids[step][i], XPMEM_RDONLY), 0, bytes[i]);
            CHECK(is_filled(seen, bytes[i], step));
            CHECK(is_fatal(seen, 1));
            char role[32];
            snprintf(role, sizeof role, "sees step %u", step);
            play(role, segids[step][i]);
        }
    /* Of a part, and a part of that. */
    memset(two, 0, bytes[1]);
    fill(two + 700 * PAGE, PAGE, 41);
    copy();
    xemem_segid_t part = xemem_make(two + 699 * PAGE, 3 * PAGE, NULL);
    CHECK(part > 0);
    memset(two, 1, bytes[1]);
    unsigned char *page = attach(get(part, XPMEM_RDONLY), PAGE, PAGE);
    CHECK(is_filled(page, PAGE, 41));
    FAILS(try_attach(get(part, XPMEM_RDONLY), 0, 4 * PAGE, NULL), EINVAL, "a segment that has");
    /* xpmem_make of such memory is the same. */
    xpmem_segid_t same = make(two + 700 * PAGE, PAGE, 0600);
    CHECK(is_filled(attach(get(same, XPMEM_RDONLY), 0, PAGE), PAGE, 41));

    /* Who asks to write has pages of his own. */
    unsigned char *mine = attach(get(segids[1][1], XPMEM_RDWR), 0, bytes[1]);
    CHECK(is_filled(mine, bytes[1], 1));
    memset(mine, 0x11, bytes[1]);
    CHECK(is_filled(attach(get(segids[1][1], XPMEM_RDWR), 0, bytes[1]), bytes[1], 1));
    CHECK(mine[5] == 0x11 && two[5] == 1);
    /* An attachment outlives its segment, and is a child's too. */
    unsigned char *kept = attach(get(segids[2][0], XPMEM_RDONLY), 0, bytes[0]);
    for (unsigned step = 0; step < 3; step++)
        for (int i = 0; i < 3; i++)
            CHECK(xemem_remove(segids[step][i]) == 0);
    FAILS(xemem_lookup_segid("snapshot"), ENOENT, "no segment 'snapshot'");
    FAILS(xpmem_get(segids[0][0], XPMEM_RDONLY, XPMEM_PERMIT_MODE, NULL), ENOENT, "there is no segment");
    for (int i = 0; i < 30; i++) {
        memset(one, i, bytes[0]);
        CHECK(aspace_destroy(copy()) == 0);
    }
    CHECK(is_filled(kept, bytes[0], 2));
    pid_t child = fork();
    if (child == 0) {
        CHECK(is_filled(kept, bytes[0], 2));
        FAILS(aspace_destroy(copies[0]), EINVAL, "no copy");
        FAILS(aspace_copy(MY_ASPACE, &copies[0], 0), EINVAL, "no backed region");
        CHECK(xpmem_detach(kept) == 0);
        exit(0);
    }
    reap(child);
    CHECK(is_filled(kept, bytes[0], 2));
}

static void sees_step(xpmem_segid_t segid, unsigned step)
{
    CHECK(xemem_lookup_segid("snapshot") > 0);
    xpmem_apid_t apid = get(segid, XPMEM_RDONLY);
    unsigned char *seen = attach(apid, 0, 20 * PAGE);
    CHECK(is_filled(seen, 20 * PAGE, step));
    CHECK(xpmem_release(apid) == 0);
}

/* Whether the mapping at an address has these words in a line of proc_pid_smaps(5) that begins so, or, for "", in its first. */
static int is_mapped(const void *at, const char *begin, const char *words)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file);
    char line[1000];
    int is_it = 0, is_first = 0, has = -1;
    while (has < 0 && fgets(line, sizeof line, file)) {
        unsigned long start, end;
        is_first = sscanf(line, "%lx-%lx ", &start, &end) == 2;
        if (is_first)
            is_it = start <= (uintptr_t)at && (uintptr_t)at < end;
        if (is_it && (*begin ? strncmp(line, begin, strlen(begin)) == 0 : is_first))
            has = strstr(line, words) != NULL;
    }
    fclose(file);
    CHECK(has >= 0);
    return has;
}

/* Memory is taken and given back as its region's policy says. */
static void page_policies(void)
{
    size_t count = 2048;
    unsigned char *chunks = (unsigned char *)map_backed(count, count, VM_PAGE_2MB, "chunks"),
                  *small = (unsigned char *)map_backed(count, count, VM_PAGE_4KB, "pages"), *place = pages(count);
    CHECK(munmap(place, count * PAGE) == 0);
    CHECK(arena_map_backed_region(MY_ASPACE, (vaddr_t)place, count * PAGE, 0, VM_USER, BK_ARENA, VM_PAGE_2MB, "x", 0) == 0);
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0) {
        CHECK(is_mapped(chunks + PAGE, "VmFlags:", " hg") && !is_mapped(chunks + PAGE, "VmFlags:", " nh"));
        CHECK(is_mapped(small + PAGE, "VmFlags:", " nh") && !is_mapped(small + PAGE, "VmFlags:", " hg"));
        CHECK(is_mapped(place + PAGE, "VmFlags:", " hg"));
    }
    for (int step = 0; step < 100; step++) {
        for (size_t i = 0; i < count; i += step == 0 ? 1 : 100)
            chunks[i * PAGE] = small[i * PAGE] = (unsigned char)step;
        CHECK(aspace_destroy(copy()) == 0);
    }
    /* Of what stays unwritten, one has the snapshot's pages, and the other its own. */
    CHECK(is_mapped(small + PAGE, "", "/plane.") && !is_mapped(chunks + PAGE, "", "/plane."));
    xemem_segid_t segid = xemem_make(small, count * PAGE, NULL);
    unsigned char *seen = attach(get(segid, XPMEM_RDONLY), 0, count * PAGE);
    for (size_t i = 0; i < count; i++)
        CHECK(seen[i * PAGE] == (i % 100 ? 0 : 99) && seen[i * PAGE] == small[i * PAGE] && chunks[i * PAGE] == small[i * PAGE]);
}

/* All regions are one version: each copy has the same number in all of them. */
static void one_version_of_all(void)
{
    enum { REGIONS = 5 };
    unsigned *region[REGIONS];
    char name[] = "region 0";
    for (int i = 0; i < REGIONS; i++) {
        name[7] = (char)('0' + i);
        region[i] = (unsigned *)map_backed(3, 30, VM_PAGE_4KB, name);
    }
    for (unsigned step = 1; step <= 10; step++) {
        xemem_segid_t segid[REGIONS];
        for (int i = 0; i < REGIONS; i++)
            region[i][step] = step;
        id_t id = copy();
        for (int i = 0; i < REGIONS; i++) {
            region[i][step] = 1000;
            segid[i] = xemem_make(region[i], 3 * PAGE, NULL);
            unsigned *seen = (unsigned *)attach(get(segid[i], XPMEM_RDONLY), 0, 3 * PAGE);
            CHECK(seen[step] == step && seen[step + 1] == 0 && (step == 1 || seen[step - 1] == 1000));
            CHECK(xpmem_detach(seen) == 0);
        }
        for (int i = 0; i < REGIONS; i++)
            CHECK(xemem_remove(segid[i]) == 0);
        CHECK(aspace_destroy(id) == 0);
    }
}

/* Versions that are kept may differ in so many pages as the backing has. */
static void backing_runs_out(void)
{
    unsigned char *memory = (unsigned char *)map_backed(64, 64, VM_PAGE_4KB, "small");
    memset(memory, 1, 64 * PAGE);
    id_t first = copy();
    xemem_segid_t segid = xemem_make(memory, 64 * PAGE, "small");
    memset(memory, 2, 64 * PAGE);
    id_t second = copy();
    memset(memory, 3, 64 * PAGE);
    id_t third = 0;
    FAILS(aspace_copy(MY_ASPACE, &third, 0), ENOSPC, "bound");
    CHECK(third == 0);
    /* Nothing is lost, and nothing of what is kept is changed. */
    CHECK(memory[0] == 3 && memory[64 * PAGE - 1] == 3);
    unsigned char *seen = attach(get(segid, XPMEM_RDONLY), 0, 64 * PAGE);
    CHECK(seen[0] == 1 && seen[64 * PAGE - 1] == 1);
    CHECK(aspace_destroy(first) == 0);
    FAILS(aspace_copy(MY_ASPACE, &third, 0), ENOSPC, "bound");
    CHECK(xemem_remove(segid) == 0);
    FAILS(aspace_copy(MY_ASPACE, &third, 0), ENOSPC, "bound");
    CHECK(xpmem_detach(seen) == 0);
    third = copy();
    segid = xemem_make(memory, 64 * PAGE, "small");
    seen = attach(get(segid, XPMEM_RDONLY), 0, 64 * PAGE);
    CHECK(seen[0] == 3 && seen[64 * PAGE - 1] == 3);
    CHECK(aspace_destroy(second) == 0 && aspace_destroy(third) == 0);
    /* One more region brings its own backing along. */
    map_backed(1, 64, VM_PAGE_4KB, "more");
    memset(memory, 4, 64 * PAGE);
    copy();
}

/* As many versions as a Stillframe region can have are the end, too. */
static void versions_run_out(void)
{
    unsigned char *memory = (unsigned char *)map_backed(1, 100, VM_PAGE_4KB, "small");
    id_t ids[100];
    int count = 0;
    for (; count < 100; count++) {
        memory[0] = (unsigned char)count;
        errno = 0;
        if (aspace_copy(MY_ASPACE, &ids[count], 0) != 0)
            break;
    }
    CHECK(errno == ENOSPC && strstr(xpmem_error(), "all 64 versions"));
    CHECK(count > 60 && count < 65);
    CHECK(aspace_destroy(ids[3]) == 0);
    copy();
    xemem_segid_t segid = xemem_make(memory, PAGE, NULL);
    CHECK(attach(get(segid, XPMEM_RDONLY), 0, PAGE)[0] == count);
}

static void arguments_of_snapshots(void)
{
    vaddr_t start = 0;
    id_t id = 0;
    CHECK(aspace_get_myid(&id) == 0 && id == (id_t)getpid());
    FAILS(aspace_get_myid(NULL), EINVAL, "no place for a result");
#define MAP(id, start, extent, flags, type, page) \
    arena_map_backed_region_anywhere(id, start, extent, PAGE, flags, type, page, "x", 0)
    FAILS(MAP(1, &start, PAGE, VM_USER, BK_ARENA, VM_PAGE_4KB), EINVAL, "nor this process");
    FAILS(MAP(MY_ASPACE, NULL, PAGE, VM_USER, BK_ARENA, VM_PAGE_4KB), EINVAL, "no place for a result");
    FAILS(MAP(MY_ASPACE, &start, 0, VM_USER, BK_ARENA, VM_PAGE_4KB), EINVAL, "extent");
    FAILS(MAP(MY_ASPACE, &start, SIZE_MAX, VM_USER, BK_ARENA, VM_PAGE_4KB), EINVAL, "extent");
    FAILS(MAP(MY_ASPACE, &start, PAGE, 0x100, BK_ARENA, VM_PAGE_4KB), EINVAL, "VM_USER");
    FAILS(MAP(MY_ASPACE, &start, PAGE, VM_USER, 0, VM_PAGE_4KB), EINVAL, "BK_ARENA");
    FAILS(MAP(MY_ASPACE, &start, PAGE, VM_USER, BK_ARENA, 8192), EINVAL, "VM_PAGE_2MB");
    CHECK(start == 0);
    FAILS(aspace_copy(MY_ASPACE, &id, 0), EINVAL, "no backed region");
    unsigned char *taken = pages(2);
#define PLACE(at) arena_map_backed_region(MY_ASPACE, (vaddr_t)(at), PAGE, PAGE, VM_USER, BK_ARENA, VM_PAGE_4KB, "x", 0)
    FAILS(PLACE(taken), EEXIST, "mmap");
    FAILS(PLACE(taken + 1), EINVAL, "no page begins");
    FAILS(PLACE(0), EINVAL, "no page begins");
    CHECK(taken[0] == 0);
    CHECK(munmap(taken, PAGE) == 0);
    CHECK(PLACE(taken) == 0);
    /* A range is backed, or it is not. */
    copy();
    FAILS(xemem_make(taken, 2 * PAGE, NULL), EINVAL, "some are a backed region's");
    CHECK(xemem_make(taken, PAGE, NULL) > 0);
    CHECK(xemem_make(taken + PAGE, PAGE, NULL) > 0);
    xpmem_apid_t apid = get(make(pages(1), PAGE, 0600), XPMEM_RDWR);
    FAILS(try_attach(apid, 0, PAGE, taken), ENOMEM, "a backed region");
    /* One that came after the copy. */
    CHECK(MAP(MY_ASPACE, &start, 100, VM_USER, BK_ARENA, VM_PAGE_4KB) == 0);
    FAILS(xemem_make((void *)start, PAGE, NULL), EINVAL, "call aspace_copy first");
    FAILS(aspace_copy(1, &id, 0), EINVAL, "nor this process");
    FAILS(aspace_copy(MY_ASPACE, NULL, 0), EINVAL, "no place for a result");
    FAILS(aspace_copy(MY_ASPACE, &id, 1), EINVAL, "flags");
    FAILS(aspace_destroy(0), EINVAL, "no copy 0");
    id = copy();
    CHECK(aspace_destroy(id) == 0);
    FAILS(aspace_destroy(id), EINVAL, "no copy");
    /* A region that the program takes away is an error of the copy, and no signal. */
    CHECK(munmap(taken, PAGE) == 0);
    FAILS(aspace_copy(MY_ASPACE, &id, 0), EFAULT, "x");
}

/* ---- a place without room ---- */

static void no_room(void)
{
    /* Of the file system's 4 MiB. */
    unsigned char *memory = pages(3000);
    fill(memory, 3000 * PAGE, 2);
    FAILS(xpmem_make(memory, 3000 * PAGE, XPMEM_PERMIT_MODE, (void *)0600), ENOSPC, "fallocate");
    CHECK(is_filled(memory, 3000 * PAGE, 2));
    xpmem_segid_t segid = make(memory, 300 * PAGE, 0600);
    CHECK(is_filled(attach(get(segid, XPMEM_RDWR), 0, 300 * PAGE), 300 * PAGE, 2));
    FAILS(xpmem_make(memory, 3000 * PAGE, XPMEM_PERMIT_MODE, (void *)0600), ENOSPC, "fallocate");
    CHECK(is_filled(memory, 3000 * PAGE, 2));
    vaddr_t start = map_backed(2000, 2000, VM_PAGE_4KB, "large");
    memset((void *)start, 1, 2000 * PAGE);
    id_t id;
    FAILS(aspace_copy(MY_ASPACE, &id, 0), ENOSPC, "");
    CHECK(*(unsigned char *)start == 1);
}

/* ---- parts that the tests start by themselves ---- */

/* Makes a segment of a mode and waits. */
static void making(const char *mode)
{
    unsigned char *memory = pages(4);
    fill(memory, 4 * PAGE, 1);
    printf("%lld\n", (long long)make(memory, 4 * PAGE, (int)strtol(mode, NULL, 8)));
    fflush(stdout);
    getchar();
    printf("%s\n", memory[0] == 222 ? "written" : "as it was");
}

/* Makes one of each kind, and waits. */
static void making_all(void)
{
    unsigned char *memory = (unsigned char *)map_backed(4, 8, VM_PAGE_4KB, "all");
    fill(memory, 4 * PAGE, 1);
    copy();
    CHECK(xemem_make(memory, 4 * PAGE, "snapshot") > 0);
    CHECK(xemem_make(pages(4), 4 * PAGE, "shared") > 0);
    printf("ready\n");
    fflush(stdout);
    getchar();
}

/* Attaches what was made, as far as it may: says "none", "reads" or "writes". */
static void trying(xpmem_segid_t segid)
{
    xpmem_apid_t apid = xpmem_get(segid, XPMEM_RDONLY, XPMEM_PERMIT_MODE, NULL);
    if (apid == -1) {
        CHECK(errno == EACCES || errno == ENOENT);
        printf("%s\n", errno == EACCES ? "none" : "gone");
        return;
    }
    CHECK(is_filled(attach(apid, 0, 4 * PAGE), 4 * PAGE, 1));
    apid = xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL);
    if (apid == -1) {
        CHECK(errno == EACCES);
        printf("reads\n");
        return;
    }
    attach(apid, 0, PAGE)[0] = 222;
    printf("writes\n");
}

/* Attaches in the place of memory of its own, in vain, and has that as it was. */
static void trying_over(xpmem_segid_t segid)
{
    xpmem_apid_t apid = xpmem_get(segid, XPMEM_RDONLY, XPMEM_PERMIT_MODE, NULL);
    CHECK(apid != -1);
    unsigned char *own = pages(4);
    memset(own, 77, 4 * PAGE);
    printf("granted\n");
    fflush(stdout);
    getchar();
    struct xpmem_addr addr = {.apid = apid, .offset = 0};
    CHECK((intptr_t)xpmem_attach(addr, 4 * PAGE, own) == -1);
    for (size_t at = 0; at < 4 * PAGE; at++)
        CHECK(own[at] == 77);
}

/* Looks for what was made by making_all. */
static void looking(void)
{
    const char *all[] = {"snapshot", "shared"};
    for (int i = 0; i < 2; i++) {
        xemem_segid_t segid = xemem_lookup_segid(all[i]);
        if (segid == -1) {
            CHECK(errno == ENOENT);
            printf("%s: none\n", all[i]);
        } else {
            /* A snapshot may be written by who may read it: what he writes is his own. */
            xemem_apid_t apid = xemem_get(segid, i == 0 ? XEMEM_RDWR : XEMEM_RDONLY);
            CHECK(apid > 0);
            unsigned char *seen = attach(apid, 0, 4 * PAGE);
            CHECK(is_filled(seen, 4 * PAGE, 1) || i == 1);
            if (i == 0)
                seen[0]++;
            printf("%s: there\n", all[i]);
        }
    }
}

/* ---- */

static const struct {
    const char *name;
    void (*play)(void);
} SCENES[] = {
    {"sharing", sharing},
    {"talking", talking},
    {"kinds_of_memory", kinds_of_memory},
    {"places", places},
    {"arguments", arguments},
    {"removing", removing},
    {"overlapping", overlapping},
    {"permits", permits},
    {"forking", forking},
    {"left_by_its_maker", left_by_its_maker},
    {"threads", threads},
    {"interrupted", interrupted},
    {"names", names},
    {"snapshots", snapshots},
    {"page_policies", page_policies},
    {"one_version_of_all", one_version_of_all},
    {"backing_runs_out", backing_runs_out},
    {"versions_run_out", versions_run_out},
    {"arguments_of_snapshots", arguments_of_snapshots},
    {"no_room", no_room},
    {"making_all", making_all},
    {"looking", looking},
};

static int peer(const char *role, xpmem_segid_t segid)
{
    unsigned step;
    if (strcmp(role, "reads and writes") == 0)
        reads_and_writes(segid);
    else if (strcmp(role, "answers") == 0)
        answers(segid);
    else if (strcmp(role, "cannot remove") == 0)
        cannot_remove(segid);
    else if (strcmp(role, "sees 7") == 0)
        sees_7(segid);
    else if (strcmp(role, "finds the newest") == 0)
        finds_the_newest(segid);
    else if (sscanf(role, "sees step %u", &step) == 1)
        sees_step(segid, step);
    else if (strcmp(role, "trying") == 0)
        trying(segid);
    else if (strcmp(role, "trying over") == 0)
        trying_over(segid);
    else
        return 2;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "peer") == 0)
        return peer(argv[2], atoll(argv[3]));
    if (argc == 3 && strcmp(argv[1], "making") == 0) {
        making(argv[2]);
        return 0;
    }
    for (size_t i = 0; i < sizeof SCENES / sizeof *SCENES; i++)
        if (argc == 2 && strcmp(argv[1], SCENES[i].name) == 0) {
            SCENES[i].play();
            return 0;
        }
    fprintf(stderr, "no such scene\n");
    return 2;
}
