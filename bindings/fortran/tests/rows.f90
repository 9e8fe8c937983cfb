! Observes what test_fortran.py publishes from Python: the same numbers row-major and column-major.
program rows
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use expecting
  use stillframe
  implicit none
  type(stillframe_observer) :: observer
  type(stillframe_snapshot) :: snapshot
  real(real64), pointer :: c(:, :, :) => null(), f(:, :, :) => null(), line(:) => null()
  real(real64) :: copied(4, 3, 2)
  integer(int32), pointer :: number => null()
  character(:), pointer :: words(:) => null()
  character(:), allocatable :: text
  character(200) :: message
  integer :: i, j, k, stat

  ! The region appears while this waits.
  call observer%open('python', wait_ms=30000)
  call observer%next_after(snapshot, timeout_ms=30000)
  call snapshot%view('c', c, stat=stat, errmsg=message)
  call expect(stat == stillframe_wrong_shape .and. index(message, '(2, 3, 4)') > 0 .and. index(message, '(4, 3, 2)') > 0, &
    'a row-major variable is not taken for a column-major one')
  call snapshot%view('c', c, row_major=.true.)
  call snapshot%view('f', f)
  call expect(all(shape(c) == [4, 3, 2]) .and. all(shape(f) == [2, 3, 4]), 'row-major has its shape reversed')
  do i = 1, 2
    do j = 1, 3
      do k = 1, 4
        call expect(nint(c(k, j, i)) == 100 * i + 10 * j + k, 'row-major numbers are where they belong')
        call expect(nint(f(i, j, k)) == 100 * i + 10 * j + k, 'column-major numbers are where they belong')
      end do
    end do
  end do
  call snapshot%read('c', copied, row_major=.true.)
  call expect(all(nint(copied) == nint(c)), 'row-major is read as it is viewed')
  call snapshot%view('line', line)
  call expect(all(nint(line) == [1, 2, 3]), 'one dimension has no order')
  call snapshot%view('number', number)
  call expect(number == 7, 'a scalar is read')
  call snapshot%view('words', words)
  call expect(len(words) == 4 .and. words(1) == 'wind' .and. words(2)(1:3) == 'sea', 'text is read')
  call snapshot%get('title', text)
  call expect(text == 'a test', 'attributes are read')
  call snapshot%release()
  call observer%close()
  call conclude()
end program
