! stillframe.f90 is made from stillframe.fypp by fypp; change that.
!
! Stillframe: look at a running simulation without stopping it. A program publishes consistent versions of its arrays
! through shared memory, and other programs on the node read them while it runs. docs/fortran.md is the manual.
!
!     use stillframe
!     type(stillframe_region) :: heat
!     call heat%create('heat')
!     call heat%publish(step, 'u', u)             ! each step; u is any allocated array
!
! What to know before:
!
! * Nobody may write an array while publish runs with it.
! * An array given to publish is looked at during that call only. An array given to track is looked at during every
!   publish from then on, where it was at the time of track: it needs the attribute target, and track (or untrack) again
!   after it was allocated, deallocated or moved. A publish that is given another array of its name shows that one; the
!   next one shows what is tracked again.
! * Array sections with gaps are gathered when a version is published. Components of arrays of records are refused by track where
!   the compiler does not say where they are, as gfortran; give the address of the first one, and strides.
! * Pointers from array are valid until resize, repart, remove or close; those from view until the snapshot is released. What
!   view points to cannot be written: the processor ends a program that tries.
! * Arenas, regions, observers, snapshots, groups, loans, objects and fragments are handles. Assignment copies the handle, not the
!   thing. They are released by their procedures, not when the variable goes out of scope.
! * Every procedure has stat= and errmsg=. Without stat an error ends the program with its message; with stat it is one of
!   the statuses below, and 0 after success. A publish of a region that fails ends no program: without stat the first of several
!   that fail for one reason says so on the error unit, unless STILLFRAME_QUIET=1 is in the environment, and the program goes on.
! * Version numbers and sizes are integers of 32 or 64 bits and cannot be negative.
module stillframe
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int8, int16, int32, int64, real32, real64
  implicit none
  private

  public :: stillframe_move, stillframe_status_name, stillframe_library_version
  public :: stillframe_list, stillframe_remove_region, stillframe_collect, stillframe_objects, stillframe_remove_object
  public :: stillframe_is_safe, stillframe_newest_safe, stillframe_wait_safe, stillframe_wait_safe_from

  ! Statuses: 1 to 99 misuse, 100 to 199 environment, 200 a damaged region, 300 a defect of Stillframe.
  integer, parameter, public :: stillframe_ok = 0, stillframe_bad_handle = 1, stillframe_bad_argument = 2, &
    stillframe_busy = 3, stillframe_bad_name = 10, stillframe_bad_option = 11, stillframe_not_increasing = 12, &
    stillframe_unknown_variable = 13, stillframe_variable_exists = 14, stillframe_wrong_dtype = 15, &
    stillframe_wrong_shape = 16, stillframe_wrong_kind = 17, stillframe_out_of_range = 18, &
    stillframe_different_regions = 19, stillframe_forked = 20, stillframe_no_memory_there = 21, &
    stillframe_unknown_attribute = 22, stillframe_is_group = 23, stillframe_not_group = 24, &
    stillframe_not_contiguous = 25, stillframe_limit = 26, stillframe_is_pinned = 27, stillframe_written = 28
  integer, parameter, public :: stillframe_in_use = 100, stillframe_no_region = 101, stillframe_denied = 102, &
    stillframe_no_version = 103, stillframe_version_gone = 104, stillframe_timeout = 105, &
    stillframe_producer_gone = 106, stillframe_no_space = 107, stillframe_bound = 108, stillframe_no_slot = 109, &
    stillframe_no_mappings = 110, stillframe_no_files = 111, stillframe_foreign_pages = 112, &
    stillframe_no_tracker = 113, stillframe_system = 114, stillframe_rank_missing = 115, stillframe_rank_gone = 116, &
    stillframe_no_common_version = 117, stillframe_survives = 118, stillframe_staged = 119, &
    stillframe_untrusted = 120, stillframe_arena_full = 121, stillframe_no_arena = 122, stillframe_arena_busy = 123, &
    stillframe_mixed_runs = 124, stillframe_child_gone = 125, &
    stillframe_no_broker = 126, stillframe_broker = 127
  integer, parameter, public :: stillframe_corrupt = 200, stillframe_internal = 300
  ! The same of checkpoints, from 1000 on.
  integer, parameter, public :: stillframe_other_region = 1010, stillframe_saving = 1011, stillframe_expression = 1012, &
    stillframe_uncovered = 1013, stillframe_nothing_recovered = 1014, stillframe_per_rank = 1015, stillframe_locked = 1100, &
    stillframe_contradicts = 1101, stillframe_read_only = 1102, stillframe_vanished = 1103, stillframe_not_synced = 1104, &
    stillframe_cancelled = 1105, stillframe_no_checkpoint = 1106, stillframe_no_such_version = 1107, &
    stillframe_no_locks = 1108, stillframe_no_store = 1109, stillframe_not_readable = 1110, stillframe_removed = 1112, &
    stillframe_foreign_format = 1200, stillframe_damaged = 1201
  ! The same of layouts, from 2000 on, and of objects, from 3000 on.
  integer, parameter, public :: stillframe_drepl_text = 2010, stillframe_drepl_unplannable = 2013, &
    stillframe_object_other_text = 3010, stillframe_object_not_writable = 3011, stillframe_object_overlap = 3012, &
    stillframe_object_refused = 3013, stillframe_object_variable = 3014, stillframe_object_greatest_number = 3015, &
    stillframe_no_object = 3100, stillframe_object_lost = 3101, stillframe_object_ended = 3102, stillframe_object_locked = 3103, &
    stillframe_object_interrupted = 3104, stillframe_object_removed = 3105, stillframe_object_not_accepted = 3016, &
    stillframe_no_runtime = 3106, stillframe_object_no_memory = 3107

  ! Rules: what publish does when there is no room.
  integer, parameter, public :: stillframe_wait_then_skip = 0, stillframe_skip = 1, &
    stillframe_fail = 2, stillframe_wait = 3
  ! Orders of elements, as variables of a snapshot have them.
  integer, parameter, public :: stillframe_row_major = 0, stillframe_column_major = 1
  ! Types of attributes.
  integer, parameter, public :: stillframe_bool = 0, stillframe_int = 1, stillframe_float = 2, stillframe_text = 3
  ! States of the ranks of a group; of regions, where 2 is incomplete and 3 unreadable.
  integer, parameter, public :: stillframe_live = 0, stillframe_dead = 1, stillframe_absent = 2
  integer, parameter, public :: stillframe_incomplete = 2, stillframe_unreadable = 3
  ! What a region begins with.
  integer, parameter, public :: stillframe_origin_fresh = 0, stillframe_origin_memory = 1, stillframe_origin_checkpoint = 2
  ! States of a checkpointer; failed: something that it had to save is not safe.
  integer, parameter, public :: stillframe_checkpoint_running = 0, stillframe_checkpoint_ended = 1, &
    stillframe_checkpoint_failed = 2
  ! Most dimensions of a variable.
  integer, parameter, public :: stillframe_rank_max = 8

  ! A fragment to write that is or was attached to an object.
  type, public :: stillframe_writer
    integer :: number = -1, pid = 0
    integer :: rank = -1                      ! -1: it did not say
    logical :: alive = .false.
    integer(int64) :: from = -1               ! the first version that it writes
    integer(int64) :: left = -1               ! the first that it does not write any more; -1: it was not detached
    integer(int64) :: newest = -1             ! -1: it has no version
    integer :: versions = 0                   ! of it that can be had
    character(:), allocatable :: text, region
  end type

  ! A named single value of a version or a variable. Made by stillframe_attribute('name', value).
  type, public :: stillframe_attribute
    character(:), allocatable :: name
    integer :: type = stillframe_int
    integer(int64) :: integer = 0             ! of stillframe_bool too: 0 or 1
    real(real64) :: real = 0
    character(:), allocatable :: text
  end type

  interface stillframe_attribute
    module procedure attribute_of_logical
    module procedure attribute_of_int32
    module procedure attribute_of_int64
    module procedure attribute_of_real32
    module procedure attribute_of_real64
    module procedure attribute_of_text
  end interface

  ! What a region begins with.
  type, public :: stillframe_origin
    integer :: kind = stillframe_origin_fresh
    integer(int64) :: version = -1            ! -1 in a first run
    character(:), allocatable :: path         ! of the checkpoint, '' if it is none
    character(:), allocatable :: sentence     ! all of it, for the log
    character(:), allocatable :: skipped      ! damaged checkpoints that were left out, a line each
  end type

  ! What a checkpointer has done.
  type, public :: stillframe_checkpoint_status
    integer :: state = stillframe_checkpoint_running
    integer(int64) :: newest_safe = -1        ! -1: none is
    integer(int64) :: saved = 0, missed = 0, saving = 0, written_bytes = 0, linked_bytes = 0
    character(:), allocatable :: error        ! '' if all is well
  end type

  ! What a publish did.
  type, public :: stillframe_published
    integer(int64) :: version = -1, dirty_pages = 0, copied_pages = 0, total_pages = 0
    real(real64) :: seconds = 0
    logical :: skipped = .false.              ! by the rule; the next version has it all
  end type

  ! What a region did since it was created by this program.
  type, public :: stillframe_statistics
    integer(int64) :: published = 0, skipped = 0, dirty_pages = 0, copied_pages = 0, total_pages = 0, &
      plane_bytes = 0, working_bytes = 0
    real(real64) :: publish_seconds = 0
  end type

  ! A variable of a snapshot. The strides are in bytes. offset and global_shape are allocated if it is a part of a global
  ! array.
  type, public :: stillframe_variable
    character(:), allocatable :: name, dtype, units
    integer :: order = stillframe_column_major
    integer(int64), allocatable :: shape(:), strides(:), offset(:), global_shape(:)
    integer(int64) :: bytes = 0, item_bytes = 0
  end type

  ! A variable of the version that recover found. The shape is that of the global array if ranks had parts of one, in the order of
  ! indices in which it was declared.
  type, public :: stillframe_recovered_variable
    character(:), allocatable :: name, dtype
    integer(int64), allocatable :: shape(:)
  end type

  ! A version that a region has.
  type, public :: stillframe_version_info
    integer(int64) :: version = -1, published_ns = 0, dirty_pages = 0, total_pages = 0
    logical :: retiring = .false.
  end type

  ! A rank of a group.
  type, public :: stillframe_rank
    integer :: rank = -1, state = stillframe_absent, pid = 0
    integer(int64) :: newest = -1             ! -1: it has no version
    integer(int64) :: behind = 0              ! versions that the furthest rank has and this one lacks
  end type

  ! A region as the directory shows it.
  type, public :: stillframe_region_info
    character(:), allocatable :: name, problem
    integer :: state = stillframe_live, pid = 0, keep = 0
    integer :: rank = 0, ranks = 0            ! ranks = 0: it is of no group
    integer(int64) :: newest = -1, allocated_bytes = 0, bound_bytes = 0, published = 0, skipped = 0
    integer(int64) :: created_ns = 0, working_bytes = 0
    ! Its producer has been waiting for room, or leaving out versions, so many, since then (nanoseconds since 1970); else 0.
    integer(int64) :: waiting_ns = 0, skipping_ns = 0, skipping = 0
  end type

  ! What one region has of an arena; removed: it waits for those who hold its versions.
  type, public :: stillframe_arena_region
    character(:), allocatable :: name
    integer(int64) :: bytes = 0
    logical :: removed = .false.
  end type

  ! Who has how much of an arena, about now. Free chunks of 2 MiB belong to nobody, small ones to several regions.
  type, public :: stillframe_arena_usage
    integer(int64) :: bytes = 0, tables_bytes = 0, free_bytes = 0
    integer :: free_chunks = 0, small_chunks = 0, regions_max = 0
    type(stillframe_arena_region), allocatable :: regions(:)  ! by name
  end type

  type :: entry
    character(:), allocatable :: name, dtype
    integer(c_int32_t) :: variable = 0, kind = 0
    integer(c_size_t), allocatable :: shape(:)  ! of a loaned variable
    integer(c_size_t), allocatable :: offset(:), global_shape(:)  ! of a part of a global array
  end type

  ! Many regions in one file of fixed length. Observers find them as ARENA/REGION.
  type, public :: stillframe_arena
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create => arena_create
    procedure :: open => arena_open
    procedure :: from_descriptor => arena_from_descriptor
    procedure :: usage => arena_usage
    procedure :: close => arena_close
  end type

  ! One name for data that many processes hold, each a fragment of it in the layout that it wants.
  type, public :: stillframe_object
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create => object_create
    procedure :: open => object_open
    procedure :: close => object_close
    procedure :: newest => object_newest
    procedure :: versions => object_versions
    procedure :: wait_newer => object_wait_newer
    procedure :: wait_for => object_wait_for
    procedure :: writers => object_writers
    procedure, private :: object_attach, object_attach_read
    generic :: attach => object_attach
    generic :: attach_read => object_attach_read
    procedure, private :: attach_int8, attach_read_int8
    generic :: attach => attach_int8
    generic :: attach_read => attach_read_int8
    procedure, private :: attach_int16, attach_read_int16
    generic :: attach => attach_int16
    generic :: attach_read => attach_read_int16
    procedure, private :: attach_int32, attach_read_int32
    generic :: attach => attach_int32
    generic :: attach_read => attach_read_int32
    procedure, private :: attach_int64, attach_read_int64
    generic :: attach => attach_int64
    generic :: attach_read => attach_read_int64
    procedure, private :: attach_real32, attach_read_real32
    generic :: attach => attach_real32
    generic :: attach_read => attach_read_real32
    procedure, private :: attach_real64, attach_read_real64
    generic :: attach => attach_real64
    generic :: attach_read => attach_read_real64
    procedure, private :: attach_complex32, attach_read_complex32
    generic :: attach => attach_complex32
    generic :: attach_read => attach_read_complex32
    procedure, private :: attach_complex64, attach_read_complex64
    generic :: attach => attach_complex64
    generic :: attach_read => attach_read_complex64
    procedure, private :: attach_bool, attach_read_bool
    generic :: attach => attach_bool
    generic :: attach_read => attach_read_bool
    procedure, private :: attach_logical, attach_read_logical
    generic :: attach => attach_logical
    generic :: attach_read => attach_read_logical
  end type

  ! What a process holds of an object: memory in the layout that it asked for, to be written or to be read.
  type, public :: stillframe_fragment
    private
    type(c_ptr) :: handle = c_null_ptr
    type(c_ptr) :: address = c_null_ptr       ! of one to read
  contains
    procedure :: reattach_newer => fragment_reattach_newer
    procedure :: version => fragment_version
    procedure :: published_ns => fragment_published_ns
    procedure :: is_shown => fragment_is_shown
    procedure :: detach => fragment_detach
    procedure, private :: fragment_publish_int32, fragment_reattach_int32
    generic :: publish => fragment_publish_int32
    generic :: reattach => fragment_reattach_int32
    procedure, private :: fragment_publish_int64, fragment_reattach_int64
    generic :: publish => fragment_publish_int64
    generic :: reattach => fragment_reattach_int64
    procedure, private :: fragment_view_int8, fragment_previous_int8
    generic :: view => fragment_view_int8
    generic :: previous => fragment_previous_int8
    procedure, private :: fragment_view_int16, fragment_previous_int16
    generic :: view => fragment_view_int16
    generic :: previous => fragment_previous_int16
    procedure, private :: fragment_view_int32, fragment_previous_int32
    generic :: view => fragment_view_int32
    generic :: previous => fragment_previous_int32
    procedure, private :: fragment_view_int64, fragment_previous_int64
    generic :: view => fragment_view_int64
    generic :: previous => fragment_previous_int64
    procedure, private :: fragment_view_real32, fragment_previous_real32
    generic :: view => fragment_view_real32
    generic :: previous => fragment_previous_real32
    procedure, private :: fragment_view_real64, fragment_previous_real64
    generic :: view => fragment_view_real64
    generic :: previous => fragment_previous_real64
    procedure, private :: fragment_view_complex32, fragment_previous_complex32
    generic :: view => fragment_view_complex32
    generic :: previous => fragment_previous_complex32
    procedure, private :: fragment_view_complex64, fragment_previous_complex64
    generic :: view => fragment_view_complex64
    generic :: previous => fragment_previous_complex64
    procedure, private :: fragment_view_bool, fragment_previous_bool
    generic :: view => fragment_view_bool
    generic :: previous => fragment_previous_bool
    procedure, private :: fragment_view_logical, fragment_previous_logical
    generic :: view => fragment_view_logical
    generic :: previous => fragment_previous_logical
  end type

  ! The producer's side: the variables of one program, published together.
  type, public :: stillframe_region
    private
    type(c_ptr) :: handle = c_null_ptr
    type(entry), allocatable :: entries(:)
    ! What messages call it. Statuses of publishes that were said to fail since there was a version, which one was the newest
    ! then, and how many failed that nobody was told of.
    character(:), allocatable :: name
    integer, allocatable :: said(:)
    integer(int64) :: newest_when_said = -1, unsaid = 0
  contains
    procedure :: create => region_create
    procedure :: recover => region_recover
    procedure :: fill => region_fill
    procedure :: close => region_close
    procedure :: unlink => region_unlink
    procedure :: recovered => region_recovered
    procedure :: recovered_variables => region_recovered_variables
    procedure :: newest_published => region_newest_published
    procedure :: tracker => region_tracker
    procedure :: statistics => region_statistics
    procedure :: declare => region_declare
    procedure :: untrack => region_untrack
    procedure :: remove => region_remove
    procedure :: pin => region_pin
    procedure :: unpin => region_unpin
    procedure :: mark_dirty => region_mark_dirty
    procedure :: publish_finish => region_publish_finish
    procedure :: publish_test => region_publish_test
    procedure, private :: repart_part
    generic :: repart => repart_part
    procedure, private :: publish_int32
    generic :: publish => publish_int32
    procedure, private :: publish_start_int32
    generic :: publish_start => publish_start_int32
    procedure, private :: publish_int8_int32
    generic :: publish => publish_int8_int32
    procedure, private :: publish_int16_int32
    generic :: publish => publish_int16_int32
    procedure, private :: publish_int32_int32
    generic :: publish => publish_int32_int32
    procedure, private :: publish_int64_int32
    generic :: publish => publish_int64_int32
    procedure, private :: publish_real32_int32
    generic :: publish => publish_real32_int32
    procedure, private :: publish_real64_int32
    generic :: publish => publish_real64_int32
    procedure, private :: publish_complex32_int32
    generic :: publish => publish_complex32_int32
    procedure, private :: publish_complex64_int32
    generic :: publish => publish_complex64_int32
    procedure, private :: publish_bool_int32
    generic :: publish => publish_bool_int32
    procedure, private :: publish_logical_int32
    generic :: publish => publish_logical_int32
    procedure, private :: publish_text_int32
    generic :: publish => publish_text_int32
    procedure, private :: track_address_int32
    generic :: track => track_address_int32
    procedure, private :: array_address_int32
    generic :: array => array_address_int32
    procedure, private :: loan_address_int32
    generic :: loan => loan_address_int32
    procedure, private :: resize_address_int32
    generic :: resize => resize_address_int32
    procedure, private :: repart_address_int32
    generic :: repart => repart_address_int32
    procedure, private :: array_int8_int32
    generic :: array => array_int8_int32
    procedure, private :: loan_int8_int32
    generic :: loan => loan_int8_int32
    procedure, private :: resize_int8_int32
    generic :: resize => resize_int8_int32
    procedure, private :: repart_int8_int32
    generic :: repart => repart_int8_int32
    procedure, private :: array_int16_int32
    generic :: array => array_int16_int32
    procedure, private :: loan_int16_int32
    generic :: loan => loan_int16_int32
    procedure, private :: resize_int16_int32
    generic :: resize => resize_int16_int32
    procedure, private :: repart_int16_int32
    generic :: repart => repart_int16_int32
    procedure, private :: array_int32_int32
    generic :: array => array_int32_int32
    procedure, private :: loan_int32_int32
    generic :: loan => loan_int32_int32
    procedure, private :: resize_int32_int32
    generic :: resize => resize_int32_int32
    procedure, private :: repart_int32_int32
    generic :: repart => repart_int32_int32
    procedure, private :: array_int64_int32
    generic :: array => array_int64_int32
    procedure, private :: loan_int64_int32
    generic :: loan => loan_int64_int32
    procedure, private :: resize_int64_int32
    generic :: resize => resize_int64_int32
    procedure, private :: repart_int64_int32
    generic :: repart => repart_int64_int32
    procedure, private :: array_real32_int32
    generic :: array => array_real32_int32
    procedure, private :: loan_real32_int32
    generic :: loan => loan_real32_int32
    procedure, private :: resize_real32_int32
    generic :: resize => resize_real32_int32
    procedure, private :: repart_real32_int32
    generic :: repart => repart_real32_int32
    procedure, private :: array_real64_int32
    generic :: array => array_real64_int32
    procedure, private :: loan_real64_int32
    generic :: loan => loan_real64_int32
    procedure, private :: resize_real64_int32
    generic :: resize => resize_real64_int32
    procedure, private :: repart_real64_int32
    generic :: repart => repart_real64_int32
    procedure, private :: array_complex32_int32
    generic :: array => array_complex32_int32
    procedure, private :: loan_complex32_int32
    generic :: loan => loan_complex32_int32
    procedure, private :: resize_complex32_int32
    generic :: resize => resize_complex32_int32
    procedure, private :: repart_complex32_int32
    generic :: repart => repart_complex32_int32
    procedure, private :: array_complex64_int32
    generic :: array => array_complex64_int32
    procedure, private :: loan_complex64_int32
    generic :: loan => loan_complex64_int32
    procedure, private :: resize_complex64_int32
    generic :: resize => resize_complex64_int32
    procedure, private :: repart_complex64_int32
    generic :: repart => repart_complex64_int32
    procedure, private :: array_bool_int32
    generic :: array => array_bool_int32
    procedure, private :: loan_bool_int32
    generic :: loan => loan_bool_int32
    procedure, private :: resize_bool_int32
    generic :: resize => resize_bool_int32
    procedure, private :: repart_bool_int32
    generic :: repart => repart_bool_int32
    procedure, private :: array_logical_int32
    generic :: array => array_logical_int32
    procedure, private :: loan_logical_int32
    generic :: loan => loan_logical_int32
    procedure, private :: resize_logical_int32
    generic :: resize => resize_logical_int32
    procedure, private :: repart_logical_int32
    generic :: repart => repart_logical_int32
    procedure, private :: publish_int64
    generic :: publish => publish_int64
    procedure, private :: publish_start_int64
    generic :: publish_start => publish_start_int64
    procedure, private :: publish_int8_int64
    generic :: publish => publish_int8_int64
    procedure, private :: publish_int16_int64
    generic :: publish => publish_int16_int64
    procedure, private :: publish_int32_int64
    generic :: publish => publish_int32_int64
    procedure, private :: publish_int64_int64
    generic :: publish => publish_int64_int64
    procedure, private :: publish_real32_int64
    generic :: publish => publish_real32_int64
    procedure, private :: publish_real64_int64
    generic :: publish => publish_real64_int64
    procedure, private :: publish_complex32_int64
    generic :: publish => publish_complex32_int64
    procedure, private :: publish_complex64_int64
    generic :: publish => publish_complex64_int64
    procedure, private :: publish_bool_int64
    generic :: publish => publish_bool_int64
    procedure, private :: publish_logical_int64
    generic :: publish => publish_logical_int64
    procedure, private :: publish_text_int64
    generic :: publish => publish_text_int64
    procedure, private :: track_address_int64
    generic :: track => track_address_int64
    procedure, private :: array_address_int64
    generic :: array => array_address_int64
    procedure, private :: loan_address_int64
    generic :: loan => loan_address_int64
    procedure, private :: resize_address_int64
    generic :: resize => resize_address_int64
    procedure, private :: repart_address_int64
    generic :: repart => repart_address_int64
    procedure, private :: array_int8_int64
    generic :: array => array_int8_int64
    procedure, private :: loan_int8_int64
    generic :: loan => loan_int8_int64
    procedure, private :: resize_int8_int64
    generic :: resize => resize_int8_int64
    procedure, private :: repart_int8_int64
    generic :: repart => repart_int8_int64
    procedure, private :: array_int16_int64
    generic :: array => array_int16_int64
    procedure, private :: loan_int16_int64
    generic :: loan => loan_int16_int64
    procedure, private :: resize_int16_int64
    generic :: resize => resize_int16_int64
    procedure, private :: repart_int16_int64
    generic :: repart => repart_int16_int64
    procedure, private :: array_int32_int64
    generic :: array => array_int32_int64
    procedure, private :: loan_int32_int64
    generic :: loan => loan_int32_int64
    procedure, private :: resize_int32_int64
    generic :: resize => resize_int32_int64
    procedure, private :: repart_int32_int64
    generic :: repart => repart_int32_int64
    procedure, private :: array_int64_int64
    generic :: array => array_int64_int64
    procedure, private :: loan_int64_int64
    generic :: loan => loan_int64_int64
    procedure, private :: resize_int64_int64
    generic :: resize => resize_int64_int64
    procedure, private :: repart_int64_int64
    generic :: repart => repart_int64_int64
    procedure, private :: array_real32_int64
    generic :: array => array_real32_int64
    procedure, private :: loan_real32_int64
    generic :: loan => loan_real32_int64
    procedure, private :: resize_real32_int64
    generic :: resize => resize_real32_int64
    procedure, private :: repart_real32_int64
    generic :: repart => repart_real32_int64
    procedure, private :: array_real64_int64
    generic :: array => array_real64_int64
    procedure, private :: loan_real64_int64
    generic :: loan => loan_real64_int64
    procedure, private :: resize_real64_int64
    generic :: resize => resize_real64_int64
    procedure, private :: repart_real64_int64
    generic :: repart => repart_real64_int64
    procedure, private :: array_complex32_int64
    generic :: array => array_complex32_int64
    procedure, private :: loan_complex32_int64
    generic :: loan => loan_complex32_int64
    procedure, private :: resize_complex32_int64
    generic :: resize => resize_complex32_int64
    procedure, private :: repart_complex32_int64
    generic :: repart => repart_complex32_int64
    procedure, private :: array_complex64_int64
    generic :: array => array_complex64_int64
    procedure, private :: loan_complex64_int64
    generic :: loan => loan_complex64_int64
    procedure, private :: resize_complex64_int64
    generic :: resize => resize_complex64_int64
    procedure, private :: repart_complex64_int64
    generic :: repart => repart_complex64_int64
    procedure, private :: array_bool_int64
    generic :: array => array_bool_int64
    procedure, private :: loan_bool_int64
    generic :: loan => loan_bool_int64
    procedure, private :: resize_bool_int64
    generic :: resize => resize_bool_int64
    procedure, private :: repart_bool_int64
    generic :: repart => repart_bool_int64
    procedure, private :: array_logical_int64
    generic :: array => array_logical_int64
    procedure, private :: loan_logical_int64
    generic :: loan => loan_logical_int64
    procedure, private :: resize_logical_int64
    generic :: resize => resize_logical_int64
    procedure, private :: repart_logical_int64
    generic :: repart => repart_logical_int64
    procedure, private :: track_int8
    generic :: track => track_int8
    procedure, private :: recovered_int8
    generic :: read => recovered_int8
    procedure, private :: track_int16
    generic :: track => track_int16
    procedure, private :: recovered_int16
    generic :: read => recovered_int16
    procedure, private :: track_int32
    generic :: track => track_int32
    procedure, private :: recovered_int32
    generic :: read => recovered_int32
    procedure, private :: track_int64
    generic :: track => track_int64
    procedure, private :: recovered_int64
    generic :: read => recovered_int64
    procedure, private :: track_real32
    generic :: track => track_real32
    procedure, private :: recovered_real32
    generic :: read => recovered_real32
    procedure, private :: track_real64
    generic :: track => track_real64
    procedure, private :: recovered_real64
    generic :: read => recovered_real64
    procedure, private :: track_complex32
    generic :: track => track_complex32
    procedure, private :: recovered_complex32
    generic :: read => recovered_complex32
    procedure, private :: track_complex64
    generic :: track => track_complex64
    procedure, private :: recovered_complex64
    generic :: read => recovered_complex64
    procedure, private :: track_bool
    generic :: track => track_bool
    procedure, private :: recovered_bool
    generic :: read => recovered_bool
    procedure, private :: track_logical
    generic :: track => track_logical
    procedure, private :: recovered_logical
    generic :: read => recovered_logical
    procedure, private :: track_text
    generic :: track => track_text
    procedure, private :: recovered_text
    generic :: read => recovered_text
    procedure, private :: recovered_address
    generic :: read => recovered_address
    procedure, private :: set_logical
    generic :: set => set_logical
    procedure, private :: recovered_attribute_logical
    generic :: get => recovered_attribute_logical
    procedure, private :: set_int32
    generic :: set => set_int32
    procedure, private :: recovered_attribute_int32
    generic :: get => recovered_attribute_int32
    procedure, private :: set_int64
    generic :: set => set_int64
    procedure, private :: recovered_attribute_int64
    generic :: get => recovered_attribute_int64
    procedure, private :: set_real32
    generic :: set => set_real32
    procedure, private :: recovered_attribute_real32
    generic :: get => recovered_attribute_real32
    procedure, private :: set_real64
    generic :: set => set_real64
    procedure, private :: recovered_attribute_real64
    generic :: get => recovered_attribute_real64
    procedure, private :: set_text
    generic :: set => set_text
    procedure, private :: recovered_attribute_text
    generic :: get => recovered_attribute_text
  end type

  ! Memory for the next version of a loaned variable.
  type, public :: stillframe_loan
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: submit => loan_submit
    procedure :: discard => loan_discard
  end type

  ! Saves versions of a region or group as checkpoints, in threads of this program.
  type, public :: stillframe_checkpointer
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: start => checkpointer_start
    procedure :: status => checkpointer_status
    procedure :: stop => checkpointer_stop
    procedure, private :: checkpointer_wait_safe_int32, checkpointer_wait_safe_from_int32
    generic :: wait_safe => checkpointer_wait_safe_int32
    generic :: wait_safe_from => checkpointer_wait_safe_from_int32
    procedure, private :: checkpointer_wait_safe_int64, checkpointer_wait_safe_from_int64
    generic :: wait_safe => checkpointer_wait_safe_int64
    generic :: wait_safe_from => checkpointer_wait_safe_from_int64
  end type

  interface stillframe_is_safe
    module procedure is_safe_int32
    module procedure is_safe_int64
  end interface

  interface stillframe_wait_safe
    module procedure wait_safe_int32
    module procedure wait_safe_int64
  end interface

  interface stillframe_wait_safe_from
    module procedure wait_safe_from_int32
    module procedure wait_safe_from_int64
  end interface

  ! The observer's side of a region.
  type, public :: stillframe_observer
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => observer_open
    procedure :: close => observer_close
    procedure :: producer_alive => observer_producer_alive
    procedure :: versions => observer_versions
    procedure :: newest => observer_newest
    procedure :: next_after => observer_next_after
    procedure :: newest_after => observer_newest_after
    procedure :: wait_newer => observer_wait_newer
    procedure, private :: observer_version_int32
    generic :: version => observer_version_int32
    procedure, private :: observer_version_int64
    generic :: version => observer_version_int64
  end type

  ! A version that is held: nothing in it changes until it is released.
  type, public :: stillframe_snapshot
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(int64) :: last = -1
  contains
    procedure :: version => snapshot_version
    procedure :: published_ns => snapshot_published_ns
    procedure :: region => snapshot_region
    procedure :: release => snapshot_release
    procedure :: advance => snapshot_advance
    procedure :: variables => snapshot_variables
    procedure :: variable => snapshot_variable
    procedure :: attributes => snapshot_attributes
    procedure :: changed => snapshot_changed
    procedure, private :: view_address
    generic :: view => view_address
    procedure, private :: view_int8
    generic :: view => view_int8
    procedure, private :: view_int16
    generic :: view => view_int16
    procedure, private :: view_int32
    generic :: view => view_int32
    procedure, private :: view_int64
    generic :: view => view_int64
    procedure, private :: view_real32
    generic :: view => view_real32
    procedure, private :: view_real64
    generic :: view => view_real64
    procedure, private :: view_complex32
    generic :: view => view_complex32
    procedure, private :: view_complex64
    generic :: view => view_complex64
    procedure, private :: view_bool
    generic :: view => view_bool
    procedure, private :: view_logical
    generic :: view => view_logical
    procedure, private :: view_text_0
    generic :: view => view_text_0
    procedure, private :: view_text_1
    generic :: view => view_text_1
    procedure, private :: view_text_2
    generic :: view => view_text_2
    procedure, private :: view_text_3
    generic :: view => view_text_3
    procedure, private :: view_text_4
    generic :: view => view_text_4
    procedure, private :: view_text_5
    generic :: view => view_text_5
    procedure, private :: view_text_6
    generic :: view => view_text_6
    procedure, private :: view_text_7
    generic :: view => view_text_7
    procedure, private :: read_int8
    generic :: read => read_int8
    procedure, private :: read_int16
    generic :: read => read_int16
    procedure, private :: read_int32
    generic :: read => read_int32
    procedure, private :: read_int64
    generic :: read => read_int64
    procedure, private :: read_real32
    generic :: read => read_real32
    procedure, private :: read_real64
    generic :: read => read_real64
    procedure, private :: read_complex32
    generic :: read => read_complex32
    procedure, private :: read_complex64
    generic :: read => read_complex64
    procedure, private :: read_bool
    generic :: read => read_bool
    procedure, private :: read_logical
    generic :: read => read_logical
    procedure, private :: read_text
    generic :: read => read_text
    procedure, private :: get_logical
    generic :: get => get_logical
    procedure, private :: get_int32
    generic :: get => get_int32
    procedure, private :: get_int64
    generic :: get => get_int64
    procedure, private :: get_real32
    generic :: get => get_real32
    procedure, private :: get_real64
    generic :: get => get_real64
    procedure, private :: get_text
    generic :: get => get_text
  end type

  ! The observer's side of all ranks of a parallel program.
  type, public :: stillframe_group
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(int64) :: last = -1
  contains
    procedure :: open => group_open
    procedure :: close => group_close
    procedure :: size => group_size
    procedure :: ranks => group_ranks
    procedure :: newest => group_newest
    procedure :: next_after => group_next_after
    procedure :: newest_after => group_newest_after
    procedure :: wait_newer => group_wait_newer
    procedure, private :: group_version_int32
    generic :: version => group_version_int32
    procedure, private :: group_version_int64
    generic :: version => group_version_int64
  end type

  ! How a procedure went: its status, and the text where it does not come from the library.
  type :: outcome
    integer :: status = stillframe_ok
    character(:), allocatable :: text
  end type

  ! Where an array is. Dummies of this type have the attribute target: without it gfortran takes it that what an address in
  ! a dummy leads to is neither kept nor changed, and moves the caller's reads and writes past the library's.
  type :: place
    type(c_ptr) :: address = c_null_ptr
    integer :: rank = 0
    integer(c_size_t) :: shape(15) = 0
    integer(c_ptrdiff_t) :: strides(15) = 0   ! in bytes; of no matter if it is contiguous
    logical :: contiguous = .true.
    logical :: known = .true.                 ! whether the compiler says where its elements are
  end type

  ! What the library's visitors add to.
  type :: range_list
    integer(int64), allocatable :: ranges(:, :)
    integer :: count = 0
  end type

  type :: region_list
    type(stillframe_region_info), allocatable :: regions(:)
  end type

  type :: recovered_variable_list
    type(stillframe_recovered_variable), allocatable :: variables(:)
  end type

  type :: arena_region_list
    type(stillframe_arena_region), allocatable :: regions(:)
  end type

  type :: writer_list
    type(stillframe_writer), allocatable :: writers(:)
  end type

  type :: object_name
    character(:), allocatable :: text
  end type

  type :: name_list
    type(object_name), allocatable :: names(:)
  end type

  integer(c_int32_t), parameter :: object_look = 1, attach_loaned = 1, attach_zeros = 2
  integer(c_int32_t), parameter :: managed = 0, tracked = 1, loaned = 2
  integer(c_int32_t), parameter :: no_large_pages = 1, no_demotion = 2, fresh_flag = 4, rollback_flag = 8
  integer(c_int32_t), parameter :: arena_large_pages = 1, arena_look = 2
  ! No logical is handed to the library or taken from it: what its bits are is the compiler's affair, and those of C's bool are
  ! 0 and 1.
  integer(c_int8_t), parameter :: no = 0_c_int8_t, yes = 1_c_int8_t
  ! A bool of the library is a byte of 0 or 1, which some compilers give logical(c_bool) only with an option.
  character(*), parameter :: dtype_of_bool = merge('bool', 'int8', transfer(.true._c_bool, no) == yes)
  character(*), parameter :: dtype_of_logical = merge('int32', 'int64', storage_size(.true.) == 32)
  ! What pointers to arrays without elements point to.
  integer(int64), target, save :: nothing = 0

  ! The structures and functions of stillframe.h, with the same members in the same order.
  type, bind(c) :: c_region_options
    type(c_ptr) :: dir = c_null_ptr
    integer(c_int64_t) :: bound_bytes = 0, wait_ms = 0
    type(c_ptr) :: tracker = c_null_ptr
    integer(c_int32_t) :: rule = 0, keep = 0, threads = 0, mode = 0, flags = 0, rank = 0, ranks = 0, drift = 0
    integer(c_int64_t) :: rollback = 0
    type(c_ptr) :: trust = c_null_ptr, arena = c_null_ptr, copy_unit = c_null_ptr, memory_unit = c_null_ptr
    integer(c_int64_t) :: reserved(1) = 0
  end type

  type, bind(c) :: c_arena_options
    type(c_ptr) :: dir = c_null_ptr
    integer(c_int64_t) :: bytes = 0
    type(c_ptr) :: trust = c_null_ptr
    integer(c_int32_t) :: regions = 0, mode = 0, flags = 0, reserved(9) = 0
  end type

  type, bind(c) :: c_arena_usage
    integer(c_int64_t) :: bytes = 0, tables_bytes = 0, free_bytes = 0
    integer(c_int32_t) :: free_chunks = 0, small_chunks = 0, regions = 0, regions_max = 0
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_recovered_variable
    type(c_ptr) :: name = c_null_ptr, dtype = c_null_ptr
    integer(c_int32_t) :: rank = 0, padding = 0
    integer(c_size_t) :: shape(stillframe_rank_max) = 0
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_arena_region
    type(c_ptr) :: name = c_null_ptr
    integer(c_int64_t) :: bytes = 0
    integer(c_int32_t) :: removed = 0, reserved = 0
  end type

  type, bind(c) :: c_recovery_options
    type(c_ptr) :: checkpoints = c_null_ptr
    integer(c_int64_t) :: version = 0
    integer(c_int32_t) :: has_version = 0, padding = 0
    type(c_region_options) :: region = c_region_options()
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_origin
    integer(c_int32_t) :: kind = 0, skipped_count = 0
    integer(c_int64_t) :: version = 0
    type(c_ptr) :: path = c_null_ptr, sentence = c_null_ptr, skipped = c_null_ptr
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_checkpoint_options
    type(c_ptr) :: dir = c_null_ptr
    integer(c_int64_t) :: every = 0, every_ms = 0
    type(c_ptr) :: when = c_null_ptr
    integer(c_int32_t) :: flags = 0, keep = 0
    integer(c_int64_t) :: keep_every = 0
    type(c_ptr) :: compress = c_null_ptr
    integer(c_int64_t) :: chunk_bytes = 0
    integer(c_int32_t) :: threads = 0, held = 0
    integer(c_int64_t) :: held_bytes = 0, wait_ms = 0, follow_ms = 0
    integer(c_int32_t) :: nice = 0, padding = 0
    type(c_ptr) :: trust = c_null_ptr
    integer(c_int64_t) :: reserved(2) = 0
  end type

  type, bind(c) :: c_checkpoint_info
    integer(c_int32_t) :: state = 0, has_safe = 0
    integer(c_int64_t) :: newest_safe = 0, saved = 0, missed = 0, saving = 0, written_bytes = 0, linked_bytes = 0
    type(c_ptr) :: error = c_null_ptr
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_attribute
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: type = 0, reserved = 0
    integer(c_int64_t) :: integer = 0
    real(c_double) :: real = 0
    type(c_ptr) :: text = c_null_ptr
  end type

  type, bind(c) :: c_declaration
    type(c_ptr) :: name = c_null_ptr, dtype = c_null_ptr, units = c_null_ptr
    integer(c_int32_t) :: kind = 0, order = 0, rank = 0, attribute_count = 0
    type(c_ptr) :: shape = c_null_ptr, attributes = c_null_ptr, offset = c_null_ptr, global_shape = c_null_ptr
    integer(c_int64_t) :: flags = 0, reserved = 0
  end type

  type, bind(c) :: c_published
    integer(c_int64_t) :: version = 0, dirty_pages = 0, copied_pages = 0, total_pages = 0
    real(c_double) :: seconds = 0
    integer(c_int32_t) :: skipped = 0, reserved = 0
  end type

  type, bind(c) :: c_given
    type(c_ptr) :: data = c_null_ptr, shape = c_null_ptr
    integer(c_int32_t) :: variable = 0, rank = 0, order = 0, reserved = 0
    type(c_ptr) :: strides = c_null_ptr, dtype = c_null_ptr
  end type

  type, bind(c) :: c_statistics
    integer(c_int64_t) :: published = 0, skipped = 0, dirty_pages = 0, copied_pages = 0, total_pages = 0, &
      plane_bytes = 0, working_bytes = 0
    real(c_double) :: publish_seconds = 0
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_observer_options
    type(c_ptr) :: dir = c_null_ptr
    integer(c_int64_t) :: wait_ms = 0, populate_threads = 0
    type(c_ptr) :: trust = c_null_ptr, arena = c_null_ptr, polite = c_null_ptr
    integer(c_int64_t) :: reserved(1) = 0
  end type

  type, bind(c) :: c_polite
    real(c_double) :: share = 0
    integer(c_int64_t) :: bytes_per_s = 0
    type(c_ptr) :: processors = c_null_ptr
    integer(c_int64_t) :: reserved(2) = 0
  end type

  type, bind(c) :: c_version_info
    integer(c_int64_t) :: version = 0, published_ns = 0, dirty_pages = 0, total_pages = 0
    integer(c_int32_t) :: retiring = 0, reserved = 0
  end type

  type, bind(c) :: c_snapshot_info
    type(c_ptr) :: region = c_null_ptr
    integer(c_int64_t) :: version = 0, published_ns = 0, dirty_pages = 0, total_pages = 0
    integer(c_size_t) :: variable_count = 0, attribute_count = 0
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_variable
    type(c_ptr) :: name = c_null_ptr, dtype = c_null_ptr, units = c_null_ptr
    integer(c_int32_t) :: order = 0, rank = 0
    integer(c_size_t) :: shape(stillframe_rank_max) = 0
    integer(c_ptrdiff_t) :: strides(stillframe_rank_max) = 0
    integer(c_size_t) :: bytes = 0, item_bytes = 0, attribute_count = 0
    type(c_ptr) :: offset = c_null_ptr, global_shape = c_null_ptr
    integer(c_int64_t) :: reserved(2) = 0
  end type

  type, bind(c) :: c_rank
    integer(c_int32_t) :: rank = 0, state = 0, pid = 0, has_version = 0
    integer(c_int64_t) :: newest = 0, behind = 0, reserved(2) = 0
  end type

  type, bind(c) :: c_region_info
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: state = 0, pid = 0, has_version = 0, keep = 0
    integer(c_int64_t) :: newest = 0, allocated_bytes = 0, bound_bytes = 0, published = 0, skipped = 0
    type(c_ptr) :: problem = c_null_ptr
    integer(c_int64_t) :: created_ns = 0, working_bytes = 0
    integer(c_int32_t) :: rank = 0, ranks = 0
    integer(c_int64_t) :: waiting_ns = 0, skipping_ns = 0, skipping = 0
  end type

  type, bind(c) :: c_drepl_binding
    type(c_ptr) :: name = c_null_ptr
    integer(c_int64_t) :: value = 0
  end type

  type, bind(c) :: c_object_options
    type(c_ptr) :: dir = c_null_ptr, trust = c_null_ptr, bindings = c_null_ptr
    integer(c_size_t) :: binding_count = 0
    integer(c_int64_t) :: initial = 0, wait_ms = 0, arena_bytes = 0
    integer(c_int32_t) :: arena_fragments = 0, mode = 0, flags = 0, reserved(9) = 0
  end type

  type, bind(c) :: c_attach_options
    type(c_ptr) :: bindings = c_null_ptr
    integer(c_size_t) :: binding_count = 0
    integer(c_int64_t) :: version = 0, wait_ms = 0, bound_bytes = 0
    integer(c_int32_t) :: has_version = 0, has_rank = 0, rank = 0, writers = 0, keep = 0, flags = 0
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_attach_read_options
    type(c_ptr) :: bindings = c_null_ptr
    integer(c_size_t) :: binding_count = 0
    integer(c_int64_t) :: version = 0, wait_ms = 0
    integer(c_int32_t) :: has_version = 0, threads = 0, prefetch = 0, reserved(7) = 0
  end type

  type, bind(c) :: c_fragment_info
    integer(c_int64_t) :: version = 0, published_ns = 0, bytes = 0
    integer(c_int32_t) :: variable_count = 0, writable = 0, number = 0, shown = 0
    integer(c_int64_t) :: reserved(4) = 0
  end type

  type, bind(c) :: c_writer
    integer(c_int32_t) :: number = 0, pid = 0, has_rank = 0, rank = 0, alive = 0, has_left = 0, has_newest = 0, version_count = 0
    integer(c_int64_t) :: from = 0, left = 0, newest = 0
    type(c_ptr) :: text = c_null_ptr, bindings = c_null_ptr
    integer(c_size_t) :: binding_count = 0
    type(c_ptr) :: region = c_null_ptr
    integer(c_int64_t) :: reserved(4) = 0
  end type

  ! Numbers of names, and the names that they point to.
  type :: bound
    character(kind=c_char), allocatable :: names(:, :)
    type(c_drepl_binding), allocatable :: bindings(:)
  end type

  ! The arrays that one version is given, and their shapes and strides, which the arrays point to.
  type :: gifts
    integer(c_int32_t) :: count = 0
    type(c_given) :: arrays(8)
    integer(c_size_t) :: shapes(stillframe_rank_max, 8) = 0
    integer(c_ptrdiff_t) :: strides(stillframe_rank_max, 8) = 0
  end type

  interface
    function c_object_create(name, text, options, object) result(status) bind(c, name='stillframe_object_create')
      import
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(in) :: text(*)
      type(c_object_options), intent(in) :: options
      type(c_ptr), intent(out) :: object
      integer(c_int32_t) :: status
    end function
    function c_object_open(name, options, object) result(status) bind(c, name='stillframe_object_open')
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_object_options), intent(in) :: options
      type(c_ptr), intent(out) :: object
      integer(c_int32_t) :: status
    end function
    function c_object_close(object) result(status) bind(c, name='stillframe_object_close')
      import
      type(c_ptr), value :: object
      integer(c_int32_t) :: status
    end function
    function c_object_newest(object, version) result(status) bind(c, name='stillframe_object_newest')
      import
      type(c_ptr), value :: object
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_object_versions(object, out, capacity, count) result(status) bind(c, name='stillframe_object_versions')
      import
      type(c_ptr), value :: object
      type(c_ptr), value :: out
      integer(c_size_t), value :: capacity
      integer(c_size_t), intent(out) :: count
      integer(c_int32_t) :: status
    end function
    function c_object_wait_newer(object, after, timeout_ms, version) result(status) bind(c, name='stillframe_object_wait_newer')
      import
      type(c_ptr), value :: object
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_object_wait_for(object, version, timeout_ms) result(status) bind(c, name='stillframe_object_wait_for')
      import
      type(c_ptr), value :: object
      integer(c_int64_t), value :: version
      integer(c_int64_t), value :: timeout_ms
      integer(c_int32_t) :: status
    end function
    function c_object_writers(object, visitor, context) result(status) bind(c, name='stillframe_object_writers')
      import
      type(c_ptr), value :: object
      type(c_funptr), value :: visitor
      type(c_ptr), value :: context
      integer(c_int32_t) :: status
    end function
    function c_object_list(dir, visitor, context) result(status) bind(c, name='stillframe_object_list')
      import
      type(c_ptr), value :: dir
      type(c_funptr), value :: visitor
      type(c_ptr), value :: context
      integer(c_int32_t) :: status
    end function
    function c_object_remove(dir, name, force) result(status) bind(c, name='stillframe_object_remove')
      import
      type(c_ptr), value :: dir
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int8_t), value :: force
      integer(c_int32_t) :: status
    end function
    function c_object_attach(object, text, options, fragment, address) result(status) bind(c, name='stillframe_object_attach')
      import
      type(c_ptr), value :: object
      character(kind=c_char), intent(in) :: text(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: fragment
      type(c_ptr), intent(out) :: address
      integer(c_int32_t) :: status
    end function
    function c_object_attach_read(object, text, options, fragment, address) result(status) bind(c,&
        & name='stillframe_object_attach_read')
      import
      type(c_ptr), value :: object
      character(kind=c_char), intent(in) :: text(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: fragment
      type(c_ptr), intent(out) :: address
      integer(c_int32_t) :: status
    end function
    function c_fragment_publish(fragment, version, published) result(status) bind(c, name='stillframe_fragment_publish')
      import
      type(c_ptr), value :: fragment
      integer(c_int64_t), value :: version
      type(c_ptr), value :: published
      integer(c_int32_t) :: status
    end function
    function c_fragment_next(fragment, address, bytes) result(status) bind(c, name='stillframe_fragment_next')
      import
      type(c_ptr), value :: fragment
      type(c_ptr), intent(out) :: address
      integer(c_size_t), intent(out) :: bytes
      integer(c_int32_t) :: status
    end function
    function c_fragment_previous(fragment, address, bytes) result(status) bind(c, name='stillframe_fragment_previous')
      import
      type(c_ptr), value :: fragment
      type(c_ptr), intent(out) :: address
      integer(c_size_t), intent(out) :: bytes
      integer(c_int32_t) :: status
    end function
    function c_fragment_reattach(fragment, version, timeout_ms) result(status) bind(c, name='stillframe_fragment_reattach')
      import
      type(c_ptr), value :: fragment
      integer(c_int64_t), value :: version
      integer(c_int64_t), value :: timeout_ms
      integer(c_int32_t) :: status
    end function
    function c_fragment_reattach_newer(fragment, after, timeout_ms, version) result(status) bind(c,&
        & name='stillframe_fragment_reattach_newer')
      import
      type(c_ptr), value :: fragment
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_fragment_describe(fragment, info) result(status) bind(c, name='stillframe_fragment_describe')
      import
      type(c_ptr), value :: fragment
      type(c_fragment_info), intent(out) :: info
      integer(c_int32_t) :: status
    end function
    function c_fragment_variable(fragment, name, variable, offset_bytes) result(status) bind(c, name='stillframe_fragment_variable')
      import
      type(c_ptr), value :: fragment
      type(c_ptr), value :: name
      type(c_variable), intent(out) :: variable
      integer(c_size_t), intent(out) :: offset_bytes
      integer(c_int32_t) :: status
    end function
    function c_fragment_detach(fragment) result(status) bind(c, name='stillframe_fragment_detach')
      import
      type(c_ptr), value :: fragment
      integer(c_int32_t) :: status
    end function
    function c_arena_create(name, options, arena) result(status) bind(c, name='stillframe_arena_create')
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_arena_options), intent(in) :: options
      type(c_ptr), intent(out) :: arena
      integer(c_int32_t) :: status
    end function
    function c_arena_open(name, options, arena) result(status) bind(c, name='stillframe_arena_open')
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_arena_options), intent(in) :: options
      type(c_ptr), intent(out) :: arena
      integer(c_int32_t) :: status
    end function
    function c_arena_from_descriptor(descriptor, name, options, arena) result(status) bind(c,&
        & name='stillframe_arena_from_descriptor')
      import
      integer(c_int32_t), value :: descriptor
      character(kind=c_char), intent(in) :: name(*)
      type(c_arena_options), intent(in) :: options
      type(c_ptr), intent(out) :: arena
      integer(c_int32_t) :: status
    end function
    function c_arena_close(arena) result(status) bind(c, name='stillframe_arena_close')
      import
      type(c_ptr), value :: arena
      integer(c_int32_t) :: status
    end function
    function c_arena_usage_of(arena, usage) result(status) bind(c, name='stillframe_arena_usage_of')
      import
      type(c_ptr), value :: arena
      type(c_arena_usage), intent(out) :: usage
      integer(c_int32_t) :: status
    end function
    function c_arena_regions(arena, visitor, context) result(status) bind(c, name='stillframe_arena_regions')
      import
      type(c_ptr), value :: arena
      type(c_funptr), value :: visitor
      type(c_ptr), value :: context
      integer(c_int32_t) :: status
    end function
    function c_recover(name, options, region, origin) result(status) bind(c, name='stillframe_recover')
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_recovery_options), intent(in) :: options
      type(c_ptr), intent(out) :: region
      type(c_origin), intent(out) :: origin
      integer(c_int32_t) :: status
    end function
    function c_recovered_attribute(region, name, attribute) result(status) bind(c, name='stillframe_recovered_attribute')
      import
      type(c_ptr), value :: region
      character(kind=c_char), intent(in) :: name(*)
      type(c_attribute), intent(out) :: attribute
      integer(c_int32_t) :: status
    end function
    function c_recovered_variables(region, visitor, context) result(status) bind(c, name='stillframe_recovered_variables')
      import
      type(c_ptr), value :: region
      type(c_funptr), value :: visitor
      type(c_ptr), value :: context
      integer(c_int32_t) :: status
    end function
    function c_read_recovered(region, variable, dtype, rank, offset, shape, order, address) result(status) bind(c,&
        & name='stillframe_read_recovered')
      import
      type(c_ptr), value :: region
      character(kind=c_char), intent(in) :: variable(*)
      character(kind=c_char), intent(in) :: dtype(*)
      integer(c_int32_t), value :: rank
      type(c_ptr), value :: offset
      integer(c_size_t), intent(in) :: shape(*)
      integer(c_int32_t), value :: order
      type(c_ptr), value :: address
      integer(c_int32_t) :: status
    end function
    function c_fill(region, variable) result(status) bind(c, name='stillframe_fill')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_int32_t) :: status
    end function
    function c_checkpoint_start(name, to, options, checkpointer) result(status) bind(c, name='stillframe_checkpoint_start')
      import
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(in) :: to(*)
      type(c_checkpoint_options), intent(in) :: options
      type(c_ptr), intent(out) :: checkpointer
      integer(c_int32_t) :: status
    end function
    function c_checkpoint_status(checkpointer, info) result(status) bind(c, name='stillframe_checkpoint_status')
      import
      type(c_ptr), value :: checkpointer
      type(c_checkpoint_info), intent(out) :: info
      integer(c_int32_t) :: status
    end function
    function c_checkpoint_wait_safe(checkpointer, version, timeout_ms, safe) result(status) bind(c,&
        & name='stillframe_checkpoint_wait_safe')
      import
      type(c_ptr), value :: checkpointer
      integer(c_int64_t), value :: version
      integer(c_int64_t), value :: timeout_ms
      integer(c_int8_t), intent(out) :: safe
      integer(c_int32_t) :: status
    end function
    function c_checkpoint_stop(checkpointer, info) result(status) bind(c, name='stillframe_checkpoint_stop')
      import
      type(c_ptr), value :: checkpointer
      type(c_checkpoint_info), intent(out) :: info
      integer(c_int32_t) :: status
    end function
    function c_checkpoint_wait_safe_from(checkpointer, version, timeout_ms, found, safe) result(status) bind(c,&
        & name='stillframe_checkpoint_wait_safe_from')
      import
      type(c_ptr), value :: checkpointer
      integer(c_int64_t), value :: version
      integer(c_int64_t), value :: timeout_ms
      integer(c_int8_t), intent(out) :: found
      integer(c_int64_t), intent(out) :: safe
      integer(c_int32_t) :: status
    end function
    function c_is_safe(dir, version, safe) result(status) bind(c, name='stillframe_is_safe')
      import
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int64_t), value :: version
      integer(c_int8_t), intent(out) :: safe
      integer(c_int32_t) :: status
    end function
    function c_newest_safe(dir, found, version) result(status) bind(c, name='stillframe_newest_safe')
      import
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int8_t), intent(out) :: found
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_wait_safe(dir, version, timeout_ms, safe) result(status) bind(c, name='stillframe_wait_safe')
      import
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int64_t), value :: version
      integer(c_int64_t), value :: timeout_ms
      integer(c_int8_t), intent(out) :: safe
      integer(c_int32_t) :: status
    end function
    function c_wait_safe_from(dir, version, timeout_ms, found, safe) result(status) bind(c, name='stillframe_wait_safe_from')
      import
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int64_t), value :: version
      integer(c_int64_t), value :: timeout_ms
      integer(c_int8_t), intent(out) :: found
      integer(c_int64_t), intent(out) :: safe
      integer(c_int32_t) :: status
    end function
    function c_create(name, options, region) result(status) bind(c, name='stillframe_create')
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_region_options), intent(in) :: options
      type(c_ptr), intent(out) :: region
      integer(c_int32_t) :: status
    end function
    function c_close(region) result(status) bind(c, name='stillframe_close')
      import
      type(c_ptr), value :: region
      integer(c_int32_t) :: status
    end function
    function c_unlink(region) result(status) bind(c, name='stillframe_unlink')
      import
      type(c_ptr), value :: region
      integer(c_int32_t) :: status
    end function
    function c_recovered(region, found, version) result(status) bind(c, name='stillframe_recovered')
      import
      type(c_ptr), value :: region
      integer(c_int8_t), intent(out) :: found
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_newest_published(region, found, version) result(status) bind(c, name='stillframe_newest_published')
      import
      type(c_ptr), value :: region
      integer(c_int8_t), intent(out) :: found
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_tracker(region, name) result(status) bind(c, name='stillframe_tracker')
      import
      type(c_ptr), value :: region
      type(c_ptr), intent(out) :: name
      integer(c_int32_t) :: status
    end function
    function c_statistics_of(region, statistics) result(status) bind(c, name='stillframe_statistics_of')
      import
      type(c_ptr), value :: region
      type(c_statistics), intent(out) :: statistics
      integer(c_int32_t) :: status
    end function
    function c_declare(region, declaration, variable) result(status) bind(c, name='stillframe_declare')
      import
      type(c_ptr), value :: region
      type(c_declaration), intent(in) :: declaration
      integer(c_int32_t), intent(out) :: variable
      integer(c_int32_t) :: status
    end function
    function c_track_at(region, variable, rank, shape, order, address) result(status) bind(c, name='stillframe_track_at')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_int32_t), value :: rank
      integer(c_size_t), intent(in) :: shape(*)
      integer(c_int32_t), value :: order
      type(c_ptr), value :: address
      integer(c_int32_t) :: status
    end function
    function c_track_section(region, variable, rank, shape, strides, dtype, order, address) result(status) bind(c,&
        & name='stillframe_track_section')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_int32_t), value :: rank
      integer(c_size_t), intent(in) :: shape(*)
      integer(c_ptrdiff_t), intent(in) :: strides(*)
      type(c_ptr), value :: dtype
      integer(c_int32_t), value :: order
      type(c_ptr), value :: address
      integer(c_int32_t) :: status
    end function
    function c_data(region, variable, address, bytes) result(status) bind(c, name='stillframe_data')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      type(c_ptr), intent(out) :: address
      integer(c_size_t), intent(out) :: bytes
      integer(c_int32_t) :: status
    end function
    function c_resize(region, variable, rank, shape, address) result(status) bind(c, name='stillframe_resize')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_int32_t), value :: rank
      integer(c_size_t), intent(in) :: shape(*)
      type(c_ptr), intent(out) :: address
      integer(c_int32_t) :: status
    end function
    function c_repart(region, variable, rank, shape, offset, global_shape, address) result(status) bind(c, name='stillframe_repart')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_int32_t), value :: rank
      integer(c_size_t), intent(in) :: shape(*)
      integer(c_size_t), intent(in) :: offset(*)
      integer(c_size_t), intent(in) :: global_shape(*)
      type(c_ptr), intent(out) :: address
      integer(c_int32_t) :: status
    end function
    function c_remove(region, name) result(status) bind(c, name='stillframe_remove')
      import
      type(c_ptr), value :: region
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t) :: status
    end function
    function c_pin(region, variable) result(status) bind(c, name='stillframe_pin')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_int32_t) :: status
    end function
    function c_unpin(region, variable) result(status) bind(c, name='stillframe_unpin')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_int32_t) :: status
    end function
    function c_mark_dirty(region, variable, offset, bytes) result(status) bind(c, name='stillframe_mark_dirty')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      integer(c_size_t), value :: offset
      integer(c_size_t), value :: bytes
      integer(c_int32_t) :: status
    end function
    function c_loan_begin(region, variable, loan, address, bytes) result(status) bind(c, name='stillframe_loan_begin')
      import
      type(c_ptr), value :: region
      integer(c_int32_t), value :: variable
      type(c_ptr), intent(out) :: loan
      type(c_ptr), intent(out) :: address
      integer(c_size_t), intent(out) :: bytes
      integer(c_int32_t) :: status
    end function
    function c_loan_submit(loan) result(status) bind(c, name='stillframe_loan_submit')
      import
      type(c_ptr), value :: loan
      integer(c_int32_t) :: status
    end function
    function c_loan_discard(loan) result(status) bind(c, name='stillframe_loan_discard')
      import
      type(c_ptr), value :: loan
      integer(c_int32_t) :: status
    end function
    function c_set_bool(region, name, value) result(status) bind(c, name='stillframe_set_bool')
      import
      type(c_ptr), value :: region
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int8_t), value :: value
      integer(c_int32_t) :: status
    end function
    function c_set_int(region, name, value) result(status) bind(c, name='stillframe_set_int')
      import
      type(c_ptr), value :: region
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: value
      integer(c_int32_t) :: status
    end function
    function c_set_float(region, name, value) result(status) bind(c, name='stillframe_set_float')
      import
      type(c_ptr), value :: region
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
      integer(c_int32_t) :: status
    end function
    function c_set_text(region, name, value) result(status) bind(c, name='stillframe_set_text')
      import
      type(c_ptr), value :: region
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(in) :: value(*)
      integer(c_int32_t) :: status
    end function
    function c_publish_start(region, version, given, given_count, flags) result(status) bind(c, name='stillframe_publish_start')
      import
      type(c_ptr), value :: region
      integer(c_int64_t), value :: version
      type(c_ptr), value :: given
      integer(c_int32_t), value :: given_count
      integer(c_int32_t), value :: flags
      integer(c_int32_t) :: status
    end function
    function c_publish_finish(region, published, found) result(status) bind(c, name='stillframe_publish_finish')
      import
      type(c_ptr), value :: region
      type(c_ptr), value :: published
      integer(c_int8_t), intent(out) :: found
      integer(c_int32_t) :: status
    end function
    function c_publish_test(region, done) result(status) bind(c, name='stillframe_publish_test')
      import
      type(c_ptr), value :: region
      integer(c_int8_t), intent(out) :: done
      integer(c_int32_t) :: status
    end function
    function c_publish_with(region, version, given, given_count, published) result(status) bind(c, name='stillframe_publish_with')
      import
      type(c_ptr), value :: region
      integer(c_int64_t), value :: version
      type(c_ptr), value :: given
      integer(c_int32_t), value :: given_count
      type(c_ptr), value :: published
      integer(c_int32_t) :: status
    end function
    function c_open(name, options, observer) result(status) bind(c, name='stillframe_open')
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_observer_options), intent(in) :: options
      type(c_ptr), intent(out) :: observer
      integer(c_int32_t) :: status
    end function
    function c_observer_close(observer) result(status) bind(c, name='stillframe_observer_close')
      import
      type(c_ptr), value :: observer
      integer(c_int32_t) :: status
    end function
    function c_producer_alive(observer, alive) result(status) bind(c, name='stillframe_producer_alive')
      import
      type(c_ptr), value :: observer
      integer(c_int8_t), intent(out) :: alive
      integer(c_int32_t) :: status
    end function
    function c_newest(observer, snapshot) result(status) bind(c, name='stillframe_newest')
      import
      type(c_ptr), value :: observer
      type(c_ptr), intent(out) :: snapshot
      integer(c_int32_t) :: status
    end function
    function c_version(observer, version, snapshot) result(status) bind(c, name='stillframe_version')
      import
      type(c_ptr), value :: observer
      integer(c_int64_t), value :: version
      type(c_ptr), intent(out) :: snapshot
      integer(c_int32_t) :: status
    end function
    function c_next_after(observer, after, timeout_ms, snapshot) result(status) bind(c, name='stillframe_next_after')
      import
      type(c_ptr), value :: observer
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      type(c_ptr), intent(out) :: snapshot
      integer(c_int32_t) :: status
    end function
    function c_newest_after(observer, after, timeout_ms, snapshot) result(status) bind(c, name='stillframe_newest_after')
      import
      type(c_ptr), value :: observer
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      type(c_ptr), intent(out) :: snapshot
      integer(c_int32_t) :: status
    end function
    function c_wait_newer(observer, after, timeout_ms, version) result(status) bind(c, name='stillframe_wait_newer')
      import
      type(c_ptr), value :: observer
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_versions(observer, out, capacity, count) result(status) bind(c, name='stillframe_versions')
      import
      type(c_ptr), value :: observer
      type(c_ptr), value :: out
      integer(c_size_t), value :: capacity
      integer(c_size_t), intent(out) :: count
      integer(c_int32_t) :: status
    end function
    function c_release(snapshot) result(status) bind(c, name='stillframe_release')
      import
      type(c_ptr), value :: snapshot
      integer(c_int32_t) :: status
    end function
    function c_advance(snapshot, next) result(status) bind(c, name='stillframe_advance')
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), value :: next
      integer(c_int32_t) :: status
    end function
    function c_describe(snapshot, info) result(status) bind(c, name='stillframe_describe')
      import
      type(c_ptr), value :: snapshot
      type(c_snapshot_info), intent(out) :: info
      integer(c_int32_t) :: status
    end function
    function c_variable_at(snapshot, index, variable) result(status) bind(c, name='stillframe_variable_at')
      import
      type(c_ptr), value :: snapshot
      integer(c_size_t), value :: index
      type(c_variable), intent(out) :: variable
      integer(c_int32_t) :: status
    end function
    function c_variable_named(snapshot, name, variable) result(status) bind(c, name='stillframe_variable_named')
      import
      type(c_ptr), value :: snapshot
      character(kind=c_char), intent(in) :: name(*)
      type(c_variable), intent(out) :: variable
      integer(c_int32_t) :: status
    end function
    function c_attribute_at(snapshot, variable, index, attribute) result(status) bind(c, name='stillframe_attribute_at')
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), value :: variable
      integer(c_size_t), value :: index
      type(c_attribute), intent(out) :: attribute
      integer(c_int32_t) :: status
    end function
    function c_attribute_named(snapshot, variable, name, attribute) result(status) bind(c, name='stillframe_attribute_named')
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), value :: variable
      character(kind=c_char), intent(in) :: name(*)
      type(c_attribute), intent(out) :: attribute
      integer(c_int32_t) :: status
    end function
    function c_view(snapshot, variable, address, bytes) result(status) bind(c, name='stillframe_view')
      import
      type(c_ptr), value :: snapshot
      character(kind=c_char), intent(in) :: variable(*)
      type(c_ptr), intent(out) :: address
      integer(c_size_t), intent(out) :: bytes
      integer(c_int32_t) :: status
    end function
    function c_read(snapshot, variable, offset, out, bytes) result(status) bind(c, name='stillframe_read')
      import
      type(c_ptr), value :: snapshot
      character(kind=c_char), intent(in) :: variable(*)
      integer(c_size_t), value :: offset
      type(c_ptr), value :: out
      integer(c_size_t), value :: bytes
      integer(c_int32_t) :: status
    end function
    function c_changed(snapshot, older, variable, visitor, context) result(status) bind(c, name='stillframe_changed')
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), value :: older
      character(kind=c_char), intent(in) :: variable(*)
      type(c_funptr), value :: visitor
      type(c_ptr), value :: context
      integer(c_int32_t) :: status
    end function
    function c_group_open(name, options, group) result(status) bind(c, name='stillframe_group_open')
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_observer_options), intent(in) :: options
      type(c_ptr), intent(out) :: group
      integer(c_int32_t) :: status
    end function
    function c_group_close(group) result(status) bind(c, name='stillframe_group_close')
      import
      type(c_ptr), value :: group
      integer(c_int32_t) :: status
    end function
    function c_group_size(group, ranks) result(status) bind(c, name='stillframe_group_size')
      import
      type(c_ptr), value :: group
      integer(c_int32_t), intent(out) :: ranks
      integer(c_int32_t) :: status
    end function
    function c_group_newest(group, snapshots, capacity) result(status) bind(c, name='stillframe_group_newest')
      import
      type(c_ptr), value :: group
      type(c_ptr), intent(out) :: snapshots(*)
      integer(c_int32_t), value :: capacity
      integer(c_int32_t) :: status
    end function
    function c_group_version(group, version, snapshots, capacity) result(status) bind(c, name='stillframe_group_version')
      import
      type(c_ptr), value :: group
      integer(c_int64_t), value :: version
      type(c_ptr), intent(out) :: snapshots(*)
      integer(c_int32_t), value :: capacity
      integer(c_int32_t) :: status
    end function
    function c_group_next_after(group, after, timeout_ms, snapshots, capacity) result(status) bind(c,&
        & name='stillframe_group_next_after')
      import
      type(c_ptr), value :: group
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      type(c_ptr), intent(out) :: snapshots(*)
      integer(c_int32_t), value :: capacity
      integer(c_int32_t) :: status
    end function
    function c_group_newest_after(group, after, timeout_ms, snapshots, capacity) result(status) bind(c,&
        & name='stillframe_group_newest_after')
      import
      type(c_ptr), value :: group
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      type(c_ptr), intent(out) :: snapshots(*)
      integer(c_int32_t), value :: capacity
      integer(c_int32_t) :: status
    end function
    function c_group_wait_newer(group, after, timeout_ms, version) result(status) bind(c, name='stillframe_group_wait_newer')
      import
      type(c_ptr), value :: group
      integer(c_int64_t), value :: after
      integer(c_int64_t), value :: timeout_ms
      integer(c_int64_t), intent(out) :: version
      integer(c_int32_t) :: status
    end function
    function c_group_ranks(group, out, capacity, count) result(status) bind(c, name='stillframe_group_ranks')
      import
      type(c_ptr), value :: group
      type(c_ptr), value :: out
      integer(c_int32_t), value :: capacity
      integer(c_int32_t), intent(out) :: count
      integer(c_int32_t) :: status
    end function
    function c_list(dir, visitor, context) result(status) bind(c, name='stillframe_list')
      import
      type(c_ptr), value :: dir
      type(c_funptr), value :: visitor
      type(c_ptr), value :: context
      integer(c_int32_t) :: status
    end function
    function c_remove_region(dir, name, force, freed_bytes) result(status) bind(c, name='stillframe_remove_region')
      import
      type(c_ptr), value :: dir
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int8_t), value :: force
      integer(c_int64_t), intent(out) :: freed_bytes
      integer(c_int32_t) :: status
    end function
    function c_collect(dir, removed) result(status) bind(c, name='stillframe_collect')
      import
      type(c_ptr), value :: dir
      integer(c_int32_t), intent(out) :: removed
      integer(c_int32_t) :: status
    end function
    function c_error_text() result(text) bind(c, name='stillframe_error_text')
      import
      type(c_ptr) :: text
    end function
    function c_status_name(status) result(text) bind(c, name='stillframe_status_name')
      import
      integer(c_int32_t), value :: status
      type(c_ptr) :: text
    end function
    function c_library_version() result(text) bind(c, name='stillframe_library_version')
      import
      type(c_ptr) :: text
    end function
    pure function c_strlen(text) result(length) bind(c, name='strlen')
      import
      type(c_ptr), intent(in), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  ! ---- errors -------------------------------------------------------------------------------------------------------

  ! Takes the status of a call of the library, unless something failed before.
  subroutine check(self, status)
    type(outcome), intent(inout) :: self
    integer(c_int32_t), intent(in) :: status

    if (self%status /= stillframe_ok .or. status == stillframe_ok) return
    self%status = int(status)
    self%text = text_at(c_error_text())
  end subroutine

  ! Fails for a reason found here, unless something failed before.
  subroutine refuse(self, status, text)
    type(outcome), intent(inout) :: self
    integer, intent(in) :: status
    character(*), intent(in) :: text

    if (self%status /= stillframe_ok) return
    self%status = status
    self%text = text
  end subroutine

  subroutine conclude(self, stat, errmsg)
    type(outcome), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg

    if (present(stat)) stat = self%status
    if (self%status == stillframe_ok) return
    if (present(errmsg)) errmsg = self%text
    if (.not. present(stat)) error stop 'stillframe: ' // self%text
  end subroutine

  ! Concludes a publish, or a part of one. Who gives stat tells it himself. Otherwise the program, which may have run for days, goes
  ! on without the version, and says why: each status once, until a version is published again, whatever published it. How many are
  ! not said is said at the end of the region.
  subroutine conclude_publish(o, region, what, stat, errmsg)
    type(outcome), intent(in) :: o
    class(stillframe_region), intent(inout) :: region
    character(*), intent(in) :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: newest
    integer :: ignored

    if (present(stat)) stat = o%status
    if (o%status == stillframe_ok) return
    if (present(errmsg)) errmsg = o%text
    if (present(stat)) return
    newest = region%newest_published(stat=ignored)
    if (.not. allocated(region%said)) region%said = [integer ::]
    if (newest > region%newest_when_said) region%said = [integer ::]
    region%newest_when_said = newest
    if (any(region%said == o%status)) then
      region%unsaid = region%unsaid + 1
      return
    end if
    region%said = [region%said, o%status]
    call say(what // ' of ' // called(region) // ' is not published, and the program goes on (this is said again after ' // &
      'one that is): ' // o%text)
  end subroutine

  ! Says at the end of a region how many publishes failed that nobody was told of.
  subroutine say_unsaid(region)
    class(stillframe_region), intent(inout) :: region

    if (region%unsaid > 0) call say('publishes of ' // called(region) // ' that failed for reasons that were said before: ' // &
      decimal(region%unsaid))
    region%unsaid = 0
    if (allocated(region%said)) deallocate (region%said)
  end subroutine

  ! What messages call a region.
  function called(region) result(name)
    class(stillframe_region), intent(in) :: region
    character(:), allocatable :: name

    name = 'a region that was not made'
    if (allocated(region%name)) name = "region '" // region%name // "'"
  end function

  ! Writes a line to the error unit, unless the environment asks for silence. Where nobody can read it, nothing is left to be told.
  subroutine say(text)
    character(*), intent(in) :: text
    integer :: ignored

    if (is_quiet()) return
    write (error_unit, '(a)', iostat=ignored) 'stillframe: ' // text
    flush (error_unit, iostat=ignored)
  end subroutine

  ! Notes what messages call a region that is about to be made: of a rank of a group its directory's name.
  subroutine call_it(region, name, rank)
    class(stillframe_region), intent(inout) :: region
    character(*), intent(in) :: name
    integer, intent(in), optional :: rank

    region%name = trim(name)
    if (present(rank)) region%name = region%name // '/' // decimal(int(rank, int64))
    region%newest_when_said = -1
    region%unsaid = 0
    if (allocated(region%said)) deallocate (region%said)
  end subroutine

  ! Whether the environment asks for silence.
  function is_quiet() result(is)
    logical :: is
    character(2) :: value
    integer :: status

    call get_environment_variable('STILLFRAME_QUIET', value, status=status)
    ! -1: it is longer.
    is = status == -1 .or. (status == 0 .and. value /= '' .and. value /= '0')
  end function

  ! ---- text and numbers ---------------------------------------------------------------------------------------------

  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)
    integer :: i

    if (.not. c_associated(address)) then
      text = ''
      return
    end if
    call c_f_pointer(address, bytes, [c_strlen(address)])
    allocate (character(size(bytes)) :: text)
    do i = 1, size(bytes)
      text(i:i) = bytes(i)
    end do
  end function

  ! Without trailing blanks, and ended as C wants it.
  pure function terminated(text) result(bytes)
    character(*), intent(in) :: text
    character(kind=c_char) :: bytes(len_trim(text) + 1)
    integer :: i

    do i = 1, len_trim(text)
      bytes(i) = text(i:i)
    end do
    bytes(len_trim(text) + 1) = c_null_char
  end function

  ! The same as memory that can be pointed to; not allocated, which C takes for NULL, if there is no text.
  subroutine set_terminated(bytes, text)
    character(kind=c_char), allocatable, intent(out) :: bytes(:)
    character(*), intent(in), optional :: text

    if (.not. present(text)) return
    allocate (bytes(len_trim(text) + 1))
    bytes(:) = terminated(text)
  end subroutine

  function address_of(bytes) result(address)
    character(kind=c_char), allocatable, target, intent(in) :: bytes(:)
    type(c_ptr) :: address

    address = c_null_ptr
    if (allocated(bytes)) address = c_loc(bytes)
  end function

  pure function decimal(number) result(text)
    integer(int64), intent(in) :: number
    character(:), allocatable :: text
    character(20) :: buffer

    write (buffer, '(i0)') number
    text = trim(buffer)
  end function

  pure function shape_text(shape) result(text)
    integer(c_size_t), intent(in) :: shape(:)
    character(:), allocatable :: text
    integer :: i

    text = '('
    do i = 1, size(shape)
      if (i > 1) text = text // ', '
      text = text // decimal(int(shape(i), int64))
    end do
    text = text // ')'
  end function

  pure function dtype_of_text(length) result(dtype)
    integer, intent(in) :: length
    character(:), allocatable :: dtype

    dtype = 'bytes' // decimal(int(length, int64))
  end function

  pure function order_of(row_major) result(order)
    logical, intent(in), optional :: row_major
    integer(c_int32_t) :: order

    order = stillframe_column_major
    if (present(row_major)) then
      if (row_major) order = stillframe_row_major
    end if
  end function

  ! ---- arrays -------------------------------------------------------------------------------------------------------

  function place_of(array) result(where)
    type(*), intent(in), target :: array(..)
    type(place) :: where

    where%address = c_loc(array)
    where%rank = rank(array)
    where%shape(1:where%rank) = shape(array, c_size_t)
    where%contiguous = is_contiguous(array)
  end function

  subroutine check_place(where, name, o)
    type(place), intent(in), target :: where
    character(*), intent(in) :: name
    type(outcome), intent(inout) :: o

    if (.not. c_associated(where%address)) then
      call refuse(o, stillframe_no_memory_there, "array '" // trim(name) // "' is not allocated or associated: allocate it")
    else if (any(where%shape(1:where%rank) < 0)) then
      call refuse(o, stillframe_wrong_shape, "array '" // trim(name) // &
        "' is a dummy of assumed size (*): pass a section that says where it ends, as a(1:n)")
    else if (.not. where%known) then
      call refuse(o, stillframe_not_contiguous, "array '" // trim(name) // "' is a component of records, or a part of " // &
        'complex numbers, of which this compiler does not say where it is: give the address of the first one, dtype, shape ' // &
        'and strides')
    else if (where%rank > stillframe_rank_max) then
      call refuse(o, stillframe_wrong_shape, "array '" // trim(name) // "' has more than 8 dimensions")
    end if
  end subroutine

  ! The same of an array that is to be read into.
  subroutine check_contiguous(where, name, o)
    type(place), intent(in), target :: where
    character(*), intent(in) :: name
    type(outcome), intent(inout) :: o

    call check_place(where, name, o)
    if (.not. where%contiguous) call refuse(o, stillframe_not_contiguous, "array '" // trim(name) // &
      "' is a section with gaps: read into a whole array, and copy from that")
  end subroutine

  ! Says how far elements are from each other that lie one behind the other, and are of a type that can be rounded.
  subroutine place_closely(where, dtype, order)
    type(place), intent(inout), target :: where
    character(*), intent(in) :: dtype
    integer(c_int32_t), intent(in) :: order
    integer(c_ptrdiff_t) :: distance
    integer :: i, dimension

    distance = merge(16, merge(8, 4, dtype == 'float64'), dtype == 'complex128')
    do i = 1, min(where%rank, stillframe_rank_max)
      dimension = merge(i, where%rank + 1 - i, order == stillframe_column_major)
      where%strides(dimension) = distance
      distance = distance * where%shape(dimension)
    end do
  end subroutine

  function number_of(array) result(number)
    type(*), intent(in), target :: array(..)
    integer(c_intptr_t) :: number

    number = transfer(c_loc(array), number)
  end function

  ! Finds how far neighbours are from each other along each dimension of an array that has elements.
  subroutine measure_1(array, where)
    class(*), intent(in), target :: array(:)
    type(place), intent(inout), target :: where
    integer(c_intptr_t) :: first

    first = number_of(array(1))
    ! A copy would be gone by the time it is looked at.
    where%known = first == transfer(where%address, first)
    if (size(array, 1) > 1) where%strides(1) = number_of(array(2)) - first
  end subroutine

  ! Finds how far neighbours are from each other along each dimension of an array that has elements.
  subroutine measure_2(array, where)
    class(*), intent(in), target :: array(:, :)
    type(place), intent(inout), target :: where
    integer(c_intptr_t) :: first

    first = number_of(array(1, 1))
    ! A copy would be gone by the time it is looked at.
    where%known = first == transfer(where%address, first)
    if (size(array, 1) > 1) where%strides(1) = number_of(array(2, 1)) - first
    if (size(array, 2) > 1) where%strides(2) = number_of(array(1, 2)) - first
  end subroutine

  ! Finds how far neighbours are from each other along each dimension of an array that has elements.
  subroutine measure_3(array, where)
    class(*), intent(in), target :: array(:, :, :)
    type(place), intent(inout), target :: where
    integer(c_intptr_t) :: first

    first = number_of(array(1, 1, 1))
    ! A copy would be gone by the time it is looked at.
    where%known = first == transfer(where%address, first)
    if (size(array, 1) > 1) where%strides(1) = number_of(array(2, 1, 1)) - first
    if (size(array, 2) > 1) where%strides(2) = number_of(array(1, 2, 1)) - first
    if (size(array, 3) > 1) where%strides(3) = number_of(array(1, 1, 2)) - first
  end subroutine

  ! Finds how far neighbours are from each other along each dimension of an array that has elements.
  subroutine measure_4(array, where)
    class(*), intent(in), target :: array(:, :, :, :)
    type(place), intent(inout), target :: where
    integer(c_intptr_t) :: first

    first = number_of(array(1, 1, 1, 1))
    ! A copy would be gone by the time it is looked at.
    where%known = first == transfer(where%address, first)
    if (size(array, 1) > 1) where%strides(1) = number_of(array(2, 1, 1, 1)) - first
    if (size(array, 2) > 1) where%strides(2) = number_of(array(1, 2, 1, 1)) - first
    if (size(array, 3) > 1) where%strides(3) = number_of(array(1, 1, 2, 1)) - first
    if (size(array, 4) > 1) where%strides(4) = number_of(array(1, 1, 1, 2)) - first
  end subroutine

  ! Finds how far neighbours are from each other along each dimension of an array that has elements.
  subroutine measure_5(array, where)
    class(*), intent(in), target :: array(:, :, :, :, :)
    type(place), intent(inout), target :: where
    integer(c_intptr_t) :: first

    first = number_of(array(1, 1, 1, 1, 1))
    ! A copy would be gone by the time it is looked at.
    where%known = first == transfer(where%address, first)
    if (size(array, 1) > 1) where%strides(1) = number_of(array(2, 1, 1, 1, 1)) - first
    if (size(array, 2) > 1) where%strides(2) = number_of(array(1, 2, 1, 1, 1)) - first
    if (size(array, 3) > 1) where%strides(3) = number_of(array(1, 1, 2, 1, 1)) - first
    if (size(array, 4) > 1) where%strides(4) = number_of(array(1, 1, 1, 2, 1)) - first
    if (size(array, 5) > 1) where%strides(5) = number_of(array(1, 1, 1, 1, 2)) - first
  end subroutine

  ! Finds how far neighbours are from each other along each dimension of an array that has elements.
  subroutine measure_6(array, where)
    class(*), intent(in), target :: array(:, :, :, :, :, :)
    type(place), intent(inout), target :: where
    integer(c_intptr_t) :: first

    first = number_of(array(1, 1, 1, 1, 1, 1))
    ! A copy would be gone by the time it is looked at.
    where%known = first == transfer(where%address, first)
    if (size(array, 1) > 1) where%strides(1) = number_of(array(2, 1, 1, 1, 1, 1)) - first
    if (size(array, 2) > 1) where%strides(2) = number_of(array(1, 2, 1, 1, 1, 1)) - first
    if (size(array, 3) > 1) where%strides(3) = number_of(array(1, 1, 2, 1, 1, 1)) - first
    if (size(array, 4) > 1) where%strides(4) = number_of(array(1, 1, 1, 2, 1, 1)) - first
    if (size(array, 5) > 1) where%strides(5) = number_of(array(1, 1, 1, 1, 2, 1)) - first
    if (size(array, 6) > 1) where%strides(6) = number_of(array(1, 1, 1, 1, 1, 2)) - first
  end subroutine

  ! Finds how far neighbours are from each other along each dimension of an array that has elements.
  subroutine measure_7(array, where)
    class(*), intent(in), target :: array(:, :, :, :, :, :, :)
    type(place), intent(inout), target :: where
    integer(c_intptr_t) :: first

    first = number_of(array(1, 1, 1, 1, 1, 1, 1))
    ! A copy would be gone by the time it is looked at.
    where%known = first == transfer(where%address, first)
    if (size(array, 1) > 1) where%strides(1) = number_of(array(2, 1, 1, 1, 1, 1, 1)) - first
    if (size(array, 2) > 1) where%strides(2) = number_of(array(1, 2, 1, 1, 1, 1, 1)) - first
    if (size(array, 3) > 1) where%strides(3) = number_of(array(1, 1, 2, 1, 1, 1, 1)) - first
    if (size(array, 4) > 1) where%strides(4) = number_of(array(1, 1, 1, 2, 1, 1, 1)) - first
    if (size(array, 5) > 1) where%strides(5) = number_of(array(1, 1, 1, 1, 2, 1, 1)) - first
    if (size(array, 6) > 1) where%strides(6) = number_of(array(1, 1, 1, 1, 1, 2, 1)) - first
    if (size(array, 7) > 1) where%strides(7) = number_of(array(1, 1, 1, 1, 1, 1, 2)) - first
  end subroutine

  subroutine compare(where, dimension, first, second)
    type(place), intent(inout), target :: where
    integer, intent(in) :: dimension
    integer(c_intptr_t), intent(in) :: first, second

    where%known = where%known .and. second - first == where%strides(dimension)
  end subroutine

  ! Where an array is that is looked at during this call only.
  function place_int8(array) result(where)
    integer(int8), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_int8(array) result(where)
    integer(int8), pointer, intent(in) :: array(..)
    type(place) :: where
    integer(int8), pointer :: p1(:)
    integer(int8), pointer :: p2(:, :)
    integer(int8), pointer :: p3(:, :, :)
    integer(int8), pointer :: p4(:, :, :, :)
    integer(int8), pointer :: p5(:, :, :, :, :)
    integer(int8), pointer :: p6(:, :, :, :, :, :)
    integer(int8), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_int16(array) result(where)
    integer(int16), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_int16(array) result(where)
    integer(int16), pointer, intent(in) :: array(..)
    type(place) :: where
    integer(int16), pointer :: p1(:)
    integer(int16), pointer :: p2(:, :)
    integer(int16), pointer :: p3(:, :, :)
    integer(int16), pointer :: p4(:, :, :, :)
    integer(int16), pointer :: p5(:, :, :, :, :)
    integer(int16), pointer :: p6(:, :, :, :, :, :)
    integer(int16), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_int32(array) result(where)
    integer(int32), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_int32(array) result(where)
    integer(int32), pointer, intent(in) :: array(..)
    type(place) :: where
    integer(int32), pointer :: p1(:)
    integer(int32), pointer :: p2(:, :)
    integer(int32), pointer :: p3(:, :, :)
    integer(int32), pointer :: p4(:, :, :, :)
    integer(int32), pointer :: p5(:, :, :, :, :)
    integer(int32), pointer :: p6(:, :, :, :, :, :)
    integer(int32), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_int64(array) result(where)
    integer(int64), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_int64(array) result(where)
    integer(int64), pointer, intent(in) :: array(..)
    type(place) :: where
    integer(int64), pointer :: p1(:)
    integer(int64), pointer :: p2(:, :)
    integer(int64), pointer :: p3(:, :, :)
    integer(int64), pointer :: p4(:, :, :, :)
    integer(int64), pointer :: p5(:, :, :, :, :)
    integer(int64), pointer :: p6(:, :, :, :, :, :)
    integer(int64), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_real32(array) result(where)
    real(real32), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_real32(array) result(where)
    real(real32), pointer, intent(in) :: array(..)
    type(place) :: where
    real(real32), pointer :: p1(:)
    real(real32), pointer :: p2(:, :)
    real(real32), pointer :: p3(:, :, :)
    real(real32), pointer :: p4(:, :, :, :)
    real(real32), pointer :: p5(:, :, :, :, :)
    real(real32), pointer :: p6(:, :, :, :, :, :)
    real(real32), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_real64(array) result(where)
    real(real64), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_real64(array) result(where)
    real(real64), pointer, intent(in) :: array(..)
    type(place) :: where
    real(real64), pointer :: p1(:)
    real(real64), pointer :: p2(:, :)
    real(real64), pointer :: p3(:, :, :)
    real(real64), pointer :: p4(:, :, :, :)
    real(real64), pointer :: p5(:, :, :, :, :)
    real(real64), pointer :: p6(:, :, :, :, :, :)
    real(real64), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_complex32(array) result(where)
    complex(real32), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_complex32(array) result(where)
    complex(real32), pointer, intent(in) :: array(..)
    type(place) :: where
    complex(real32), pointer :: p1(:)
    complex(real32), pointer :: p2(:, :)
    complex(real32), pointer :: p3(:, :, :)
    complex(real32), pointer :: p4(:, :, :, :)
    complex(real32), pointer :: p5(:, :, :, :, :)
    complex(real32), pointer :: p6(:, :, :, :, :, :)
    complex(real32), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_complex64(array) result(where)
    complex(real64), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_complex64(array) result(where)
    complex(real64), pointer, intent(in) :: array(..)
    type(place) :: where
    complex(real64), pointer :: p1(:)
    complex(real64), pointer :: p2(:, :)
    complex(real64), pointer :: p3(:, :, :)
    complex(real64), pointer :: p4(:, :, :, :)
    complex(real64), pointer :: p5(:, :, :, :, :)
    complex(real64), pointer :: p6(:, :, :, :, :, :)
    complex(real64), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_bool(array) result(where)
    logical(c_bool), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_bool(array) result(where)
    logical(c_bool), pointer, intent(in) :: array(..)
    type(place) :: where
    logical(c_bool), pointer :: p1(:)
    logical(c_bool), pointer :: p2(:, :)
    logical(c_bool), pointer :: p3(:, :, :)
    logical(c_bool), pointer :: p4(:, :, :, :)
    logical(c_bool), pointer :: p5(:, :, :, :, :)
    logical(c_bool), pointer :: p6(:, :, :, :, :, :)
    logical(c_bool), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_logical(array) result(where)
    logical, intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_logical(array) result(where)
    logical, pointer, intent(in) :: array(..)
    type(place) :: where
    logical, pointer :: p1(:)
    logical, pointer :: p2(:, :)
    logical, pointer :: p3(:, :, :)
    logical, pointer :: p4(:, :, :, :)
    logical, pointer :: p5(:, :, :, :, :)
    logical, pointer :: p6(:, :, :, :, :, :)
    logical, pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Where an array is that is looked at during this call only.
  function place_text(array) result(where)
    character(*), intent(in), target :: array(..)
    type(place) :: where

    where = place_of(array)
    if (where%contiguous .or. any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      call measure_1(array, where)
    rank (2)
      call measure_2(array, where)
    rank (3)
      call measure_3(array, where)
    rank (4)
      call measure_4(array, where)
    rank (5)
      call measure_5(array, where)
    rank (6)
      call measure_6(array, where)
    rank (7)
      call measure_7(array, where)
    end select
  end function

  ! Where the target of a pointer is. A pointer to a component of an array of records has gaps of any size, which gfortran takes
  ! for gaps of whole elements elsewhere, and it points to the first component of the records instead. So the distances that
  ! the pointer has are held against those of an array that is made of it.
  function target_text(array) result(where)
    character(*), pointer, intent(in) :: array(..)
    type(place) :: where
    character(len(array)), pointer :: p1(:)
    character(len(array)), pointer :: p2(:, :)
    character(len(array)), pointer :: p3(:, :, :)
    character(len(array)), pointer :: p4(:, :, :, :)
    character(len(array)), pointer :: p5(:, :, :, :, :)
    character(len(array)), pointer :: p6(:, :, :, :, :, :)
    character(len(array)), pointer :: p7(:, :, :, :, :, :, :)
    integer(c_intptr_t) :: first

    if (.not. associated(array)) return
    where = place_of(array)
    if (any(where%shape(1:where%rank) <= 0)) return
    select rank (array)
    rank (1)
      p1(1:) => array
      call measure_1(p1, where)
      first = number_of(p1(1))
      if (size(p1, 1) > 1) call compare(where, 1, first, number_of(p1(2)))
    rank (2)
      p2(1:, 1:) => array
      call measure_2(p2, where)
      first = number_of(p2(1, 1))
      if (size(p2, 1) > 1) call compare(where, 1, first, number_of(p2(2, 1)))
      if (size(p2, 2) > 1) call compare(where, 2, first, number_of(p2(1, 2)))
    rank (3)
      p3(1:, 1:, 1:) => array
      call measure_3(p3, where)
      first = number_of(p3(1, 1, 1))
      if (size(p3, 1) > 1) call compare(where, 1, first, number_of(p3(2, 1, 1)))
      if (size(p3, 2) > 1) call compare(where, 2, first, number_of(p3(1, 2, 1)))
      if (size(p3, 3) > 1) call compare(where, 3, first, number_of(p3(1, 1, 2)))
    rank (4)
      p4(1:, 1:, 1:, 1:) => array
      call measure_4(p4, where)
      first = number_of(p4(1, 1, 1, 1))
      if (size(p4, 1) > 1) call compare(where, 1, first, number_of(p4(2, 1, 1, 1)))
      if (size(p4, 2) > 1) call compare(where, 2, first, number_of(p4(1, 2, 1, 1)))
      if (size(p4, 3) > 1) call compare(where, 3, first, number_of(p4(1, 1, 2, 1)))
      if (size(p4, 4) > 1) call compare(where, 4, first, number_of(p4(1, 1, 1, 2)))
    rank (5)
      p5(1:, 1:, 1:, 1:, 1:) => array
      call measure_5(p5, where)
      first = number_of(p5(1, 1, 1, 1, 1))
      if (size(p5, 1) > 1) call compare(where, 1, first, number_of(p5(2, 1, 1, 1, 1)))
      if (size(p5, 2) > 1) call compare(where, 2, first, number_of(p5(1, 2, 1, 1, 1)))
      if (size(p5, 3) > 1) call compare(where, 3, first, number_of(p5(1, 1, 2, 1, 1)))
      if (size(p5, 4) > 1) call compare(where, 4, first, number_of(p5(1, 1, 1, 2, 1)))
      if (size(p5, 5) > 1) call compare(where, 5, first, number_of(p5(1, 1, 1, 1, 2)))
    rank (6)
      p6(1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_6(p6, where)
      first = number_of(p6(1, 1, 1, 1, 1, 1))
      if (size(p6, 1) > 1) call compare(where, 1, first, number_of(p6(2, 1, 1, 1, 1, 1)))
      if (size(p6, 2) > 1) call compare(where, 2, first, number_of(p6(1, 2, 1, 1, 1, 1)))
      if (size(p6, 3) > 1) call compare(where, 3, first, number_of(p6(1, 1, 2, 1, 1, 1)))
      if (size(p6, 4) > 1) call compare(where, 4, first, number_of(p6(1, 1, 1, 2, 1, 1)))
      if (size(p6, 5) > 1) call compare(where, 5, first, number_of(p6(1, 1, 1, 1, 2, 1)))
      if (size(p6, 6) > 1) call compare(where, 6, first, number_of(p6(1, 1, 1, 1, 1, 2)))
    rank (7)
      p7(1:, 1:, 1:, 1:, 1:, 1:, 1:) => array
      call measure_7(p7, where)
      first = number_of(p7(1, 1, 1, 1, 1, 1, 1))
      if (size(p7, 1) > 1) call compare(where, 1, first, number_of(p7(2, 1, 1, 1, 1, 1, 1)))
      if (size(p7, 2) > 1) call compare(where, 2, first, number_of(p7(1, 2, 1, 1, 1, 1, 1)))
      if (size(p7, 3) > 1) call compare(where, 3, first, number_of(p7(1, 1, 2, 1, 1, 1, 1)))
      if (size(p7, 4) > 1) call compare(where, 4, first, number_of(p7(1, 1, 1, 2, 1, 1, 1)))
      if (size(p7, 5) > 1) call compare(where, 5, first, number_of(p7(1, 1, 1, 1, 2, 1, 1)))
      if (size(p7, 6) > 1) call compare(where, 6, first, number_of(p7(1, 1, 1, 1, 1, 2, 1)))
      if (size(p7, 7) > 1) call compare(where, 7, first, number_of(p7(1, 1, 1, 1, 1, 1, 2)))
    end select
  end function

  ! Points to memory; nowhere if there is none.
  subroutine aim_int8(array, address, extents, lower)
    integer(int8), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_int16(array, address, extents, lower)
    integer(int16), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_int32(array, address, extents, lower)
    integer(int32), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_int64(array, address, extents, lower)
    integer(int64), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_real32(array, address, extents, lower)
    real(real32), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_real64(array, address, extents, lower)
    real(real64), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_complex32(array, address, extents, lower)
    complex(real32), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_complex64(array, address, extents, lower)
    complex(real64), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_bool(array, address, extents, lower)
    logical(c_bool), pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! Points to memory; nowhere if there is none.
  subroutine aim_logical(array, address, extents, lower)
    logical, pointer, intent(out) :: array(..)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: lower(:)

    select rank (array)
    rank (0)
      array => null()
      if (c_associated(address)) call c_f_pointer(address, array)
    rank (1)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:1))
      if (present(lower)) array(lower(1):) => array
    rank (2)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:2))
      if (present(lower)) array(lower(1):, lower(2):) => array
    rank (3)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:3))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):) => array
    rank (4)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:4))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):) => array
    rank (5)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:5))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):) => array
    rank (6)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:6))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):) => array
    rank (7)
      array => null()
      if (.not. c_associated(address)) return
      call c_f_pointer(address, array, extents(1:7))
      if (present(lower)) array(lower(1):, lower(2):, lower(3):, lower(4):, lower(5):, lower(6):, lower(7):) => array
    end select
  end subroutine

  ! ---- arenas -------------------------------------------------------------------------------------------------------

  ! Makes an arena of so many bytes, rounded up to whole chunks of 2 MiB, for so many regions at most (4096), or opens the one of
  ! this name that is there. Memory is taken as regions need it. With large_pages such are asked for where the file system has
  ! small ones; with mode=int(o'770') the group may make regions too.
  subroutine arena_create(self, name, bytes, regions, dir, mode, large_pages, trust, stat, errmsg)
    class(stillframe_arena), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), intent(in) :: bytes
    integer, intent(in), optional :: regions
    integer, intent(in), optional :: mode
    logical, intent(in), optional :: large_pages
    character(*), intent(in), optional :: dir
    character(*), intent(in), optional :: trust
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:)
    character(kind=c_char), allocatable, target :: c_trust(:)
    type(c_arena_options) :: options
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    options%dir = address_of(c_dir)
    call set_terminated(c_trust, trust)
    options%trust = address_of(c_trust)
    options%bytes = bytes
    if (present(mode)) options%mode = int(mode, c_int32_t)
    if (present(regions)) options%regions = int(regions, c_int32_t)
    if (present(large_pages)) options%flags = ior(options%flags, merge(arena_large_pages, 0_c_int32_t, large_pages))
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "arena '" // trim(name) // "': this variable has an arena already: close that first, or use another variable")
    if (o%status == stillframe_ok) call check(o, c_arena_create(terminated(name), options, &
      self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Opens an arena that is there, for regions to be made in it, or with look=.true. to look only, which takes no right to write.
  subroutine arena_open(self, name, look, dir, large_pages, trust, stat, errmsg)
    class(stillframe_arena), intent(inout) :: self
    character(*), intent(in) :: name
    logical, intent(in), optional :: look
    logical, intent(in), optional :: large_pages
    character(*), intent(in), optional :: dir
    character(*), intent(in), optional :: trust
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:)
    character(kind=c_char), allocatable, target :: c_trust(:)
    type(c_arena_options) :: options
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    options%dir = address_of(c_dir)
    call set_terminated(c_trust, trust)
    options%trust = address_of(c_trust)
    if (present(look)) options%flags = ior(options%flags, merge(arena_look, 0_c_int32_t, look))
    if (present(large_pages)) options%flags = ior(options%flags, merge(arena_large_pages, 0_c_int32_t, large_pages))
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "arena '" // trim(name) // "': this variable has an arena already: close that first, or use another variable")
    if (o%status == stillframe_ok) call check(o, c_arena_open(terminated(name), options, &
      self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Opens an arena over a file that was handed in as a descriptor, or makes one there if it is empty, with so many bytes. The
  ! descriptor stays the program's; `name` is what messages call the arena. Its regions and groups are opened with arena=.
  subroutine arena_from_descriptor(self, descriptor, name, bytes, regions, large_pages, trust, stat, errmsg)
    class(stillframe_arena), intent(inout) :: self
    integer, intent(in) :: descriptor
    character(*), intent(in) :: name
    integer(int64), intent(in), optional :: bytes
    integer, intent(in), optional :: regions
    logical, intent(in), optional :: large_pages
    character(*), intent(in), optional :: trust
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_trust(:)
    type(c_arena_options) :: options
    type(outcome) :: o

    call set_terminated(c_trust, trust)
    options%trust = address_of(c_trust)
    if (present(bytes)) options%bytes = bytes
    if (present(regions)) options%regions = int(regions, c_int32_t)
    if (present(large_pages)) options%flags = ior(options%flags, merge(arena_large_pages, 0_c_int32_t, large_pages))
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "arena '" // trim(name) // "': this variable has an arena already: close that first, or use another variable")
    if (o%status == stillframe_ok) call check(o, c_arena_from_descriptor(int(descriptor, c_int32_t), terminated(name), options, &
      self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  ! The handle of an arena that is open. One that is not must not pass for none.
  function handle_of(arena, o) result(handle)
    type(stillframe_arena), intent(in) :: arena
    type(outcome), intent(inout) :: o
    type(c_ptr) :: handle

    handle = arena%handle
    if (.not. c_associated(handle)) call refuse(o, stillframe_bad_handle, &
      'the arena is not open: was it made, and did that succeed?')
  end function

  ! Who has how much of it.
  subroutine arena_usage(self, usage, stat, errmsg)
    class(stillframe_arena), intent(in) :: self
    type(stillframe_arena_usage), intent(out) :: usage
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_arena_usage) :: c
    type(arena_region_list), target :: list
    type(outcome) :: o

    allocate (list%regions(0))
    call check(o, c_arena_usage_of(self%handle, c))
    if (o%status == stillframe_ok) call check(o, c_arena_regions(self%handle, c_funloc(add_arena_region), c_loc(list)))
    if (o%status == stillframe_ok) then
      usage%bytes = c%bytes
      usage%tables_bytes = c%tables_bytes
      usage%free_bytes = c%free_bytes
      usage%free_chunks = int(c%free_chunks)
      usage%small_chunks = int(c%small_chunks)
      usage%regions_max = int(c%regions_max)
    end if
    call move_alloc(list%regions, usage%regions)
    call conclude(o, stat, errmsg)
  end subroutine

  function add_arena_region(context, c) result(on) bind(c, name='')
    type(c_ptr), value :: context
    type(c_arena_region), intent(in) :: c
    integer(c_int8_t) :: on
    type(arena_region_list), pointer :: list
    type(stillframe_arena_region) :: region

    call c_f_pointer(context, list)
    region%name = text_at(c%name)
    region%bytes = c%bytes
    region%removed = c%removed /= 0
    list%regions = [list%regions, region]
    on = yes
  end function

  ! Ends the use of the arena by this variable. Its regions and their observers go on, and its files stay.
  subroutine arena_close(self, stat, errmsg)
    class(stillframe_arena), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_arena_close(self%handle))
    if (o%status /= stillframe_busy .and. o%status /= stillframe_forked) self%handle = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! ---- regions ------------------------------------------------------------------------------------------------------

  ! How a region is made, as C wants it. An option that is left out is the library's default.
  subroutine take_options(options, c_dir, c_tracker, c_copy_unit, c_memory_unit, c_trust, name, handle, o, &
      rank, ranks, keep, rule, wait_ms, bound_bytes, threads, dir, mode, tracker, drift, large_pages, demotion, copy_unit,&
          & memory_unit, trust, arena)
    type(c_region_options), intent(out) :: options
    character(kind=c_char), allocatable, target, intent(out) :: c_dir(:), c_tracker(:), c_copy_unit(:), c_memory_unit(:), c_trust(:)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: handle
    type(outcome), intent(inout) :: o
    integer, intent(in), optional :: rank, ranks, keep, rule, wait_ms, threads, mode, drift
    logical, intent(in), optional :: large_pages, demotion
    integer(int64), intent(in), optional :: bound_bytes
    character(*), intent(in), optional :: dir, tracker, copy_unit, memory_unit, trust
    type(stillframe_arena), intent(in), optional :: arena

    call set_terminated(c_dir, dir)
    call set_terminated(c_tracker, tracker)
    call set_terminated(c_copy_unit, copy_unit)
    call set_terminated(c_memory_unit, memory_unit)
    call set_terminated(c_trust, trust)
    options%dir = address_of(c_dir)
    options%tracker = address_of(c_tracker)
    options%copy_unit = address_of(c_copy_unit)
    options%memory_unit = address_of(c_memory_unit)
    options%trust = address_of(c_trust)
    if (present(arena)) options%arena = handle_of(arena, o)
    if (present(bound_bytes)) options%bound_bytes = bound_bytes
    if (present(wait_ms)) options%wait_ms = wait_ms
    if (present(rank)) options%rank = int(rank, c_int32_t)
    if (present(ranks)) options%ranks = int(ranks, c_int32_t)
    if (present(keep)) options%keep = int(keep, c_int32_t)
    if (present(rule)) options%rule = int(rule, c_int32_t)
    if (present(threads)) options%threads = int(threads, c_int32_t)
    if (present(mode)) options%mode = int(mode, c_int32_t)
    if (present(drift)) options%drift = int(drift, c_int32_t)
    if (present(rank) .neqv. present(ranks)) call refuse(o, stillframe_bad_option, 'rank and ranks go together')
    if (present(large_pages)) options%flags = ior(options%flags, merge(0_c_int32_t, no_large_pages, large_pages))
    if (present(demotion)) options%flags = ior(options%flags, merge(0_c_int32_t, no_demotion, demotion))
    if (c_associated(handle)) call refuse(o, stillframe_bad_argument, &
      "region '" // trim(name) // "': this variable has a region already: close that first, or use another variable")
  end subroutine

  ! Creates a region, or recovers what the last run left under its name; with fresh=.true. what it left is removed first, or
  ! set aside as NAME~1 if that run did not end by itself.
  ! With ranks, this is rank `rank` (from 0) of a group of so many; with rollback, versions above that one are dropped from
  ! what the last run left. Directories and files of other users are refused unless trust says 'user:NUMBER', 'group:NUMBER'
  ! or 'any'. With arena, the region lies in that instead of a directory of its own, and observers find it as ARENA/NAME. An
  ! option that is left out is the library's default.
  subroutine region_create(self, name, rank, ranks, fresh, keep, rule, wait_ms, bound_bytes, threads, dir, mode, tracker, &
      drift, rollback, large_pages, demotion, copy_unit, memory_unit, trust, arena, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(in), optional :: rank, ranks, keep, rule, wait_ms, threads, mode, drift
    logical, intent(in), optional :: large_pages, demotion
    integer(int64), intent(in), optional :: bound_bytes
    character(*), intent(in), optional :: dir, tracker, copy_unit, memory_unit, trust
    type(stillframe_arena), intent(in), optional :: arena
    logical, intent(in), optional :: fresh
    integer(int64), intent(in), optional :: rollback
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_region_options) :: options
    character(kind=c_char), allocatable, target :: c_dir(:), c_tracker(:), c_copy_unit(:), c_memory_unit(:), c_trust(:)
    type(outcome) :: o

    call take_options(options, c_dir, c_tracker, c_copy_unit, c_memory_unit, c_trust, name, self%handle, o, &
      rank, ranks, keep, rule, wait_ms, bound_bytes, threads, dir, mode, tracker, drift, large_pages, demotion, copy_unit,&
          & memory_unit, trust, arena)
    if (present(fresh)) options%flags = ior(options%flags, merge(fresh_flag, 0_c_int32_t, fresh))
    if (present(rollback)) then
      options%flags = ior(options%flags, rollback_flag)
      options%rollback = rollback
    end if
    if (o%status == stillframe_ok) call call_it(self, name, rank)
    if (o%status == stillframe_ok) call check(o, c_create(terminated(name), options, self%handle))
    if (o%status == stillframe_ok) self%entries = [entry ::]
    call conclude(o, stat, errmsg)
  end subroutine

  ! Creates a region that begins with what the last run left in memory, or if that is gone or older with its newest good
  ! checkpoint in the directory `checkpoints`, else with nothing; origin says which. Arrays of the region (array) that are
  ! declared with the same name, type, shape and part then have their content; `read` reads it into other arrays. The ranks
  ! of a group all begin with the same version: the newest, or `version`. The other options are those of create.
  subroutine region_recover(self, name, checkpoints, version, rank, ranks, origin, keep, rule, wait_ms, bound_bytes, threads, &
      dir, mode, tracker, drift, large_pages, demotion, copy_unit, memory_unit, trust, arena, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    character(*), intent(in), optional :: checkpoints
    integer(int64), intent(in), optional :: version
    type(stillframe_origin), intent(out), optional :: origin
    integer, intent(in), optional :: rank, ranks, keep, rule, wait_ms, threads, mode, drift
    logical, intent(in), optional :: large_pages, demotion
    integer(int64), intent(in), optional :: bound_bytes
    character(*), intent(in), optional :: dir, tracker, copy_unit, memory_unit, trust
    type(stillframe_arena), intent(in), optional :: arena
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_recovery_options) :: options
    type(c_origin) :: c
    character(kind=c_char), allocatable, target :: c_dir(:), c_tracker(:), c_copy_unit(:), c_memory_unit(:), c_trust(:), &
      c_checkpoints(:)
    type(outcome) :: o

    call take_options(options%region, c_dir, c_tracker, c_copy_unit, c_memory_unit, c_trust, name, self%handle, o, &
      rank, ranks, keep, rule, wait_ms, bound_bytes, threads, dir, mode, tracker, drift, large_pages, demotion, copy_unit,&
          & memory_unit, trust, arena)
    call set_terminated(c_checkpoints, checkpoints)
    options%checkpoints = address_of(c_checkpoints)
    if (present(version)) then
      options%has_version = 1
      options%version = version
    end if
    if (o%status == stillframe_ok) call call_it(self, name, rank)
    if (o%status == stillframe_ok) call check(o, c_recover(terminated(name), options, self%handle, c))
    if (o%status == stillframe_ok) then
      self%entries = [entry ::]
      if (present(origin)) then
        origin%kind = int(c%kind)
        if (origin%kind /= stillframe_origin_fresh) origin%version = c%version
        origin%path = text_at(c%path)
        origin%sentence = text_at(c%sentence)
        origin%skipped = text_at(c%skipped)
      end if
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! Ends producing. The region's files stay, with its newest version; memory of managed variables goes.
  subroutine region_close(self, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_close(self%handle))
    ! Whatever else fails, the handle has ended, or never was one.
    if (o%status /= stillframe_busy .and. o%status /= stillframe_forked) then
      self%handle = c_null_ptr
      if (allocated(self%entries)) deallocate (self%entries)
      call say_unsaid(self)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! Ends producing and removes the region's files.
  subroutine region_unlink(self, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_unlink(self%handle))
    ! Whatever else fails, the handle has ended, or never was one.
    if (o%status /= stillframe_busy .and. o%status /= stillframe_forked) then
      self%handle = c_null_ptr
      if (allocated(self%entries)) deallocate (self%entries)
      call say_unsaid(self)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The version recovered from the last run, or -1 if there is none.
  function region_recovered(self, stat, errmsg) result(version)
    class(stillframe_region), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: version
    integer(c_int8_t) :: found
    type(outcome) :: o

    found = no
    call check(o, c_recovered(self%handle, found, version))
    if (found == no) version = -1
    call conclude(o, stat, errmsg)
  end function

  ! The newest version, or -1 if there is none.
  function region_newest_published(self, stat, errmsg) result(version)
    class(stillframe_region), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: version
    integer(c_int8_t) :: found
    type(outcome) :: o

    found = no
    call check(o, c_newest_published(self%handle, found, version))
    if (found == no) version = -1
    call conclude(o, stat, errmsg)
  end function

  ! The name of the tracker in use.
  function region_tracker(self, stat, errmsg) result(name)
    class(stillframe_region), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(:), allocatable :: name
    type(c_ptr) :: text
    type(outcome) :: o

    text = c_null_ptr
    call check(o, c_tracker(self%handle, text))
    name = text_at(text)
    call conclude(o, stat, errmsg)
  end function

  subroutine region_statistics(self, statistics, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    type(stillframe_statistics), intent(out) :: statistics
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_statistics) :: c
    type(outcome) :: o

    call check(o, c_statistics_of(self%handle, c))
    if (o%status == stillframe_ok) statistics = stillframe_statistics(c%published, c%skipped, c%dirty_pages, &
      c%copied_pages, c%total_pages, c%plane_bytes, c%working_bytes, c%publish_seconds)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Adds a variable that track or publish will bring the array of: only needed to say its units and attributes, and which
  ! part of a global array it is, beginning at `offset` (counted from 0) in an array of shape `global_shape` that all ranks
  ! have together.
  subroutine region_declare(self, name, dtype, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: at
    type(outcome) :: o

    call add(self, name, dtype, tracked, int([integer ::], c_size_t), int(stillframe_column_major, c_int32_t), units, &
      attributes, offset, global_shape, at, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! The entry of a variable; 0 if there is none.
  pure function find(self, name) result(at)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer :: at

    if (allocated(self%entries)) then
      do at = 1, size(self%entries)
        if (self%entries(at)%name == name) return
      end do
    end if
    at = 0
  end function

  subroutine find_known(self, name, at, o)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out) :: at
    type(outcome), intent(inout) :: o

    at = find(self, name)
    if (at == 0) call refuse(o, stillframe_unknown_variable, "the region has no variable '" // trim(name) // "'")
  end subroutine

  subroutine add(self, name, dtype, kind, shape, order, units, attributes, offset, global_shape, at, o)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    integer(c_int32_t), intent(in) :: kind, order
    integer(c_size_t), intent(in) :: shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out) :: at
    type(outcome), intent(inout) :: o
    type :: strings
      character(kind=c_char), allocatable :: name(:), text(:)
    end type
    character(kind=c_char), allocatable, target :: c_name(:), c_dtype(:), c_units(:)
    integer(c_size_t), target :: c_shape(15)
    integer(c_size_t), allocatable, target :: c_offset(:), c_global_shape(:)
    type(strings), allocatable, target :: texts(:)
    type(c_attribute), allocatable, target :: c_attributes(:)
    type(c_declaration) :: declaration
    type(entry) :: new
    integer :: i, count

    at = 0
    if (o%status /= stillframe_ok) return
    call set_terminated(c_name, name)
    call set_terminated(c_dtype, dtype)
    call set_terminated(c_units, units)
    declaration%name = address_of(c_name)
    declaration%dtype = address_of(c_dtype)
    declaration%units = address_of(c_units)
    declaration%kind = kind
    declaration%order = order
    declaration%rank = size(shape)
    c_shape(1:size(shape)) = shape
    declaration%shape = c_loc(c_shape)
    count = 0
    if (present(attributes)) count = size(attributes)
    allocate (texts(count), c_attributes(count))
    do i = 1, count
      call set_terminated(texts(i)%name, attributes(i)%name)
      c_attributes(i)%name = address_of(texts(i)%name)
      c_attributes(i)%type = attributes(i)%type
      c_attributes(i)%integer = attributes(i)%integer
      c_attributes(i)%real = attributes(i)%real
      if (allocated(attributes(i)%text)) call set_terminated(texts(i)%text, attributes(i)%text)
      c_attributes(i)%text = address_of(texts(i)%text)
    end do
    declaration%attribute_count = count
    if (present(offset) .or. present(global_shape)) then
      call take_part(name, offset, global_shape, c_offset, c_global_shape, o)
      if (o%status /= stillframe_ok) return
      if (kind /= tracked) call check_dimensions(name, c_offset, shape, o)
      if (o%status /= stillframe_ok) return
      declaration%rank = size(c_offset)
      declaration%offset = c_loc(c_offset)
      declaration%global_shape = c_loc(c_global_shape)
    end if
    if (count > 0) declaration%attributes = c_loc(c_attributes)
    call check(o, c_declare(self%handle, declaration, new%variable))
    if (o%status /= stillframe_ok) return
    new%name = trim(name)
    new%dtype = trim(dtype)
    new%kind = kind
    new%shape = shape
    if (allocated(c_offset)) then
      new%offset = c_offset
      new%global_shape = c_global_shape
    end if
    if (.not. allocated(self%entries)) self%entries = [entry ::]
    self%entries = [self%entries, new]
    at = size(self%entries)
  end subroutine

  ! Which part of a global array a variable is, as C wants it.
  subroutine take_part(name, offset, global_shape, c_offset, c_global_shape, o)
    character(*), intent(in) :: name
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer(c_size_t), allocatable, intent(out) :: c_offset(:), c_global_shape(:)
    type(outcome), intent(inout) :: o

    if (.not. present(offset) .or. .not. present(global_shape)) then
      call refuse(o, stillframe_bad_argument, "variable '" // trim(name) // "': offset and global_shape go together")
      return
    end if
    c_offset = int(offset, c_size_t)
    c_global_shape = int(global_shape, c_size_t)
    if (size(offset) /= size(global_shape) .or. size(offset) > stillframe_rank_max .or. any(offset < 0) &
      .or. any(global_shape < 0)) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "': offset " // &
      shape_text(c_offset) // ' and global shape ' // shape_text(c_global_shape) // &
      ' have other numbers of dimensions, too many, or one that is negative')
  end subroutine

  subroutine check_dimensions(name, offset, shape, o)
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: offset(:), shape(:)
    type(outcome), intent(inout) :: o

    if (size(offset) /= size(shape)) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "': offset " // &
      shape_text(offset) // ' does not have the dimensions of shape ' // shape_text(shape))
  end subroutine

  ! Checks that a part given for a variable is the one that it has.
  subroutine check_part(known, offset, global_shape, o)
    type(entry), intent(in) :: known
    integer, intent(in), optional :: offset(:), global_shape(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: c_offset(:), c_global_shape(:)
    character(:), allocatable :: has

    if (.not. present(offset) .and. .not. present(global_shape)) return
    call take_part(known%name, offset, global_shape, c_offset, c_global_shape, o)
    if (o%status /= stillframe_ok) return
    has = 'no part of a global array'
    if (allocated(known%offset)) then
      if (same_shape(known%offset, c_offset) .and. same_shape(known%global_shape, c_global_shape)) return
      has = 'the part at ' // shape_text(known%offset) // ' in ' // shape_text(known%global_shape)
    end if
    call refuse(o, stillframe_variable_exists, "variable '" // known%name // "' is declared as " // has // &
      ', and given as the one at ' // shape_text(c_offset) // ' in ' // shape_text(c_global_shape) // &
      ': repart makes it another one')
  end subroutine

  ! The entry of a tracked variable that an array is to be shown as, declared if it is new.
  subroutine find_or_add(self, name, dtype, where, order, units, attributes, offset, global_shape, at, o)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    type(place), intent(in), target :: where
    integer(c_int32_t), intent(in) :: order
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out) :: at
    type(outcome), intent(inout) :: o

    at = 0
    call check_place(where, name, o)
    if (o%status /= stillframe_ok) return
    at = find(self, name)
    if (at == 0) then
      call add(self, name, dtype, tracked, where%shape(1:0), order, units, attributes, offset, global_shape, at, o)
    else if (self%entries(at)%dtype /= dtype) then
      call refuse(o, stillframe_wrong_dtype, "variable '" // trim(name) // "' is of " // self%entries(at)%dtype // &
        ', and this array of ' // trim(dtype))
    else
      call check_part(self%entries(at), offset, global_shape, o)
    end if
  end subroutine

  ! Tells the region where a tracked variable is from now on, whose elements are of `dtype` in memory.
  subroutine follow(self, name, dtype, where, order, as, units, attributes, offset, global_shape, o)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    character(*), intent(in), optional :: as
    type(place), intent(in), target :: where
    integer(c_int32_t), intent(in) :: order
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    type(outcome), intent(inout) :: o
    character(kind=c_char), allocatable, target :: c_dtype(:)
    character(:), allocatable :: shown
    integer :: at

    shown = dtype
    if (present(as)) shown = trim(as)
    if (shown /= dtype .and. .not. can_be_rounded(dtype, shown)) call refuse(o, stillframe_bad_argument, "variable '" // &
      trim(name) // "': elements of " // dtype // " cannot be shown as '" // shown // "': float64 can as float32, float16 " // &
      'and bfloat16, float32 as the last two, and complex128 as complex64')
    call find_or_add(self, name, shown, where, order, units, attributes, offset, global_shape, at, o)
    if (o%status /= stillframe_ok) return
    if (where%contiguous .and. shown == dtype) then
      call check(o, c_track_at(self%handle, self%entries(at)%variable, int(where%rank, c_int32_t), where%shape, order, &
        where%address))
    else
      call set_terminated(c_dtype, dtype)
      call check(o, c_track_section(self%handle, self%entries(at)%variable, int(where%rank, c_int32_t), where%shape, &
        where%strides, address_of(c_dtype), order, where%address))
    end if
  end subroutine

  ! Whether elements of a type can be shown as another one.
  pure function can_be_rounded(dtype, shown) result(can)
    character(*), intent(in) :: dtype, shown
    logical :: can

    select case (dtype)
    case ('float64')
      can = shown == 'float32' .or. shown == 'float16' .or. shown == 'bfloat16'
    case ('float32')
      can = shown == 'float16' .or. shown == 'bfloat16'
    case ('complex128')
      can = shown == 'complex64'
    case default
      can = .false.
    end select
  end function

  ! Puts an array with those that one version is given.
  subroutine give(self, name, dtype, where, given, o)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in), optional :: name
    character(*), intent(in) :: dtype
    type(place), intent(in), target :: where
    type(gifts), intent(inout), target :: given
    type(outcome), intent(inout) :: o
    integer(c_int32_t), parameter :: order = int(stillframe_column_major, c_int32_t)
    integer :: at

    if (.not. present(name)) then
      call refuse(o, stillframe_bad_argument, 'publish has an array without a name')
      return
    end if
    call find_or_add(self, name, dtype, where, order, at=at, o=o)
    if (o%status /= stillframe_ok) return
    given%count = given%count + 1
    given%shapes(:, given%count) = where%shape(1:stillframe_rank_max)
    given%strides(:, given%count) = where%strides(1:stillframe_rank_max)
    given%arrays(given%count) = c_given(where%address, c_loc(given%shapes(1, given%count)), self%entries(at)%variable, &
      int(where%rank, c_int32_t), order)
    if (.not. where%contiguous) given%arrays(given%count)%strides = c_loc(given%strides(1, given%count))
  end subroutine

  subroutine commit(self, version, given, published, o)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    type(gifts), intent(in), target :: given
    type(stillframe_published), intent(out), optional :: published
    type(outcome), intent(inout) :: o
    type(c_published), target :: c
    type(c_ptr) :: wanted

    wanted = c_null_ptr
    if (present(published)) wanted = c_loc(c)
    if (version < 0) call refuse(o, stillframe_bad_argument, 'version ' // decimal(version) // ' is negative')
    if (o%status == stillframe_ok) call check(o, c_publish_with(self%handle, version, c_loc(given%arrays), &
      given%count, wanted))
    if (present(published) .and. o%status == stillframe_ok) published = stillframe_published(c%version, c%dirty_pages, &
      c%copied_pages, c%total_pages, c%seconds, c%skipped /= 0)
  end subroutine

  ! Publishes all variables as this version, which has to be higher than the one before.
  subroutine publish_int32(self, version, published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: none
    type(outcome) :: o

    call commit(self, int(version, int64), none, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! Starts to publish all variables as this version, and returns when it is known which pages have to be copied. Threads copy
  ! them on processors that are free, and publish_finish what they did not get to. Observers see the version when it is finished:
  ! by publish_finish or publish_test, by the next publish, or by what changes variables.
  !
  ! Until then arrays may be read, and neither be written nor deallocated nor moved: give tracked ones the attribute
  ! asynchronous, too, as for nonblocking sends of MPI. Where one is written all the same, the version is a mixture of
  ! before and after, and nothing else breaks; with STILLFRAME_CHECK=1 in the environment publish_finish fails with
  ! stillframe_written, and names variable and page. With guard arrays may be written: a child process copies, which has the
  ! memory as it was. That costs the time of a fork when it is started, and a fault at the first write to each page
  ! afterwards. Arrays have to be tracked: none can be given for this version.
  subroutine publish_start_int32(self, version, guard, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    logical, intent(in), optional :: guard
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: flags
    type(outcome) :: o

    flags = 0
    if (present(guard)) flags = merge(1_c_int32_t, 0_c_int32_t, guard)
    if (version < 0) call refuse(o, stillframe_bad_argument, 'version ' // decimal(int(version, int64)) // ' is negative')
    if (o%status == stillframe_ok) call check(o, &
      c_publish_start(self%handle, int(version, int64), c_null_ptr, 0_c_int32_t, flags))
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int8), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int8_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    integer(int8), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int8), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int8', place_int8(array), given, o)
    if (present(array2)) call give(self, name2, 'int8', &
      place_int8(array2), given, o)
    if (present(array3)) call give(self, name3, 'int8', &
      place_int8(array3), given, o)
    if (present(array4)) call give(self, name4, 'int8', &
      place_int8(array4), given, o)
    if (present(array5)) call give(self, name5, 'int8', &
      place_int8(array5), given, o)
    if (present(array6)) call give(self, name6, 'int8', &
      place_int8(array6), given, o)
    if (present(array7)) call give(self, name7, 'int8', &
      place_int8(array7), given, o)
    if (present(array8)) call give(self, name8, 'int8', &
      place_int8(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int16), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int16_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    integer(int16), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int16), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int16', place_int16(array), given, o)
    if (present(array2)) call give(self, name2, 'int16', &
      place_int16(array2), given, o)
    if (present(array3)) call give(self, name3, 'int16', &
      place_int16(array3), given, o)
    if (present(array4)) call give(self, name4, 'int16', &
      place_int16(array4), given, o)
    if (present(array5)) call give(self, name5, 'int16', &
      place_int16(array5), given, o)
    if (present(array6)) call give(self, name6, 'int16', &
      place_int16(array6), given, o)
    if (present(array7)) call give(self, name7, 'int16', &
      place_int16(array7), given, o)
    if (present(array8)) call give(self, name8, 'int16', &
      place_int16(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int32), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int32_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    integer(int32), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int32), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int32', place_int32(array), given, o)
    if (present(array2)) call give(self, name2, 'int32', &
      place_int32(array2), given, o)
    if (present(array3)) call give(self, name3, 'int32', &
      place_int32(array3), given, o)
    if (present(array4)) call give(self, name4, 'int32', &
      place_int32(array4), given, o)
    if (present(array5)) call give(self, name5, 'int32', &
      place_int32(array5), given, o)
    if (present(array6)) call give(self, name6, 'int32', &
      place_int32(array6), given, o)
    if (present(array7)) call give(self, name7, 'int32', &
      place_int32(array7), given, o)
    if (present(array8)) call give(self, name8, 'int32', &
      place_int32(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int64), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int64_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    integer(int64), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int64), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int64', place_int64(array), given, o)
    if (present(array2)) call give(self, name2, 'int64', &
      place_int64(array2), given, o)
    if (present(array3)) call give(self, name3, 'int64', &
      place_int64(array3), given, o)
    if (present(array4)) call give(self, name4, 'int64', &
      place_int64(array4), given, o)
    if (present(array5)) call give(self, name5, 'int64', &
      place_int64(array5), given, o)
    if (present(array6)) call give(self, name6, 'int64', &
      place_int64(array6), given, o)
    if (present(array7)) call give(self, name7, 'int64', &
      place_int64(array7), given, o)
    if (present(array8)) call give(self, name8, 'int64', &
      place_int64(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of real(real32), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_real32_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    real(real32), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    real(real32), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'float32', place_real32(array), given, o)
    if (present(array2)) call give(self, name2, 'float32', &
      place_real32(array2), given, o)
    if (present(array3)) call give(self, name3, 'float32', &
      place_real32(array3), given, o)
    if (present(array4)) call give(self, name4, 'float32', &
      place_real32(array4), given, o)
    if (present(array5)) call give(self, name5, 'float32', &
      place_real32(array5), given, o)
    if (present(array6)) call give(self, name6, 'float32', &
      place_real32(array6), given, o)
    if (present(array7)) call give(self, name7, 'float32', &
      place_real32(array7), given, o)
    if (present(array8)) call give(self, name8, 'float32', &
      place_real32(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of real(real64), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_real64_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    real(real64), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    real(real64), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'float64', place_real64(array), given, o)
    if (present(array2)) call give(self, name2, 'float64', &
      place_real64(array2), given, o)
    if (present(array3)) call give(self, name3, 'float64', &
      place_real64(array3), given, o)
    if (present(array4)) call give(self, name4, 'float64', &
      place_real64(array4), given, o)
    if (present(array5)) call give(self, name5, 'float64', &
      place_real64(array5), given, o)
    if (present(array6)) call give(self, name6, 'float64', &
      place_real64(array6), given, o)
    if (present(array7)) call give(self, name7, 'float64', &
      place_real64(array7), given, o)
    if (present(array8)) call give(self, name8, 'float64', &
      place_real64(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of complex(real32), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_complex32_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    complex(real32), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    complex(real32), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'complex64', place_complex32(array), given, o)
    if (present(array2)) call give(self, name2, 'complex64', &
      place_complex32(array2), given, o)
    if (present(array3)) call give(self, name3, 'complex64', &
      place_complex32(array3), given, o)
    if (present(array4)) call give(self, name4, 'complex64', &
      place_complex32(array4), given, o)
    if (present(array5)) call give(self, name5, 'complex64', &
      place_complex32(array5), given, o)
    if (present(array6)) call give(self, name6, 'complex64', &
      place_complex32(array6), given, o)
    if (present(array7)) call give(self, name7, 'complex64', &
      place_complex32(array7), given, o)
    if (present(array8)) call give(self, name8, 'complex64', &
      place_complex32(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of complex(real64), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_complex64_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    complex(real64), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    complex(real64), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'complex128', place_complex64(array), given, o)
    if (present(array2)) call give(self, name2, 'complex128', &
      place_complex64(array2), given, o)
    if (present(array3)) call give(self, name3, 'complex128', &
      place_complex64(array3), given, o)
    if (present(array4)) call give(self, name4, 'complex128', &
      place_complex64(array4), given, o)
    if (present(array5)) call give(self, name5, 'complex128', &
      place_complex64(array5), given, o)
    if (present(array6)) call give(self, name6, 'complex128', &
      place_complex64(array6), given, o)
    if (present(array7)) call give(self, name7, 'complex128', &
      place_complex64(array7), given, o)
    if (present(array8)) call give(self, name8, 'complex128', &
      place_complex64(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of logical(c_bool), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_bool_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    logical(c_bool), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    logical(c_bool), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, dtype_of_bool, place_bool(array), given, o)
    if (present(array2)) call give(self, name2, dtype_of_bool, &
      place_bool(array2), given, o)
    if (present(array3)) call give(self, name3, dtype_of_bool, &
      place_bool(array3), given, o)
    if (present(array4)) call give(self, name4, dtype_of_bool, &
      place_bool(array4), given, o)
    if (present(array5)) call give(self, name5, dtype_of_bool, &
      place_bool(array5), given, o)
    if (present(array6)) call give(self, name6, dtype_of_bool, &
      place_bool(array6), given, o)
    if (present(array7)) call give(self, name7, dtype_of_bool, &
      place_bool(array7), given, o)
    if (present(array8)) call give(self, name8, dtype_of_bool, &
      place_bool(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of logical, each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_logical_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    logical, intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    logical, intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, dtype_of_logical, place_logical(array), given, o)
    if (present(array2)) call give(self, name2, dtype_of_logical, &
      place_logical(array2), given, o)
    if (present(array3)) call give(self, name3, dtype_of_logical, &
      place_logical(array3), given, o)
    if (present(array4)) call give(self, name4, dtype_of_logical, &
      place_logical(array4), given, o)
    if (present(array5)) call give(self, name5, dtype_of_logical, &
      place_logical(array5), given, o)
    if (present(array6)) call give(self, name6, dtype_of_logical, &
      place_logical(array6), given, o)
    if (present(array7)) call give(self, name7, dtype_of_logical, &
      place_logical(array7), given, o)
    if (present(array8)) call give(self, name8, dtype_of_logical, &
      place_logical(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of character(*), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_text_int32(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int32), intent(in) :: version
    character(*), intent(in) :: name
    character(*), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    character(*), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, dtype_of_text(len(array)), place_text(array), given, o)
    if (present(array2)) call give(self, name2, dtype_of_text(len(array2)), &
      place_text(array2), given, o)
    if (present(array3)) call give(self, name3, dtype_of_text(len(array3)), &
      place_text(array3), given, o)
    if (present(array4)) call give(self, name4, dtype_of_text(len(array4)), &
      place_text(array4), given, o)
    if (present(array5)) call give(self, name5, dtype_of_text(len(array5)), &
      place_text(array5), given, o)
    if (present(array6)) call give(self, name6, dtype_of_text(len(array6)), &
      place_text(array6), given, o)
    if (present(array7)) call give(self, name7, dtype_of_text(len(array7)), &
      place_text(array7), given, o)
    if (present(array8)) call give(self, name8, dtype_of_text(len(array8)), &
      place_text(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! Publishes all variables as this version, which has to be higher than the one before.
  subroutine publish_int64(self, version, published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: none
    type(outcome) :: o

    call commit(self, int(version, int64), none, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! Starts to publish all variables as this version, and returns when it is known which pages have to be copied. Threads copy
  ! them on processors that are free, and publish_finish what they did not get to. Observers see the version when it is finished:
  ! by publish_finish or publish_test, by the next publish, or by what changes variables.
  !
  ! Until then arrays may be read, and neither be written nor deallocated nor moved: give tracked ones the attribute
  ! asynchronous, too, as for nonblocking sends of MPI. Where one is written all the same, the version is a mixture of
  ! before and after, and nothing else breaks; with STILLFRAME_CHECK=1 in the environment publish_finish fails with
  ! stillframe_written, and names variable and page. With guard arrays may be written: a child process copies, which has the
  ! memory as it was. That costs the time of a fork when it is started, and a fault at the first write to each page
  ! afterwards. Arrays have to be tracked: none can be given for this version.
  subroutine publish_start_int64(self, version, guard, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    logical, intent(in), optional :: guard
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: flags
    type(outcome) :: o

    flags = 0
    if (present(guard)) flags = merge(1_c_int32_t, 0_c_int32_t, guard)
    if (version < 0) call refuse(o, stillframe_bad_argument, 'version ' // decimal(int(version, int64)) // ' is negative')
    if (o%status == stillframe_ok) call check(o, &
      c_publish_start(self%handle, int(version, int64), c_null_ptr, 0_c_int32_t, flags))
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int8), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int8_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    integer(int8), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int8), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int8', place_int8(array), given, o)
    if (present(array2)) call give(self, name2, 'int8', &
      place_int8(array2), given, o)
    if (present(array3)) call give(self, name3, 'int8', &
      place_int8(array3), given, o)
    if (present(array4)) call give(self, name4, 'int8', &
      place_int8(array4), given, o)
    if (present(array5)) call give(self, name5, 'int8', &
      place_int8(array5), given, o)
    if (present(array6)) call give(self, name6, 'int8', &
      place_int8(array6), given, o)
    if (present(array7)) call give(self, name7, 'int8', &
      place_int8(array7), given, o)
    if (present(array8)) call give(self, name8, 'int8', &
      place_int8(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int16), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int16_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    integer(int16), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int16), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int16', place_int16(array), given, o)
    if (present(array2)) call give(self, name2, 'int16', &
      place_int16(array2), given, o)
    if (present(array3)) call give(self, name3, 'int16', &
      place_int16(array3), given, o)
    if (present(array4)) call give(self, name4, 'int16', &
      place_int16(array4), given, o)
    if (present(array5)) call give(self, name5, 'int16', &
      place_int16(array5), given, o)
    if (present(array6)) call give(self, name6, 'int16', &
      place_int16(array6), given, o)
    if (present(array7)) call give(self, name7, 'int16', &
      place_int16(array7), given, o)
    if (present(array8)) call give(self, name8, 'int16', &
      place_int16(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int32), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int32_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    integer(int32), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int32), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int32', place_int32(array), given, o)
    if (present(array2)) call give(self, name2, 'int32', &
      place_int32(array2), given, o)
    if (present(array3)) call give(self, name3, 'int32', &
      place_int32(array3), given, o)
    if (present(array4)) call give(self, name4, 'int32', &
      place_int32(array4), given, o)
    if (present(array5)) call give(self, name5, 'int32', &
      place_int32(array5), given, o)
    if (present(array6)) call give(self, name6, 'int32', &
      place_int32(array6), given, o)
    if (present(array7)) call give(self, name7, 'int32', &
      place_int32(array7), given, o)
    if (present(array8)) call give(self, name8, 'int32', &
      place_int32(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of integer(int64), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_int64_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    integer(int64), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    integer(int64), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'int64', place_int64(array), given, o)
    if (present(array2)) call give(self, name2, 'int64', &
      place_int64(array2), given, o)
    if (present(array3)) call give(self, name3, 'int64', &
      place_int64(array3), given, o)
    if (present(array4)) call give(self, name4, 'int64', &
      place_int64(array4), given, o)
    if (present(array5)) call give(self, name5, 'int64', &
      place_int64(array5), given, o)
    if (present(array6)) call give(self, name6, 'int64', &
      place_int64(array6), given, o)
    if (present(array7)) call give(self, name7, 'int64', &
      place_int64(array7), given, o)
    if (present(array8)) call give(self, name8, 'int64', &
      place_int64(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of real(real32), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_real32_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    real(real32), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    real(real32), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'float32', place_real32(array), given, o)
    if (present(array2)) call give(self, name2, 'float32', &
      place_real32(array2), given, o)
    if (present(array3)) call give(self, name3, 'float32', &
      place_real32(array3), given, o)
    if (present(array4)) call give(self, name4, 'float32', &
      place_real32(array4), given, o)
    if (present(array5)) call give(self, name5, 'float32', &
      place_real32(array5), given, o)
    if (present(array6)) call give(self, name6, 'float32', &
      place_real32(array6), given, o)
    if (present(array7)) call give(self, name7, 'float32', &
      place_real32(array7), given, o)
    if (present(array8)) call give(self, name8, 'float32', &
      place_real32(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of real(real64), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_real64_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    real(real64), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    real(real64), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'float64', place_real64(array), given, o)
    if (present(array2)) call give(self, name2, 'float64', &
      place_real64(array2), given, o)
    if (present(array3)) call give(self, name3, 'float64', &
      place_real64(array3), given, o)
    if (present(array4)) call give(self, name4, 'float64', &
      place_real64(array4), given, o)
    if (present(array5)) call give(self, name5, 'float64', &
      place_real64(array5), given, o)
    if (present(array6)) call give(self, name6, 'float64', &
      place_real64(array6), given, o)
    if (present(array7)) call give(self, name7, 'float64', &
      place_real64(array7), given, o)
    if (present(array8)) call give(self, name8, 'float64', &
      place_real64(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of complex(real32), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_complex32_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    complex(real32), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    complex(real32), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'complex64', place_complex32(array), given, o)
    if (present(array2)) call give(self, name2, 'complex64', &
      place_complex32(array2), given, o)
    if (present(array3)) call give(self, name3, 'complex64', &
      place_complex32(array3), given, o)
    if (present(array4)) call give(self, name4, 'complex64', &
      place_complex32(array4), given, o)
    if (present(array5)) call give(self, name5, 'complex64', &
      place_complex32(array5), given, o)
    if (present(array6)) call give(self, name6, 'complex64', &
      place_complex32(array6), given, o)
    if (present(array7)) call give(self, name7, 'complex64', &
      place_complex32(array7), given, o)
    if (present(array8)) call give(self, name8, 'complex64', &
      place_complex32(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of complex(real64), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_complex64_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    complex(real64), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    complex(real64), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, 'complex128', place_complex64(array), given, o)
    if (present(array2)) call give(self, name2, 'complex128', &
      place_complex64(array2), given, o)
    if (present(array3)) call give(self, name3, 'complex128', &
      place_complex64(array3), given, o)
    if (present(array4)) call give(self, name4, 'complex128', &
      place_complex64(array4), given, o)
    if (present(array5)) call give(self, name5, 'complex128', &
      place_complex64(array5), given, o)
    if (present(array6)) call give(self, name6, 'complex128', &
      place_complex64(array6), given, o)
    if (present(array7)) call give(self, name7, 'complex128', &
      place_complex64(array7), given, o)
    if (present(array8)) call give(self, name8, 'complex128', &
      place_complex64(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of logical(c_bool), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_bool_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    logical(c_bool), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    logical(c_bool), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, dtype_of_bool, place_bool(array), given, o)
    if (present(array2)) call give(self, name2, dtype_of_bool, &
      place_bool(array2), given, o)
    if (present(array3)) call give(self, name3, dtype_of_bool, &
      place_bool(array3), given, o)
    if (present(array4)) call give(self, name4, dtype_of_bool, &
      place_bool(array4), given, o)
    if (present(array5)) call give(self, name5, dtype_of_bool, &
      place_bool(array5), given, o)
    if (present(array6)) call give(self, name6, dtype_of_bool, &
      place_bool(array6), given, o)
    if (present(array7)) call give(self, name7, dtype_of_bool, &
      place_bool(array7), given, o)
    if (present(array8)) call give(self, name8, dtype_of_bool, &
      place_bool(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of logical, each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_logical_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    logical, intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    logical, intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, dtype_of_logical, place_logical(array), given, o)
    if (present(array2)) call give(self, name2, dtype_of_logical, &
      place_logical(array2), given, o)
    if (present(array3)) call give(self, name3, dtype_of_logical, &
      place_logical(array3), given, o)
    if (present(array4)) call give(self, name4, dtype_of_logical, &
      place_logical(array4), given, o)
    if (present(array5)) call give(self, name5, dtype_of_logical, &
      place_logical(array5), given, o)
    if (present(array6)) call give(self, name6, dtype_of_logical, &
      place_logical(array6), given, o)
    if (present(array7)) call give(self, name7, dtype_of_logical, &
      place_logical(array7), given, o)
    if (present(array8)) call give(self, name8, dtype_of_logical, &
      place_logical(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! The same with arrays of character(*), each after its name, which are looked at during this call only, whatever comes
  ! of it. What is tracked under such a name is shown again by the next version that is not given another array.
  subroutine publish_text_int64(self, version, name, array, &
      name2, array2, &
      name3, array3, &
      name4, array4, &
      name5, array5, &
      name6, array6, &
      name7, array7, &
      name8, array8, &
      published, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    integer(int64), intent(in) :: version
    character(*), intent(in) :: name
    character(*), intent(in), target :: array(..)
    character(*), intent(in), optional :: name2, name3, name4, name5, name6, name7, name8
    character(*), intent(in), target, optional :: &
      array2(..), array3(..), array4(..), array5(..), array6(..), array7(..), array8(..)
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(gifts), target :: given
    type(outcome) :: o

    call give(self, name, dtype_of_text(len(array)), place_text(array), given, o)
    if (present(array2)) call give(self, name2, dtype_of_text(len(array2)), &
      place_text(array2), given, o)
    if (present(array3)) call give(self, name3, dtype_of_text(len(array3)), &
      place_text(array3), given, o)
    if (present(array4)) call give(self, name4, dtype_of_text(len(array4)), &
      place_text(array4), given, o)
    if (present(array5)) call give(self, name5, dtype_of_text(len(array5)), &
      place_text(array5), given, o)
    if (present(array6)) call give(self, name6, dtype_of_text(len(array6)), &
      place_text(array6), given, o)
    if (present(array7)) call give(self, name7, dtype_of_text(len(array7)), &
      place_text(array7), given, o)
    if (present(array8)) call give(self, name8, dtype_of_text(len(array8)), &
      place_text(array8), given, o)
    call commit(self, int(version, int64), given, published, o)
    call conclude_publish(o, self, 'version ' // decimal(int(version, int64)), stat, errmsg)
  end subroutine

  ! Finishes the publish that was started, after which all arrays may be written. published: what it did, also if something
  ! else has finished it. found: whether there was one that was not told of yet.
  subroutine region_publish_finish(self, published, found, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    type(stillframe_published), intent(out), optional :: published
    logical, intent(out), optional :: found
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_published), target :: c
    integer(c_int8_t) :: is_found
    type(outcome) :: o

    is_found = no
    call check(o, c_publish_finish(self%handle, c_loc(c), is_found))
    if (present(found)) found = o%status == stillframe_ok .and. is_found /= no
    if (present(published) .and. o%status == stillframe_ok .and. is_found /= no) published = stillframe_published(c%version, &
      c%dirty_pages, c%copied_pages, c%total_pages, c%seconds, c%skipped /= 0)
    call conclude_publish(o, self, 'the version that was started', stat, errmsg)
  end subroutine

  ! Finishes the publish that was started if nothing is left to be copied and there is room; whether none is left to be
  ! finished, which after a failure is .false. with stat and .true. without.
  function region_publish_test(self, stat, errmsg) result(done)
    class(stillframe_region), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: done
    integer(c_int8_t) :: is_done
    type(outcome) :: o

    is_done = no
    call check(o, c_publish_test(self%handle, is_done))
    done = o%status == stillframe_ok .and. is_done /= no
    ! Who waits for it and gives no stat would wait for ever.
    if (.not. present(stat) .and. o%status /= stillframe_ok) done = .true.
    call conclude_publish(o, self, 'the version that was started', stat, errmsg)
  end function

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_int8(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'int8', target_int8(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_int16(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'int16', target_int16(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_int32(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'int32', target_int32(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_int64(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'int64', target_int64(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_real32(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'float32', target_real32(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_real64(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'float64', target_real64(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_complex32(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'complex64', target_complex32(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_complex64(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, 'complex128', target_complex64(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_bool(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, dtype_of_bool, target_bool(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_logical(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, dtype_of_logical, target_logical(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says where an array, or a section of one, is; every publish from now on looks there, but one that is given another array of
  ! this name. Versions show numbers rounded to the type `as`: float64 to 'float32', 'float16' or 'bfloat16', float32 to the last
  ! two, complex128 to 'complex64'.
  subroutine track_text(self, name, array, units, attributes, offset, global_shape, as, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    character(*), pointer, intent(in) :: array(..)
    character(*), intent(in), optional :: units, as
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call follow(self, name, dtype_of_text(len(array)), target_text(array), int(stillframe_column_major, c_int32_t), as, units, &
      attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Says that an array is gone, or will be; versions from now on keep its content as of the last publish.
  subroutine region_untrack(self, name, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: at
    type(outcome) :: o

    call find_known(self, name, at, o)
    if (o%status == stillframe_ok) call check(o, c_track_at(self%handle, self%entries(at)%variable, 0_c_int32_t, &
      [0_c_size_t], int(stillframe_column_major, c_int32_t), c_null_ptr))
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine region_remove(self, name, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: at
    type(outcome) :: o

    call check(o, c_remove(self%handle, terminated(name)))
    at = find(self, name)
    if (o%status == stillframe_ok .and. at > 0) self%entries = [self%entries(:at - 1), self%entries(at + 1:)]
    call conclude(o, stat, errmsg)
  end subroutine

  ! Pins a managed variable: its memory stays where it is, in the same pages, until `unpin` or its end. Before a device is
  ! told of the memory, as by MPI_Win_create or OpenACC's and OpenMP's calls that lock it: otherwise pages are exchanged, so that
  ! what is cold exists once, and the device goes on with those that are gone. What a device writes, mark_dirty has to tell.
  subroutine region_pin(self, name, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: at
    type(outcome) :: o

    call find_known(self, name, at, o)
    if (o%status == stillframe_ok) call check(o, c_pin(self%handle, self%entries(at)%variable))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Ends what `pin` began. Devices have to be told to forget the memory first.
  subroutine region_unpin(self, name, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: at
    type(outcome) :: o

    call find_known(self, name, at, o)
    if (o%status == stillframe_ok) call check(o, c_unpin(self%handle, self%entries(at)%variable))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Declares bytes of a variable dirty that were written behind the processor's back, as by a network card or a GPU. A managed
  ! one has to be pinned before a device is told of its memory.
  subroutine region_mark_dirty(self, name, offset, bytes, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), intent(in) :: offset, bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: at
    type(outcome) :: o

    call find_known(self, name, at, o)
    if (o%status == stillframe_ok) call check(o, c_mark_dirty(self%handle, self%entries(at)%variable, &
      int(offset, c_size_t), int(bytes, c_size_t)))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Checks that a shape is one, and fits the rank of a pointer and the lower bounds asked for.
  subroutine check_shape(name, shape, rank, lower, extents, o)
    character(*), intent(in) :: name
    integer(int64), intent(in), optional :: shape(:)
    integer, intent(in) :: rank
    integer, intent(in), optional :: lower(:)
    integer(c_size_t), allocatable, intent(out) :: extents(:)
    type(outcome), intent(inout) :: o

    extents = [integer(c_size_t) ::]
    if (present(shape)) extents = int(shape, c_size_t)
    if (any(extents < 0)) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "': the shape " // &
      shape_text(extents) // ' has a negative extent')
    if (size(extents) /= rank) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "': the shape " // &
      shape_text(extents) // ' does not fit a pointer of rank ' // decimal(int(rank, int64)))
    call check_lower(name, rank, lower, o)
  end subroutine

  subroutine check_lower(name, rank, lower, o)
    character(*), intent(in) :: name
    integer, intent(in) :: rank
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o

    if (.not. present(lower)) return
    if (size(lower) /= rank) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "': " // &
      decimal(size(lower, kind=int64)) // ' lower bounds for a pointer of rank ' // decimal(int(rank, int64)))
  end subroutine

  ! Memory of a managed variable. None on an error.
  subroutine reserve(self, name, dtype, extents, order, units, attributes, offset, global_shape, address, o)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    integer(c_size_t), intent(in) :: extents(:)
    integer(c_int32_t), intent(in) :: order
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    type(c_ptr), intent(out) :: address
    type(outcome), intent(inout) :: o
    integer(c_size_t) :: bytes
    integer :: at

    address = c_null_ptr
    call add(self, name, dtype, managed, extents, order, units, attributes, offset, global_shape, at, o)
    if (o%status == stillframe_ok) call check(o, c_data(self%handle, self%entries(at)%variable, address, bytes))
    call set_target(address, extents, o)
  end subroutine

  pure function same_shape(left, right) result(same)
    integer(c_size_t), intent(in) :: left(:), right(:)
    logical :: same

    same = size(left) == size(right)
    if (same) same = all(left == right)
  end function

  ! Memory for the next version of a loaned variable, declared if it is new and resized if its shape is.
  subroutine lend(self, name, dtype, extents, loan, order, units, attributes, offset, global_shape, address, o)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    integer(c_size_t), intent(in) :: extents(:)
    type(stillframe_loan), intent(inout) :: loan
    integer(c_int32_t), intent(in) :: order
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    type(c_ptr), intent(out) :: address
    type(outcome), intent(inout) :: o
    integer(c_size_t) :: bytes
    type(c_ptr) :: handle
    integer :: at

    address = c_null_ptr
    if (o%status /= stillframe_ok) return
    at = find(self, name)
    if (at == 0) then
      call add(self, name, dtype, loaned, extents, order, units, attributes, offset, global_shape, at, o)
    else if (self%entries(at)%dtype /= dtype) then
      call refuse(o, stillframe_wrong_dtype, "variable '" // trim(name) // "' is of " // self%entries(at)%dtype // &
        ', and this pointer of ' // trim(dtype))
    else
      call check_part(self%entries(at), offset, global_shape, o)
      if (o%status == stillframe_ok .and. self%entries(at)%kind == loaned .and. &
        .not. same_shape(self%entries(at)%shape, extents)) then
        call check(o, c_resize(self%handle, self%entries(at)%variable, size(extents, kind=c_int32_t), extents, handle))
        if (o%status == stillframe_ok) self%entries(at)%shape = extents
      end if
    end if
    if (o%status == stillframe_ok) call check(o, c_loan_begin(self%handle, self%entries(at)%variable, handle, address, bytes))
    if (o%status == stillframe_ok) loan%handle = handle
    call set_target(address, extents, o)
  end subroutine

  ! Memory of a managed variable of another shape, which may be another part of its global array.
  subroutine reshape_managed(self, name, dtype, extents, address, o, offset, global_shape)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    integer(c_size_t), intent(in) :: extents(:)
    type(c_ptr), intent(out) :: address
    type(outcome), intent(inout) :: o
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer :: at

    address = c_null_ptr
    call find_known(self, name, at, o)
    if (o%status /= stillframe_ok) return
    if (self%entries(at)%dtype /= dtype .and. dtype /= '') call refuse(o, stillframe_wrong_dtype, &
      "variable '" // trim(name) // "' is of " // self%entries(at)%dtype // ', and this pointer of ' // trim(dtype))
    if (self%entries(at)%kind /= managed) call refuse(o, stillframe_wrong_kind, &
      "variable '" // trim(name) // "' is not managed, and this call with a pointer is for managed variables")
    if (o%status == stillframe_ok) then
      if (present(offset)) then
        call change_part(self, at, extents, offset, global_shape, address, o)
      else
        call check(o, c_resize(self%handle, self%entries(at)%variable, size(extents, kind=c_int32_t), extents, address))
      end if
    end if
    call set_target(address, extents, o)
  end subroutine

  subroutine change_part(self, at, extents, offset, global_shape, address, o)
    class(stillframe_region), intent(inout) :: self
    integer, intent(in) :: at
    integer(c_size_t), intent(in) :: extents(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    type(c_ptr), intent(out) :: address
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: c_offset(:), c_global_shape(:)

    address = c_null_ptr
    call take_part(self%entries(at)%name, offset, global_shape, c_offset, c_global_shape, o)
    if (o%status == stillframe_ok) call check_dimensions(self%entries(at)%name, c_offset, extents, o)
    if (o%status == stillframe_ok) call check(o, c_repart(self%handle, self%entries(at)%variable, &
      size(extents, kind=c_int32_t), extents, c_offset, c_global_shape, address))
    if (o%status /= stillframe_ok) return
    self%entries(at)%shape = extents
    self%entries(at)%offset = c_offset
    self%entries(at)%global_shape = c_global_shape
  end subroutine

  ! An address to aim at: none after an error, some even for arrays without elements.
  subroutine set_target(address, extents, o)
    type(c_ptr), intent(inout) :: address
    integer(c_size_t), intent(in) :: extents(:)
    type(outcome), intent(in) :: o

    if (o%status /= stillframe_ok) then
      address = c_null_ptr
    else if (any(extents == 0)) then
      address = c_loc(nothing)
    end if
  end subroutine

  ! Says that a tracked or loaned variable is another part of its global array from the next version on, as after balancing the
  ! load, beginning at `offset` (counted from 0). Its shape comes with the next array or loan, and has to fit; a loaned one
  ! has no elements until then.
  subroutine repart_part(self, name, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o
    integer :: at

    call find_known(self, name, at, o)
    if (o%status == stillframe_ok) then
      if (self%entries(at)%kind == managed) call refuse(o, stillframe_wrong_kind, "variable '" // trim(name) // &
        "' is managed: give repart its pointer and the shape of the part")
    end if
    extents = 0 * int(offset, c_size_t)
    if (o%status == stillframe_ok) call change_part(self, at, extents, offset, global_shape, address, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int8_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'int8', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int8_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int8', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int8_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int8', extents, address, o)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int8_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int8', extents, address, o, offset, global_shape)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int16_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'int16', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int16_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int16', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int16_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int16', extents, address, o)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int16_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int16', extents, address, o, offset, global_shape)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int32_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'int32', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int32_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int32', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int32_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int32', extents, address, o)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int32_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int32', extents, address, o, offset, global_shape)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int64_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'int64', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int64_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int64', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int64_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int64', extents, address, o)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int64_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int64', extents, address, o, offset, global_shape)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_real32_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'float32', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_real32_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'float32', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_real32_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float32', extents, address, o)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_real32_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float32', extents, address, o, offset, global_shape)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_real64_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'float64', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_real64_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'float64', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_real64_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float64', extents, address, o)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_real64_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float64', extents, address, o, offset, global_shape)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_complex32_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'complex64', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_complex32_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'complex64', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_complex32_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex64', extents, address, o)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_complex32_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex64', extents, address, o, offset, global_shape)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_complex64_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, 'complex128', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_complex64_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'complex128', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_complex64_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex128', extents, address, o)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_complex64_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex128', extents, address, o, offset, global_shape)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_bool_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, dtype_of_bool, extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_bool_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, dtype_of_bool, extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_bool_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_bool, extents, address, o)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_bool_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_bool, extents, address, o, offset, global_shape)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_logical_int32(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int32), intent(in), optional :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, widened(shape), rank(array), lower, extents, o)
    call reserve(self, name, dtype_of_logical, extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_logical_int32(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, dtype_of_logical, extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_logical_int32(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_logical, extents, address, o)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_logical_int32(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_logical, extents, address, o, offset, global_shape)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! For types that have no procedure of their own: track, array, loan, resize and repart with an address and a dtype,
  ! which is "uint8" to "uint64", "bytesN", or a record as JSON:
  ! {"fields":[{"name":"rho","dtype":"float64","offset":0}],"bytes":8}.
  ! strides: how many bytes neighbours are from each other along each dimension, which may be negative; without it elements lie
  ! one behind the other.
  subroutine track_address_int32(self, name, address, dtype, shape, row_major, units, attributes, &
      offset, global_shape, as, strides, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    type(c_ptr), intent(in) :: address
    integer(int32), intent(in) :: shape(:)
    logical, intent(in), optional :: row_major
    character(*), intent(in), optional :: units, as
    integer(int32), intent(in), optional :: strides(:)
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(place) :: where
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    where%address = address
    where%rank = size(extents)
    if (where%rank <= size(where%shape)) where%shape(1:where%rank) = extents
    if (present(strides)) then
      where%contiguous = .false.
      if (size(strides) /= where%rank) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // &
        "': there is not one stride for each dimension of shape " // shape_text(extents))
      if (o%status == stillframe_ok .and. where%rank <= size(where%strides)) where%strides(1:where%rank) = strides
    else if (present(as)) then
      call place_closely(where, dtype, order_of(row_major))
    end if
    call follow(self, name, dtype, where, order_of(row_major), as, units, attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine array_address_int32(self, name, address, dtype, shape, row_major, units, attributes, &
      offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    type(c_ptr), intent(out) :: address
    integer(int32), intent(in) :: shape(:)
    logical, intent(in), optional :: row_major
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call reserve(self, name, dtype, extents, order_of(row_major), units, attributes, offset, global_shape, &
      address, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine loan_address_int32(self, name, address, dtype, shape, loan, row_major, units, attributes, &
      offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    type(c_ptr), intent(out) :: address
    integer(int32), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    logical, intent(in), optional :: row_major
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call lend(self, name, dtype, extents, loan, order_of(row_major), units, attributes, offset, global_shape, &
      address, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine resize_address_int32(self, name, address, shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(out) :: address
    integer(int32), intent(in) :: shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call reshape_managed(self, name, '', extents, address, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine repart_address_int32(self, name, address, shape, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(out) :: address
    integer(int32), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call reshape_managed(self, name, '', extents, address, o, offset, global_shape)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int8_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'int8', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int8_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int8', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int8_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int8', extents, address, o)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int8_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int8', extents, address, o, offset, global_shape)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int16_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'int16', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int16_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int16', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int16_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int16', extents, address, o)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int16_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int16', extents, address, o, offset, global_shape)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int32_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'int32', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int32_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int32', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int32_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int32', extents, address, o)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int32_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int32', extents, address, o, offset, global_shape)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_int64_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'int64', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_int64_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'int64', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_int64_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int64', extents, address, o)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_int64_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'int64', extents, address, o, offset, global_shape)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_real32_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'float32', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_real32_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'float32', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_real32_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float32', extents, address, o)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_real32_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float32', extents, address, o, offset, global_shape)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_real64_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'float64', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset, global_shape, &
      address, o)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_real64_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'float64', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_real64_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float64', extents, address, o)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_real64_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'float64', extents, address, o, offset, global_shape)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_complex32_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'complex64', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_complex32_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'complex64', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_complex32_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex64', extents, address, o)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_complex32_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex64', extents, address, o, offset, global_shape)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_complex64_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, 'complex128', extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_complex64_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, 'complex128', extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_complex64_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex128', extents, address, o)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_complex64_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, 'complex128', extents, address, o, offset, global_shape)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_bool_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, dtype_of_bool, extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_bool_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, dtype_of_bool, extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_bool_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_bool, extents, address, o)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_bool_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_bool, extents, address, o, offset, global_shape)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A managed variable: memory of the region, zeroed or as recovered, to point to as an array of this shape.
  subroutine array_logical_int64(self, name, array, shape, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, shape, rank(array), lower, extents, o)
    call reserve(self, name, dtype_of_logical, extents, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Memory for the next version of a loaned variable, with whatever content, to be written whole and submitted.
  subroutine loan_logical_int64(self, name, array, shape, loan, lower, units, attributes, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    integer, intent(in), optional :: lower(:), offset(:), global_shape(:)
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call lend(self, name, dtype_of_logical, extents, loan, int(stillframe_column_major, c_int32_t), units, attributes, offset,&
        & global_shape, &
      address, o)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another shape for a managed variable, keeping its leading elements; what it gets beyond them is zero, also where it had
  ! elements before that it gave up. Pointers to it from before are no more.
  subroutine resize_logical_int64(self, name, array, shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_logical, extents, address, o)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Another part of its global array for a managed variable from the next version on, as after balancing the load, with the
  ! shape of that part; else as resize.
  subroutine repart_logical_int64(self, name, array, shape, offset, global_shape, lower, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_shape(name, int(shape, int64), rank(array), lower, extents, o)
    call reshape_managed(self, name, dtype_of_logical, extents, address, o, offset, global_shape)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! For types that have no procedure of their own: track, array, loan, resize and repart with an address and a dtype,
  ! which is "uint8" to "uint64", "bytesN", or a record as JSON:
  ! {"fields":[{"name":"rho","dtype":"float64","offset":0}],"bytes":8}.
  ! strides: how many bytes neighbours are from each other along each dimension, which may be negative; without it elements lie
  ! one behind the other.
  subroutine track_address_int64(self, name, address, dtype, shape, row_major, units, attributes, &
      offset, global_shape, as, strides, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: shape(:)
    logical, intent(in), optional :: row_major
    character(*), intent(in), optional :: units, as
    integer(int64), intent(in), optional :: strides(:)
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(place) :: where
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    where%address = address
    where%rank = size(extents)
    if (where%rank <= size(where%shape)) where%shape(1:where%rank) = extents
    if (present(strides)) then
      where%contiguous = .false.
      if (size(strides) /= where%rank) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // &
        "': there is not one stride for each dimension of shape " // shape_text(extents))
      if (o%status == stillframe_ok .and. where%rank <= size(where%strides)) where%strides(1:where%rank) = strides
    else if (present(as)) then
      call place_closely(where, dtype, order_of(row_major))
    end if
    call follow(self, name, dtype, where, order_of(row_major), as, units, attributes, offset, global_shape, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine array_address_int64(self, name, address, dtype, shape, row_major, units, attributes, &
      offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    type(c_ptr), intent(out) :: address
    integer(int64), intent(in) :: shape(:)
    logical, intent(in), optional :: row_major
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call reserve(self, name, dtype, extents, order_of(row_major), units, attributes, offset, global_shape, &
      address, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine loan_address_int64(self, name, address, dtype, shape, loan, row_major, units, attributes, &
      offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name, dtype
    type(c_ptr), intent(out) :: address
    integer(int64), intent(in) :: shape(:)
    type(stillframe_loan), intent(inout) :: loan
    logical, intent(in), optional :: row_major
    character(*), intent(in), optional :: units
    type(stillframe_attribute), intent(in), optional :: attributes(:)
    integer, intent(in), optional :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call lend(self, name, dtype, extents, loan, order_of(row_major), units, attributes, offset, global_shape, &
      address, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine resize_address_int64(self, name, address, shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(out) :: address
    integer(int64), intent(in) :: shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call reshape_managed(self, name, '', extents, address, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine repart_address_int64(self, name, address, shape, offset, global_shape, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(out) :: address
    integer(int64), intent(in) :: shape(:)
    integer, intent(in) :: offset(:), global_shape(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(outcome) :: o

    call check_shape(name, int(shape, int64), size(shape), extents=extents, o=o)
    call reshape_managed(self, name, '', extents, address, o, offset, global_shape)
    call conclude(o, stat, errmsg)
  end subroutine

  ! A shape in 64 bits; absent, which is not allocated, for scalars.
  pure function widened(shape) result(wide)
    integer(int32), intent(in), optional :: shape(:)
    integer(int64), allocatable :: wide(:)

    wide = [integer(int64) ::]
    if (present(shape)) wide = int(shape, int64)
  end function

  ! The next publish shows what was written. Ends the loan either way.
  subroutine loan_submit(self, stat, errmsg)
    class(stillframe_loan), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_loan_submit(self%handle))
    self%handle = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! Gives the memory back. Ends the loan either way.
  subroutine loan_discard(self, stat, errmsg)
    class(stillframe_loan), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_loan_discard(self%handle))
    self%handle = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! An attribute of the next version, and of that one only.
  subroutine set_logical(self, name, value, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    logical, intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_set_bool(self%handle, terminated(name), merge(yes, no, value)))
    call conclude(o, stat, errmsg)
  end subroutine

  function attribute_of_logical(name, value) result(attribute)
    character(*), intent(in) :: name
    logical, intent(in) :: value
    type(stillframe_attribute) :: attribute

    attribute%name = trim(name)
    attribute%type = stillframe_bool
    attribute%integer = merge(1_int64, 0_int64, value)
  end function

  ! An attribute of the next version, and of that one only.
  subroutine set_int32(self, name, value, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int32), intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_set_int(self%handle, terminated(name), int(value, c_int64_t)))
    call conclude(o, stat, errmsg)
  end subroutine

  function attribute_of_int32(name, value) result(attribute)
    character(*), intent(in) :: name
    integer(int32), intent(in) :: value
    type(stillframe_attribute) :: attribute

    attribute%name = trim(name)
    attribute%type = stillframe_int
    attribute%integer = int(value, int64)
  end function

  ! An attribute of the next version, and of that one only.
  subroutine set_int64(self, name, value, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    integer(int64), intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_set_int(self%handle, terminated(name), value))
    call conclude(o, stat, errmsg)
  end subroutine

  function attribute_of_int64(name, value) result(attribute)
    character(*), intent(in) :: name
    integer(int64), intent(in) :: value
    type(stillframe_attribute) :: attribute

    attribute%name = trim(name)
    attribute%type = stillframe_int
    attribute%integer = int(value, int64)
  end function

  ! An attribute of the next version, and of that one only.
  subroutine set_real32(self, name, value, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real32), intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_set_float(self%handle, terminated(name), real(value, c_double)))
    call conclude(o, stat, errmsg)
  end subroutine

  function attribute_of_real32(name, value) result(attribute)
    character(*), intent(in) :: name
    real(real32), intent(in) :: value
    type(stillframe_attribute) :: attribute

    attribute%name = trim(name)
    attribute%type = stillframe_float
    attribute%real = real(value, real64)
  end function

  ! An attribute of the next version, and of that one only.
  subroutine set_real64(self, name, value, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_set_float(self%handle, terminated(name), value))
    call conclude(o, stat, errmsg)
  end subroutine

  function attribute_of_real64(name, value) result(attribute)
    character(*), intent(in) :: name
    real(real64), intent(in) :: value
    type(stillframe_attribute) :: attribute

    attribute%name = trim(name)
    attribute%type = stillframe_float
    attribute%real = real(value, real64)
  end function

  ! An attribute of the next version, and of that one only.
  subroutine set_text(self, name, value, stat, errmsg)
    class(stillframe_region), intent(inout) :: self
    character(*), intent(in) :: name
    character(*), intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_set_text(self%handle, terminated(name), terminated(value)))
    call conclude(o, stat, errmsg)
  end subroutine

  function attribute_of_text(name, value) result(attribute)
    character(*), intent(in) :: name
    character(*), intent(in) :: value
    type(stillframe_attribute) :: attribute

    attribute%name = trim(name)
    attribute%type = stillframe_text
    attribute%text = trim(value)
  end function

  ! ---- checkpoints --------------------------------------------------------------------------------------------------

  ! Begins to save versions of a region or group into the directory `to`, which is made if it is not there, and is this
  ! checkpointer's alone until it ends. Of every, every_ms, when (a condition on attributes, such as 'time > 1.5') and at_end
  ! any one is enough for a version to be saved; without them all are. The newest `keep` (3) checkpoints stay, and
  ! those whose version is a multiple of keep_every. all=.true. holds versions that come faster than they can be saved.
  ! The threads that save step back behind others that want the processors by their nice value, 0 to 19 and else 10.
  ! It waits up to wait_ms for the region to appear, and up to follow_ms for the next run of the program when one is gone.
  ! A directory of another user is refused unless trust says 'user:NUMBER', 'group:NUMBER' or 'any'.
  subroutine checkpointer_start(self, name, to, every, every_ms, when, at_end, once, keep, keep_every, all, held, &
      held_bytes, compress, chunk_bytes, threads, nice, wait_ms, follow_ms, dir, trust, stat, errmsg)
    class(stillframe_checkpointer), intent(inout) :: self
    character(*), intent(in) :: name, to
    integer, intent(in), optional :: every, every_ms, keep, keep_every, held, chunk_bytes, threads, nice, wait_ms, follow_ms
    integer(int64), intent(in), optional :: held_bytes
    character(*), intent(in), optional :: when, compress, dir, trust
    logical, intent(in), optional :: at_end, once, all
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_checkpoint_options) :: options
    character(kind=c_char), allocatable, target :: c_when(:), c_compress(:), c_dir(:), c_trust(:)
    type(outcome) :: o

    call set_terminated(c_when, when)
    options%when = address_of(c_when)
    call set_terminated(c_compress, compress)
    options%compress = address_of(c_compress)
    call set_terminated(c_dir, dir)
    options%dir = address_of(c_dir)
    call set_terminated(c_trust, trust)
    options%trust = address_of(c_trust)
    if (present(every)) options%every = every
    if (present(every_ms)) options%every_ms = every_ms
    if (present(keep)) options%keep = keep
    if (present(keep_every)) options%keep_every = keep_every
    if (present(held)) options%held = held
    if (present(held_bytes)) options%held_bytes = held_bytes
    if (present(chunk_bytes)) options%chunk_bytes = chunk_bytes
    if (present(threads)) options%threads = threads
    if (present(wait_ms)) options%wait_ms = wait_ms
    if (present(follow_ms)) options%follow_ms = follow_ms
    if (present(nice)) options%nice = merge(-1, nice, nice == 0)
    if (present(at_end)) options%flags = ior(options%flags, merge(1_c_int32_t, 0_c_int32_t, at_end))
    if (present(all)) options%flags = ior(options%flags, merge(2_c_int32_t, 0_c_int32_t, all))
    if (present(once)) options%flags = ior(options%flags, merge(4_c_int32_t, 0_c_int32_t, once))
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "'" // trim(name) // "': this checkpointer runs already: stop it first, or use another variable")
    if (o%status == stillframe_ok) call check(o, c_checkpoint_start(terminated(name), terminated(to), options, self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine tell(c, status)
    type(c_checkpoint_info), intent(in) :: c
    type(stillframe_checkpoint_status), intent(out) :: status

    status%state = int(c%state)
    if (c%has_safe /= 0) status%newest_safe = c%newest_safe
    status%saved = c%saved
    status%missed = c%missed
    status%saving = c%saving
    status%written_bytes = c%written_bytes
    status%linked_bytes = c%linked_bytes
    status%error = text_at(c%error)
  end subroutine

  ! What a checkpointer has done, and is doing.
  subroutine checkpointer_status(self, status, stat, errmsg)
    class(stillframe_checkpointer), intent(in) :: self
    type(stillframe_checkpoint_status), intent(out) :: status
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_checkpoint_info) :: c
    type(outcome) :: o

    call check(o, c_checkpoint_status(self%handle, c))
    if (o%status == stillframe_ok) call tell(c, status)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Takes no more versions, with at_end but the newest, waits until those that are held are safe, and ends.
  subroutine checkpointer_stop(self, status, stat, errmsg)
    class(stillframe_checkpointer), intent(inout) :: self
    type(stillframe_checkpoint_status), intent(out), optional :: status
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_checkpoint_info) :: c
    type(outcome) :: o

    call check(o, c_checkpoint_stop(self%handle, c))
    if (o%status /= stillframe_busy .and. o%status /= stillframe_forked) self%handle = c_null_ptr
    if (o%status == stillframe_ok .and. present(status)) call tell(c, status)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Waits until a version is safe, at most timeout_ms (for ever unless said), or until the checkpointer has ended without it,
  ! and says whether it is, or was until newer ones took its place.
  function checkpointer_wait_safe_int32(self, version, timeout_ms, stat, errmsg) result(safe)
    class(stillframe_checkpointer), intent(in) :: self
    integer(int32), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: safe
    integer(c_int8_t) :: c_safe
    type(outcome) :: o

    c_safe = no
    call check(o, c_checkpoint_wait_safe(self%handle, int(version, c_int64_t), limit_of(timeout_ms), c_safe))
    safe = c_safe /= no
    call conclude(o, stat, errmsg)
  end function

  ! Waits until that version or a newer one is safe, as wait_safe does, and says which; -1 if none is. What was done up to it
  ! need not be done again then.
  function checkpointer_wait_safe_from_int32(self, version, timeout_ms, stat, errmsg) result(safe)
    class(stillframe_checkpointer), intent(in) :: self
    integer(int32), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: safe
    integer(c_int8_t) :: found
    type(outcome) :: o

    found = no
    call check(o, c_checkpoint_wait_safe_from(self%handle, int(version, c_int64_t), limit_of(timeout_ms), found, safe))
    if (found == no) safe = -1
    call conclude(o, stat, errmsg)
  end function

  ! Whether a version is safe in a directory of checkpoints: it is there, whole, on disk, and can be recovered.
  function is_safe_int32(dir, version, stat, errmsg) result(safe)
    character(*), intent(in) :: dir
    integer(int32), intent(in) :: version
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: safe
    integer(c_int8_t) :: c_safe
    type(outcome) :: o

    c_safe = no
    call check(o, c_is_safe(terminated(dir), int(version, c_int64_t), c_safe))
    safe = c_safe /= no
    call conclude(o, stat, errmsg)
  end function

  ! Waits until a version is safe in a directory, at most timeout_ms (for ever unless said), and says whether it is. One that
  ! the checkpointer leaves out never is.
  function wait_safe_int32(dir, version, timeout_ms, stat, errmsg) result(safe)
    character(*), intent(in) :: dir
    integer(int32), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: safe
    integer(c_int8_t) :: c_safe
    type(outcome) :: o

    c_safe = no
    call check(o, c_wait_safe(terminated(dir), int(version, c_int64_t), limit_of(timeout_ms), c_safe))
    safe = c_safe /= no
    call conclude(o, stat, errmsg)
  end function

  ! Waits until that version or a newer one is safe in a directory, as stillframe_wait_safe does, and says which; -1 if none
  ! is. What was done up to it need not be done again then.
  function wait_safe_from_int32(dir, version, timeout_ms, stat, errmsg) result(safe)
    character(*), intent(in) :: dir
    integer(int32), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: safe
    integer(c_int8_t) :: found
    type(outcome) :: o

    found = no
    call check(o, c_wait_safe_from(terminated(dir), int(version, c_int64_t), limit_of(timeout_ms), found, safe))
    if (found == no) safe = -1
    call conclude(o, stat, errmsg)
  end function

  ! Waits until a version is safe, at most timeout_ms (for ever unless said), or until the checkpointer has ended without it,
  ! and says whether it is, or was until newer ones took its place.
  function checkpointer_wait_safe_int64(self, version, timeout_ms, stat, errmsg) result(safe)
    class(stillframe_checkpointer), intent(in) :: self
    integer(int64), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: safe
    integer(c_int8_t) :: c_safe
    type(outcome) :: o

    c_safe = no
    call check(o, c_checkpoint_wait_safe(self%handle, int(version, c_int64_t), limit_of(timeout_ms), c_safe))
    safe = c_safe /= no
    call conclude(o, stat, errmsg)
  end function

  ! Waits until that version or a newer one is safe, as wait_safe does, and says which; -1 if none is. What was done up to it
  ! need not be done again then.
  function checkpointer_wait_safe_from_int64(self, version, timeout_ms, stat, errmsg) result(safe)
    class(stillframe_checkpointer), intent(in) :: self
    integer(int64), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: safe
    integer(c_int8_t) :: found
    type(outcome) :: o

    found = no
    call check(o, c_checkpoint_wait_safe_from(self%handle, int(version, c_int64_t), limit_of(timeout_ms), found, safe))
    if (found == no) safe = -1
    call conclude(o, stat, errmsg)
  end function

  ! Whether a version is safe in a directory of checkpoints: it is there, whole, on disk, and can be recovered.
  function is_safe_int64(dir, version, stat, errmsg) result(safe)
    character(*), intent(in) :: dir
    integer(int64), intent(in) :: version
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: safe
    integer(c_int8_t) :: c_safe
    type(outcome) :: o

    c_safe = no
    call check(o, c_is_safe(terminated(dir), int(version, c_int64_t), c_safe))
    safe = c_safe /= no
    call conclude(o, stat, errmsg)
  end function

  ! Waits until a version is safe in a directory, at most timeout_ms (for ever unless said), and says whether it is. One that
  ! the checkpointer leaves out never is.
  function wait_safe_int64(dir, version, timeout_ms, stat, errmsg) result(safe)
    character(*), intent(in) :: dir
    integer(int64), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: safe
    integer(c_int8_t) :: c_safe
    type(outcome) :: o

    c_safe = no
    call check(o, c_wait_safe(terminated(dir), int(version, c_int64_t), limit_of(timeout_ms), c_safe))
    safe = c_safe /= no
    call conclude(o, stat, errmsg)
  end function

  ! Waits until that version or a newer one is safe in a directory, as stillframe_wait_safe does, and says which; -1 if none
  ! is. What was done up to it need not be done again then.
  function wait_safe_from_int64(dir, version, timeout_ms, stat, errmsg) result(safe)
    character(*), intent(in) :: dir
    integer(int64), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: safe
    integer(c_int8_t) :: found
    type(outcome) :: o

    found = no
    call check(o, c_wait_safe_from(terminated(dir), int(version, c_int64_t), limit_of(timeout_ms), found, safe))
    if (found == no) safe = -1
    call conclude(o, stat, errmsg)
  end function

  ! The newest version that is safe in a directory of checkpoints; -1 if none is.
  function stillframe_newest_safe(dir, stat, errmsg) result(version)
    character(*), intent(in) :: dir
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: version
    integer(c_int8_t) :: found
    type(outcome) :: o

    found = no
    call check(o, c_newest_safe(terminated(dir), found, version))
    if (found == no) version = -1
    call conclude(o, stat, errmsg)
  end function

  ! A time that is no more than C can count, of one that has no limit unless said.
  pure function limit_of(timeout_ms) result(timeout)
    integer, intent(in), optional :: timeout_ms
    integer(c_int64_t) :: timeout

    timeout = huge(timeout)
    if (present(timeout_ms)) timeout = max(timeout_ms, 0)
  end function

  ! ---- observers ----------------------------------------------------------------------------------------------------

  ! Opens a region, waiting up to wait_ms for it to appear.
  ! With populate, so many threads enter all pages of a variable in the page tables when it is first seen, and take them out in
  ! the end: for programs that read all of a large variable. Otherwise pages are entered as they are first read.
  ! With arena, the name is that of a region within it: needed for arenas that were handed in as descriptors, to which
  ! no name leads. With polite it takes of the machine only what others leave, and where nothing is left over `share` of one
  ! processor (0.02 unless said); at most bytes_per_s bytes in a second; on these processors, such as '60-63,127'. That is of the
  ! whole process, which is to look and do nothing else, and lasts until its end.
  subroutine observer_open(self, name, dir, wait_ms, populate, trust, arena, polite, share, bytes_per_s, processors, &
      stat, errmsg)
    class(stillframe_observer), intent(inout) :: self
    character(*), intent(in) :: name
    character(*), intent(in), optional :: dir, trust
    integer, intent(in), optional :: wait_ms, populate
    type(stillframe_arena), intent(in), optional :: arena
    logical, intent(in), optional :: polite
    real(real64), intent(in), optional :: share
    integer(int64), intent(in), optional :: bytes_per_s
    character(*), intent(in), optional :: processors
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:), c_trust(:), c_processors(:)
    type(c_polite), target :: politeness
    type(c_observer_options) :: options
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    call set_terminated(c_trust, trust)
    call set_terminated(c_processors, processors)
    if (present(share)) politeness%share = share
    if (present(bytes_per_s)) politeness%bytes_per_s = bytes_per_s
    politeness%processors = address_of(c_processors)
    if (present(polite)) then
      if (polite) options%polite = c_loc(politeness)
    end if
    options%dir = address_of(c_dir)
    options%trust = address_of(c_trust)
    if (present(wait_ms)) options%wait_ms = wait_ms
    if (present(populate)) options%populate_threads = populate
    if (present(arena)) options%arena = handle_of(arena, o)
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "'" // trim(name) // "': this variable is open already: close it first, or use another variable")
    if (o%status == stillframe_ok) call check(o, c_open(terminated(name), &
      options, self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Closes it; snapshots stay until they are released.
  subroutine observer_close(self, stat, errmsg)
    class(stillframe_observer), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_observer_close(self%handle))
    if (o%status /= stillframe_busy .and. o%status /= stillframe_forked) self%handle = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! Waits for a version after this one, and says which is the newest that there is; holds none.
  subroutine observer_wait_newer(self, after, version, timeout_ms, stat, errmsg)
    class(stillframe_observer), intent(in) :: self
    integer(int64), intent(in) :: after
    integer(int64), intent(out) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    version = -1
    call check(o, c_wait_newer(self%handle, after, timeout_of(timeout_ms), version))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Opens a group: all ranks of a parallel program, waiting up to wait_ms for it to appear.
  ! With arena, the name is that of a group within it: needed for arenas that were handed in as descriptors, to which
  ! no name leads. With polite it takes of the machine only what others leave, and where nothing is left over `share` of one
  ! processor (0.02 unless said); at most bytes_per_s bytes in a second; on these processors, such as '60-63,127'. That is of the
  ! whole process, which is to look and do nothing else, and lasts until its end.
  subroutine group_open(self, name, dir, wait_ms, trust, arena, polite, share, bytes_per_s, processors, &
      stat, errmsg)
    class(stillframe_group), intent(inout) :: self
    character(*), intent(in) :: name
    character(*), intent(in), optional :: dir, trust
    integer, intent(in), optional :: wait_ms
    type(stillframe_arena), intent(in), optional :: arena
    logical, intent(in), optional :: polite
    real(real64), intent(in), optional :: share
    integer(int64), intent(in), optional :: bytes_per_s
    character(*), intent(in), optional :: processors
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:), c_trust(:), c_processors(:)
    type(c_polite), target :: politeness
    type(c_observer_options) :: options
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    call set_terminated(c_trust, trust)
    call set_terminated(c_processors, processors)
    if (present(share)) politeness%share = share
    if (present(bytes_per_s)) politeness%bytes_per_s = bytes_per_s
    politeness%processors = address_of(c_processors)
    if (present(polite)) then
      if (polite) options%polite = c_loc(politeness)
    end if
    options%dir = address_of(c_dir)
    options%trust = address_of(c_trust)
    if (present(wait_ms)) options%wait_ms = wait_ms
    if (present(arena)) options%arena = handle_of(arena, o)
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "'" // trim(name) // "': this variable is open already: close it first, or use another variable")
    if (o%status == stillframe_ok) call check(o, c_group_open(terminated(name), &
      options, self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Closes it; snapshots stay until they are released.
  subroutine group_close(self, stat, errmsg)
    class(stillframe_group), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_group_close(self%handle))
    if (o%status /= stillframe_busy .and. o%status /= stillframe_forked) self%handle = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! Waits for a version after this one, and says which is the newest that every rank has; holds none.
  subroutine group_wait_newer(self, after, version, timeout_ms, stat, errmsg)
    class(stillframe_group), intent(in) :: self
    integer(int64), intent(in) :: after
    integer(int64), intent(out) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    version = -1
    call check(o, c_group_wait_newer(self%handle, after, timeout_of(timeout_ms), version))
    call conclude(o, stat, errmsg)
  end subroutine

  function observer_producer_alive(self, stat, errmsg) result(alive)
    class(stillframe_observer), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: alive
    integer(c_int8_t) :: c_alive
    type(outcome) :: o

    c_alive = no
    call check(o, c_producer_alive(self%handle, c_alive))
    alive = c_alive /= no
    call conclude(o, stat, errmsg)
  end function

  ! All versions there are, the oldest first.
  subroutine observer_versions(self, versions, stat, errmsg)
    class(stillframe_observer), intent(in) :: self
    type(stillframe_version_info), allocatable, intent(out) :: versions(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_version_info), allocatable, target :: c(:)
    integer(c_size_t) :: count
    integer :: i
    type(outcome) :: o

    allocate (c(64))
    count = 0
    call check(o, c_versions(self%handle, c_loc(c), size(c, kind=c_size_t), count))
    if (o%status /= stillframe_ok) count = 0
    allocate (versions(min(count, size(c, kind=c_size_t))))
    do i = 1, size(versions)
      versions(i) = stillframe_version_info(c(i)%version, c(i)%published_ns, c(i)%dirty_pages, c(i)%total_pages, &
        c(i)%retiring /= 0)
    end do
    call conclude(o, stat, errmsg)
  end subroutine

  ! The following let go of what the snapshot held, and then hold another version in it.

  subroutine observer_newest(self, snapshot, stat, errmsg)
    class(stillframe_observer), intent(in) :: self
    type(stillframe_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call let_go(snapshot)
    call check(o, c_newest(self%handle, snapshot%handle))
    call take(snapshot, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine observer_version_int32(self, version, snapshot, stat, errmsg)
    class(stillframe_observer), intent(in) :: self
    integer(int32), intent(in) :: version
    type(stillframe_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call let_go(snapshot)
    call check(o, c_version(self%handle, int(version, c_int64_t), snapshot%handle))
    call take(snapshot, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine observer_version_int64(self, version, snapshot, stat, errmsg)
    class(stillframe_observer), intent(in) :: self
    integer(int64), intent(in) :: version
    type(stillframe_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call let_go(snapshot)
    call check(o, c_version(self%handle, int(version, c_int64_t), snapshot%handle))
    call take(snapshot, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! The oldest version there is after the one that the snapshot holds or held last, or after `after`; waits for it, at most
  ! for timeout_ms. An empty snapshot takes any.
  subroutine observer_next_after(self, snapshot, timeout_ms, after, stat, errmsg)
    class(stillframe_observer), intent(in) :: self
    type(stillframe_snapshot), intent(inout) :: snapshot
    integer, intent(in), optional :: timeout_ms
    integer(int64), intent(in), optional :: after
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: base
    type(outcome) :: o

    base = snapshot%last
    if (present(after)) base = after
    call let_go(snapshot)
    call check(o, c_next_after(self%handle, base, timeout_of(timeout_ms), snapshot%handle))
    call take(snapshot, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! The newest version there is after the one that the snapshot holds or held last, or after `after`; waits for it, at most
  ! for timeout_ms. An empty snapshot takes any.
  subroutine observer_newest_after(self, snapshot, timeout_ms, after, stat, errmsg)
    class(stillframe_observer), intent(in) :: self
    type(stillframe_snapshot), intent(inout) :: snapshot
    integer, intent(in), optional :: timeout_ms
    integer(int64), intent(in), optional :: after
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: base
    type(outcome) :: o

    base = snapshot%last
    if (present(after)) base = after
    call let_go(snapshot)
    call check(o, c_newest_after(self%handle, base, timeout_of(timeout_ms), snapshot%handle))
    call take(snapshot, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! For ever unless said.
  pure function timeout_of(timeout_ms) result(timeout)
    integer, intent(in), optional :: timeout_ms
    integer(c_int64_t) :: timeout

    timeout = -1
    if (present(timeout_ms)) timeout = timeout_ms
  end function

  ! ---- snapshots ----------------------------------------------------------------------------------------------------

  subroutine let_go(snapshot)
    type(stillframe_snapshot), intent(inout) :: snapshot
    integer(c_int32_t) :: status

    if (c_associated(snapshot%handle)) status = c_release(snapshot%handle)
    snapshot%handle = c_null_ptr
  end subroutine

  ! Notes which version a new hold is on.
  subroutine take(snapshot, o)
    type(stillframe_snapshot), intent(inout) :: snapshot
    type(outcome), intent(inout) :: o
    type(c_snapshot_info) :: info

    if (o%status == stillframe_ok) call check(o, c_describe(snapshot%handle, info))
    if (o%status == stillframe_ok) then
      snapshot%last = info%version
    else
      snapshot%handle = c_null_ptr
    end if
  end subroutine

  ! Moves a hold from one variable to another, which lets go of its own.
  subroutine stillframe_move(from, to)
    type(stillframe_snapshot), intent(inout) :: from, to

    call let_go(to)
    to%handle = from%handle
    to%last = from%last
    from%handle = c_null_ptr
  end subroutine

  ! Ends the hold. An empty snapshot stays empty.
  subroutine snapshot_release(self, stat, errmsg)
    class(stillframe_snapshot), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_release(self%handle))
    self%handle = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! Lets go of this version for a later one, which this becomes, and brings what was viewed along: views of it are then made from
  ! what was there, by what changed, where that is cheaper than to map the later version anew. That takes memory of this process,
  ! as much as the variable has, which is copied once; from then on the work of each version is proportional to what changed.
  ! Pointers to views of this version lead nowhere after that; next is empty. After an error nothing has changed.
  subroutine snapshot_advance(self, next, stat, errmsg)
    class(stillframe_snapshot), intent(inout) :: self
    type(stillframe_snapshot), intent(inout) :: next
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_advance(self%handle, next%handle))
    if (o%status == stillframe_ok) then
      self%handle = next%handle
      self%last = next%last
      next%handle = c_null_ptr
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The number of the version, or -1 of an empty snapshot.
  pure function snapshot_version(self) result(version)
    class(stillframe_snapshot), intent(in) :: self
    integer(int64) :: version

    version = merge(self%last, -1_int64, c_associated(self%handle))
  end function

  ! When it was published: nanoseconds since 1970.
  function snapshot_published_ns(self, stat, errmsg) result(time)
    class(stillframe_snapshot), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: time
    type(c_snapshot_info) :: info
    type(outcome) :: o

    call check(o, c_describe(self%handle, info))
    time = merge(info%published_ns, -1_int64, o%status == stillframe_ok)
    call conclude(o, stat, errmsg)
  end function

  ! The name of its region.
  function snapshot_region(self, stat, errmsg) result(name)
    class(stillframe_snapshot), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(:), allocatable :: name
    type(c_snapshot_info) :: info
    type(outcome) :: o

    call check(o, c_describe(self%handle, info))
    name = ''
    if (o%status == stillframe_ok) name = text_at(info%region)
    call conclude(o, stat, errmsg)
  end function

  subroutine translate(c, variable)
    type(c_variable), intent(in) :: c
    type(stillframe_variable), intent(out) :: variable

    variable%name = text_at(c%name)
    variable%dtype = text_at(c%dtype)
    variable%units = text_at(c%units)
    variable%order = int(c%order)
    variable%shape = int(c%shape(1:c%rank), int64)
    variable%strides = int(c%strides(1:c%rank), int64)
    variable%bytes = int(c%bytes, int64)
    variable%item_bytes = int(c%item_bytes, int64)
    if (.not. c_associated(c%offset)) return
    variable%offset = extents_at(c%offset, c%rank)
    variable%global_shape = extents_at(c%global_shape, c%rank)
  end subroutine

  function extents_at(address, rank) result(extents)
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: rank
    integer(int64), allocatable :: extents(:)
    integer(c_size_t), pointer :: numbers(:)

    call c_f_pointer(address, numbers, [rank])
    extents = int(numbers, int64)
  end function

  ! All variables.
  subroutine snapshot_variables(self, variables, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    type(stillframe_variable), allocatable, intent(out) :: variables(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_snapshot_info) :: info
    type(c_variable) :: c
    type(outcome) :: o
    integer :: i

    call check(o, c_describe(self%handle, info))
    allocate (variables(merge(info%variable_count, 0_c_size_t, o%status == stillframe_ok)))
    do i = 1, size(variables)
      call check(o, c_variable_at(self%handle, int(i - 1, c_size_t), c))
      if (o%status == stillframe_ok) call translate(c, variables(i))
    end do
    call conclude(o, stat, errmsg)
  end subroutine

  ! One of them.
  subroutine snapshot_variable(self, name, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    type(stillframe_variable), intent(out) :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_variable) :: c
    type(outcome) :: o

    call check(o, c_variable_named(self%handle, terminated(name), c))
    if (o%status == stillframe_ok) call translate(c, variable)
    call conclude(o, stat, errmsg)
  end subroutine

  ! The attributes of the version, or of a variable.
  subroutine snapshot_attributes(self, attributes, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    type(stillframe_attribute), allocatable, intent(out) :: attributes(:)
    character(*), intent(in), optional :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    type(c_snapshot_info) :: info
    type(c_variable) :: c_of
    type(c_attribute) :: c
    integer(c_size_t) :: count
    type(outcome) :: o
    integer :: i

    call set_terminated(c_name, variable)
    count = 0
    if (present(variable)) then
      call check(o, c_variable_named(self%handle, c_name, c_of))
      if (o%status == stillframe_ok) count = c_of%attribute_count
    else
      call check(o, c_describe(self%handle, info))
      if (o%status == stillframe_ok) count = info%attribute_count
    end if
    allocate (attributes(count))
    do i = 1, size(attributes)
      call check(o, c_attribute_at(self%handle, address_of(c_name), int(i - 1, c_size_t), c))
      if (o%status /= stillframe_ok) exit
      attributes(i)%name = text_at(c%name)
      attributes(i)%type = int(c%type)
      attributes(i)%integer = c%integer
      attributes(i)%real = c%real
      if (c%type == stillframe_text) attributes(i)%text = text_at(c%text)
    end do
    call conclude(o, stat, errmsg)
  end subroutine

  ! An attribute that has to be of one of two types.
  ! Checks that an attribute is of the type wanted.
  subroutine check_type(name, c, wanted, also, o)
    character(*), intent(in) :: name
    type(c_attribute), intent(in) :: c
    integer, intent(in) :: wanted, also
    type(outcome), intent(inout) :: o
    character(*), parameter :: types(0:3) = [character(9) :: 'logical', 'integer', 'real', 'character']

    if (o%status /= stillframe_ok) return
    if (c%type /= wanted .and. c%type /= also) call refuse(o, stillframe_wrong_dtype, "attribute '" // trim(name) // &
      "' is of type " // trim(types(c%type)) // ', not ' // trim(types(wanted)))
  end subroutine

  ! The value of an attribute of the version, or of a variable.
  subroutine get_logical(self, name, value, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    logical, intent(out) :: value
    character(*), intent(in), optional :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_of(:)
    type(c_attribute) :: c
    type(outcome) :: o

    value = .false.
    call set_terminated(c_of, variable)
    call check(o, c_attribute_named(self%handle, address_of(c_of), terminated(name), c))
    call check_type(name, c, stillframe_bool, stillframe_bool, o)
    if (o%status == stillframe_ok) then
      value = c%integer /= 0
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version that recover found.
  subroutine recovered_attribute_logical(self, name, value, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    logical, intent(out) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_attribute) :: c
    type(outcome) :: o

    value = .false.
    call check(o, c_recovered_attribute(self%handle, terminated(name), c))
    call check_type(name, c, stillframe_bool, stillframe_bool, o)
    if (o%status == stillframe_ok) then
      value = c%integer /= 0
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version, or of a variable.
  subroutine get_int32(self, name, value, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(out) :: value
    character(*), intent(in), optional :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_of(:)
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call set_terminated(c_of, variable)
    call check(o, c_attribute_named(self%handle, address_of(c_of), terminated(name), c))
    call check_type(name, c, stillframe_int, stillframe_int, o)
    if (o%status == stillframe_ok .and. abs(c%integer) > huge(value)) call refuse(o, stillframe_out_of_range, &
      "attribute '" // trim(name) // "' is " // decimal(c%integer) // ', more than an integer of 32 bits holds')
    if (o%status == stillframe_ok) then
      value = int(c%integer, int32)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version that recover found.
  subroutine recovered_attribute_int32(self, name, value, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(out) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call check(o, c_recovered_attribute(self%handle, terminated(name), c))
    call check_type(name, c, stillframe_int, stillframe_int, o)
    if (o%status == stillframe_ok .and. abs(c%integer) > huge(value)) call refuse(o, stillframe_out_of_range, &
      "attribute '" // trim(name) // "' is " // decimal(c%integer) // ', more than an integer of 32 bits holds')
    if (o%status == stillframe_ok) then
      value = int(c%integer, int32)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version, or of a variable.
  subroutine get_int64(self, name, value, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(out) :: value
    character(*), intent(in), optional :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_of(:)
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call set_terminated(c_of, variable)
    call check(o, c_attribute_named(self%handle, address_of(c_of), terminated(name), c))
    call check_type(name, c, stillframe_int, stillframe_int, o)
    if (o%status == stillframe_ok) then
      value = int(c%integer, int64)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version that recover found.
  subroutine recovered_attribute_int64(self, name, value, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(out) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call check(o, c_recovered_attribute(self%handle, terminated(name), c))
    call check_type(name, c, stillframe_int, stillframe_int, o)
    if (o%status == stillframe_ok) then
      value = int(c%integer, int64)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version, or of a variable. Integers are taken for reals too.
  subroutine get_real32(self, name, value, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    real(real32), intent(out) :: value
    character(*), intent(in), optional :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_of(:)
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call set_terminated(c_of, variable)
    call check(o, c_attribute_named(self%handle, address_of(c_of), terminated(name), c))
    call check_type(name, c, stillframe_float, stillframe_int, o)
    if (o%status == stillframe_ok) then
      value = real(c%real, real32)
      if (c%type == stillframe_int) value = real(c%integer, real32)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version that recover found. Integers are taken for reals too.
  subroutine recovered_attribute_real32(self, name, value, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    real(real32), intent(out) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call check(o, c_recovered_attribute(self%handle, terminated(name), c))
    call check_type(name, c, stillframe_float, stillframe_int, o)
    if (o%status == stillframe_ok) then
      value = real(c%real, real32)
      if (c%type == stillframe_int) value = real(c%integer, real32)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version, or of a variable. Integers are taken for reals too.
  subroutine get_real64(self, name, value, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), intent(out) :: value
    character(*), intent(in), optional :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_of(:)
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call set_terminated(c_of, variable)
    call check(o, c_attribute_named(self%handle, address_of(c_of), terminated(name), c))
    call check_type(name, c, stillframe_float, stillframe_int, o)
    if (o%status == stillframe_ok) then
      value = real(c%real, real64)
      if (c%type == stillframe_int) value = real(c%integer, real64)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version that recover found. Integers are taken for reals too.
  subroutine recovered_attribute_real64(self, name, value, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), intent(out) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_attribute) :: c
    type(outcome) :: o

    value = 0
    call check(o, c_recovered_attribute(self%handle, terminated(name), c))
    call check_type(name, c, stillframe_float, stillframe_int, o)
    if (o%status == stillframe_ok) then
      value = real(c%real, real64)
      if (c%type == stillframe_int) value = real(c%integer, real64)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version, or of a variable.
  subroutine get_text(self, name, value, variable, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), allocatable, intent(out) :: value
    character(*), intent(in), optional :: variable
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_of(:)
    type(c_attribute) :: c
    type(outcome) :: o

    value = ''
    call set_terminated(c_of, variable)
    call check(o, c_attribute_named(self%handle, address_of(c_of), terminated(name), c))
    call check_type(name, c, stillframe_text, stillframe_text, o)
    if (o%status == stillframe_ok) then
      value = text_at(c%text)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The value of an attribute of the version that recover found.
  subroutine recovered_attribute_text(self, name, value, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    character(:), allocatable, intent(out) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_attribute) :: c
    type(outcome) :: o

    value = ''
    call check(o, c_recovered_attribute(self%handle, terminated(name), c))
    call check_type(name, c, stillframe_text, stillframe_text, o)
    if (o%status == stillframe_ok) then
      value = text_at(c%text)
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! Which bytes of a variable differ from those of an older snapshot, or may: offset and length of each range, in two rows.
  subroutine snapshot_changed(self, older, name, ranges, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    type(stillframe_snapshot), intent(in) :: older
    character(*), intent(in) :: name
    integer(int64), allocatable, intent(out) :: ranges(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(range_list), target :: list
    type(outcome) :: o

    allocate (list%ranges(2, 16))
    call check(o, c_changed(self%handle, older%handle, terminated(name), c_funloc(add_range), c_loc(list)))
    if (o%status /= stillframe_ok) list%count = 0
    ranges = list%ranges(:, 1:list%count)
    call conclude(o, stat, errmsg)
  end subroutine

  function add_range(context, offset, bytes) result(on) bind(c, name='')
    type(c_ptr), value :: context
    integer(c_size_t), value :: offset, bytes
    integer(c_int8_t) :: on
    type(range_list), pointer :: list
    integer(int64), allocatable :: larger(:, :)

    call c_f_pointer(context, list)
    if (list%count == size(list%ranges, 2)) then
      allocate (larger(2, 2 * list%count))
      larger(:, 1:list%count) = list%ranges
      call move_alloc(larger, list%ranges)
    end if
    list%count = list%count + 1
    list%ranges(:, list%count) = [int(offset, int64), int(bytes, int64)]
    on = yes
  end function

  ! Checks that a variable is what the caller takes it for, and gives its shape as Fortran sees it.
  subroutine inspect(self, name, dtype, what, rank, row_major, extents, o)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name, dtype, what
    integer, intent(in) :: rank
    logical, intent(in), optional :: row_major
    integer(c_size_t), allocatable, intent(out) :: extents(:)
    type(outcome), intent(inout) :: o
    type(c_variable) :: c

    extents = [integer(c_size_t) ::]
    call check(o, c_variable_named(self%handle, terminated(name), c))
    if (o%status == stillframe_ok) call check_variable(c, name, dtype, what, rank, row_major, extents, o)
  end subroutine

  ! Refuses a variable that is another than the array or pointer; the shape that this has in Fortran.
  subroutine check_variable(c, name, dtype, what, rank, row_major, extents, o)
    type(c_variable), intent(in) :: c
    character(*), intent(in) :: name, dtype, what
    integer, intent(in) :: rank
    logical, intent(in), optional :: row_major
    integer(c_size_t), allocatable, intent(out) :: extents(:)
    type(outcome), intent(inout) :: o
    character(:), allocatable :: found
    logical :: is_row_major
    integer :: i

    extents = c%shape(1:c%rank)
    found = text_at(c%dtype)
    is_row_major = c%order == stillframe_row_major .and. c%rank > 1
    if (found /= dtype .and. .not. (found == 'bool' .and. dtype == dtype_of_bool)) then
      call refuse(o, stillframe_wrong_dtype, "variable '" // trim(name) // "' holds " // found // ', and ' // what // &
        ' is of ' // dtype)
    else if (size(extents) /= rank) then
      call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "' has the shape " // shape_text(extents) // &
        ', and ' // what // ' the rank ' // decimal(int(rank, int64)))
    else if (is_row_major .and. order_of(row_major) /= stillframe_row_major) then
      call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "' is row-major with the shape " // &
        shape_text(extents) // ': with row_major=.true. it is read with the shape reversed, ' // &
        shape_text(extents(size(extents):1:-1)))
    else if (order_of(row_major) == stillframe_row_major .and. c%order /= stillframe_row_major .and. c%rank > 1) then
      call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // "' is column-major with the shape " // &
        shape_text(extents) // ', so row_major=.true. does not hold')
    end if
    if (is_row_major) extents = [(extents(i), i = size(extents), 1, -1)]
  end subroutine

  subroutine look(self, name, extents, address, o)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: extents(:)
    type(c_ptr), intent(out) :: address
    type(outcome), intent(inout) :: o
    integer(c_size_t) :: bytes

    address = c_null_ptr
    if (o%status == stillframe_ok) call check(o, c_view(self%handle, terminated(name), address, bytes))
    call set_target(address, extents, o)
  end subroutine

  ! Where a variable of any type lies, and how many bytes it has. It cannot be written.
  subroutine view_address(self, name, address, bytes, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(out) :: address
    integer(int64), intent(out), optional :: bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t) :: c_bytes
    type(outcome) :: o

    address = c_null_ptr
    c_bytes = 0
    call check(o, c_view(self%handle, terminated(name), address, c_bytes))
    if (present(bytes)) bytes = int(c_bytes, int64)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_int8(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'int8', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_int16(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'int16', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_int32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'int32', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_int64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'int64', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_real32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'float32', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_real64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'float64', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_complex32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'complex64', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_complex64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, 'complex128', 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_bool(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, dtype_of_bool, 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable where it lies in the snapshot; valid until release, and not to be written. A row-major variable, as
  ! of a C or Python program, of more than one dimension needs row_major=.true., and has its shape reversed.
  subroutine view_logical(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call inspect(self, name, dtype_of_logical, 'the pointer', rank(array), row_major, extents, o)
    call check_lower(name, rank(array), lower, o)
    call look(self, name, extents, address, o)
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine view_text_0(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 0, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(1)
      character(:), pointer, intent(out) :: array

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array)
      deallocate (array)
      array => text(1)
      if (size(extents) > 0) array => null()
    end subroutine
  end subroutine

  subroutine view_text_1(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array(:)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 1, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(extents(1))
      character(:), pointer, intent(out) :: array(:)

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array(0))
      deallocate (array)
      array => text
    end subroutine
  end subroutine

  subroutine view_text_2(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array(:, :)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 2, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(extents(1), extents(2))
      character(:), pointer, intent(out) :: array(:, :)

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array(0, 0))
      deallocate (array)
      array => text
    end subroutine
  end subroutine

  subroutine view_text_3(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array(:, :, :)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 3, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(extents(1), extents(2), extents(3))
      character(:), pointer, intent(out) :: array(:, :, :)

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array(0, 0, 0))
      deallocate (array)
      array => text
    end subroutine
  end subroutine

  subroutine view_text_4(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array(:, :, :, :)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 4, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(extents(1), extents(2), extents(3), extents(4))
      character(:), pointer, intent(out) :: array(:, :, :, :)

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array(0, 0, 0, 0))
      deallocate (array)
      array => text
    end subroutine
  end subroutine

  subroutine view_text_5(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array(:, :, :, :, :)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 5, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(extents(1), extents(2), extents(3), extents(4), extents(5))
      character(:), pointer, intent(out) :: array(:, :, :, :, :)

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array(0, 0, 0, 0, 0))
      deallocate (array)
      array => text
    end subroutine
  end subroutine

  subroutine view_text_6(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array(:, :, :, :, :, :)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 6, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(extents(1), extents(2), extents(3), extents(4), extents(5), extents(6))
      character(:), pointer, intent(out) :: array(:, :, :, :, :, :)

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array(0, 0, 0, 0, 0, 0))
      deallocate (array)
      array => text
    end subroutine
  end subroutine

  subroutine view_text_7(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(:), pointer, intent(out) :: array(:, :, :, :, :, :, :)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer, contiguous :: bytes(:)
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer :: length
    type(outcome) :: o

    array => null()
    call inspect_text(self, name, 7, row_major, length, extents, o)
    call look(self, name, extents, address, o)
    if (c_associated(address)) then
      call c_f_pointer(address, bytes, [max(1_c_size_t, length * product(extents))])
      call aim(bytes, array, length, extents)
    end if
    call conclude(o, stat, errmsg)
  contains
    subroutine aim(text, array, length, extents)
      integer, intent(in) :: length
      integer(c_size_t), intent(in) :: extents(:)
      character(length), intent(in), target :: text(extents(1), extents(2), extents(3), extents(4), extents(5), extents(6),&
          & extents(7))
      character(:), pointer, intent(out) :: array(:, :, :, :, :, :, :)

      ! With checks of bounds, gfortran compares with the length that the pointer had before.
      allocate (character(length) :: array(0, 0, 0, 0, 0, 0, 0))
      deallocate (array)
      array => text
    end subroutine
  end subroutine

  ! As inspect, for text of whatever length.
  subroutine inspect_text(self, name, rank, row_major, length, extents, o)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(in) :: rank
    logical, intent(in), optional :: row_major
    integer, intent(out) :: length
    integer(c_size_t), allocatable, intent(out) :: extents(:)
    type(outcome), intent(inout) :: o
    type(c_variable) :: c

    length = 0
    call check(o, c_variable_named(self%handle, terminated(name), c))
    if (o%status == stillframe_ok) length = int(c%item_bytes)
    call inspect(self, name, dtype_of_text(length), 'the pointer', rank, row_major, extents, o)
  end subroutine

  ! Copies the bytes of a variable into an array that has its type and shape.
  subroutine copy(self, name, dtype, where, row_major, o)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name, dtype
    type(place), intent(in), target :: where
    logical, intent(in), optional :: row_major
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_variable) :: c

    call inspect(self, name, dtype, 'the array', where%rank, row_major, extents, o)
    call check_contiguous(where, name, o)
    if (o%status /= stillframe_ok) return
    if (.not. same_shape(where%shape(1:where%rank), extents)) call refuse(o, stillframe_wrong_shape, "variable '" // trim(name) // &
      "' is read with the shape " // shape_text(extents) // ', and the array has ' // shape_text(where%shape(1:where%rank)))
    call check(o, c_variable_named(self%handle, terminated(name), c))
    if (o%status == stillframe_ok) call check(o, c_read(self%handle, terminated(name), 0_c_size_t, where%address, c%bytes))
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_int8(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int8), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'int8', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_int16(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int16), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'int16', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_int32(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'int32', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_int64(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'int64', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_real32(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    real(real32), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'float32', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_real64(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'float64', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_complex32(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    complex(real32), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'complex64', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_complex64(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    complex(real64), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, 'complex128', place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_bool(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    logical(c_bool), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, dtype_of_bool, place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_logical(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    logical, intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, dtype_of_logical, place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Copies a variable into an array of the same type and shape.
  subroutine read_text(self, name, array, row_major, stat, errmsg)
    class(stillframe_snapshot), intent(in) :: self
    character(*), intent(in) :: name
    character(*), intent(inout), target :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call copy(self, name, dtype_of_text(len(array)), place_of(array), row_major, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! ---- groups -------------------------------------------------------------------------------------------------------

  ! How many ranks there are.
  function group_size(self, stat, errmsg) result(ranks)
    class(stillframe_group), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: ranks
    integer(c_int32_t) :: c_ranks
    type(outcome) :: o

    call check(o, c_group_size(self%handle, c_ranks))
    ranks = merge(int(c_ranks), 0, o%status == stillframe_ok)
    call conclude(o, stat, errmsg)
  end function

  ! The state of each rank, as ranks(0:).
  subroutine group_ranks(self, ranks, stat, errmsg)
    class(stillframe_group), intent(in) :: self
    type(stillframe_rank), allocatable, intent(out) :: ranks(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_rank), allocatable, target :: c(:)
    integer(c_int32_t) :: count
    integer :: i
    type(outcome) :: o

    count = 0
    call check(o, c_group_size(self%handle, count))
    if (o%status /= stillframe_ok) count = 0
    allocate (c(0:max(count, 1) - 1), ranks(0:count - 1))
    if (o%status == stillframe_ok) call check(o, c_group_ranks(self%handle, c_loc(c), int(size(c), c_int32_t), count))
    if (o%status == stillframe_ok) then
      do i = 0, size(ranks) - 1
        ranks(i) = stillframe_rank(int(c(i)%rank), int(c(i)%state), int(c(i)%pid), &
          merge(c(i)%newest, -1_int64, c(i)%has_version /= 0), c(i)%behind)
      end do
    end if
    call conclude(o, stat, errmsg)
  end subroutine

  ! The following let go of what the snapshots held, and then hold one version of every rank in snapshots(0:), rank by rank.

  ! The newest version that every rank has.
  subroutine group_newest(self, snapshots, &
      stat, errmsg)
    class(stillframe_group), intent(inout) :: self
    type(stillframe_snapshot), allocatable, intent(inout) :: snapshots(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr), allocatable :: handles(:)
    type(outcome) :: o

    call prepare(self, snapshots, handles, o)
    if (o%status == stillframe_ok) call check(o, c_group_newest(self%handle, &
      handles, int(size(handles), c_int32_t)))
    call take_all(self, snapshots, handles, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! This version.
  subroutine group_version_int32(self, version, snapshots, &
      stat, errmsg)
    class(stillframe_group), intent(inout) :: self
    integer(int32), intent(in) :: version
    type(stillframe_snapshot), allocatable, intent(inout) :: snapshots(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr), allocatable :: handles(:)
    type(outcome) :: o

    call prepare(self, snapshots, handles, o)
    if (o%status == stillframe_ok) call check(o, c_group_version(self%handle, &
      int(version, c_int64_t), handles, int(size(handles), c_int32_t)))
    call take_all(self, snapshots, handles, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! This version.
  subroutine group_version_int64(self, version, snapshots, &
      stat, errmsg)
    class(stillframe_group), intent(inout) :: self
    integer(int64), intent(in) :: version
    type(stillframe_snapshot), allocatable, intent(inout) :: snapshots(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr), allocatable :: handles(:)
    type(outcome) :: o

    call prepare(self, snapshots, handles, o)
    if (o%status == stillframe_ok) call check(o, c_group_version(self%handle, &
      int(version, c_int64_t), handles, int(size(handles), c_int32_t)))
    call take_all(self, snapshots, handles, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! The oldest version after the one that was held last, or after `after`, that every rank has; waits for it.
  subroutine group_next_after(self, snapshots, &
      timeout_ms, after, stat, errmsg)
    class(stillframe_group), intent(inout) :: self
    type(stillframe_snapshot), allocatable, intent(inout) :: snapshots(:)
    integer, intent(in), optional :: timeout_ms
    integer(int64), intent(in), optional :: after
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr), allocatable :: handles(:)
    integer(int64) :: base
    type(outcome) :: o

    base = self%last
    if (present(after)) base = after
    call prepare(self, snapshots, handles, o)
    if (o%status == stillframe_ok) call check(o, c_group_next_after(self%handle, &
      base, timeout_of(timeout_ms), handles, int(size(handles), c_int32_t)))
    call take_all(self, snapshots, handles, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! The newest version after the one that was held last, or after `after`, that every rank has; waits for it.
  subroutine group_newest_after(self, snapshots, &
      timeout_ms, after, stat, errmsg)
    class(stillframe_group), intent(inout) :: self
    type(stillframe_snapshot), allocatable, intent(inout) :: snapshots(:)
    integer, intent(in), optional :: timeout_ms
    integer(int64), intent(in), optional :: after
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr), allocatable :: handles(:)
    integer(int64) :: base
    type(outcome) :: o

    base = self%last
    if (present(after)) base = after
    call prepare(self, snapshots, handles, o)
    if (o%status == stillframe_ok) call check(o, c_group_newest_after(self%handle, &
      base, timeout_of(timeout_ms), handles, int(size(handles), c_int32_t)))
    call take_all(self, snapshots, handles, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine prepare(self, snapshots, handles, o)
    class(stillframe_group), intent(in) :: self
    type(stillframe_snapshot), allocatable, intent(inout) :: snapshots(:)
    type(c_ptr), allocatable, intent(out) :: handles(:)
    type(outcome), intent(inout) :: o
    integer(c_int32_t) :: ranks
    integer :: i

    if (allocated(snapshots)) then
      do i = lbound(snapshots, 1), ubound(snapshots, 1)
        call let_go(snapshots(i))
      end do
      deallocate (snapshots)
    end if
    ranks = 0
    call check(o, c_group_size(self%handle, ranks))
    if (o%status /= stillframe_ok) ranks = 0
    allocate (snapshots(0:ranks - 1), handles(0:ranks - 1))
  end subroutine

  subroutine take_all(self, snapshots, handles, o)
    class(stillframe_group), intent(inout) :: self
    type(stillframe_snapshot), intent(inout) :: snapshots(0:)
    type(c_ptr), intent(in) :: handles(0:)
    type(outcome), intent(inout) :: o
    integer :: i

    if (o%status /= stillframe_ok) return
    do i = 0, size(handles) - 1
      snapshots(i)%handle = handles(i)
      call take(snapshots(i), o)
    end do
    if (o%status == stillframe_ok .and. size(handles) > 0) self%last = snapshots(0)%last
  end subroutine

  ! ---- looking after regions ----------------------------------------------------------------------------------------

  ! The regions of a directory.
  subroutine stillframe_list(regions, dir, stat, errmsg)
    type(stillframe_region_info), allocatable, intent(out) :: regions(:)
    character(*), intent(in), optional :: dir
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:)
    type(region_list), target :: list
    type(outcome) :: o

    allocate (list%regions(0))
    call set_terminated(c_dir, dir)
    call check(o, c_list(address_of(c_dir), c_funloc(add_region), c_loc(list)))
    call move_alloc(list%regions, regions)
    call conclude(o, stat, errmsg)
  end subroutine

  function add_region(context, c) result(on) bind(c, name='')
    type(c_ptr), value :: context
    type(c_region_info), intent(in) :: c
    integer(c_int8_t) :: on
    type(region_list), pointer :: list
    type(stillframe_region_info) :: info

    call c_f_pointer(context, list)
    info%name = text_at(c%name)
    info%problem = text_at(c%problem)
    info%state = int(c%state)
    info%pid = int(c%pid)
    info%keep = int(c%keep)
    if (c%has_version /= 0) info%newest = c%newest
    info%allocated_bytes = c%allocated_bytes
    info%bound_bytes = c%bound_bytes
    info%published = c%published
    info%skipped = c%skipped
    info%created_ns = c%created_ns
    info%working_bytes = c%working_bytes
    info%waiting_ns = c%waiting_ns
    info%skipping_ns = c%skipping_ns
    info%skipping = c%skipping
    info%rank = int(c%rank)
    info%ranks = int(c%ranks)
    list%regions = [list%regions, info]
    on = yes
  end function

  ! Removes a region; one whose producer lives, or that observers hold, only with force=.true.
  subroutine stillframe_remove_region(name, dir, force, freed_bytes, stat, errmsg)
    character(*), intent(in) :: name
    character(*), intent(in), optional :: dir
    logical, intent(in), optional :: force
    integer(int64), intent(out), optional :: freed_bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:)
    integer(c_int8_t) :: c_force
    integer(c_int64_t) :: freed
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    c_force = no
    if (present(force)) c_force = merge(yes, no, force)
    freed = 0
    call check(o, c_remove_region(address_of(c_dir), terminated(name), c_force, freed))
    if (present(freed_bytes)) freed_bytes = freed
    call conclude(o, stat, errmsg)
  end subroutine

  ! Removes the regions of dead producers that nobody holds.
  subroutine stillframe_collect(dir, removed, stat, errmsg)
    character(*), intent(in), optional :: dir
    integer, intent(out), optional :: removed
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:)
    integer(c_int32_t) :: count
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    count = 0
    call check(o, c_collect(address_of(c_dir), count))
    if (present(removed)) removed = int(count)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_int8(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer(int8), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'int8', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_int16(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer(int16), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'int16', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_int32(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'int32', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_int64(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'int64', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_real32(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    real(real32), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'float32', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_real64(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'float64', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_complex32(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    complex(real32), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'complex64', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_complex64(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    complex(real64), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, 'complex128', place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_bool(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    logical(c_bool), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, dtype_of_bool, place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_logical(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    logical, intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, dtype_of_logical, place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Reads what recover found into an array, before the first publish: of the global array the box at `offset` (from 0), if
  ! those who published it said which parts they had, however many they were; else of the variable as it was. Without an
  ! offset that of the part which was declared in this region counts, or else all of the array is read, which has to have had
  ! this shape.
  subroutine recovered_text(self, name, array, offset, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    character(*), intent(inout), target :: array(..)
    integer, intent(in), optional :: offset(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call read_box(self, name, dtype_of_text(len(array)), place_of(array), int(stillframe_column_major, c_int32_t), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! The same for types that have no procedure of their own, with an address and a dtype.
  subroutine recovered_address(self, name, address, dtype, shape, offset, row_major, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name, dtype
    type(c_ptr), intent(in) :: address
    integer, intent(in) :: shape(:)
    integer, intent(in), optional :: offset(:)
    logical, intent(in), optional :: row_major
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(place) :: where
    type(outcome) :: o

    where%address = address
    where%rank = size(shape)
    if (where%rank <= size(where%shape)) where%shape(1:where%rank) = int(shape, c_size_t)
    call read_box(self, name, dtype, where, order_of(row_major), offset, o)
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine read_box(self, name, dtype, where, order, offset, o)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name, dtype
    type(place), intent(in), target :: where
    integer(c_int32_t), intent(in) :: order
    integer, intent(in), optional :: offset(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable, target :: c_offset(:)
    type(c_ptr) :: begin

    call check_contiguous(where, name, o)
    begin = c_null_ptr
    if (present(offset)) then
      c_offset = int(offset, c_size_t)
      if (size(offset) /= where%rank .or. any(offset < 0)) call refuse(o, stillframe_wrong_shape, "variable '" // &
        trim(name) // "': offset " // shape_text(c_offset) // ' does not suit the shape ' // &
        shape_text(where%shape(1:where%rank)))
      if (size(offset) > 0) begin = c_loc(c_offset)
    end if
    if (o%status == stillframe_ok) call check(o, c_read_recovered(self%handle, terminated(name), terminated(dtype), &
      int(where%rank, c_int32_t), begin, where%shape, order, where%address))
  end subroutine

  ! Fills an array of the region with its part of the global array that recover found, however many ranks had published it,
  ! before the first publish. One that is no part, or whose region began with nothing, stays as it is.
  subroutine region_fill(self, name, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: at
    type(outcome) :: o

    call find_known(self, name, at, o)
    if (o%status == stillframe_ok) call check(o, c_fill(self%handle, self%entries(at)%variable))
    call conclude(o, stat, errmsg)
  end subroutine

  ! The variables of the version that recover found, by name, before the first publish: of a group all that any of its ranks had.
  ! None in a first run.
  subroutine region_recovered_variables(self, variables, stat, errmsg)
    class(stillframe_region), intent(in) :: self
    type(stillframe_recovered_variable), allocatable, intent(out) :: variables(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(recovered_variable_list), target :: list
    type(outcome) :: o

    allocate (list%variables(0))
    call check(o, c_recovered_variables(self%handle, c_funloc(add_recovered_variable), c_loc(list)))
    call move_alloc(list%variables, variables)
    call conclude(o, stat, errmsg)
  end subroutine

  function add_recovered_variable(context, c) result(on) bind(c, name='')
    type(c_ptr), value :: context
    type(c_recovered_variable), intent(in) :: c
    integer(c_int8_t) :: on
    type(recovered_variable_list), pointer :: list
    type(stillframe_recovered_variable) :: variable

    call c_f_pointer(context, list)
    variable%name = text_at(c%name)
    variable%dtype = text_at(c%dtype)
    allocate (variable%shape(c%rank))
    variable%shape(:) = int(c%shape(1:c%rank), int64)
    list%variables = [list%variables, variable]
    on = yes
  end function

  ! ---- objects ------------------------------------------------------------------------------------------------------

  ! Creates an object, or finds the one of this name that is there and the same. Its text declares variables in the layout
  ! language: 'var grid [length,height] float64', with names=[...], values=[...] of what it leaves open. When it returns, everybody
  ! finds it. The version `initial` (0) exists at once, and is zeros. With mode=int(o'770') the group may write, too. The fragments
  ! of all objects of the directory lie in one arena, of 1 TiB of addresses and for 65 536 fragments unless the first one says
  ! otherwise.
  subroutine object_create(self, name, text, names, values, initial, mode, arena_bytes, fragments, dir, trust, stat, errmsg)
    class(stillframe_object), intent(inout) :: self
    character(*), intent(in) :: name
    character(*), intent(in) :: text
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:)
    integer(int64), intent(in), optional :: initial, arena_bytes
    integer, intent(in), optional :: mode, fragments
    character(*), intent(in), optional :: dir, trust
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:), c_trust(:)
    type(bound), target :: bound_names
    type(c_object_options) :: options
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    options%dir = address_of(c_dir)
    call set_terminated(c_trust, trust)
    options%trust = address_of(c_trust)
    call bind_names(bound_names, names, values, options%bindings, options%binding_count, o)
    if (present(initial)) options%initial = initial
    if (present(mode)) options%mode = int(mode, c_int32_t)
    if (present(arena_bytes)) options%arena_bytes = arena_bytes
    if (present(fragments)) options%arena_fragments = int(fragments, c_int32_t)
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "object '" // trim(name) // "': this variable has an object already: close that first, or use another variable")
    if (o%status == stillframe_ok) &
      call check(o, c_object_create(terminated(name), terminated(text), options, self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Opens an object that is there, or that comes within wait_ms; with look=.true. to read only, which takes no right to write.
  subroutine object_open(self, name, wait_ms, look, dir, trust, stat, errmsg)
    class(stillframe_object), intent(inout) :: self
    character(*), intent(in) :: name
    integer, intent(in), optional :: wait_ms
    logical, intent(in), optional :: look
    character(*), intent(in), optional :: dir, trust
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:), c_trust(:)
    type(c_object_options) :: options
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    options%dir = address_of(c_dir)
    call set_terminated(c_trust, trust)
    options%trust = address_of(c_trust)
    if (present(wait_ms)) options%wait_ms = max(wait_ms, 0)
    if (present(look)) options%flags = merge(object_look, 0_c_int32_t, look)
    if (c_associated(self%handle)) call refuse(o, stillframe_bad_argument, &
      "object '" // trim(name) // "': this variable has an object already: close that first, or use another variable")
    if (o%status == stillframe_ok) &
      call check(o, c_object_open(terminated(name), options, self%handle))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Ends the use of the object by this variable. Its fragments go on.
  subroutine object_close(self, stat, errmsg)
    class(stillframe_object), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_object_close(self%handle))
    self%handle = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! The newest complete version: one that all writers published. The initial one is complete from the beginning.
  function object_newest(self, stat, errmsg) result(version)
    class(stillframe_object), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: version
    type(outcome) :: o

    version = -1
    call check(o, c_object_newest(self%handle, version))
    call conclude(o, stat, errmsg)
  end function

  ! The complete versions that can be had, ascending, without the initial one.
  subroutine object_versions(self, versions, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    integer(int64), allocatable, intent(out) :: versions(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64), allocatable, target :: c(:)
    integer(c_size_t) :: count
    type(outcome) :: o

    count = 64
    do
      allocate (c(count))
      call check(o, c_object_versions(self%handle, c_loc(c), size(c, kind=c_size_t), count))
      if (o%status /= stillframe_ok) count = 0
      if (count <= size(c, kind=c_size_t)) exit
      ! There are more.
      deallocate (c)
    end do
    versions = c(1:count)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Waits for a complete version above `after`, at most timeout_ms (for ever unless said). version: the newest.
  subroutine object_wait_newer(self, after, version, timeout_ms, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    integer(int64), intent(in) :: after
    integer(int64), intent(out) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    version = -1
    call check_version(after, o)
    if (o%status == stillframe_ok) call check(o, c_object_wait_newer(self%handle, after, limit_of(timeout_ms), version))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Waits until a version is complete, at most timeout_ms (for ever unless said).
  subroutine object_wait_for(self, version, timeout_ms, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    integer(int64), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check_version(version, o)
    if (o%status == stillframe_ok) call check(o, c_object_wait_for(self%handle, version, limit_of(timeout_ms)))
    call conclude(o, stat, errmsg)
  end subroutine

  ! The fragments to write that are or were attached, in the order in which they were attached.
  subroutine object_writers(self, writers, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    type(stillframe_writer), allocatable, intent(out) :: writers(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(writer_list), target :: list
    type(outcome) :: o

    allocate (list%writers(0))
    call check(o, c_object_writers(self%handle, c_funloc(add_writer), c_loc(list)))
    call move_alloc(list%writers, writers)
    call conclude(o, stat, errmsg)
  end subroutine

  function add_writer(context, c) result(on) bind(c, name='')
    type(c_ptr), value :: context
    type(c_writer), intent(in) :: c
    integer(c_int8_t) :: on
    type(writer_list), pointer :: list
    type(stillframe_writer) :: writer

    call c_f_pointer(context, list)
    writer%number = int(c%number)
    writer%pid = int(c%pid)
    if (c%has_rank /= 0) writer%rank = int(c%rank)
    writer%alive = c%alive /= 0
    writer%from = c%from
    if (c%has_left /= 0) writer%left = c%left
    if (c%has_newest /= 0) writer%newest = c%newest
    writer%versions = int(c%version_count)
    writer%text = text_at(c%text)
    writer%region = text_at(c%region)
    list%writers = [list%writers, writer]
    on = yes
  end function

  ! The names of the objects of a directory, sorted, padded with blanks.
  subroutine stillframe_objects(names, dir, stat, errmsg)
    character(:), allocatable, intent(out) :: names(:)
    character(*), intent(in), optional :: dir
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:)
    type(name_list), target :: list
    type(outcome) :: o
    integer :: i, longest

    allocate (list%names(0))
    call set_terminated(c_dir, dir)
    call check(o, c_object_list(address_of(c_dir), c_funloc(add_name), c_loc(list)))
    longest = 0
    do i = 1, size(list%names)
      longest = max(longest, len(list%names(i)%text))
    end do
    allocate (character(longest) :: names(size(list%names)))
    do i = 1, size(names)
      names(i) = list%names(i)%text
    end do
    call conclude(o, stat, errmsg)
  end subroutine

  function add_name(context, text) result(on) bind(c, name='')
    type(c_ptr), value :: context, text
    integer(c_int8_t) :: on
    type(name_list), pointer :: list
    type(object_name) :: name

    call c_f_pointer(context, list)
    name%text = text_at(text)
    list%names = [list%names, name]
    on = yes
  end function

  ! Removes an object with all that was published of it; with force=.true. also while a writer lives.
  subroutine stillframe_remove_object(name, dir, force, stat, errmsg)
    character(*), intent(in) :: name
    character(*), intent(in), optional :: dir
    logical, intent(in), optional :: force
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_dir(:)
    integer(c_int8_t) :: c_force
    type(outcome) :: o

    call set_terminated(c_dir, dir)
    c_force = no
    if (present(force)) c_force = merge(yes, no, force)
    call check(o, c_object_remove(address_of(c_dir), terminated(name), c_force))
    call conclude(o, stat, errmsg)
  end subroutine

  ! ---- fragments ----------------------------------------------------------------------------------------------------

  ! Numbers of names, in memory that options point to as long as it lives.
  subroutine bind_names(self, names, values, address, count, o)
    type(bound), intent(inout), target :: self
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:)
    type(c_ptr), intent(inout) :: address
    integer(c_size_t), intent(inout) :: count
    type(outcome), intent(inout) :: o
    integer :: i

    if (present(names) .neqv. present(values)) then
      call refuse(o, stillframe_bad_argument, 'names and values belong together: give both')
    else if (present(names)) then
      if (size(names) /= size(values)) then
        call refuse(o, stillframe_bad_argument, decimal(size(names, kind=int64)) // ' names have ' // &
          decimal(size(values, kind=int64)) // ' values')
        return
      end if
      allocate (self%names(len(names) + 1, size(names)), self%bindings(size(names)))
      self%names = c_null_char
      do i = 1, size(names)
        self%names(1:len_trim(names(i)) + 1, i) = terminated(names(i))
        self%bindings(i) = c_drepl_binding(c_loc(self%names(1, i)), int(values(i), c_int64_t))
      end do
      if (size(names) > 0) address = c_loc(self%bindings)
      count = size(names, kind=c_size_t)
    end if
  end subroutine

  ! A fragment's text; one that is braces only has the order of Fortran.
  pure function in_our_order(text) result(view)
    character(*), intent(in) :: text
    character(:), allocatable :: view

    view = trim(adjustl(text))
    if (index(view, '{') == 1) view = 'view columnmajor ' // view
  end function

  ! Attaches a fragment to write.
  subroutine attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    type(outcome), intent(inout) :: o
    type(bound), target :: bound_names
    type(c_attach_options), target :: options
    type(c_ptr) :: address

    call bind_names(bound_names, names, values, options%bindings, options%binding_count, o)
    if (present(version)) then
      call check_version(version, o)
      options%version = version
      options%has_version = 1
    end if
    if (present(wait_ms)) options%wait_ms = max(wait_ms, 1)
    if (present(rank)) call check_count('rank', rank, o)
    if (present(writers)) call check_count('writers', writers, o)
    if (present(keep)) call check_count('keep', keep, o)
    if (present(rank)) then
      options%rank = int(rank, c_int32_t)
      options%has_rank = 1
    end if
    if (present(writers)) options%writers = int(writers, c_int32_t)
    if (present(keep)) options%keep = int(keep, c_int32_t)
    if (present(bound_bytes)) options%bound_bytes = bound_bytes
    if (present(loaned)) options%flags = merge(attach_loaned, 0_c_int32_t, loaned)
    if (present(zeros)) options%flags = ior(options%flags, merge(attach_zeros, 0_c_int32_t, zeros))
    call check_unused(fragment, o)
    if (o%status == stillframe_ok) &
      call check(o, c_object_attach(self%handle, terminated(in_our_order(text)), c_loc(options), fragment%handle, address))
  end subroutine

  ! Attaches a fragment to read.
  subroutine attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    type(outcome), intent(inout) :: o
    type(bound), target :: bound_names
    type(c_attach_read_options), target :: options

    call bind_names(bound_names, names, values, options%bindings, options%binding_count, o)
    if (present(version)) then
      options%version = version
      options%has_version = 1
    end if
    if (present(wait_ms)) options%wait_ms = max(wait_ms, 0)
    if (present(threads)) options%threads = int(threads, c_int32_t)
    if (present(prefetch)) options%prefetch = merge(1_c_int32_t, 0_c_int32_t, prefetch)
    call check_unused(fragment, o)
    if (o%status == stillframe_ok) call check(o, c_object_attach_read(self%handle, terminated(in_our_order(text)), &
      c_loc(options), fragment%handle, fragment%address))
  end subroutine

  subroutine check_unused(fragment, o)
    type(stillframe_fragment), intent(in) :: fragment
    type(outcome), intent(inout) :: o

    if (c_associated(fragment%handle)) call refuse(o, stillframe_bad_argument, &
      'this variable has a fragment already: detach that first, or use another variable')
  end subroutine

  ! Where a variable of a fragment is, to be pointed to by a pointer of this type and rank. previous: in the version before.
  subroutine find_variable(self, name, dtype, rank, row_major, previous, extents, address, o)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in), optional :: name
    character(*), intent(in) :: dtype
    integer, intent(in) :: rank
    logical, intent(in), optional :: row_major
    logical, intent(in) :: previous
    integer(c_size_t), allocatable, intent(out) :: extents(:)
    type(c_ptr), intent(out) :: address
    type(outcome), intent(inout) :: o
    character(kind=c_char), allocatable, target :: c_name(:)
    type(c_variable) :: c
    integer(c_size_t) :: offset_bytes, bytes
    integer(c_intptr_t) :: number
    type(outcome) :: aside

    address = c_null_ptr
    extents = [integer(c_size_t) ::]
    call set_terminated(c_name, name)
    offset_bytes = 0
    call check(o, c_fragment_variable(self%handle, address_of(c_name), c, offset_bytes))
    if (o%status /= stillframe_ok) return
    call check_variable(c, text_at(c%name), dtype, 'the pointer', rank, row_major, extents, o)
    if (o%status /= stillframe_ok) return
    if (c_associated(self%address)) then
      if (previous) call refuse(o, stillframe_bad_argument, 'the fragment was attached to be read: it has no version before')
      address = self%address
    else if (previous) then
      call check(o, c_fragment_previous(self%handle, address, bytes))
    else
      call check(o, c_fragment_next(self%handle, address, bytes))
    end if
    if (o%status /= stillframe_ok .or. .not. c_associated(address)) then
      address = c_null_ptr
      return
    end if
    number = transfer(address, number) + int(offset_bytes, c_intptr_t)
    address = transfer(number, address)
    call set_target(address, extents, aside)
  end subroutine

  ! Attaches a fragment to write, whose variables `view` points to. From then on it is waited for in all versions above the one that
  ! it begins with: `version`, else the newest complete one. text: '{ var g [x:nx,y:ny] = grid[x+x0,y+y0] }', or any view; braces
  ! alone have the order of Fortran: the first index runs fastest. names, values: numbers of the names that it leaves open, as
  ! names=['x0', 'y0'], values=[0, 32]. wait_ms: how long to wait for elements that somebody else has (10 000). rank: for messages.
  ! writers: how many there are, if they do not cover the object. keep: how many of the newest versions stay in any case (1).
  ! bound_bytes: the most bytes that they may take. loaned: memory of each version is lent, to be written whole: point to it with
  ! `view` after each publish, and to the version before with `previous`. zeros: it begins with zeros, whatever content the version
  ! has: for content that cannot be had any more, as that of a node that died.
  subroutine object_attach(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Attaches a fragment to read, whose variables `view` points to. It shows the initial version, zeros, until `reattach`, or
  ! `version`, for which it waits at most wait_ms (not at all unless said). text, names, values: as of `attach`. In a view that says
  ! clipped what lies beyond the rim of the object is zero. threads: so many copy (one on each processor). prefetch: while the
  ! program works with a version, the runtime of its node fetches the next from other nodes, as far above it as it is above the one
  ! before (not unless said).
  subroutine object_attach_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_int8(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    integer(int8), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='int8', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_int8(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_int8(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int8), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_int8(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_int8(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major, lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int8), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_int8(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_int8(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int8', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_int8(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int8), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int8', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int8(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_int16(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    integer(int16), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='int16', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_int16(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_int16(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int16), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_int16(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_int16(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major, lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int16), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_int16(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_int16(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int16', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_int16(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int16), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int16', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int16(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_int32(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    integer(int32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='int32', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_int32(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_int32(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int32), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_int32(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_int32(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major, lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int32), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_int32(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_int32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int32', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_int32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int32', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_int64(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    integer(int64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='int64', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_int64(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_int64(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int64), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_int64(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_int64(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major, lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    integer(int64), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_int64(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_int64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int64', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_int64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'int64', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_int64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_real32(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    real(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='float32', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_real32(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_real32(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    real(real32), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_real32(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_real32(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major, lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    real(real32), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_real32(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_real32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'float32', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_real32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'float32', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_real32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_real64(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    real(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='float64', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_real64(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_real64(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    real(real64), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_real64(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_real64(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major, lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    real(real64), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_real64(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_real64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'float64', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_real64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'float64', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_real64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_complex32(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    complex(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='complex64', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_complex32(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_complex32(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    complex(real32), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_complex32(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_complex32(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major,&
      & lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    complex(real32), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_complex32(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_complex32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'complex64', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_complex32(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'complex64', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_complex32(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_complex64(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    complex(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype='complex128', rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_complex64(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_complex64(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    complex(real64), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_complex64(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_complex64(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major,&
      & lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    complex(real64), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_complex64(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_complex64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'complex128', rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_complex64(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, 'complex128', rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_complex64(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_bool(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    logical(c_bool), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype=dtype_of_bool, rank=rank(array), row_major=row_major, previous=.false., extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_bool(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_bool(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    logical(c_bool), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_bool(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_bool(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major, lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    logical(c_bool), pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_bool(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_bool(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, dtype_of_bool, rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_bool(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    logical(c_bool), pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, dtype_of_bool, rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_bool(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to the only variable of a fragment that was just attached, and detaches it if that cannot be.
  subroutine point_logical(fragment, text, array, row_major, lower, o)
    type(stillframe_fragment), intent(inout) :: fragment
    character(*), intent(in) :: text
    logical, pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    type(outcome), intent(inout) :: o
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    integer(c_int32_t) :: status

    address = c_null_ptr
    allocate (extents(0))
    if (o%status == stillframe_ok) then
      call check_lower(text, rank(array), lower, o)
      call find_variable(fragment, dtype=dtype_of_logical, rank=rank(array), row_major=row_major, previous=.false.,&
          & extents=extents, &
        address=address, o=o)
      if (o%status /= stillframe_ok) then
        status = c_fragment_detach(fragment%handle)
        fragment = stillframe_fragment()
        address = c_null_ptr
      end if
    end if
    call aim_logical(array, address, extents, lower)
  end subroutine

  ! As object_attach, and points to the only variable of the fragment.
  subroutine attach_logical(self, text, fragment, array, names, values, version, wait_ms, rank, writers, keep, bound_bytes, &
    loaned, zeros, row_major, lower, stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    logical, pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, rank, writers, keep
    integer(int64), intent(in), optional :: version, bound_bytes
    logical, intent(in), optional :: loaned, zeros
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_write(self, text, fragment, names, values, version, wait_ms, rank, writers, keep, bound_bytes, loaned, zeros, o)
    call point_logical(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! As object_attach_read, and points to the only variable of the fragment. It must not be written.
  subroutine attach_read_logical(self, text, fragment, array, names, values, version, wait_ms, threads, prefetch, row_major,&
      & lower, &
    stat, errmsg)
    class(stillframe_object), intent(in) :: self
    character(*), intent(in) :: text
    type(stillframe_fragment), intent(inout) :: fragment
    logical, pointer, intent(out) :: array(..)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:), wait_ms, threads
    integer(int64), intent(in), optional :: version
    logical, intent(in), optional :: prefetch
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call attach_to_read(self, text, fragment, names, values, version, wait_ms, threads, prefetch, o)
    call point_logical(fragment, text, array, row_major, lower, o)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of the fragment: of one to write to be written, valid until it is detached, of a loaned one until it is
  ! published; of one to read, valid until it is detached, and not to be written. A row-major one of more than one dimension needs
  ! row_major=.true., and has its shape reversed.
  subroutine fragment_view_logical(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, dtype_of_logical, rank(array), row_major, .false., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Points to a variable of a fragment to write in its newest version, which stays as it is until the next publish and must not be
  ! written; to nothing before the first publish.
  subroutine fragment_previous_logical(self, name, array, row_major, lower, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    character(*), intent(in) :: name
    logical, pointer, intent(out) :: array(..)
    logical, intent(in), optional :: row_major
    integer, intent(in), optional :: lower(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_size_t), allocatable :: extents(:)
    type(c_ptr) :: address
    type(outcome) :: o

    call check_lower(name, rank(array), lower, o)
    call find_variable(self, name, dtype_of_logical, rank(array), row_major, .true., &
      extents, address, o)
    if (o%status /= stillframe_ok) address = c_null_ptr
    call aim_logical(array, address, extents, lower)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Makes what a fragment to write holds now the next version of its elements. Nobody writes its memory meanwhile.
  subroutine fragment_publish_int32(self, version, published, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    integer(int32), intent(in) :: version
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_published), target :: c
    type(outcome) :: o

    call check_version(int(version, int64), o)
    if (o%status == stillframe_ok) call check(o, c_fragment_publish(self%handle, int(version, c_int64_t), c_loc(c)))
    if (present(published) .and. o%status == stillframe_ok) published = stillframe_published(c%version, c%dirty_pages, &
      c%copied_pages, c%total_pages, c%seconds, c%skipped /= 0)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Fills a fragment to read with a version, at the same address: waits at most timeout_ms (for ever unless said) until all elements
  ! that it wants were published, and only those.
  subroutine fragment_reattach_int32(self, version, timeout_ms, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    integer(int32), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check_version(int(version, int64), o)
    if (o%status == stillframe_ok) &
      call check(o, c_fragment_reattach(self%handle, int(version, c_int64_t), limit_of(timeout_ms)))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Makes what a fragment to write holds now the next version of its elements. Nobody writes its memory meanwhile.
  subroutine fragment_publish_int64(self, version, published, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    integer(int64), intent(in) :: version
    type(stillframe_published), intent(out), optional :: published
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_published), target :: c
    type(outcome) :: o

    call check_version(int(version, int64), o)
    if (o%status == stillframe_ok) call check(o, c_fragment_publish(self%handle, int(version, c_int64_t), c_loc(c)))
    if (present(published) .and. o%status == stillframe_ok) published = stillframe_published(c%version, c%dirty_pages, &
      c%copied_pages, c%total_pages, c%seconds, c%skipped /= 0)
    call conclude(o, stat, errmsg)
  end subroutine

  ! Fills a fragment to read with a version, at the same address: waits at most timeout_ms (for ever unless said) until all elements
  ! that it wants were published, and only those.
  subroutine fragment_reattach_int64(self, version, timeout_ms, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    integer(int64), intent(in) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check_version(int(version, int64), o)
    if (o%status == stillframe_ok) &
      call check(o, c_fragment_reattach(self%handle, int(version, c_int64_t), limit_of(timeout_ms)))
    call conclude(o, stat, errmsg)
  end subroutine

  subroutine check_version(version, o)
    integer(int64), intent(in) :: version
    type(outcome), intent(inout) :: o

    if (version < 0) call refuse(o, stillframe_bad_argument, 'version ' // decimal(version) // ' is negative')
  end subroutine

  subroutine check_count(name, count, o)
    character(*), intent(in) :: name
    integer, intent(in) :: count
    type(outcome), intent(inout) :: o

    if (count < 0) call refuse(o, stillframe_bad_argument, name // ' ' // decimal(int(count, int64)) // ' is negative')
  end subroutine

  ! Fills a fragment to read with the newest complete version above `after`, waiting for one at most timeout_ms (for ever unless
  ! said).
  subroutine fragment_reattach_newer(self, after, version, timeout_ms, stat, errmsg)
    class(stillframe_fragment), intent(in) :: self
    integer(int64), intent(in) :: after
    integer(int64), intent(out) :: version
    integer, intent(in), optional :: timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    version = -1
    call check_version(after, o)
    if (o%status == stillframe_ok) call check(o, c_fragment_reattach_newer(self%handle, after, limit_of(timeout_ms), version))
    call conclude(o, stat, errmsg)
  end subroutine

  ! Of a fragment to write the newest version, or the one at which it was attached; of one to read the version that it shows.
  function fragment_version(self, stat, errmsg) result(version)
    class(stillframe_fragment), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: version
    type(c_fragment_info) :: info
    type(outcome) :: o

    version = -1
    call check(o, c_fragment_describe(self%handle, info))
    if (o%status == stillframe_ok) version = info%version
    call conclude(o, stat, errmsg)
  end function

  ! Of a fragment to read, when its version was published, by the last of its writers, in nanoseconds since 1970; 0 of the initial
  ! one.
  function fragment_published_ns(self, stat, errmsg) result(published_ns)
    class(stillframe_fragment), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: published_ns
    type(c_fragment_info) :: info
    type(outcome) :: o

    published_ns = 0
    call check(o, c_fragment_describe(self%handle, info))
    if (o%status == stillframe_ok) published_ns = info%published_ns
    call conclude(o, stat, errmsg)
  end function

  ! Whether a fragment to read shows pages of a writer rather than a copy.
  function fragment_is_shown(self, stat, errmsg) result(shown)
    class(stillframe_fragment), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: shown
    type(c_fragment_info) :: info
    type(outcome) :: o

    call check(o, c_fragment_describe(self%handle, info))
    shown = o%status == stillframe_ok .and. info%shown /= 0
    call conclude(o, stat, errmsg)
  end function

  ! Lets go of the fragment: pointers to its variables are no more. What it published stays as long as a complete version needs it.
  ! A program that ends without it counts as one that died.
  subroutine fragment_detach(self, stat, errmsg)
    class(stillframe_fragment), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(outcome) :: o

    call check(o, c_fragment_detach(self%handle))
    self%handle = c_null_ptr
    self%address = c_null_ptr
    call conclude(o, stat, errmsg)
  end subroutine

  ! The name of a status, as 'NOT_INCREASING'.
  function stillframe_status_name(status) result(name)
    integer, intent(in) :: status
    character(:), allocatable :: name

    name = text_at(c_status_name(int(status, c_int32_t)))
  end function

  function stillframe_library_version() result(version)
    character(:), allocatable :: version

    version = text_at(c_library_version())
  end function
end module stillframe
