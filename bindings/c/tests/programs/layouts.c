// Layouts described in DRepl's language, and bytes moved from one into another.
#include "check.h"

typedef struct {
    double rho, e;
    int32_t id;
} cell;

enum { CELLS = 1000 };

static const char *text = "type Cell struct { rho, e float64; id int32 }\n"
                          "var mesh [N]Cell\n"
                          "view sim aligned default { var mesh = mesh }\n"
                          "view soa { var rho [i] = mesh[i].rho; var e [i] = mesh[i].e; var id [i] = mesh[i].id }\n"
                          "replica both \"both.dat\" { view sim view soa }\n";

static stillframe_drepl_schema *parse(const char *text, int64_t n) {
    stillframe_drepl_binding bindings[] = {{"N", n}};
    stillframe_drepl_schema *schema;
    OK(stillframe_drepl_parse(text, bindings, 1, &schema));
    return schema;
}

static stillframe_drepl_fragment *find(stillframe_drepl_schema *schema, const char *name) {
    stillframe_drepl_fragment *fragment;
    OK(stillframe_drepl_find(schema, name, &fragment));
    return fragment;
}

static stillframe_drepl_fragment *describe(stillframe_drepl_schema *schema, const char *text) {
    stillframe_drepl_fragment *fragment;
    OK(stillframe_drepl_describe(schema, text, NULL, 0, &fragment));
    return fragment;
}

static void structures_become_arrays(void) {
    stillframe_drepl_schema *schema = parse(text, CELLS);
    stillframe_drepl_fragment *sim = find(schema, "sim"), *soa = find(schema, "soa"), *both = find(schema, "both");
    OK(stillframe_drepl_schema_free(schema));
    uint64_t sim_bytes, soa_bytes, both_bytes;
    OK(stillframe_drepl_bytes(sim, &sim_bytes));
    OK(stillframe_drepl_bytes(soa, &soa_bytes));
    OK(stillframe_drepl_bytes(both, &both_bytes));
    CHECK(sim_bytes == sizeof(cell[CELLS]) && soa_bytes == 20 * CELLS && both_bytes == sim_bytes + soa_bytes);
    static cell cells[CELLS];
    for (int i = 0; i < CELLS; i++)
        cells[i] = (cell){i, 2. * i, -i};
    static struct {
        double rho[CELLS], e[CELLS];
        int32_t id[CELLS];
    } arrays;
    stillframe_drepl_source source = {.fragment = sim};
    stillframe_drepl_plan *plan;
    OK(stillframe_drepl_make_plan(soa, &source, 1, 0, UINT64_MAX, &plan));
    // A plan outlives what it was made with.
    OK(stillframe_drepl_fragment_free(sim));
    OK(stillframe_drepl_fragment_free(soa));
    OK(stillframe_drepl_fragment_free(both));
    stillframe_drepl_plan_info info;
    char words[200];
    OK(stillframe_drepl_explain(plan, &info, words, sizeof words));
    CHECK(info.missing_elements == 0 && info.moved_bytes == 20 * CELLS && info.pieces == 3);
    CHECK(strstr(words, "mesh.rho[0..1000]") != NULL);
    CHECK(strlen(words) == sizeof words - 1 && info.text_bytes > sizeof words);
    char *all = malloc(info.text_bytes), *more = malloc(info.text_bytes + 1);
    CHECK(all != NULL && more != NULL);
    OK(stillframe_drepl_explain(plan, NULL, all, info.text_bytes));
    OK(stillframe_drepl_explain(plan, NULL, more, info.text_bytes + 1));
    CHECK(strlen(all) + 1 == info.text_bytes && strncmp(all, words, strlen(words)) == 0 && strcmp(all, more) == 0);
    char few[5];
    OK(stillframe_drepl_explain(plan, NULL, few, sizeof few));
    CHECK(strlen(few) == 4 && strncmp(words, few, 4) == 0);
    free(more);
    free(all);
    stillframe_drepl_buffer buffer = {cells, sizeof cells};
    for (uint32_t threads = 0; threads < 3; threads++) {
        memset(&arrays, 0, sizeof arrays);
        OK(stillframe_drepl_execute(plan, &buffer, 1, &arrays, soa_bytes, threads, false));
        for (int i = 0; i < CELLS; i++)
            CHECK(arrays.rho[i] == i && arrays.e[i] == 2. * i && arrays.id[i] == -i);
    }
    OK(stillframe_drepl_plan_free(plan));
}

