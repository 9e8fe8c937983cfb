! Beginning again from memory or checkpoints, and checkpoints while a program runs. Its argument: a directory for checkpoints.
program restart
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use expecting
  use stillframe
  implicit none
  character(200) :: store

  call get_command_argument(1, store)
  call check_checkpointer()
  call check_beginning()
  call check_ranks()
  call conclude()

contains

  subroutine save_now(name, version)
    character(*), intent(in) :: name
    integer, intent(in) :: version
    type(stillframe_checkpointer) :: checkpointer
    type(stillframe_checkpoint_status) :: status

    call checkpointer%start(name, trim(store) // '/' // name, once=.true.)
    call expect(checkpointer%wait_safe(version, timeout_ms=60000), 'a version that is saved is safe')
    call checkpointer%stop(status)
    call expect(status%state == stillframe_checkpoint_ended .and. status%saved == 1, 'the end of a checkpointer is told')
  end subroutine

  subroutine check_checkpointer()
    type(stillframe_region) :: region
    type(stillframe_checkpointer) :: checkpointer, second
    type(stillframe_checkpoint_status) :: status
    character(:), allocatable :: dir
    real(real64) :: u(5000)
    integer :: step, stat
    character(300) :: message

    dir = trim(store) // '/saved'
    u = 0
    call region%create('saved')
    call region%publish(1, 'u', u)
    call expect(stillframe_newest_safe(dir) == -1 .and. .not. stillframe_is_safe(dir, 1) .and. &
      .not. stillframe_wait_safe(dir, 1_int64, timeout_ms=10), 'nothing is safe where nothing was saved')
    call checkpointer%start('saved', dir, every=10, keep=2, keep_every=20, compress='zstd', nice=0)
    call second%start('saved', trim(dir) // '2', nice=20, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_option .and. index(message, 'nice') > 0, 'a nice value there is none of is refused')
    call second%start('saved', trim(dir) // '2', trust='everybody', stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_option .and. index(message, 'everybody') > 0, 'trust is a word of its own')
    call second%start('saved', dir, stat=stat, errmsg=message)
    call expect(stat == stillframe_locked .and. index(message, 'writes checkpoints into') > 0, 'a second one is refused')
    do step = 2, 50
      u(step) = step
      call region%publish(step, 'u', u)
      if (mod(step, 10) == 0) call expect(checkpointer%wait_safe(step, timeout_ms=60000), 'the tenth version is safe')
    end do
    call checkpointer%status(status)
    call expect(status%state == stillframe_checkpoint_running .and. status%newest_safe == 50 .and. status%error == '', &
      'a checkpointer tells what it did')
    call expect(.not. checkpointer%wait_safe(51_int64, timeout_ms=10), 'what was not published is not safe')
    call expect(checkpointer%wait_safe_from(31, timeout_ms=10) == 50 .and. &
      checkpointer%wait_safe_from(51_int64, timeout_ms=10) == -1, 'a newer version does as well')
    call checkpointer%stop()
    call checkpointer%status(status, stat=stat)
    call expect(stat == stillframe_bad_handle, 'a checkpointer that was stopped is told')
    call expect(stillframe_newest_safe(dir) == 50 .and. stillframe_is_safe(dir, 20) .and. .not. stillframe_is_safe(dir, 30) &
      .and. stillframe_wait_safe(dir, 40), 'what stays is what was asked for')
    call expect(stillframe_wait_safe_from(dir, 31) == 50 .and. stillframe_wait_safe_from(dir, 51_int64, timeout_ms=10) == -1, &
      'all up to a version is safe when a newer one is')
    call checkpointer%start('saved', dir, when='u >', stat=stat)
    call expect(stat == stillframe_expression, 'a condition that is none is refused')
    call region%unlink()
  end subroutine

  subroutine check_beginning()
    type(stillframe_region) :: region
    type(stillframe_origin) :: origin
    type(stillframe_recovered_variable), allocatable :: variables(:)
    character(:), allocatable :: dir, text
    real(real64), pointer :: u(:, :) => null()
    real(real64) :: x(3, 4), back(3, 4), box(2, 2), time
    integer :: stat, i
    character(300) :: message

    dir = trim(store) // '/heat'
    x = reshape([(real(i, real64), i = 1, 12)], [3, 4])
    call region%recover('heat', dir, origin=origin)
    call expect(origin%kind == stillframe_origin_fresh .and. origin%version == -1 .and. origin%path == '', 'a first run is told')
    call region%read('x', back, stat=stat)
    call expect(stat == stillframe_nothing_recovered, 'nothing is read in a first run')
    call region%recovered_variables(variables)
    call expect(size(variables) == 0, 'nothing is listed in a first run')
    call region%array('u', u, [100, 50])
    call region%fill('u')
    u(100, 50) = 1.5_real64
    call region%set('time', 0.25_real64)
    call region%set('phase', 'melting')
    call region%publish(7, 'x', x)
    call region%read('x', back, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'has published') > 0, 'it is read before the first publish')
    call save_now('heat', 7)
    u(100, 50) = 2.5_real64
    call region%publish(8, 'x', x)
    call region%close()

    call region%recover('heat', dir, origin=origin)
    call expect(origin%kind == stillframe_origin_memory .and. origin%version == 8 .and. index(origin%sentence, '8') > 0, &
      'what is in memory is recovered first')
    call region%array('u', u, [100, 50])
    call expect(abs(u(100, 50) - 2.5) < 1e-12, 'arrays of the region have their content')
    call region%unlink()

    call region%recover('heat', dir, origin=origin)
    call expect(origin%kind == stillframe_origin_checkpoint .and. origin%version == 7 .and. len(origin%path) > 0, &
      'then a checkpoint is')
    call region%array('u', u, [100, 50])
    call expect(abs(u(100, 50) - 1.5) < 1e-12, 'with its content')
    back = 0
    call region%read('x', back)
    call expect(all(abs(back - x) < 1e-12), 'other arrays are read')
    call region%recovered_variables(variables)
    call expect(size(variables) == 2, 'the variables of the version are listed')
    call expect(variables(1)%name == 'u' .and. variables(2)%name == 'x' .and. variables(2)%dtype == 'float64', 'with their names')
    call expect(all(variables(1)%shape == [100, 50]) .and. all(variables(2)%shape == [3, 4]), 'and shapes')
    call region%read('x', box, offset=[1, 2])
    call expect(all(abs(box - x(2:3, 3:4)) < 1e-12), 'in part too')
    call region%read('x', box, stat=stat)
    call expect(stat == stillframe_wrong_shape, 'a corner is read where the program says so')
    call region%get('time', time)
    call region%get('phase', text)
    call expect(abs(time - 0.25) < 1e-12 .and. text == 'melting', 'attributes of the version are read')
    call region%get('none', time, stat=stat)
    call expect(stat == stillframe_unknown_attribute, 'but those that are not there')
    call region%read('x', box, offset=[2, 2], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'a box lies within the array')
    call region%read('x', box, offset=[2], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'an offset has the dimensions of the array')
    call region%unlink()
    call region%recover('heat', dir, version=3_int64, stat=stat)
    call expect(stat == stillframe_no_such_version, 'a version that is nowhere is told')
  end subroutine

  subroutine check_ranks()
    call run(4, 1, stillframe_origin_fresh)
    call run(3, 2, stillframe_origin_memory)
    call stillframe_remove_region('plate')
    call run(6, 3, stillframe_origin_checkpoint)
    call run(6, 4, stillframe_origin_memory)
  end subroutine

  ! A run of so many ranks that checks what it begins with, and goes one version on. Those of odd versions balance their load
  ! before they begin: the first rank has one column more, the last one less.
  subroutine run(ranks, version, kind)
    integer, intent(in) :: ranks, version, kind
    type :: block
      real(real64), pointer :: u(:, :) => null()
      real(real64), pointer :: x(:, :) => null()
    end type
    type(stillframe_region) :: regions(0:ranks - 1)
    type(stillframe_origin) :: origin
    type(block) :: blocks(0:ranks - 1)
    integer :: rank, left, right, columns, i, j
    real(real64) :: was

    do rank = 0, ranks - 1
      call regions(rank)%recover('plate', trim(store) // '/plate', rank=rank, ranks=ranks, origin=origin)
      call expect(origin%kind == kind .and. max(origin%version, 0_int64) == version - 1, 'all ranks begin with the same')
    end do
    do rank = 0, ranks - 1
      left = rank * 13 / ranks
      right = (rank + 1) * 13 / ranks
      columns = right - left
      call regions(rank)%array('u', blocks(rank)%u, [6, columns], offset=[0, left], global_shape=[6, 13])
      call regions(rank)%fill('u')
      call regions(rank)%declare('x', 'float64', offset=[0, left], global_shape=[6, 13])
      if (mod(version, 2) == 1) then
        left = left + merge(1, 0, rank > 0)
        columns = right + merge(1, 0, rank < ranks - 1) - left
        call regions(rank)%repart('u', blocks(rank)%u, [6, columns], offset=[0, left], global_shape=[6, 13])
        call regions(rank)%fill('u')
        call regions(rank)%repart('x', offset=[0, left], global_shape=[6, 13])
      end if
      allocate (blocks(rank)%x(6, columns), source=0.0_real64)
      call regions(rank)%track('x', blocks(rank)%x)
      if (kind /= stillframe_origin_fresh) call regions(rank)%read('x', blocks(rank)%x)
      do j = 1, columns
        do i = 1, 6
          was = 0
          if (version > 1) was = 10 * (left + j) + i + 1000 * (version - 1)
          if (abs(blocks(rank)%u(i, j) - was) + abs(blocks(rank)%x(i, j) - was) > 1e-9) &
            call expect(.false., 'each rank has its part')
          blocks(rank)%u(i, j) = 10 * (left + j) + i + 1000 * version
          blocks(rank)%x(i, j) = blocks(rank)%u(i, j)
        end do
      end do
    end do
    do rank = 0, ranks - 1
      call regions(rank)%publish(version)
    end do
    call save_now('plate', version)
    do rank = 0, ranks - 1
      call regions(rank)%close()
      deallocate (blocks(rank)%x)
    end do
  end subroutine
end program
