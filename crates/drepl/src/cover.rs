//! Which elements of a box are covered by which of many others: what planning comes down to.

use crate::{
    index_box::{self, BOXES_MAX, IndexBox, TooScattered},
    progression::Progression,
};

/// With so few candidates it is quicker to cut them out one after another than to divide the box.
const FEW: usize = 8;

/// Steps that any number of boxes may take, some tens of milliseconds' work.
const STEPS_MIN: usize = 1 << 17;

/// How often boxes may still be looked at and made. Blocks of decompositions take `n log n` steps; boxes that neither planes
/// nor residues tell apart, such as those of strides without a common divisor, would keep a planner busy for hours, only
/// to find that they fall into more pieces than anybody can use.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: usize,
}

impl Budget {
    /// For so many boxes.
    pub fn of(boxes: usize) -> Self {
        let mut budget = Self { steps: STEPS_MIN };
        budget.grant(boxes);
        budget
    }

    /// Adds what more boxes may take: several times what those of a decomposition do.
    pub fn grant(&mut self, boxes: usize) {
        self.steps += boxes * 2 * (4 + boxes.max(1).ilog2() as usize);
    }

    pub fn spend(&mut self, steps: usize) -> Result<(), TooScattered> {
        self.steps = self.steps.checked_sub(steps).ok_or(TooScattered)?;
        Ok(())
    }
}

/// A box divided among candidates.
#[derive(Debug, Default)]
pub(crate) struct Cover {
    /// Disjoint parts of the box, each with the position of the candidate that it was given to; sorted by it.
    pub pieces: Vec<(usize, IndexBox)>,
    /// The rest of the box, disjoint.
    pub missing: Vec<IndexBox>,
}

/// Gives each element of `target` to the first of `candidates` that has it.
///
/// Cutting one candidate after another out of the box takes the square of their number, for what is left falls into ever
/// more pieces. So the box is divided, at a plane between candidates or (where they interleave) into residues, until one
/// candidate covers what there is, or few are left. Blocks of a decomposition thus take `n log n`.
pub(crate) fn cover(target: &IndexBox, candidates: &[&IndexBox], budget: &mut Budget) -> Result<Cover, TooScattered> {
    let mut division = Division { candidates, found: Cover::default(), budget };
    let all = (0..candidates.len()).filter(|i| target.meets(candidates[*i])).collect();
    division.divide(target, all)?;
    let Cover { mut pieces, missing } = division.found;
    pieces.sort_by_key(|piece| piece.0);
    // Only a piece that a plane has cut can become larger again.
    if pieces.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        let apart = std::mem::take(&mut pieces);
        for same in apart.chunk_by(|a, b| a.0 == b.0) {
            let boxes = index_box::coalesce(same.iter().map(|piece| piece.1.clone()).collect());
            pieces.extend(boxes.into_iter().map(|one| (same[0].0, one)));
        }
    }
    Ok(Cover { pieces, missing: index_box::coalesce(missing) })
}

/// Indices of one residue along an axis, and the candidates that reach into them.
type Class = (Progression, Vec<usize>);

struct Division<'a> {
    candidates: &'a [&'a IndexBox],
    found: Cover,
    budget: &'a mut Budget,
}

