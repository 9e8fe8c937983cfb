! Figure 1 of Otstott et al., "A Foundation for Automated Placement of Data", mended so that it runs: heat on a plate that lies in
! blocks on the ranks. docs/figure1.md compares it with the printed text.
!
!     mpiexec -n 6 figure1 [--check] [LENGTH [HEIGHT [STEPS]]]
!
! With --check each rank computes the whole plate by itself, too, and compares its block after each step, to the last bit.
program figure1
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use stillframe
  implicit none
  integer, parameter :: wait_ms = 30000
  character(*), parameter :: names(4) = ['xmin  ', 'ymin  ', 'xrange', 'yrange']
  type(stillframe_object) :: heat
  type(stillframe_fragment) :: mine, left, right, upper, lower
  real(real64), pointer :: g(:, :) => null(), next(:, :) => null()
  ! The ghost cells; they point to nothing at the rim of the plate, where all is 0. Those above and below have the corners.
  real(real64), pointer :: lg(:, :) => null(), rg(:, :) => null(), ug(:, :) => null(), bg(:, :) => null()
  real(real64), allocatable :: whole(:, :), old(:, :)
  integer :: length, height, steps, rank, ranks, nlength, nheight, i, j, xmin, ymin, xrange, yrange, x, y, step, stat
  integer :: blocks(2), block(4)
  logical :: is_checked

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()
  blocks = 0
  call MPI_Dims_create(ranks, 2, blocks)
  nlength = blocks(1)
  nheight = blocks(2)
  if (length < nlength .or. height < nheight .or. steps < 0) call give_up('there are too few cells for so many ranks')

  if (rank == 0) then
    ! Whatever an earlier run left: only a living one is in the way.
    call stillframe_remove_object('heatsim', stat=stat)
    if (stat /= stillframe_ok .and. stat /= stillframe_no_object) call give_up('somebody writes heatsim')
    call heat%create('heatsim', 'var grid [length,height] float64', names=['length', 'height'], values=[length, height])
  end if
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank /= 0) call heat%open('heatsim')

  ! The block of this rank. Blocks differ by one cell where the plate does not divide evenly.
  i = mod(rank, nlength)
  j = rank / nlength
  xmin = i * length / nlength
  ymin = j * height / nheight
  xrange = (i + 1) * length / nlength - xmin
  yrange = (j + 1) * height / nheight - ymin
  block = [xmin, ymin, xrange, yrange]
  call heat%attach('{ var g [x:xrange,y:yrange] = grid[x+xmin,y+ymin] }', mine, next, names, block, rank=rank, loaned=.true.)
  if (xmin > 0) call heat%attach_read('{ var left [x:1,y:yrange] = grid[x+xmin-1,y+ymin] }', left, lg, names, block)
  if (xmin + xrange < length) &
    call heat%attach_read('{ var right [x:1,y:yrange] = grid[x+xmin+xrange,y+ymin] }', right, rg, names, block)
  if (ymin > 0) call heat%attach_read('view columnmajor clipped { var upper [x:xrange+2,y:1] = grid[x+xmin-1,y+ymin-1] }', &
    upper, ug, names, block, lower=[0, 1])
  if (ymin + yrange < height) call heat%attach_read( &
    'view columnmajor clipped { var lower [x:xrange+2,y:1] = grid[x+xmin-1,y+ymin+yrange] }', lower, bg, names, block, lower=[0, 1])

  ! Version 1 is what the plate begins with, version 1 + n what it is after n steps.
  do y = 1, yrange
    do x = 1, xrange
      next(x, y) = initial(x + xmin - 1, y + ymin - 1)
    end do
  end do
  call mine%publish(1)
  if (is_checked) then
    allocate (whole(0:length + 1, 0:height + 1), source=0.0_real64)
    do y = 1, height
      do x = 1, length
        whole(x, y) = initial(x - 1, y - 1)
      end do
    end do
  end if

  do step = 1, steps
    if (associated(lg)) call left%reattach(step, timeout_ms=wait_ms)
    if (associated(rg)) call right%reattach(step, timeout_ms=wait_ms)
    if (associated(ug)) call upper%reattach(step, timeout_ms=wait_ms)
    if (associated(bg)) call lower%reattach(step, timeout_ms=wait_ms)
    call mine%previous('g', g)
    call mine%view('g', next)
    do y = 1, yrange
      do x = 1, xrange
        next(x, y) = average(cell(x, y), cell(x - 1, y), cell(x + 1, y), cell(x, y - 1), cell(x, y + 1), &
          cell(x - 1, y - 1), cell(x + 1, y - 1), cell(x - 1, y + 1), cell(x + 1, y + 1))
      end do
    end do
    if (is_checked) call compare()
    call mine%publish(step + 1)
  end do

  if (rank == 0) call report()
  ! Nobody detaches what another one may still read.
  call MPI_Barrier(MPI_COMM_WORLD)
  call left%detach()
  call right%detach()
  call upper%detach()
  call lower%detach()
  call mine%detach()
  call heat%close()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) call stillframe_remove_object('heatsim')
  call MPI_Finalize()

