! Algorithm 1 of the TCASM paper in Fortran: producer NAME ELEMENTS STEPS
program producer
   use tcasm_calls
   implicit none
   character(len=200) :: name, word
   integer :: elements, steps, step
   integer(c_int) :: file
   integer(c_size_t) :: bytes
   type(c_ptr) :: address
   real(c_double), pointer :: data(:)

   call get_command_argument(1, name)
   call get_command_argument(2, word)
   read (word, *) elements
   call get_command_argument(3, word)
   read (word, *) steps
   bytes = 8_c_size_t*elements
   file = shm_open(trim(name)//c_null_char, ior(o_creat, o_rdwr), int(o'600', c_int))
   if (file < 0) error stop "shm_open"
   if (ftruncate(file, int(bytes, c_long)) /= 0) error stop "ftruncate"
   address = mmap(c_null_ptr, bytes, ior(prot_read, prot_write), map_private, file, 0_c_long)
   call c_f_pointer(address, data, [elements])
   do step = 1, steps
      data = step
      if (msync(address, bytes, ior(ms_sync, ms_update)) /= 0) error stop "msync"
   end do
   if (munmap(address, bytes) /= 0) error stop "munmap"
end program
