! The publisher in Fortran. See ../run.py for what it has to do.
program publisher
  use, intrinsic :: iso_c_binding, only: c_int, c_int8_t, c_loc, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real64
  use stillframe
  implicit none

  ! Memory is written and copied by libc, as by the programs in C and Rust: what compilers make of loops is not compared.
  interface
    function memset(target, value, bytes) result(same) bind(c)
      import c_int, c_int8_t, c_ptr, c_size_t
      integer(c_int8_t), intent(out) :: target(*)
      integer(c_int), value :: value
      integer(c_size_t), value :: bytes
      type(c_ptr) :: same
    end function

    function memcpy(target, source, bytes) result(same) bind(c)
      import c_int8_t, c_ptr, c_size_t
      integer(c_int8_t), intent(out) :: target(*)
      integer(c_int8_t), intent(in) :: source(*)
      integer(c_size_t), value :: bytes
      type(c_ptr) :: same
    end function
  end interface

  integer, parameter :: page_bytes = 4096
  type(stillframe_region) :: region
  type(stillframe_published) :: published
  character(:), allocatable :: bench, kind, pattern
  integer(int64) :: bytes, begin, written, done, publish_ns, plain_ns, memcpy_ns, version, count, step, i
  integer :: measured, ended
  logical :: given
  real(real64) :: share
  integer(int8), pointer, contiguous :: memory(:), source(:), target(:)
  integer(int8), pointer :: managed(:)
  integer(int32), allocatable :: pages(:)

  bench = argument(3)
  kind = argument(4)
  pattern = argument(7)
  given = kind == 'given'
  bytes = int(number(5), int64)
  share = number(8)
  call region%create(argument(2), dir=argument(1), keep=1, threads=int(number(6)))
  if (kind == 'managed') then
    call region%array('data', managed, [bytes])
    memory => managed
  else
    call allocate_pages(memory)
    if (kind == 'tracked') call region%track('data', memory)
  end if
  call allocate_pages(source)
  call allocate_pages(target)
  memory = 1
  version = 0
  do
    if (bench == 'rate') then
      read (*, *, iostat=ended) count
      if (ended /= 0) exit
      begin = clock_ns()
      do i = 1, count
        version = version + 1
        call fill(memory, version, bytes)
        call publish(version)
      end do
      publish_ns = clock_ns() - begin
      memcpy_ns = 0
      do i = 1, count
        memcpy_ns = memcpy_ns + copy_ns()
      end do
      print '(2(i0, 1x))', publish_ns, memcpy_ns
    else
      read (*, *, iostat=ended) step, measured
      if (ended /= 0) exit
      pages = chosen_pages(bytes / page_bytes, step)
      begin = clock_ns()
      call write_pages(memory, step)
      written = clock_ns()
      call publish(step + 1, published)
      done = clock_ns()
      plain_ns = 0
      memcpy_ns = 0
      if (measured /= 0) then
        plain_ns = clock_ns()
        call write_pages(source, step)
        plain_ns = clock_ns() - plain_ns
        memcpy_ns = copy_ns()
      end if
      print '(7(i0, 1x))', written - begin, done - written, plain_ns, memcpy_ns, size(pages), published%dirty_pages, &
        published%copied_pages
    end if
    flush (6)
  end do
  call region%unlink()

contains

  function argument(index) result(text)
    integer, intent(in) :: index
    character(:), allocatable :: text
    integer :: length

    call get_command_argument(index, length=length)
    allocate (character(length) :: text)
    call get_command_argument(index, text)
  end function

  function number(index)
    integer, intent(in) :: index
    real(real64) :: number
    character(:), allocatable :: text

    text = argument(index)
    read (text, *) number
  end function

  function clock_ns() result(count)
    integer(int64) :: count, rate

    call system_clock(count, rate)
    if (rate /= 1000000000_int64) error stop 'publisher: the clock does not count nanoseconds'
  end function

  ! Page-aligned, populated memory from the ordinary allocator.
  subroutine allocate_pages(memory)
    integer(int8), pointer, contiguous, intent(out) :: memory(:)
    integer(int8), pointer, contiguous :: buffer(:)
    integer(int64) :: beyond

    allocate (buffer(bytes + page_bytes))
    buffer = 1
    beyond = modulo(transfer(c_loc(buffer), 0_int64), int(page_bytes, int64))
    beyond = modulo(page_bytes - beyond, int(page_bytes, int64))
    memory => buffer(1 + beyond:bytes + beyond)
  end subroutine

  ! The finishing steps of splitmix64. The products go round as with -fwrapv.
  pure function hash(input) result(number)
    integer(int64), intent(in) :: input
    integer(int64) :: number
    integer(int64), parameter :: golden = ior(shiftl(int(z'9e3779b9', int64), 32), int(z'7f4a7c15', int64)), &
      first = ior(shiftl(int(z'bf58476d', int64), 32), int(z'1ce4e5b9', int64)), &
      second = ior(shiftl(int(z'94d049bb', int64), 32), int(z'133111eb', int64))

    number = input + golden
    number = ieor(number, shiftr(number, 30)) * first
    number = ieor(number, shiftr(number, 27)) * second
    number = ieor(number, shiftr(number, 31))
  end function

  function chosen_pages(total, step) result(pages)
    integer(int64), intent(in) :: total, step
    integer(int32), allocatable :: pages(:)
    integer(int64) :: seed, threshold, page
    logical :: chosen(0:total - 1)

    seed = merge(step + 1, 0_int64, pattern == 'random')
    threshold = int(share * 4294967296.0_real64, int64)
    do page = 0, total - 1
      chosen(page) = shiftr(hash(ior(shiftl(seed, 32), page)), 32) < threshold
    end do
    pages = pack([(int(page, int32), page = 0, total - 1)], chosen)
  end function

  subroutine fill(memory, number, bytes)
    integer(int8), intent(out) :: memory(*)
    integer(int64), intent(in) :: number, bytes
    type(c_ptr) :: same

    same = memset(memory, int(iand(number, 255_int64), c_int), bytes)
  end subroutine

  subroutine write_pages(memory, number)
    integer(int8), intent(inout) :: memory(page_bytes, 0:*)
    integer(int64), intent(in) :: number
    integer :: i

    do i = 1, size(pages)
      call fill(memory(:, pages(i)), number, int(page_bytes, int64))
    end do
  end subroutine

  subroutine publish(version, published)
    integer(int64), intent(in) :: version
    type(stillframe_published), intent(out), optional :: published

    if (given) then
      call region%publish(version, 'data', memory, published=published)
    else
      call region%publish(version, published)
    end if
  end subroutine

  function copy_ns() result(ns)
    integer(int64) :: ns
    type(c_ptr) :: same

    ns = clock_ns()
    same = memcpy(target, source, bytes)
    ns = clock_ns() - ns
  end function
end program
