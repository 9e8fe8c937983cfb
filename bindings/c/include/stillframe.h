// stillframe.h - look at a running simulation without stopping it
//
// Generated from bindings/c by `make header`; changes belong there.
//
// A program (the producer) makes a region, says what its variables are, and publishes numbered
// versions of them. Any number of other programs (observers) open the region at any time and hold
// snapshots of versions: read-only, consistent, unchanged for as long as they are held. docs/c.md
// is the short way in; what follows is what must be known before going far.
//
// RESULTS. All functions but stillframe_begin and those that give texts return a stillframe_status:
// 0, or a number of stillframe_status_code, and then stillframe_error_text() says what happened,
// where, and what to do. Outputs are written on success only, but for handles and addresses of what
// was to be made or found, which are NULL after an error. No function ends the process or changes signal handlers, and none
// prints unless it meets a defect of its own.
//
// HANDLES are numbers in the shape of pointers. NULL, an ended handle, one of another kind, and
// most stray pointers are told apart and give STILLFRAME_BAD_HANDLE. What is never closed is the
// kernel's to clean up when the process ends: the region's files stay, holds end.
//
// WHO MAY WRITE WHAT, WHEN. Nobody may write a managed or tracked variable while stillframe_publish
// runs; that is the only rule for writers, and the program's to keep: a version would show half of
// what was written. A submitted loan is not written again. Memory of snapshots cannot be written.
// Everything else may be written at any time, by any means of the program that the kernel sees. For
// writes of devices (RDMA, GPUs), of other processes into memory they share, and into a file beneath
// a mapping of it (write) there is stillframe_mark_dirty. Before a device is told of the memory of a managed variable,
// stillframe_pin.
//
// WHAT DANGLES. Memory of a managed variable is there until it is resized or removed or its region
// is closed; memory of a loan until it is submitted or discarded; whatever came from a snapshot
// (data, texts) until it is released, not longer. A tracked array that is freed must be given up
// first (stillframe_track with NULL) or be tracked where it is then. If that is forgotten and its
// pages are gone, publish finds out and returns STILLFRAME_NO_MEMORY_THERE; if the allocator kept
// the pages, the next version shows what they hold by then.
//
// THREADS. All functions may be called from any thread. Calls with the same region wait for each
// other, a publish that waits for room included; those with the same observer or snapshot do not. A
// handle may be ended while other threads are in calls with it: those finish first, later ones get
// STILLFRAME_BAD_HANDLE. Error texts are per thread.
//
// FORK. Handles are the parent's. In a child all of them give STILLFRAME_FORKED, in functions that
// end them too, and the parent does not notice; memory of managed variables is a copy there, and
// what pointers into snapshots show is held by nobody. A child opens its own.
//
// SIGNAL HANDLERS. No function is safe in a signal handler: they allocate. A handler that comes
// while its own thread is inside a call with the same handle gets STILLFRAME_BUSY rather than a
// deadlock; that is all that is promised. Set a flag in the handler and publish in the program. The
// library lets its waits go on when a signal handler returns.
//
// MPI. Each rank is a producer of its own, of the region NAME/rank; no call communicates.
// stillframe_close may come before MPI_Finalize, after it, or not at all. MPI_Abort, like any other
// end, leaves the last version of each rank whole. Where messages are received by a device straight
// into a variable, see stillframe_mark_dirty and stillframe_pin.
//
// OBJECTS are one name for data that many processes hold (stillframe_object_create). Each process
// attaches its fragment, to write or to read, in the layout that it wants. Memory of a fragment is
// there until it is detached; nobody may write it while stillframe_fragment_publish runs.
//
// SIZES are in bytes, times in milliseconds unless the name says otherwise, texts UTF-8. Structures
// that the program fills are set to 0 first ({0}), so that members to come have their defaults.


#ifndef STILLFRAME_H
#define STILLFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// For stillframe_publish_start: the arrays may be written, freed and tracked elsewhere before the publish is finished. A child
// process copies, which has the memory as it was. That costs the time of fork(2) when it is started, a fault at the first write
// to each page of the process afterwards, and memory for the pages that are written meanwhile. Arrays that are shared with other
// processes or lie in a mapping of a file, and those that forked children do not get or find empty, are copied when it is started.
#define STILLFRAME_PUBLISH_GUARD 1

// Most dimensions of a variable.
#define STILLFRAME_RANK_MAX 8

// All numbers, for ever. 1 to 99: the program asked for something that makes no sense. 100 to 199: the machine, its limits
// or another process are in the way. 200 to 299: shared files are damaged. 300: a defect of Stillframe. From 1000 on they are
// about checkpoints, from 2000 on about layouts, from 3000 on about objects, with the same hundreds.
typedef enum {
    // All went well.
    STILLFRAME_OK = 0,
    // A handle that is NULL, has ended, is of another kind, or is none at all.
    STILLFRAME_BAD_HANDLE = 1,
    // An argument that cannot be: NULL, no UTF-8, a number that has no meaning.
    STILLFRAME_BAD_ARGUMENT = 2,
    // The same thread is inside another call with this handle, as in a signal handler.
    STILLFRAME_BUSY = 3,
    // A name that cannot be a region's or a variable's.
    STILLFRAME_BAD_NAME = 10,
    // An option with a value that makes no sense.
    STILLFRAME_BAD_OPTION = 11,
    // The version is not above the newest one.
    STILLFRAME_NOT_INCREASING = 12,
    // The region, or the version, has no such variable.
    STILLFRAME_UNKNOWN_VARIABLE = 13,
    // The region has a variable of this name.
    STILLFRAME_VARIABLE_EXISTS = 14,
    // The elements are of another type.
    STILLFRAME_WRONG_DTYPE = 15,
    // A shape that does not fit.
    STILLFRAME_WRONG_SHAPE = 16,
    // The call is for another kind of variable.
    STILLFRAME_WRONG_KIND = 17,
    // A range that reaches past the end of the variable.
    STILLFRAME_OUT_OF_RANGE = 18,
    // The snapshots are of different regions.
    STILLFRAME_DIFFERENT_REGIONS = 19,
    // The handle was made before fork(2), by the parent.
    STILLFRAME_FORKED = 20,
    // A tracked array is not there any more: its memory is not mapped.
    STILLFRAME_NO_MEMORY_THERE = 21,
    // There is no attribute of this name.
    STILLFRAME_UNKNOWN_ATTRIBUTE = 22,
    // The name is that of a group: open it as one, or one of its ranks.
    STILLFRAME_IS_GROUP = 23,
    // The name is that of a region, not of a group.
    STILLFRAME_NOT_GROUP = 24,
    // An array whose elements do not follow each other in memory. For bindings of other languages.
    STILLFRAME_NOT_CONTIGUOUS = 25,
    // More than a reader of the region accepts: of variables, attributes, or what else its text names.
    STILLFRAME_LIMIT = 26,
    // The variable is pinned, and would have to move.
    STILLFRAME_IS_PINNED = 27,
    // With STILLFRAME_CHECK=1: a variable was written while a publish that was started copied it.
    STILLFRAME_WRITTEN = 28,
    // The region has a living producer.
    STILLFRAME_IN_USE = 100,
    // There is no such region.
    STILLFRAME_NO_REGION = 101,
    // The region is another user's, who does not share it.
    STILLFRAME_DENIED = 102,
    // Nothing was published yet.
    STILLFRAME_NO_VERSION = 103,
    // The version is not, or no longer, there.
    STILLFRAME_VERSION_GONE = 104,
    // Nothing happened in time.
    STILLFRAME_TIMEOUT = 105,
    // The producer ended, so nobody will publish what is waited for.
    STILLFRAME_PRODUCER_GONE = 106,
    // The file system is full.
    STILLFRAME_NO_SPACE = 107,
    // The region's own bound is reached.
    STILLFRAME_BOUND = 108,
    // All versions that a region can have are held by observers.
    STILLFRAME_NO_SLOT = 109,
    // The process has no memory mappings left.
    STILLFRAME_NO_MAPPINGS = 110,
    // The process or the machine has no file descriptors left.
    STILLFRAME_NO_FILES = 111,
    // The system's pages are not of 4 KiB.
    STILLFRAME_FOREIGN_PAGES = 112,
    // The tracker asked for does not work here.
    STILLFRAME_NO_TRACKER = 113,
    // Any other system call that failed.
    STILLFRAME_SYSTEM = 114,
    // A rank of a group has not begun, or has no version.
    STILLFRAME_RANK_MISSING = 115,
    // A rank of a group is gone, and what is waited for needs it.
    STILLFRAME_RANK_GONE = 116,
    // No version exists on all ranks of a group.
    STILLFRAME_NO_COMMON_VERSION = 117,
    // A region is still in memory where a checkpoint is to be restored.
    STILLFRAME_SURVIVES = 118,
    // Another process is restoring the same region.
    STILLFRAME_STAGED = 119,
    // A directory or file that somebody else made, or could change.
    STILLFRAME_UNTRUSTED = 120,
    // An arena has no room left.
    STILLFRAME_ARENA_FULL = 121,
    // There is no such arena.
    STILLFRAME_NO_ARENA = 122,
    // Another process is changing the regions of an arena, for much longer than that takes.
    STILLFRAME_ARENA_BUSY = 123,
    // Ranks of a group have a version of the same number, but of different runs.
    STILLFRAME_MIXED_RUNS = 124,
    // The process that copied for a guarded publish was killed.
    STILLFRAME_CHILD_GONE = 125,
    // Nobody hands out regions at the socket that was named.
    STILLFRAME_NO_BROKER = 126,
    // A broker does not hand out what was asked for.
    STILLFRAME_BROKER = 127,
    // A shared file is damaged.
    STILLFRAME_CORRUPT = 200,
    // A defect of Stillframe, caught before it could do more harm. Please report its text.
    STILLFRAME_INTERNAL = 300,
    // The directory has checkpoints of another region.
    STILLFRAME_OTHER_REGION = 1010,
    // The same version is being saved already.
    STILLFRAME_SAVING = 1011,
    // A condition on versions that cannot be understood.
    STILLFRAME_EXPRESSION = 1012,
    // No rank has all of the box that is wanted.
    STILLFRAME_UNCOVERED = 1013,
    // What is to be read is of a run that began with nothing.
    STILLFRAME_NOTHING_RECOVERED = 1014,
    // The variable is another one on each rank, and the number of ranks changed.
    STILLFRAME_PER_RANK = 1015,
    // Somebody else writes checkpoints into the directory.
    STILLFRAME_LOCKED = 1100,
    // A checkpoint of this version is there already, and of another run.
    STILLFRAME_CONTRADICTS = 1101,
    // The directory may not be written to.
    STILLFRAME_READ_ONLY = 1102,
    // The directory went away while a version was being saved.
    STILLFRAME_VANISHED = 1103,
    // The disk did not take what was written.
    STILLFRAME_NOT_SYNCED = 1104,
    // Saving was given up because somebody asked for that.
    STILLFRAME_CANCELLED = 1105,
    // There is no good checkpoint.
    STILLFRAME_NO_CHECKPOINT = 1106,
    // There is no checkpoint of the version.
    STILLFRAME_NO_SUCH_VERSION = 1107,
    // The file system of the directory has no locks.
    STILLFRAME_NO_LOCKS = 1108,
    // There is no directory of checkpoints.
    STILLFRAME_NO_STORE = 1109,
    // A file of a checkpoint cannot be read.
    STILLFRAME_NOT_READABLE = 1110,
    // The directory was removed, or its file system unmounted.
    STILLFRAME_REMOVED = 1112,
    // A checkpoint of a format that this library does not know.
    STILLFRAME_FOREIGN_FORMAT = 1200,
    // A file of a checkpoint is damaged.
    STILLFRAME_DAMAGED = 1201,
    // A text of the layout language has mistakes.
    STILLFRAME_DREPL_TEXT = 2010,
    // A text declares no view or replica of this name.
    STILLFRAME_DREPL_UNKNOWN_VIEW = 2011,
    // Fragments of different objects.
    STILLFRAME_DREPL_DATASETS = 2012,
    // What is wanted takes too many pieces, or has two elements in the same bytes.
    STILLFRAME_DREPL_UNPLANNABLE = 2013,
    // No source has some of what is wanted.
    STILLFRAME_DREPL_MISSING = 2014,
    // A buffer is shorter than its fragment.
    STILLFRAME_DREPL_LENGTH = 2015,
    // There is an object of this name with another text, bindings or initial version.
    STILLFRAME_OBJECT_OTHER_TEXT = 3010,
    // A fragment that cannot be written: its view is readonly, it has no elements, or one of them twice.
    STILLFRAME_OBJECT_NOT_WRITABLE = 3011,
    // Two fragments to write have elements in common.
    STILLFRAME_OBJECT_OVERLAP = 3012,
    // A fragment to write comes too late: a newer version is complete already.
    STILLFRAME_OBJECT_REFUSED = 3013,
    // A fragment has no such variable, or none whose numbers lie together.
    STILLFRAME_OBJECT_VARIABLE = 3014,
    // The greatest number, which no version of an object can have.
    STILLFRAME_OBJECT_GREATEST_NUMBER = 3015,
    // A fragment that counts on no node, because fragments of other nodes have some of its elements.
    STILLFRAME_OBJECT_NOT_ACCEPTED = 3016,
    // There is no such object.
    STILLFRAME_NO_OBJECT = 3100,
    // Elements of a version cannot be had, or not any more: their writer died, or let it go.
    STILLFRAME_OBJECT_LOST = 3101,
    // All writers of an object have left.
    STILLFRAME_OBJECT_ENDED = 3102,
    // Another process is changing who writes an object, for much longer than that takes.
    STILLFRAME_OBJECT_LOCKED = 3103,
    // A wait ended early because its program wanted that. For bindings of other languages.
    STILLFRAME_OBJECT_INTERRUPTED = 3104,
    // Somebody removed the object.
    STILLFRAME_OBJECT_REMOVED = 3105,
    // The runtime of this node does not answer.
    STILLFRAME_NO_RUNTIME = 3106,
    // The runtime of this node has no memory for what other nodes have of a fragment.
    STILLFRAME_OBJECT_NO_MEMORY = 3107,
} stillframe_status_code;

