/* xemem.h - XEMEM's calls, by libstillframe-xpmem
 *
 * As XPMEM's, and segments have names. docs/xpmem.md says what is the same and what is not.
 */
#ifndef STILLFRAME_XEMEM_H
#define STILLFRAME_XEMEM_H

#include <xpmem.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef xpmem_segid_t xemem_segid_t;
typedef xpmem_apid_t xemem_apid_t;

struct xemem_addr {
    xemem_apid_t apid;
    off_t offset;
};

#define XEMEM_INVALID_SEGID ((xemem_segid_t)-1)

/* Flags of xemem_get. */
#define XEMEM_RDONLY XPMEM_RDONLY
#define XEMEM_RDWR XPMEM_RDWR

/* Exports whole pages under a name, or without one (NULL). Memory of a backed region (xasm.h) is exported as the newest
 * aspace_copy has it, for good; other memory is shared, and goes on changing. */
xemem_segid_t xemem_make(void *vaddr, size_t size, const char *name);
int xemem_remove(xemem_segid_t segid);

/* The newest segment of a name. */
xemem_segid_t xemem_lookup_segid(const char *name);

xemem_apid_t xemem_get(xemem_segid_t segid, int flags);
int xemem_release(xemem_apid_t apid);

void *xemem_attach(struct xemem_addr addr, size_t size, void *vaddr);
int xemem_detach(void *vaddr);

#ifdef __cplusplus
}
#endif

#endif
