! What goes wrong, and what the program is told.
module fields
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  type :: cell
    real(real64) :: density = 0, energy = 0
    integer :: material = 0
  end type
end module

program misuse
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use expecting
  use fields
  use stillframe
  implicit none

  call check()
  call conclude()

contains

  subroutine check()
    type(stillframe_region) :: region, other
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot, empty
    type(stillframe_published) :: published
    real(real64), allocatable, target :: u(:, :), large(:), moved(:)
    real(real64), pointer :: p1(:) => null(), p2(:, :) => null(), nowhere(:)
    real(real32), allocatable, target :: single(:, :)
    integer(int32), pointer :: wrong(:, :) => null()
    type(cell), target :: cells(8)
    real(real64) :: densities(8)
    integer :: stat
    integer(int64) :: number
    character(200) :: message
    character(12) :: short

    allocate (u(6, 4), single(6, 4))
    u = 1
    message = 'untouched'
    call region%create('misuse', stat=stat, errmsg=message)
    call expect(stat == stillframe_ok .and. message == 'untouched', 'success leaves errmsg alone')
    call expect(region%recovered() == -1 .and. region%newest_published() == -1, 'there is no version at first')

    call region%create('again', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'close') > 0, 'a variable in use does not take a region')
    call other%create('misuse', stat=stat, errmsg=message)
    call expect(stat == stillframe_in_use .and. index(message, 'living producer') > 0, 'a region has one producer')
    call other%create('no such/../name', stat=stat)
    call expect(stat == stillframe_bad_name, 'a name that is none is refused')
    call other%create('options', keep=1000, stat=stat, errmsg=short)
    call expect(stat == stillframe_bad_option .and. len_trim(short) > 0, 'options are checked, and errmsg may be short')
    call other%create('options', trust='everybody', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_option .and. index(message, 'everybody') > 0, 'trust is a word of its own')
    call observer%open('misuse', trust='user:', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_option .and. index(message, 'user:') > 0, 'an observer trusts users by number')
    call other%publish(1, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_handle .and. len_trim(message) > 0, 'a region that was not created does not publish')

    call region%publish(7, 'u   ', u, published=published)
    call expect(published%version == 7 .and. .not. published%skipped .and. published%total_pages > 0, 'publish tells what it did')
    call region%publish(7, 'u', u, stat=stat, errmsg=message)
    call expect(stat == stillframe_not_increasing .and. index(message, 'higher number') > 0, 'versions increase')
    call region%publish(-1, 'u', u, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, '-1') > 0, 'versions are not negative')
    call region%publish(8, 'u', single, stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_dtype .and. index(message, 'float64') > 0 .and. index(message, 'float32') > 0, &
      'another type under a known name is refused, naming both')
    call region%publish(8, 'u', u, array2=u, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'name') > 0, 'an array needs a name')
    call region%publish(8, '', u, stat=stat)
    call expect(stat == stillframe_bad_name, 'an empty name is none')

    call region%publish(8, 'columns', u(:, 2:3), stat=stat)
    call expect(stat == stillframe_ok, 'publish takes a section without gaps')
    u(2:3, :) = 5
    call region%publish(9, 'copy', (u(2:3, :)), stat=stat)
    call expect(stat == stillframe_ok, 'publish takes a copy made by parentheses')
    call region%publish(10, 'u', u)
    call region%track('columns', u(:, 2:3), stat=stat)
    call expect(stat == stillframe_ok, 'track takes a section without gaps')
    call region%track('density', cells(3)%density, stat=stat)
    call expect(stat == stillframe_ok, 'track takes a component of one record')
    call region%remove('density')
    cells%density = [1, 2, 3, 4, 5, 6, 7, 8]
    call region%publish(11, 'density', cells%density, stat=stat)
    if (stat == stillframe_ok) then
      call observer%open('misuse')
      call observer%newest(snapshot)
      call snapshot%read('density', densities)
      call expect(all(abs(densities - cells%density) < 1e-12), 'a component of records is published from a copy')
      call snapshot%release()
      call observer%close()
    else
      call expect(stat == stillframe_not_contiguous, 'a component of records is refused by publish')
    end if

    nullify (nowhere)
    call region%track('nowhere', nowhere, stat=stat, errmsg=message)
    call expect(stat == stillframe_no_memory_there .and. index(message, 'not allocated') > 0, 'a pointer to nothing is refused')
    call region%track('moved', moved, stat=stat)
    call expect(stat == stillframe_no_memory_there, 'an array that is not allocated is refused by track')

    ! Large enough to be unmapped when it is deallocated.
    allocate (large(8000000))
    large = 3
    call region%track('large', large)
    call region%publish(200)
    deallocate (large)
    call region%publish(201, stat=stat, errmsg=message)
    call expect(stat == stillframe_no_memory_there .and. index(message, 'large') > 0, 'an array that was deallocated is told')
    call region%untrack('large')
    call region%publish(202, stat=stat)
    call expect(stat == stillframe_ok, 'without it publishing goes on')
    allocate (large(10))
    large = 4
    call region%track('large', large)
    call move_alloc(large, moved)
    call region%publish(203, stat=stat)
    call expect(stat == stillframe_ok, 'move_alloc leaves the memory where it is')
    call region%untrack('no such', stat=stat)
    call expect(stat == stillframe_unknown_variable, 'a variable that is not there is not untracked')
    call region%array('u', p2, [6, 4], stat=stat)
    call expect(stat == stillframe_variable_exists .and. .not. associated(p2), 'a name is taken once, and the pointer null')
    call region%array('v', p2, [6], stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, 'rank 2') > 0, 'a shape that does not fit is refused')
    call region%array('v', p2, [6, -4], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'a negative extent is refused')
    call region%array('v', p2, [6, 4], lower=[1], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'lower bounds that do not fit are refused')
    call region%resize('u', p1, [3], stat=stat)
    call expect(stat == stillframe_wrong_kind, 'a tracked variable is not resized')

    call observer%newest(snapshot, stat=stat)
    call expect(stat == stillframe_bad_handle, 'an observer that is not open observes nothing')
    call observer%open('no-such-region', stat=stat, errmsg=message)
    call expect(stat == stillframe_no_region .and. index(message, 'no-such-region') > 0, 'a region that is not there is told')
    call observer%open('misuse')
    call observer%newest(snapshot)
    call expect(snapshot%version() == 203 .and. empty%version() == -1, 'a snapshot has a version, an empty one -1')
    call snapshot%view('u', wrong, stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_dtype .and. index(message, 'float64') > 0 .and. index(message, 'int32') > 0 &
      .and. .not. associated(wrong), 'a pointer of another type is refused, naming both')
    call snapshot%view('u', p1, stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, '(6, 4)') > 0 .and. index(message, 'rank 1') > 0, &
      'a pointer of another rank is refused, naming both')
    call snapshot%view('none', p1, stat=stat)
    call expect(stat == stillframe_unknown_variable, 'an unknown variable is told')
    call snapshot%read('u', u(1:5, :), stat=stat, errmsg=message)
    call expect(stat == stillframe_not_contiguous, 'read refuses a section with gaps')
    call snapshot%read('u', u(:, 1:3), stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, '(6, 4)') > 0 .and. index(message, '(6, 3)') > 0, &
      'read refuses another shape, naming both')
    call snapshot%view('u', p2, row_major=.true., stat=stat)
    call expect(stat == stillframe_wrong_shape, 'a column-major variable is not row-major')
    call snapshot%get('time', number, stat=stat)
    call expect(stat == stillframe_unknown_attribute, 'an unknown attribute is told')
    call empty%view('u', p2, stat=stat)
    call expect(stat == stillframe_bad_handle, 'an empty snapshot shows nothing')
    call empty%release(stat=stat)
    call expect(stat == stillframe_ok, 'an empty snapshot is released')
    call observer%next_after(snapshot, timeout_ms=10, stat=stat, errmsg=message)
    call expect(stat == stillframe_timeout, 'waiting ends')
    call observer%version(3, snapshot, stat=stat)
    call expect(stat == stillframe_version_gone, 'a version that is gone is told')
    call observer%close()
    other = region
    call region%unlink()
    call other%publish(300, stat=stat)
    call expect(stat == stillframe_bad_handle, 'a copied handle of a region that was closed is told')
    call other%close(stat=stat)
    call expect(stat == stillframe_bad_handle, 'closing it is told too')
    call other%create('another', stat=stat)
    call expect(stat == stillframe_ok, 'after which the variable takes another region')
    call other%unlink()
    call region%publish(300, stat=stat)
    call expect(stat == stillframe_bad_handle, 'a region that was closed does not publish')
    call region%close(stat=stat)
    call expect(stat == stillframe_ok, 'closing twice does no harm')
    call expect(stillframe_status_name(stillframe_not_increasing) == 'NOT_INCREASING', 'statuses have names')
  end subroutine
end program
