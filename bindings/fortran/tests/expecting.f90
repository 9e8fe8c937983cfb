! What the tests say when something is not as expected.
module expecting
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private
  public :: expect, conclude
  integer :: failures = 0, held = 0

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
    print '(i0, a)', held, ' expectations held'
    if (failures > 0) error stop 1
  end subroutine
end module