// A grid of 8x8 in four blocks, and a column of ghost cells that two of them have, one of them twice.
static void ghost_cells_come_from_the_newest_and_cheapest_blocks(void) {
    stillframe_drepl_schema *schema = parse("var grid [N,N] float64", 8);
    stillframe_drepl_fragment *upper = describe(schema, "{ var b[x:4,y:4] = grid[x,y] }");
    stillframe_drepl_fragment *lower = describe(schema, "{ var b[x:4,y:4] = grid[x+4,y] }");
    stillframe_drepl_binding column = {"at", 3};
    stillframe_drepl_fragment *ghost;
    OK(stillframe_drepl_describe(schema, "{ var ghost[x:8,y:1] = grid[x,y+at] }", &column, 1, &ghost));
    double old[16], costly[16], cheap[16], below[16], got[8] = {0};
    for (int i = 0; i < 16; i++)
        old[i] = 1, costly[i] = 2, cheap[i] = i, below[i] = 100 + i;
    stillframe_drepl_source sources[] = {
        {.fragment = upper, .version = 1},
        {.fragment = upper, .version = 2, .cost = 9},
        {.fragment = upper, .version = 2, .cost = 3},
        {.fragment = lower, .version = 2},
        {.fragment = upper, .version = 3, .unreadable = 1},
    };
    stillframe_drepl_buffer buffers[] = {
        {old, sizeof old}, {costly, sizeof costly}, {cheap, sizeof cheap}, {below, sizeof below}, {NULL, 0}};
    stillframe_drepl_plan *plan;
    OK(stillframe_drepl_make_plan(ghost, sources, 5, 0, UINT64_MAX, &plan));
    OK(stillframe_drepl_execute(plan, buffers, 5, got, sizeof got, 1, false));
    for (int i = 0; i < 4; i++)
        CHECK(got[i] == 4 * i + 3 && got[4 + i] == 100 + 4 * i + 3);
    OK(stillframe_drepl_plan_free(plan));
    // Without the block below, half of it is missing, and stays as it is.
    OK(stillframe_drepl_make_plan(ghost, sources, 3, 1, 1, &plan));
    stillframe_drepl_plan_info info;
    OK(stillframe_drepl_explain(plan, &info, NULL, 0));
    CHECK(info.missing_elements == 4 && info.moved_bytes == 32);
    FAILS(STILLFRAME_DREPL_MISSING, "grid[4..8, 3]", stillframe_drepl_execute(plan, buffers, 3, got, sizeof got, 1, false));
    CHECK(got[0] == 3);
    OK(stillframe_drepl_execute(plan, buffers, 3, got, sizeof got, 1, true));
    CHECK(got[0] == 1 && got[3] == 1 && got[4] == 103);
    OK(stillframe_drepl_plan_free(plan));
    OK(stillframe_drepl_fragment_free(upper));
    OK(stillframe_drepl_fragment_free(lower));
    OK(stillframe_drepl_fragment_free(ghost));
    OK(stillframe_drepl_schema_free(schema));
}

static void a_write_to_one_view_reaches_the_others(void) {
    stillframe_drepl_schema *schema = parse("var line [N] int8; view all { var l = line }", 8);
    stillframe_drepl_fragment *all = find(schema, "all"), *even = describe(schema, "{ var e [i] = line[2*i] }");
    stillframe_drepl_fragment *twice = describe(schema, "view readonly { var a = line; var b = line }");
    int8_t line[8] = {0, 1, 2, 3, 4, 5, 6, 7}, evens[4] = {-1, -1, -1, -1};
    stillframe_drepl_buffer buffer = {line, sizeof line};
    stillframe_drepl_plan *plan;
    OK(stillframe_drepl_make_update(all, 3, 6, even, &plan));
    OK(stillframe_drepl_execute(plan, &buffer, 1, evens, sizeof evens, 1, false));
    CHECK(evens[0] == -1 && evens[1] == -1 && evens[2] == 4 && evens[3] == -1);
    OK(stillframe_drepl_plan_free(plan));
    OK(stillframe_drepl_make_update(all, 5, 6, even, &plan));
    stillframe_drepl_plan_info info;
    OK(stillframe_drepl_explain(plan, &info, NULL, 0));
    CHECK(info.pieces == 0 && info.moved_bytes == 0 && info.missing_elements == 0);
    OK(stillframe_drepl_execute(plan, &buffer, 1, evens, sizeof evens, 1, false));
    OK(stillframe_drepl_plan_free(plan));
    int8_t both[16];
    OK(stillframe_drepl_make_update(all, 0, UINT64_MAX, twice, &plan));
    OK(stillframe_drepl_execute(plan, &buffer, 1, both, sizeof both, 1, false));
    CHECK(memcmp(both, line, 8) == 0 && memcmp(both + 8, line, 8) == 0);
    OK(stillframe_drepl_plan_free(plan));
    FAILS(STILLFRAME_DREPL_UNPLANNABLE, "twice", stillframe_drepl_make_update(twice, 0, UINT64_MAX, all, &plan));
    CHECK(plan == NULL);
    FAILS(STILLFRAME_BAD_ARGUMENT, "end", stillframe_drepl_make_update(all, 2, 1, even, &plan));
    OK(stillframe_drepl_fragment_free(all));
    OK(stillframe_drepl_fragment_free(even));
    OK(stillframe_drepl_fragment_free(twice));
    OK(stillframe_drepl_schema_free(schema));
}

