! What the producer and the observer in Fortran have in common. See ../run.py.
module cases
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64
  implicit none

contains

  function argument(index) result(text)
    integer, intent(in) :: index
    character(:), allocatable :: text
    integer :: length

    call get_command_argument(index, length=length)
    allocate (character(length) :: text)
    call get_command_argument(index, text)
  end function

  ! Takes the first word off a line. List-directed input would take commas and quotes for its own.
  function next_word(line) result(word)
    character(:), allocatable, intent(inout) :: line
    character(:), allocatable :: word
    integer :: length

    length = index(line // ' ', ' ') - 1
    word = line(1:length)
    line = trim(line(min(length + 2, len(line) + 1):))
  end function

  function number_of(word) result(number)
    character(*), intent(in) :: word
    integer(int64) :: number

    read (word, *) number
  end function

  ! Numbers with a blank before each.
  function words(numbers) result(text)
    integer(int64), intent(in) :: numbers(:)
    character(:), allocatable :: text
    character(20) :: buffer
    integer :: i

    text = ''
    do i = 1, size(numbers)
      write (buffer, '(i0)') numbers(i)
      text = text // ' ' // trim(buffer)
    end do
  end function

  function hexadecimal(number, digits) result(text)
    integer(int64), intent(in) :: number
    integer, intent(in) :: digits
    character(digits) :: text
    integer :: i, digit

    do i = 1, digits
      digit = int(ibits(number, 4 * (digits - i), 4))
      text(i:i) = '0123456789abcdef'(digit + 1:digit + 1)
    end do
  end function

  subroutine fill(memory, number, is_bool, step)
    integer(int8), intent(out) :: memory(:)
    integer(int64), intent(in) :: number
    logical, intent(in) :: is_bool
    integer, intent(in) :: step
    integer(int64) :: i, value

    do i = 0, size(memory, kind=int64) - 1
      value = 31 * i + i / 256 + 17 * number + step * modulo(number, 2_int64)
      value = iand(value, merge(1_int64, 255_int64, is_bool))
      memory(i + 1) = int(value - merge(256, 0, value > 127), int8)
    end do
  end subroutine

  function crc_of(memory) result(crc)
    integer(int8), intent(in) :: memory(:)
    integer(int64) :: i
    integer(int32) :: crc
    integer :: bit
    integer(int32), parameter :: polynomial = -306674912 ! edb88320 in hexadecimal

    crc = -1
    do i = 1, size(memory, kind=int64)
      crc = ieor(crc, iand(int(memory(i), int32), 255))
      do bit = 1, 8
        if (btest(crc, 0)) then
          crc = ieor(shiftr(crc, 1), polynomial)
        else
          crc = shiftr(crc, 1)
        end if
      end do
    end do
    crc = not(crc)
  end function
end module
