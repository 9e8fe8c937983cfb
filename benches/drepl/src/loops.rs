//! The same loops in Rust as in `loops.c`, and those in C.
//!
//! # Safety
//!
//! The loops in C are told how many elements there are; [`in_c`] compares that with the lengths first.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::kinds::Kind;

/// Block of the transposes, in elements of each side.
const BLOCK: usize = 16;

unsafe extern "C" {
    fn c_contiguous(from: *const c_void, to: *mut c_void, bytes: usize);
    fn c_every_fourth(from: *const c_void, to: *mut c_void, n: usize);
    fn c_into_every_fourth(from: *const c_void, to: *mut c_void, n: usize);
    fn c_records_to_arrays(from: *const c_void, to: *mut c_void, n: usize);
    fn c_arrays_to_records(from: *const c_void, to: *mut c_void, n: usize);
    fn c_vectors_to_arrays(from: *const c_void, to: *mut c_void, n: usize);
    fn c_arrays_to_vectors(from: *const c_void, to: *mut c_void, n: usize);
    fn c_transpose_2d(from: *const c_void, to: *mut c_void, n: usize);
    fn c_transpose_2d_float(from: *const c_void, to: *mut c_void, n: usize);
    fn c_transpose_3d(from: *const c_void, to: *mut c_void, n: usize);
    fn c_halo(from: *const c_void, to: *mut c_void, n: usize);
    fn c_byte_order(from: *const c_void, to: *mut c_void, n: usize);
    fn c_single_precision(from: *const c_void, to: *mut c_void, n: usize);
}

