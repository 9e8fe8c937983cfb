//! A writer of plain checkpoints, to be replaced.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use stillframe::Snapshot;
use stillframe_checkpoint::manifest::{self, Checksums, CodecName, Manifest};
use stillframe_checkpoint::{Digest, Grid, Source, layout};

pub fn save(store: &Path, name: &str, source: Source, chunk_bytes: usize) -> PathBuf {
    let (version, snapshots): (u64, Vec<(Option<u32>, &Snapshot)>) = match source {
        Source::Region(snapshot) => (snapshot.version(), vec![(None, snapshot)]),
        Source::Group(group) => (
            group.version(),
            group.ranks().iter().enumerate().map(|(rank, snapshot)| (Some(rank as u32), snapshot)).collect(),
        ),
    };
    let dir = store.join(layout::checkpoint_dir(version));
    let mut digests = BTreeMap::new();
    let mut write = |path: String, bytes: &[u8]| {
        let file = dir.join(&path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
        digests.insert(path, Digest::of(bytes));
    };
    write("zarr.json".into(), b"{}");
    let mut variables = Vec::new();
    for (rank, snapshot) in &snapshots {
        for view in snapshot.variables() {
            let grid = Grid::new(&view.shape, view.order, view.dtype.bytes(), chunk_bytes);
            let variable = manifest::Variable {
                rank: *rank,
                name: view.name.clone(),
                path: manifest::array_path(*rank, &view.name),
                dtype: view.dtype.clone(),
                order: view.order,
                units: view.units.clone(),
                attributes: view.attributes.clone(),
                shape: view.shape.clone(),
                chunk_shape: grid.chunk_shape().into(),
                codec: CodecName::Bytes,
                part: None,
            };
            write(format!("{}/zarr.json", variable.path), b"{\"array\":1}");
            for chunk in 0..grid.chunks() {
                let range = grid.range(chunk);
                let mut bytes = vec![0; grid.chunk_bytes()];
                snapshot.read(&view.name, range.start, &mut bytes[..range.len()]).unwrap();
                write(variable.chunk_path(&grid, chunk), &bytes);
            }
            variables.push(variable);
        }
    }
    let text: String = digests.iter().map(|(path, digest)| format!("{digest}  {path}\n")).collect();
    std::fs::write(dir.join(layout::CHECKSUMS), &text).unwrap();
    let is_group = matches!(source, Source::Group(_));
    let ranks = is_group.then_some(snapshots.len() as u32);
    let manifest = Manifest {
        format: manifest::FORMAT.into(),
        format_version: manifest::FORMAT_VERSION,
        region: name.into(),
        ranks,
        version,
        published_ns: snapshots[0].1.published_ns(),
        saved_ns: 1,
        attributes: snapshots[0].1.attributes().clone(),
        rank_attributes: snapshots.iter().filter(|_| is_group).map(|(_, s)| s.attributes().clone()).collect(),
        rank_published_ns: snapshots.iter().filter(|_| is_group).map(|(_, s)| s.published_ns()).collect(),
        previous: None,
        bytes: 0,
        linked_bytes: 0,
        files: digests.len() as u64,
        checksums: Checksums {
            algorithm: "xxh128".into(),
            file: layout::CHECKSUMS.into(),
            digest: Digest::of(text.as_bytes()).to_string(),
        },
        variables,
    };
    let text = manifest.encode();
    std::fs::write(dir.join(layout::MANIFEST), &text).unwrap();
    let line = format!("{}  {}\n", Digest::of(text.as_bytes()), layout::MANIFEST);
    std::fs::write(dir.join(layout::MANIFEST_CHECKSUM), line).unwrap();
    dir
}
