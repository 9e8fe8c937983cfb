//! What is remembered of a region's variables, and which arrays a version takes.
//!
//! A tracked variable is followed, given once, or both. Each version takes the array that it is given, else the one that is
//! followed, else none: then the variable keeps its last content. What is given is never remembered, so that no error can
//! leave it behind.

use crate::failure::Failure;
use engine::{DType, Declaration, Error, Order, Part, Region, VariableId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Where a tracked array is.
pub struct Place {
    pub address: usize,
    pub bytes: usize,
    pub shape: Vec<usize>,
    pub order: Order,
    /// What is shown of it, unless its elements lie one behind the other and are of the variable's type.
    pub section: Option<Section>,
    /// What the next version takes of it, unless it is all.
    pub subrange: Option<Subrange>,
}

/// How the elements of a section lie in memory.
pub struct Section {
    /// Distances in bytes.
    pub strides: Vec<isize>,
    /// The type that they have there.
    pub dtype: DType,
}

/// A subrange of a tracked array.
pub struct Subrange {
    pub range: Range<usize>,
    /// Address of the array's content as it was.
    pub before: Option<usize>,
}

/// An array, or a section of one, that is given for one version.
pub struct Given<'a> {
    pub id: VariableId,
    pub address: usize,
    pub bytes: usize,
    pub shape: &'a [usize],
    pub order: Order,
    pub section: Option<Section>,
}

/// What has to be remembered of a variable.
pub struct Known {
    pub id: VariableId,
    name: String,
    pub dtype: DType,
    pub dtype_text: String,
    is_tracked: bool,
    /// Of a global array.
    pub part: Option<Part>,
    /// Of a tracked variable, unless its array is gone.
    pub place: Option<Place>,
}

impl Known {
    /// Says where the array is, all of it, and returns that; with address 0 it is nowhere.
    fn place_at(&mut self, address: usize, shape: &[usize], order: Order) -> Result<Option<&mut Place>, Failure> {
        if address == 0 {
            self.place = None;
            return Ok(None);
        }
        let bytes = self.array_bytes(shape)?;
        let place = self.place.take().filter(|place| place.shape == shape);
        let shape = place.map_or_else(|| shape.to_vec(), |place| place.shape);
        Ok(Some(self.place.insert(Place { address, bytes, shape, order, section: None, subrange: None })))
    }

    /// The length of an array of this shape.
    fn array_bytes(&self, shape: &[usize]) -> Result<usize, Failure> {
        let array_bytes = self.dtype.array_bytes(shape);
        Ok(array_bytes.map_err(|why| Error::WrongShape { name: self.name.clone(), why: why.to_string() })?)
    }

    /// A section with these distances, of elements that have this type in memory, or else the variable's.
    fn section(&self, strides: &[isize], dtype: Option<DType>) -> Section {
        Section { strides: strides.to_vec(), dtype: dtype.unwrap_or_else(|| self.dtype.clone()) }
    }
}

/// The variables of a region.
#[derive(Default)]
pub struct Variables {
    known: BTreeMap<u32, Known>,
}

impl Variables {
    /// The arrays that are followed.
    pub fn followed(&self) -> impl Iterator<Item = (VariableId, &Place)> {
        self.known.values().filter_map(|known| Some((known.id, known.place.as_ref()?)))
    }

    /// Subranges are those of one version.
    pub fn forget_subranges(&mut self) {
        self.known.values_mut().filter_map(|known| known.place.as_mut()).for_each(|place| place.subrange = None);
    }

    /// The variable of this name, if it was declared here.
    pub fn named(&self, name: &str) -> Option<&Known> {
        self.known.values().find(|known| known.name == name)
    }

    /// The variable of this number, if it was declared here.
    pub fn known(&self, number: u32) -> Option<&Known> {
        self.known.get(&number)
    }

    /// There is no variable of this number any more.
    pub fn forget(&mut self, number: u32) {
        self.known.remove(&number);
    }

    /// There is no variable of this name any more.
    pub fn forget_named(&mut self, name: &str) {
        self.known.retain(|_, known| known.name != name);
    }

    /// What the engine calls the variable of this number.
    pub fn id(&self, region: &Region, number: u32) -> Result<VariableId, Failure> {
        match self.known.get(&number) {
            Some(known) => Ok(known.id),
            None => Err(self.unknown(region, &format!("number {number}"))),
        }
    }

