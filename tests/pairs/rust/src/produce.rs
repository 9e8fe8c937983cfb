//! The producer in Rust: `produce DIR REGION CASES [ARENA]`. See `../../run.py` for what it has to do.
//!
//! # Safety
//!
//! Hands buffers of its own to the region as raw memory; they stay where they are and are written only between publishes.
#![allow(unsafe_code)]

mod sections;

use sections::Sections;
use std::io::Read;
use stillframe::{Arena, DType, Declaration, Kind, Order, Region, VariableId};

struct Case {
    id: VariableId,
    order: Order,
    shape: Vec<usize>,
    bytes: usize,
    is_bool: bool,
    kind: Kind,
    buffer: Vec<u8>,
    offset: usize,
}

fn fill(out: &mut [u8], case: usize, is_bool: bool, step: usize) {
    for (i, byte) in out.iter_mut().enumerate() {
        let value = 31 * i + i / 256 + 17 * case + step * (case % 2);
        *byte = if is_bool { value & 1 } else { value & 255 } as u8;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [dir, name, table, arena @ ..] = &given[..] else { return Err("DIR REGION CASES [ARENA]".into()) };
    let options = match arena {
        [] => Region::options().dir(dir),
        [arena, ..] => Region::options().arena(&Arena::options().dir(dir).bytes(32 << 30).create(arena)?),
    };
    let mut region = options.keep(2).create(name)?;
    let mut cases = Vec::new();
    for (case, line) in std::fs::read_to_string(table)?.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [variable, kind, order, text, item_bytes] = words[..5] else { return Err("a line is too short".into()) };
        let shape = words[5..].iter().map(|n| n.parse()).collect::<Result<Vec<usize>, _>>()?;
        let bytes = item_bytes.parse::<usize>()? * shape.iter().product::<usize>();
        let dtype = match text.starts_with('{') {
            true => serde_json::from_str::<DType>(text)?,
            false => text.parse()?,
        };
        let kind = match kind {
            "managed" => Kind::Managed { shape: shape.clone() },
            "loaned" => Kind::Loaned { shape: shape.clone() },
            _ => Kind::Tracked,
        };
        let mut declaration = Declaration::new(variable, dtype, kind.clone());
        declaration.order = if order == "F" { Order::Fortran } else { Order::C };
        declaration.units = "m/s".into();
        declaration.attributes.insert("case".into(), (case as i64).into());
        let (order, offset) = (declaration.order, 16 * (case % 7) + 16);
        let id = region.declare(declaration)?;
        let buffer = vec![0; if kind == Kind::Tracked { bytes + offset } else { 0 }];
        cases.push(Case { id, order, shape, bytes, is_bool: text == "bool", kind, buffer, offset });
    }
    let mut sections = Sections::declare(&mut region)?;
    for (step, version) in [5, 8].into_iter().enumerate() {
        sections.fill(step);
        for (number, case) in cases.iter_mut().enumerate() {
            match case.kind {
                Kind::Tracked => fill(&mut case.buffer[case.offset..], number, case.is_bool, step),
                Kind::Managed { .. } => {
                    let (address, bytes) = region.managed_bytes(case.id)?;
                    // SAFETY: the memory is the region's, which nobody else uses while this program fills it.
                    let memory = unsafe { std::slice::from_raw_parts_mut(address, bytes) };
                    fill(memory, number, case.is_bool, step);
                }
                Kind::Loaned { .. } => {
                    let loan = region.loan_bytes(case.id)?;
                    // SAFETY: the loan's memory is this program's alone until it is submitted.
                    let memory = unsafe { std::slice::from_raw_parts_mut(loan.ptr(), loan.len()) };
                    fill(memory, number, case.is_bool, step);
                    loan.submit();
                }
            }
        }
        let mut publication = region
            .publish(version)
            .attr("flag", true)
            .attr("integer", -(1i64 << 40))
            .attr("real", 0.1)
            .attr("text", "Grüße");
        for case in cases.iter().filter(|case| case.kind == Kind::Tracked) {
            let address = case.buffer[case.offset..].as_ptr();
            // SAFETY: the buffer is readable and is not written before the next round.
            publication = unsafe { publication.tracked_raw(case.id, address, case.bytes, &case.shape, case.order) };
        }
        sections.publish(publication).commit()?;
    }
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    region.unlink()?;
    Ok(())
}
