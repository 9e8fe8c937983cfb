//! Index expressions: exact affine functions of one variable, and the indices that they reach.

use crate::progression::Progression;

/// Coefficients and moduli stay below this, so that products of two of them fit an `i128` with room to spare.
const BOUND: i128 = 1 << 62;

/// An integer expression was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

/// `(a·x + b) / c` for the integers `x` at which every division of the expression has no remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    a: i128,
    b: i128,
    /// Positive.
    c: i128,
    defined: Defined,
}

/// The integers at which an expression has a value: those of one residue, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    Every { modulus: i128, residue: i128 },
    Nowhere,
}

impl Affine {
    /// `x` itself.
    pub const VARIABLE: Self = Self { a: 1, b: 0, c: 1, defined: Defined::Every { modulus: 1, residue: 0 } };

    /// Whether its value depends on the variable at all.
    pub fn varies(&self) -> bool {
        self.a != 0
    }

    pub fn negate(self) -> Self {
        Self { a: -self.a, b: -self.b, ..self }
    }

    pub fn plus(self, constant: i64) -> Result<Self, Overflow> {
        Self { b: self.b + self.c * i128::from(constant), ..self }.bounded()
    }

    /// The sum of two functions of the same variable.
    pub fn sum(self, other: Self) -> Result<Self, Overflow> {
        let defined = self.defined.and(other.defined)?;
        let a = self.a * other.c + other.a * self.c;
        let b = self.b * other.c + other.b * self.c;
        Self { a, b, c: self.c * other.c, defined }.bounded()
    }

    pub fn times(self, constant: i64) -> Result<Self, Overflow> {
        let constant = i128::from(constant);
        Self { a: self.a * constant, b: self.b * constant, ..self }.bounded()
    }

    /// The divisor is not 0.
    pub fn over(self, divisor: i64) -> Result<Self, Overflow> {
        let sign = i128::from(divisor.signum());
        let c = self.c * i128::from(divisor).abs();
        let divided = Self { a: self.a * sign, b: self.b * sign, c, ..self }.bounded()?;
        let defined = divided.defined.and(Defined::solving(divided.a, divided.b, divided.c))?;
        Ok(Self { defined, ..divided })
    }

    fn bounded(self) -> Result<Self, Overflow> {
        let common = gcd(gcd(self.a, self.b), self.c);
        let (a, b, c) = (self.a / common, self.b / common, self.c / common);
        if a.abs() >= BOUND || b.abs() >= BOUND || c >= BOUND { Err(Overflow) } else { Ok(Self { a, b, c, ..self }) }
    }

    /// The value at a variable; `None` where a division leaves a remainder.
    pub fn value(&self, x: i128) -> Result<Option<i128>, Overflow> {
        match self.defined {
            Defined::Every { modulus, residue } if (x - residue) % modulus == 0 => self.at(x).map(Some),
            _ => Ok(None),
        }
    }

    /// The variables at which it has a value.
    pub fn defined(&self) -> Defined {
        self.defined
    }

    /// Whether its value grows with the variable.
    pub fn rises(&self) -> bool {
        self.a > 0
    }

    /// The variables at which the value lies from `low` to `high`: as many again as there are numbers between.
    pub fn between(&self, low: i128, high: i128) -> (i128, i128) {
        let (low, high) = (low * self.c - self.b, high * self.c - self.b);
        let (low, high) = if self.a > 0 { (low, high) } else { (high, low) };
        (ceiling(low, self.a), floor(high, self.a))
    }

    /// The value at a variable where it is defined.
    fn at(&self, x: i128) -> Result<i128, Overflow> {
        let product = self.a.checked_mul(x).ok_or(Overflow)?;
        Ok(product.checked_add(self.b).ok_or(Overflow)? / self.c)
    }

    /// How much the value grows when the variable grows by `step`.
    fn growth(&self, step: i128) -> i128 {
        self.a * step / self.c
    }
}

impl Defined {
    /// Where `a·x + b` is divisible by `c`.
    fn solving(a: i128, b: i128, c: i128) -> Self {
        let common = gcd(a, c);
        if b % common != 0 {
            return Self::Nowhere;
        }
        let (a, b, modulus) = (a / common, b / common, c / common);
        let residue = (-b).rem_euclid(modulus) * inverse(a.rem_euclid(modulus), modulus) % modulus;
        Self::Every { modulus, residue }
    }

    /// Where both hold.
    pub fn and(self, other: Self) -> Result<Self, Overflow> {
        let (Self::Every { modulus: m, residue: r }, Self::Every { modulus: n, residue: s }) = (self, other) else {
            return Ok(Self::Nowhere);
        };
        let common = gcd(m, n);
        if (s - r) % common != 0 {
            return Ok(Self::Nowhere);
        }
        let modulus = m / common * n;
        if modulus >= BOUND {
            return Err(Overflow);
        }
        let n = n / common;
        let steps = ((s - r) / common).rem_euclid(n) * inverse((m / common).rem_euclid(n), n) % n;
        Ok(Self::Every { modulus, residue: (r + m * steps).rem_euclid(modulus) })
    }
}

/// Which places along an axis of a variable hold which elements along an axis of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub elements: Progression,
    /// The place of the first element, that with the lowest index.
    pub place: u64,
    /// From the place of an element to that of the next.
    pub step: i64,
}

impl Link {
    /// The highest place.
    pub fn last(&self) -> u64 {
        let reach = self.step.unsigned_abs() * (self.elements.count() - 1);
        if self.step > 0 { self.place + reach } else { self.place }
    }
}