/// Executes the loop in C.
pub fn in_c(kind: Kind, n: usize, from: &[f64], to: &mut [f64]) {
    let (from_bytes, to_bytes) = kind.bytes(n);
    assert!(size_of_val(from) >= from_bytes && size_of_val(to) >= to_bytes);
    let call = match kind {
        Kind::Contiguous => c_contiguous,
        Kind::EveryFourth => c_every_fourth,
        Kind::IntoEveryFourth => c_into_every_fourth,
        Kind::RecordsToArrays => c_records_to_arrays,
        Kind::ArraysToRecords => c_arrays_to_records,
        Kind::VectorsToArrays => c_vectors_to_arrays,
        Kind::ArraysToVectors => c_arrays_to_vectors,
        Kind::Transpose2d | Kind::Transpose2dPower => c_transpose_2d,
        Kind::Transpose2dFloat => c_transpose_2d_float,
        Kind::Transpose3d => c_transpose_3d,
        Kind::Halo => c_halo,
        Kind::ByteOrder => c_byte_order,
        Kind::SinglePrecision => c_single_precision,
    };
    // SAFETY: both sides have the bytes that the loop touches for n, and are aligned to 8.
    unsafe { call(from.as_ptr().cast(), to.as_mut_ptr().cast(), n) }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Cell {
    rho: f64,
    e: f64,
    t: f32,
    id: i32,
}

/// The bytes of an array.
pub fn bytes(all: &[f64]) -> &[u8] {
    of(all)
}

/// The bytes of an array.
pub fn bytes_mut(all: &mut [f64]) -> &mut [u8] {
    of_mut(all)
}

/// Elements of another type.
fn of<T: Copy>(all: &[f64]) -> &[T] {
    // SAFETY: T is u8, f32, u64 or Cell, of which any bytes are one, and none is aligned to more than 8.
    unsafe { std::slice::from_raw_parts(all.as_ptr().cast(), size_of_val(all) / size_of::<T>()) }
}

/// Elements of another type.
fn of_mut<T: Copy>(all: &mut [f64]) -> &mut [T] {
    // SAFETY: as above; any bytes are an f64.
    unsafe { std::slice::from_raw_parts_mut(all.as_mut_ptr().cast(), size_of_val(all) / size_of::<T>()) }
}

/// Executes the loop in Rust.
pub fn in_rust(kind: Kind, n: usize, from: &[f64], to: &mut [f64]) {
    match kind {
        Kind::Contiguous => to[..n / 8].copy_from_slice(&from[..n / 8]),
        Kind::EveryFourth => {
            to[..n].iter_mut().zip(from.iter().step_by(4)).for_each(|(to, from)| *to = *from);
        }
        Kind::IntoEveryFourth => {
            to.iter_mut().step_by(4).zip(&from[..n]).for_each(|(to, from)| *to = *from);
        }
        Kind::RecordsToArrays => {
            let (rho, rest) = to.split_at_mut(n);
            let (e, rest) = rest.split_at_mut(n);
            let (t, id) = of_mut::<f32>(rest).split_at_mut(n);
            let cells = of::<Cell>(from)[..n].iter().zip(rho).zip(e).zip(t).zip(id);
            for ((((cell, rho), e), t), id) in cells {
                *rho = cell.rho;
                *e = cell.e;
                *t = cell.t;
                *id = f32::from_bits(cell.id as u32);
            }
        }
        Kind::ArraysToRecords => {
            let (rho, rest) = from.split_at(n);
            let (e, rest) = rest.split_at(n);
            let (t, id) = of::<f32>(rest).split_at(n);
            let cells = of_mut::<Cell>(to)[..n].iter_mut().zip(rho).zip(e).zip(t).zip(id);
            for ((((cell, rho), e), t), id) in cells {
                *cell = Cell { rho: *rho, e: *e, t: *t, id: id.to_bits() as i32 };
            }
        }
        Kind::VectorsToArrays => {
            let (x, rest) = to.split_at_mut(n);
            let (y, z) = rest.split_at_mut(n);
            let (vectors, _) = from[..3 * n].as_chunks::<3>();
            for (((vector, x), y), z) in vectors.iter().zip(x).zip(y).zip(z) {
                [*x, *y, *z] = *vector;
            }
        }
        Kind::ArraysToVectors => {
            let (x, rest) = from.split_at(n);
            let (y, z) = rest.split_at(n);
            let (vectors, _) = to[..3 * n].as_chunks_mut::<3>();
            for (((vector, x), y), z) in vectors.iter_mut().zip(x).zip(y).zip(z) {
                *vector = [*x, *y, *z];
            }
        }
        Kind::Transpose2d | Kind::Transpose2dPower => transpose(from, to, n),
        Kind::Transpose2dFloat => transpose(of::<f32>(from), of_mut::<f32>(to), n),
        Kind::Transpose3d => {
            let (from, to) = (&from[..n * n * n], &mut to[..n * n * n]);
            for j in 0..n {
                for block_i in (0..n).step_by(BLOCK) {
                    for block_k in (0..n).step_by(BLOCK) {
                        for i in block_i..(block_i + BLOCK).min(n) {
                            for k in block_k..(block_k + BLOCK).min(n) {
                                to[(i * n + j) * n + k] = from[(k * n + j) * n + i];
                            }
                        }
                    }
                }
            }
        }
        Kind::Halo => {
            let row = n + 2;
            let at = |k: usize, j: usize, i: usize| (k * row + j) * row + i;
            let mut copy =
                |to_at: usize, from_at: usize| to[to_at..to_at + n].copy_from_slice(&from[from_at..from_at + n]);
            for j in 1..=n {
                copy(at(0, j, 1), at(n, j, 1));
                copy(at(n + 1, j, 1), at(1, j, 1));
            }
            for k in 1..=n {
                copy(at(k, 0, 1), at(k, n, 1));
                copy(at(k, n + 1, 1), at(k, 1, 1));
            }
            for k in 1..=n {
                for j in 1..=n {
                    to[at(k, j, 0)] = from[at(k, j, n)];
                    to[at(k, j, n + 1)] = from[at(k, j, 1)];
                }
            }
        }
        Kind::ByteOrder => {
            let pairs = of_mut::<u64>(to)[..n].iter_mut().zip(&of::<u64>(from)[..n]);
            pairs.for_each(|(to, from)| *to = from.swap_bytes());
        }
        Kind::SinglePrecision => {
            let pairs = of_mut::<f32>(to)[..n].iter_mut().zip(&from[..n]);
            pairs.for_each(|(to, from)| *to = *from as f32);
        }
    }
}

fn transpose<T: Copy>(from: &[T], to: &mut [T], n: usize) {
    let (from, to) = (&from[..n * n], &mut to[..n * n]);
    for block_i in (0..n).step_by(BLOCK) {
        for block_j in (0..n).step_by(BLOCK) {
            for i in block_i..(block_i + BLOCK).min(n) {
                for j in block_j..(block_j + BLOCK).min(n) {
                    to[i * n + j] = from[j * n + i];
                }
            }
        }
    }
}
