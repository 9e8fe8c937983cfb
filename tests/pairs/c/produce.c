/* The producer in C: produce DIR REGION CASES [ARENA]. See ../run.py for what it has to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stillframe.h>

enum { CASES_MAX = 1000 };

struct case_ {
    uint32_t variable, kind, order, rank;
    size_t shape[STILLFRAME_RANK_MAX], bytes;
    bool is_bool;
    unsigned char *memory;
};

static struct case_ cases[CASES_MAX];

static void check(stillframe_status status) {
    if (status != STILLFRAME_OK) {
        fprintf(stderr, "produce: %s: %s\n", stillframe_status_name(status), stillframe_error_text());
        exit(1);
    }
}

#include "sections.h"

static void fill(unsigned char *out, const struct case_ *of, size_t number, size_t step) {
    for (size_t i = 0; i < of->bytes; i++) {
        size_t value = 31 * i + i / 256 + 17 * number + step * (number % 2);
        out[i] = (unsigned char)(of->is_bool ? value & 1 : value & 255);
    }
}

static void declare(stillframe_region *region, struct case_ *new, size_t number, char *line) {
    const char *name = strtok(line, " \n"), *kind = strtok(NULL, " \n"), *order = strtok(NULL, " \n");
    const char *dtype = strtok(NULL, " \n");
    new->bytes = strtoul(strtok(NULL, " \n"), NULL, 10);
    for (const char *word; (word = strtok(NULL, " \n")) != NULL;) {
        new->shape[new->rank] = strtoul(word, NULL, 10);
        new->bytes *= new->shape[new->rank++];
    }
    new->is_bool = strcmp(dtype, "bool") == 0;
    new->order = *order == 'F' ? STILLFRAME_FORTRAN : STILLFRAME_C;
    new->kind = *kind == 'm' ? STILLFRAME_MANAGED : *kind == 'l' ? STILLFRAME_LOANED : STILLFRAME_TRACKED;
    stillframe_attribute attribute = {.name = "case", .type = STILLFRAME_INT, .integer = (int64_t)number};
    stillframe_declaration declaration = {
        .name = name,
        .dtype = dtype,
        .units = "m/s",
        .kind = new->kind,
        .order = new->order,
        .rank = new->kind == STILLFRAME_TRACKED ? 0 : new->rank,
        .shape = new->shape,
        .attributes = &attribute,
        .attribute_count = 1,
    };
    check(stillframe_declare(region, &declaration, &new->variable));
    if (new->kind == STILLFRAME_TRACKED) {
        size_t offset = 16 * (number % 7) + 16;
        new->memory = (unsigned char *)malloc(new->bytes + offset) + offset;
        check(stillframe_track_at(region, new->variable, new->rank, new->shape, new->order, new->memory));
    } else if (new->kind == STILLFRAME_MANAGED) {
        void *data;
        check(stillframe_data(region, new->variable, &data, NULL));
        new->memory = data;
    }
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) return 2;
    stillframe_region *region;
    stillframe_region_options options = {.dir = argv[1], .keep = 2};
    if (argc == 5) {
        stillframe_arena_options arena = {.dir = argv[1], .bytes = UINT64_C(32) << 30};
        check(stillframe_arena_create(argv[4], &arena, &options.arena));
        options.dir = NULL;
    }
    check(stillframe_create(argv[2], &options, &region));
    FILE *table = fopen(argv[3], "r");
    char line[1000];
    size_t count = 0;
    for (; table != NULL && count < CASES_MAX && fgets(line, sizeof line, table); count++)
        declare(region, &cases[count], count, line);
    declare_sections(region);
    for (size_t step = 0; step < 2; step++) {
        fill_sections(step);
        for (size_t number = 0; number < count; number++) {
            if (cases[number].kind == STILLFRAME_LOANED) {
                stillframe_loan *loan;
                void *data;
                check(stillframe_loan_begin(region, cases[number].variable, &loan, &data, NULL));
                fill(data, &cases[number], number, step);
                check(stillframe_loan_submit(loan));
            } else {
                fill(cases[number].memory, &cases[number], number, step);
            }
        }
        check(stillframe_set_bool(region, "flag", true));
        check(stillframe_set_int(region, "integer", -(INT64_C(1) << 40)));
        check(stillframe_set_float(region, "real", 0.1));
        check(stillframe_set_text(region, "text", "Grüße"));
        stillframe_given given = given_section();
        check(stillframe_publish_with(region, step == 0 ? 5 : 8, &given, 1, NULL));
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    check(stillframe_unlink(region));
    return 0;
}
