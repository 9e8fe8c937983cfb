//! Sections of arrays, and numbers rounded to fewer bits. See `../../run.py` for which.
//!
//! # Safety
//!
//! The section that runs backwards is told by addresses, which are all in `w`. That is not written while it is published.
#![allow(unsafe_code)]

use stillframe::{
    Complex, DType, Declaration, Kind, Order, Publication, Region, Result, Section, Strided, Tracked, VariableId, bf16,
    f16,
};

const ROWS: usize = 12;
const COLUMNS: usize = 9;

pub struct Sections {
    w: Vec<f64>,
    z: Vec<Complex<f64>>,
    interior: Tracked<f64>,
    backwards: VariableId,
    single: Tracked<f32>,
    half: Tracked<f16>,
    brain: Tracked<bf16>,
    pairs: Tracked<Complex<f32>>,
    once: Tracked<f64>,
}

impl Sections {
    pub fn declare(region: &mut Region) -> Result<Sections> {
        Ok(Sections {
            w: vec![0.; ROWS * COLUMNS],
            z: vec![Complex::default(); 10],
            interior: region.track("interior")?,
            backwards: region.declare(Declaration::new("backwards", DType::Float(8), Kind::Tracked))?,
            single: region.track("single")?,
            half: region.track("half")?,
            brain: region.track("brain")?,
            pairs: region.track("pairs")?,
            once: region.track("once")?,
        })
    }

    pub fn fill(&mut self, step: usize) {
        for (n, number) in self.w.iter_mut().enumerate() {
            *number = ((37 * n % 1000) as f64 - 499.5) / 7. + step as f64;
        }
        for (number, parts) in self.z.iter_mut().zip(self.w.chunks(2)) {
            *number = Complex::new(parts[0], parts[1]);
        }
    }

    pub fn publish<'a>(&'a self, publication: Publication<'a>) -> Publication<'a> {
        let Sections { w, z, .. } = self;
        let whole = Section::of(&[ROWS, COLUMNS]).order(Order::Fortran);
        let interior = whole.clone().inside(&[1..11, 0..9]).every(&[1, 2]);
        let every_other = Section::of(&[10]).order(Order::Fortran).inside(std::slice::from_ref(&(1..10))).every(&[2]);
        let backwards = Strided {
            address: std::ptr::from_ref(&w[ROWS * COLUMNS - 1]).cast(),
            shape: &[4, 9],
            strides: &[-3 * 8, -(ROWS as isize) * 8],
            dtype: DType::Float(8),
            order: Order::Fortran,
        };
        let publication = publication
            .section(&self.interior, w, &interior)
            .section(&self.single, w, &whole)
            .section(&self.half, w, &interior)
            .section(&self.brain, w, &whole)
            .section(&self.pairs, z, &every_other)
            .section(&self.once, w, &whole.clone().inside(&[2..10, 0..9]).every(&[2, 1]));
        // SAFETY: its elements are in `w`, which is borrowed until the commit.
        unsafe { publication.section_raw(self.backwards, &backwards) }
    }
}
