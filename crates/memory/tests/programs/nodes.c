// Takes 64 MiB and says on which memory nodes they lie, as the kernel tells.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    size_t bytes = (size_t)64 << 20;
    char *volatile block = malloc(bytes);
    if (!block)
        return 1;
    memset(block, 1, bytes);
    FILE *file = fopen("/proc/self/numa_maps", "r");
    if (!file)
        return 1;
    char line[1024];
    while (fgets(line, sizeof line, file))
        if (strstr(line, " huge "))
            fputs(line, stdout);
    return 0;
}
