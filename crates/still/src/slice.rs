//! Which part of a variable is meant: the text `u[1:10:2, :, -1]` and the elements it selects.
//!
//! The rules are numpy's basic indexing: negative numbers count from the end, spans are clamped to the axis, a single
//! number drops its axis, `...` stands for as many full axes as are missing, and axes not mentioned are taken whole.

/// A request as it was written: a dotted path, and what stands in the brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// A variable's name, perhaps followed by the names of fields.
    pub path: String,
    /// What the brackets say, axis by axis.
    pub indices: Vec<Index>,
}

/// What is wanted of one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// One element; the axis is dropped.
    At(i64),
    /// `start:stop:step`, each of which may be missing.
    Span { start: Option<i64>, stop: Option<i64>, step: Option<i64> },
    /// `...`: as many whole axes as are missing.
    Rest,
}

/// The elements selected from one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Length of the axis in the variable.
    pub length: usize,
    /// Place of the first selected element.
    pub start: usize,
    /// Distance from one selected element to the next; negative when they run backwards.
    pub step: isize,
    /// How many elements are selected.
    pub count: usize,
    /// Whether a single number selected the axis away.
    pub dropped: bool,
    /// After so many elements, so many are left out: what an abbreviated view shows of a long axis.
    pub gap: Option<(usize, usize)>,
}

/// Why a request cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    #[error("'{0}' has no variable name before the bracket: write for example 'u[0, :]'")]
    NoName(String),
    #[error("'{0}' has an open bracket without its partner: write for example 'u[0, :]', quoted against the shell")]
    Unclosed(String),
    #[error("'{0}' has indices in several brackets: write them in one, such as 'u[0, 1]'")]
    Several(String),
    #[error("'{item}' is no index: use a number, start:stop:step or ...")]
    Item { item: String },
    #[error("a step of 0 never arrives: use a step such as 1 or -1")]
    ZeroStep,
    #[error("'...' may stand only once in an index")]
    TwoRests,
    #[error("{given} indices for {axes} axes: the shape is {shape}")]
    TooMany { given: usize, axes: usize, shape: String },
    #[error("index {index} lies outside axis {axis}, whose length is {length}: use {}", range(*length))]
    Outside { index: i64, axis: usize, length: usize },
}

fn range(length: usize) -> String {
    match length {
        0 => "an empty span, the axis has no elements".into(),
        length => format!("{} to {}", -(length as i128), length - 1),
    }
}

impl std::str::FromStr for Request {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let Some((path, rest)) = text.split_once('[') else {
            return match text {
                "" => Err(SliceError::NoName(text.into())),
                text if text.contains(']') => Err(SliceError::Unclosed(text.into())),
                path => Ok(Request { path: path.into(), indices: Vec::new() }),
            };
        };
        let path = path.trim();
        if path.is_empty() {
            return Err(SliceError::NoName(text.into()));
        }
        if rest.contains("][") {
            return Err(SliceError::Several(text.into()));
        }
        let inside = rest.strip_suffix(']').filter(|inside| !inside.contains(['[', ']']));
        let inside = inside.ok_or_else(|| SliceError::Unclosed(text.into()))?;
        Ok(Request { path: path.into(), indices: parse_indices(inside)? })
    }
}

fn parse_indices(inside: &str) -> Result<Vec<Index>, SliceError> {
    let inside = inside.trim();
    if inside.is_empty() {
        return Ok(Vec::new());
    }
    // As in Python, a comma may follow the last index.
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    let indices = inside.split(',').map(parse_index).collect::<Result<Vec<_>, _>>()?;
    match indices.iter().filter(|index| **index == Index::Rest).count() {
        0 | 1 => Ok(indices),
        _ => Err(SliceError::TwoRests),
    }
}

