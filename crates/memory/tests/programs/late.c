// A library that is opened late, and has memory when it is.
#include <stdlib.h>

static char *own;
static char array[5 << 20] = {1};

__attribute__((constructor)) static void begin(void) {
    own = malloc(1 << 20);
}

__attribute__((destructor)) static void end(void) {
    free(own);
}

const char *late_version(void) {
    return array[0] == 1 && own ? "late" : "wrong";
}
