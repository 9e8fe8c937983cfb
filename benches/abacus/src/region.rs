//! A step through a region: the last version is mapped, the next one written into slots on loan.

use crate::sweep::{advance, check, compute, timed};
use crate::{Result, Told};
use std::path::Path;
use stillframe::{Observer, Region};

/// A step; with `threads` of the region's, or as many as it has by default.
pub fn step(dir: &Path, bytes: usize, number: u64, threads: Option<usize>, large_pages: bool) -> Result<Told> {
    let mut told = Told::default();
    let count = bytes / 8;
    let open = || {
        let options = Region::options().dir(dir).large_pages(large_pages);
        threads.map_or(options.clone(), |threads| options.threads(threads)).create("state")
    };
    if number == 0 {
        let mut region = open()?;
        let x = region.loaned::<f64>("x", &[count])?;
        let mut loan = region.loan(&x)?;
        loan.fill(0.0);
        loan.submit();
        region.publish(0).commit()?;
        return Ok(told);
    }
    let (region, recover) = timed(open);
    let mut region = region?;
    let observe = || Observer::options().dir(dir).populate(region.threads()).open("state")?.version(number - 1);
    let (snapshot, attach) = timed(observe);
    let snapshot = snapshot?;
    let (read, view) = timed(|| snapshot.slice::<f64>("x"));
    let read = read?;
    let x = region.loaned::<f64>("x", &[count])?;
    let (loan, lend) = timed(|| region.loan(&x));
    let mut loan = loan?;
    let ((), first) = timed(|| advance(read, &mut loan));
    compute(read, &mut loan, &mut told);
    check(&loan, number)?;
    loan.submit();
    let (published, publish) = timed(|| region.publish(number).commit());
    published?;
    let ((), end) = timed(|| drop(region));
    let ((), unmap) = timed(|| drop(snapshot));
    let parts = [
        ("recover", recover),
        ("attach", attach + view),
        ("loan", lend),
        ("first touch", first - told.compute),
        ("publish", publish),
        ("close", end + unmap),
    ];
    told.parts.extend(parts.map(|(name, ms)| (name.into(), ms)));
    Ok(told)
}
