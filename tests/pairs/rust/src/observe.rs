//! The observer in Rust: `observe DIR REGION VERSION`. See `../../run.py` for what it has to print.

use std::time::Duration;
use stillframe::{Attributes, DType, Observer, Order, Scalar};

fn words(numbers: impl IntoIterator<Item = usize>) -> String {
    numbers.into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

fn print_attributes(attributes: &Attributes) {
    for (name, value) in attributes {
        match value {
            Scalar::Bool(value) => println!("attribute {name} bool {}", u8::from(*value)),
            Scalar::Int(value) => println!("attribute {name} int {value}"),
            Scalar::Float(value) => println!("attribute {name} float {:016x}", value.to_bits()),
            Scalar::Text(value) => println!("attribute {name} text {value}"),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [dir, name, version] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "DIR REGION VERSION")?;
    let observer = Observer::options().dir(dir).wait(Duration::from_secs(30)).open(&name)?;
    let snapshot = observer.version(version.parse()?)?;
    println!("version {}", snapshot.version());
    print_attributes(snapshot.attributes());
    for variable in snapshot.variables() {
        let mut crc = crc32fast::Hasher::new();
        for chunk in snapshot.chunks(&variable.name)? {
            crc.update(chunk.bytes);
        }
        let dtype = match &variable.dtype {
            record @ DType::Record { .. } => serde_json::to_string(record)?,
            plain => plain.to_string(),
        };
        let order = if variable.order == Order::Fortran { "F" } else { "C" };
        println!(
            "variable {} {dtype} {order} {} {} shape {} strides {} crc {:08x}",
            variable.name,
            variable.units,
            variable.bytes,
            words(variable.shape.clone()),
            words(variable.strides()),
            crc.finalize(),
        );
        print_attributes(&variable.attributes);
    }
    Ok(())
}
