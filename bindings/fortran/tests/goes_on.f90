! A publish that fails ends no program, and is told once until there is a version again.
program goes_on
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use stillframe
  use expecting
  implicit none
  type(stillframe_region) :: region, never_made, sparing
  type(stillframe_observer) :: observer
  type(stillframe_snapshot) :: held(20)
  type(stillframe_published) :: published
  real(real64), allocatable, target :: u(:), followed(:)
  character(500) :: message
  integer :: stat, i
  logical :: found

  allocate (u(100000), source=1.0_real64)
  allocate (followed(10), source=1.0_real64)
  ! As where the file system is full: there is no room for u, and for a part of it there is.
  call region%create('days', rank=0, ranks=1, keep=1, rule=stillframe_fail, bound_bytes=2_int64**19, fresh=.true.)
  call region%publish(1, 'u', u)
  call region%publish(2, 'u', u)
  call region%publish(3, 'u', u, published=published)
  call expect(region%newest_published() == -1, 'nothing is published by a publish that fails')
  call expect(published%version < 1, 'nothing is told of it')
  call region%publish(4, 'u', u(1:1000))
  call expect(region%newest_published() == 4, 'the next one that can be is published')
  call region%publish(4, 'u', u(1:1000))
  call region%publish(3, 'u', u(1:1000))
  call region%publish(5, 'u', u(1:1000), stat=stat, errmsg=message)
  call expect(stat == stillframe_ok, 'stat tells what it told: ' // trim(message))
  call region%publish(5, 'u', u, stat=stat, errmsg=message)
  call expect(stat == stillframe_not_increasing .and. index(message, '5') > 0, 'a failure with stat is told by stat: ' // message)
  ! In the background the same.
  call region%track('followed', followed)
  call region%publish_start(5)
  call region%publish_finish(found=found)
  call expect(.not. found, 'what did not start is not finished')
  call region%publish_start(6)
  call region%publish_finish()
  call expect(region%newest_published() == 6, 'what started is published')
  call region%untrack('followed')
  ! What another call published counts, too: the one that was started is finished by the next.
  call region%publish(6, 'u', u(1:1000))
  call region%publish(5, 'u', u(1:1000))
  call region%track('followed', followed)
  call region%publish_start(7)
  call region%remove('followed')
  call expect(region%newest_published() == 7, 'what changes variables finishes what was started')
  call region%publish(7, 'u', u(1:1000))
  ! Another reason is told, too, and each once.
  call region%publish(8, 'u', u)
  call region%publish(7, 'u', u(1:1000))
  call region%publish(8, 'u', u)
  ! A version that is left out is none that is published.
  call sparing%create('sparing', keep=1, rule=stillframe_skip, bound_bytes=2_int64**19, fresh=.true.)
  call sparing%publish(1, 'u', u(1:20000))
  call sparing%publish(1, 'u', u(1:20000))
  call observer%open('sparing')
  ! Each version is held, so that there is no room after a few.
  do i = 1, size(held)
    call observer%newest(held(i))
    u = i
    call sparing%publish(i + 1, 'u', u(1:20000), published=published)
    if (published%skipped) exit
  end do
  call expect(i < size(held), 'where there is no room a version is left out')
  call sparing%publish(1, 'u', u(1:20000))
  call sparing%publish(30, 'u', u(1:20000), published=published)
  call expect(published%skipped, 'and the next one')
  call sparing%publish(1, 'u', u(1:20000))
  do i = 1, i
    call held(i)%release()
  end do
  call observer%close()
  call sparing%unlink()
  ! A region that could not be made is none for the rest of the run.
  call never_made%create('no/such/../name', stat=stat)
  call expect(stat /= stillframe_ok, 'this name cannot be')
  call never_made%publish(1, 'u', u)
  call never_made%publish(2, 'u', u)
  ! Nobody waits for what cannot be.
  found = .false.
  do i = 1, 3
    found = never_made%publish_test()
    if (found) exit
  end do
  call expect(found, 'a test that fails has nothing left to wait for')
  call expect(.not. never_made%publish_test(stat=stat) .and. stat /= stillframe_ok, 'with stat it is told by stat')
  call region%unlink()
  print '(a)', 'it went on'
end program
