! The producer in Fortran: produce DIR REGION CASES [ARENA]. See ../run.py for what it has to do.
program produce
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, iostat_end, real32, real64
  use cases
  use sections
  use stillframe
  implicit none

  type :: variable
    character(:), allocatable :: name, kind, dtype
    logical :: row_major = .false.
    integer(int64), allocatable :: shape(:)
    integer(int64) :: bytes = 0
    type(c_ptr) :: address = c_null_ptr
  end type

  type(stillframe_arena) :: arena
  type(stillframe_region) :: region
  type(variable), allocatable :: variables(:)
  character(1000) :: line
  integer :: unit, ended, step, i

  if (command_argument_count() == 4) then
    call arena%create(argument(4), 2_int64**35, dir=argument(1))
    call region%create(argument(2), arena=arena, keep=2)
  else
    call region%create(argument(2), dir=argument(1), keep=2)
  end if
  allocate (variables(0))
  open (newunit=unit, file=argument(3), action='read', status='old')
  do
    read (unit, '(a)', iostat=ended) line
    if (ended /= 0) exit
    variables = [variables, declared(trim(line), size(variables))]
  end do
  close (unit)
  call track_sections(region)
  do step = 0, 1
    call fill_sections(step)
    do i = 1, size(variables)
      call write(variables(i), int(i - 1, int64), step)
    end do
    call region%set('flag', .true.)
    call region%set('integer', -2_int64**40)
    call region%set('real', 0.1_real64)
    call region%set('text', 'Grüße')
    call region%publish(merge(5, 8, step == 0), 'once', w(3:10:2, :))
  end do
  print '(a)', 'ready'
  flush (6)
  do
    read (*, '(a)', iostat=ended) line
    if (ended /= 0) exit
  end do
  call region%unlink()

