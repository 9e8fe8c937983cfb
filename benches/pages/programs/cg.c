// Conjugate gradients for a stencil of 27 points: 26 on the diagonal, -1 towards each neighbour, so that the solution is 1
// everywhere. Each row has arrays of its own, as in HPCG.
//
//     cg [SIDE [ITERATIONS]]
//
// SIDE³ rows take 350 bytes each, and the vectors 40. The steps are the iterations; all vectors are there before.
#include "report.h"
#include <math.h>

typedef struct {
    int count, *columns;
    double *values;
} Row;

typedef struct {
    long side, rows;
    Row *row;
} Matrix;

static int is_inside(long side, long at) { return at >= 0 && at < side; }

static Matrix make_matrix(long side) {
    Matrix matrix = {side, side * side * side, take((size_t)(side * side * side) * sizeof(Row))};
    for (long z = 0, at = 0; z < side; z++)
        for (long y = 0; y < side; y++)
            for (long x = 0; x < side; x++, at++) {
                Row *row = &matrix.row[at];
                row->count = 0;
                row->columns = take(27 * sizeof *row->columns);
                row->values = take(27 * sizeof *row->values);
                for (int other = 0; other < 27; other++) {
                    long to_x = x + other % 3 - 1, to_y = y + other / 3 % 3 - 1, to_z = z + other / 9 - 1;
                    if (!is_inside(side, to_x) || !is_inside(side, to_y) || !is_inside(side, to_z))
                        continue;
                    long column = (to_z * side + to_y) * side + to_x;
                    row->columns[row->count] = (int)column;
                    row->values[row->count++] = column == at ? 26 : -1;
                }
            }
    return matrix;
}

static void free_matrix(Matrix *matrix) {
    for (long at = 0; at < matrix->rows; at++) {
        free(matrix->row[at].columns);
        free(matrix->row[at].values);
    }
    free(matrix->row);
}

static void multiply(const Matrix *matrix, const double *restrict in, double *restrict out) {
    for (long at = 0; at < matrix->rows; at++) {
        const Row *row = &matrix->row[at];
        double sum = 0;
        for (int entry = 0; entry < row->count; entry++)
            sum += row->values[entry] * in[row->columns[entry]];
        out[at] = sum;
    }
}

static double dot(long count, const double *one, const double *other) {
    double sum = 0;
    for (long at = 0; at < count; at++)
        sum += one[at] * other[at];
    return sum;
}

// The vectors of a solver; it begins with x = 0, so that residual and direction are the right-hand side.
typedef struct {
    double *x, *residual, *direction, *product;
} Vectors;

static Vectors make_vectors(const Matrix *matrix) {
    size_t bytes = (size_t)matrix->rows * sizeof(double);
    Vectors vectors = {take(bytes), take(bytes), take(bytes), take(bytes)};
    for (long at = 0; at < matrix->rows; at++) {
        vectors.x[at] = vectors.product[at] = 0;
        vectors.residual[at] = vectors.direction[at] = 27 - matrix->row[at].count;
    }
    return vectors;
}

static double iterate(const Matrix *matrix, Vectors *vectors, long iterations) {
    double square = dot(matrix->rows, vectors->residual, vectors->residual);
    for (long iteration = 0; iteration < iterations && square > 0; iteration++) {
        multiply(matrix, vectors->direction, vectors->product);
        double step = square / dot(matrix->rows, vectors->direction, vectors->product);
        for (long at = 0; at < matrix->rows; at++) {
            vectors->x[at] += step * vectors->direction[at];
            vectors->residual[at] -= step * vectors->product[at];
        }
        double next = dot(matrix->rows, vectors->residual, vectors->residual);
        for (long at = 0; at < matrix->rows; at++)
            vectors->direction[at] = vectors->residual[at] + next / square * vectors->direction[at];
        square = next;
    }
    return sqrt(square);
}

int main(int argc, char **argv) {
    Times times = {.begin = now_seconds()};
    long side = number(argc, argv, 1, 40), iterations = number(argc, argv, 2, 20);
    if (side > 1000) {
        fprintf(stderr, "%s: %ld points on a side are too many; 1000 are the most\n", argv[0], side);
        return 2;
    }
    Matrix matrix = make_matrix(side);
    Vectors vectors = make_vectors(&matrix);
    begin_steps(&times);
    double residual = iterate(&matrix, &vectors, iterations);
    end_steps(&times);

    double furthest = 0;
    for (long at = 0; at < matrix.rows; at++)
        furthest = fmax(furthest, fabs(vectors.x[at] - 1));
    char check[96];
    snprintf(check, sizeof check, "residual %.17g, error %.17g", residual, furthest);
    print_report(&times, iterations, check);
    free(vectors.x);
    free(vectors.residual);
    free(vectors.direction);
    free(vectors.product);
    free_matrix(&matrix);
}
