! What the tests say when something is not as expected.
module expecting
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private
  public :: expect, conclude
  integer :: failures = 0, held = 0

  interface
    function usleep(microseconds) bind(c, name='usleep') result(status)
      import :: c_int
      integer(c_int), value :: microseconds
      integer(c_int) :: status
    end function
  end interface

contains

  subroutine expect(holds, sentence)
    logical, intent(in) :: holds
    character(*), intent(in) :: sentence

    if (holds) then
      held = held + 1
    else
      failures = failures + 1
      write (error_unit, '(2a)') 'does not hold: ', sentence
    end if
  end subroutine

  subroutine conclude()
    call expect(threads_ended(), 'the threads of the library have ended')
    print '(i0, a)', held, ' expectations held'
    if (failures > 0) error stop 1
  end subroutine

  ! Threads that copy in the background end by themselves, soon after what they worked for is closed. What valgrind finds of
  ! one that has not ended looks like a leak.
  function threads_ended() result(ended)
    logical :: ended
    integer :: trial
    integer(c_int) :: status

    do trial = 1, 600
      ended = threads() == 1
      if (ended) return
      status = usleep(100000)
    end do
  end function

  ! Number of threads that the kernel counts in this process.
  function threads() result(count)
    integer :: count
    integer :: unit, stat
    character(100) :: line

    count = 0
    open (newunit=unit, file='/proc/self/status', action='read')
    do
      read (unit, '(a)', iostat=stat) line
      if (stat /= 0) exit
      if (line(:8) == 'Threads:') read (line(9:), *) count
    end do
    close (unit)
  end function
end module
