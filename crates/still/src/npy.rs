//! The npy format: a short header in Python's own notation, then the elements as they lie in memory.

use crate::failure::Failure;
use crate::gather::Source;
use crate::selection::Selection;
use crate::slice::format_shape;
use std::io::Write;
use stillframe::{DType, Order, bfloat16};

/// Writes the selection as an npy file. The elements keep their order in memory, and the header names it.
pub fn write(source: &dyn Source, selection: &Selection, out: &mut dyn Write) -> Result<(), Failure> {
    let dtype = &selection.dtype;
    out.write_all(&encode_header(&bfloat16::wide_dtype(dtype), selection.order, &selection.shape()))?;
    if !bfloat16::has_bfloat16(dtype) {
        return source.stream(selection, &mut |piece| Ok(out.write_all(piece)?));
    }
    // The end of a piece may cut an element.
    let (mut rest, mut wide) = (Vec::new(), Vec::new());
    source.stream(selection, &mut |piece| {
        rest.extend_from_slice(piece);
        let whole = rest.len() - rest.len() % dtype.bytes();
        wide.clear();
        bfloat16::widen(dtype, &rest[..whole], &mut wide);
        rest.drain(..whole);
        Ok(out.write_all(&wide)?)
    })
}

fn encode_header(dtype: &DType, order: Order, shape: &[usize]) -> Vec<u8> {
    // Of an array with one axis or none numpy itself says that it is in C order.
    let fortran = if order == Order::Fortran && shape.len() > 1 { "True" } else { "False" };
    let shape = format_shape(shape);
    let mut text = format!("{{'descr': {}, 'fortran_order': {fortran}, 'shape': {shape}, }}", describe(dtype));
    // Version 1 counts the header in two bytes, version 2 in four, version 3 also allows names outside of ASCII.
    let version: u8 = match (text.is_ascii(), text.len()) {
        (false, _) => 3,
        (true, length) if length > 65_000 => 2,
        (true, _) => 1,
    };
    let prefix = if version == 1 { 10 } else { 12 };
    let padded = (prefix + text.len() + 1).next_multiple_of(64) - prefix - 1;
    text.push_str(&" ".repeat(padded - text.len()));
    text.push('\n');
    let mut header = b"\x93NUMPY".to_vec();
    header.extend([version, 0]);
    match version {
        1 => header.extend((text.len() as u16).to_le_bytes()),
        _ => header.extend((text.len() as u32).to_le_bytes()),
    }
    header.extend(text.as_bytes());
    header
}

