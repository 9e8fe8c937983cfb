//! Any text at all, parsed and bound; the fuzz target shares it.
#![allow(dead_code)]

use drepl::{
    Bindings, Diagnostics, Program,
    fragment::Fragment,
    text::loader::{Loaded, Loader},
};

/// Texts that follow the first, behind zeros: named `1`, `2` and so on.
struct Following<'a>(Vec<&'a str>);

impl Loader for Following<'_> {
    fn load(&mut self, name: &str, _: &str) -> Result<Loaded, String> {
        let number: usize = name.parse().map_err(|_| "no number")?;
        let text = self.0.get(number).ok_or("no such text")?;
        Ok(Loaded { name: number.to_string(), text: (*text).into() })
    }
}

/// Parses and binds; whatever comes of it is looked at: diagnostics are shown, fragments checked byte by byte.
pub fn read(bytes: &[u8]) {
    let all = String::from_utf8_lossy(bytes);
    let texts: Vec<&str> = all.split('\0').collect();
    let bindings =
        Bindings::from([("b", 3), ("xmin", 10), ("zero", 0), ("minus", -1), ("most", i64::MAX), ("least", i64::MIN)]);
    let program = match Program::parse_with("0", texts[0], &mut Following(texts.clone())) {
        Ok(program) => program,
        Err(mistakes) => return show(&mistakes),
    };
    let schema = match program.bind(&bindings) {
        Ok(schema) => schema,
        Err(mistakes) => return show(&mistakes),
    };
    for view in schema.views() {
        check(&view.fragment);
        assert!(view.readonly || view.fragment.repeated().is_none(), "a writer holds an element twice");
    }
    for replica in schema.replicas() {
        check(&replica.fragment);
        if replica.complete {
            let held = replica.fragment.leaves().count();
            assert_eq!(held, schema.dataset().leaves().len(), "a complete replica holds all leaves");
        }
    }
    for text in &texts {
        match schema.parse_view(text, &bindings) {
            Ok(view) => check(&view.fragment),
            Err(mistakes) => show(&mistakes),
        }
    }
}

fn show(mistakes: &Diagnostics) {
    assert!(!mistakes.to_string().is_empty());
    for mistake in mistakes {
        let place = &mistake.place;
        assert!(place.line >= 1 && place.column >= 1);
        assert!((place.line, place.column) <= (place.end_line, place.end_column));
        assert!(!mistake.message.contains('\n') && mistake.message.len() < 1000, "{}", mistake.message);
    }
}

/// No two elements share a byte, and none lies outside of the variables.
fn check(fragment: &Fragment) {
    let elements: u128 = fragment.parts().iter().map(|part| u128::from(part.elements.count())).sum();
    if fragment.size_bytes() > 1 << 16 || elements > 1 << 12 {
        return;
    }
    let mut taken = vec![false; fragment.size_bytes() as usize];
    for part in fragment.parts() {
        let size = part.primitive.size_bytes() as usize;
        let mut places = vec![part.offset_bytes as i64];
        for (axis, stride) in part.elements.axes().iter().zip(&part.strides_bytes) {
            places = places
                .iter()
                .flat_map(|place| (0..axis.count() as i64).map(move |number| place + number * stride))
                .collect();
        }
        for place in places {
            for byte in &mut taken[place as usize..place as usize + size] {
                assert!(!std::mem::replace(byte, true), "two elements share a byte");
            }
        }
    }
}