// Who owns the memory of a variable.
typedef enum {
    // The region: it gives memory, which stays where it is until the variable is resized or removed or the region closed.
    STILLFRAME_MANAGED = 0,
    // The program: it says where its array is, which may change from publish to publish.
    STILLFRAME_TRACKED = 1,
    // The versions: memory is lent for each one, written whole, and shown without a copy.
    STILLFRAME_LOANED = 2,
} stillframe_kind_code;

// Bits of the member flags of stillframe_declaration.
typedef enum {
    // A managed variable is pinned from the beginning, see stillframe_pin.
    STILLFRAME_PINNED = 1,
} stillframe_declaration_flag;

// In which order the elements of an array follow each other in memory.
typedef enum {
    // Row-major: the last index runs fastest.
    STILLFRAME_C = 0,
    // Column-major: the first index runs fastest.
    STILLFRAME_FORTRAN = 1,
} stillframe_order_code;

// What a publish does when there is no room for another version because observers hold old ones.
typedef enum {
    // It waits until an observer lets go, but no longer than wait_ms in all since the newest version: then it leaves this
    // version out, and those that follow at once, until there is room. What was written is part of the next one.
    STILLFRAME_WAIT_THEN_SKIP = 0,
    // It leaves the version out: what was written is part of the next one.
    STILLFRAME_SKIP = 1,
    // It fails: what was written is part of the next publish.
    STILLFRAME_FAIL = 2,
    // It waits until an observer lets go, at most wait_ms in each publish, and then fails.
    STILLFRAME_WAIT = 3,
} stillframe_rule_code;

// Bits of the member flags of stillframe_region_options.
typedef enum {
    // Managed variables do not ask for large pages.
    STILLFRAME_NO_LARGE_PAGES = 1,
    // Managed memory that stays unwritten is not shared with the region's files, and so exists twice.
    STILLFRAME_NO_DEMOTION = 2,
    // What a dead producer left under this name is not taken over, so that version numbers may begin again: it is removed, or
    // set aside as NAME~1 if that producer did not end by itself (docs/concepts.md says how long).
    STILLFRAME_FRESH = 4,
    // The member rollback counts.
    STILLFRAME_ROLLBACK = 8,
} stillframe_flag;

// Bits of the member flags of stillframe_arena_options.
typedef enum {
    // Large pages are asked for where the file system has small ones. Small regions then take more memory.
    STILLFRAME_ARENA_LARGE_PAGES = 1,
    // The arena is opened to look only, which takes no right to write. Observers and stillframe_arena_usage_of work with it.
    // For stillframe_arena_open.
    STILLFRAME_ARENA_LOOK = 2,
} stillframe_arena_flag;

// Types of attributes.
typedef enum {
    // In the member integer: 0 or 1.
    STILLFRAME_BOOL = 0,
    // In the member integer.
    STILLFRAME_INT = 1,
    // In the member real.
    STILLFRAME_FLOAT = 2,
    // In the member text.
    STILLFRAME_TEXT = 3,
} stillframe_type_code;

// Whether a region has a producer.
typedef enum {
    // Its producer lives.
    STILLFRAME_LIVE = 0,
    // Its producer is gone; the next one of the name takes it over.
    STILLFRAME_DEAD = 1,
    // It was never finished.
    STILLFRAME_INCOMPLETE = 2,
    // It cannot be read; the member problem says why.
    STILLFRAME_UNREADABLE = 3,
} stillframe_state;

// Whether a rank of a group has a producer.
typedef enum {
    // Its producer lives.
    STILLFRAME_RANK_LIVE = 0,
    // Its producer is gone; the next one takes it over.
    STILLFRAME_RANK_DEAD = 1,
    // It has not begun.
    STILLFRAME_RANK_ABSENT = 2,
} stillframe_rank_state;

// Where the content came from that a region begins with.
typedef enum {
    // There was nothing: a first run.
    STILLFRAME_ORIGIN_FRESH = 0,
    // The region of the last run was still in memory.
    STILLFRAME_ORIGIN_MEMORY = 1,
    // A checkpoint.
    STILLFRAME_ORIGIN_CHECKPOINT = 2,
} stillframe_origin_code;

// Bits of the member flags of stillframe_object_options.
typedef enum {
    // The object is opened to read only, which takes no right to write. For stillframe_object_open.
    STILLFRAME_OBJECT_LOOK = 1,
} stillframe_object_flag;

// Bits of the member flags of stillframe_attach_options.
typedef enum {
    // Memory of each version is lent, to be written whole, and a publish copies nothing. It is at another address after each
    // publish: see stillframe_fragment_next and stillframe_fragment_previous.
    STILLFRAME_ATTACH_LOANED = 1,
    // It begins with zeros, whatever content the version has that it is attached at: for content that cannot be had any more, as that
    // of a node that died.
    STILLFRAME_ATTACH_ZEROS = 2,
} stillframe_attach_flag;

// Bits of the member flags of stillframe_checkpoint_options.
typedef enum {
    // The last version is saved when the producer ends, and the newest when the checkpointer is stopped.
    STILLFRAME_CHECKPOINT_AT_END = 1,
    // Versions that come faster than they can be saved are held, up to held and held_bytes, and saved one after the other;
    // else the newest comes first, and those in between are left out.
    STILLFRAME_CHECKPOINT_ALL = 2,
    // It ends with the first version.
    STILLFRAME_CHECKPOINT_ONCE = 4,
} stillframe_checkpoint_flag;

// Whether a checkpointer is at work.
typedef enum {
    // It is.
    STILLFRAME_CHECKPOINT_RUNNING = 0,
    // It ended, and what it had to save is safe.
    STILLFRAME_CHECKPOINT_ENDED = 1,
    // It ended, and something that it had to save is not safe.
    STILLFRAME_CHECKPOINT_FAILED = 2,
} stillframe_checkpoint_state;

// An arena: many regions in one file of fixed length, which is the bound of all of them together.
typedef struct stillframe_arena stillframe_arena;

// Threads that save versions of a region or group as checkpoints, as they come.
typedef struct stillframe_checkpointer stillframe_checkpointer;

// What lies where in one buffer. Handle.
typedef struct stillframe_drepl_fragment stillframe_drepl_fragment;

// How to make a wanted fragment from others. Handle.
typedef struct stillframe_drepl_plan stillframe_drepl_plan;

// A text of the layout language whose names have their numbers: objects, and views of them. Handle.
typedef struct stillframe_drepl_schema stillframe_drepl_schema;

// What a process holds of an object: memory in the layout that it asked for, to be written or to be read. Calls with the same
// fragment wait for each other, also for one that waits for a version.
typedef struct stillframe_fragment stillframe_fragment;

// A look at all ranks of a group. It holds nothing but what its snapshots hold, and can be used from several threads.
typedef struct stillframe_group stillframe_group;

// Memory of a managed variable that is no more.
typedef struct stillframe_kept stillframe_kept;

// Memory that was lent for the next version of a loaned variable.
typedef struct stillframe_loan stillframe_loan;

// A name for data that many processes hold, each a fragment of it in the layout that it wants. The handle can be used from
// several threads.
typedef struct stillframe_object stillframe_object;

// A look at a region. It holds nothing but what its snapshots hold, and can be used from several threads.
typedef struct stillframe_observer stillframe_observer;

// A region, by its producer. The files it names are observed by others.
typedef struct stillframe_region stillframe_region;

// A hold on one version, in which nothing changes. It can be used from several threads.
typedef struct stillframe_snapshot stillframe_snapshot;

// What a function returns: a number of stillframe_status_code.
typedef int32_t stillframe_status;

// How an arena is made or opened. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Directory that holds the arena's own; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>. In a directory on hugetlbfs
    // the arena consists of large pages of 2 MiB. A file that is handed in has no directory.
    const char *dir;
    // Length in bytes, rounded up to whole chunks of 2 MiB, the arena's own tables included; there is no default. Memory is
    // taken as regions need it. An arena that is opened, and a file that has a length, keep theirs.
    uint64_t bytes;
    // Whose directories and files are taken for good, as in stillframe_region_options.
    const char *trust;
    // The most regions that it can have at a time; 0: 4096. An arena that is opened keeps its number.
    uint32_t regions;
    // Access mode of the arena's directory; 0: 0700. With 0750 the group may observe all its regions, with 0770 it may also
    // make some.
    uint32_t mode;
    // Bits of stillframe_arena_flag.
    uint32_t flags;
    // 0.
    uint32_t reserved[9];
} stillframe_arena_options;

// Who has how much of an arena, about now.
typedef struct {
    // Length of the arena in bytes.
    uint64_t bytes;
    // Bytes of its own tables.
    uint64_t tables_bytes;
    // Bytes that belong to no region.
    uint64_t free_bytes;
    // Chunks of 2 MiB that are free as a whole.
    uint32_t free_chunks;
    // Chunks whose pages belong to several regions.
    uint32_t small_chunks;
    // Regions that it has, those that were removed and are still held included.
    uint32_t regions;
    // The most regions it can have.
    uint32_t regions_max;
    // 0.
    uint64_t reserved[4];
} stillframe_arena_usage;

// What one region has of an arena. Texts live until the visitor returns.
typedef struct {
    // Its name within the arena.
    const char *name;
    // Bytes that belong to it, whether they have memory or not.
    uint64_t bytes;
    // 1 if it was removed, and waits for those who hold its versions, else 0.
    uint32_t removed;
    // 0.
    uint32_t reserved;
} stillframe_arena_region;

// Gets what a region has of an arena; false ends the walk. As stillframe_region_visitor.
typedef bool (*stillframe_arena_region_visitor)(void *context, const stillframe_arena_region *region);

// A number of stillframe_rule_code.
typedef uint32_t stillframe_rule;

// How a region is made. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    const char *dir;
    // Most bytes of memory that the versions may take; 0: what the file system has.
    uint64_t bound_bytes;
    // Longest wait for room in milliseconds; 0: 1000 with the rule STILLFRAME_WAIT_THEN_SKIP, no limit with STILLFRAME_WAIT.
    uint64_t wait_ms;
    // How written pages are found: "wp_async", "soft_dirty", "private_cow" or "full_copy"; NULL: $STILLFRAME_TRACKER, else
    // the best that works.
    const char *tracker;
    // A number of stillframe_rule_code; 0: STILLFRAME_WAIT_THEN_SKIP.
    stillframe_rule rule;
    // How many of the newest versions stay although nobody holds them; 0: 1.
    uint32_t keep;
    // Threads that copy, the calling one included; 0: as many as there are processors for each rank, at most 4, of those that
    // the process was given when it was started.
    uint32_t threads;
    // Access mode of the region's directory; 0: 0700.
    uint32_t mode;
    // Bits of stillframe_flag.
    uint32_t flags;
    // This is rank number rank of a group.
    uint32_t rank;
    // Ranks of the group; 0: this is no part of a group. Else the region is NAME/rank, and its versions stay until all
    // ranks have published them.
    uint32_t ranks;
    // Most versions beyond keep that stay for slower ranks of the group, from 2 to 32; 0: 16.
    uint32_t drift;
    // With STILLFRAME_ROLLBACK: versions above this one are dropped when a region is taken over, so that they can be
    // published again. For the ranks of a group, which may have died at different versions.
    uint64_t rollback;
    // Whose directories and files are taken for good, besides those of the process's user and of root: "own", "user:NUMBER",
    // "group:NUMBER" or "any"; NULL: $STILLFRAME_TRUST, else "own".
    const char *trust;
    // The arena in which the region is made; NULL: it has a directory of its own. Observers find it by the name ARENA/NAME. The
    // handle may be closed as soon as the region is made.
    stillframe_arena *arena;
    // In which units tracked arrays that lie in reserved large pages are copied: "small", "large" or "learned"; NULL:
    // $STILLFRAME_COPY_UNIT, else "learned".
    const char *copy_unit;
    // In which units memory for versions is taken and given back: "small" (pages of 4 KiB) or "large" (windows of 2 MiB); NULL:
    // $STILLFRAME_MEMORY_UNIT, else "small".
    const char *memory_unit;
    // 0.
    uint64_t reserved[1];
} stillframe_region_options;

