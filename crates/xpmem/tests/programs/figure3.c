/* The XASM paper's Figure 3: a simulation that exports a snapshot of its memory after each step. */
#include <stdio.h>
#include <stdlib.h>
#include <xasm.h>

static void check(int failed, const char *call)
{
    if (failed) {
        fprintf(stderr, "%s: %s\n", call, xpmem_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *sharename = argv[1];
    size_t pagesz = VM_PAGE_4KB, npages = 256, nbacking = 1024;
    size_t filesize = npages * pagesz;
    int steps = argc > 2 ? atoi(argv[2]) : 10;
    struct {
        vaddr_t start;
    } region;
    id_t my_aspace, dst, last = 0;
    xemem_segid_t segid, old = 0;

    check(aspace_get_myid(&my_aspace), "aspace_get_myid");
    check(arena_map_backed_region_anywhere(my_aspace, &region.start, npages * pagesz, nbacking * pagesz, VM_USER,
                                           BK_ARENA, pagesz, "cow region", 0),
          "arena_map_backed_region_anywhere");

    double *data = (double *)region.start;
    for (int step = 1; step <= steps; step++) {
        /* do simulation */
        for (size_t i = 0; i < filesize / sizeof *data; i++)
            data[i] = step;

        check(aspace_copy(my_aspace, &dst, 0), "aspace_copy");
        segid = xemem_make((void *)region.start, PAGE_ROUND_UP(filesize), sharename);
        check(segid == -1, "xemem_make");

        /* The snapshot before is exported no more. Who has attached it keeps it. */
        if (old) {
            check(xemem_remove(old), "xemem_remove");
            check(aspace_destroy(last), "aspace_destroy");
        }
        old = segid;
        last = dst;
    }
    printf("exported %d\n", steps);
    fflush(stdout);

    /* The last snapshot is there as long as this process. */
    for (size_t i = 0; i < filesize / sizeof *data; i++)
        data[i] = -1;
    getchar();
    return 0;
}
