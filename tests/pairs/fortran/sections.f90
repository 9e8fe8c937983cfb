! Sections of arrays, and numbers rounded to fewer bits. See ../run.py for which.
module sections
  use, intrinsic :: iso_fortran_env, only: real64
  use stillframe
  implicit none
  private
  public :: track_sections, fill_sections
  real(real64), target, public :: w(12, 9)
  complex(real64), target :: z(10)

contains

  subroutine track_sections(region)
    type(stillframe_region), intent(inout) :: region

    call region%track('interior', w(2:11, ::2))
    call region%track('backwards', w(12:1:-3, 9:1:-1))
    call region%track('single', w, as='float32')
    call region%track('half', w(2:11, ::2), as='float16')
    call region%track('brain', w, as='bfloat16')
    call region%track('pairs', z(2::2), as='complex64')
  end subroutine

  subroutine fill_sections(step)
    integer, intent(in) :: step
    integer :: n

    w = reshape([((modulo(37 * n, 1000) - 499.5_real64) / 7 + step, n = 0, size(w) - 1)], shape(w))
    z = transfer(w, z, size(z))
  end subroutine
end module
