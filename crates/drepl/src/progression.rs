//! Indices along one axis: arithmetic progressions, which are all that affine index expressions can name.

use std::{collections::HashMap, fmt};

/// The indices `start`, `start + step`, ... of which there are `count`.
///
/// In canonical form `step >= 1`, `count >= 1`, and `step` is 1 where `count` is; equal sets are then equal values. The
/// index after the last one fits a `u64`, so that every bound can be had without a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Raw")]
pub struct Progression {
    start: u64,
    step: u64,
    count: u64,
}

/// A progression as it comes from outside: not known to be canonical.
#[derive(serde::Deserialize)]
struct Raw {
    start: u64,
    step: u64,
    count: u64,
}

impl TryFrom<Raw> for Progression {
    type Error = &'static str;

    fn try_from(raw: Raw) -> Result<Self, Self::Error> {
        let made = Self::new(raw.start, raw.step, raw.count).ok_or("no progression: it is empty or leaves 64 bits")?;
        if made.step == raw.step { Ok(made) } else { Err("a progression of one index with a step") }
    }
}

impl Progression {
    /// The progression in canonical form. `None` where it would be empty, would stand still (a step of 0 and several
    /// indices), or where the index after its last does not fit a `u64`.
    pub fn new(start: u64, step: u64, count: u64) -> Option<Self> {
        if count == 0 || (step == 0 && count > 1) {
            return None;
        }
        let step = if count == 1 { 1 } else { step };
        (count - 1).checked_mul(step)?.checked_add(start)?.checked_add(1)?;
        Some(Self { start, step, count })
    }

    /// All indices of an axis of `extent`: `None` where there are none.
    pub fn all(extent: u64) -> Option<Self> {
        Self::new(0, 1, extent)
    }

    /// The indices from `start` up to and without `end`: `None` where there are none.
    pub fn range(start: u64, end: u64) -> Option<Self> {
        Self::new(start, 1, end.checked_sub(start)?)
    }

    /// The lowest index.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The distance between neighbours: at least 1.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How many indices: at least 1.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The highest index.
    pub fn last(&self) -> u64 {
        self.start + (self.count - 1) * self.step
    }

    /// The highest index plus 1.
    pub fn end(&self) -> u64 {
        self.last() + 1
    }

    /// Which of the progression's indices this is, counted from 0; `None` where it is none of them.
    pub fn position(&self, index: u64) -> Option<u64> {
        let distance = index.checked_sub(self.start)?;
        (distance % self.step == 0 && distance / self.step < self.count).then(|| distance / self.step)
    }

    /// Whether the index is one of the progression's.
    pub fn contains(&self, index: u64) -> bool {
        self.position(index).is_some()
    }

    /// Whether each index of `other` is one of the progression's.
    pub fn contains_all(&self, other: &Self) -> bool {
        self.start <= other.start
            && other.last() <= self.last()
            && (other.start - self.start).is_multiple_of(self.step)
            && (other.count == 1 || other.step.is_multiple_of(self.step))
    }

