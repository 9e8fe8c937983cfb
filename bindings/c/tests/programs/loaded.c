// The library loaded and unloaded by hand, as interpreters do. Links to nothing of it.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *(*begin)(const char *, uint32_t, uint32_t);
typedef int32_t (*publish)(void *, uint64_t, void *);

// Takes the library's path.
int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        char name[20];
        snprintf(name, sizeof name, "loaded-%d", round);
        void *region = ((begin)(uintptr_t)dlsym(library, "stillframe_begin"))(name, 0, 0);
        if (!region || ((publish)(uintptr_t)dlsym(library, "stillframe_publish"))(region, 1, NULL))
            return 3;
        // Without closing it: the threads and the fork handlers of the library are still there.
        dlclose(library);
        if (!dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD))
            return 5;
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int status;
        if (waitpid(child, &status, 0) != child || status)
            return 4;
    }
    return 0;
}
