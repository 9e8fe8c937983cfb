/* xasm.h - the XASM paper's calls (its Figure 2), by libstillframe-xpmem
 *
 * A backed region is memory of which aspace_copy keeps versions. xemem_make exports one, for others to attach. docs/xpmem.md
 * has the paper's Figures 3 and 4 as programs.
 *
 * Calls return -1 and set errno when they fail, and xpmem_error says why.
 */
#ifndef STILLFRAME_XASM_H
#define STILLFRAME_XASM_H

#include <xemem.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uintptr_t vaddr_t;
typedef uint64_t paddr_t;
typedef unsigned long vmflags_t;
typedef unsigned long bkflags_t;
typedef unsigned long vmpagesize_t;

/* The calling process, wherever an id is asked for. */
#define MY_ASPACE 0

/* Flags: memory that the program reads and writes. All three are the same here. */
#define VM_READ 0x1
#define VM_WRITE 0x2
#define VM_USER 0x4

/* The type of backing. */
#define BK_ARENA 0x1

/* Page policies: the region's memory is taken and given back page by page, for programs that write here and there; or chunk by
 * chunk, for those that go through it. */
#define VM_PAGE_4KB 0x1000
#define VM_PAGE_2MB 0x200000

#ifndef PAGE_ROUND_UP
#define PAGE_ROUND_UP(bytes) (((size_t)(bytes) + 4095) & ~(size_t)4095)
#endif

/* Maps a backed region at an address, where nothing may be mapped yet. Versions may differ in so many pages as
 * backing_extent has, over all backed regions of the process. pmem is not looked at. */
int arena_map_backed_region(id_t id, vaddr_t start, size_t extent, size_t backing_extent, vmflags_t flags, bkflags_t type,
                            vmpagesize_t pagesz, const char *name, paddr_t pmem);

/* The same where there is room; start tells where. */
int arena_map_backed_region_anywhere(id_t id, vaddr_t *start, size_t extent, size_t backing_extent, vmflags_t flags,
                                     bkflags_t type, vmpagesize_t pagesz, const char *name, paddr_t pmem);

/* The calling process's id. */
int aspace_get_myid(id_t *id);

/* Keeps what all backed regions of the process hold now as one version, until aspace_destroy. No thread may write them during
 * the call. flags are 0. */
int aspace_copy(id_t src, id_t *dst, int flags);

/* Lets go of what aspace_copy kept. Segments that were exported of it stay. */
int aspace_destroy(id_t id);

#ifdef __cplusplus
}
#endif

#endif
