! What producers and observers can do beside publishing arrays.
program using
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use expecting
  use stillframe
  implicit none
  call check_attributes()
  call check_sizes_around_page_edges()
  call check_managed()
  call check_parts()
  call check_repart()
  call check_parts_given_anew()
  call check_loans()
  call check_records()
  call check_waiting()
  call check_room()
  call check_background()
  call check_looking_after()
  call check_polite()
  call conclude()

contains

  subroutine check_attributes()
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    type(stillframe_variable) :: variable
    type(stillframe_variable), allocatable :: variables(:)
    type(stillframe_attribute), allocatable :: attributes(:)
    real(real64), allocatable, target :: u(:, :)
    real(real64) :: time
    real(real32) :: single
    integer(int32) :: count
    integer(int64) :: large
    logical :: converged
    character(:), allocatable :: text
    integer :: stat
    character(100) :: message

    allocate (u(3, 5), source=2.0_real64)
    call region%create('attributes')
    allocate (attributes(3))
    attributes(1) = stillframe_attribute('source', 'run 7')
    attributes(2) = stillframe_attribute('dx', 0.5_real64)
    attributes(3) = stillframe_attribute('level', 3)
    call region%track('u', u, units='K', attributes=attributes)
    call region%declare('v', 'float64', units='m/s')
    call region%set('time', 0.25_real64)
    call region%set('single', 0.5_real32)
    call region%set('count', 12)
    call region%set('large', 2_int64**40)
    call region%set('converged', .true.)
    call region%set('phase ', 'melting ')
    call region%publish(1, 'v', u(:, 1))
    call region%publish(2)
    call observer%open('attributes')
    call observer%newest(snapshot)
    call snapshot%get('time', time, stat=stat)
    call expect(stat == stillframe_unknown_attribute, 'attributes are of one version only')
    call region%set('time', 1.5_real64)
    call region%set('single', 0.5_real32)
    call region%set('count', 12)
    call region%set('large', 2_int64**40)
    call region%set('converged', .true.)
    call region%set('phase ', 'melting ')
    call region%publish(3)
    call observer%newest(snapshot)
    call snapshot%get('time', time)
    call snapshot%get('single', single)
    call snapshot%get('count', count)
    call snapshot%get('large', large)
    call snapshot%get('converged', converged)
    call snapshot%get('phase', text)
    call expect(abs(time - 1.5) < 1e-12 .and. abs(single - 0.5) < 1e-6 .and. count == 12 .and. large == 2_int64**40 &
      .and. converged .and. text == 'melting' .and. len(text) == 7, 'attributes are read back')
    call snapshot%get('count', time)
    call expect(abs(time - 12) < 1e-12, 'a whole number is read as a real too')
    call snapshot%get('time', count, stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_dtype .and. index(message, 'real') > 0 .and. index(message, 'integer') > 0, &
      'an attribute of another type is refused, naming both')
    call snapshot%get('large', count, stat=stat)
    call expect(stat == stillframe_out_of_range, 'a number that does not fit is refused')
    call snapshot%get('dx', time, variable='u')
    call snapshot%get('source', text, variable='u')
    call expect(abs(time - 0.5) < 1e-12 .and. text == 'run 7', 'attributes of variables are read back')
    call snapshot%attributes(attributes, variable='u')
    call expect(size(attributes) == 3 .and. attributes(1)%name == 'dx' .and. attributes(3)%name == 'source', &
      'attributes of variables are listed')
    call snapshot%attributes(attributes)
    call expect(size(attributes) == 6, 'attributes of versions are listed')
    call snapshot%variables(variables)
    call expect(size(variables) == 2, 'variables are listed')
    call snapshot%variable('u', variable)
    call expect(variable%dtype == 'float64' .and. variable%units == 'K' .and. variable%order == stillframe_column_major &
      .and. all(variable%shape == [3, 5]) .and. all(variable%strides == [8, 24]) .and. variable%bytes == 120 &
      .and. variable%item_bytes == 8, 'variables are described')
    call snapshot%variable('v', variable)
    call expect(variable%units == 'm/s' .and. all(variable%shape == [3]), 'what declare said holds for publish')
    call expect(snapshot%region() == 'attributes' .and. snapshot%published_ns() > 0, 'a snapshot knows where it is from')
    call snapshot%release()
    call observer%close()
    call region%unlink()
  end subroutine

  subroutine check_sizes_around_page_edges()
    integer, parameter :: sizes(*) = [0, 1, 4095, 4096, 4097, 8192, 2097151, 2097152, 2097153]
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    integer(int8), allocatable :: a(:)
    integer(int8), pointer :: p(:) => null()
    integer(int64), allocatable :: ranges(:, :)
    type(stillframe_snapshot) :: older
    integer :: i, k, stat

    call region%create('sizes')
    call observer%open('sizes')
    do i = 1, size(sizes)
      allocate (a(sizes(i)))
      do k = 1, size(a)
        a(k) = int(mod(k + i, 127), int8)
      end do
      call region%publish(i, 'a', a)
      call observer%newest(snapshot)
      call snapshot%view('a', p)
      call expect(size(p) == size(a) .and. associated(p) .eqv. size(a) > 0 .or. size(a) == 0, 'a size is read back')
      call expect(all(p == a), 'bytes of a size are read back')
      if (i < size(sizes)) deallocate (a)
    end do
    call stillframe_move(snapshot, older)
    call expect(snapshot%version() == -1 .and. older%version() == size(sizes), 'a hold is moved')
    a(5000) = -1
    call region%publish(100, 'a', a)
    call observer%next_after(snapshot, after=older%version())
    call snapshot%changed(older, 'a', ranges)
    call expect(any(ranges(1, :) <= 4999 .and. ranges(1, :) + ranges(2, :) > 4999), 'what changed is among the ranges')
    call expect(sum(ranges(2, :)) < size(a), 'not everything changed')
    call older%view('a', p)
    call expect(p(5000) /= -1, 'a held version stays')
    call older%advance(snapshot)
    call expect(snapshot%version() == -1 .and. older%version() == 100, 'a hold goes over to the next version')
    call older%view('a', p)
    call expect(all(p == a), 'a view is brought along')
    call older%advance(snapshot, stat=stat)
    call expect(stat == stillframe_bad_handle .and. older%version() == 100, 'an empty snapshot is nobody''s next')
    call snapshot%release()
    call older%release()
    call observer%close()
    call region%unlink()
  end subroutine

  subroutine check_managed()
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    type(stillframe_statistics) :: statistics
    real(real64), pointer :: u(:, :) => null(), v(:, :) => null()
    complex(real32), pointer :: z => null()
    integer :: stat
    character(200) :: message

    call region%create('managed', keep=1, rule=stillframe_fail, threads=1, mode=int(o'700'), &
      large_pages=.false., demotion=.false., bound_bytes=2_int64**28)
    call region%array('u', u, [10, 20], lower=[0, -1], units='K')
    call expect(all(lbound(u) == [0, -1]) .and. all(shape(u) == [10, 20]) .and. all(u == 0), &
      'managed memory has the shape and bounds asked for, and is zero')
    u = 4
    u(0, -1) = 5
    call region%array('z', z)
    z = (1, 2)
    call region%publish(1)
    call region%resize('u', u, [10, 30])
    call expect(all(shape(u) == [10, 30]) .and. u(1, 1) == 5 .and. u(10, 20) == 4, 'a larger one keeps what there was')
    call region%resize('u', u, [10, 2])
    call region%resize('u', u, [10, 30])
    call expect(all(u(:, 3:) == 0) .and. u(1, 1) == 5 .and. u(10, 2) == 4, 'what it gets back is zero')
    u(:, 30) = 6
    call region%pin('u')
    call region%resize('u', u, [10, 100], stat=stat)
    call expect(stat == stillframe_ok, 'pinned memory may become longer where it is')
    call region%resize('u', u, [1000, 1000], stat=stat, errmsg=message)
    call expect(stat == stillframe_is_pinned .and. index(message, 'unpin') > 0, 'it is not moved')
    call region%unpin('u')
    call region%resize('u', u, [10, 30])
    call region%mark_dirty('u', 0_int64, 8_int64)
    call region%publish(2)
    call observer%open('managed')
    call observer%newest(snapshot)
    call snapshot%view('u', v, lower=[0, 0])
    call expect(all(lbound(v) == 0) .and. v(9, 29) == 6 .and. v(0, 0) == 5, 'it is read back')
    call region%statistics(statistics)
    call expect(statistics%published == 2 .and. statistics%total_pages > 0 .and. statistics%publish_seconds > 0, 'it is counted')
    call expect(len(region%tracker()) > 0, 'the tracker has a name')
    call snapshot%release()
    call region%close()
    call expect(.not. observer%producer_alive(), 'an observer sees that the producer is gone')
    call observer%close()
    call region%create('managed')
    call expect(region%recovered() == 2, 'the next producer goes on from the last version')
    call region%array('u', u, [10, 30])
    call expect(u(1, 1) == 5 .and. u(10, 30) == 6, 'managed memory is recovered')
    call region%unlink()
  end subroutine

  subroutine check_background()
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    type(stillframe_published) :: published
    real(real64), allocatable, target, asynchronous :: u(:)
    real(real64), pointer :: v(:) => null()
    logical :: found
    integer :: version, stat

    allocate (u(200000), source=0.0_real64)
    call region%create('background')
    call region%track('u', u)
    call region%publish_finish(found=found)
    call expect(.not. found .and. region%publish_test(), 'nothing is started')
    call observer%open('background')
    do version = 1, 10
      u = version
      call region%publish_start(version)
      if (mod(version, 2) == 0) then
        do while (.not. region%publish_test())
        end do
      end if
      call region%publish_finish(published, found)
      call expect(found .and. published%version == version .and. .not. published%skipped, 'it is told once')
      call observer%newest(snapshot)
      call snapshot%view('u', v)
      call expect(size(v) == size(u) .and. all(v == version), 'it is what was started')
    end do
    call region%publish_start(11, guard=.true.)
    u = 77
    call region%publish_finish()
    call observer%newest(snapshot)
    call snapshot%view('u', v)
    call expect(all(v == 10), 'a guarded one may be written')
    call region%publish_start(11_int64, stat=stat)
    call expect(stat == stillframe_not_increasing, 'versions increase')
    call region%publish_start(-1, stat=stat)
    call expect(stat == stillframe_bad_argument, 'versions are not negative')
    call region%publish_start(12)
    call snapshot%release()
    call region%close()
    call observer%newest(snapshot)
    call snapshot%view('u', v)
    call expect(all(v == 77), 'what is closed is finished first')
    call snapshot%release()
    call observer%close()
    call region%create('background')
    call region%unlink()
  end subroutine

  ! The process stays polite, so this comes last.
  subroutine check_polite()
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    real(real64), target :: u(10)
    integer :: stat

    u = 3
    call region%create('polite')
    call region%publish(1, 'u', u)
    call observer%open('polite', polite=.true., processors='one', stat=stat)
    call expect(stat == stillframe_bad_option, 'processors have numbers')
    call observer%open('polite', polite=.true., share=0.5_real64, bytes_per_s=2_int64**30, processors='0-1023')
    call observer%newest(snapshot)
    call expect(snapshot%version() == 1, 'who is polite sees versions')
    call snapshot%release()
    call observer%close()
    call region%unlink()
  end subroutine

  subroutine check_parts()
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    type(stillframe_variable) :: variable
    real(real64), allocatable, target :: u(:, :)
    real(real64), pointer :: v(:) => null()
    integer :: stat
    character(200) :: message

    allocate (u(3, 4), source=0.0_real64)
    call region%create('parts')
    call region%track('u', u, offset=[3, 0], global_shape=[6, 4])
    call region%array('v', v, [5], offset=[10], global_shape=[20])
    call region%declare('w', 'float64', offset=[0, 4], global_shape=[3, 8])
    call region%publish(1, 'w', u)
    call observer%open('parts')
    call observer%newest(snapshot)
    call snapshot%variable('u', variable)
    call expect(all(variable%offset == [3, 0]) .and. all(variable%global_shape == [6, 4]), 'a part is told to observers')
    call snapshot%variable('v', variable)
    call expect(all(variable%offset == [10]) .and. all(variable%global_shape == [20]), 'of managed arrays too')
    call snapshot%variable('w', variable)
    call expect(all(variable%offset == [0, 4]), 'of arrays that are given to publish as well')
    call region%publish(2, 'x', u)
    call observer%newest(snapshot)
    call snapshot%variable('x', variable)
    call expect(.not. allocated(variable%offset), 'what is no part says none')
    call region%declare('y', 'float64', offset=[1], stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'go together') > 0, 'an offset is in something')
    call region%declare('y', 'float64', offset=[1], global_shape=[2, 2], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'offset and global shape have the same dimensions')
    call region%array('y', v, [5], offset=[1, 1], global_shape=[9, 9], stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, '(1, 1)') > 0, 'and those of the array')
    call region%array('y', v, [5], offset=[1], global_shape=[5], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'a part lies within the whole')
    call snapshot%release()
    call observer%close()
    call region%unlink()
  end subroutine

  subroutine check_repart()
    type(stillframe_region) :: region
    type(stillframe_loan) :: loan
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot, older
    type(stillframe_variable) :: variable
    real(real64), allocatable :: t(:, :)
    real(real64), pointer :: u(:, :) => null(), v(:, :) => null()
    integer(int32), pointer :: w(:) => null(), n(:) => null()
    type(c_ptr) :: address
    integer :: stat
    character(200) :: message

    allocate (t(6, 4), source=1.0_real64)
    call region%create('repart')
    call region%array('u', u, [6, 4], offset=[0, 3], global_shape=[6, 9])
    u(6, 4) = 5
    call region%array('n', n, [3], offset=[0], global_shape=[9])
    call region%declare('t', 'float64', offset=[0, 3], global_shape=[6, 9])
    call region%loan('w', w, [7], loan, offset=[0], global_shape=[20])
    w = 1
    call loan%submit()
    call region%publish(1, 't', t)
    call observer%open('repart')
    call observer%newest(older)

    v => u
    call region%repart('u', v, [6, 5], offset=[0, 5], global_shape=[6, 9], stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, "'u'") > 0 .and. .not. associated(v), &
      'a shape that does not fit the part is refused')
    call region%repart('u', v, [6, 5], offset=[5], global_shape=[9], stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, '(5)') > 0, 'and an offset of other dimensions')
    call region%repart('u', v, [6, 5], offset=[0, -1], global_shape=[6, 9], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'or one that is negative')
    call region%repart('t', v, [6, 4], offset=[0, 5], global_shape=[6, 9], stat=stat)
    call expect(stat == stillframe_wrong_kind, 'a tracked variable has no pointer')
    call region%repart('u', offset=[0, 5], global_shape=[6, 9], stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_kind .and. index(message, 'pointer') > 0, 'a managed one has')
    call region%repart('t', offset=[0, 10], global_shape=[6, 9], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'a part begins within the whole')
    call region%repart('none', offset=[0], global_shape=[9], stat=stat)
    call expect(stat == stillframe_unknown_variable, 'what is no variable is no part')
    call region%publish(2, 't', t)
    call observer%newest(snapshot)
    call expect(is_part(snapshot, 'u', [0, 3], [6, 4]) .and. is_part(snapshot, 't', [0, 3], [6, 4]) .and. &
      is_part(snapshot, 'w', [0], [7]), 'then nothing has changed')
    call expect(abs(u(6, 4) - 5) < 1e-12, 'and pointers are what they were')

    call region%repart('u', u, [6_int64, 7_int64], offset=[0, 2], global_shape=[6, 9], lower=[1, 2])
    call expect(all(lbound(u) == [1, 2]) .and. all(shape(u) == [6, 7]) .and. abs(u(6, 5) - 5) < 1e-12 .and. &
      all(abs(u(:, 6:)) < 1e-12), 'a larger part keeps what there was')
    u(6, 8) = 6
    call region%repart('n', address, [1], offset=[8], global_shape=[9])
    call expect(c_associated(address), 'there is an address instead of a pointer')
    call region%repart('t', offset=[0, 7], global_shape=[6, 9])
    call region%publish(3, 't', t, stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, "'t'") > 0, 'publish refuses what does not fit the part')
    deallocate (t)
    allocate (t(6, 2), source=2.0_real64)
    call region%repart('w', offset=[11], global_shape=[20])
    call region%loan('w', w, [9], loan)
    w = 3
    call loan%submit()
    call region%publish(3, 't', t)
    call observer%newest(snapshot)
    call expect(is_part(snapshot, 'u', [0, 2], [6, 7]) .and. is_part(snapshot, 'n', [8], [1]), 'another part is told to observers')
    call expect(is_part(snapshot, 't', [0, 7], [6, 2]) .and. is_part(snapshot, 'w', [11], [9]), &
      'of arrays given to publish and of loans too')
    call snapshot%view('u', v)
    call expect(abs(v(6, 7) - 6) < 1e-12, 'with its content')
    call region%repart('u', u, [6, 1], offset=[0, 8], global_shape=[6, 9])
    call region%publish(4, 't', t)
    call observer%newest(snapshot)
    call expect(is_part(snapshot, 'u', [0, 8], [6, 1]), 'a part can be smaller')
    call older%variable('u', variable)
    call expect(all(variable%offset == [0, 3]), 'a version that is held is as it was')
    call snapshot%release()
    call older%release()
    call observer%close()
    call region%unlink()
  end subroutine

  ! A part given for a variable that there is has to be the one that it has.
  subroutine check_parts_given_anew()
    type(stillframe_region) :: region
    type(stillframe_loan) :: loan
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    real(real64), target :: t(6, 4)
    integer(int32), target :: n(3)
    integer(int32), pointer :: w(:) => null(), u(:) => null()
    integer :: stat
    character(200) :: message

    t = 1
    n = 2
    call region%create('anew')
    call region%track('t', t, offset=[0, 3], global_shape=[6, 9])
    call region%track('n', n)
    call region%track('b', c_loc(n), 'bytes4', [3], offset=[0], global_shape=[9])
    call region%array('u', u, [3], offset=[0], global_shape=[9])
    call region%loan('w', w, [7], loan, offset=[0], global_shape=[20])
    w = 1
    call loan%submit()

    call region%track('t', t, offset=[0, 5], global_shape=[6, 9], stat=stat, errmsg=message)
    call expect(stat == stillframe_variable_exists .and. index(message, 'the part at (0, 3) in (6, 9)') > 0 .and. &
      index(message, '(0, 5) in (6, 9): repart') > 0, 'another part is refused, and the message says both')
    call region%track('t', t, offset=[0, 3], global_shape=[6, 10], stat=stat)
    call expect(stat == stillframe_variable_exists, 'one of another whole too')
    call region%track('t', t, offset=[3], global_shape=[9], stat=stat)
    call expect(stat == stillframe_variable_exists, 'and one of other dimensions')
    call region%track('t', t, offset=[0, 3], stat=stat)
    call expect(stat == stillframe_bad_argument, 'an offset is half a part')
    call region%track('n', n, offset=[0], global_shape=[9], stat=stat, errmsg=message)
    call expect(stat == stillframe_variable_exists .and. index(message, 'no part') > 0, 'what is no part does not become one')
    call region%track('b', c_loc(n), 'bytes4', [3], offset=[1], global_shape=[9], stat=stat)
    call expect(stat == stillframe_variable_exists, 'nor does what is given by its address')
    call region%loan('w', w, [7], loan, offset=[9], global_shape=[20], stat=stat, errmsg=message)
    call expect(stat == stillframe_variable_exists .and. index(message, '(9) in (20)') > 0 .and. .not. associated(w), &
      'nor what is loaned')
    call region%array('u', u, [3], offset=[6], global_shape=[9], stat=stat)
    call expect(stat == stillframe_variable_exists, 'nor an array of the region')
    call region%track('t', t, offset=[0, 3], global_shape=[6, 9])
    call region%loan('w', w, [8], loan, offset=[0], global_shape=[20])
    w = 2
    call loan%submit()
    call region%publish(1)
    call observer%open('anew')
    call observer%newest(snapshot)
    call expect(is_part(snapshot, 't', [0, 3], [6, 4]) .and. is_part(snapshot, 'w', [0], [8]), 'the same part is no other one')

    call region%repart('t', offset=[0, 5], global_shape=[6, 9])
    call region%repart('n', offset=[0], global_shape=[9])
    call region%repart('w', offset=[9], global_shape=[20])
    call region%track('t', t, offset=[0, 3], global_shape=[6, 9], stat=stat, errmsg=message)
    call expect(stat == stillframe_variable_exists .and. index(message, 'the part at (0, 5)') > 0, 'repart makes it another one')
    call region%track('t', t)
    call region%track('t', t, offset=[0, 5], global_shape=[6, 9])
    call region%track('n', n, offset=[0], global_shape=[9])
    call region%loan('w', w, [7], loan, offset=[9], global_shape=[20])
    w = 3
    call loan%submit()
    call region%publish(2)
    call observer%newest(snapshot)
    call expect(is_part(snapshot, 't', [0, 5], [6, 4]) .and. is_part(snapshot, 'n', [0], [3]) .and. &
      is_part(snapshot, 'w', [9], [7]), 'which can be given from then on')
    call region%remove('t')
    call region%track('t', t, offset=[0, 3], global_shape=[6, 9])
    call snapshot%release()
    call observer%close()
    call region%unlink()
  end subroutine

  function is_part(snapshot, name, offset, extents) result(is)
    type(stillframe_snapshot), intent(in) :: snapshot
    character(*), intent(in) :: name
    integer, intent(in) :: offset(:), extents(:)
    logical :: is
    type(stillframe_variable) :: variable

    call snapshot%variable(name, variable)
    is = all(variable%offset == offset) .and. all(variable%shape == extents)
  end function

  subroutine check_loans()
    type(stillframe_region) :: region
    type(stillframe_loan) :: loan
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    integer(int32), pointer :: a(:, :) => null(), p(:, :) => null()
    integer :: step, stat

    call region%create('loans')
    call observer%open('loans', populate=3)
    do step = 1, 4
      call region%loan('a', a, [100 * step, 7], loan, lower=[0, 0])
      a = step
      a(0, 0) = -step
      call loan%submit()
      call region%publish(step)
      call observer%newest(snapshot)
      call snapshot%view('a', p)
      call expect(all(shape(p) == [100 * step, 7]) .and. p(1, 1) == -step .and. p(100 * step, 7) == step, 'a loan is shown')
    end do
    call region%loan('a', a, [400, 7], loan)
    a = 9
    call loan%discard()
    call region%publish(5)
    call observer%newest(snapshot)
    call snapshot%view('a', p)
    call expect(snapshot%version() == 5 .and. p(2, 1) == 4, 'a discarded loan is not shown')
    call loan%submit(stat=stat)
    call expect(stat == stillframe_bad_handle, 'a loan ends once')
    call snapshot%release()
    call observer%close()
    call region%unlink()
  end subroutine

  subroutine check_records()
    type, bind(c) :: cell
      real(c_double) :: density
      integer(c_int32_t) :: material, level
    end type
    character(*), parameter :: dtype = '{"fields":[{"name":"density","dtype":"float64","offset":0},' // &
      '{"name":"material","dtype":"int32","offset":8},{"name":"level","dtype":"int32","offset":12}],"bytes":16}'
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    type(stillframe_loan) :: loan
    type(cell), allocatable, target :: cells(:, :)
    type(cell), pointer :: found(:, :) => null()
    integer(c_int16_t), pointer :: ids(:) => null()
    type(c_ptr) :: address
    integer(int64) :: bytes
    integer :: stat

    allocate (cells(4, 3))
    cells = cell(1.5d0, 7, 2)
    cells(2, 3) = cell(2.5d0, 8, 3)
    call region%create('records')
    call region%track('cells', c_loc(cells), dtype, shape(cells))
    call region%array('ids', address, 'uint16', [5])
    call c_f_pointer(address, ids, [5])
    ids = -1
    call region%loan('bytes', address, 'bytes3', [2_int64], loan)
    call c_f_pointer(address, ids, [3])
    ids = 257
    call loan%submit()
    call region%publish(1)
    call observer%open('records')
    call observer%newest(snapshot)
    call snapshot%view('cells', address, bytes)
    call c_f_pointer(address, found, [4, 3])
    call expect(bytes == 16 * 12 .and. all(found%material == cells%material) .and. found(2, 3)%level == 3, 'records are read back')
    call snapshot%view('ids', ids, stat=stat)
    call expect(stat == stillframe_wrong_dtype, 'unsigned is not signed')
    call snapshot%view('ids', address, bytes)
    call c_f_pointer(address, ids, [5])
    call expect(bytes == 10 .and. all(ids == -1), 'unsigned numbers are read back')
    call snapshot%view('bytes', address, bytes)
    call expect(bytes == 6, 'bytes are read back')
    call region%resize('ids', address, [9])
    call region%remove('cells')
    call region%publish(2)
    call observer%newest(snapshot)
    call snapshot%view('cells', address, stat=stat)
    call expect(stat == stillframe_unknown_variable, 'a removed variable is not in the next version')
    call snapshot%release()
    call observer%close()
    call region%unlink()
  end subroutine

  subroutine check_waiting()
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    type(stillframe_version_info), allocatable :: versions(:)
    integer(int64) :: version
    integer :: step, seen

    call region%create('waiting', keep=8)
    call observer%open('waiting')
    do step = 1, 5
      call region%publish(10 * step, 'step', step)
    end do
    call observer%versions(versions)
    call expect(all(versions%version == [10, 20, 30, 40, 50]), 'versions are listed')
    seen = 0
    do
      call observer%next_after(snapshot, timeout_ms=5000)
      seen = seen + 1
      call snapshot%read('step', step)
      call expect(snapshot%version() == 10 * step, 'versions come in turn')
      if (snapshot%version() == 50) exit
    end do
    call expect(seen == 5, 'each version comes once')
    call observer%newest_after(snapshot, timeout_ms=5000, after=20_int64)
    call expect(snapshot%version() == 50, 'the newest comes')
    call observer%wait_newer(0_int64, version, timeout_ms=5000)
    call expect(version == 50, 'waiting says which')
    call observer%version(30, snapshot)
    call expect(snapshot%version() == 30, 'a version is had by its number')
    call observer%version(40_int64, snapshot)
    call expect(snapshot%version() == 40, 'a version is had by its number of 64 bits')
    call snapshot%release()
    call observer%close()
    call region%close()
  end subroutine

  subroutine check_room()
    type(stillframe_region) :: region
    type(stillframe_observer) :: observer
    type(stillframe_snapshot) :: snapshot
    type(stillframe_published) :: published
    type(stillframe_region_info), allocatable :: regions(:)
    real(real64), pointer :: u(:) => null()
    integer :: i, stat

    call region%create('crowded', rule=stillframe_wait_then_skip, wait_ms=100, bound_bytes=2_int64**20)
    call region%array('u', u, [51200])
    u = 1
    call region%publish(1)
    call observer%open('crowded')
    call observer%newest(snapshot)
    u = 2
    call region%publish(2)
    do i = 3, 5
      u = i
      call region%publish(i, published=published)
      call expect(published%skipped, 'what has no room is left out')
    end do
    call stillframe_list(regions)
    do i = 1, size(regions)
      if (regions(i)%name == 'crowded') call expect(regions(i)%skipping == 3 .and. regions(i)%skipping_ns > 0 .and. &
        regions(i)%waiting_ns == 0, 'and counted')
    end do
    call snapshot%release()
    call region%publish(6, published=published)
    call expect(.not. published%skipped, 'until there is room')
    call observer%close()
    call region%unlink()
    call region%create('crowded', rule=stillframe_wait, wait_ms=100, bound_bytes=2_int64**20)
    call region%array('u', u, [51200])
    u = 1
    call region%publish(1)
    call observer%open('crowded')
    call observer%newest(snapshot)
    u = 2
    call region%publish(2)
    u = 3
    call region%publish(3, stat=stat)
    call expect(stat == stillframe_bound, 'who waits is told at the end')
    call snapshot%release()
    call observer%close()
    call region%unlink()
  end subroutine

  subroutine check_looking_after()
    type(stillframe_region_info), allocatable :: regions(:)
    integer(int64) :: freed_bytes
    integer :: i, removed, stat
    logical :: found

    call stillframe_list(regions)
    found = .false.
    do i = 1, size(regions)
      if (regions(i)%name == 'waiting') found = regions(i)%state == stillframe_dead .and. regions(i)%newest == 50
    end do
    call expect(found, 'regions are listed')
    call stillframe_remove_region('waiting', freed_bytes=freed_bytes)
    call expect(freed_bytes > 0, 'a region is removed')
    call stillframe_remove_region('waiting', stat=stat)
    call expect(stat == stillframe_no_region, 'once')
    call stillframe_collect(removed=removed)
    call expect(removed == 0, 'nothing is left to collect')
    call expect(len(stillframe_library_version()) > 0, 'the library has a version')
  end subroutine
end program
