/* Algorithm 1 of the TCASM paper: map a file privately, work, publish, until finished. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS_UPDATE 8

int main(int argc, char **argv) {
    const char *name = argv[1];
    size_t count = strtoul(argv[2], NULL, 10);
    int steps = atoi(argv[3]);
    (void)argc;
    int file = shm_open(name, O_CREAT | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, count * sizeof(double)) != 0) {
        perror(name);
        return 1;
    }
    double *data = mmap(NULL, count * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (int step = 1; step <= steps; step++) {
        for (size_t i = 0; i < count; i++)
            data[i] = step;
        if (msync(data, count * sizeof(double), MS_SYNC | MS_UPDATE) != 0) {
            perror("msync");
            return 1;
        }
    }
    munmap(data, count * sizeof(double));
    return 0;
}
