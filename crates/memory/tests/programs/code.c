// Functions of a library that are called for the first time when it counts.
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

int main(int count, char **arguments) {
    (void)arguments;
    double x = 1.5 + count;
    faults();
    long before = faults();
    x += jn(3, x) + lgamma(x) + erfc(x) + cbrt(x) + log1p(x) + asinh(x) + remquo(x, 1.25, &count);
    x += (double)(lgammal((long double)x) + ynl(2, (long double)x)) + creal(cacosh(x + 2.0 * I)) + fmaf((float)x, 2, 3);
    long after = faults();
    printf("%ld\n", after - before);
    return isnan(x);
}
