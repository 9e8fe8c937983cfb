/* Sections of arrays, and numbers rounded to fewer bits. See ../run.py for which. */
#include <stddef.h>
#include <stdint.h>

#include <stillframe.h>

enum { ROWS = 12, COLUMNS = 9, COMPLEX = 10 };

static double w[COLUMNS][ROWS], z[COMPLEX][2];
static uint32_t once;

static void fill_sections(size_t step) {
    for (size_t n = 0; n < ROWS * COLUMNS; n++) (&w[0][0])[n] = ((double)(37 * n % 1000) - 499.5) / 7 + (double)step;
    for (size_t n = 0; n < 2 * COMPLEX; n++) (&z[0][0])[n] = (&w[0][0])[n];
}

static uint32_t declare_section(stillframe_region *region, const char *name, const char *dtype) {
    stillframe_declaration declaration = {.name = name, .dtype = dtype, .kind = STILLFRAME_TRACKED, .order = STILLFRAME_FORTRAN};
    uint32_t variable;
    check(stillframe_declare(region, &declaration, &variable));
    return variable;
}

static void track_section(stillframe_region *region, const char *name, const char *dtype, const char *memory, uint32_t rank,
                          const size_t *shape, const ptrdiff_t *strides, const void *data) {
    uint32_t variable = declare_section(region, name, dtype);
    check(stillframe_track_section(region, variable, rank, shape, strides, memory, STILLFRAME_FORTRAN, data));
}

static void declare_sections(stillframe_region *region) {
    const ptrdiff_t row = sizeof w[0][0], column = sizeof w[0], number = sizeof z[0];
    const size_t interior[] = {10, 5}, backwards[] = {4, 9}, whole[] = {ROWS, COLUMNS}, second[] = {5};
    const ptrdiff_t every_other[] = {row, 2 * column}, back[] = {-3 * row, -column}, close_by[] = {row, column};
    track_section(region, "interior", "float64", NULL, 2, interior, every_other, &w[0][1]);
    track_section(region, "backwards", "float64", NULL, 2, backwards, back, &w[8][11]);
    track_section(region, "single", "float32", "float64", 2, whole, close_by, w);
    track_section(region, "half", "float16", "float64", 2, interior, every_other, &w[0][1]);
    track_section(region, "brain", "bfloat16", "float64", 2, whole, close_by, w);
    track_section(region, "pairs", "complex64", "complex128", 1, second, (ptrdiff_t[]){2 * number}, z[1]);
    once = declare_section(region, "once", "float64");
}

/* What each version is given. */
static const size_t once_shape[] = {4, 9};
static const ptrdiff_t once_strides[] = {2 * sizeof w[0][0], sizeof w[0]};

static stillframe_given given_section(void) {
    return (stillframe_given){
        .data = &w[0][2], .shape = once_shape, .variable = once, .rank = 2, .order = STILLFRAME_FORTRAN, .strides = once_strides};
}