fn parse_index(item: &str) -> Result<Index, SliceError> {
    let item = item.trim();
    let wrong = || SliceError::Item { item: item.into() };
    if item == "..." || item == "…" {
        return Ok(Index::Rest);
    }
    if !item.contains(':') {
        return item.parse().map(Index::At).map_err(|_| wrong());
    }
    let mut parts = [None; 3];
    for (place, part) in item.split(':').enumerate() {
        let slot = parts.get_mut(place).ok_or_else(wrong)?;
        *slot = match part.trim() {
            "" => None,
            number => Some(number.parse().map_err(|_| wrong())?),
        };
    }
    let [start, stop, step] = parts;
    if step == Some(0) {
        return Err(SliceError::ZeroStep);
    }
    Ok(Index::Span { start, stop, step })
}

/// The elements that `indices` select from an array of this shape, one entry per axis of the array.
pub fn select(indices: &[Index], shape: &[usize]) -> Result<Vec<Axis>, SliceError> {
    let given = indices.iter().filter(|index| **index != Index::Rest).count();
    if given > shape.len() {
        return Err(SliceError::TooMany { given, axes: shape.len(), shape: format_shape(shape) });
    }
    let missing = shape.len() - given;
    let full = Index::Span { start: None, stop: None, step: None };
    let mut whole = Vec::with_capacity(shape.len());
    for index in indices {
        match index {
            Index::Rest => whole.extend(std::iter::repeat_n(full, missing)),
            index => whole.push(*index),
        }
    }
    whole.resize(shape.len(), full);
    whole.iter().zip(shape).enumerate().map(|(axis, (index, length))| select_axis(*index, axis, *length)).collect()
}

fn select_axis(index: Index, axis: usize, length: usize) -> Result<Axis, SliceError> {
    let size = length as i128;
    match index {
        Index::At(index) => {
            let place = if index < 0 { index as i128 + size } else { index as i128 };
            if place < 0 || place >= size {
                return Err(SliceError::Outside { index, axis, length });
            }
            Ok(Axis { length, start: place as usize, step: 1, count: 1, dropped: true, gap: None })
        }
        Index::Span { start, stop, step } => {
            let step = step.unwrap_or(1) as i128;
            let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
            let place = |given: Option<i64>, missing: i128| match given.map(i128::from) {
                None => missing,
                Some(number) if number < 0 => (number + size).clamp(low, high),
                Some(number) => number.clamp(low, high),
            };
            let (first, last) = if step > 0 { (low, high) } else { (high, low) };
            let (start, stop) = (place(start, first), place(stop, last));
            let distance = if step > 0 { stop - start } else { start - stop };
            let count = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
            // A step that leaves the axis at once is as good as any other, and this one cannot overflow.
            let step = if count <= 1 { 1 } else { step };
            let start = if count == 0 { 0 } else { start };
            let (start, step, count) = (start as usize, step as isize, count as usize);
            Ok(Axis { length, start, step, count, dropped: false, gap: None })
        }
        Index::Rest => select_axis(Index::Span { start: None, stop: None, step: None }, axis, length),
    }
}

impl Axis {
    /// Where in the variable the element number `place` of the selection lies.
    pub fn index(&self, place: usize) -> usize {
        let place = match self.gap {
            Some((after, skipped)) if place >= after => place + skipped,
            _ => place,
        };
        (self.start as isize + self.step * place as isize) as usize
    }

    /// Whether the selection is the whole axis, in order.
    pub fn is_whole(&self) -> bool {
        self.start == 0 && self.count == self.length && self.is_run()
    }

    /// Whether the selected elements follow each other without holes.
    pub fn is_run(&self) -> bool {
        self.step == 1 && self.gap.is_none()
    }

    /// The same axis with only `edge` elements at either end, when it has more than that.
    pub fn abbreviate(self, edge: usize) -> Axis {
        if self.count <= 2 * edge {
            return self;
        }
        Axis { count: 2 * edge, gap: Some((edge, self.count - 2 * edge)), ..self }
    }
}

