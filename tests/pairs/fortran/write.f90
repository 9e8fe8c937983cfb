! A writer of an object in Fortran: write DIR OBJECT RANK RANKS. See ../objects.py for what it has to do.
program write
  use, intrinsic :: iso_fortran_env, only: input_unit, int64, output_unit, real32, real64
  use stillframe
  implicit none
  type(stillframe_object) :: object
  type(stillframe_fragment) :: fragment
  real(real64), pointer :: grid(:, :) => null()
  real(real32), pointer :: rho(:) => null()
  integer(int64), pointer :: id(:) => null()
  integer :: rank, ranks, first, columns, begin, count, version, x, y, i, stat
  character(200) :: directory, name, word

  call get_command_argument(1, directory)
  call get_command_argument(2, name)
  call get_command_argument(3, word)
  read (word, *) rank
  call get_command_argument(4, word)
  read (word, *) ranks
  call object%create(name, 'type Cell struct { rho float32; id int64 }' // new_line('a') // 'var grid [12,10] float64' // &
    new_line('a') // 'var cells [30]Cell', dir=directory)
  ! Columns instead of rows, one behind the other.
  first = rank * 10 / ranks
  columns = (rank + 1) * 10 / ranks - first
  begin = rank * 30 / ranks
  count = (rank + 1) * 30 / ranks - begin
  call object%attach('view columnmajor aligned { var grid [x:12,y:columns] = grid[x,y+first]; ' // &
    'var rho [i:count] = cells[i+begin].rho; var id [i:count] = cells[i+begin].id }', fragment, &
    names=['first  ', 'columns', 'begin  ', 'count  '], values=[first, columns, begin, count], rank=rank, keep=3)
  call fragment%view('grid', grid)
  call fragment%view('rho', rho)
  call fragment%view('id', id)
  do version = 1, 3
    do y = 1, columns
      do x = 1, 12
        grid(x, y) = 10000 * version + 100 * (x - 1) + y - 1 + first
      end do
    end do
    do i = 1, count
      rho(i) = real(1000 * version + i - 1 + begin, real32)
      id(i) = -(i - 1 + begin) - version
    end do
    call fragment%publish(version)
  end do
  print '(a)', 'ready'
  flush (output_unit)
  do
    read (input_unit, '(a)', iostat=stat) word
    if (stat /= 0) exit
  end do
  call fragment%detach()
  call object%close()
end program