static void mistakes_are_named(void) {
    stillframe_drepl_schema *schema;
    FAILS(STILLFRAME_DREPL_TEXT, "M", stillframe_drepl_parse("var grid [M,M] float64", NULL, 0, &schema));
    CHECK(schema == NULL);
    FAILS(STILLFRAME_DREPL_TEXT, "not-there", stillframe_drepl_load("/not-there.drepl", NULL, 0, &schema));
    FAILS(STILLFRAME_BAD_ARGUMENT, "text", stillframe_drepl_parse(NULL, NULL, 0, &schema));
    schema = parse(text, 10);
    stillframe_drepl_fragment *sim, *soa, *none;
    FAILS(STILLFRAME_DREPL_UNKNOWN_VIEW, "sim, soa, both", stillframe_drepl_find(schema, "aos", &none));
    CHECK(none == NULL);
    FAILS(STILLFRAME_DREPL_TEXT, "mesh", stillframe_drepl_describe(schema, "{ var m = mush }", NULL, 0, &none));
    FAILS(STILLFRAME_BAD_HANDLE, "the call is for: fragment",
          stillframe_drepl_bytes((stillframe_drepl_fragment *)schema, &(uint64_t){0}));
    sim = find(schema, "sim"), soa = find(schema, "soa");
    stillframe_drepl_schema *other = parse(text, 11);
    stillframe_drepl_source elsewhere = {.fragment = find(other, "sim")}, source = {.fragment = sim};
    stillframe_drepl_plan *plan;
    FAILS(STILLFRAME_DREPL_DATASETS, "fragment 0",
          stillframe_drepl_make_plan(soa, &elsewhere, 1, 0, UINT64_MAX, &plan));
    CHECK(plan == NULL);
    FAILS(STILLFRAME_BAD_ARGUMENT, "version_max", stillframe_drepl_make_plan(soa, &source, 1, 2, 1, &plan));
    OK(stillframe_drepl_make_plan(soa, &source, 1, 0, UINT64_MAX, &plan));
    char bytes[24 * 10], to[20 * 10] = {0};
    stillframe_drepl_buffer buffer = {bytes, sizeof bytes};
    FAILS(STILLFRAME_BAD_ARGUMENT, "made with 1", stillframe_drepl_execute(plan, NULL, 0, to, sizeof to, 1, false));
    FAILS(STILLFRAME_DREPL_LENGTH, "199", stillframe_drepl_execute(plan, &buffer, 1, to, 199, 1, false));
    buffer.bytes = 20;
    FAILS(STILLFRAME_DREPL_LENGTH, "20", stillframe_drepl_execute(plan, &buffer, 1, to, sizeof to, 1, false));
    buffer.bytes = UINT64_MAX;
    FAILS(STILLFRAME_BAD_ARGUMENT, "buffers", stillframe_drepl_execute(plan, &buffer, 1, to, sizeof to, 1, false));
    buffer = (stillframe_drepl_buffer){NULL, sizeof bytes};
    FAILS(STILLFRAME_BAD_ARGUMENT, "NULL", stillframe_drepl_execute(plan, &buffer, 1, to, sizeof to, 1, false));
    buffer = (stillframe_drepl_buffer){bytes, sizeof bytes};
    FAILS(STILLFRAME_BAD_ARGUMENT, "overlaps", stillframe_drepl_execute(plan, &buffer, 1, bytes + 40, 200, 1, false));
    OK(stillframe_drepl_plan_free(plan));
    FAILS(STILLFRAME_BAD_HANDLE, "this plan has ended", stillframe_drepl_plan_free(plan));
    OK(stillframe_drepl_fragment_free(elsewhere.fragment));
    OK(stillframe_drepl_fragment_free(sim));
    OK(stillframe_drepl_fragment_free(soa));
    OK(stillframe_drepl_schema_free(schema));
    OK(stillframe_drepl_schema_free(other));
    OK(stillframe_drepl_schema_free(NULL));
    OK(stillframe_drepl_fragment_free(NULL));
    OK(stillframe_drepl_plan_free(NULL));
}

static void holes_have_what_the_text_says(void) {
    stillframe_drepl_schema *schema = parse("var line [4]int32 view v clipped fill -7 { var l [i:6] = line[i-1] }", 0);
    stillframe_drepl_fragment *fragment = find(schema, "v");
    int32_t numbers[7] = {1, 1, 1, 1, 1, 1, 1};
    OK(stillframe_drepl_clear(fragment, numbers, sizeof numbers));
    for (int i = 0; i < 6; i++)
        CHECK(numbers[i] == (i == 0 || i == 5 ? -7 : 0));
    CHECK(numbers[6] == 1);
    FAILS(STILLFRAME_BAD_ARGUMENT, "the fragment 24", stillframe_drepl_clear(fragment, numbers, 20));
    FAILS(STILLFRAME_BAD_ARGUMENT, "buffer", stillframe_drepl_clear(fragment, NULL, sizeof numbers));
    OK(stillframe_drepl_fragment_free(fragment));
    OK(stillframe_drepl_schema_free(schema));
}

int main(int argc, char **argv) {
    alarm(60);
    const test tests[] = {
        TEST(structures_become_arrays),
        TEST(ghost_cells_come_from_the_newest_and_cheapest_blocks),
        TEST(a_write_to_one_view_reaches_the_others),
        TEST(holes_have_what_the_text_says),
        TEST(mistakes_are_named),
    };
    return RUN_TESTS(tests);
}