contains

  ! The variable of a line, declared.
  function declared(text, number) result(v)
    character(*), intent(in) :: text
    integer, intent(in) :: number
    type(variable) :: v
    type(stillframe_attribute) :: about(1)
    type(stillframe_loan) :: loan
    character(:), allocatable :: rest
    integer(int8), pointer, contiguous :: buffer(:)
    integer :: offset

    rest = text
    v%name = next_word(rest)
    v%kind = next_word(rest)
    v%row_major = next_word(rest) == 'C'
    v%dtype = next_word(rest)
    v%bytes = number_of(next_word(rest))
    allocate (v%shape(0))
    do while (rest /= '')
      v%shape = [v%shape, number_of(next_word(rest))]
    end do
    v%bytes = v%bytes * product(v%shape)
    about = stillframe_attribute('case', number)
    select case (v%kind)
    case ('tracked')
      offset = 16 * modulo(number, 7) + 16
      allocate (buffer(v%bytes + offset + 1))
      v%address = c_loc(buffer(offset + 1))
      call track(v, about)
    case ('managed')
      call furnish(v, about)
    case default
      ! The first loan declares the variable, and is not used for anything else.
      call region%loan(v%name, v%address, v%dtype, v%shape, loan, v%row_major, 'm/s', about)
      call loan%discard()
    end select
  end function

  ! By a pointer of the array's own type and rank where Fortran has that type and order, for one rank or, of real64, all;
  ! by the address otherwise.
  subroutine track(v, about)
    type(variable), intent(in) :: v
    type(stillframe_attribute), intent(in) :: about(:)
    integer(int8), pointer :: i8(:)
    integer(int16), pointer :: i16(:)
    integer(int32), pointer :: i32(:)
    integer(int64), pointer :: i64(:)
    real(real32), pointer :: r32(:)
    complex(real32), pointer :: z32(:)
    complex(real64), pointer :: z64(:)
    logical(c_bool), pointer :: l(:)
    real(real64), pointer :: r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :), &
      r6(:, :, :, :, :, :), r7(:, :, :, :, :, :, :)

    select case (typed(v))
    case ('int8 1')
      call c_f_pointer(v%address, i8, v%shape)
      call region%track(v%name, i8, 'm/s', about)
    case ('int16 1')
      call c_f_pointer(v%address, i16, v%shape)
      call region%track(v%name, i16, 'm/s', about)
    case ('int32 1')
      call c_f_pointer(v%address, i32, v%shape)
      call region%track(v%name, i32, 'm/s', about)
    case ('int64 1')
      call c_f_pointer(v%address, i64, v%shape)
      call region%track(v%name, i64, 'm/s', about)
    case ('float32 1')
      call c_f_pointer(v%address, r32, v%shape)
      call region%track(v%name, r32, 'm/s', about)
    case ('complex64 1')
      call c_f_pointer(v%address, z32, v%shape)
      call region%track(v%name, z32, 'm/s', about)
    case ('complex128 1')
      call c_f_pointer(v%address, z64, v%shape)
      call region%track(v%name, z64, 'm/s', about)
    case ('bool 1')
      call c_f_pointer(v%address, l, v%shape)
      call region%track(v%name, l, 'm/s', about)
    case ('float64 1')
      call c_f_pointer(v%address, r1, v%shape)
      call region%track(v%name, r1, 'm/s', about)
    case ('float64 2')
      call c_f_pointer(v%address, r2, v%shape)
      call region%track(v%name, r2, 'm/s', about)
    case ('float64 3')
      call c_f_pointer(v%address, r3, v%shape)
      call region%track(v%name, r3, 'm/s', about)
    case ('float64 4')
      call c_f_pointer(v%address, r4, v%shape)
      call region%track(v%name, r4, 'm/s', about)
    case ('float64 5')
      call c_f_pointer(v%address, r5, v%shape)
      call region%track(v%name, r5, 'm/s', about)
    case ('float64 6')
      call c_f_pointer(v%address, r6, v%shape)
      call region%track(v%name, r6, 'm/s', about)
    case ('float64 7')
      call c_f_pointer(v%address, r7, v%shape)
      call region%track(v%name, r7, 'm/s', about)
    case default
      call region%track(v%name, v%address, v%dtype, v%shape, v%row_major, 'm/s', about)
    end select
  end subroutine

  subroutine furnish(v, about)
    type(variable), intent(inout) :: v
    type(stillframe_attribute), intent(in) :: about(:)
    integer(int8), pointer :: i8(:)
    integer(int16), pointer :: i16(:)
    integer(int32), pointer :: i32(:)
    integer(int64), pointer :: i64(:)
    real(real32), pointer :: r32(:)
    complex(real32), pointer :: z32(:)
    complex(real64), pointer :: z64(:)
    logical(c_bool), pointer :: l(:)
    real(real64), pointer :: r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :), &
      r6(:, :, :, :, :, :), r7(:, :, :, :, :, :, :)

    select case (typed(v))
    case ('int8 1')
      call region%array(v%name, i8, v%shape, units='m/s', attributes=about)
      v%address = c_loc(i8)
    case ('int16 1')
      call region%array(v%name, i16, v%shape, units='m/s', attributes=about)
      v%address = c_loc(i16)
    case ('int32 1')
      call region%array(v%name, i32, v%shape, units='m/s', attributes=about)
      v%address = c_loc(i32)
    case ('int64 1')
      call region%array(v%name, i64, v%shape, units='m/s', attributes=about)
      v%address = c_loc(i64)
    case ('float32 1')
      call region%array(v%name, r32, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r32)
    case ('complex64 1')
      call region%array(v%name, z32, v%shape, units='m/s', attributes=about)
      v%address = c_loc(z32)
    case ('complex128 1')
      call region%array(v%name, z64, v%shape, units='m/s', attributes=about)
      v%address = c_loc(z64)
    case ('bool 1')
      call region%array(v%name, l, v%shape, units='m/s', attributes=about)
      v%address = c_loc(l)
    case ('float64 1')
      call region%array(v%name, r1, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r1)
    case ('float64 2')
      call region%array(v%name, r2, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r2)
    case ('float64 3')
      call region%array(v%name, r3, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r3)
    case ('float64 4')
      call region%array(v%name, r4, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r4)
    case ('float64 5')
      call region%array(v%name, r5, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r5)
    case ('float64 6')
      call region%array(v%name, r6, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r6)
    case ('float64 7')
      call region%array(v%name, r7, v%shape, units='m/s', attributes=about)
      v%address = c_loc(r7)
    case default
      call region%array(v%name, v%address, v%dtype, v%shape, v%row_major, 'm/s', about)
    end select
  end subroutine

  ! The dtype and the rank of a column-major array with elements.
  function typed(v) result(key)
    type(variable), intent(in) :: v
    character(:), allocatable :: key

    key = ''
    if (.not. v%row_major .and. v%bytes > 0) key = v%dtype // words([size(v%shape, kind=int64)])
  end function

  subroutine write(v, number, step)
    type(variable), intent(in) :: v
    integer(int64), intent(in) :: number
    integer, intent(in) :: step
    integer(int8), pointer :: memory(:)
    type(stillframe_loan) :: loan
    type(c_ptr) :: address

    address = v%address
    if (v%kind == 'loaned') call region%loan(v%name, address, v%dtype, v%shape, loan, v%row_major)
    call c_f_pointer(address, memory, [v%bytes])
    call fill(memory, number, v%dtype == 'bool', step)
    if (v%kind == 'loaned') call loan%submit()
  end subroutine
end program