    /// The error that there is no such variable, with those there are.
    pub fn unknown(&self, region: &Region, name: &str) -> Failure {
        let known = self.known.values().map(|known| known.name.clone()).collect();
        Error::UnknownVariable { region: region.name().into(), name: name.into(), known }.into()
    }

    /// The number of the variable of this name.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.known.iter().find(|(_, known)| known.name == name).map(|(number, _)| *number)
    }

    /// Declares a variable, and returns its number.
    pub fn declare(&mut self, region: &mut Region, declaration: Declaration, dtype_text: &str) -> Result<u32, Failure> {
        let Declaration { name, dtype, kind, .. } = &declaration;
        let (name, dtype, is_tracked) = (name.clone(), dtype.clone(), matches!(kind, engine::Kind::Tracked));
        // The engine refuses attributes that tell no part.
        let part = Part::of(&declaration.attributes).unwrap_or_default();
        let id = region.declare(declaration)?;
        let known = Known { id, name, dtype, dtype_text: dtype_text.into(), is_tracked, part, place: None };
        self.known.insert(id.number(), known);
        Ok(id.number())
    }

    /// Says that a variable is another part.
    pub fn repart(
        &mut self,
        region: &mut Region,
        number: u32,
        shape: &[usize],
        part: Part,
    ) -> Result<VariableId, Failure> {
        let id = self.id(region, number)?;
        region.repart(id, shape, &part)?;
        if let Some(known) = self.known.get_mut(&number) {
            known.part = Some(part);
        }
        Ok(id)
    }

    /// Says where a tracked variable's array is.
    pub fn place(
        &mut self,
        region: &Region,
        number: u32,
        address: usize,
        shape: &[usize],
        order: Order,
    ) -> Result<(), Failure> {
        self.tracked_mut(region, number)?.place_at(address, shape, order).map(drop)
    }

    /// Says of which elements the array of a tracked variable consists from now on: `dtype` is their type in memory, if it is not
    /// the variable's.
    pub fn place_section(
        &mut self,
        region: &Region,
        number: u32,
        address: usize,
        shape: &[usize],
        order: Order,
        (strides, dtype): (&[isize], Option<DType>),
    ) -> Result<(), Failure> {
        let known = self.tracked_mut(region, number)?;
        let section = known.section(strides, dtype);
        if let Some(place) = known.place_at(address, shape, order)? {
            place.section = Some(section);
        }
        Ok(())
    }

    /// What a tracked variable is given for one version: of a section, its distances in bytes, and its type in memory, if that
    /// is not the variable's.
    pub fn give<'a>(
        &self,
        region: &Region,
        number: u32,
        address: usize,
        shape: &'a [usize],
        order: Order,
        section: Option<(&[isize], Option<DType>)>,
    ) -> Result<Given<'a>, Failure> {
        let known = self.tracked(region, number)?;
        if address == 0 {
            let why = format!("that of variable '{}' is NULL: leave out what shall keep its content", known.name);
            return Err(Failure::argument("given.data", why));
        }
        let section = section.map(|(strides, dtype)| known.section(strides, dtype));
        Ok(Given { id: known.id, address, bytes: known.array_bytes(shape)?, shape, order, section })
    }

    fn tracked(&self, region: &Region, number: u32) -> Result<&Known, Failure> {
        match self.known.get(&number) {
            Some(known) if known.is_tracked => Ok(known),
            Some(known) => {
                // The engine knows which kind it is.
                let found = if region.managed_bytes(known.id).is_ok() { "managed" } else { "loaned" };
                Err(Error::WrongKind { name: known.name.clone(), expected: "tracked", found }.into())
            }
            None => Err(self.unknown(region, &format!("number {number}"))),
        }
    }

    fn tracked_mut(&mut self, region: &Region, number: u32) -> Result<&mut Known, Failure> {
        self.tracked(region, number)?;
        match self.known.get_mut(&number) {
            Some(known) => Ok(known),
            None => unreachable!("it was just found"),
        }
    }

    /// Says what the next version takes of a tracked variable's array.
    pub fn narrow(&mut self, region: &Region, number: u32, subrange: Subrange) -> Result<(), Failure> {
        let known = self.tracked_mut(region, number)?;
        let Range { start, end } = subrange.range;
        let bytes = known.place.as_ref().map_or(0, |place| place.bytes);
        match &mut known.place {
            Some(place) if end <= bytes && place.section.is_none() => place.subrange = Some(subrange),
            _ => return Err(Error::OutOfRange { name: known.name.clone(), start, end, bytes }.into()),
        }
        Ok(())
    }
}
