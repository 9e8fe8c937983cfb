! Objects: one name for data that many processes hold.
program objects
  use, intrinsic :: iso_c_binding, only: c_bool, c_loc, c_associated
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use expecting
  use stillframe
  implicit none
  ! valgrind cannot map as many addresses as there are by default.
  integer(int64), parameter :: small = 2_int64**30
  integer, parameter :: patience_ms = 20000

  call check_layouts()
  call check_loaned()
  call check_ranks()
  call check_kinds()
  call check_misuse()
  call conclude()

contains

  subroutine make(object, name, text)
    type(stillframe_object), intent(inout) :: object
    character(*), intent(in) :: name, text

    call object%create(name, text, arena_bytes=small, fragments=1000)
  end subroutine

  subroutine check_layouts()
    type(stillframe_object) :: heat, again
    type(stillframe_fragment) :: halves(2), turned, rows, ghosts
    type(stillframe_writer), allocatable :: writers(:)
    type(stillframe_published) :: published
    real(real64), pointer :: upper(:, :) => null(), lower(:, :) => null(), g(:, :) => null(), t(:, :) => null(), &
      r(:, :) => null(), u(:, :) => null()
    integer(int64), allocatable :: versions(:)
    character(:), allocatable :: names(:)
    integer(int64) :: version
    integer :: rank, step, x, y, stat
    character(400) :: message

    call make(heat, 'layouts', 'var grid [8,6] float64')
    call expect(heat%newest() == 0, 'the initial version is complete')
    do rank = 0, 1
      call heat%attach('{ var g [x:n,y:6] = grid[x+first,y] }', halves(rank + 1), g, names=['n    ', 'first'], &
        values=[4, 4 * rank], rank=rank, keep=2)
      call expect(all(shape(g) == [4, 6]) .and. all(g == 0), 'a fragment has the shape of its text, and zeros')
      if (rank == 0) upper => g
      if (rank == 1) lower => g
    end do
    ! Fortran's order: the first index runs fastest.
    call expect(c_associated(c_loc(g(2, 1)), next_to(c_loc(g(1, 1)), 8)), 'braces alone have the order of Fortran')
    call heat%attach_read('{ var t [y:6,x:3] = grid[x+3,y] }', turned, t)
    call heat%attach_read('view rows { var r [x:2,y:6] = grid[x+3,y] }', rows, r, row_major=.true.)
    call heat%attach_read('view columnmajor clipped { var u [x:10,y:8] = grid[x-1,y-1] }', ghosts, u, lower=[0, 0])
    call expect(all(shape(t) == [6, 3]) .and. all(shape(r) == [6, 2]) .and. all(lbound(u) == 0), 'shapes and bounds')
    do step = 1, 3
      do y = 1, 6
        do x = 1, 4
          upper(x, y) = value(x, y, step)
          lower(x, y) = value(x + 4, y, step)
        end do
      end do
      call halves(1)%publish(step, published=published)
      call expect(published%version == step .and. published%dirty_pages == 1, 'a publish says what it did')
      if (step == 1) then
        call rows%reattach(1, timeout_ms=1, stat=stat, errmsg=message)
        call expect(stat == stillframe_timeout .and. index(message, 'rank 1') > 0, 'who is waited for is named')
      end if
      call halves(2)%publish(int(step, int64))
      call turned%reattach(step, timeout_ms=patience_ms)
      call rows%reattach(int(step, int64), timeout_ms=patience_ms)
      call ghosts%reattach(step)
      do y = 1, 6
        call expect(all(t(y, :) == [(value(x, y, step), x = 4, 6)]), 'a transposed fragment')
        call expect(all(r(y, :) == [(value(x, y, step), x = 4, 5)]), 'a row-major fragment')
        call expect(all(u(1:8, y) == [(value(x, y, step), x = 1, 8)]), 'a fragment with ghosts')
      end do
      call expect(all(u(0, :) == 0) .and. all(u(9, :) == 0) .and. all(u(:, 0) == 0) .and. all(u(:, 7) == 0), 'the rim is zero')
    end do
    call expect(ghosts%version() == 3 .and. halves(1)%version() == 3 .and. .not. ghosts%is_shown(), 'fragments tell their version')
    call heat%versions(versions)
    call expect(versions(size(versions)) == 3 .and. heat%newest() == 3, 'the object tells its versions')
    call heat%wait_newer(2_int64, version)
    call expect(version == 3, 'a newer version is there')
    call heat%wait_for(3_int64, timeout_ms=patience_ms)
    call heat%wait_for(4_int64, timeout_ms=1, stat=stat)
    call expect(stat == stillframe_timeout, 'the next version is not complete')
    call expect(ghosts%published_ns() > 10_int64**18, 'when a version was published is told')
    call turned%reattach_newer(1_int64, version, timeout_ms=patience_ms)
    call expect(version == 3 .and. turned%version() == 3, 'the newest version is taken')
    call turned%reattach_newer(3_int64, version, timeout_ms=1, stat=stat)
    call expect(stat == stillframe_timeout .and. turned%version() == 3, 'no newer one comes')
    call turned%reattach(0)
    call expect(all(t == 0), 'the initial version is zeros')
    call heat%writers(writers)
    call expect(size(writers) == 2, 'two writers')
    call expect(writers(2)%rank == 1 .and. writers(2)%alive .and. writers(2)%newest == 3 .and. writers(2)%from == 1 .and. &
      writers(2)%left == -1 .and. index(writers(2)%text, 'view columnmajor { var g') == 1, 'writers are told')
    call stillframe_objects(names)
    call expect(size(names) == 1 .and. names(1) == 'layouts', 'objects are listed')
    call again%open('layouts', look=.true.)
    call again%close()
    call stillframe_remove_object('layouts', stat=stat)
    call expect(stat == stillframe_in_use, 'an object with writers stays')
    call turned%detach()
    call rows%detach()
    call ghosts%detach()
    call halves(1)%detach()
    call halves(2)%detach()
    call heat%wait_newer(3_int64, version, timeout_ms=patience_ms, stat=stat)
    call expect(stat == stillframe_object_ended, 'all writers have left')
    call heat%close()
    call stillframe_remove_object('layouts')
  end subroutine

  pure function value(x, y, step) result(number)
    integer, intent(in) :: x, y, step
    real(real64) :: number

    number = 100 * x + y + 0.001_real64 * step
  end function

  function next_to(address, bytes) result(next)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_intptr_t
    type(c_ptr), intent(in) :: address
    integer, intent(in) :: bytes
    type(c_ptr) :: next
    integer(c_intptr_t) :: number

    number = transfer(address, number) + bytes
    next = transfer(number, next)
  end function

  subroutine check_loaned()
    type(stillframe_object) :: object
    type(stillframe_fragment) :: mine, reader
    real(real32), pointer :: next(:) => null(), before(:) => null(), seen(:) => null()
    integer :: step, i, stat

    call make(object, 'loaned', 'var u [1000] float32')
    call object%attach('{ var u = u }', mine, next, loaned=.true.)
    call object%attach_read('{ var u = u }', reader, seen)
    call mine%previous('u', before)
    call expect(.not. associated(before), 'there is no version before the first')
    next = [(i, i = 1, 1000)]
    do step = 1, 5
      call mine%publish(step)
      call reader%reattach(step, timeout_ms=patience_ms)
      call expect(all(seen == [(i + step - 1, i = 1, 1000)]), 'what was lent is read')
      call mine%previous('u', before)
      call mine%view('u', next)
      next = before + 1
    end do
    call reader%previous('u', before, stat=stat)
    call expect(stat == stillframe_bad_argument .and. .not. associated(before), 'a fragment to read has no version before')
    call reader%detach()
    call mine%detach()
    call object%attach('{ var u = u }', mine, next, zeros=.true.)
    call expect(all(next == 0), 'it begins with zeros where that is wanted')
    call mine%publish(6)
    call object%attach_read('{ var u = u }', reader, seen, version=6_int64, wait_ms=patience_ms, prefetch=.true.)
    call expect(all(seen == 0), 'zeros are read')
    call reader%detach()
    call mine%detach()
    call object%close()
    call stillframe_remove_object('loaned')
  end subroutine

  subroutine check_ranks()
    type(stillframe_object) :: object
    type(stillframe_fragment) :: all7, f1, f2, f3, f4, f5, f6, f7
    integer(int32), pointer :: a(:, :, :, :, :, :, :) => null(), p1(:) => null(), p2(:, :) => null(), p3(:, :, :) => null(), &
      p4(:, :, :, :) => null(), p5(:, :, :, :, :) => null(), p6(:, :, :, :, :, :) => null(), p7(:, :, :, :, :, :, :) => null()
    integer :: i

    call make(object, 'ranks', 'var a [2,3,2,3,2,3,2] int32')
    call object%attach('{ var a = a }', all7, a)
    a = reshape([(i, i = 1, 432)], [2, 3, 2, 3, 2, 3, 2])
    call all7%publish(1)
    call object%attach_read('{ var a [i] = a[i,1,1,1,1,1,1] }', f1, p1, version=1_int64)
    call object%attach_read('{ var a [i,j] = a[i,j,1,1,1,1,1] }', f2, p2, version=1_int64)
    call object%attach_read('{ var a [i,j,k] = a[i,j,k,1,1,1,1] }', f3, p3, version=1_int64)
    call object%attach_read('{ var a [i,j,k,l] = a[i,j,k,l,1,1,1] }', f4, p4, version=1_int64)
    call object%attach_read('{ var a [i,j,k,l,m] = a[i,j,k,l,m,1,1] }', f5, p5, version=1_int64)
    call object%attach_read('{ var a [i,j,k,l,m,n] = a[i,j,k,l,m,n,1] }', f6, p6, version=1_int64)
    call object%attach_read('{ var a = a }', f7, p7, version=1_int64, wait_ms=patience_ms, threads=1)
    call expect(all(p1 == a(:, 2, 2, 2, 2, 2, 2)), 'rank 1')
    call expect(all(p2 == a(:, :, 2, 2, 2, 2, 2)), 'rank 2')
    call expect(all(p3 == a(:, :, :, 2, 2, 2, 2)), 'rank 3')
    call expect(all(p4 == a(:, :, :, :, 2, 2, 2)), 'rank 4')
    call expect(all(p5 == a(:, :, :, :, :, 2, 2)), 'rank 5')
    call expect(all(p6 == a(:, :, :, :, :, :, 2)), 'rank 6')
    call expect(all(p7 == a), 'rank 7')
    call f1%detach()
    call f2%detach()
    call f3%detach()
    call f4%detach()
    call f5%detach()
    call f6%detach()
    call f7%detach()
    call all7%detach()
    call object%close()
    call stillframe_remove_object('ranks')
  end subroutine

  subroutine check_kinds()
    type(stillframe_object) :: object
    type(stillframe_fragment) :: mine, reader
    complex(real64), pointer :: z(:) => null()
    logical(c_bool), pointer :: flags(:) => null()
    real(real64), pointer :: rho(:) => null()
    integer(int64), pointer :: id(:) => null(), wrong(:, :) => null()
    integer :: stat
    character(400) :: message

    call object%create('kinds', 'type Cell struct { rho float64; id int64 }' // new_line('a') // 'var mesh [N]Cell' // &
      new_line('a') // 'var z [3] complex128' // new_line('a') // 'var flags [4] bool', names=['N'], values=[5], &
      initial=10_int64, arena_bytes=small)
    call object%attach('view aligned { var rho [i] = mesh[i].rho; var id [i] = mesh[i].id; var z = z; var flags = flags }', mine)
    call expect(mine%version() == 10, 'an object begins with its initial version')
    call mine%view('rho', rho)
    call mine%view('id', id, lower=[0])
    call mine%view('z', z)
    call mine%view('flags', flags)
    rho = 0.5_real64
    id = [0, 1, 2, 3, 4]
    z = (1, 2)
    flags = [.true._c_bool, .false._c_bool, .true._c_bool, .false._c_bool]
    call expect(lbound(id, 1) == 0, 'bounds of a view')
    call mine%publish(11)
    call object%attach_read('view aligned { var z = z; var flags = flags; var id [i] = mesh[i].id }', reader, version=11_int64, &
      wait_ms=patience_ms)
    call reader%view('z', z)
    call reader%view('flags', flags)
    call reader%view('id', id)
    call expect(all(z == (1, 2)) .and. count(flags) == 2 .and. all(id == [0, 1, 2, 3, 4]), 'all kinds are read')
    call reader%view('id', rho, stat=stat, errmsg=message)
    call expect(stat == stillframe_wrong_dtype .and. index(message, 'int64') > 0 .and. .not. associated(rho), 'the kind has to fit')
    call reader%view('id', wrong, stat=stat)
    call expect(stat == stillframe_wrong_shape, 'the rank has to fit')
    call reader%view('e', id, stat=stat, errmsg=message)
    call expect(stat == stillframe_object_variable .and. index(message, 'z, flags, id') > 0, 'variables are named')
    call reader%detach()
    call object%attach_read('{ var id [i] = mesh[i].id }', reader, rho, stat=stat)
    call expect(stat == stillframe_wrong_dtype .and. .not. associated(rho), 'a pointer of another kind is refused')
    call object%attach_read('{ var id [i] = mesh[i].id }', reader, id)
    call reader%detach()
    call mine%detach()
    call object%close()
    call stillframe_remove_object('kinds')
  end subroutine

  subroutine check_misuse()
    type(stillframe_object) :: object, other
    type(stillframe_fragment) :: mine, second
    real(real64), pointer :: g(:, :) => null()
    character(600) :: message
    integer :: stat

    call object%open('misuse', stat=stat)
    call expect(stat == stillframe_no_object, 'there is no such object')
    call object%open('misuse', wait_ms=1, stat=stat)
    call expect(stat == stillframe_timeout, 'it does not come')
    call object%create('misuse', 'var grid [M] float64', stat=stat, errmsg=message)
    call expect(stat == stillframe_drepl_text .and. index(message, '`M`') > 0, 'mistakes of a text are shown')
    call object%create('misuse', 'var grid [M] float64', names=['M', 'N'], values=[1], stat=stat)
    call expect(stat == stillframe_bad_argument, 'names have their values')
    call object%create('misuse', 'var grid [M] float64', names=['M', 'N'], stat=stat)
    call expect(stat == stillframe_bad_argument, 'names come with values')
    call make(object, 'misuse', 'var grid [8,8] float64')
    call object%create('misuse', 'var grid [8,8] float64', stat=stat)
    call expect(stat == stillframe_bad_argument, 'the variable has an object')
    call other%create('misuse', 'var grid [9,9] float64', stat=stat)
    call expect(stat == stillframe_object_other_text, 'the name has another text')
    call object%attach('{ var g [x:4,y:8] = gird[x,y] }', mine, g, stat=stat, errmsg=message)
    call expect(stat == stillframe_drepl_text .and. index(message, 'gird') > 0 .and. .not. associated(g), 'nor in a fragment')
    call object%attach('view rows { var g = grid }', mine, g, stat=stat)
    call expect(stat == stillframe_wrong_shape, 'a row-major fragment has to be asked for')
    call object%attach('{ var g = grid }', mine, g, lower=[1], stat=stat)
    call expect(stat == stillframe_wrong_shape, 'as many bounds as dimensions')
    call object%attach('{ var g [x:4,y:8] = grid[x,y] }', mine, g, rank=3)
    call object%attach('{ var g [x:4,y:8] = grid[x,y] }', mine, stat=stat)
    call expect(stat == stillframe_bad_argument, 'the variable has a fragment')
    call object%attach('{ var g [x:2,y:8] = grid[x+3,y] }', second, wait_ms=1, stat=stat, errmsg=message)
    call expect(stat == stillframe_object_overlap .and. index(message, 'rank 3') > 0, 'who has the elements is named')
    call mine%publish(-1, stat=stat)
    call expect(stat == stillframe_bad_argument, 'versions are not negative')
    call object%attach('{ var g [x:2,y:8] = grid[x+3,y] }', second, writers=-1, stat=stat, errmsg=message)
    call expect(stat == stillframe_bad_argument .and. index(message, 'writers -1') > 0, 'counts are not negative')
    call mine%publish(0, stat=stat)
    call expect(stat == stillframe_not_increasing, 'the initial version is there already')
    call mine%reattach(1, stat=stat)
    call expect(stat == stillframe_bad_argument, 'a fragment to write is not reattached')
    call second%publish(1, stat=stat)
    call expect(stat == stillframe_bad_handle, 'nothing was attached')
    call second%detach()
    call mine%detach()
    call object%close()
    call other%close()
    call stillframe_remove_object('misuse')
    call stillframe_remove_object('misuse', stat=stat)
    call expect(stat == stillframe_no_object, 'it is gone')
  end subroutine
end program
