! A group of three ranks, all of them in this program, and its observer.
program group
  use, intrinsic :: iso_fortran_env, only: int64
  use expecting
  use stillframe
  implicit none

  call check()
  call conclude()

contains

  subroutine check()
    type(stillframe_region) :: regions(0:2), plain
    type(stillframe_group) :: team, other
    type(stillframe_observer) :: observer
    type(stillframe_snapshot), allocatable :: snapshots(:)
    type(stillframe_rank), allocatable :: ranks(:)
    integer :: u(2, 3), rank, stat
    integer(int64) :: version
    character(200) :: message

    call regions(0)%create('half', rank=0, stat=stat)
    call expect(stat == stillframe_bad_option, 'a rank belongs to a number of ranks')
    do rank = 0, 2
      call regions(rank)%create('team', rank=rank, ranks=3, keep=4, drift=8)
    end do
    do rank = 0, 1
      u = 10 * rank + 1
      call regions(rank)%publish(1, 'u', u)
    end do
    call team%open('team')
    call expect(team%size() == 3, 'a group has as many ranks as it was told')
    call team%newest(snapshots, stat=stat, errmsg=message)
    call expect(stat /= stillframe_ok .and. len_trim(message) > 0, 'a rank without a version leaves the group without one')
    u = 21
    call regions(2)%publish(1, 'u', u)
    do rank = 0, 1
      u = 10 * rank + 2
      call regions(rank)%publish(2, 'u', u)
    end do
    call team%newest(snapshots)
    call expect(lbound(snapshots, 1) == 0 .and. ubound(snapshots, 1) == 2, 'a snapshot for each rank')
    do rank = 0, 2
      call snapshots(rank)%read('u', u)
      call expect(snapshots(rank)%version() == 1 .and. all(u == 10 * rank + 1), 'the newest version that every rank has')
    end do
    call team%ranks(ranks)
    call expect(lbound(ranks, 1) == 0 .and. all(ranks%state == stillframe_live) .and. all(ranks%newest == [2, 2, 1]) &
      .and. all(ranks%behind == [0, 0, 1]), 'ranks that are behind are told')
    call team%next_after(snapshots, timeout_ms=10, stat=stat)
    call expect(stat == stillframe_timeout, 'there is no next version that every rank has')
    u = 22
    call regions(2)%publish(2, 'u', u)
    call team%next_after(snapshots, timeout_ms=10000)
    call expect(all([(snapshots(rank)%version() == 2, rank = 0, 2)]), 'when every rank has it, it comes')
    call team%version(2, snapshots)
    call team%version(2_int64, snapshots)
    call team%newest_after(snapshots, timeout_ms=10000, after=1_int64)
    call snapshots(2)%read('u', u)
    call expect(all(u == 22), 'a version is had by its number, and by what it follows')
    call team%wait_newer(1_int64, version, timeout_ms=10000)
    call expect(version == 2, 'waiting says which')

    call observer%open('team', stat=stat, errmsg=message)
    call expect(stat == stillframe_is_group .and. len_trim(message) > 0, 'a group is not opened as a region')
    call plain%create('plain')
    call plain%publish(1, 'u', u)
    call other%open('plain', stat=stat)
    call expect(stat == stillframe_not_group, 'a region is not opened as a group')
    call plain%unlink()
    call regions(1)%close()
    call team%ranks(ranks)
    call expect(ranks(1)%state == stillframe_dead .and. ranks(0)%state == stillframe_live, 'a rank that is gone is told')
    call team%next_after(snapshots, timeout_ms=10000, stat=stat, errmsg=message)
    call expect(stat /= stillframe_ok .and. index(message, '1') > 0, 'waiting for it ends, and names it')
    do rank = 0, 2
      call snapshots(rank)%release()
    end do
    call team%close()
    call regions(0)%close()
    call regions(2)%close()
  end subroutine
end program