/// What comes of two index expressions in one variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    Some(Link),
    /// Nowhere do both name an index.
    Empty,
    /// Some index of the right leaves the object: the lowest and the highest of all.
    Outside(i128, i128),
}

/// Links the places `left(x)` of a variable with the elements `right(x)` of an object's axis of `extent` elements. With
/// an extent of its own the variable has every place that `left` names there; an element for each has to exist, unless
/// they are `clipped`.
pub fn link(
    left: &Affine,
    places: Option<u64>,
    right: &Affine,
    extent: u64,
    clipped: bool,
) -> Result<Linked, Overflow> {
    let Defined::Every { modulus, residue } = left.defined.and(right.defined)? else {
        return Ok(Linked::Empty);
    };
    let first_from = |low: i128| low + (residue - low).rem_euclid(modulus);
    let last_to = |high: i128| high - (high - residue).rem_euclid(modulus);
    let elements = right.between(0, i128::from(extent) - 1);
    // Without an extent there is no highest place, but the object's elements end somewhere.
    let half = left.between(0, i128::from(places.unwrap_or(1)) - 1);
    let wanted = match places {
        Some(_) => half,
        None if left.a > 0 => (half.0, elements.1),
        None => (elements.0, half.1),
    };
    let (low, high) = (first_from(wanted.0), last_to(wanted.1));
    if low > high {
        return Ok(Linked::Empty);
    }
    if places.is_some() && !clipped {
        let (one, other) = (right.at(low)?, right.at(high)?);
        let (lowest, highest) = (one.min(other), one.max(other));
        if lowest < 0 || highest >= i128::from(extent) {
            return Ok(Linked::Outside(lowest, highest));
        }
    }
    let (low, high) = (first_from(wanted.0.max(elements.0)), last_to(wanted.1.min(elements.1)));
    if low > high {
        return Ok(Linked::Empty);
    }
    let count = (high - low) / modulus + 1;
    // From the element of the lowest index on.
    let (start, direction) = if right.a > 0 { (low, modulus) } else { (high, -modulus) };
    let small = |value: i128| u64::try_from(value).map_err(|_| Overflow);
    let (mut element_step, mut step) = (right.growth(direction), left.growth(direction));
    if count == 1 {
        (element_step, step) = (1, 1);
    }
    let elements = Progression::new(small(right.at(start)?)?, small(element_step)?, small(count)?).ok_or(Overflow)?;
    let step = i64::try_from(step).map_err(|_| Overflow)?;
    let link = Link { elements, place: small(left.at(start)?)?, step };
    // The highest place plus 1 is an extent.
    let last = i128::from(link.place) + i128::from(step.max(0)) * (count - 1);
    if last >= i128::from(i64::MAX) { Err(Overflow) } else { Ok(Linked::Some(link)) }
}

/// So many times an index may wrap around along one axis.
pub const TURNS_MAX: i128 = 1 << 16;

/// What comes of an index that wraps around.
#[derive(Debug)]
pub enum Turns {
    /// A link for each turn that has elements.
    Links(Vec<Link>),
    /// Some index leaves the object: the lowest and the highest of its turn.
    Outside(u64, u64),
    /// More turns than [`TURNS_MAX`].
    TooMany,
}

/// Links the places `left(x)` of a variable that has `places` of them with the elements `right(x) % modulus`.
pub fn link_wrapped(
    left: &Affine,
    places: u64,
    right: &Affine,
    modulus: u64,
    extent: u64,
    clipped: bool,
) -> Result<Turns, Overflow> {
    let (first, last) = left.between(0, i128::from(places) - 1);
    if first > last {
        return Ok(Turns::Links(Vec::new()));
    }
    let turn = |x: i128| -> Result<i128, Overflow> {
        let value = right.a.checked_mul(x).and_then(|product| product.checked_add(right.b)).ok_or(Overflow)?;
        Ok(floor(floor(value, right.c), i128::from(modulus)))
    };
    let (one, other) = (turn(first)?, turn(last)?);
    let turns = one.min(other)..=one.max(other);
    if turns.end() - turns.start() >= TURNS_MAX {
        return Ok(Turns::TooMany);
    }
    let mut links = Vec::new();
    for turn in turns {
        let back = i64::try_from(-turn * i128::from(modulus)).map_err(|_| Overflow)?;
        let within = right.plus(back)?;
        let whole = link(left, Some(places), &within, modulus, true)?;
        let Linked::Some(whole) = whole else { continue };
        if whole.elements.last() >= extent && !clipped {
            return Ok(Turns::Outside(whole.elements.start(), whole.elements.last()));
        }
        if let Linked::Some(there) = link(left, Some(places), &within, extent.min(modulus), true)? {
            links.push(there);
        }
    }
    Ok(Turns::Links(links))
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// The inverse of a number that has no divisor in common with the modulus.
fn inverse(number: i128, modulus: i128) -> i128 {
    let (mut r, mut next_r, mut t, mut next_t) = (modulus, number, 0, 1);
    while next_r != 0 {
        let quotient = r / next_r;
        (r, next_r) = (next_r, r - quotient * next_r);
        (t, next_t) = (next_t, t - quotient * next_t);
    }
    t.rem_euclid(modulus)
}

fn floor(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend / divisor;
    if dividend % divisor != 0 && (dividend < 0) != (divisor < 0) { quotient - 1 } else { quotient }
}

fn ceiling(dividend: i128, divisor: i128) -> i128 {
    -floor(-dividend, divisor)
}