/// A shape as Python writes it.
pub fn format_shape(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        shape => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picks(axis: &Axis) -> Vec<usize> {
        (0..axis.count).map(|place| axis.index(place)).collect()
    }

    fn parse(text: &str) -> Result<Request, SliceError> {
        text.parse()
    }

    #[test]
    fn requests_read_as_in_numpy() {
        let span = |start, stop, step| Index::Span { start, stop, step };
        let all = span(None, None, None);
        for (text, path, indices) in [
            ("u", "u", vec![]),
            ("u[]", "u", vec![]),
            ("u[3]", "u", vec![Index::At(3)]),
            ("u[3,]", "u", vec![Index::At(3)]),
            ("u[1:10:2, :, -1]", "u", vec![span(Some(1), Some(10), Some(2)), all, Index::At(-1)]),
            (" u [ ... , 0 ] ", "u", vec![Index::Rest, Index::At(0)]),
            ("cells.rho[::-1]", "cells.rho", vec![span(None, None, Some(-1))]),
            ("u[:5]", "u", vec![span(None, Some(5), None)]),
        ] {
            assert_eq!(parse(text).unwrap(), Request { path: path.into(), indices }, "{text}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in
            ["", "[0]", "u[", "u]", "u[0", "u[0]]", "u[a]", "u[1:2:3:4]", "u[::0]", "u[...,...]", "u[1,,2]", "u[1.5]"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_outside_and_too_many_indices_are_refused() {
        assert!(matches!(select(&[Index::At(3)], &[3]), Err(SliceError::Outside { index: 3, axis: 0, length: 3 })));
        assert!(select(&[Index::At(-4)], &[3]).is_err());
        assert!(select(&[Index::At(0)], &[0]).is_err());
        assert!(matches!(select(&[Index::At(0), Index::At(0)], &[3]), Err(SliceError::TooMany { .. })));
        assert!(select(&[Index::Rest], &[]).unwrap().is_empty());
    }

    #[test]
    fn extreme_steps_do_not_overflow() {
        let span = Index::Span { start: None, stop: Some(i64::MAX), step: Some(i64::MAX) };
        assert_eq!(picks(&select(&[span], &[5]).unwrap()[0]), [0]);
        let span = Index::Span { start: Some(i64::MIN), stop: None, step: Some(i64::MIN) };
        assert_eq!(picks(&select(&[span], &[5]).unwrap()[0]), [] as [usize; 0]);
    }

    /// The definition by walking: start somewhere, go on by steps, keep what lies on the axis and before the stop.
    fn walk(start: Option<i64>, stop: Option<i64>, step: Option<i64>, length: usize) -> Vec<usize> {
        let (size, step) = (length as i64, step.unwrap_or(1));
        let from_end = |number: i64| if number < 0 { number + size } else { number };
        let mut place = match start.map(from_end) {
            None if step > 0 => 0,
            None => size - 1,
            Some(number) if step > 0 => number.max(0),
            Some(number) => number.min(size - 1),
        };
        let mut kept = Vec::new();
        while (0..size).contains(&place) {
            let passed = stop.map(from_end).is_some_and(|stop| if step > 0 { place >= stop } else { place <= stop });
            if passed {
                break;
            }
            kept.push(place as usize);
            place += step;
        }
        kept
    }

    fn maybe(range: std::ops::Range<i64>) -> impl Strategy<Value = Option<i64>> {
        proptest::option::of(range)
    }

    proptest! {
        #[test]
        fn spans_select_what_walking_selects(
            start in maybe(-25..25), stop in maybe(-25..25), step in maybe(-7..7), length in 0usize..20,
        ) {
            prop_assume!(step != Some(0));
            let axis = select(&[Index::Span { start, stop, step }], &[length]).unwrap()[0];
            prop_assert_eq!(picks(&axis), walk(start, stop, step, length));
        }

        #[test]
        fn abbreviating_keeps_both_ends(length in 0usize..40, step in 1isize..4, edge in 1usize..6) {
            let span = Index::Span { start: None, stop: None, step: Some(step as i64) };
            let axis = select(&[span], &[length]).unwrap()[0];
            let (whole, short) = (picks(&axis), picks(&axis.abbreviate(edge)));
            if whole.len() <= 2 * edge {
                prop_assert_eq!(whole, short);
            } else {
                prop_assert_eq!(&short[..edge], &whole[..edge]);
                prop_assert_eq!(&short[edge..], &whole[whole.len() - edge..]);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z.\\[\\]:,0-9 -]{0,20}") {
            if let Ok(request) = parse(&text) {
                let _ = select(&request.indices, &[4, 5, 6]);
            }
        }
    }
}