    /// The indices in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<> {
        // A usize holds 64 bits wherever this crate builds; more indices than that could not be walked through anyhow.
        let (start, step) = (self.start, self.step);
        (0..usize::try_from(self.count).unwrap_or(usize::MAX)).map(move |i| start + i as u64 * step)
    }

    /// Those from `low` up to and without `high`.
    pub fn clip(&self, low: u64, high: u64) -> Option<Self> {
        let first = low.saturating_sub(self.start).div_ceil(self.step);
        let end = high.saturating_sub(self.start).div_ceil(self.step).min(self.count);
        self.section(first, end)
    }

    /// The indices at the positions from `first` up to and without `end`; both at most [`count`](Self::count).
    pub(crate) fn section(&self, first: u64, end: u64) -> Option<Self> {
        let count = end.checked_sub(first).filter(|count| *count > 0)?;
        Some(Self { start: self.start + first * self.step, step: if count == 1 { 1 } else { self.step }, count })
    }

    /// Every `stride`th index from the position `first` on: `None` where there is no such position.
    pub(crate) fn residue(&self, first: u64, stride: u64) -> Option<Self> {
        let count = self.count.checked_sub(first)?.div_ceil(stride);
        (count > 0).then(|| self.every(first, stride, count))
    }

    /// Every `stride`th index of those at the positions from `first` on, `count` of them, which are known to exist.
    fn every(&self, first: u64, stride: u64, count: u64) -> Self {
        let step = if count == 1 { 1 } else { self.step * stride };
        Self { start: self.start + first * self.step, step, count }
    }

    /// Whether both have an index within the range of the other: what is cheap to know before [`intersection`].
    ///
    /// [`intersection`]: Self::intersection
    #[inline]
    pub fn meets(&self, other: &Self) -> bool {
        self.start <= other.last() && other.start <= self.last()
    }

    /// The indices in both: a progression again, by the Chinese remainder theorem.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if !self.meets(other) {
            return None;
        }
        if self.step == 1 {
            return other.clip(self.start, self.end());
        }
        if other.step == 1 {
            return self.clip(other.start, other.end());
        }
        if self.step == other.step {
            let apart = self.start.abs_diff(other.start);
            return apart.is_multiple_of(self.step).then(|| self.clip(other.start, other.end())).flatten();
        }
        let (gcd, inverse) = gcd_and_inverse(self.step, other.step);
        if !self.start.abs_diff(other.start).is_multiple_of(gcd) {
            return None;
        }
        // x = start + step * k with k = (other.start - start) / gcd * inverse, modulo other.step / gcd.
        let modulus = u128::from(other.step / gcd);
        let apart = u128::from(self.start.abs_diff(other.start) / gcd) % modulus;
        let apart = if other.start >= self.start { apart } else { (modulus - apart) % modulus };
        let k = apart * u128::from(inverse) % modulus;
        let solution = u128::from(self.start) + u128::from(self.step) * k;
        let period = u128::from(self.step) * modulus;
        let low = u128::from(self.start.max(other.start));
        let high = u128::from(self.last().min(other.last()));
        let first = if solution >= low { solution } else { solution + (low - solution).div_ceil(period) * period };
        if first > high {
            return None;
        }
        // All three fit: the indices lie below `high`, and a period that reaches no second index is not looked at.
        let count = (high - first) / period + 1;
        let step = if count == 1 { 1 } else { period };
        Self::new(u64::try_from(first).ok()?, u64::try_from(step).ok()?, u64::try_from(count).ok()?)
    }

    /// The indices that `other` does not have, as progressions that share none, in no order. There are at most two more
    /// than the square root of [`count`](Self::count).
    pub fn difference(&self, other: &Self) -> Difference {
        match self.intersection(other) {
            None => Difference { of: *self, first: 0, stride: 1, cut: 0, next: 0, by_gap: false },
            Some(common) => {
                let first = (common.start - self.start) / self.step;
                let stride = if common.count == 1 { 1 } else { common.step / self.step };
                // Between two of those cut out lie `stride - 1` others: either each gap is a range, or each residue.
                let by_gap = common.count - 1 < stride - 1;
                Difference { of: *self, first, stride, cut: common.count, next: 0, by_gap }
            }
        }
    }
}

/// How one progression's indices outside another are walked through: see [`Progression::difference`].
#[derive(Debug, Clone)]
pub struct Difference {
    of: Progression,
    /// Position of the first index that is cut out, the distance to the next such position, and how many there are.
    first: u64,
    stride: u64,
    cut: u64,
    next: u64,
    by_gap: bool,
}

impl Difference {
    /// How many progressions there are at most.
    pub fn bound(&self) -> u64 {
        if self.cut == 0 { 1 } else { 2 + if self.by_gap { self.cut - 1 } else { self.stride - 1 } }
    }
}

impl Iterator for Difference {
    type Item = Progression;

