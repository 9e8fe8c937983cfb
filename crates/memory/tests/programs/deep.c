// A library that its program opens with RTLD_DEEPBIND, and that program: what the C library allocates for the one it frees itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LIBRARY
int work(const char *text) {
    char *copy = strdup(text), *path = realpath("/", NULL);
    int length = (int)strlen(copy);
    free(copy);
    free(path);
    return length;
}
#else
int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int (*work)(const char *) = (int (*)(const char *))dlsym(library, "work");
    return work("hello") == 5 ? 0 : 1;
}
#endif
