! Sections of arrays, with gaps and backwards, and numbers that versions show with fewer bits.
module cells_with_gaps
  use, intrinsic :: iso_fortran_env, only: int32, real64
  implicit none

  type :: cell
    real(real64) :: density = 0, energy = 0
    integer(int32) :: material = 0
  end type
end module

program sections
  use, intrinsic :: iso_c_binding, only: c_bool, c_f_pointer, c_loc, c_ptr
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, real32, real64
  use cells_with_gaps
  use expecting
  use stillframe
  implicit none
  type(stillframe_region) :: region
  type(stillframe_observer) :: observer
  type(stillframe_snapshot) :: snapshot

  call check_tracked()
  call check_ranks()
  call check_kinds()
  call check_given()
  call check_records()
  call check_rounded()
  call check_refused()
  call conclude()

contains

  subroutine begin(name)
    character(*), intent(in) :: name

    call region%create(name, fresh=.true.)
    call region%publish(1)
    call observer%open(name)
  end subroutine

  subroutine publish()
    call region%publish(region%newest_published() + 1)
    call observer%newest(snapshot)
  end subroutine

  ! What is left is read from Python.
  subroutine finish()
    call snapshot%release()
    call observer%close()
    call region%close()
  end subroutine

  function shows(name, wanted) result(does)
    character(*), intent(in) :: name
    real(real64), intent(in) :: wanted(:, :)
    logical :: does
    real(real64), pointer :: seen(:, :) => null()

    call snapshot%view(name, seen)
    does = all(shape(seen) == shape(wanted))
    if (does) does = all(seen == wanted)
  end function

  subroutine check_tracked()
    integer, parameter :: n = 130, m = 90
    real(real64), allocatable, target :: u(:, :), next(:, :)
    integer :: i, step

    allocate (u(n, m), next(n, m))
    u = reshape([(real(i, real64), i = 1, n * m)], [n, m])
    next = -1
    call begin('tracked-sections')
    call region%track('inner', u(2:n - 1, 2:m - 1), units='K')
    call region%track('coarse', u(2:n - 1, ::2))
    call region%track('backwards', u(n:1:-3, m:1:-1))
    call region%track('none', u(3:2, ::2))
    do step = 1, 4
      u(step + 7, step) = -step
      u(1, 3) = step
      call publish()
      call expect(shows('inner', u(2:n - 1, 2:m - 1)), 'the interior is shown')
      call expect(shows('coarse', u(2:n - 1, ::2)), 'every second column is shown')
      call expect(shows('backwards', u(n:1:-3, m:1:-1)), 'a section may run backwards')
      call expect(shows('none', u(3:2, ::2)), 'a section may have no elements')
    end do
    call region%track('inner', next(2:n - 1, 2:m - 1))
    call publish()
    call expect(shows('inner', next(2:n - 1, 2:m - 1)), 'a section may be of another array from then on')
    call region%track('inner', next)
    call publish()
    call expect(shows('inner', next), 'or the whole of one')
    call region%untrack('inner')
    call region%untrack('coarse')
    deallocate (next)
    call publish()
    call expect(all(shape(u(2:n - 1, ::2)) == shape_of('coarse')), 'what is tracked no more keeps its content')
    call finish()
  end subroutine

  function shape_of(name) result(extents)
    character(*), intent(in) :: name
    integer :: extents(2)
    type(stillframe_variable) :: variable

    call snapshot%variable(name, variable)
    extents = int(variable%shape)
  end function

  subroutine check_ranks()
    real(real64), target :: s(3, 3, 3, 3, 3, 3, 3)
    real(real64), pointer :: p1(:) => null(), p3(:, :, :) => null(), p5(:, :, :, :, :) => null(), &
      p7(:, :, :, :, :, :, :) => null(), few(:, :) => null()
    integer :: i

    s = reshape([(real(i, real64), i = 1, size(s))], shape(s))
    few => s(::2, 2, 2, 3:1:-1, 1, 1, 1)
    call begin('ranks')
    call region%track('r1', s(1, 1, 3:1:-1, 2, 2, 2, 2))
    call region%track('r3', s(::2, 2, 2, 3:1:-1, 1, 1, ::2))
    call region%track('r5', s(2:3, ::2, 1, 1, 3:2:-1, :, 1:1))
    call region%track('r7', s(::2, 2:3, ::2, :, 3:1:-2, 1:2, 2:2))
    call region%track('few', few)
    call publish()
    call snapshot%view('r1', p1)
    call expect(all(p1 == s(1, 1, 3:1:-1, 2, 2, 2, 2)), 'a section of rank 1 is shown')
    call snapshot%view('r3', p3)
    call expect(all(p3 == s(::2, 2, 2, 3:1:-1, 1, 1, ::2)), 'a section of rank 3 is shown')
    call snapshot%view('r5', p5)
    call expect(all(p5 == s(2:3, ::2, 1, 1, 3:2:-1, :, 1:1)), 'a section of rank 5 is shown')
    call snapshot%view('r7', p7)
    call expect(all(p7 == s(::2, 2:3, ::2, :, 3:1:-2, 1:2, 2:2)), 'a section of rank 7 is shown')
    call expect(shows('few', s(::2, 2, 2, 3:1:-1, 1, 1, 1)), 'a pointer to a section is one')
    call finish()
  end subroutine

  subroutine check_kinds()
    integer(int32), target :: numbers(20)
    complex(real32), target :: z(6, 4)
    logical(c_bool), target :: flags(9)
    character(5), target :: words(7)
    integer(int32), pointer :: seen_numbers(:) => null()
    complex(real32), pointer :: seen_z(:, :) => null()
    logical(c_bool), pointer :: seen_flags(:) => null()
    character(:), pointer :: seen_words(:) => null()
    integer :: i

    numbers = [(i, i = 1, 20)]
    z = reshape([(cmplx(i, -i, real32), i = 1, 24)], [6, 4])
    flags = [(logical(mod(i, 4) == 0, c_bool), i = 1, 9)]
    words = ['one  ', 'two  ', 'three', 'four ', 'five ', 'six  ', 'seven']
    call begin('kinds-of-sections')
    call region%track('numbers', numbers(20:1:-6))
    call region%track('z', z(5:2:-1, 2:4:2))
    call region%track('flags', flags(2::2))
    call region%track('words', words(7:1:-2))
    call publish()
    call snapshot%view('numbers', seen_numbers)
    call expect(all(seen_numbers == numbers(20:1:-6)), 'sections of integers are shown')
    call snapshot%view('z', seen_z)
    call expect(all(seen_z == z(5:2:-1, 2:4:2)), 'sections of complex numbers are shown')
    call snapshot%view('flags', seen_flags)
    call expect(logical(all(seen_flags .eqv. flags(2::2))), 'sections of truth values are shown')
    call snapshot%view('words', seen_words)
    call expect(all(seen_words == words(7:1:-2)), 'sections of texts are shown')
    call finish()
  end subroutine

  subroutine check_given()
    real(real64), allocatable :: u(:, :), v(:, :)
    character(3) :: words(4) = ['abc', 'def', 'ghi', 'jkl']
    character(:), pointer :: seen(:) => null()
    integer :: i

    u = reshape([(real(i, real64), i = 1, 60)], [10, 6])
    v = -u
    call begin('given-sections')
    call region%publish(2, 'u', u(2:9, ::2), 'v', v(10:1:-4, 6:1:-1), 'w', u(3, 4:4))
    call observer%newest(snapshot)
    call expect(shows('u', u(2:9, ::2)) .and. shows('v', v(10:1:-4, 6:1:-1)), 'a version is given sections')
    u(2, 1) = 100
    call region%publish(3, 'u', u(:, 2:3), 'empty', u(1:0, :))
    call observer%newest(snapshot)
    call expect(shows('u', u(:, 2:3)), 'and the next one something without gaps')
    call expect(shows('v', v(10:1:-4, 6:1:-1)), 'what is not given keeps its content')
    call region%publish(4_int64, 'texts', words(4:1:-3))
    call observer%newest(snapshot)
    call snapshot%view('texts', seen)
    call expect(all(seen == words(4:1:-3)), 'sections of texts are given, too')
    call finish()
  end subroutine

  ! What a compiler says of a component is wrong, so that it is refused, or right, so that it is shown.
  subroutine check_records()
    type(cell), target :: cells(8), plane(4, 3)
    complex(real64), target :: z(5)
    real(real64), pointer :: energy(:) => null(), seen(:) => null(), seen2(:, :) => null()
    integer(int32), pointer :: materials(:) => null()
    real(real64) :: copied(8)
    integer :: i, stat(8)
    character(200) :: message

    cells = [(cell(i, 10 * i, 100 * i), i = 1, 8)]
    plane = reshape([(cell(i, 10 * i, 100 * i), i = 1, 12)], [4, 3])
    z = [(cmplx(i, -i, real64), i = 1, 5)]
    energy => cells%energy
    call begin('records')
    call region%track('energy', cells%energy, stat=stat(1), errmsg=message)
    call region%track('some', cells(3:6)%energy, stat=stat(2))
    call region%track('backwards', cells(8:1:-2)%energy, stat=stat(3))
    call region%track('pointer', energy, stat=stat(4))
    call region%track('imaginary', z%im, stat=stat(5))
    call region%track('one', cells(3)%energy, stat=stat(6))
    call region%track('all', plane%energy, stat=stat(7))
    call region%track('column', plane(2, :)%energy, stat=stat(8))
    call expect(stat(1) == stillframe_ok .or. index(message, 'address') > 0, 'what is refused is told another way')
    call region%track('materials', c_loc(cells(1)%material), 'int32', shape(cells), strides=[storage_size(cells) / 8])
    call region%track('plane', c_loc(plane(1, 1)%energy), 'float64', [4, 3], &
      strides=[1, 4] * (storage_size(plane) / 8))
    call region%track('upwards', c_loc(cells(8)%energy), 'float64', [8_int64], &
      strides=[-int(storage_size(cells) / 8, int64)])
    cells(2)%material = -7
    call publish()
    call expect(is_right(stat(1), 'energy', cells%energy), 'a component of records is shown or refused')
    call expect(is_right(stat(2), 'some', cells(3:6)%energy), 'a component of some of them is shown or refused')
    call expect(is_right(stat(3), 'backwards', cells(8:1:-2)%energy), 'one that runs backwards is shown or refused')
    call expect(is_right(stat(4), 'pointer', energy), 'a pointer to one is shown or refused')
    call expect(is_right(stat(5), 'imaginary', z%im), 'a part of complex numbers is shown or refused')
    call expect(is_right(stat(8), 'column', plane(2, :)%energy), 'a component of a section is shown or refused')
    call expect(stat(6) == stillframe_ok, 'a component of one record is an array like others')
    if (stat(7) == stillframe_ok) call expect(shows('all', plane%energy), 'what is shown of two dimensions is right')
    call snapshot%view('materials', materials)
    call expect(all(materials == cells%material), 'a component is shown by its address and strides')
    call snapshot%view('plane', seen2)
    call expect(all(seen2 == plane%energy), 'also one of two dimensions')
    call snapshot%view('upwards', seen)
    call expect(all(seen == cells(8:1:-1)%energy), 'and backwards')
    call region%publish(region%newest_published() + 1, 'copy', cells%energy)
    call observer%newest(snapshot)
    call snapshot%read('copy', copied)
    call expect(all(copied == cells%energy), 'a component is given to publish')
    call finish()
  end subroutine

  function is_right(stat, name, wanted) result(right)
    integer, intent(in) :: stat
    character(*), intent(in) :: name
    real(real64), intent(in) :: wanted(:)
    logical :: right
    real(real64), pointer :: seen(:) => null()

    right = stat == stillframe_not_contiguous
    if (stat /= stillframe_ok) return
    call snapshot%view(name, seen)
    right = size(seen) == size(wanted)
    if (right) right = all(seen == wanted)
  end function

  subroutine check_rounded()
    real(real64), target :: u(100), scalar
    real(real32), target :: v(6, 6)
    complex(real64), target :: z(10)
    real(real32), pointer :: single(:) => null(), number => null()
    complex(real32), pointer :: seen_z(:) => null()
    integer(int16), pointer :: bits(:, :) => null()
    type(stillframe_variable) :: variable
    type(c_ptr) :: address
    integer :: i

    u = [(i / 3.0_real64 - 10, i = 1, 100)]
    scalar = 0.1_real64
    v = reshape([(real(i, real32), i = 1, 36)], [6, 6])
    z = cmplx(u(1:10), -u(11:20), real64)
    call region%create('rounded', fresh=.true.)
    call observer%open('rounded')
    call region%track('single', u, as='float32', units='m')
    call region%track('half', u, as='float16')
    call region%track('brain', u, as='bfloat16')
    call region%track('few', u(100:1:-7), as='float32')
    call region%track('inner', v(2:5:3, 6:1:-5), as='bfloat16')
    call region%track('z', z(2::2), as='complex64')
    call region%track('scalar', scalar, as='float32')
    call region%track('same', u, as='float64')
    call region%track('address', c_loc(u), 'float64', [50], as='float32')
    call publish()
    call snapshot%view('single', single)
    call expect(all(single == real(u, real32)), 'float64 is shown as float32')
    call snapshot%variable('single', variable)
    call expect(variable%dtype == 'float32' .and. variable%units == 'm', 'and has its type and unit')
    call snapshot%view('few', single)
    call expect(all(single == real(u(100:1:-7), real32)), 'so is a section that runs backwards')
    call snapshot%view('z', seen_z)
    call expect(all(seen_z == cmplx(z(2::2), kind=real32)), 'complex128 is shown as complex64')
    call snapshot%view('scalar', number)
    call expect(number == real(scalar, real32), 'a single number is rounded, too')
    call snapshot%view('address', single)
    call expect(all(single == real(u(1:50), real32)), 'and what an address leads to')
    call snapshot%view('inner', address)
    call c_f_pointer(address, bits, [2, 2])
    ! These numbers have few digits, so that bfloat16 is the upper half.
    call expect(all(int(bits) == reshape(ishft(transfer(v(2:5:3, 6:1:-5), [1], 4), -16), [2, 2])), &
      'float32 is shown as bfloat16')
    call snapshot%variable('brain', variable)
    call expect(variable%dtype == 'bfloat16' .and. variable%item_bytes == 2, 'bfloat16 has its name')
    call finish()
  end subroutine

  subroutine check_refused()
    real(real64), target :: u(6, 4)
    integer(int32), target :: numbers(6)
    real(real64), pointer :: managed(:, :) => null()
    integer :: stat
    character(200) :: message

    u = 1
    numbers = 1
    call begin('refused')
    call region%array('managed', managed, [6, 4])
    call region%track('managed', u(::2, :), stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_kind .and. index(message, 'managed') > 0, 'a managed variable is shown whole')
    call region%track('u', u, as='float33', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, "'float33'") > 0, 'a type that is none is refused')
    call region%track('u', u, as='int32', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'bfloat16') > 0, 'one that nothing is rounded to, too')
    call region%track('numbers', numbers(::2), as='float32', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'int32') > 0, 'integers are not rounded')
    call region%track('u', u(::2, :), as='float32')
    call region%track('u', u(::2, :), stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_dtype .and. index(message, 'float32') > 0, 'a variable keeps its type')
    call region%publish(2, 'u', u, stat=stat)
    call expect(stat == stillframe_wrong_dtype, 'also where an array is given to publish')
    call region%track('v', c_loc(u), 'float64', [6, 4], strides=[8], stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_shape .and. index(message, 'stride') > 0, 'strides are one for each dimension')
    call publish()
    call snapshot%read('u', numbers, stat=stat)
    call expect(stat == stillframe_wrong_dtype, 'after errors it publishes what was tracked')
    call region%track('away', c_loc(u), 'float64', [2_int64, 2_int64], strides=[8_int64, ishft(huge(1_int64), -1)])
    call region%publish(3, stat=stat, errmsg=message)
    call expect(stat == stillframe_no_memory_there .and. index(message, 'away') > 0, 'a section that leaves the memory is told')
    call finish()
  end subroutine
end program