    fn next(&mut self) -> Option<Progression> {
        if self.cut == 0 {
            return (std::mem::replace(&mut self.next, 1) == 0).then_some(self.of);
        }
        while self.next < self.bound() {
            let step = self.next;
            self.next += 1;
            let after = self.first + (self.cut - 1) * self.stride + 1;
            let found = match step {
                0 => self.of.section(0, self.first),
                1 => self.of.section(after, self.of.count),
                gap if self.by_gap => {
                    let open = self.first + (gap - 2) * self.stride + 1;
                    self.of.section(open, open + self.stride - 1)
                }
                residue if self.cut > 1 => Some(self.of.every(self.first + residue - 1, self.stride, self.cut - 1)),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Brings progressions that share no index into fewer that name the same indices.
///
/// Neighbours become one (`0..8` and `8..16`), and so do residues that fill each other's gaps (even and odd indices).
/// It is no search for the smallest number of progressions, but takes no longer than sorting them.
pub(crate) fn coalesce(list: &mut Vec<Progression>) {
    if list.len() < 2 {
        return;
    }
    interleave(list);
    list.sort_unstable_by_key(|p| (p.start, p.step));
    space_evenly(list);
    append(list);
}

/// Joins progressions of one step whose starts lie evenly within the step, and which end at the same round.
fn interleave(list: &mut Vec<Progression>) {
    list.sort_unstable_by_key(|p| (p.step, p.start));
    let mut joined = Vec::with_capacity(list.len());
    let mut rest = &list[..];
    while let [first, tail @ ..] = rest {
        rest = tail;
        let Some(second) = tail.first().filter(|s| s.step == first.step && first.count > 1) else {
            joined.push(*first);
            continue;
        };
        let gap = second.start - first.start;
        let rounds = if gap > 0 && gap < first.step && first.step % gap == 0 { first.step / gap } else { 0 };
        let needed = usize::try_from(rounds).unwrap_or(usize::MAX).saturating_sub(1);
        let fits = needed > 0
            && tail.len() >= needed
            && tail[..needed]
                .iter()
                .enumerate()
                .try_fold(first.count, |before, (i, p)| {
                    // The first few may have one round more than those after them.
                    let even = p.step == first.step && p.start == first.start + gap * (i as u64 + 1);
                    (even && (p.count == before || (p.count + 1 == before && before == first.count))).then_some(p.count)
                })
                .is_some();
        if !fits {
            joined.push(*first);
            continue;
        }
        let count = first.count + tail[..needed].iter().map(|p| p.count).sum::<u64>();
        joined.push(Progression { start: first.start, step: gap, count });
        rest = &tail[needed..];
    }
    *list = joined;
}

/// Joins three and more single indices at even distances. (Two always lie at an even distance; that says nothing.)
fn space_evenly(list: &mut Vec<Progression>) {
    let mut joined: Vec<Progression> = Vec::with_capacity(list.len());
    let mut rest = &list[..];
    while let [first, tail @ ..] = rest {
        let mut run = 1;
        if let [second, ..] = tail
            && first.count == 1
            && second.count == 1
        {
            let gap = second.start - first.start;
            run = 1 + rest.windows(2).take_while(|w| w[1].count == 1 && w[1].start - w[0].start == gap).count();
            if run >= 3 {
                joined.push(Progression { start: first.start, step: gap, count: run as u64 });
            }
        }
        if run < 3 {
            run = 1;
            joined.push(*first);
        }
        rest = &rest[run..];
    }
    *list = joined;
}

/// Joins progressions of one step, each of which begins where another would go on. The list is sorted by starts.
fn append(list: &mut Vec<Progression>) {
    let mut joined: Vec<Progression> = Vec::with_capacity(list.len());
    // Which of `joined` would go on at an index: with this step, and with any step above 1.
    let mut open: HashMap<(u64, u64), usize> = HashMap::with_capacity(list.len());
    let mut stepped: HashMap<u64, usize> = HashMap::new();
    for next in list.iter() {
        let follows = |place: &&usize, step: u64, joined: &[Progression]| {
            let before: &Progression = &joined[**place];
            before.last().checked_add(step) == Some(next.start)
        };
        let place = if let Some(place) = open.get(&(next.start, next.step)).filter(|p| follows(p, next.step, &joined)) {
            Some(*place)
        } else if next.count > 1 {
            // One index goes on with any step.
            let before = next.start.checked_sub(next.step).and_then(|before| open.get(&(before + 1, 1)));
            before.filter(|p| joined[**p].count == 1 && follows(p, next.step, &joined)).copied()
        } else {
            // Any step goes on with one index.
            stepped.get(&next.start).filter(|p| follows(p, joined[**p].step, &joined)).copied()
        };
        let place = match place {
            Some(place) => {
                let before = &mut joined[place];
                before.step = if before.count == 1 { next.start - before.start } else { before.step };
                before.count += next.count;
                place
            }
            None => {
                joined.push(*next);
                joined.len() - 1
            }
        };
        let made = &joined[place];
        if let Some(beyond) = made.last().checked_add(made.step) {
            open.insert((beyond, made.step), place);
            if made.step > 1 {
                stepped.insert(beyond, place);
            }
        }
    }
    *list = joined;
}

/// The greatest common divisor of `a` and `b`, and the inverse of `a / gcd` modulo `b / gcd`.
fn gcd_and_inverse(a: u64, b: u64) -> (u64, u64) {
    let (mut r0, mut r1) = (a, b);
    let (mut x0, mut x1) = (1_i128, 0_i128);
    while r1 != 0 {
        let quotient = r0 / r1;
        (r0, r1) = (r1, r0 % r1);
        (x0, x1) = (x1, x0 - i128::from(quotient) * x1);
    }
    // Less than the modulus, which fits.
    (r0, x0.rem_euclid(i128::from(b / r0)) as u64)
}

/// As a slice with a step, and as one number where it is one: `0..16`, `32..63 step 2`, `47`.
impl fmt::Display for Progression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.step) {
            (1, _) => write!(f, "{}", self.start),
            (_, 1) => write!(f, "{}..{}", self.start, self.end()),
            _ => write!(f, "{}..{} step {}", self.start, self.end(), self.step),
        }
    }
}
