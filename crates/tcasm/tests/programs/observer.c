/* Algorithm 2 of the TCASM paper: map the newest publication, work, let it go, until finished. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *name = argv[1];
    size_t count = strtoul(argv[2], NULL, 10);
    double last = strtod(argv[3], NULL), seen = 0;
    int views = 0;
    (void)argc;
    int file;
    while ((file = shm_open(name, O_RDONLY, 0)) < 0)
        usleep(1000);
    struct stat status;
    while (fstat(file, &status) == 0 && (size_t)status.st_size < count * sizeof(double))
        usleep(1000);
    while (seen < last) {
        double *data = mmap(NULL, count * sizeof(double), PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        for (size_t i = 0; i < count; i++)
            if (data[i] != data[0]) {
                printf("mixed: %g at %zu, %g before\n", data[i], i, data[0]);
                return 2;
            }
        if (data[0] < seen) {
            printf("backwards: %g after %g\n", data[0], seen);
            return 3;
        }
        seen = data[0];
        views++;
        munmap(data, count * sizeof(double));
    }
    printf("saw %g in %s\n", seen, views > 0 ? "order" : "no view");
    return 0;
}
