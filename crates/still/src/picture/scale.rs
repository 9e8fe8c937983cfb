//! Scales: where the ticks are and what stands beside them.

/// Round numbers between `low` and `high`, about `wanted` of them, each with its label.
pub fn ticks(low: f64, high: f64, wanted: usize) -> Vec<(f64, String)> {
    let span = high - low;
    if span <= 0.0 {
        return vec![(low, format_number(low))];
    }
    if !span.is_finite() {
        return [low, high].map(|value| (value, format_number(value))).into();
    }
    let rough = span / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    if step <= 0.0 || !first.is_finite() || !last.is_finite() {
        return vec![(low, format_number(low)), (high, format_number(high))];
    }
    let largest = low.abs().max(high.abs());
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let label = |value: f64| {
        if largest < 1e6 && decimals <= 5 {
            format!("{value:.decimals$}")
        } else {
            let digits = (largest.log10().floor() - step.log10().floor()).clamp(0.0, 16.0) as usize;
            format!("{value:.digits$e}")
        }
    };
    let mut ticks = Vec::new();
    let mut number = first;
    // The bound ends the loop even where adding one no longer changes the number.
    while number <= last && ticks.len() < 4 * wanted + 4 {
        // Adding zero turns a minus zero into a plain one.
        let value = number * step + 0.0;
        ticks.push((value, label(value)));
        number += 1.0;
    }
    if ticks.is_empty() {
        // No round number lies in between: the ends have to do.
        ticks.extend([low, high].map(|value| (value, format_number(value))));
    }
    ticks
}

/// Where between the ends of a scale a value lies. Halving first keeps the widest ranges from overflowing.
pub fn share(value: f64, low: f64, high: f64) -> f64 {
    let span = high / 2.0 - low / 2.0;
    if span > 0.0 { (value / 2.0 - low / 2.0) / span } else { 0.5 }
}

/// Round whole numbers between `low` and `high`, about `wanted` of them.
pub fn index_ticks(low: usize, high: usize, wanted: usize) -> Vec<usize> {
    if low == high {
        return vec![low];
    }
    let mut places: Vec<usize> =
        ticks(low as f64, high as f64, wanted).iter().map(|tick| tick.0.round() as usize).collect();
    places.retain(|place| (low..=high).contains(place));
    places.dedup();
    places
}

/// A number in a few digits.
pub fn format_number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let size = value.abs();
    if !(1e-4..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = (4.0 - size.log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_labels_tell_them_apart() {
        let labels = |low, high| ticks(low, high, 5).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(labels(0.0, 1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(-3.0, 17.0), ["0", "5", "10", "15"]);
        assert_eq!(labels(1e9, 1e9 + 50.0).len(), 6);
        assert_eq!(labels(2.0, 2.0), ["2"]);
        assert_eq!(format_number(-20.5), "-20.5");
        assert_eq!(format_number(1.0 / 3.0), "0.33333");
        assert_eq!(format_number(123456.0), "123456");
    }

    proptest! {
        #[test]
        fn ticks_lie_inside_and_are_few(low in -1e300f64..1e300, span in 0.0f64..1e300, wanted in 2usize..9) {
            let high = low + span;
            let found = ticks(low, high, wanted);
            prop_assert!(!found.is_empty() && found.len() <= 4 * wanted + 4);
            let slack = (high - low).abs() * 1e-6 + low.abs() * 1e-9;
            prop_assert!(found.iter().all(|tick| tick.0 >= low - slack && tick.0 <= high + slack));
        }
    }
}