// What a region did since this producer made it.
typedef struct {
    // Versions published.
    uint64_t published;
    // Publishes left out by the rule.
    uint64_t skipped;
    // Pages found written, over all publishes.
    uint64_t dirty_pages;
    // Pages copied, over all publishes.
    uint64_t copied_pages;
    // Pages of all variables at the last publish.
    uint64_t total_pages;
    // Bytes of memory behind the versions.
    uint64_t plane_bytes;
    // Bytes of memory of managed variables that exist beside the versions, at most.
    uint64_t working_bytes;
    // Time spent in publish.
    double publish_seconds;
    // 0.
    uint64_t reserved[4];
} stillframe_statistics;

// A number of stillframe_kind_code.
typedef uint32_t stillframe_kind;

// A number of stillframe_order_code.
typedef uint32_t stillframe_order;

// A number of stillframe_type_code.
typedef uint32_t stillframe_type;

// An attribute. The member that holds the value is that of its type; the others are 0 or NULL.
typedef struct {
    const char *name;
    stillframe_type type;
    // 0.
    uint32_t reserved;
    int64_t integer;
    double real;
    const char *text;
} stillframe_attribute;

// A variable to be declared. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Unique in the region.
    const char *name;
    // Type of the elements: "int8", "int16", "int32", "int64", "uint8" to "uint64", "float16", "bfloat16" (the upper half of
    // a float), "float32", "float64", "complex64", "complex128" (two floats, real part first), "bool" (one byte), "bytesN" (N
    // bytes without meaning), or a record as JSON: {"fields":[{"name":"rho","dtype":"float64","offset":0}],"bytes":8}.
    const char *dtype;
    // Unit of measurement; NULL: none.
    const char *units;
    // A number of stillframe_kind_code.
    stillframe_kind kind;
    // A number of stillframe_order_code.
    stillframe_order order;
    // Dimensions, at most STILLFRAME_RANK_MAX. 0 is a single element. For a tracked variable it is of no matter, unless that
    // is a part of a global array.
    uint32_t rank;
    uint32_t attribute_count;
    // rank numbers; NULL for a tracked variable, which has a shape with each place.
    const size_t *shape;
    // attribute_count attributes of the variable.
    const stillframe_attribute *attributes;
    // rank numbers: where the variable begins in a global array, of which the ranks of a program each have a part. NULL: it
    // is not a part of one. Of a tracked variable too, rank is then the number of its dimensions.
    const size_t *offset;
    // rank numbers, with offset: the shape of the global array. Ghost cells may be part of the part.
    const size_t *global_shape;
    // Bits of stillframe_declaration_flag.
    uint64_t flags;
    // 0.
    uint64_t reserved;
} stillframe_declaration;

// What a publish did.
typedef struct {
    // The number of the version.
    uint64_t version;
    // Pages of 4 KiB that were written since the last publish.
    uint64_t dirty_pages;
    // Pages that were copied.
    uint64_t copied_pages;
    // Pages of all variables.
    uint64_t total_pages;
    // Time it took.
    double seconds;
    // 1 if the version was left out by the rule, else 0.
    uint32_t skipped;
    // 0.
    uint32_t reserved;
} stillframe_published;

// An array that one version is given for a tracked variable, see stillframe_publish_with.
typedef struct {
    // Where it is; NULL only of one without elements, which has an extent of 0.
    const void *data;
    // rank numbers.
    const size_t *shape;
    // The number of the variable, as stillframe_declare and stillframe_find tell it.
    uint32_t variable;
    // Dimensions, at most STILLFRAME_RANK_MAX.
    uint32_t rank;
    // A number of stillframe_order_code.
    stillframe_order order;
    // 0.
    uint32_t reserved;
    // Of a section, rank distances in bytes, as for stillframe_track_section. NULL: the elements lie one behind the other.
    const ptrdiff_t *strides;
    // With strides, the type that the elements have in memory, if they are rounded to the variable's; NULL if it is that.
    const char *dtype;
} stillframe_given;

// What a polite observer takes of the machine, at most: only what others leave (all threads of the process become of the
// class SCHED_IDLE), and its share where nothing is left over. It sleeps for that between versions. What the kernel does not
// permit is said once on standard error; the share holds all the same. A member that is 0 or NULL is the default; set all of
// it to 0 first.
typedef struct {
    // How much of one processor it takes where nothing is left over, above 0 and at most 1; 0: 0.02. Where processors stay
    // idle it takes more.
    double share;
    // How many bytes of variables it reads in a second; 0: as many as it likes.
    uint64_t bytes_per_s;
    // The processors it uses, such as "60-63,127"; NULL: all that the process was given.
    const char *processors;
    // 0.
    uint64_t reserved[2];
} stillframe_polite;

// How an observer is opened. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    const char *dir;
    // How long to wait for the region to appear and to have a version, in milliseconds; 0: not at all.
    uint64_t wait_ms;
    // Threads, the calling one included, that enter all pages of a variable in the page tables when it is first viewed, and
    // take them out in the end: for programs that read all of a large variable. 0: pages are entered as they are first read.
    // Not for groups.
    uint64_t populate_threads;
    // Whose directories and files are taken for good, besides those of the process's user and of root: "own", "user:NUMBER",
    // "group:NUMBER" or "any"; NULL: $STILLFRAME_TRUST, else "own" in the directory that is the user's by default, and "any"
    // in one that is named.
    const char *trust;
    // An arena that this process has open, in which the name is that of a region or group within it. It is needed for arenas
    // that were handed in as descriptors; what lies in others is found by names as ARENA/REGION and ARENA/GROUP.
    stillframe_arena *arena;
    // What it takes of the machine while others want it; NULL: what it gets, as any program. It is of the whole process, which is
    // to look and do nothing else, and lasts until its end.
    const stillframe_polite *polite;
    // 0.
    uint64_t reserved[1];
} stillframe_observer_options;

// A version that exists.
typedef struct {
    // The producer's number.
    uint64_t version;
    // Time of publishing in nanoseconds since 1970.
    uint64_t published_ns;
    // Pages of 4 KiB that had been written.
    uint64_t dirty_pages;
    // Pages of all variables.
    uint64_t total_pages;
    // 1 if it is on its way out: those who hold it keep it, but nobody else can get it.
    uint32_t retiring;
    // 0.
    uint32_t reserved;
} stillframe_version_info;

// What a snapshot is of. Texts live as long as the snapshot.
typedef struct {
    // Name of the region.
    const char *region;
    // The producer's number of the version.
    uint64_t version;
    // Time of publishing in nanoseconds since 1970.
    uint64_t published_ns;
    // Pages of 4 KiB that had been written.
    uint64_t dirty_pages;
    // Pages of all variables.
    uint64_t total_pages;
    size_t variable_count;
    // Of the version.
    size_t attribute_count;
    // 0.
    uint64_t reserved[4];
} stillframe_snapshot_info;

// A variable as it is in one version. Texts live as long as the snapshot.
typedef struct {
    const char *name;
    // Type of the elements, as in stillframe_declaration.
    const char *dtype;
    // "" if there is none.
    const char *units;
    // A number of stillframe_order_code.
    stillframe_order order;
    // Dimensions in use of shape and strides; the others are 0.
    uint32_t rank;
    size_t shape[STILLFRAME_RANK_MAX];
    // Bytes between neighbours along each dimension.
    ptrdiff_t strides[STILLFRAME_RANK_MAX];
    size_t bytes;
    // Bytes of one element.
    size_t item_bytes;
    size_t attribute_count;
    // Where it begins in the global array that it is a part of, as stillframe_declaration tells; rank numbers, as long as
    // the snapshot. NULL: it is no part, or none that fits its shape.
    const size_t *offset;
    // The shape of that array; rank numbers, or NULL.
    const size_t *global_shape;
    // 0.
    uint64_t reserved[2];
} stillframe_variable;

// Gets a piece of a variable; false ends the walk. It may call functions of this library, but must neither throw nor
// longjmp.
typedef bool (*stillframe_chunk_visitor)(void *context,
                                         size_t offset,
                                         const void *data,
                                         size_t bytes);

// Gets a range of bytes of a variable; false ends the walk. As stillframe_chunk_visitor.
typedef bool (*stillframe_range_visitor)(void *context, size_t offset, size_t bytes);

// How a rank of a group is doing.
typedef struct {
    uint32_t rank;
    // A number of stillframe_rank_state.
    uint32_t state;
    // What its last producer wrote as its process number; 0 if it has not begun.
    uint32_t pid;
    // 1 if it has a version, else 0.
    uint32_t has_version;
    // Its newest version.
    uint64_t newest;
    // Versions above its newest that the furthest rank has.
    uint64_t behind;
    // 0.
    uint64_t reserved[2];
} stillframe_rank;

// What can be said of a region from outside. Texts live until the visitor returns.
typedef struct {
    const char *name;
    // A number of stillframe_state.
    uint32_t state;
    // What the last producer wrote as its process number.
    uint32_t pid;
    // 1 if there is a version, else 0.
    uint32_t has_version;
    // Versions kept though nobody holds them.
    uint32_t keep;
    // The newest version.
    uint64_t newest;
    // Bytes of memory behind all files of the region.
    uint64_t allocated_bytes;
    // Most bytes that versions may take; 0: no bound.
    uint64_t bound_bytes;
    // Versions published.
    uint64_t published;
    // Publishes left out.
    uint64_t skipped;
    // Of an unreadable region, else "".
    const char *problem;
    // Time of creation in nanoseconds since 1970.
    uint64_t created_ns;
    // Bytes of memory of managed variables that exist beside the region's files, as far as the producer says.
    uint64_t working_bytes;
    // Its rank, if it is of a group.
    uint32_t rank;
    // Ranks of its group; 0: it is of none.
    uint32_t ranks;
    // Since when its producer has been waiting for room, in nanoseconds since 1970; 0 if it does not. stillframe_holders says
    // for whom.
    uint64_t waiting_ns;
    // When its producer left out the first publish since the newest version, in nanoseconds since 1970; 0 if it did not.
    uint64_t skipping_ns;
    // How many it left out since then.
    uint64_t skipping;
} stillframe_region_info;

// Gets a region; false ends the walk. It may call functions of this library, but must neither throw nor longjmp.
typedef bool (*stillframe_region_visitor)(void *context, const stillframe_region_info *info);

// A process, or as much as can be known of it, that holds versions; or another enclave, in which somebody does. Texts live until the
// visitor returns.
typedef struct {
    // Process number; 0 of all that belong to other users, and of an enclave.
    int32_t pid;
    // 1 if it is known which versions it holds, else 0.
    uint32_t has_version;
    // The oldest version it holds.
    uint64_t version;
    // For how long it has been holding one, in milliseconds; 0 of an enclave, which does not say that.
    uint64_t age_ms;
    // Name of its program; "" if it belongs to another user or is an enclave.
    const char *command;
    // Its state as the kernel's letter: 'T' is stopped, '?' unknown.
    char state;
    // How many versions it holds.
    uint64_t versions;
    // Name of the enclave, if it is one, else NULL.
    const char *enclave;
} stillframe_holder;

// Gets a holder; false ends the walk. As stillframe_region_visitor.
typedef bool (*stillframe_holder_visitor)(void *context, const stillframe_holder *holder);

// Gets a line of text; false ends the walk. The text lives until the visitor returns. As stillframe_region_visitor.
typedef bool (*stillframe_line_visitor)(void *context, const char *line);

// How to recover a region. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Directory with the checkpoints of the region, or of the group; NULL: what is in memory counts alone.
    const char *checkpoints;
    // With has_version: the version to go on from.
    uint64_t version;
    // 1 if version counts; 0: the newest version.
    uint32_t has_version;
    // 0.
    uint32_t padding;
    // How the region is made.
    stillframe_region_options region;
    // 0.
    uint64_t reserved[4];
} stillframe_recovery_options;

