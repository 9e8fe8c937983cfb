/* The XASM paper's Figure 4: an analysis that attaches to the newest snapshot. */
#include <stdio.h>
#include <stdlib.h>
#include <xemem.h>

#define PAGE_ROUND_UP(bytes) (((size_t)(bytes) + 4095) & ~(size_t)4095)

static void check(int failed, const char *call)
{
    if (failed) {
        fprintf(stderr, "%s: %s\n", call, xpmem_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *segment = argv[1];
    size_t size = 256 * 4096;
    xemem_segid_t segid;
    xemem_apid_t apid;
    struct xemem_addr addr;
    double *data, sum = 0;
    (void)argc;

    segid = xemem_lookup_segid(segment);
    check(segid == -1, "xemem_lookup_segid");

    apid = xemem_get(segid, XEMEM_RDWR);
    check(apid == -1, "xemem_get");

    addr.apid = apid;
    addr.offset = 0;
    data = xemem_attach(addr, PAGE_ROUND_UP(size), NULL);
    check(data == (void *)-1, "xemem_attach");

    /* do something */
    for (size_t i = 0; i < size / sizeof *data; i++)
        sum += data[i];
    printf("mean %g\n", sum / (double)(size / sizeof *data));

    check(xemem_detach(data), "xemem_detach");
    check(xemem_release(apid), "xemem_release");
    return 0;
}
