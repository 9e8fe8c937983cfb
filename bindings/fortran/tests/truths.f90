! Truth values, also with the bits that other compilers give them, and those of other languages.
program truths
  use, intrinsic :: iso_c_binding, only: c_bool
  use, intrinsic :: iso_fortran_env, only: int32
  use expecting
  use stillframe
  implicit none
  type(stillframe_region) :: region
  type(stillframe_observer) :: observer
  type(stillframe_snapshot) :: snapshot
  logical(c_bool) :: flags(3) = [.true., .false., .true.]
  logical(c_bool) :: copied(3) = .false.
  logical(c_bool), pointer :: shown(:) => null()
  ! In variables, because of constants the compiler knows better.
  integer(int32) :: all_bits = -1, high_bit = 256, no_bit = 0
  logical :: value
  integer :: stat

  call region%create('truths')
  call region%set('all', transfer(all_bits, .true.))
  call region%set('high', transfer(high_bit, .true.))
  call region%set('none', transfer(no_bit, .true.))
  call region%publish(1, 'flags', flags)
  call observer%open('truths')
  call observer%newest(snapshot)
  call snapshot%get('all', value)
  call expect(value, 'true may have all bits')
  call snapshot%get('high', value)
  call expect(value, 'or only one of the higher ones')
  call snapshot%get('none', value)
  call expect(.not. value, 'false has none')
  call snapshot%view('flags', shown)
  call expect(logical(all(shown .eqv. flags)), 'truth values are read back')
  call snapshot%release()
  call observer%close()
  call observer%open('python')
  call observer%newest(snapshot)
  call snapshot%view('flags', shown)
  call expect(logical(all(shown .eqv. flags)), 'those of other languages are shown')
  call snapshot%read('flags', copied)
  call expect(logical(all(copied .eqv. flags)), 'and read')
  call snapshot%view('numbers', shown, stat=stat)
  call expect(stat == stillframe_wrong_dtype, 'numbers are no truth values')
  call snapshot%release()
  call observer%close()
  call stillframe_remove_region('python', stat=stat)
  call expect(stat == stillframe_in_use, 'a region that is in use is not removed')
  call stillframe_remove_region('python', force=transfer(all_bits, .true.), stat=stat)
  call expect(stat == stillframe_ok, 'but by force')
  call region%close()
  call conclude()
end program