// What a region begins with. Texts live as long as the region's handle.
typedef struct {
    // A number of stillframe_origin_code. 0 is a first run.
    uint32_t kind;
    // Checkpoints that are damaged and were left out.
    uint32_t skipped_count;
    // The version that was recovered; 0 in a first run.
    uint64_t version;
    // The checkpoint; "" if it is none.
    const char *path;
    // All of it in a sentence, for the log.
    const char *sentence;
    // The damaged checkpoints, a line each; "" if there are none.
    const char *skipped;
    // 0.
    uint64_t reserved[4];
} stillframe_origin;

// A variable of the version that was recovered. Texts live until the visitor returns.
typedef struct {
    // Its name.
    const char *name;
    // Type of its elements, as in stillframe_array.
    const char *dtype;
    // Dimensions.
    uint32_t rank;
    // 0.
    uint32_t padding;
    // Its extents: those of the global array if ranks had parts of one.
    size_t shape[STILLFRAME_RANK_MAX];
    // 0.
    uint64_t reserved[4];
} stillframe_recovered_variable;

// Gets a variable of the version that was recovered; false ends the walk. As stillframe_region_visitor.
typedef bool (*stillframe_recovered_variable_visitor)(void *context,
                                                      const stillframe_recovered_variable *variable);

// Which versions are saved, and how. A member that is 0 or NULL is the default; set all of it to 0 first. Of every, every_ms,
// when and STILLFRAME_CHECKPOINT_AT_END any one is enough for a version to be saved; without them all versions are.
typedef struct {
    // Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    const char *dir;
    // Versions whose number is a multiple of this; 0: not by their number.
    uint64_t every;
    // A version so many milliseconds after the last; 0: not by time.
    uint64_t every_ms;
    // Versions for which this holds, such as "step % 100 == 0 && residual < 1e-3" with attributes of the version; NULL: none.
    const char *when;
    // Bits of stillframe_checkpoint_flag.
    uint32_t flags;
    // How many of the newest checkpoints stay; 0: 3.
    uint32_t keep;
    // Those whose version is a multiple of this stay for ever; 0: none.
    uint64_t keep_every;
    // "zstd" or "lz4"; NULL: files of plain bytes.
    const char *compress;
    // Bytes of a chunk, which is a file, about; 0: 1/2048 of the checkpoint or less, but 512 KiB to 32 MiB.
    uint64_t chunk_bytes;
    // Threads that write; 0: as many as there are processors, at most 4.
    uint32_t threads;
    // With STILLFRAME_CHECKPOINT_ALL: most versions held at once; 0: 8.
    uint32_t held;
    // With STILLFRAME_CHECKPOINT_ALL: most bytes that held versions may take; 0: a quarter of the memory that is available.
    uint64_t held_bytes;
    // How long to wait for the region to appear, in milliseconds; 0: not at all.
    uint64_t wait_ms;
    // How long to wait for the next producer when one is gone, in milliseconds; 0: not at all, which ends it.
    uint64_t follow_ms;
    // How far the threads that save step back behind others that want the processors: their nice value, 1 to 19; 0: 10; -1: they
    // are as the thread that starts the checkpointer.
    int32_t nice;
    // 0.
    uint32_t padding;
    // Whose directory of checkpoints is written into, besides the process's user's and root's: "own", "user:NUMBER",
    // "group:NUMBER" or "any"; NULL: $STILLFRAME_TRUST, else "own".
    const char *trust;
    // 0.
    uint64_t reserved[2];
} stillframe_checkpoint_options;

// What a checkpointer has done.
typedef struct {
    // A number of stillframe_checkpoint_state.
    uint32_t state;
    // 1 if a version is safe, else 0.
    uint32_t has_safe;
    // The newest version that is safe: on disk, whole, to be recovered.
    uint64_t newest_safe;
    // Versions saved.
    uint64_t saved;
    // Versions that were to be saved, and went before they could be.
    uint64_t missed;
    // Versions that are being saved.
    uint64_t saving;
    // Bytes written, and not written since files of the checkpoint before were linked.
    uint64_t written_bytes;
    uint64_t linked_bytes;
    // What went wrong last, until it went well again; "" if all is well. It lives until the checkpointer is asked again.
    const char *error;
    // 0.
    uint64_t reserved[4];
} stillframe_checkpoint_info;

// The number of a name that a text uses and does not declare.
typedef struct {
    const char *name;
    int64_t value;
} stillframe_drepl_binding;

// A fragment that exists. Each element of a wanted one is taken from the newest version, and where several have that, from
// the cheapest, and of those from the first.
typedef struct {
    stillframe_drepl_fragment *fragment;
    uint64_t version;
    // What reading from it costs, in any unit.
    uint64_t cost;
    // 1: it cannot be read now, and is left out.
    uint32_t unreadable;
    // 0.
    uint32_t reserved;
} stillframe_drepl_source;

// What a plan is about.
typedef struct {
    // Runs of elements that one source gives.
    uint64_t pieces;
    // Bytes that are moved.
    uint64_t moved_bytes;
    // Elements of the wanted fragment that no source has; 0: the plan is complete.
    uint64_t missing_elements;
    // Bytes that all of the text takes, its zero included.
    uint64_t text_bytes;
    // 0.
    uint64_t reserved;
} stillframe_drepl_plan_info;

// Bytes of a source.
typedef struct {
    const void *data;
    uint64_t bytes;
} stillframe_drepl_buffer;

// How an object is created or opened. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    const char *dir;
    // Whose directories and files are taken for good, as in stillframe_region_options.
    const char *trust;
    // Numbers of the names that the object's text leaves open, `binding_count` of them. For stillframe_object_create.
    const stillframe_drepl_binding *bindings;
    size_t binding_count;
    // The version that exists at once, and is zeros. For stillframe_object_create.
    uint64_t initial;
    // How long to wait for the object to be created, in milliseconds; 0: not at all. For stillframe_object_open.
    uint64_t wait_ms;
    // Length of the arena in which the fragments of all objects of the directory lie, in bytes: addresses, not memory. 0: 1 TiB.
    // An arena that is there stays what it is.
    uint64_t arena_bytes;
    // The most fragments that there can be at a time in the directory; 0: 65 536.
    uint32_t arena_fragments;
    // Access mode of what is made; 0: 0700. With 0750 the group may read, with 0770 it may also create and write.
    uint32_t mode;
    // Bits of stillframe_object_flag.
    uint32_t flags;
    // 0.
    uint32_t reserved[9];
} stillframe_object_options;

// What an object is. Texts live until the object is closed.
typedef struct {
    const char *name;
    // The text that it was created with.
    const char *text;
    // The version that exists at once, and is zeros.
    uint64_t initial;
    // 0.
    uint64_t reserved[4];
} stillframe_object_info;

// A fragment to write that is or was attached. Texts and bindings live until the visitor returns.
typedef struct {
    // Its number, which no other fragment of the object has or had.
    uint32_t number;
    // Its process.
    uint32_t pid;
    // 1 if it said its rank, else 0.
    uint32_t has_rank;
    // Its rank.
    uint32_t rank;
    // 1 if its process lives and has it attached, else 0.
    uint32_t alive;
    // 1 if it was detached, else 0.
    uint32_t has_left;
    // 1 if it has a version, else 0.
    uint32_t has_newest;
    // Versions of it that can be had.
    uint32_t version_count;
    // The first version that it writes.
    uint64_t from;
    // The first version that it does not write any more.
    uint64_t left;
    // Its newest version.
    uint64_t newest;
    // The text of the fragment.
    const char *text;
    // Numbers of the names that the text leaves open, binding_count of them.
    const stillframe_drepl_binding *bindings;
    size_t binding_count;
    // The region in which it lies, which observers open as any other.
    const char *region;
    // 0.
    uint64_t reserved[4];
} stillframe_writer;

// Gets a writer; false ends the walk. As stillframe_region_visitor.
typedef bool (*stillframe_writer_visitor)(void *context, const stillframe_writer *writer);

// How a fragment to write is attached. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Numbers of the names that the fragment's text leaves open, `binding_count` of them.
    const stillframe_drepl_binding *bindings;
    size_t binding_count;
    // With has_version, the version whose content the fragment has at first, and above which it publishes. Without, it is
    // the newest complete one: zeros before anything was published. Who had its elements until then does not matter: so a
    // program goes on with another number of processes.
    uint64_t version;
    // How long to wait for a living writer to detach elements that this fragment wants, and for that version, in milliseconds;
    // 0: 10 000.
    uint64_t wait_ms;
    // The most bytes that its versions may take; 0: no bound.
    uint64_t bound_bytes;
    // 1 if version is given, else 0.
    uint32_t has_version;
    // 1 if rank is given, else 0.
    uint32_t has_rank;
    // The rank in a parallel program, for messages to people.
    uint32_t rank;
    // How many writers there are, if they do not cover the object together: a version is complete when so many have published
    // it. 0: when all elements were.
    uint32_t writers;
    // How many of the newest versions stay in any case; 0: 1. What other writers have still to publish stays besides.
    uint32_t keep;
    // Bits of stillframe_attach_flag.
    uint32_t flags;
    // 0.
    uint64_t reserved[4];
} stillframe_attach_options;

// How a fragment to read is attached. A member that is 0 or NULL is the default; set all of it to 0 first.
typedef struct {
    // Numbers of the names that the fragment's text leaves open, `binding_count` of them.
    const stillframe_drepl_binding *bindings;
    size_t binding_count;
    // With has_version, the version that it shows at first, as after stillframe_fragment_reattach. Without, it is the initial one,
    // zeros.
    uint64_t version;
    // How long to wait for that version, in milliseconds; 0: not at all.
    uint64_t wait_ms;
    // 1 if version is given, else 0.
    uint32_t has_version;
    // Threads that copy, the calling one included; 0: as many as there are processors.
    uint32_t threads;
    // 1: while the program works with a version, the runtime of its node fetches the next from other nodes: that which is as far above it
    // as it is above the one before. For programs that read version after version. 0: each is fetched when it is asked for.
    uint32_t prefetch;
    // 0.
    uint32_t reserved[7];
} stillframe_attach_read_options;

// What a fragment is.
typedef struct {
    // Of one to write the newest version, or the one at which it was attached. Of one to read the version that it shows.
    uint64_t version;
    // Of one to read, when that version was published, by the last of its writers, in nanoseconds since 1970; 0 of the initial one.
    uint64_t published_ns;
    // Bytes of its memory.
    uint64_t bytes;
    // Variables of its text.
    uint32_t variable_count;
    // 1 if it was attached to write, 0 if to read.
    uint32_t writable;
    // Of one to write, its number, which no other fragment of the object has or had.
    uint32_t number;
    // Of one to read, 1 if it shows pages of a writer rather than a copy.
    uint32_t shown;
    // 0.
    uint64_t reserved[4];
} stillframe_fragment_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What this thread's last failed call had to say: what happened, where, and what to do next. "" if none failed.
//
// It stays as it is until the next call of this thread that fails; texts are cut at 2 KiB.
const char *stillframe_error_text(void);

// The name of a status without its prefix, such as "NOT_INCREASING"; "?" if it has none.
const char *stillframe_status_name(stillframe_status status);

// The version of this library, such as "0.1.0".
const char *stillframe_library_version(void);

// Makes an arena, or opens the one of this name that is there, for regions to be made in it: with the member arena of
// stillframe_region_options. Observers find a region of it by the name ARENA/REGION.
//
// name: as a region's. options: the member bytes has to be given. arena: the handle; NULL on errors.
//
// Errors: BAD_OPTION if it is there with another length or for another number of regions, or there cannot be such an arena;
// BAD_NAME; UNTRUSTED if somebody else made what is there; CORRUPT if that is damaged or of another format; NO_SPACE if there
// is no memory for its tables; ARENA_BUSY.
stillframe_status stillframe_arena_create(const char *name,
                                          const stillframe_arena_options *options,
                                          stillframe_arena **arena);

// Opens an arena that is there, for regions to be made in it, or with STILLFRAME_ARENA_LOOK to look only.
//
// options: NULL for all defaults. arena: the handle; NULL on errors.
//
// Errors: NO_ARENA if there is none, or it was never finished; those of stillframe_arena_create.
stillframe_status stillframe_arena_open(const char *name,
                                        const stillframe_arena_options *options,
                                        stillframe_arena **arena);

