! A COMMON block, a saved array, an allocated one and one on the stack, which all have what was written.
program common_blocks
   implicit none
   real(8) :: shared(1000000)
   common /block/ shared
   real(8), save, volatile :: kept(800000) = 1.0d0
   real(8), allocatable :: own(:)
   integer :: step

   allocate (own(2000000))
   shared = 2.0d0
   own = 3.0d0
   do step = 1, 5
      kept(step) = real(step, 8)
      own = own + kept(step)
      own = [own, own(1:1000)]
   end do
   if (abs(own(1) - 18.0d0) > 1.0d-12 .or. size(own) /= 2005000) error stop "own"
   if (abs(total(500000) - 1000000.0d0) > 1.0d-6) error stop "total"
   print '(a)', "fine"

contains

   function total(count)
      integer, intent(in) :: count
      real(8) :: total
      real(8) :: local(count)
      local = shared(1:count)
      total = sum(local)
   end function total

end program common_blocks
