//! Beginning as the producer of a region.

use crate::error::{Error, Result};
use crate::group::peers::{Peers, check_living};
use crate::group::run;
use crate::place::Place;
use crate::place::arena::region::ArenaRegion;
use crate::place::check_pages;
use crate::place::directory::{self, Directory};
use crate::place::names;
use crate::producer::aside::{End, Run};
use crate::producer::input::Inputs;
use crate::producer::launcher;
use crate::producer::numbered::Numbered;
use crate::producer::options::RegionOptions;
use crate::producer::patience::Patience;
use crate::producer::retention;
use crate::producer::state::{Producer, Undeclared, Workspace};
use crate::producer::statistics::Statistics;
use crate::store::lease::RegionLeases;
use crate::store::regions::Regions;
use crate::store::{Beginning, Store, ownership};
use crate::working::tracker::Tracker;
use std::collections::BTreeSet;
use std::sync::Arc;
use stillframe_kernel::copy::Copier;
use stillframe_kernel::exit::ShutdownHook;
use stillframe_kernel::maps::Maps;
use stillframe_kernel::points;

impl Producer {
    /// Begins as the producer of a region, or of that of a rank of the group that has this name.
    pub(crate) fn open(options: RegionOptions, given: &str) -> Result<Producer> {
        let (options, given) = &options.resolve(given)?;
        match Producer::begin(options.clone(), given) {
            Err(Error::NoSpace { .. } | Error::ArenaFull { .. }) if Run::new(options, given)?.make_room() => {
                Producer::begin(options.clone(), given)
            }
            other => other,
        }
        .map_err(|error| error.of_rank(options.rank, launcher::rank_and_ranks()))
    }

    fn begin(options: RegionOptions, given: &str) -> Result<Producer> {
        check_pages()?;
        let name = &options.rank.map_or(given.into(), |(rank, _)| names::rank_name(given, rank));
        let ours = Run::new(&options, given)?;
        let tracker = Tracker::open(options.tracker)?;
        let regions = match &options.arena {
            Some(arena) => options.regions_of(arena),
            None => Regions::Directory(make_root(&options, name)?),
        };
        let group = &options.inner(given);
        let given_up = match (options.rank, options.fresh, options.rollback) {
            // A region by itself is a run by itself.
            (None, ..) | (_, false, None) => BTreeSet::new(),
            (_, true, _) => run::runs_above(&regions, &options.inner(name), None)?,
            (_, false, version) => run::runs_above(&regions, &options.inner(name), version)?,
        };
        if options.fresh {
            ours.clear(&regions)?;
        }
        let mut peers = options.rank.map(|(rank, ranks)| Peers::of_rank(&regions, group, rank, ranks)).transpose()?;
        // Ranks of one run have to find out which that is.
        let take_turn = || options.rank.map(|_| run::turn(&regions, group)).transpose();
        let turn = take_turn()?;
        let locked = lock(&regions, &options.inner(name), options.mode);
        let shown = |name: &str| options.full_name(names::shown_name(name));
        let (place, leases) = locked.map_err(|error| names::with_shown_names(error, shown))?;
        points::hit("create.locked");
        let (mut store, is_whole) = Store::open(place, leases, name, options.bound_bytes)?;
        store.planes_mut().set_unit(options.memory_unit.unwrap_or_default());
        // Nobody takes what the head said of the last producer's run for this one's.
        drop(turn);
        let mut recovered = None;
        if is_whole {
            points::hit("recover.begin");
            store.recover(options.rollback)?;
            peers.iter_mut().for_each(|peers| peers.take_over(store.versions()));
            // Versions that were being retired may be free by now, and older ones than are kept may go.
            retention::retire_unwanted(&mut store, peers.as_mut(), &options)?;
            recovered = store.take_up_newest()?;
            points::hit("recover.done");
        }
        let end = Arc::new(End::new(ours, store.head.clone()));
        let rank = options.rank.unwrap_or((0, 0));
        let turn = take_turn()?;
        let run = match (options.run, options.rank) {
            (Some(run), _) => run,
            (None, Some(rank)) => run::find(&regions, group, rank, &given_up)?,
            (None, None) => run::new(),
        };
        peers.iter_mut().for_each(|peers| peers.set_run(run));
        store.begin(&Beginning { keep: options.keep as u32, tracker: tracker.kind().code(), rank, run }, is_whole);
        drop(turn);
        if let Some((rank, ranks)) = options.rank {
            // One that began at the same time has seen this one, or is seen by it.
            check_living(&regions, group, rank, ranks)?;
        }
        store.head.notify();
        points::hit("create.done");
        let number = recovered.as_ref().map(|newest| newest.number);
        let undeclared = recovered.map_or(Vec::new(), |newest| newest.variables);
        let workspace = Workspace {
            variables: Numbered::default(),
            undeclared: undeclared.into_iter().map(|(meta, extent)| Undeclared { meta, extent }).collect(),
            schema_changed: true,
            tracker,
            maps: if options.constant_files { Maps::with_constant_files() } else { Maps::default() },
            copier: Copier::new(options.copy_threads()),
            background: None,
            demoted_windows: 0,
            copies: Vec::new(),
            small_pieces: Vec::new(),
            inputs: Inputs::default(),
        };
        let name = options.full_name(name);
        Ok(Producer {
            name,
            store,
            workspace,
            options,
            _shutdown_hook: {
                let end = end.clone();
                ShutdownHook::new(move || drop(end.say(true, false)))
            },
            end,
            peers,
            recovered: number,
            run,
            statistics: Statistics::default(),
            patience: Patience::default(),
            pending: None,
            finished: None,
        })
    }
}

/// The directory of regions in which one is to be made.
fn make_root(options: &RegionOptions, name: &str) -> Result<Directory> {
    let guard = options.guard()?;
    if let Some(root) = Directory::root(&options.dir, guard)? {
        directory::check_neighbours(&root, name)?;
    }
    Directory::make_root(&options.dir, options.mode, guard)
}

/// Becomes the producer of a region.
fn lock(regions: &Regions, name: &str, mode: u32) -> Result<(Place, RegionLeases)> {
    match regions {
        Regions::Directory(root) => {
            root.make_below(name, mode)?;
            points::hit("create.dir");
            let (directory, leases) = ownership::lock(root, name, mode)?;
            Ok((Place::Directory { directory, mode }, RegionLeases::File(leases.into())))
        }
        Regions::Arena { arena, .. } => {
            let shown = |error| match error {
                Error::InUse { region, pid, .. } => Error::in_use(regions.shown(&region), pid),
                error => error,
            };
            let region = Arc::new(ArenaRegion::claim(arena, name, ownership::REMOVAL_BEGINS).map_err(shown)?);
            Ok((Place::Arena(region.clone()), RegionLeases::Produced(region)))
        }
    }
}