// Opens an arena over a file that was handed in as a descriptor, or makes one there if it is empty and can be written: a
// regular file or one in memory (memfd_create), also of large pages. Who can only read by the descriptor can only look.
// Observers of its regions and groups name the arena in the member arena of stillframe_observer_options: no name leads there.
//
// descriptor: is copied, and stays the program's. name: what messages and regions call the arena. options: the member bytes has
// to be given for an empty file. arena: the handle; NULL on errors.
//
// All locks are on the file itself, so whoever has a descriptor of it may keep producers out.
//
// Errors: BAD_ARGUMENT if there is no such descriptor; UNTRUSTED if it is no file; NO_ARENA if it is not finished and cannot be
// written; those of stillframe_arena_create.
stillframe_status stillframe_arena_from_descriptor(int descriptor,
                                                   const char *name,
                                                   const stillframe_arena_options *options,
                                                   stillframe_arena **arena);

// Ends the use of an arena by this handle. Its regions and their observers go on, and its files stay. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_arena_close(stillframe_arena *arena);

// Who has how much of an arena, in all.
//
// Errors: BAD_HANDLE; FORKED; CORRUPT.
stillframe_status stillframe_arena_usage_of(stillframe_arena *arena, stillframe_arena_usage *usage);

// Walks over the regions of an arena and what each has of it, by name.
//
// Errors: BAD_HANDLE; FORKED; CORRUPT.
stillframe_status stillframe_arena_regions(stillframe_arena *arena,
                                           stillframe_arena_region_visitor visitor,
                                           void *context);

// Makes a region, or takes over what a dead producer left under this name: managed and loaned variables that are declared
// with the same name, type, order and shape then have the content of its last version.
//
// name: as a file's name, or several with / between them. options: NULL for all defaults. region: the handle; NULL on errors.
//
// Errors: IN_USE if a producer of this name lives; BAD_NAME; BAD_OPTION; NO_TRACKER; CORRUPT if what was left cannot be
// taken over; ARENA_FULL and ARENA_BUSY in an arena; those of the environment.
stillframe_status stillframe_create(const char *name,
                                    const stillframe_region_options *options,
                                    stillframe_region **region);

// Makes a region with two options only: rank and ranks, as in stillframe_region_options, and that it begins anew
// (STILLFRAME_FRESH): what a run that was killed left is set aside as NAME~1, and said on standard error. For programs that
// want to say as little as possible.
//
// Returns the handle, or NULL, and then stillframe_error_text says why; calls with that NULL say it again.
stillframe_region *stillframe_begin(const char *name,
                                    uint32_t rank,
                                    uint32_t ranks);

// Ends the producer. The region's files stay: observers keep what they hold, and the next producer of the name goes on from
// the last version. Memory of managed variables and open loans goes, so pointers into it dangle; tracked arrays are the
// program's own and stay. NULL is nothing to do. A program that ends without this leaves the same behind.
//
// Errors: BAD_HANDLE; BUSY inside another call with it; FORKED in a child of fork, where nothing happens: the region goes on
// in the parent; NO_MAPPINGS if an open loan could not be ended: the region is closed, and its name in use until the process
// ends.
stillframe_status stillframe_close(stillframe_region *region);

// Ends the producer as stillframe_close does, and removes the region's files. Observers keep what they hold. NULL is nothing
// to do.
//
// Errors: as stillframe_close; those of the environment if a file cannot be removed, with the handle ended all the same.
stillframe_status stillframe_unlink(stillframe_region *region);

// The version that was taken over from a dead producer. found: whether there was one. version: its number, else 0; may be
// NULL.
//
// Errors: BAD_HANDLE.
stillframe_status stillframe_recovered(stillframe_region *region,
                                       bool *found,
                                       uint64_t *version);

// The newest version, a recovered one included. found: whether there is one. version: its number, else 0; may be NULL.
//
// Errors: BAD_HANDLE.
stillframe_status stillframe_newest_published(stillframe_region *region,
                                              bool *found,
                                              uint64_t *version);

// The name of the tracker in use. It stays for ever.
//
// Errors: BAD_HANDLE.
stillframe_status stillframe_tracker(stillframe_region *region, const char **name);

// What the region did since it was made.
//
// Errors: BAD_HANDLE.
stillframe_status stillframe_statistics_of(stillframe_region *region,
                                           stillframe_statistics *statistics);

// Sets an attribute of the next version, and of that one only.
//
// Errors: BAD_HANDLE; BAD_ARGUMENT.
stillframe_status stillframe_set_bool(stillframe_region *region, const char *name, bool value);

// Sets an attribute of the next version, and of that one only.
//
// Errors: as stillframe_set_bool.
stillframe_status stillframe_set_int(stillframe_region *region, const char *name, int64_t value);

// Sets an attribute of the next version, and of that one only.
//
// Errors: as stillframe_set_bool.
stillframe_status stillframe_set_float(stillframe_region *region, const char *name, double value);

// Sets an attribute of the next version, and of that one only. The text is copied.
//
// Errors: as stillframe_set_bool.
stillframe_status stillframe_set_text(stillframe_region *region,
                                      const char *name,
                                      const char *value);

// Adds a variable of any kind. variable: its number, which no other variable of the region has or had; may be NULL.
//
// Errors: BAD_NAME; VARIABLE_EXISTS; BAD_ARGUMENT if the type is none; WRONG_SHAPE; NO_SPACE and others of the environment.
stillframe_status stillframe_declare(stillframe_region *region,
                                     const stillframe_declaration *declaration,
                                     uint32_t *variable);

// Says where a tracked, row-major array is from now on; the first call of a name declares the variable. Each later publish
// shows what is there then, but one that is itself given another array (stillframe_publish_with). Call it again whenever the array
// has moved or changed its shape, and with NULL for data before it is freed: later versions then keep its last content. With an
// extent of 0 in shape it is an array without elements, whatever data is, and later versions have none.
//
// Errors: as stillframe_declare; WRONG_DTYPE if the type is not the variable's; WRONG_KIND.
stillframe_status stillframe_track(stillframe_region *region,
                                   const char *name,
                                   const char *dtype,
                                   uint32_t rank,
                                   const size_t *shape,
                                   const void *data);

// Says where the array of a declared tracked variable is from now on, as stillframe_track does, in any order.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND; WRONG_SHAPE; BAD_ARGUMENT.
stillframe_status stillframe_track_at(stillframe_region *region,
                                      uint32_t variable,
                                      uint32_t rank,
                                      const size_t *shape,
                                      stillframe_order order,
                                      const void *data);

// Says which elements of an array versions of a declared tracked variable show from now on: any that have a shape and a distance
// along each dimension. They are gathered at each publish; what lies between them is not copied. All memory from the first of
// their bytes to the last has to be there. See docs/concepts.md, "Less to copy". Call it again, or stillframe_track_at, as
// stillframe_track is called again.
//
// shape: rank numbers. strides: rank distances in bytes, which may be negative. dtype: the type that the elements have in memory,
// if they are rounded to the variable's: "float64" to "float32", "float16" or "bfloat16", "float32" to the last two,
// "complex128" to "complex64"; NULL if it is the variable's. order: in which order versions show them. data: the element of
// which all indices are the lowest; NULL as for stillframe_track.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND; WRONG_SHAPE; BAD_ARGUMENT. The publish fails with WRONG_SHAPE if elements cannot be
// rounded so, or if they leave the address space.
stillframe_status stillframe_track_section(stillframe_region *region,
                                           uint32_t variable,
                                           uint32_t rank,
                                           const size_t *shape,
                                           const ptrdiff_t *strides,
                                           const char *dtype,
                                           stillframe_order order,
                                           const void *data);

// Narrows what the next version takes of a tracked variable's array to some bytes, in whole pages of 4 KiB: all others stay
// as the newest version shows them, and what was written there is part of the first later version that takes them. Counts for
// one version, and until the array is said to be elsewhere. For programs that publish as msync does.
//
// before: the content of the whole array as it was, for pages that no version shows yet; NULL if there are none.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND; OUT_OF_RANGE, also if it has no array, or a section of one. The publish fails with WRONG_SHAPE if before is
// NULL and needed.
stillframe_status stillframe_track_part(stillframe_region *region,
                                        uint32_t variable,
                                        size_t offset,
                                        size_t bytes,
                                        const void *before);

// Adds a managed, row-major variable. data: its memory, on a page boundary, zero or as recovered; it stays until the
// variable is resized or removed or the region closed.
//
// Errors: as stillframe_declare.
stillframe_status stillframe_array(stillframe_region *region,
                                   const char *name,
                                   const char *dtype,
                                   uint32_t rank,
                                   const size_t *shape,
                                   void **data);

// The memory of a managed variable. bytes: its length; may be NULL.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND.
stillframe_status stillframe_data(stillframe_region *region,
                                  uint32_t variable,
                                  void **data,
                                  size_t *bytes);

// The number of the variable of this name.
//
// Errors: UNKNOWN_VARIABLE.
stillframe_status stillframe_find(stillframe_region *region, const char *name, uint32_t *variable);

// Gives a managed or loaned variable another shape. A managed one keeps its leading bytes and may move: pointers to its
// memory dangle. What it gets beyond its old bytes is zero, also where it had bytes before that it gave up. Of a loaned one
// versions show zeros until a loan of the new shape is submitted. data: where a managed variable is then, NULL for a loaned
// one; may be NULL.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND if it is tracked; WRONG_SHAPE; IS_PINNED if it is pinned and would have to
// move; those of the environment.
stillframe_status stillframe_resize(stillframe_region *region,
                                    uint32_t variable,
                                    uint32_t rank,
                                    const size_t *shape,
                                    void **data);

// Says that a variable is another part of its global array from the next version on, as after balancing the load, and gives
// it the shape of that part as stillframe_resize does: pointers to the memory of a managed one dangle, and moving its
// elements is left to the program. Of a tracked one say with stillframe_track where the array of that shape is: a publish
// refuses one that does not fit the part.
//
// offset, global_shape: rank numbers, as those of a declaration. data: as in stillframe_resize, and NULL for a tracked
// variable.
//
// Errors, after which nothing has changed: UNKNOWN_VARIABLE; WRONG_SHAPE if the shape does not fit the part; BAD_ARGUMENT;
// IS_PINNED as in stillframe_resize; those of the environment.
stillframe_status stillframe_repart(stillframe_region *region,
                                    uint32_t variable,
                                    uint32_t rank,
                                    const size_t *shape,
                                    const size_t *offset,
                                    const size_t *global_shape,
                                    void **data);

// Removes a variable from the versions to come; those that exist keep it. Pointers to the memory of a managed one dangle.
//
// Errors: UNKNOWN_VARIABLE.
stillframe_status stillframe_remove(stillframe_region *region,
                                    const char *name);

// Removes a managed variable as stillframe_remove does, but leaves its memory to the program, beyond the region's end too,
// until stillframe_kept_free. For allocators, which may not move what they gave out.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND; those of the environment.
stillframe_status stillframe_remove_keeping(stillframe_region *region,
                                            uint32_t variable,
                                            stillframe_kept **kept);

// Gives up memory that stillframe_remove_keeping left. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_kept_free(stillframe_kept *kept);

// Pins a managed variable: its memory stays where it is, in the same pages, until stillframe_unpin or its end. Call it before
// a device is told of the memory (ibv_reg_mr, cudaHostRegister, MPI_Win_create, fixed buffers of io_uring) and before the
// memory is advised, locked or bound (madvise, mlock, mbind): otherwise Stillframe exchanges pages, so that what is cold
// exists once, and the device goes on with those that are gone. What a device writes has to be told with
// stillframe_mark_dirty.
//
// Until then the memory exists in full beside the versions, and stillframe_resize works within the whole windows of 2 MiB
// that the variable has. Parts that were shared are copied by this call and by the next publish; the tracker "private_cow"
// compares a pinned variable. The kernel may still move or swap pages that no device has registered: this is not mlock.
// Memory of a tracked variable is never exchanged, and pinning it says nothing new.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND if it is loaned; those of the environment, after which it is not pinned.
stillframe_status stillframe_pin(stillframe_region *region,
                                 uint32_t variable);

// Ends what stillframe_pin began. Devices have to be told to forget the memory first.
//
// Errors: UNKNOWN_VARIABLE.
stillframe_status stillframe_unpin(stillframe_region *region, uint32_t variable);

// Declares bytes of a variable written that were written where the kernel does not see it, as by a network card or a GPU.
// For a tracked variable the range is in the memory of its last publish. A managed one has to be pinned before a device is
// told of its memory, see stillframe_pin.
//
// Errors: UNKNOWN_VARIABLE; OUT_OF_RANGE.
stillframe_status stillframe_mark_dirty(stillframe_region *region,
                                        uint32_t variable,
                                        size_t offset,
                                        size_t bytes);

