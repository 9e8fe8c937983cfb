//! Fragments that are large enough to be shown, in many layouts on both sides, against a plain array.

use crate::common::{Dir, watchdog};
use std::time::Duration;
use stillframe_object::{Object, ReadFragment};

const LONG: Duration = Duration::from_secs(60);
const ROWS: usize = 320;
const COLUMNS: usize = 256;

fn element(version: u64, row: usize, column: usize) -> i64 {
    if version == 0 { 0 } else { ((version as usize * ROWS + row) * COLUMNS + column) as i64 }
}

/// A view of the rows and columns, and where in them its elements come from; `None` beyond the rim.
type Place = fn(usize) -> Option<(usize, usize)>;

const VIEWS: [(&str, Place); 12] = [
    ("view v { var v = u }", |at| Some((at / COLUMNS, at % COLUMNS))),
    ("view v columnmajor { var v = u }", |at| Some((at % ROWS, at / ROWS))),
    ("view v { var v [x:300,y:256] = u[x+7,y] }", |at| Some((at / COLUMNS + 7, at % COLUMNS))),
    ("view v { var v [x:160,y:256] = u[2*x,y] }", |at| Some((at / COLUMNS * 2, at % COLUMNS))),
    ("view v { var v [x:320,y:255] = u[x,y+1] }", |at| Some((at / 255, at % 255 + 1))),
    ("view v { var v [x:320,y:256] = u[319-x,y] }", |at| Some((ROWS - 1 - at / COLUMNS, at % COLUMNS))),
    ("view v { var v [x:320,y:256] = u[x,255-y] }", |at| Some((at / COLUMNS, COLUMNS - 1 - at % COLUMNS))),
    ("view v { var v [y:256] = u[3,y] }", |at| Some((3, at))),
    ("view v { var v [y:256,x:320] = u[x,y] }", |at| Some((at % ROWS, at / ROWS))),
    ("view v readonly clipped { var v [x:322,y:256] = u[x-1,y] }", |at| {
        Some(((at / COLUMNS).checked_sub(1)?, at % COLUMNS)).filter(|(row, _)| *row < ROWS)
    }),
    ("view v bigendian { var v = u }", |at| Some((at / COLUMNS, at % COLUMNS))),
    ("view v { var v [x:320,y:256] = u[319-x,255-y] }", |at| {
        Some((ROWS - 1 - at / COLUMNS, COLUMNS - 1 - at % COLUMNS))
    }),
];

/// What comes before the array in the writer's fragment, in bytes.
const BEFORE: [usize; 6] = [1, 3, 16, 4096, 4104, 8200];

fn check(reader: &mut ReadFragment, place: Place, version: u64, what: &str) {
    let is_big_endian = what.contains("bigendian {");
    for (at, value) in reader.bytes().chunks_exact(8).enumerate() {
        let value = value.try_into().unwrap();
        let value = if is_big_endian { i64::from_be_bytes(value) } else { i64::from_ne_bytes(value) };
        let wanted = place(at).map_or(0, |(row, column)| element(version, row, column));
        assert_eq!(value, wanted, "{what}: element {at} of version {version}");
    }
}

fn publish(object: &Object, before: usize, view: &str, version: u64, place: Place, is_loaned: bool) {
    let text = match before {
        0 => view.to_owned(),
        _ => view.replacen("{ ", "{ var a = a; ", 1),
    };
    let options = object.write(&text);
    let is_big_endian = text.contains("bigendian {");
    let mut writer = if is_loaned { options.loaned() } else { options }.attach().unwrap();
    for (at, bytes) in writer.bytes_mut().unwrap()[before..].chunks_exact_mut(8).enumerate() {
        let (row, column) = place(at).unwrap();
        let value = element(version, row, column);
        let value = if is_big_endian { value.to_be_bytes() } else { value.to_ne_bytes() };
        bytes.copy_from_slice(&value);
    }
    writer.publish(version).unwrap();
    writer.detach().unwrap();
}

#[test]
fn all_layouts_show_and_copy_the_same() {
    let _watchdog = watchdog(600);
    let (mut shown, mut copied) = (0, 0);
    for before in BEFORE {
        let dir = Dir::new("layouts");
        let text = format!("var a [{before}] uint8\nvar u [{ROWS},{COLUMNS}] int64");
        let object = dir.objects().create("u", &text).create().unwrap();
        let mut readers: Vec<_> = VIEWS.iter().map(|(view, _)| object.read(view).attach().unwrap()).collect();
        let mut places = vec![None; VIEWS.len()];
        // Writers in layouts of all elements, one after the other, so that readers show, copy, show and clear.
        let writers = [0, 1, 0, 5, 0, 11, 6, 8, 0, 10, 10, 0];
        for (number, writer) in writers.into_iter().enumerate() {
            let version = number as u64 + 1;
            let (view, place) = VIEWS[writer];
            publish(&object, before, view, version, place, number % 3 == 2);
            for (which, reader) in readers.iter_mut().enumerate() {
                let what = format!("{} after {before} bytes from writer {writer}", VIEWS[which].0);
                reader.reattach(version, LONG).unwrap_or_else(|error| panic!("{what}: {error}"));
                shown += u32::from(reader.is_shown());
                copied += u32::from(!reader.is_shown());
                check(reader, VIEWS[which].1, version, &what);
                let address = reader.address();
                assert_eq!(*places[which].get_or_insert(address), address, "{what}");
                if (number + which) % 4 == 0 {
                    reader.reattach(0, LONG).unwrap();
                    check(reader, VIEWS[which].1, 0, &what);
                }
            }
        }
    }
    println!("{shown} shown, {copied} copied");
    assert!(shown > 20 && copied > 100);
}
