//! Chunks as they are stored: plain, or compressed by Zarr's codecs `zstd` and `blosc`.
//!
//! # Safety
//!
//! c-blosc is called with addresses and lengths of live slices only, and only through its functions without global state.
//! It unpacks nothing but what `blosc_cbuffer_validate` has found safe to unpack into as many bytes as there are.
#![allow(unsafe_code)]

use crate::Codec;
use crate::manifest::CodecName;
use std::ffi::{c_int, c_void};

/// Effort of lz4 within blosc, the level numcodecs takes too.
pub(crate) const BLOSC_LEVEL: u8 = 5;
/// Most bytes for which blosc keeps the size of elements in its header; it shuffles larger ones as if they were bytes.
const TYPESIZE_MAX: usize = 255;

/// The size of elements that blosc is told.
pub(crate) fn typesize(element_bytes: usize) -> usize {
    if element_bytes > TYPESIZE_MAX { 1 } else { element_bytes }
}

/// Compresses a whole chunk into `out`, whose content is replaced.
pub(crate) fn encode(codec: Codec, element_bytes: usize, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    match codec {
        Codec::Plain => out.extend_from_slice(chunk),
        Codec::Zstd { level } => {
            out.resize(zstd::zstd_safe::compress_bound(chunk.len()), 0);
            let bytes = zstd::bulk::compress_to_buffer(chunk, out.as_mut_slice(), level);
            out.truncate(bytes.map_err(|error| format!("zstd cannot compress: {error}"))?);
        }
        Codec::Lz4 => {
            out.resize(chunk.len() + blosc_src::BLOSC_MAX_OVERHEAD as usize, 0);
            // SAFETY: source and destination are live slices of the lengths given, and the name ends with a zero.
            let bytes = unsafe {
                blosc_src::blosc_compress_ctx(
                    c_int::from(BLOSC_LEVEL),
                    blosc_src::BLOSC_SHUFFLE as c_int,
                    typesize(element_bytes),
                    chunk.len(),
                    chunk.as_ptr().cast::<c_void>(),
                    out.as_mut_ptr().cast::<c_void>(),
                    out.len(),
                    c"lz4".as_ptr(),
                    0,
                    1,
                )
            };
            match usize::try_from(bytes) {
                Ok(bytes) if bytes > 0 => out.truncate(bytes),
                _ => return Err(format!("blosc cannot compress {} bytes ({bytes})", chunk.len())),
            }
        }
    }
    Ok(())
}

/// Unpacks a stored chunk, which has to fill all of `out`.
///
/// # Errors
/// What makes no sense in it. Nothing is taken for granted of `encoded`.
pub(crate) fn decode(codec: CodecName, encoded: &[u8], out: &mut [u8]) -> Result<(), String> {
    let check = |bytes: usize| match bytes == out.len() {
        true => Ok(()),
        false => Err(format!("it unpacks to {bytes} bytes instead of {}", out.len())),
    };
    match codec {
        CodecName::Bytes => {
            check(encoded.len())?;
            out.copy_from_slice(encoded);
        }
        CodecName::Zstd => {
            let expected = out.len();
            let bytes = zstd::bulk::decompress_to_buffer(encoded, out).map_err(|error| format!("zstd: {error}"))?;
            if bytes != expected {
                return Err(format!("it unpacks to {bytes} bytes instead of {expected}"));
            }
        }
        CodecName::Lz4 => {
            let mut bytes = 0;
            // SAFETY: the slice is live and of the length given; the pointer refers to a live number.
            let valid =
                unsafe { blosc_src::blosc_cbuffer_validate(encoded.as_ptr().cast(), encoded.len(), &mut bytes) };
            if valid != 0 {
                return Err("it is no buffer of blosc's".into());
            }
            check(bytes)?;
            // SAFETY: the buffer was validated, and both slices are live; blosc writes at most the length given.
            let unpacked = unsafe {
                blosc_src::blosc_decompress_ctx(encoded.as_ptr().cast(), out.as_mut_ptr().cast(), out.len(), 1)
            };
            if usize::try_from(unpacked) != Ok(out.len()) {
                return Err(format!("blosc cannot unpack it ({unpacked})"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codecs() -> [Codec; 3] {
        [Codec::Plain, Codec::Zstd { level: 3 }, Codec::Lz4]
    }

    #[test]
    fn chunks_come_back_from_every_codec() {
        let numbers: Vec<u8> = (0..100_000u64).flat_map(|n| ((n as f64).sqrt()).to_le_bytes()).collect();
        for codec in codecs() {
            for (element, chunk) in [(8, &numbers[..]), (1, &numbers[..1]), (300, &numbers[..3000])] {
                let (mut encoded, mut out) = (Vec::new(), vec![1; chunk.len()]);
                encode(codec, element, chunk, &mut encoded).unwrap();
                decode(codec.name(), &encoded, &mut out).unwrap();
                assert!(out == chunk, "{codec:?}");
                assert!(decode(codec.name(), &encoded, &mut vec![0; chunk.len() + 1]).is_err(), "{codec:?}");
                assert!(decode(codec.name(), &encoded[..encoded.len() - 1], &mut out).is_err(), "{codec:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_and_nothing_worse(
            garbage in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0usize..400,
            flip in 1u8..,
        ) {
            let chunk: Vec<u8> = (0..5000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
            for codec in codecs() {
                let mut out = vec![0; chunk.len()];
                let _ = decode(codec.name(), &garbage, &mut out);
                let mut encoded = Vec::new();
                encode(codec, 4, &chunk, &mut encoded).unwrap();
                let at = at % encoded.len();
                encoded[at] ^= flip;
                let _ = decode(codec.name(), &encoded, &mut out);
            }
        }
    }
}
