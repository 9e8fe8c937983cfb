! Watches a heat run: minimum, mean and maximum, and a profile along the row of the hottest cell, in the newest version each
! time.
!
!     look [NAME]
program look
    use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
    use stillframe
    implicit none

    ! A rank's part of the plate.
    type :: block
        real(real64), allocatable :: u(:, :)
    end type block

    type(stillframe_group) :: group
    type(stillframe_snapshot), allocatable :: parts(:)
    real(real64), allocatable :: plate(:, :)
    integer(int64) :: version, bits
    integer :: status, x, hottest(2)
    character(len=200) :: name
    character(len=500) :: message

    name = 'heat'
    if (command_argument_count() >= 1) call get_command_argument(1, name)
    call group%open(trim(name), wait_ms=30000, polite=.true., stat=status, errmsg=message)
    if (status /= stillframe_ok) call fail()
    do
        call group%newest_after(parts, stat=status, errmsg=message)
        if (status /= stillframe_ok) exit
        version = parts(0)%version()
        call assemble()
        bits = iparity([(iparity(transfer(plate(:, x), [0_int64])), x = 1, size(plate, 2))])
        print '(a, i0, a, f0.4, a, z16.16)', 'version ', version, ': heat ', sum(plate), ', bits ', bits
        print '(3(a, f8.4))', '    min', minval(plate), '  mean', sum(plate) / size(plate), '  max', maxval(plate)
        hottest = maxloc(plate)
        call draw(plate(hottest(1), :))
        flush (6)
    end do
    ! The ranks have ended together; anything else is a failure that the message explains.
    if (status /= stillframe_producer_gone) call fail()
    call group%close()

contains

    subroutine fail()
        write (error_unit, '(2a)') 'look: ', trim(message)
        error stop 1, quiet=.true.
    end subroutine fail

    ! The whole plate, as (y, x). The ranks lie row by row on as square a grid as their number allows.
    subroutine assemble()
        type(block) :: blocks(0:size(parts) - 1)
        integer :: ranks, columns, divisor, rank, top, left

        ranks = size(parts)
        columns = 1
        do divisor = 1, ranks
            if (divisor * divisor <= ranks .and. mod(ranks, divisor) == 0) columns = divisor
        end do
        do rank = 0, ranks - 1
            blocks(rank)%u = inside(parts(rank))
            call parts(rank)%release()
        end do
        if (allocated(plate)) deallocate (plate)
        allocate (plate(sum([(size(blocks(rank)%u, 1), rank = 0, ranks - 1, columns)]), &
                        sum([(size(blocks(rank)%u, 2), rank = 0, columns - 1)])))
        top = 0
        left = 0
        do rank = 0, ranks - 1
            if (mod(rank, columns) == 0) left = 0
            associate (u => blocks(rank)%u)
                plate(top + 1:top + size(u, 1), left + 1:left + size(u, 2)) = u
                left = left + size(u, 2)
                if (mod(rank, columns) == columns - 1) top = top + size(u, 1)
            end associate
        end do
    end subroutine assemble

    ! A rank's part without its frame of ghost cells. Of a program in C or Python the axes come reversed.
    function inside(snapshot) result(part)
        type(stillframe_snapshot), intent(in) :: snapshot
        real(real64), allocatable :: part(:, :)
        real(real64), pointer :: u(:, :)
        type(stillframe_variable) :: variable

        call snapshot%variable('u', variable)
        call snapshot%view('u', u, row_major=variable%order == stillframe_row_major)
        part = u(2:size(u, 1) - 1, 2:size(u, 2) - 1)
        if (variable%order == stillframe_row_major) part = transpose(part)
    end function inside

    ! The temperatures along a row, every ten degrees a line.
    subroutine draw(row)
        real(real64), intent(in) :: row(:)
        integer, parameter :: line_width = 64
        character(len=line_width) :: line
        integer :: degrees, marks, at

        marks = min(line_width, size(row))
        do degrees = 100, 10, -10
            line = ''
            do at = 1, marks
                if (row(1 + (at - 1) * size(row) / marks) >= degrees - 5) line(at:at) = '*'
            end do
            print '(i4, 2a)', degrees, ' |', trim(line)
        end do
        print '(a)', '   0 +' // repeat('-', marks)
    end subroutine draw
end program look