contains

  subroutine read_arguments()
    integer :: sizes(3), k, first
    character(20) :: word

    call get_command_argument(1, word)
    is_checked = word == '--check'
    first = merge(2, 1, is_checked)
    sizes = [30, 30, 100]
    do k = 1, min(3, command_argument_count() + 1 - first)
      call get_command_argument(first + k - 1, word)
      read (word, *) sizes(k)
    end do
    length = sizes(1)
    height = sizes(2)
    steps = sizes(3)
  end subroutine

  subroutine give_up(why)
    character(*), intent(in) :: why

    write (error_unit, '(a, i0, 2a)') 'rank ', rank, ': ', why
    ! It may return.
    call MPI_Abort(MPI_COMM_WORLD, 1)
    stop 1
  end subroutine

  ! A cell of the block or of its ghost cells: 0 <= x <= xrange + 1, 0 <= y <= yrange + 1.
  function cell(x, y) result(value)
    integer, intent(in) :: x, y
    real(real64) :: value

    value = 0
    if (y == 0) then
      if (associated(ug)) value = ug(x, 1)
    else if (y == yrange + 1) then
      if (associated(bg)) value = bg(x, 1)
    else if (x == 0) then
      if (associated(lg)) value = lg(1, y)
    else if (x == xrange + 1) then
      if (associated(rg)) value = rg(1, y)
    else
      value = g(x, y)
    end if
  end function

  pure function average(a, b, c, d, e, f, g, h, i) result(mean)
    real(real64), intent(in) :: a, b, c, d, e, f, g, h, i
    real(real64) :: mean

    mean = 0.28_real64 * a + 0.14_real64 * (b + c + d + e) + 0.04_real64 * (f + g + h + i)
  end function

  ! What the plate begins with: a hot spot off the middle. Indices count from 0.
  pure function initial(x, y) result(value)
    integer, intent(in) :: x, y
    real(real64) :: value

    value = merge(100, 0, 4 * x > length .and. 2 * x < length .and. 3 * y > height .and. 4 * y < 3 * height)
  end function

  ! A step of the plate as a single process computes it, held against the block.
  subroutine compare()
    integer :: x, y

    old = whole
    do y = 1, height
      do x = 1, length
        ! Lower bounds of a copy are those of what it was made from.
        whole(x, y) = average(old(x, y), old(x - 1, y), old(x + 1, y), old(x, y - 1), old(x, y + 1), old(x - 1, y - 1), &
          old(x + 1, y - 1), old(x - 1, y + 1), old(x + 1, y + 1))
      end do
    end do
    do y = 1, yrange
      do x = 1, xrange
        if (transfer(next(x, y), 0_int64) /= transfer(whole(x + xmin, y + ymin), 0_int64)) &
          call give_up('a cell is not that of a serial run')
      end do
    end do
  end subroutine

  ! Says what the last version holds, as anybody may see it.
  subroutine report()
    type(stillframe_fragment) :: all
    real(real64), pointer :: u(:, :) => null()
    real(real64) :: total
    integer(int64) :: bits
    integer :: x, y

    call heat%attach_read('{ var u = grid }', all, u, version=int(steps, int64) + 1, wait_ms=wait_ms)
    total = 0
    bits = 0
    do x = 1, length
      do y = 1, height
        total = total + u(x, y)
        bits = ieor(bits, transfer(u(x, y), 0_int64))
      end do
    end do
    print '(a, i0, a, f0.6, a, z16.16, a)', 'step ', steps, ', heat ', total, ', bits ', bits, &
      merge(', each step equal to a serial run', '                                 ', is_checked)
    call all%detach()
  end subroutine
end program
