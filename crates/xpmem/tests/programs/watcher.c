/* Looks at every newest snapshot of figure3 that it meets, until the last, while the simulation goes on. */
#include "check.h"
#include <sched.h>

#define BYTES (256 * PAGE)

/* The number that all elements have. */
static double same(const volatile double *data)
{
    double first = data[0];
    for (size_t i = 0; i < BYTES / sizeof *data; i++)
        CHECK(data[i] == first);
    return first;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    double last = atof(argv[2]), seen = 0;
    int looks = 0;
    while (seen < last) {
        xemem_segid_t segid = xemem_lookup_segid(argv[1]);
        if (segid == -1) {
            CHECK(errno == ENOENT);
            sched_yield();
            continue;
        }
        /* A snapshot may be removed between these calls, and then they say so. */
        xemem_apid_t apid = xemem_get(segid, XEMEM_RDWR);
        if (apid == -1) {
            CHECK(errno == ENOENT);
            continue;
        }
        struct xemem_addr addr = {apid, 0};
        double *data = xemem_attach(addr, BYTES, NULL);
        if (data == (void *)-1) {
            CHECK(errno == ENOENT);
            CHECK(xemem_release(apid) == 0);
            continue;
        }
        double number = same(data);
        CHECK(number >= seen && number >= 1 && number <= last);
        seen = number;
        /* It does not change, whatever the simulation does meanwhile. */
        for (int again = 0; again < 3; again++) {
            sched_yield();
            CHECK(same(data) == number);
        }
        /* What is written is this process's own. */
        for (size_t at = 0; at < BYTES; at += 16 * PAGE)
            data[at / sizeof *data] = -7;
        double *other = xemem_attach(addr, BYTES, NULL);
        if (other != (void *)-1) {
            CHECK(same(other) == number);
            CHECK(xemem_detach(other) == 0);
        } else {
            CHECK(errno == ENOENT);
        }
        CHECK(data[0] == -7);
        CHECK(xemem_detach(data) == 0);
        CHECK(xemem_release(apid) == 0);
        looks++;
    }
    printf("%d looks\n", looks);
    return 0;
}