/// The type in numpy's notation, as a Python literal.
fn describe(dtype: &DType) -> String {
    let native = if cfg!(target_endian = "little") { '<' } else { '>' };
    let number = |kind: char, bytes: u8| match bytes {
        1 => format!("'|{kind}1'"),
        bytes => format!("'{native}{kind}{bytes}'"),
    };
    match dtype {
        DType::Int(bytes) => number('i', *bytes),
        DType::Uint(bytes) => number('u', *bytes),
        DType::Float(bytes) => number('f', *bytes),
        DType::Complex(bytes) => number('c', *bytes),
        // numpy has none, and nothing in a file would say that these are bits: what is written is wider.
        DType::Bfloat16 => number('f', 4),
        DType::Bool => "'|b1'".into(),
        DType::Bytes(bytes) => format!("'|S{bytes}'"),
        DType::Record { fields, bytes } => {
            // numpy lays fields out in the order in which they are named; holes become nameless fields.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|field| field.offset);
            let mut parts = Vec::new();
            let mut end = 0;
            for field in fields {
                if field.offset > end {
                    parts.push(format!("('', '|V{}')", field.offset - end));
                }
                parts.push(format!("({}, {})", quote(&field.name), describe(&field.dtype)));
                end = field.offset + field.dtype.bytes() as u32;
            }
            if *bytes > end {
                parts.push(format!("('', '|V{}')", bytes - end));
            }
            format!("[{}]", parts.join(", "))
        }
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => quoted.push(letter),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::tests::{Memory, selection};
    use crate::slice::Index;
    use std::process::Command;
    use stillframe::Field;

    fn cell() -> DType {
        let field = |name: &str, dtype, offset| Field { name: name.into(), dtype, offset };
        let inner = DType::packed([("x", DType::Float(4)), ("y", DType::Float(4))]).unwrap();
        let fields = vec![field("rho", DType::Float(8), 8), field("id", DType::Int(4), 0), field("at", inner, 16)];
        DType::Record { fields, bytes: 32 }
    }

    #[test]
    fn headers_are_aligned_and_say_what_follows() {
        let header = encode_header(&DType::Float(8), Order::Fortran, &[3, 4]);
        assert_eq!(header.len() % 64, 0);
        let text = String::from_utf8_lossy(&header[10..]);
        assert_eq!(text.trim_end(), "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 4), }");
        let text = describe(&cell());
        let expected =
            "[('id', '<i4'), ('', '|V4'), ('rho', '<f8'), ('at', [('x', '<f4'), ('y', '<f4')]), ('', '|V8')]";
        assert_eq!(text, expected);
        assert_eq!(encode_header(&DType::packed([("ρ", DType::Bool)]).unwrap(), Order::C, &[])[6], 3);
        assert_eq!(quote("it's"), "'it\\'s'");
    }

    fn brains() -> DType {
        DType::packed([("id", DType::Uint(1)), ("w", DType::Bfloat16)]).unwrap()
    }

    /// Whoever has numpy hears from itself that the files are right.
    #[test]
    fn numpy_reads_what_was_written() {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
        let run = |code: &str| Command::new(&python).args(["-c", code]).output();
        if !run("import numpy").is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: {python} has no numpy; name one that has in PYTHON");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let count = 2 * 3 * 4;
        let span = Index::Span { start: None, stop: None, step: Some(-2) };
        let mut script = CHECK.to_owned();
        for (dtype, python_dtype, is_bool) in [
            (DType::Float(8), "'f8'", false),
            (DType::Float(2), "'f2'", false),
            (DType::Bfloat16, "'bfloat16'", false),
            (brains(), "[('id', 'u1'), ('w', 'bfloat16')]", false),
            (DType::Uint(1), "'u1'", false),
            (DType::Int(4), "'i4'", false),
            (DType::Complex(8), "'c8'", false),
            (DType::Bool, "'?'", true),
            (DType::Bytes(5), "'S5'", false),
            (
                cell(),
                "{'names':['id','rho','at'],'formats':['i4','f8',[('x','f4'),('y','f4')]],'offsets':[0,8,16],'itemsize':32}",
                false,
            ),
        ] {
            let bytes = (0..count * dtype.bytes()).map(|i| if is_bool { i % 2 } else { i * 7 % 251 } as u8).collect();
            let memory = Memory::new(bytes);
            for (order, letter) in [(Order::C, "C"), (Order::Fortran, "F")] {
                for (indices, python_index) in [(vec![], "..."), (vec![Index::Rest, span, Index::At(1)], "...,::-2,1")]
                {
                    let wanted = selection(dtype.clone(), order, &[2, 3, 4], &indices);
                    let path = folder.path().join(format!("{}.npy", script.lines().count()));
                    write(&memory, &wanted, &mut std::fs::File::create(&path).unwrap()).unwrap();
                    script += &format!("check({path:?}, {python_dtype}, '{letter}', numpy.s_[{python_index}])\n");
                }
            }
        }
        assert_eq!(script.lines().count(), CHECK.lines().count() + 40);
        let output = run(&script).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    const CHECK: &str = "\
import numpy
def bits_for_bfloat16(dtype):
    if isinstance(dtype, list):
        return [(name, bits_for_bfloat16(field)) for name, field in dtype]
    return 'u2' if dtype == 'bfloat16' else dtype
def numbers_of(bits, dtype):
    if isinstance(dtype, list):
        numbers = numpy.empty(bits.shape, [(name, 'f4' if field == 'bfloat16' else field) for name, field in dtype])
        for name, field in dtype:
            numbers[name] = numbers_of(bits[name], field)
        return numbers
    return (bits.astype('u4') << 16).view('f4') if dtype == 'bfloat16' else bits
def check(path, shown, order, index):
    dtype = numpy.dtype(bits_for_bfloat16(shown))
    numbers = range(24 * dtype.itemsize)
    content = bytes(i % 2 if dtype.kind == 'b' else i * 7 % 251 for i in numbers)
    want = numpy.frombuffer(content, dtype=dtype).reshape((2, 3, 4), order=order)[index]
    want = numbers_of(want, shown) if 'bfloat16' in str(shown) else want
    got = numpy.load(path)
    assert got.shape == want.shape, (path, got.shape, want.shape)
    for name in [name for name in got.dtype.names or [None] if name is None or not name.startswith('f')]:
        a, b = (got, want) if name is None else (got[name], want[name])
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), (path, dtype, order, index, a, b)
";
}