// Publishes a version: observers see all variables as they are now. Pages that were not written since the last publish are
// not copied. On return all variables may be written again.
//
// version: above that of the last publish. published: what was done; may be NULL.
//
// Errors, after which nothing was published, what was written is part of the next publish, and attributes that were set
// are kept for it: NOT_INCREASING; BAD_OPTION of UINT64_MAX; LIMIT if no reader would accept so much; NO_MEMORY_THERE if a
// tracked array was freed; BOUND, NO_SPACE, NO_SLOT or ARENA_FULL if there is no room by the region's rule; FORKED; BUSY.
stillframe_status stillframe_publish(stillframe_region *region,
                                     uint64_t version,
                                     stillframe_published *published);

// Publishes a version as stillframe_publish does, with arrays that are given for it alone: it shows each of them as its
// variable, and nobody looks there after the call, whatever comes of it. Where stillframe_track said that an array of such a
// variable is, this version does not look, and later ones do again, each unless it is given another one itself. A variable
// that is not tracked so keeps the content that it was given.
//
// given: given_count arrays or sections of arrays, each of another tracked variable.
//
// Errors: as stillframe_publish; UNKNOWN_VARIABLE; WRONG_KIND; WRONG_SHAPE, also if a variable is given two arrays, if
// elements cannot be rounded as it is said, or if they leave the address space; BAD_ARGUMENT.
stillframe_status stillframe_publish_with(stillframe_region *region,
                                          uint64_t version,
                                          const stillframe_given *given,
                                          uint32_t given_count,
                                          stillframe_published *published);

// Starts a publish and returns when it is known which pages have to be copied. Threads copy them on processors that are free,
// and stillframe_publish_finish what they did not get to. Observers see the version when it is finished: by
// stillframe_publish_finish or stillframe_publish_test, by the next publish, or by what changes variables (declaring, resizing,
// removing, pinning and lending them, and closing the region). As with nonblocking sends of MPI the variables may be read until
// then and not be written, and arrays that are tracked or given stay where they are. Where one is written all the same, the
// version is a mixture of before and after, and nothing else breaks; with STILLFRAME_CHECK=1 in the environment the publish fails
// when it is finished, and names variable and page. A program that ends before has not published.
//
// version, given, given_count: as for stillframe_publish_with. flags: 0, or STILLFRAME_PUBLISH_GUARD. Attributes that were
// set are the version's.
//
// Errors: as stillframe_publish_with, and those of a publish before that was not finished; nothing is started then.
stillframe_status stillframe_publish_start(stillframe_region *region,
                                           uint64_t version,
                                           const stillframe_given *given,
                                           uint32_t given_count,
                                           uint32_t flags);

// Finishes the publish that was started: waits for what threads are just copying, copies the rest, and makes the version
// visible. On return all variables may be written again.
//
// published: what the publish did, also if something else has finished it; may be NULL. found: whether one was started that was
// not told of yet; may be NULL.
//
// Errors, after which nothing was published, and what was written is part of the next publish: as stillframe_publish, and
// WRITTEN; CHILD_GONE if it was guarded; BAD_HANDLE; FORKED; BUSY.
stillframe_status stillframe_publish_finish(stillframe_region *region,
                                            stillframe_published *published,
                                            bool *found);

// Finishes the publish that was started if nothing is left to be copied and there is room, so that there is nothing to wait for.
//
// done: whether none is left to be finished.
//
// Errors: as stillframe_publish_finish.
stillframe_status stillframe_publish_test(stillframe_region *region,
                                          bool *done);

// Lends memory for the next version of a loaned variable, so that nothing has to be copied. What it holds at first is
// unspecified: write all of it.
//
// loan: the handle, to be ended by stillframe_loan_submit or stillframe_loan_discard. data, bytes: the memory, on a page
// boundary.
//
// Errors: BAD_HANDLE; UNKNOWN_VARIABLE; WRONG_KIND; BOUND, NO_SPACE or NO_SLOT if there is no room by the region's rule.
stillframe_status stillframe_loan_begin(stillframe_region *region,
                                        uint32_t variable,
                                        stillframe_loan **loan,
                                        void **data,
                                        size_t *bytes);

// Hands the memory to the next publish and ends the handle. The memory must not be written from then on: versions show it.
//
// Errors: BAD_HANDLE, also if the region was closed meanwhile, which ends the handle too; FORKED.
stillframe_status stillframe_loan_submit(stillframe_loan *loan);

// Gives the memory back, so that the next version shows what the last one did, and ends the handle. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_loan_discard(stillframe_loan *loan);

// Opens an observer on a region.
//
// options: NULL for all defaults. observer: the handle; NULL on errors.
//
// Errors: NO_REGION, or with a wait TIMEOUT; IS_GROUP if the name is a group's; DENIED if it is another user's; BAD_OPTION;
// CORRUPT; where the name begins with a broker's address, as in "unix:/run/sock#plate", NO_BROKER and BROKER.
stillframe_status stillframe_open(const char *name,
                                  const stillframe_observer_options *options,
                                  stillframe_observer **observer);

// Ends an observer. Its snapshots stay. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_observer_close(stillframe_observer *observer);

// Whether the region has a living producer.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_producer_alive(stillframe_observer *observer, bool *alive);

// Holds the newest version. snapshot: the handle, to be ended by stillframe_release; NULL on errors.
//
// Errors: NO_VERSION if nothing was published yet; CORRUPT; those of the environment.
stillframe_status stillframe_newest(stillframe_observer *observer,
                                    stillframe_snapshot **snapshot);

// Holds a given version.
//
// Errors: VERSION_GONE if it is not, or no longer, there; else as stillframe_newest.
stillframe_status stillframe_version(stillframe_observer *observer,
                                     uint64_t version,
                                     stillframe_snapshot **snapshot);

// Holds the smallest version above after, waiting for it at most timeout_ms milliseconds. after below 0: any version.
// timeout_ms below 0: for ever, or until the producer ends.
//
// Errors: TIMEOUT; PRODUCER_GONE if nobody will publish it; else as stillframe_newest.
stillframe_status stillframe_next_after(stillframe_observer *observer,
                                        int64_t after,
                                        int64_t timeout_ms,
                                        stillframe_snapshot **snapshot);

// Holds the newest version above after, skipping those in between; waits as stillframe_next_after does.
//
// Errors: as stillframe_next_after.
stillframe_status stillframe_newest_after(stillframe_observer *observer,
                                          int64_t after,
                                          int64_t timeout_ms,
                                          stillframe_snapshot **snapshot);

// Waits, as stillframe_next_after does, until the newest version is above after, without holding it. version: its number.
//
// Errors: as stillframe_next_after.
stillframe_status stillframe_wait_newer(stillframe_observer *observer,
                                        int64_t after,
                                        int64_t timeout_ms,
                                        uint64_t *version);

// The versions that exist, ascending. out: filled with the first capacity of them; NULL if capacity is 0. count: all that
// there are.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_versions(stillframe_observer *observer,
                                      stillframe_version_info *out,
                                      size_t capacity,
                                      size_t *count);

// Ends a hold. All pointers that came from the snapshot dangle. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_release(stillframe_snapshot *snapshot);

// What a snapshot is of.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_describe(stillframe_snapshot *snapshot,
                                      stillframe_snapshot_info *info);

// The variable of this index, in the order of their declaration.
//
// Errors: BAD_ARGUMENT if there are not so many; BAD_HANDLE; FORKED.
stillframe_status stillframe_variable_at(stillframe_snapshot *snapshot,
                                         size_t index,
                                         stillframe_variable *variable);

// The variable of this name.
//
// Errors: UNKNOWN_VARIABLE; BAD_HANDLE; FORKED.
stillframe_status stillframe_variable_named(stillframe_snapshot *snapshot,
                                            const char *name,
                                            stillframe_variable *variable);

// The attribute of this index, in the order of their names. variable: whose it is; NULL: the version's. Texts live as long
// as the snapshot.
//
// Errors: BAD_ARGUMENT if there are not so many; UNKNOWN_VARIABLE; BAD_HANDLE; FORKED.
stillframe_status stillframe_attribute_at(stillframe_snapshot *snapshot,
                                          const char *variable,
                                          size_t index,
                                          stillframe_attribute *attribute);

// The attribute of this name, else as stillframe_attribute_at.
//
// Errors: UNKNOWN_ATTRIBUTE; UNKNOWN_VARIABLE; BAD_HANDLE; FORKED.
stillframe_status stillframe_attribute_named(stillframe_snapshot *snapshot,
                                             const char *variable,
                                             const char *name,
                                             stillframe_attribute *attribute);

// All bytes of a variable at neighbouring addresses, read-only: writing there is a signal. They stay until the snapshot is
// released. The first call for a variable maps it if its pages lie in several pieces; nothing is copied unless there are
// very many.
//
// data: never NULL, also if there are no bytes. bytes: may be NULL.
//
// Errors: UNKNOWN_VARIABLE; NO_MAPPINGS if it cannot be mapped; CORRUPT; BAD_HANDLE; FORKED.
stillframe_status stillframe_view(stillframe_snapshot *snapshot,
                                  const char *variable,
                                  const void **data,
                                  size_t *bytes);

// Copies bytes of a variable, from offset on. They are read from the files: if somebody cut those short, that is CORRUPT here,
// where memory of stillframe_view and stillframe_chunks would end the process by SIGBUS.
//
// Errors: UNKNOWN_VARIABLE; OUT_OF_RANGE; CORRUPT; BAD_HANDLE; FORKED.
stillframe_status stillframe_read(stillframe_snapshot *snapshot,
                                  const char *variable,
                                  size_t offset,
                                  void *out,
                                  size_t bytes);

// Walks over a range of a variable's bytes in pieces as they lie in memory, ascending, without mapping anything for this
// version. Pieces stay where they are until the snapshot is released.
//
// visitor: called with context for each piece, with its offset in the variable.
//
// Errors: UNKNOWN_VARIABLE; OUT_OF_RANGE; CORRUPT; BAD_HANDLE; FORKED.
stillframe_status stillframe_chunks(stillframe_snapshot *snapshot,
                                    const char *variable,
                                    size_t offset,
                                    size_t bytes,
                                    stillframe_chunk_visitor visitor,
                                    void *context);

// Walks over the ranges of a variable's bytes, ascending and apart, that may differ from an older snapshot of the same
// region. It is everything if the variable moved, was resized, or was not there.
//
// Errors: UNKNOWN_VARIABLE; DIFFERENT_REGIONS; BAD_HANDLE; FORKED.
stillframe_status stillframe_changed(stillframe_snapshot *snapshot,
                                     stillframe_snapshot *older,
                                     const char *variable,
                                     stillframe_range_visitor visitor,
                                     void *context);

// Ends the hold of a snapshot for that of a later version, and brings what was viewed of it along: stillframe_view of next
// then makes its memory from what was there, by what stillframe_changed lists, where that is cheaper than to map next anew.
// That takes memory of this process, as much as the variable has, which is copied once; from then on the work of each version is
// proportional to what changed. snapshot is released, and all pointers that came from it dangle.
//
// Errors, after which nothing has changed: DIFFERENT_REGIONS; BAD_ARGUMENT if both are the same; BAD_HANDLE; FORKED.
stillframe_status stillframe_advance(stillframe_snapshot *snapshot,
                                     stillframe_snapshot *next);

// Opens a group, the regions that ranks made with the members rank and ranks of stillframe_region_options.
//
// options: NULL for all defaults; wait_ms is how long to wait for all ranks to begin and to have a version in common. group:
// the handle; NULL on errors.
//
// Errors: NO_REGION if no rank has begun, or with a wait TIMEOUT; NOT_GROUP if the name is a region's; DENIED; CORRUPT.
stillframe_status stillframe_group_open(const char *name,
                                        const stillframe_observer_options *options,
                                        stillframe_group **group);

// Ends a look at a group. Its snapshots stay. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_group_close(stillframe_group *group);

// Number of ranks.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_group_size(stillframe_group *group, uint32_t *ranks);

// Whether any rank has a living producer.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_group_alive(stillframe_group *group, bool *alive);

// The versions that all ranks have, ascending. out: filled with the first capacity of their numbers; NULL if capacity is 0.
// count: all that there are.
//
// Errors: BAD_HANDLE; FORKED; CORRUPT; DENIED.
stillframe_status stillframe_group_versions(stillframe_group *group,
                                            uint64_t *out,
                                            size_t capacity,
                                            size_t *count);

// Holds the newest version that all ranks have, on all of them.
//
// snapshots: one for each rank, in order, to be released each on its own; NULL on errors. capacity: room there, at least
// the number of ranks.
//
// Errors: RANK_MISSING if a rank has not begun or has no version yet; NO_COMMON_VERSION; BAD_ARGUMENT if there is no room;
// CORRUPT; those of the environment.
stillframe_status stillframe_group_newest(stillframe_group *group,
                                          stillframe_snapshot **snapshots,
                                          uint32_t capacity);

