/* xpmem.h - XPMEM's calls, by libstillframe-xpmem
 *
 * Memory of one process in others, without the kernel module of XPMEM. docs/xpmem.md says what is the same and what is not.
 *
 * Calls return -1 (xpmem_attach: (void *)-1) and set errno when they fail, and xpmem_error says why. A call that succeeds
 * leaves errno alone.
 */
#ifndef STILLFRAME_XPMEM_H
#define STILLFRAME_XPMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A segment: a range of a process's memory that others may ask for. The same number in all processes; above 0. */
typedef int64_t xpmem_segid_t;
/* What a process was granted for a segment. A number of its own; above 0. */
typedef int64_t xpmem_apid_t;

/* A place in what was granted. */
struct xpmem_addr {
    xpmem_apid_t apid;
    off_t offset;
};

/* What xpmem_version returns. */
#define XPMEM_CURRENT_VERSION 0x00026003

/* The size that stands for all memory of a process, which this library cannot share. */
#define XPMEM_MAXADDR_SIZE ((size_t)-1L)

/* Flags of xpmem_get. */
#define XPMEM_RDONLY 0x1
#define XPMEM_RDWR 0x2

/* The kind of permit: a mode as of chmod, in the pointer permit_value. */
#define XPMEM_PERMIT_MODE 0x1

int xpmem_version(void);

/* Shares whole pages of the calling process. No thread may write them during the call. */
xpmem_segid_t xpmem_make(void *vaddr, size_t size, int permit_type, void *permit_value);
int xpmem_remove(xpmem_segid_t segid);

/* Asks for a segment; permit_value is not looked at. */
xpmem_apid_t xpmem_get(xpmem_segid_t segid, int flags, int permit_type, void *permit_value);
/* Gives back what was granted, and ends all attachments that were made with it. */
int xpmem_release(xpmem_apid_t apid);

/* Maps bytes of a segment, at vaddr or, for NULL, where there is room. What is mapped at vaddr is replaced. */
void *xpmem_attach(struct xpmem_addr addr, size_t size, void *vaddr);
/* Ends the attachment in which this address lies. */
int xpmem_detach(void *vaddr);

/* Why the last call of this thread that failed did so; "" if none did. Valid until its next call that fails. */
const char *xpmem_error(void);

#ifdef __cplusplus
}
#endif

#endif
