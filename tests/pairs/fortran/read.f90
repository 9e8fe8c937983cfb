! A reader of an object in Fortran: read DIR OBJECT VERSION. See ../objects.py for what it prints.
program read
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use stillframe
  implicit none
  integer, parameter :: patience_ms = 20000
  type(stillframe_object) :: object
  type(stillframe_fragment) :: turned, coarse, line, ghosts, cells
  real(real64), pointer :: t(:, :) => null(), c(:, :) => null(), l(:) => null(), u(:, :) => null()
  real(real32), pointer :: rho(:) => null()
  integer(int64), pointer :: id(:) => null()
  integer(int64) :: version
  integer :: i
  character(200) :: directory, name, word

  call get_command_argument(1, directory)
  call get_command_argument(2, name)
  call get_command_argument(3, word)
  read (word, *) version
  call object%open(name, dir=directory, wait_ms=patience_ms, look=.true.)
  call object%attach_read('{ var t [y:10,x:12] = grid[x,y] }', turned, t, version=version, wait_ms=patience_ms)
  call object%attach_read('{ var c [i,j] = grid[i*4,j*3] }', coarse, c, version=version, wait_ms=patience_ms)
  call object%attach_read('{ var c [x] = grid[11-x,7] }', line, l, version=version, wait_ms=patience_ms)
  call object%attach_read('view columnmajor clipped { var u [x:14,y:3] = grid[x-1,y+8] }', ghosts, u, version=version, &
    wait_ms=patience_ms)
  call object%attach_read('view aligned { var rho [i:20] = cells[i+5].rho; var id [i:20] = cells[i+5].id }', cells, &
    version=version, wait_ms=patience_ms)
  call cells%view('rho', rho)
  call cells%view('id', id)
  ! The last index runs fastest in what is printed.
  print '(a, *(1x, i0))', 'turned', nint(transpose(t))
  print '(a, *(1x, i0))', 'coarse', nint(transpose(c))
  print '(a, *(1x, i0))', 'column', nint(l)
  print '(a, *(1x, i0))', 'ghosts', nint(transpose(u))
  print '(a, *(1x, i0))', 'cells', (nint(rho(i)), id(i), i = 1, 20)
  call turned%detach()
  call coarse%detach()
  call line%detach()
  call ghosts%detach()
  call cells%detach()
  call object%close()
end program
