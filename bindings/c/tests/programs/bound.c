// Where the library's copy threads may run when the thread that makes a region is bound to one processor, by OpenMP or by
// itself. Arguments: the processors that the process was given, as in /proc/self/status, and their number.
#include "check.h"
#include <dirent.h>
#include <sched.h>

static int processors(void) {
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    return CPU_COUNT(&set);
}

static void bind_to_one(void) {
    cpu_set_t set, one;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &set))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

// A line of /proc/self/task/TASK/status without its name and blanks.
static void status_of(const char *task, const char *name, char *value, int bytes) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task);
    FILE *file = fopen(path, "r");
    CHECK(file);
    *value = 0;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            snprintf(value, bytes, "%s", line + strlen(name) + strspn(line + strlen(name), ":\t "));
    value[strcspn(value, "\n")] = 0;
    fclose(file);
}

// How many copy threads run where the process may. A thread gives itself its name and place when it begins.
static int copying(const char *given) {
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char name[64], where[256];
        if (*task->d_name == '.')
            continue;
        status_of(task->d_name, "Name", name, sizeof name);
        if (strncmp(name, "stillframe-copy", 15))
            continue;
        status_of(task->d_name, "Cpus_allowed_list", where, sizeof where);
        printf("%s runs on %s of %s\n", name, where, given);
        found += !strcmp(where, given);
    }
    closedir(tasks);
    return found;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int given = atoi(argv[2]), wanted = (given < 4 ? given : 4) - 1, found = 0;
    if (getenv("OMP_PROC_BIND") == NULL)
        bind_to_one();
    CHECK(processors() == 1);
    stillframe_region *region = stillframe_begin("bound", 0, 0);
    CHECK(region);
    CHECK(processors() == 1);
    for (int look = 0; look < 6000 && (found = copying(argv[1])) != wanted; look++)
        usleep(10000);
    printf("%d threads beside this one, on %d processors\n", found, given);
    CHECK(found == wanted);
    OK(stillframe_unlink(region));
    return 0;
}
