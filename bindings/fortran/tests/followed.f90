! A variable that is followed and one that is given once: what each version shows. The same scene is in the tests of the other
! languages.
program followed
  use, intrinsic :: iso_fortran_env, only: real64
  use expecting
  use stillframe
  implicit none
  type(stillframe_region) :: region
  type(stillframe_observer) :: observer
  integer :: version = 0
  call check_given_beside_followed()
  call check_given_first()
  call check_empty()
  call conclude()

contains

  subroutine check_given_beside_followed()
    real(real64), target :: a(3000), b(5000)
    integer :: stat

    call begin('given-beside-followed')
    a = 1
    call region%track('u', a)
    call publish()
    call expect(shows(1, 3000), 'a version shows what is followed')
    b = 20
    a = 2
    call region%publish(next(), 'u', b)
    call expect(shows(20, 5000), 'one that is given another array shows that')
    b = 21
    a = 3
    call publish()
    call expect(shows(3, 3000), 'and the next one again what is followed')
    a = 4
    call region%publish(version, 'u', b, stat=stat)
    call expect(stat == stillframe_not_increasing .and. shows(3, 3000), 'a publish that fails shows nothing')
    call region%publish(version + 1, 'u', b, 'u', b, stat=stat)
    call expect(stat == stillframe_wrong_shape .and. shows(3, 3000), 'nor does one that is given two arrays of a name')
    call publish()
    call expect(shows(4, 3000), 'and gives nothing to the next one')
    a = 5
    call region%publish(next(), 'u', b(1:0))
    call expect(shows(0, 0), 'an empty array is one too')
    call publish()
    call expect(shows(5, 3000), 'which is given once')
    call region%untrack('u')
    a = 6
    call publish()
    call expect(shows(5, 3000), 'what is followed no more keeps its content')
    b = 22
    call region%publish(next(), 'u', b)
    call expect(shows(22, 5000), 'until an array is given')
    b = 23
    call publish()
    call expect(shows(22, 5000), 'and then that of the array')
    call finish()
  end subroutine

  subroutine check_given_first()
    real(real64), target :: a(3000), b(5000)

    call begin('given-first')
    b = 20
    call region%publish(next(), 'u', b)
    call expect(shows(20, 5000), 'an array that is given is a variable')
    b = 21
    call publish()
    call expect(shows(20, 5000), 'which keeps its content')
    a = 1
    call region%track('u', a)
    call publish()
    call expect(shows(1, 3000), 'until it is followed')
    a = 2
    call publish()
    call expect(shows(2, 3000), 'in each version from then on')
    call finish()
  end subroutine

  ! An array without elements takes the place of the former one, wherever it is.
  subroutine check_empty()
    real(real64), target :: a(3000)
    real(real64), allocatable, target :: none(:)

    call begin('given-empty')
    a = 1
    call region%track('u', a)
    call publish()
    call region%track('u', a(1:0))
    call publish()
    call expect(shows(0, 0), 'a part without elements is followed')
    call region%track('u', a)
    call publish()
    call expect(shows(1, 3000), 'and the array again')
    allocate(none(0))
    call region%track('u', none)
    call publish()
    call expect(shows(0, 0), 'an array of extent 0 is followed')
    call region%publish(next(), 'u', a)
    call region%publish(next(), 'u', none)
    call expect(shows(0, 0), 'and given')
    call finish()
  end subroutine

  subroutine begin(name)
    character(*), intent(in) :: name

    call region%create(name)
    call observer%open(name)
    version = 0
  end subroutine

  subroutine finish()
    call observer%close()
    call region%unlink()
  end subroutine

  function next() result(number)
    integer :: number

    version = version + 1
    number = version
  end function

  subroutine publish()
    call region%publish(next())
  end subroutine

  ! Whether the newest version's u has this many elements, all of this value.
  function shows(value, count)
    integer, intent(in) :: value, count
    logical :: shows
    type(stillframe_snapshot) :: snapshot
    real(real64), pointer :: u(:) => null()

    call observer%newest(snapshot)
    call snapshot%view('u', u)
    shows = size(u) == count .and. all(nint(u) == value)
    call snapshot%release()
  end function
end program
