// Stands in for MPI_Wtime in a program that reads the clock once before its steps and once after them, and counts the faults
// between: link with -Wl,--wrap=MPI_Wtime.
#include "report.h"

double __real_MPI_Wtime(void);
double __wrap_MPI_Wtime(void);

static Times times;
static int readings;

double __wrap_MPI_Wtime(void) {
    if (readings++ == 0) {
        begin_steps(&times);
        times.begin = times.steps_begin;
        return __real_MPI_Wtime();
    }
    double now = __real_MPI_Wtime();
    end_steps(&times);
    print_report(&times, 1, "");
    return now;
}
