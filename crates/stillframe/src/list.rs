//! Lists whose length a user decides. Where there is no memory for one, that is an error: the library ends no process.

use stillframe_kernel::Failure;

/// Makes room for more elements of a list.
pub(crate) fn make_room<T>(list: &mut Vec<T>, more: usize) -> Result<(), Failure> {
    list.try_reserve(more)
        .map_err(|_| Failure::no_memory(list.len().saturating_add(more).saturating_mul(size_of::<T>())))
}

/// Adds an element to a list.
pub(crate) fn push<T>(list: &mut Vec<T>, element: T) -> Result<(), Failure> {
    make_room(list, 1)?;
    list.push(element);
    Ok(())
}

/// Makes a list as long as this, with copies of an element at its end if it was shorter. On an error it is as it was.
pub(crate) fn resize<T: Clone>(list: &mut Vec<T>, length: usize, element: T) -> Result<(), Failure> {
    make_room(list, length.saturating_sub(list.len()))?;
    list.resize(length, element);
    Ok(())
}

/// A list of so many copies of an element.
pub(crate) fn filled<T: Clone>(element: T, length: usize) -> Result<Vec<T>, Failure> {
    let mut list = Vec::new();
    resize(&mut list, length, element)?;
    Ok(list)
}

/// Another list with the elements of one, and room for it to be so long.
pub(crate) fn copied<T: Copy>(elements: &[T], length: usize) -> Result<Vec<T>, Failure> {
    let mut list = Vec::new();
    make_room(&mut list, length.max(elements.len()))?;
    list.extend_from_slice(elements);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_longer_than_memory_is_an_error_and_stays_as_it_was() {
        let mut list = vec![1u64, 2];
        for length in [usize::MAX / 4, usize::MAX / 8, usize::MAX] {
            assert_eq!(resize(&mut list, length, 0).unwrap_err().errno(), libc::ENOMEM);
            assert_eq!(filled(0u64, length).unwrap_err().errno(), libc::ENOMEM);
            assert_eq!(copied(&list, length).unwrap_err().errno(), libc::ENOMEM);
        }
        assert_eq!(list, [1, 2]);
        resize(&mut list, 3, 7).unwrap();
        push(&mut list, 8).unwrap();
        assert_eq!(copied(&list, 0).unwrap(), [1, 2, 7, 8]);
    }
}
