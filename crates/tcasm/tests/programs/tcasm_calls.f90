! The system calls that the paper's Fortran library wraps, straight from the C library.
module tcasm_calls
   use, intrinsic :: iso_c_binding
   implicit none
   integer(c_int), parameter :: o_rdonly = 0, o_rdwr = 2, o_creat = 64
   integer(c_int), parameter :: prot_read = 1, prot_write = 2, map_shared = 1, map_private = 2
   integer(c_int), parameter :: ms_sync = 4, ms_update = 8

   interface
      integer(c_int) function shm_open(name, flags, mode) bind(c)
         import :: c_char, c_int
         character(kind=c_char), intent(in) :: name(*)
         integer(c_int), value :: flags, mode
      end function
      integer(c_int) function ftruncate(file, length) bind(c)
         import :: c_int, c_long
         integer(c_int), value :: file
         integer(c_long), value :: length
      end function
      type(c_ptr) function mmap(address, length, protection, flags, file, offset) bind(c)
         import :: c_ptr, c_int, c_long, c_size_t
         type(c_ptr), value :: address
         integer(c_size_t), value :: length
         integer(c_int), value :: protection, flags, file
         integer(c_long), value :: offset
      end function
      integer(c_int) function msync(address, length, flags) bind(c)
         import :: c_ptr, c_int, c_size_t
         type(c_ptr), value :: address
         integer(c_size_t), value :: length
         integer(c_int), value :: flags
      end function
      integer(c_int) function munmap(address, length) bind(c)
         import :: c_ptr, c_int, c_size_t
         type(c_ptr), value :: address
         integer(c_size_t), value :: length
      end function
      integer(c_int) function usleep(microseconds) bind(c)
         import :: c_int
         integer(c_int), value :: microseconds
      end function
   end interface
end module
