//! A rank: it publishes each version when it is due, whatever becomes of the others.

use crate::{COLUMNS, Clock, PAUSE, say, say_error, value};
use std::time::Duration;
use stillframe_kernel::boot_ns;
use stillframe_object::{Error, Object, WriteFragment};

/// At each multiple of this version it detaches, and attaches anew, if the others have that version soon. While nothing becomes
/// complete it goes on: ranks that each left out other versions would have none in common.
const STAY: u64 = 40;
const SOON: Duration = Duration::from_millis(30);

/// How long it waits for its rows.
const ATTACH: Duration = Duration::from_secs(5);

/// The rows of a rank.
pub struct Band<'a> {
    pub first: u64,
    pub rows: u64,
    pub rank: u32,
    pub order: &'a str,
}

impl Band<'_> {
    fn attach(&self, object: &Object) -> Result<WriteFragment, Error> {
        let text = format!("view own {} {{ var own [x:rows,y:columns] = grid[x+first,y] }}", self.order);
        let write = object.write(&text).bind("rows", self.rows as i64).bind("first", self.first as i64);
        write.bind("columns", COLUMNS as i64).rank(self.rank).keep(2).wait(ATTACH).attach()
    }

    /// The index in the object of each element, in the order of the fragment's memory.
    fn indices(&self) -> Vec<u64> {
        let (rows, columns) = (self.first..self.first + self.rows, 0..COLUMNS);
        match self.order {
            "columnmajor" => columns.flat_map(|y| rows.clone().map(move |x| x * COLUMNS + y)).collect(),
            _ => rows.flat_map(|x| columns.clone().map(move |y| x * COLUMNS + y)).collect(),
        }
    }
}

fn check_begun(fragment: &mut WriteFragment, indices: &[u64]) -> Result<(), Error> {
    let version = fragment.version();
    let own: &[i64] = fragment.variable_mut("own")?;
    let is_wrong = |(got, index): (&i64, &u64)| *got != value(version, *index);
    let wrong = own.iter().zip(indices).filter(|pair| is_wrong(*pair)).count();
    if wrong > 0 {
        say("wrong", format!("attached at version {version}: {wrong} of {} elements are others", own.len()));
    }
    Ok(())
}

/// Publishes until there is an error, or it is time to come anew.
fn stay(object: &Object, clock: Clock, mut fragment: WriteFragment, indices: &[u64]) -> Result<(), Error> {
    check_begun(&mut fragment, indices)?;
    say("attached", format!("{} {}", fragment.version(), boot_ns()));
    loop {
        let version = clock.version().max(fragment.version() + 1);
        clock.wait_for(version);
        let own: &mut [i64] = fragment.variable_mut("own")?;
        own.iter_mut().zip(indices).for_each(|(own, index)| *own = value(version, *index));
        let published = fragment.publish(version)?;
        say("published", format!("{version} {} {:?}", boot_ns(), published.outcome));
        // Who leaves before the others have his newest version would not go on where he was.
        if version.is_multiple_of(STAY) && object.wait_newer(version - 1, SOON).is_ok_and(|newest| newest == version) {
            return fragment.detach();
        }
    }
}

/// Publishes for ever.
pub fn run(object: &Object, clock: Clock, band: &Band) -> Result<(), Box<dyn std::error::Error>> {
    let indices = band.indices();
    loop {
        let stayed = band.attach(object).and_then(|fragment| stay(object, clock, fragment, &indices));
        say("detached", boot_ns());
        if let Err(error) = stayed {
            match &error {
                // Whoever was here before counts as living for a moment.
                Error::Overlap { .. } | Error::NotAccepted { .. } | Error::Locked { .. } => say("waits", &error),
                error => say_error(error),
            }
            std::thread::sleep(PAUSE);
        }
    }
}
