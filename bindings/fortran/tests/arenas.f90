! Arenas: many regions in one file.
program arenas
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use expecting
  use stillframe
  implicit none
  integer(int64), parameter :: mib = 2_int64**20

  interface
    function memfd_create(name, flags) result(descriptor) bind(c, name='memfd_create')
      import
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: flags
      integer(c_int) :: descriptor
    end function
    function close_descriptor(descriptor) result(status) bind(c, name='close')
      import
      integer(c_int), value :: descriptor
      integer(c_int) :: status
    end function
  end interface

  call check_many()
  call check_full()
  call check_handed_in()
  call check_group_handed_in()
  call check_misuse()
  call conclude()

contains

  function shown(name, arena) result(first)
    character(*), intent(in) :: name
    type(stillframe_arena), intent(in), optional :: arena
    integer(int32) :: first
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    integer(int32), pointer :: u(:) => null()

    call observer%open(name, arena=arena)
    call observer%newest(snapshot)
    call snapshot%view('u', u)
    first = u(1)
    call snapshot%release()
    call observer%close()
  end function

  function number_of(i) result(text)
    integer, intent(in) :: i
    character(2) :: text

    write (text, '(a, i1)') 'r', i
  end function

  subroutine check_many()
    type(stillframe_arena) :: arena
    type(stillframe_arena_usage) :: usage
    type(stillframe_region) :: regions(9)
    type(stillframe_region_info), allocatable :: list(:)
    integer(int32) :: u(100)
    integer :: i, stat
    character(300) :: message

    call arena%create('pool', 1024 * mib, regions=100)
    do i = 1, 9
      call regions(i)%create(number_of(i), arena=arena)
      u = i
      call regions(i)%publish(1, 'u', u)
    end do
    call arena%usage(usage)
    call expect(usage%bytes == 1024 * mib .and. usage%regions_max == 100 .and. size(usage%regions) == 9, 'the usage is told')
    call expect(usage%tables_bytes > 0 .and. usage%free_bytes > 0 .and. usage%free_chunks > 0 .and. usage%small_chunks > 0, &
      'also what is free')
    call expect(usage%regions(3)%name == 'r3' .and. usage%regions(3)%bytes > 0 .and. .not. usage%regions(3)%removed, &
      'and who has how much')
    call arena%close()
    do i = 1, 9
      u = 10 * i
      call regions(i)%publish(2, 'u', u)
      call expect(shown('pool/' // number_of(i)) == 10 * i, 'regions go on when their arena was closed')
      call regions(i)%close()
    end do
    call stillframe_list(list)
    call expect(count([(list(i)%name == 'pool/' // number_of(i), i=1, size(list))]) == 9, 'they are listed')
    call arena%open('pool')
    do i = 1, 9
      call regions(i)%create(number_of(i), arena=arena)
      call expect(regions(i)%recovered() == 2, 'the next producer goes on from the last one')
    end do
    call regions(1)%close()
    call regions(1)%create('r2', arena=arena, stat=stat, errmsg=message)
    call expect(stat == stillframe_in_use .and. index(message, 'living producer') > 0, 'a region has one producer')
    do i = 2, 9
      call regions(i)%unlink()
    end do
    call stillframe_remove_region('pool/r1')
    call arena%usage(usage)
    call expect(size(usage%regions) == 0, 'regions of an arena are removed')
    call arena%close()
  end subroutine

  subroutine check_full()
    type(stillframe_arena) :: arena
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: held(20)
    integer(int32), allocatable :: u(:)
    integer :: step, stat, last
    character(600) :: message

    call arena%create('full', 16 * mib, regions=100)
    call region%create('big', arena=arena, rule=stillframe_fail)
    allocate (u(3 * mib / 4))
    last = 0
    do step = 1, 20
      u = step
      call region%publish(step, 'u', u, stat=stat, errmsg=message)
      if (stat /= stillframe_ok) exit
      if (step == 1) call observer%open('full/big')
      call observer%newest(held(step))
      last = step
    end do
    call expect(stat == stillframe_arena_full .and. index(message, "arena 'full'") > 0 .and. index(message, "'big' has") > 0, &
      'an arena that is full says who has how much')
    do step = 1, last
      call held(step)%release()
    end do
    call region%publish(100, 'u', u)
    call expect(shown('full/big') == last + 1, 'what was written is part of the next version')
    call observer%close()
    call region%unlink()
    call arena%close()
  end subroutine

  subroutine check_handed_in()
    type(stillframe_arena) :: arena
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    integer(int32) :: u(10)
    integer :: stat
    integer(c_int) :: descriptor
    character(300) :: message

    descriptor = memfd_create('stillframe' // c_null_char, 1)
    call arena%from_descriptor(descriptor, 'vm', bytes=16 * mib)
    call expect(close_descriptor(descriptor) == 0, 'the descriptor stays the program''s')
    call region%create('r', arena=arena)
    u = 7
    call region%publish(1, 'u', u)
    call expect(shown('r', arena) == 7, 'who has the arena observes its regions')
    call observer%open('vm/r', stat=stat)
    call expect(stat == stillframe_no_region, 'no name leads there')
    call region%unlink()
    call arena%close()
    call arena%from_descriptor(-1, 'vm', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, '-1 is none') > 0, 'a descriptor has to be one')
  end subroutine

  ! Two ranks in an arena to which no name leads, of which one is a version ahead.
  subroutine check_group_handed_in()
    type(stillframe_arena) :: arena, other
    type(stillframe_region) :: regions(0:1)
    type(stillframe_group) :: group
    type(stillframe_snapshot), allocatable :: snapshots(:)
    integer(int32) :: u(10)
    integer(int32), pointer :: found(:) => null()
    integer :: rank, version, stat
    integer(c_int) :: descriptor
    character(300) :: message

    descriptor = memfd_create('stillframe' // c_null_char, 1)
    call arena%from_descriptor(descriptor, 'vm', bytes=64 * mib)
    call expect(close_descriptor(descriptor) == 0, 'the descriptor stays the program''s')
    descriptor = memfd_create('stillframe' // c_null_char, 1)
    call other%from_descriptor(descriptor, 'other', bytes=16 * mib)
    call expect(close_descriptor(descriptor) == 0, 'also of a second arena')
    do rank = 0, 1
      call regions(rank)%create('g', arena=arena, rank=rank, ranks=2, keep=2)
      do version = 1, 3 - rank
        u = 10 * version + rank
        call regions(rank)%publish(version, 'u', u)
      end do
    end do
    call group%open('g', arena=arena)
    call expect(group%size() == 2, 'who has the arena observes its groups')
    do version = 1, 2
      call group%version(version, snapshots)
      do rank = 0, 1
        call snapshots(rank)%view('u', found)
        call expect(all(found == 10 * version + rank), 'all ranks have the version')
        call snapshots(rank)%release()
      end do
    end do
    call group%version(3, snapshots, stat=stat, errmsg=message)
    call expect(stat == stillframe_version_gone .and. index(message, "'vm/g/1'") > 0, 'which is a rank''s is not the group''s')
    call group%next_after(snapshots, timeout_ms=1, stat=stat, errmsg=message)
    call expect(stat == stillframe_timeout .and. index(message, "'vm/g'") > 0, 'messages name the arena too')
    call group%close()
    call group%open('vm/g', stat=stat)
    call expect(stat == stillframe_no_region, 'no name leads to the group')
    call group%open('g', arena=other, stat=stat, errmsg=message)
    call expect(stat == stillframe_no_region .and. index(message, "'g'") > 0, 'another arena does not have it')
    call group%open('g/0', arena=arena, stat=stat, errmsg=message)
    call expect(stat == stillframe_not_group .and. index(message, "'g/0'") > 0, 'a rank is no group')
    call other%close()
    call group%open('g', arena=other, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_handle .and. index(message, 'the arena is not open') > 0, 'an arena that was closed is none')
    do rank = 0, 1
      call regions(rank)%unlink()
    end do
    call arena%close()
  end subroutine

  subroutine check_misuse()
    type(stillframe_arena) :: arena, other
    type(stillframe_region) :: region
    type(stillframe_arena_usage) :: usage
    integer :: stat
    character(300) :: message

    call region%create('r', arena=arena, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_handle .and. index(message, 'the arena is not open') > 0, 'an arena has to be open')
    call arena%usage(usage, stat=stat)
    call expect(stat == stillframe_bad_handle, 'also for its usage')
    call arena%open('none', stat=stat, errmsg=message)
    call expect(stat == stillframe_no_arena .and. index(message, "'none'") > 0, 'one that is not there is told')
    call arena%create('once', 16 * mib, large_pages=.true., mode=int(o'750'))
    call arena%create('twice', 16 * mib, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'has an arena already') > 0, 'a variable has one')
    call other%create('once', 32 * mib, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_option .and. index(message, 'is there already') > 0, 'its length stays')
    call other%open('once', look=.true.)
    call region%create('r', arena=other, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_option .and. index(message, 'opened to look only') > 0, 'who looks makes nothing')
    call region%create('r', arena=arena, dir='/dev/shm', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'no meaning beside') > 0, 'an arena has its place')
    call other%close()
    call arena%close()
    call arena%close()
  end subroutine
end program
