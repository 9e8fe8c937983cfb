//! What the program was loaded with: itself and its libraries.

use crate::files::Room;
use crate::kernel::Descriptor;
use libc::{c_int, c_void, size_t};
use std::ffi::CStr;
use std::ops::Range;

/// The program, or a library.
pub struct Object<'o> {
    /// What its addresses are counted from.
    base: usize,
    pub headers: &'o [libc::Elf64_Phdr],
    /// The path of its file; nothing for the program.
    pub name: &'o CStr,
}

impl Object<'_> {
    /// Where a header's part lies.
    pub fn range(&self, header: &libc::Elf64_Phdr) -> Range<usize> {
        let begin = self.base + header.p_vaddr as usize;
        begin..begin + header.p_memsz as usize
    }

    /// Opens its file, if it has one. That may be another one by now, and of a program that was begun by its loader it is the loader's: so the
    /// headers are compared.
    pub fn open(&self) -> Option<Descriptor> {
        let path = match self.name.to_bytes() {
            [] => c"/proc/self/exe",
            path if path.contains(&b'/') => self.name,
            // The kernel's own.
            _ => return None,
        };
        let file = Descriptor::open(path, libc::O_RDONLY).ok()?;
        self.is_of(&file).then_some(file)
    }

    /// Whether the headers of a file (elf(5)) are those that were loaded.
    fn is_of(&self, file: &Descriptor) -> bool {
        let Some(mut room) = Room::new() else { return false };
        // SAFETY: headers are plain data, and there are that many.
        let loaded =
            unsafe { std::slice::from_raw_parts(self.headers.as_ptr().cast::<u8>(), size_of_val(self.headers)) };
        // Where they are in the file.
        let mut offset = [0; 8];
        if file.read_at(&mut offset, 32) != Ok(offset.len()) {
            return false;
        }
        let Some(place) = room.all_mut().get_mut(..loaded.len()) else { return false };
        file.read_at(place, usize::from_le_bytes(offset)) == Ok(loaded.len()) && place == loaded
    }

    /// The segments whose flags, of these, are those.
    pub fn segments(&self, of: u32, are: u32) -> impl Iterator<Item = &libc::Elf64_Phdr> {
        self.headers.iter().filter(move |header| header.p_type == libc::PT_LOAD && header.p_flags & of == are)
    }
}

/// Calls a function with each.
pub fn each(mut visit: impl FnMut(&Object<'_>)) {
    let mut visit: &mut dyn FnMut(&Object<'_>) = &mut visit;
    // SAFETY: `call` is called with what is loaded, one after the other, and with the function, which lives as long.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut visit).cast()) };
}

unsafe extern "C" fn call(info: *mut libc::dl_phdr_info, _: size_t, visit: *mut c_void) -> c_int {
    // SAFETY: the linker gives headers that are there, with their number, and a name that ends with a zero; the rest is what `each` gave.
    let (object, visit) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let name = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
        (Object { base: info.dlpi_addr as usize, headers, name }, &mut *visit.cast::<&mut dyn FnMut(&Object<'_>)>())
    };
    visit(&object);
    0
}
