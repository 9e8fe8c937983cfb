! The observer in Fortran: observe DIR REGION VERSION. See ../run.py for what it has to print.
program observe
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use cases
  use stillframe
  implicit none
  type(stillframe_observer) :: observer
  type(stillframe_snapshot) :: snapshot
  type(stillframe_variable), allocatable :: variables(:)
  type(stillframe_attribute), allocatable :: attributes(:)
  integer(int8), pointer :: memory(:)
  integer(int64) :: bytes
  type(c_ptr) :: address
  integer :: i

  call observer%open(argument(2), dir=argument(1), wait_ms=30000)
  call observer%version(number_of(argument(3)), snapshot)
  print '(2a)', 'version', words([snapshot%version()])
  call snapshot%attributes(attributes)
  call print_attributes(attributes)
  call snapshot%variables(variables)
  do i = 1, size(variables)
    associate (variable => variables(i))
      call snapshot%view(variable%name, address, bytes)
      call check_view(variable, address)
      call c_f_pointer(address, memory, [bytes])
      print '(20a)', 'variable ', variable%name, ' ', variable%dtype, &
        merge(' F ', ' C ', variable%order == stillframe_column_major), variable%units, words([variable%bytes]), ' shape', &
        words(variable%shape), ' strides', words(variable%strides), ' crc ', hexadecimal(int(crc_of(memory), int64), 8)
      call snapshot%attributes(attributes, variable%name)
      call print_attributes(attributes)
    end associate
  end do
  call snapshot%release()
  call observer%close()

contains

  subroutine print_attributes(attributes)
    type(stillframe_attribute), intent(in) :: attributes(:)
    integer :: i

    do i = 1, size(attributes)
      associate (attribute => attributes(i))
        select case (attribute%type)
        case (stillframe_bool)
          print '(4a)', 'attribute ', attribute%name, ' bool', words([attribute%integer])
        case (stillframe_int)
          print '(4a)', 'attribute ', attribute%name, ' int', words([attribute%integer])
        case (stillframe_float)
          print '(4a)', 'attribute ', attribute%name, ' float ', hexadecimal(transfer(attribute%real, 0_int64), 16)
        case (stillframe_text)
          print '(4a)', 'attribute ', attribute%name, ' text ', attribute%text
        end select
      end associate
    end do
  end subroutine

  ! That a pointer of the variable's own type and rank, of one rank or, of real64, of all, sees the variable. The dimensions of
  ! a row-major one are reversed in Fortran.
  subroutine check_view(variable, address)
    type(stillframe_variable), intent(in) :: variable
    type(c_ptr), intent(in) :: address
    integer(int64), allocatable :: extents(:)
    logical :: row_major, same
    character(:), pointer, save :: t(:) => null()
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

    if (variable%bytes == 0) return
    ! Of one dimension there is no order.
    row_major = variable%order == stillframe_row_major .and. size(variable%shape) > 1
    extents = variable%shape
    if (row_major) extents = extents(size(extents):1:-1)
    select case (variable%dtype // words([size(extents, kind=int64)]))
    case ('int8 1')
      call snapshot%view(variable%name, i8, row_major)
      same = c_associated(c_loc(i8), address) .and. all(shape(i8) == extents)
    case ('int16 1')
      call snapshot%view(variable%name, i16, row_major)
      same = c_associated(c_loc(i16), address) .and. all(shape(i16) == extents)
    case ('int32 1')
      call snapshot%view(variable%name, i32, row_major)
      same = c_associated(c_loc(i32), address) .and. all(shape(i32) == extents)
    case ('int64 1')
      call snapshot%view(variable%name, i64, row_major)
      same = c_associated(c_loc(i64), address) .and. all(shape(i64) == extents)
    case ('float32 1')
      call snapshot%view(variable%name, r32, row_major)
      same = c_associated(c_loc(r32), address) .and. all(shape(r32) == extents)
    case ('complex64 1')
      call snapshot%view(variable%name, z32, row_major)
      same = c_associated(c_loc(z32), address) .and. all(shape(z32) == extents)
    case ('complex128 1')
      call snapshot%view(variable%name, z64, row_major)
      same = c_associated(c_loc(z64), address) .and. all(shape(z64) == extents)
    case ('bool 1')
      call snapshot%view(variable%name, l, row_major)
      same = c_associated(c_loc(l), address) .and. all(shape(l) == extents)
    case ('float64 1')
      call snapshot%view(variable%name, r1, row_major)
      same = c_associated(c_loc(r1), address) .and. all(shape(r1) == extents)
    case ('float64 2')
      call snapshot%view(variable%name, r2, row_major)
      same = c_associated(c_loc(r2), address) .and. all(shape(r2) == extents)
    case ('float64 3')
      call snapshot%view(variable%name, r3, row_major)
      same = c_associated(c_loc(r3), address) .and. all(shape(r3) == extents)
    case ('float64 4')
      call snapshot%view(variable%name, r4, row_major)
      same = c_associated(c_loc(r4), address) .and. all(shape(r4) == extents)
    case ('float64 5')
      call snapshot%view(variable%name, r5, row_major)
      same = c_associated(c_loc(r5), address) .and. all(shape(r5) == extents)
    case ('float64 6')
      call snapshot%view(variable%name, r6, row_major)
      same = c_associated(c_loc(r6), address) .and. all(shape(r6) == extents)
    case ('float64 7')
      call snapshot%view(variable%name, r7, row_major)
      same = c_associated(c_loc(r7), address) .and. all(shape(r7) == extents)
    case ('bytes5 1')
      call snapshot%view(variable%name, t, row_major)
      same = c_associated(c_loc(t), address) .and. all(shape(t) == extents) .and. len(t) == 5
    case default
      same = .true.
    end select
    if (.not. same) error stop 'observe: a view is another array than the variable'
  end subroutine
end program
