// Heat conduction in a cube, whose conductivity depends on the temperature, by finite elements: hexahedra with eight nodes and
// linear shape functions, implicit in time, a few conjugate gradients in each time step.
//
//     fem [SIDE [STEPS]]
//
// SIDE³ elements take about 450 bytes each. The structure of the matrix is found element by element: the row of each node is a
// sorted list of columns that grows by realloc. In each time step the matrix is assembled anew, and the vectors of the solver
// are taken with malloc and freed again, as a solver that is a library of its own does it.
#include "report.h"
#include <math.h>

enum { NODES = 8, FEWEST = 4, ITERATIONS = 12 };

typedef struct {
    int count, room, *columns;
    double *values;
} Row;

typedef struct {
    long side, line, rows;
    double mass[NODES][NODES], stiffness[NODES][NODES];
    Row *row;
} Problem;

static void *grow(void *memory, size_t bytes) {
    void *larger = realloc(memory, bytes);
    if (!larger) {
        fprintf(stderr, "realloc to %zu bytes failed\n", bytes);
        exit(1);
    }
    return larger;
}

// Where a column is in its row, or where it belongs.
static int find(const Row *row, int column) {
    int low = 0, high = row->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (row->columns[middle] < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(Row *row, int column) {
    int at = find(row, column);
    if (at < row->count && row->columns[at] == column)
        return;
    if (row->count == row->room) {
        row->room = row->room ? 2 * row->room : FEWEST;
        row->columns = grow(row->columns, (size_t)row->room * sizeof *row->columns);
        row->values = grow(row->values, (size_t)row->room * sizeof *row->values);
    }
    memmove(row->columns + at + 1, row->columns + at, (size_t)(row->count - at) * sizeof *row->columns);
    row->columns[at] = column;
    row->values[row->count++] = 0;
}

// The nodes of an element, the corner with bit 0 of its number in direction x, bit 1 in y, bit 2 in z.
static void find_nodes(const Problem *problem, long element, int *nodes) {
    long x = element % problem->side, y = element / problem->side % problem->side, z = element / problem->side / problem->side;
    for (int corner = 0; corner < NODES; corner++) {
        long node = ((z + (corner >> 2)) * problem->line + y + (corner >> 1 & 1)) * problem->line + x + (corner & 1);
        nodes[corner] = (int)node;
    }
}

// The shape function of a corner and its derivatives, at a point of the unit cube.
static double shape(int corner, const double *at, double *gradient) {
    double factor[3], slope[3];
    for (int axis = 0; axis < 3; axis++) {
        int far = corner >> axis & 1;
        factor[axis] = far ? at[axis] : 1 - at[axis];
        slope[axis] = far ? 1 : -1;
    }
    gradient[0] = slope[0] * factor[1] * factor[2];
    gradient[1] = factor[0] * slope[1] * factor[2];
    gradient[2] = factor[0] * factor[1] * slope[2];
    return factor[0] * factor[1] * factor[2];
}

// Mass and stiffness of an element of this size, by Gauss' rule with two points in each direction.
static void integrate(Problem *problem, double size) {
    const double points[2] = {0.5 - sqrt(1.0 / 12), 0.5 + sqrt(1.0 / 12)};
    memset(problem->mass, 0, sizeof problem->mass);
    memset(problem->stiffness, 0, sizeof problem->stiffness);
    for (int point = 0; point < 8; point++) {
        double at[3] = {points[point & 1], points[point >> 1 & 1], points[point >> 2]}, value[NODES], gradient[NODES][3];
        for (int corner = 0; corner < NODES; corner++)
            value[corner] = shape(corner, at, gradient[corner]);
        for (int one = 0; one < NODES; one++)
            for (int other = 0; other < NODES; other++) {
                double product = 0;
                for (int axis = 0; axis < 3; axis++)
                    product += gradient[one][axis] * gradient[other][axis];
                problem->mass[one][other] += value[one] * value[other] * size * size * size / 8;
                problem->stiffness[one][other] += product * size / 8;
            }
    }
}

static Problem make_problem(long side) {
    Problem problem = {.side = side, .line = side + 1, .rows = (side + 1) * (side + 1) * (side + 1)};
    integrate(&problem, 1.0 / (double)side);
    problem.row = take((size_t)problem.rows * sizeof(Row));
    memset(problem.row, 0, (size_t)problem.rows * sizeof(Row));
    for (long element = 0; element < side * side * side; element++) {
        int nodes[NODES];
        find_nodes(&problem, element, nodes);
        for (int one = 0; one < NODES; one++)
            for (int other = 0; other < NODES; other++)
                insert(&problem.row[nodes[one]], nodes[other]);
    }
    return problem;
}

static void free_problem(Problem *problem) {
    for (long at = 0; at < problem->rows; at++) {
        free(problem->row[at].columns);
        free(problem->row[at].values);
    }
    free(problem->row);
}

// The matrix and the right-hand side of a time step.
static void assemble(Problem *problem, const double *heat, double step, double *right) {
    for (long at = 0; at < problem->rows; at++) {
        right[at] = 0;
        memset(problem->row[at].values, 0, (size_t)problem->row[at].count * sizeof(double));
    }
    for (long element = 0; element < problem->side * problem->side * problem->side; element++) {
        int nodes[NODES];
        double mean = 0;
        find_nodes(problem, element, nodes);
        for (int corner = 0; corner < NODES; corner++)
            mean += heat[nodes[corner]] / NODES;
        double conductivity = step * (1 + 0.5 * mean * mean);
        for (int one = 0; one < NODES; one++) {
            Row *row = &problem->row[nodes[one]];
            for (int other = 0; other < NODES; other++) {
                double mass = problem->mass[one][other];
                row->values[find(row, nodes[other])] += mass + conductivity * problem->stiffness[one][other];
                right[nodes[one]] += mass * heat[nodes[other]];
            }
        }
    }
}

static double multiply(const Problem *problem, const double *restrict in, double *restrict out) {
    double product = 0;
    for (long at = 0; at < problem->rows; at++) {
        const Row *row = &problem->row[at];
        double sum = 0;
        for (int entry = 0; entry < row->count; entry++)
            sum += row->values[entry] * in[row->columns[entry]];
        out[at] = sum;
        product += sum * in[at];
    }
    return product;
}

// A few conjugate gradients from what the heat is; the square of the residual that is left.
static double solve(const Problem *problem, const double *right, double *heat) {
    size_t bytes = (size_t)problem->rows * sizeof(double);
    double *residual = take(bytes), *direction = take(bytes), *product = take(bytes), square = 0;
    multiply(problem, heat, product);
    for (long at = 0; at < problem->rows; at++) {
        residual[at] = direction[at] = right[at] - product[at];
        square += residual[at] * residual[at];
    }
    for (int iteration = 0; iteration < ITERATIONS && square > 0; iteration++) {
        double length = square / multiply(problem, direction, product), next = 0;
        for (long at = 0; at < problem->rows; at++) {
            heat[at] += length * direction[at];
            residual[at] -= length * product[at];
            next += residual[at] * residual[at];
        }
        for (long at = 0; at < problem->rows; at++)
            direction[at] = residual[at] + next / square * direction[at];
        square = next;
    }
    free(residual);
    free(direction);
    free(product);
    return square;
}

static void heat_up(const Problem *problem, double *heat) {
    for (long at = 0; at < problem->rows; at++) {
        double x = (double)(at % problem->line) / (double)problem->side - 0.5;
        double y = (double)(at / problem->line % problem->line) / (double)problem->side - 0.5;
        double z = (double)(at / problem->line / problem->line) / (double)problem->side - 0.5;
        heat[at] = exp(-20 * (x * x + y * y + z * z));
    }
}

int main(int argc, char **argv) {
    Times times = {.begin = now_seconds()};
    long side = number(argc, argv, 1, 24), steps = number(argc, argv, 2, 4);
    if (side > 1000) {
        fprintf(stderr, "%s: %ld elements on a side are too many; 1000 are the most\n", argv[0], side);
        return 2;
    }
    Problem problem = make_problem(side);
    double *heat = take((size_t)problem.rows * sizeof(double)), square = 0, sum = 0;
    heat_up(&problem, heat);
    begin_steps(&times);
    for (long step = 0; step < steps; step++) {
        double *right = take((size_t)problem.rows * sizeof(double));
        assemble(&problem, heat, 1e-3, right);
        square = solve(&problem, right, heat);
        free(right);
    }
    end_steps(&times);

    for (long at = 0; at < problem.rows; at++)
        sum += heat[at];
    char check[96];
    snprintf(check, sizeof check, "residual %.17g, sum %.17g", sqrt(square), sum);
    print_report(&times, steps, check);
    free(heat);
    free_problem(&problem);
}
