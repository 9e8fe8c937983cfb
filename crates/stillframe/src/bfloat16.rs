//! Elements for readers that have no `bfloat16`: its numbers as the `float32` that are the same ones.

use stillframe_segment::DType;
use stillframe_segment::dtype::Field;

/// Whether elements are numbers of `bfloat16`, or records that have some.
pub fn has_bfloat16(dtype: &DType) -> bool {
    match dtype {
        DType::Bfloat16 => true,
        DType::Record { fields, .. } => fields.iter().any(|field| has_bfloat16(&field.dtype)),
        _ => false,
    }
}

/// The type with `float32` in the place of `bfloat16`. A record that has some has its fields one behind the other, without padding.
pub fn wide_dtype(dtype: &DType) -> DType {
    match dtype {
        DType::Bfloat16 => DType::Float(4),
        DType::Record { fields, .. } if has_bfloat16(dtype) => {
            let mut end = 0_u32;
            let mut wide = Vec::with_capacity(fields.len());
            for field in by_offset(fields) {
                let dtype = wide_dtype(&field.dtype);
                let bytes = dtype.bytes() as u32;
                wide.push(Field { name: field.name.clone(), dtype, offset: end });
                end = end.saturating_add(bytes);
            }
            DType::Record { fields: wide, bytes: end }
        }
        other => other.clone(),
    }
}

/// Appends elements of this type to `out` as elements of the [`wide_dtype`] one.
pub fn widen(dtype: &DType, elements: &[u8], out: &mut Vec<u8>) {
    match dtype {
        DType::Bfloat16 => {
            let (numbers, _) = elements.as_chunks::<2>();
            // It is the upper half of the float32, bit by bit.
            out.extend(numbers.iter().flat_map(|bits| (u32::from(u16::from_ne_bytes(*bits)) << 16).to_ne_bytes()));
        }
        DType::Record { fields, bytes } if has_bfloat16(dtype) => {
            let fields = by_offset(fields);
            for element in elements.chunks_exact(*bytes as usize) {
                for field in &fields {
                    let start = field.offset as usize;
                    let inside = element.get(start..start + field.dtype.bytes()).unwrap_or_default();
                    widen(&field.dtype, inside, out);
                }
            }
        }
        _ => out.extend_from_slice(elements),
    }
}

/// The fields of a record in the order in which they lie.
fn by_offset(fields: &[Field]) -> Vec<&Field> {
    let mut sorted: Vec<&Field> = fields.iter().collect();
    sorted.sort_by_key(|field| field.offset);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16;

    #[test]
    fn numbers_stay_what_they_are_wherever_they_lie() {
        let field = |name: &str, dtype, offset| Field { name: name.into(), dtype, offset };
        let inner = DType::packed([("w", DType::Bfloat16), ("tag", DType::Uint(1))]).unwrap();
        let fields = vec![field("id", DType::Uint(1), 7), field("w", DType::Bfloat16, 0), field("at", inner, 3)];
        let cell = DType::Record { fields, bytes: 9 };
        let wide = wide_dtype(&cell);
        assert_eq!(wide.check(), Ok(()));
        assert_eq!(
            (wide.to_string().as_str(), wide.bytes()),
            ("{w: float32, at: {w: float32, tag: uint8}, id: uint8}", 10)
        );

        let bits = |number: f32| bf16::from_f32(number).to_ne_bytes();
        let ([a, b], [c, d]) = (bits(1.5), bits(f32::NEG_INFINITY));
        let element = [a, b, 99, c, d, 7, 99, 8, 99];
        let mut out = Vec::new();
        widen(&cell, &[element, element].concat(), &mut out);
        let expected = [&1.5_f32.to_ne_bytes()[..], &f32::NEG_INFINITY.to_ne_bytes(), &[7, 8]].concat();
        assert_eq!(out, [expected.clone(), expected].concat());

        for bits in [0, 0x8000, 1, 0x3f80, 0x7f80, 0x7fc1_u16] {
            let mut out = Vec::new();
            widen(&DType::Bfloat16, &bits.to_ne_bytes(), &mut out);
            assert_eq!(out, (u32::from(bits) << 16).to_ne_bytes(), "{bits:04x}");
        }
        for other in [DType::Float(2), DType::packed([("x", DType::Uint(2))]).unwrap()] {
            let mut out = Vec::new();
            widen(&other, &[1, 2, 3, 4], &mut out);
            assert_eq!((wide_dtype(&other), out), (other, vec![1, 2, 3, 4]));
        }
    }
}
