! Algorithm 2 of the TCASM paper in Fortran: observer NAME ELEMENTS LAST
program observer
   use tcasm_calls
   implicit none
   character(len=200) :: name, word
   integer :: elements
   integer(c_int) :: file, ignored
   integer(c_size_t) :: bytes
   real(c_double) :: last, seen
   type(c_ptr) :: address
   real(c_double), pointer :: data(:)

   call get_command_argument(1, name)
   call get_command_argument(2, word)
   read (word, *) elements
   call get_command_argument(3, word)
   read (word, *) last
   bytes = 8_c_size_t*elements
   do
      file = shm_open(trim(name)//c_null_char, o_rdonly, 0_c_int)
      if (file >= 0) exit
      ignored = usleep(1000_c_int)
   end do
   ! The producer's first publication says that the file has its length.
   ignored = usleep(100000_c_int)
   seen = 0
   do while (seen < last)
      address = mmap(c_null_ptr, bytes, prot_read, map_shared, file, 0_c_long)
      call c_f_pointer(address, data, [elements])
      if (any(data /= data(1))) error stop "mixed"
      if (data(1) < seen) error stop "backwards"
      seen = data(1)
      if (munmap(address, bytes) /= 0) error stop "munmap"
   end do
   print '(a,i0,a)', "saw ", nint(seen), " in order"
end program