// Holds a given version of all ranks.
//
// Errors: VERSION_GONE, naming a rank that does not, or no longer, have it; else as stillframe_group_newest.
stillframe_status stillframe_group_version(stillframe_group *group,
                                           uint64_t version,
                                           stillframe_snapshot **snapshots,
                                           uint32_t capacity);

// Holds the smallest version above after that all ranks have, waiting for it at most timeout_ms milliseconds. after below 0:
// any version. timeout_ms below 0: for ever, or until it cannot come.
//
// Errors: TIMEOUT, naming the slowest rank; RANK_GONE if a rank that is gone would have to publish it; PRODUCER_GONE if
// all ranks ended with the same version; else as stillframe_group_newest.
stillframe_status stillframe_group_next_after(stillframe_group *group,
                                              int64_t after,
                                              int64_t timeout_ms,
                                              stillframe_snapshot **snapshots,
                                              uint32_t capacity);

// Holds the newest version above after that all ranks have, skipping those in between; waits as
// stillframe_group_next_after does.
//
// Errors: as stillframe_group_next_after.
stillframe_status stillframe_group_newest_after(stillframe_group *group,
                                                int64_t after,
                                                int64_t timeout_ms,
                                                stillframe_snapshot **snapshots,
                                                uint32_t capacity);

// Waits, as stillframe_group_next_after does, until all ranks have a version above after, without holding it. version: the
// newest such; may be NULL.
//
// Errors: as stillframe_group_next_after.
stillframe_status stillframe_group_wait_newer(stillframe_group *group,
                                              int64_t after,
                                              int64_t timeout_ms,
                                              uint64_t *version);

// How each rank is doing. out: filled with the first capacity of them; NULL if capacity is 0. count: the number of ranks.
//
// Errors: BAD_HANDLE; FORKED; CORRUPT; DENIED.
stillframe_status stillframe_group_ranks(stillframe_group *group,
                                         stillframe_rank *out,
                                         uint32_t capacity,
                                         uint32_t *count);

// Walks over the regions of a directory, by name. dir: NULL for the default. A directory that is not there has no regions.
//
// Errors: those of the environment if the directory cannot be read.
stillframe_status stillframe_list(const char *dir,
                                  stillframe_region_visitor visitor,
                                  void *context);

// Removes the files of a region, or of all ranks of a group. Observers keep what they hold. force: also if its producer lives, who then goes on into
// files that nobody can open. freed_bytes: memory given back, less what observers still hold; may be NULL.
//
// Errors: NO_REGION; IN_USE while the producer lives, without force; those of the environment.
stillframe_status stillframe_remove_region(const char *dir,
                                           const char *name,
                                           bool force,
                                           uint64_t *freed_bytes);

// Removes the regions of a directory whose producers are gone and that nobody holds. removed: how many; may be NULL.
//
// Errors: those of the environment if the directory cannot be read. Regions that cannot be removed stay and are not counted.
stillframe_status stillframe_collect(const char *dir,
                                     uint32_t *removed);

// Walks over those who hold versions of a region, each process once, longest first, and then other enclaves. dir: NULL for the default.
//
// Errors: NO_REGION; DENIED; CORRUPT; others of the environment.
stillframe_status stillframe_holders(const char *dir,
                                     const char *name,
                                     stillframe_holder_visitor visitor,
                                     void *context);

// Looks for damage: reads all that describes the versions of a region, and walks over what it finds, each as a line that
// names file, offset, what was expected and what was found. No line means that all is sound. dir: NULL for the default.
//
// Errors: NO_REGION; DENIED; others of the environment.
stillframe_status stillframe_verify(const char *dir,
                                    const char *name,
                                    stillframe_line_visitor visitor,
                                    void *context);

// Walks over what this machine and its limits allow, a line each: which trackers work and why others do not, and whatever
// else matters, with what to change. dir: where regions are to be; NULL for the default.
//
// Errors: BAD_ARGUMENT.
stillframe_status stillframe_diagnose(const char *dir,
                                      stillframe_line_visitor visitor,
                                      void *context);

// Makes a region and says what it begins with: what the last run left in memory, or if that is gone or older its newest good
// checkpoint, else nothing. Managed and loaned variables that are declared with the same name, type, order, shape and part
// then have their content; into tracked arrays stillframe_read_recovered reads it. The ranks of a group all begin with the
// same version.
//
// name: as in stillframe_create. options: NULL for all defaults. region: the handle; NULL on errors. origin: what it begins
// with; may be NULL.
//
// Errors: as stillframe_create; NO_SUCH_VERSION if the version that was asked for is nowhere; NO_CHECKPOINT if there are
// checkpoints and none of them is good.
stillframe_status stillframe_recover(const char *name,
                                     const stillframe_recovery_options *options,
                                     stillframe_region **region,
                                     stillframe_origin *origin);

// An attribute of the version that was recovered. Its texts live as long as the region's handle.
//
// Errors: UNKNOWN_ATTRIBUTE; BAD_ARGUMENT if the region is not from stillframe_recover; BAD_HANDLE; FORKED.
stillframe_status stillframe_recovered_attribute(stillframe_region *region,
                                                 const char *name,
                                                 stillframe_attribute *attribute);

// Walks over the variables of the version that was recovered, by name, before the first publish: of a group over all that any
// of its ranks had. In a first run there are none.
//
// Errors: BAD_ARGUMENT if the region is not from stillframe_recover, or has published; WRONG_SHAPE if a variable has more
// dimensions than STILLFRAME_RANK_MAX; BAD_HANDLE; FORKED; those of reading checkpoints.
stillframe_status stillframe_recovered_variables(stillframe_region *region,
                                                 stillframe_recovered_variable_visitor visitor,
                                                 void *context);

// Reads a box of the recovered version into memory of the program, before the first publish: of the global array if the ranks
// that published it said which parts they had, however many ranks those were, else of the variable as it is.
//
// variable: its name. dtype: its type. rank, offset, shape: the box; offset is as many numbers as shape, and NULL is that of
// the part with which the variable was declared in this region, or without one all of the variable, of this shape. order: that
// of the elements in data, whichever they were published in. data: room for the box.
//
// Errors: UNKNOWN_VARIABLE; WRONG_DTYPE; WRONG_SHAPE if the box is not in what was published, or is not all of it and has no
// offset; UNCOVERED if some of it nobody has; PER_RANK if it is no part, differs between ranks, and their number is another
// one; NOTHING_RECOVERED; DAMAGED and others of checkpoints, after which data may be written in part; BAD_ARGUMENT if the region
// is not from stillframe_recover, or has published.
stillframe_status stillframe_read_recovered(stillframe_region *region,
                                            const char *variable,
                                            const char *dtype,
                                            uint32_t rank,
                                            const size_t *offset,
                                            const size_t *shape,
                                            stillframe_order order,
                                            void *data);

// Fills a managed variable with its part of the global array as it was recovered, however many ranks had published it, before
// the first publish. A variable that is no part, or whose region began with nothing, stays as it is.
//
// Errors: UNKNOWN_VARIABLE; WRONG_KIND if it is not managed; else as stillframe_read_recovered, but that beginning with
// nothing is none.
stillframe_status stillframe_fill(stillframe_region *region,
                                  uint32_t variable);

// Begins to save versions of a region or group into a directory, in threads of this process. Each checkpoint is a directory
// that other tools open, and all of it is on disk before it has its name.
//
// name: the region or group. to: the directory, made if it is not there; this checkpointer's alone until it ends. options:
// NULL for all defaults. checkpointer: the handle; NULL on errors.
//
// Errors: NO_REGION, without wait_ms; LOCKED if somebody else writes into the directory; READ_ONLY; UNTRUSTED; OTHER_REGION;
// BAD_OPTION; EXPRESSION, which marks the place.
stillframe_status stillframe_checkpoint_start(const char *name,
                                              const char *to,
                                              const stillframe_checkpoint_options *options,
                                              stillframe_checkpointer **checkpointer);

// What a checkpointer has done, and is doing.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_checkpoint_status(stillframe_checkpointer *checkpointer,
                                               stillframe_checkpoint_info *info);

// Waits until a version is safe, at most timeout_ms milliseconds, or until the checkpointer has ended without it. safe:
// whether it is, or was until newer ones took its place.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_checkpoint_wait_safe(stillframe_checkpointer *checkpointer,
                                                  uint64_t version,
                                                  uint64_t timeout_ms,
                                                  bool *safe);

// Waits until that version or a newer one is safe, as stillframe_checkpoint_wait_safe does: what was done up to it need not be
// done again then. found: whether there is one. safe: its number, else 0; may be NULL.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_checkpoint_wait_safe_from(stillframe_checkpointer *checkpointer,
                                                       uint64_t version,
                                                       uint64_t timeout_ms,
                                                       bool *found,
                                                       uint64_t *safe);

// Takes no more versions, but with STILLFRAME_CHECKPOINT_AT_END the newest, waits until those that are held are safe, and
// ends the handle. info: what it did, its member error always ""; may be NULL. NULL for the handle is nothing to do.
//
// Errors: what ended it, if that was an error; what became of single versions stillframe_checkpoint_status tells.
stillframe_status stillframe_checkpoint_stop(stillframe_checkpointer *checkpointer,
                                             stillframe_checkpoint_info *info);

// Whether a version is safe in a directory of checkpoints: it is there, whole, on disk, and can be recovered. For any
// process, whether a checkpointer runs or not.
//
// Errors: those of the environment if the directory cannot be read. In one that is not there nothing is safe.
stillframe_status stillframe_is_safe(const char *dir,
                                     uint64_t version,
                                     bool *safe);

// The newest version that is safe in a directory. found: whether there is one. version: its number, else 0; may be NULL.
//
// Errors: as stillframe_is_safe.
stillframe_status stillframe_newest_safe(const char *dir,
                                         bool *found,
                                         uint64_t *version);

// Waits until a version is safe in a directory, at most timeout_ms milliseconds. safe: whether it is. A version that the
// checkpointer leaves out never is: stillframe_wait_safe_from takes a newer one, too.
//
// Errors: as stillframe_is_safe.
stillframe_status stillframe_wait_safe(const char *dir,
                                       uint64_t version,
                                       uint64_t timeout_ms,
                                       bool *safe);

// Waits until that version or a newer one is safe in a directory, at most timeout_ms milliseconds: what was done up to it need
// not be done again then. found: whether there is one. safe: its number, else 0; may be NULL.
//
// Errors: as stillframe_is_safe.
stillframe_status stillframe_wait_safe_from(const char *dir,
                                            uint64_t version,
                                            uint64_t timeout_ms,
                                            bool *found,
                                            uint64_t *safe);

// Reads a text of the layout language (docs/drepl-language.md), such as "var grid [length,height] float64". It can include
// no file.
//
// bindings: the numbers of names that it does not declare, `count` of them; NULL if there are none. schema: the handle; NULL
// on errors.
//
// Errors: DREPL_TEXT, whose error text shows each mistake with its line and column.
stillframe_status stillframe_drepl_parse(const char *text,
                                         const stillframe_drepl_binding *bindings,
                                         size_t count,
                                         stillframe_drepl_schema **schema);

// Reads a file of the layout language, as stillframe_drepl_parse reads a text. It can include files of its own folder and
// of folders therein.
//
// Errors: DREPL_TEXT, also for a file that cannot be read.
stillframe_status stillframe_drepl_load(const char *path,
                                        const stillframe_drepl_binding *bindings,
                                        size_t count,
                                        stillframe_drepl_schema **schema);

// Gives up a schema. Its fragments stay. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_drepl_schema_free(stillframe_drepl_schema *schema);

// The fragment of a view, or of a replica, that the text declares under this name.
//
// Errors: DREPL_UNKNOWN_VIEW.
stillframe_status stillframe_drepl_find(stillframe_drepl_schema *schema,
                                        const char *name,
                                        stillframe_drepl_fragment **fragment);

// One more fragment of a schema's objects, from a text of its own: "{ var g[x:16,y:32] = grid[x+xmin,y+ymin] }". It may use
// the schema's constants, types and bindings; these bindings come on top of them.
//
// Errors: DREPL_TEXT.
stillframe_status stillframe_drepl_describe(stillframe_drepl_schema *schema,
                                            const char *text,
                                            const stillframe_drepl_binding *bindings,
                                            size_t count,
                                            stillframe_drepl_fragment **fragment);

// The bytes that a buffer of a fragment has.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_drepl_bytes(stillframe_drepl_fragment *fragment, uint64_t *bytes);

// Makes a buffer of a fragment begin, whose length is at least the fragment's: with zeros, and in holes with what the text says by
// `fill`. Moves write elements alone, so that holes keep it.
//
// Errors: BAD_HANDLE; BAD_ARGUMENT if the buffer is shorter; FORKED.
stillframe_status stillframe_drepl_clear(stillframe_drepl_fragment *fragment,
                                         void *buffer,
                                         uint64_t bytes);

