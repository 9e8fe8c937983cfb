use super::*;
use crate::place::table_memory::TableMemory;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// Windows of the tables.
const WINDOWS: usize = 12;

/// Blocks of tables in a file of their own.
fn tables() -> (Tables, std::path::PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("stillframe-entries-{}-{number}", std::process::id()));
    let options = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let memory = TableMemory::file(options.unwrap(), path.clone(), 1 << 30).unwrap();
    (Tables::new(memory, "r"), path)
}

/// Changes of one version: windows and the pages of each that go to a plane. Few patterns, so that many windows have the same.
fn changes() -> impl Strategy<Value = Vec<(usize, usize, usize, u8)>> {
    let pages = prop_oneof![Just((0, 3)), Just((0, 2)), Just((1, 2)), Just((0, WINDOW_PAGES)), Just((7, 400))];
    prop::collection::vec((0..WINDOWS, pages, 0u8..4), 0..30)
        .prop_map(|all| all.into_iter().map(|(window, (start, end), plane)| (window, start, end, plane)).collect())
}

/// The frames of a window that one table of planes has and the others have not, page by page.
fn frames_by_page(gone: &Subtable, others: &[Subtable]) -> Vec<(u8, usize)> {
    let is_only = |page: &usize| gone[*page] != ZERO_PLANE && others.iter().all(|other| other[*page] != gone[*page]);
    (0..WINDOW_PAGES).filter(is_only).map(|page| (gone[page], page)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// As a table of planes of all pages of each window has it, through versions that come and go.
    #[test]
    fn entries_say_where_each_page_is_and_frames_go_with_the_last_that_has_them(
        versions in prop::collection::vec((changes(), any::<bool>()), 1..12),
    ) {
        let (mut tables, path) = tables();
        let mut model = vec![[ZERO_PLANE; WINDOW_PAGES]; WINDOWS];
        let mut words = vec![u32::from(ZERO_PLANE); WINDOWS];
        let mut alive: Vec<(Vec<u32>, Vec<Subtable>)> = Vec::new();
        for (mut changed, goes) in versions {
            changed.sort_by_key(|(window, ..)| *window);
            words.iter().for_each(|word| retain(*word, &mut tables));
            let mut maker = EntryMaker::new();
            for parts in changed.chunk_by(|left, right| left.0 == right.0) {
                let window = parts[0].0;
                let parts: Vec<Assignment> = parts
                    .iter()
                    .map(|(window, start, end, plane)| {
                        model[*window][*start..*end].fill(*plane);
                        let mut pages = Mask::EMPTY;
                        pages.insert_run(*start, *end);
                        Assignment { window: *window, plane: usize::from(*plane), pages }
                    })
                    .collect();
                let new = maker.make(words[window], parts.iter(), &mut tables).unwrap();
                release(words[window], &mut tables);
                words[window] = new;
            }
            alive.push((words.clone(), model.clone()));
            let mut users = vec![0; tables.blocks() as usize];
            for (words, planes) in &alive {
                for (word, planes) in words.iter().zip(planes) {
                    prop_assert_eq!(&expand(&tables, *word), planes);
                    if word & SUBTABLE != 0 {
                        users[(word & !SUBTABLE) as usize] += 1;
                    }
                }
            }
            prop_assert_eq!(tables.users(), &users[..]);
            if goes && alive.len() > 1 {
                let index = alive.len() / 2 - usize::from(alive.len() == 2);
                let (gone, planes) = alive.remove(index);
                let near = index.saturating_sub(1)..(index + 1).min(alive.len());
                let mut finder = FrameFinder::new();
                for window in 0..WINDOWS {
                    let others = alive[near.clone()].iter().rev().map(|(words, _)| words[window]);
                    let mut found = Vec::new();
                    finder.find(gone[window], others, &tables, |plane, pages| {
                        found.extend(pages.pages().map(|page| (plane, page)));
                    });
                    found.sort_by_key(|(_, page)| *page);
                    let kept: Vec<Subtable> = alive[near.clone()].iter().map(|(_, planes)| planes[window]).collect();
                    prop_assert_eq!(found, frames_by_page(&planes[window], &kept));
                }
                gone.iter().for_each(|word| release(*word, &mut tables));
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn windows_whose_pages_lie_alike_share_a_sub_table() {
    let (mut tables, path) = tables();
    let mut maker = EntryMaker::new();
    let part = |window, plane, pages| Assignment { window, plane, pages: Mask::first(pages) };
    let zeros = u32::from(ZERO_PLANE);
    let mut make = |old: u32, parts: &[Assignment]| maker.make(old, parts.iter(), &mut tables).unwrap();
    let first = make(zeros, &[part(0, 0, 3)]);
    // Known from its change, and from its pages alone.
    assert_eq!(make(zeros, &[part(1, 0, 3)]), first);
    assert_eq!(make(0, &[part(2, 0, 3)]), 0);
    assert_eq!(make(zeros, &[part(3, 1, 3), part(3, 0, 3)]), first);
    assert_ne!(make(zeros, &[part(4, 0, 2)]), first);
    assert_ne!(make(zeros, &[part(5, 1, 3)]), first);
    assert_ne!(first & SUBTABLE, 0);
    // Each of the three windows counts.
    let block = (first & !SUBTABLE) as usize;
    for left in [2, 1, 0] {
        release(first, &mut tables);
        assert_eq!(tables.users()[block], left);
    }
    std::fs::remove_file(path).unwrap();
}
