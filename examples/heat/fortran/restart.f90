! Heat in a plate whose surroundings are an infinite sink: at each step each cell becomes the weighted average of itself and
! its eight neighbours, and whatever lies outside is 0. Each rank has a block of the plate with a frame of ghost cells.
!
! It goes on from what the last run left in memory or in ./checkpoints, whatever number of ranks that had.
!
!     mpiexec -n 4 restart [HEIGHT [WIDTH [STEPS [NAME]]]]
program restart
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use mpi_f08
    use stillframe
    implicit none

    type(MPI_Comm) :: plate
    type(MPI_Datatype) :: row
    integer :: height, width, steps, rank, ranks, rows, columns, divisor, up, down, left, right, top, first, h, w, x, y, step
    integer(int64) :: bits, bits_all
    real(real64), allocatable :: u(:, :), next(:, :), last(:, :)
    real(real64) :: begin, seconds, total, total_all, dx, dy
    character(len=200) :: name
    type(stillframe_region) :: region
    type(stillframe_origin) :: origin

    call MPI_Init()
    height = number_argument(1, 96)
    width = number_argument(2, 128)
    steps = number_argument(3, 200)
    name = 'heat'
    if (command_argument_count() >= 4) call get_command_argument(4, name)

    ! The ranks lie row by row on as square a grid as their number allows.
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    columns = 1
    do divisor = 1, ranks
        if (divisor * divisor <= ranks .and. mod(ranks, divisor) == 0) columns = divisor
    end do
    rows = ranks / columns
    call MPI_Cart_create(MPI_COMM_WORLD, 2, [rows, columns], [.false., .false.], .false., plate)
    call MPI_Comm_rank(plate, rank)
    call MPI_Cart_shift(plate, 0, 1, up, down)
    call MPI_Cart_shift(plate, 1, 1, left, right)
    top = rank / columns * height / rows
    first = mod(rank, columns) * width / columns
    h = (rank / columns + 1) * height / rows - top
    w = (mod(rank, columns) + 1) * width / columns - first

    ! A hot disc, and a warm bar beside it. Cell (y, x) of the block is u(y, x), counted from 1.
    allocate (u(0:h + 1, 0:w + 1), next(0:h + 1, 0:w + 1), source=0.0_real64)
    do x = 1, w
        do y = 1, h
            dy = 3.0_real64 * (top + y - 1) - height
            dx = 3.0_real64 * (first + x - 1) - width
            if (4 * (dx * dx + dy * dy) < real(min(height, width), real64)**2) then
                u(y, x) = 100
            else if (2 * (first + x - 1) >= width .and. 8 * (first + x - 1) < 7 * width &
                     .and. 8 * (top + y - 1) >= 5 * height .and. 4 * (top + y - 1) < 3 * height) then
                u(y, x) = 60
            end if
        end do
    end do
    call MPI_Type_vector(w + 2, 1, h + 2, MPI_DOUBLE_PRECISION, row)
    call MPI_Type_commit(row)

    call region%recover(name, 'checkpoints', rank=rank, ranks=ranks, origin=origin)
    call region%declare('u', 'float64', offset=[top, first], global_shape=[height + 2, width + 2])
    if (origin%kind /= stillframe_origin_fresh) call region%read('u', u)
    if (rank == 0) print '(3a)', trim(name), ': ', origin%sentence
    begin = MPI_Wtime()
    do step = max(0, int(origin%version)) + 1, steps
        ! Rows first; the columns then carry the corners along.
        call MPI_Sendrecv(u(1, 0), 1, row, up, 0, u(h + 1, 0), 1, row, down, 0, plate, MPI_STATUS_IGNORE)
        call MPI_Sendrecv(u(h, 0), 1, row, down, 1, u(0, 0), 1, row, up, 1, plate, MPI_STATUS_IGNORE)
        call MPI_Sendrecv(u(0, 1), h + 2, MPI_DOUBLE_PRECISION, left, 2, u(0, w + 1), h + 2, MPI_DOUBLE_PRECISION, right, 2, &
                          plate, MPI_STATUS_IGNORE)
        call MPI_Sendrecv(u(0, w), h + 2, MPI_DOUBLE_PRECISION, right, 3, u(0, 0), h + 2, MPI_DOUBLE_PRECISION, left, 3, &
                          plate, MPI_STATUS_IGNORE)
        do x = 1, w
            do y = 1, h
                next(y, x) = 0.28_real64 * u(y, x) &
                    + 0.14_real64 * ((u(y - 1, x) + u(y + 1, x)) + (u(y, x - 1) + u(y, x + 1))) &
                    + 0.04_real64 * ((u(y - 1, x - 1) + u(y - 1, x + 1)) + (u(y + 1, x - 1) + u(y + 1, x + 1)))
            end do
        end do
        call move_alloc(u, last)
        call move_alloc(next, u)
        call move_alloc(last, next)
        call region%publish(step, 'u', u)
    end do
    seconds = MPI_Wtime() - begin

    ! The exclusive or of all cells' bits tells whether two runs agree to the last one, however the plate is divided.
    total = sum(u(1:h, 1:w))
    bits = iparity([(iparity(transfer(u(1:h, x), [0_int64])), x = 1, w)])
    call MPI_Reduce(total, total_all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, plate)
    call MPI_Reduce(bits, bits_all, 1, MPI_INTEGER8, MPI_BXOR, 0, plate)
    if (rank == 0) print '(2a, i0, a, i0, a, i0, a, i0, a, f0.4, a, z16.16, a, f10.6, a)', trim(name), ': ', height, ' x ', width, &
        ' on ', ranks, ' ranks, step ', steps, ', heat ', total_all, ', bits ', bits_all, ', ', seconds, ' s'
    call MPI_Type_free(row)
    call MPI_Finalize()

contains

    integer function number_argument(position, default) result(value)
        integer, intent(in) :: position, default
        character(len=20) :: text

        value = default
        if (command_argument_count() < position) return
        call get_command_argument(position, text)
        read (text, *) value
    end function number_argument
end program restart