// Gives up a fragment; plans that were made with it stay. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_drepl_fragment_free(stillframe_drepl_fragment *fragment);

// Plans how to make a fragment from sources of the same objects: of one schema, or of equal texts. Nothing is moved.
//
// version_min, version_max: which versions will do; 0 and UINT64_MAX: any. plan: the handle; NULL on errors. What no source
// has is no error: see stillframe_drepl_explain.
//
// Errors: DREPL_DATASETS if a source has other objects; DREPL_UNPLANNABLE.
stillframe_status stillframe_drepl_make_plan(stillframe_drepl_fragment *wanted,
                                             const stillframe_drepl_source *sources,
                                             size_t count,
                                             uint64_t version_min,
                                             uint64_t version_max,
                                             stillframe_drepl_plan **plan);

// Plans what a write to one buffer means for another that holds some of the same elements, to keep the two equal: those whose
// bytes were written go into the other's buffer. Nothing is moved.
//
// written: the fragment that was written to. begin, end: the bytes of its buffer that were; 0 and UINT64_MAX: all. other:
// what has to follow. plan: the handle, of a plan with one source, the buffer that was written; NULL on errors. Where the two
// have none of these elements in common, it moves nothing.
//
// Errors: DREPL_DATASETS if they have other objects; DREPL_UNPLANNABLE, also if what was written holds an element twice.
stillframe_status stillframe_drepl_make_update(stillframe_drepl_fragment *written,
                                               uint64_t begin,
                                               uint64_t end,
                                               stillframe_drepl_fragment *other,
                                               stillframe_drepl_plan **plan);

// What a plan is about. text: room for text_bytes bytes, where as much as fits is put of which source gives which elements
// and which are missing, one per line, ended by a zero; NULL if nobody wants it. info: may be NULL; it says how much room
// all of the text takes.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_drepl_explain(stillframe_drepl_plan *plan,
                                           stillframe_drepl_plan_info *info,
                                           char *text,
                                           size_t text_bytes);

// Gives up a plan. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_drepl_plan_free(stillframe_drepl_plan *plan);

// Moves the bytes of a plan. Bytes of the destination that belong to no element that a source has stay as they are.
//
// buffers: those of the sources that the plan was made with, in their order and as many. destination: the buffer of the
// wanted fragment, of `bytes` bytes; it overlaps no source. threads: 0: as many as there are processors. partial: false
// refuses a plan that leaves elements missing. Other processes may write the sources meanwhile; what they write arrives in
// part, or not.
//
// Errors: DREPL_MISSING; DREPL_LENGTH if a buffer is too short; BAD_ARGUMENT. After any of them nothing was moved.
stillframe_status stillframe_drepl_execute(stillframe_drepl_plan *plan,
                                           const stillframe_drepl_buffer *buffers,
                                           size_t count,
                                           void *destination,
                                           uint64_t bytes,
                                           uint32_t threads,
                                           bool partial);

// Creates an object, or finds the one of this name that is there and the same. When it returns, everybody finds it.
//
// name: as a region's. text: its variables, in the layout language (docs/drepl-language.md): "var grid [length,height] float64".
// options: NULL for all defaults. object: the handle; NULL on errors.
//
// Errors: OBJECT_OTHER_TEXT if there is one with another text, bindings or initial version; DREPL_TEXT, whose error text shows
// all mistakes; BAD_NAME; UNTRUSTED if somebody else made what is there; NO_SPACE; others of the environment.
stillframe_status stillframe_object_create(const char *name,
                                           const char *text,
                                           const stillframe_object_options *options,
                                           stillframe_object **object);

// Opens an object that is there, or with the option wait_ms one that comes.
//
// options: NULL for all defaults. object: the handle; NULL on errors.
//
// Errors: NO_OBJECT, or with a wait TIMEOUT; UNTRUSTED; those of the environment.
stillframe_status stillframe_object_open(const char *name,
                                         const stillframe_object_options *options,
                                         stillframe_object **object);

// Ends the use of an object by this handle. Its fragments go on. NULL is nothing to do.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_object_close(stillframe_object *object);

// What an object is.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_object_describe(stillframe_object *object,
                                             stillframe_object_info *info);

// The newest complete version: one that all writers published. The initial version is complete from the beginning.
//
// Errors: BAD_HANDLE; FORKED; OBJECT_REMOVED; CORRUPT; those of the environment.
stillframe_status stillframe_object_newest(stillframe_object *object,
                                           uint64_t *version);

// The complete versions that can be had, ascending, without the initial one. out: filled with the first capacity of them; NULL
// if capacity is 0. count: all that there are.
//
// Errors: as stillframe_object_newest.
stillframe_status stillframe_object_versions(stillframe_object *object,
                                             uint64_t *out,
                                             size_t capacity,
                                             size_t *count);

// Waits for a complete version above after, at most timeout_ms milliseconds; below 0: for ever. version: the newest; may be
// NULL.
//
// Errors: TIMEOUT, whose text says whom was waited for; OBJECT_ENDED if all writers have left; OBJECT_LOST if those that it needs
// died; else as stillframe_object_newest.
stillframe_status stillframe_object_wait_newer(stillframe_object *object,
                                               uint64_t after,
                                               int64_t timeout_ms,
                                               uint64_t *version);

// Waits until a version is complete, at most timeout_ms milliseconds; below 0: for ever.
//
// Errors: TIMEOUT, whose text says whom was waited for; OBJECT_LOST if elements of it cannot be had, or not any more; else as
// stillframe_object_newest.
stillframe_status stillframe_object_wait_for(stillframe_object *object,
                                             uint64_t version,
                                             int64_t timeout_ms);

// Walks over the fragments to write that are or were attached, in the order in which they were attached. Those of which no
// complete version needs anything are forgotten in time.
//
// Errors: as stillframe_object_newest.
stillframe_status stillframe_object_writers(stillframe_object *object,
                                            stillframe_writer_visitor visitor,
                                            void *context);

// Walks over the names of the objects of a directory, sorted. dir: NULL for the default. A directory that is not there has none.
//
// Errors: UNTRUSTED; those of the environment if the directory cannot be read.
stillframe_status stillframe_object_list(const char *dir,
                                         stillframe_line_visitor visitor,
                                         void *context);

// Removes an object with all that was published of it. Who reads a version keeps it until he lets go. dir: NULL for the default.
// force: also while a writer lives, who then goes on into files that nobody can open.
//
// Errors: NO_OBJECT; without force, IN_USE while a writer lives, and TIMEOUT where it is not known for 30 s whether one does on
// another node; those of the environment.
stillframe_status stillframe_object_remove(const char *dir,
                                           const char *name,
                                           bool force);

// Attaches a fragment to write. From then on it is waited for in all versions above the one that it begins with.
//
// text: which elements it has and how they lie, in the layout language: "{ var g [x:16,y:32] = grid[x+xmin,y+ymin] }", or any view
// with its attributes, as "view g columnmajor { … }", or the name of a view that the object's text declares. options: NULL for all
// defaults. fragment: the handle, to be ended by stillframe_fragment_detach; NULL on errors. data: its memory, on a page boundary,
// which stays there until it is detached, but for a loaned one; may be NULL.
//
// Errors: OBJECT_OVERLAP, whose text names both fragments, if another one that does not go has some of the elements; DREPL_TEXT with
// all mistakes; OBJECT_NOT_WRITABLE; OBJECT_REFUSED if a newer version is complete already; with has_version TIMEOUT and OBJECT_LOST;
// OBJECT_REMOVED if somebody removed the object; BAD_HANDLE; FORKED; ARENA_FULL and others of the environment.
stillframe_status stillframe_object_attach(stillframe_object *object,
                                           const char *text,
                                           const stillframe_attach_options *options,
                                           stillframe_fragment **fragment,
                                           void **data);

// Attaches a fragment to read. What lies beyond the rim of the object is zero in a view that says clipped, or what it says by fill.
//
// text: which elements it has and how they lie, as for stillframe_object_attach. options: NULL for all defaults: the fragment shows
// the initial version, which is zeros, until stillframe_fragment_reattach fills it. fragment: the handle, to be ended by
// stillframe_fragment_detach; NULL on errors. data: its memory, which stays there until it is detached and must not be written; may
// be NULL.
//
// Errors: DREPL_TEXT with all mistakes; with has_version those of stillframe_fragment_reattach; BAD_HANDLE; FORKED; those of the
// environment.
stillframe_status stillframe_object_attach_read(stillframe_object *object,
                                                const char *text,
                                                const stillframe_attach_read_options *options,
                                                stillframe_fragment **fragment,
                                                const void **data);

// Makes what a fragment to write holds now the next version of its elements. Nobody writes its memory meanwhile.
//
// version: above the newest version of the fragment, and above the one at which it was attached. published: what was done; may be
// NULL.
//
// Errors: NOT_INCREASING; OBJECT_GREATEST_NUMBER of UINT64_MAX; BAD_ARGUMENT if it was attached to be read; those of
// stillframe_publish, and then there is no new version; BAD_HANDLE; FORKED.
stillframe_status stillframe_fragment_publish(stillframe_fragment *fragment,
                                              uint64_t version,
                                              stillframe_published *published);

// The memory of the next version of a fragment to write. That of a loaned one is lent anew for each version, and holds anything
// at first: write all of it. That of others is where it was when it was attached.
//
// bytes: may be NULL.
//
// Errors: BAD_ARGUMENT if it was attached to be read; of a loaned one BOUND, NO_SPACE or NO_SLOT if there is no room; BAD_HANDLE;
// FORKED.
stillframe_status stillframe_fragment_next(stillframe_fragment *fragment,
                                           void **data,
                                           size_t *bytes);

// The newest version of a fragment to write, as this process published it, which stays as it is until the next publish: for
// programs that compute a new array from an old one. Writing there is a signal.
//
// data: NULL before the first publish. bytes: 0 then; may be NULL.
//
// Errors: BAD_ARGUMENT if it was attached to be read; NO_MAPPINGS; BAD_HANDLE; FORKED.
stillframe_status stillframe_fragment_previous(stillframe_fragment *fragment,
                                               const void **data,
                                               size_t *bytes);

// Fills a fragment to read with a version, at the same address: waits at most timeout_ms milliseconds, below 0 for ever, until all
// elements that it wants were published, and only those.
//
// Where they lie together in the memory of one writer, and are many, its pages are shown and nothing is copied. Then the version
// is held until the next reattach.
//
// Errors: TIMEOUT, whose text says whom was waited for; OBJECT_LOST if elements cannot be had, because their writer died or let the
// version go; OBJECT_NO_MEMORY if the runtime of this node has none for what other nodes have of it; BAD_ARGUMENT if it was attached to
// be written; CORRUPT; BAD_HANDLE; FORKED. The fragment shows what it showed before.
stillframe_status stillframe_fragment_reattach(stillframe_fragment *fragment,
                                               uint64_t version,
                                               int64_t timeout_ms);

// Fills a fragment to read with the newest complete version above after, waiting for one as stillframe_fragment_reattach does.
// version: its number; may be NULL.
//
// Errors: those of stillframe_object_wait_newer and of stillframe_fragment_reattach.
stillframe_status stillframe_fragment_reattach_newer(stillframe_fragment *fragment,
                                                     uint64_t after,
                                                     int64_t timeout_ms,
                                                     uint64_t *version);

// What a fragment is.
//
// Errors: BAD_HANDLE; FORKED.
stillframe_status stillframe_fragment_describe(stillframe_fragment *fragment,
                                               stillframe_fragment_info *info);

// What a variable of a fragment is, and at which byte of its memory it begins.
//
// name: NULL for the only one. variable: units are "", and there are no attributes; texts live as long as the fragment.
//
// Errors: OBJECT_VARIABLE if there is no such variable, or its numbers lie apart, in another byte order, or where the processor does
// not want such numbers (a view that says aligned has none of these); BAD_HANDLE; FORKED.
stillframe_status stillframe_fragment_variable(stillframe_fragment *fragment,
                                               const char *name,
                                               stillframe_variable *variable,
                                               size_t *offset_bytes);

// Lets go of a fragment, and ends the handle; its memory is there no more. What it published stays as long as a complete version
// needs it, and above that it is waited for no more. A process that ends without it counts as one that died. NULL is nothing to
// do.
//
// Errors: BAD_HANDLE; FORKED; OBJECT_LOCKED and others of the environment. The handle has ended all the same, but others may take the
// fragment for one whose process died.
stillframe_status stillframe_fragment_detach(stillframe_fragment *fragment);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STILLFRAME_H */
