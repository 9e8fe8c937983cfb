/* What an engineer writes by hand for one layout and another: plain loops, the transposes in blocks. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    double rho, e;
    float t;
    int32_t id;
} Cell;

enum { BLOCK = 16 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

void c_contiguous(const void *restrict from, void *restrict to, size_t bytes) { memcpy(to, from, bytes); }

void c_every_fourth(const double *restrict from, double *restrict to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = from[4 * i];
}

void c_into_every_fourth(const double *restrict from, double *restrict to, size_t n) {
    for (size_t i = 0; i < n; i++) to[4 * i] = from[i];
}

void c_records_to_arrays(const Cell *restrict from, char *restrict to, size_t n) {
    double *restrict rho = (double *)to, *restrict e = rho + n;
    float *restrict t = (float *)(e + n);
    int32_t *restrict id = (int32_t *)(t + n);
    for (size_t i = 0; i < n; i++) {
        rho[i] = from[i].rho;
        e[i] = from[i].e;
        t[i] = from[i].t;
        id[i] = from[i].id;
    }
}

void c_arrays_to_records(const char *restrict from, Cell *restrict to, size_t n) {
    const double *restrict rho = (const double *)from, *restrict e = rho + n;
    const float *restrict t = (const float *)(e + n);
    const int32_t *restrict id = (const int32_t *)(t + n);
    for (size_t i = 0; i < n; i++) {
        to[i].rho = rho[i];
        to[i].e = e[i];
        to[i].t = t[i];
        to[i].id = id[i];
    }
}

void c_vectors_to_arrays(const double *restrict from, double *restrict to, size_t n) {
    double *restrict x = to, *restrict y = to + n, *restrict z = to + 2 * n;
    for (size_t i = 0; i < n; i++) {
        x[i] = from[3 * i];
        y[i] = from[3 * i + 1];
        z[i] = from[3 * i + 2];
    }
}

void c_arrays_to_vectors(const double *restrict from, double *restrict to, size_t n) {
    const double *restrict x = from, *restrict y = from + n, *restrict z = from + 2 * n;
    for (size_t i = 0; i < n; i++) {
        to[3 * i] = x[i];
        to[3 * i + 1] = y[i];
        to[3 * i + 2] = z[i];
    }
}

void c_transpose_2d(const double *restrict from, double *restrict to, size_t n) {
    for (size_t ib = 0; ib < n; ib += BLOCK)
        for (size_t jb = 0; jb < n; jb += BLOCK) {
            size_t ie = least(ib + BLOCK, n), je = least(jb + BLOCK, n);
            for (size_t i = ib; i < ie; i++)
                for (size_t j = jb; j < je; j++) to[i * n + j] = from[j * n + i];
        }
}

void c_transpose_2d_float(const float *restrict from, float *restrict to, size_t n) {
    for (size_t ib = 0; ib < n; ib += BLOCK)
        for (size_t jb = 0; jb < n; jb += BLOCK) {
            size_t ie = least(ib + BLOCK, n), je = least(jb + BLOCK, n);
            for (size_t i = ib; i < ie; i++)
                for (size_t j = jb; j < je; j++) to[i * n + j] = from[j * n + i];
        }
}

void c_transpose_3d(const double *restrict from, double *restrict to, size_t n) {
    for (size_t j = 0; j < n; j++)
        for (size_t ib = 0; ib < n; ib += BLOCK)
            for (size_t kb = 0; kb < n; kb += BLOCK) {
                size_t ie = least(ib + BLOCK, n), ke = least(kb + BLOCK, n);
                for (size_t i = ib; i < ie; i++)
                    for (size_t k = kb; k < ke; k++) to[(i * n + j) * n + k] = from[(k * n + j) * n + i];
            }
}

/* What lies at the rim of a block goes into the ghost cells of the next: n cells and one ghost on either side. */
void c_halo(const double *restrict from, double *restrict to, size_t n) {
    size_t row = n + 2, plane = row * row;
#define AT(k, j, i) ((k)*plane + (j)*row + (i))
    for (size_t j = 1; j <= n; j++) {
        memcpy(to + AT(0, j, 1), from + AT(n, j, 1), n * sizeof(double));
        memcpy(to + AT(n + 1, j, 1), from + AT(1, j, 1), n * sizeof(double));
    }
    for (size_t k = 1; k <= n; k++) {
        memcpy(to + AT(k, 0, 1), from + AT(k, n, 1), n * sizeof(double));
        memcpy(to + AT(k, n + 1, 1), from + AT(k, 1, 1), n * sizeof(double));
    }
    for (size_t k = 1; k <= n; k++)
        for (size_t j = 1; j <= n; j++) {
            to[AT(k, j, 0)] = from[AT(k, j, n)];
            to[AT(k, j, n + 1)] = from[AT(k, j, 1)];
        }
#undef AT
}

void c_byte_order(const uint64_t *restrict from, uint64_t *restrict to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = __builtin_bswap64(from[i]);
}

void c_single_precision(const double *restrict from, float *restrict to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = (float)from[i];
}