impl Division<'_> {
    /// Divides `target` among the candidates at the positions `among`, which are in ascending order.
    fn divide(&mut self, target: &IndexBox, mut among: Vec<usize>) -> Result<(), TooScattered> {
        self.budget.spend(among.len())?;
        if let Some(whole) = among.iter().position(|i| self.candidates[*i].contains_all(target)) {
            // Nothing is left for those after it.
            among.truncate(whole + 1);
        }
        if among.len() <= FEW {
            return self.cut(target, &among);
        }
        if let Some((axis, plane)) = self.plane(target, &among) {
            let (axis_low, axis_end) = (target.axes()[axis].start(), target.axes()[axis].end());
            for (low, high) in [(axis_low, plane), (plane, axis_end)] {
                if let Some(half) = target.clip(axis, low, high) {
                    let reaches = |i: &usize| {
                        let along = &self.candidates[*i].axes()[axis];
                        along.start() < high && along.last() >= low
                    };
                    self.divide(&half, among.iter().copied().filter(reaches).collect())?;
                }
            }
            return Ok(());
        }
        match self.residues(target, &among) {
            Some((axis, classes)) => {
                for (class, among) in classes {
                    self.divide(&target.with(axis, class), among)?;
                }
                Ok(())
            }
            None => self.cut(target, &among),
        }
    }

    /// Cuts the candidates out of the box, one after another.
    fn cut(&mut self, target: &IndexBox, among: &[usize]) -> Result<(), TooScattered> {
        let mut left = vec![target.clone()];
        for candidate in among {
            if left.is_empty() {
                return Ok(());
            }
            self.budget.spend(left.len())?;
            let mut rest = Vec::new();
            for one in left {
                match one.intersection(self.candidates[*candidate]) {
                    None => rest.push(one),
                    Some(common) => {
                        let before = rest.len();
                        one.without(&common, &mut rest, BOXES_MAX.min(before + self.budget.steps))?;
                        self.budget.spend(rest.len() - before)?;
                        self.found.pieces.push((*candidate, common));
                    }
                }
                if rest.len() + self.found.pieces.len() > BOXES_MAX {
                    return Err(TooScattered);
                }
            }
            left = rest;
        }
        self.found.missing.append(&mut left);
        if self.found.missing.len() > BOXES_MAX { Err(TooScattered) } else { Ok(()) }
    }

    /// The plane that divides the box best: at a border of a candidate, with about as many on one side as on the other
    /// and few on both. `None` where it would help little, for too many lie on both sides of any.
    fn plane(&self, target: &IndexBox, among: &[usize]) -> Option<(usize, u64)> {
        let mut best: Option<((usize, usize), usize, u64)> = None;
        let mut borders = Vec::with_capacity(2 * among.len());
        for (axis, within) in target.axes().iter().enumerate() {
            let (low, last) = (within.start(), within.last());
            let along = || among.iter().map(|i| &self.candidates[*i].axes()[axis]);
            borders.clear();
            borders
                .extend(along().flat_map(|a| [a.start(), a.end()]).filter(|border| low < *border && *border <= last));
            if borders.is_empty() {
                continue;
            }
            let middle = borders.len() / 2;
            let plane = *borders.select_nth_unstable(middle).1;
            let below = along().filter(|a| a.start() < plane).count();
            let above = along().filter(|a| a.last() >= plane).count();
            let score = (below.max(above), below + above);
            if best.is_none_or(|(least, ..)| score < least) {
                best = Some((score, axis, plane));
            }
        }
        let ((larger, both), axis, plane) = best?;
        let n = among.len();
        (4 * larger <= 3 * n && 2 * both <= 3 * n).then_some((axis, plane))
    }

    /// Residue classes along one axis that most of the candidates lie in one of, each with those that reach into it.
    fn residues(&self, target: &IndexBox, among: &[usize]) -> Option<(usize, Vec<Class>)> {
        (0..target.rank()).find_map(|axis| {
            let within = target.axes()[axis];
            if within.count() == 1 {
                return None;
            }
            let mut steps: Vec<u64> = among.iter().map(|i| self.candidates[*i].axes()[axis].step()).collect();
            steps.sort_unstable();
            let step = steps[steps.len() / 2];
            let classes = step / within.step();
            let wide = |i: &usize| !self.candidates[*i].axes()[axis].step().is_multiple_of(step);
            let useful = classes > 1
                && step.is_multiple_of(within.step())
                && classes <= 2 * among.len() as u64
                && among.iter().filter(|i| wide(i)).count() as u64 * classes <= 4 * among.len() as u64;
            if !useful {
                return None;
            }
            let mut lists = vec![Vec::new(); classes as usize];
            for i in among {
                if wide(i) {
                    lists.iter_mut().for_each(|list| list.push(*i));
                    continue;
                }
                let (residue, first) = (self.candidates[*i].axes()[axis].start() % step, within.start() % step);
                let above = if residue >= first { residue - first } else { step - (first - residue) };
                if above.is_multiple_of(within.step()) {
                    lists[(above / within.step()) as usize].push(*i);
                }
            }
            let class = |(first, list)| Some((within.residue(first as u64, classes)?, list));
            Some((axis, lists.into_iter().enumerate().filter_map(class).collect()))
        })
    }
}
