//! Checkpoints with damages of every kind, and what must come of reading them. The fuzz targets share it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use stillframe_checkpoint::manifest::Manifest;
use stillframe_checkpoint::{Checkpoint, Digest, layout};

/// The files of a checkpoint.
pub type Files = BTreeMap<String, Vec<u8>>;

/// One change of a checkpoint's files.
#[derive(Debug, Clone)]
pub enum Damage {
    Flip {
        file: String,
        at: usize,
        bit: u8,
    },
    Write {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Content {
        file: String,
        bytes: Vec<u8>,
    },
    Length {
        file: String,
        bytes: u64,
    },
    Remove {
        file: String,
    },
    Directory {
        file: String,
    },
    /// A link to the same content outside.
    Link {
        file: String,
    },
    Pipe {
        file: String,
    },
    Swap {
        left: String,
        right: String,
    },
    /// A file that is none of the checkpoint's.
    Stranger {
        file: String,
    },
    /// Checksums of all that is there by now, as somebody makes them who wants to be believed.
    Mend,
}

/// The files below a directory.
pub fn take(dir: &Path) -> Files {
    fn walk(dir: &Path, prefix: &str, files: &mut Files) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => walk(&entry.path(), &format!("{path}/"), files),
                false => drop(files.insert(path, std::fs::read(entry.path()).unwrap())),
            }
        }
    }
    let mut files = Files::new();
    walk(dir, "", &mut files);
    files
}

/// Writes the files anew.
pub fn lay(files: &Files, dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
    for (path, bytes) in files {
        let file = dir.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
}

impl Damage {
    pub fn apply(&self, dir: &Path, files: &Files) {
        let open = |file: &str| std::fs::File::options().write(true).open(dir.join(file)).unwrap();
        match self {
            Damage::Flip { file, at, bit } => {
                open(file).write_all_at(&[files[file][*at] ^ 1 << bit], *at as u64).unwrap();
            }
            Damage::Write { file, at, bytes } => open(file).write_all_at(bytes, *at as u64).unwrap(),
            Damage::Content { file, bytes } => std::fs::write(dir.join(file), bytes).unwrap(),
            Damage::Length { file, bytes } => open(file).set_len(*bytes).unwrap(),
            Damage::Remove { file } => std::fs::remove_file(dir.join(file)).unwrap(),
            Damage::Directory { file } => {
                std::fs::remove_file(dir.join(file)).unwrap();
                std::fs::create_dir(dir.join(file)).unwrap();
            }
            Damage::Link { file } => {
                let outside = dir.parent().unwrap().join("outside");
                std::fs::rename(dir.join(file), &outside).unwrap();
                std::os::unix::fs::symlink(&outside, dir.join(file)).unwrap();
            }
            Damage::Pipe { file } => {
                std::fs::remove_file(dir.join(file)).unwrap();
                assert!(std::process::Command::new("mkfifo").arg(dir.join(file)).status().unwrap().success());
            }
            Damage::Swap { left, right } => {
                std::fs::write(dir.join(left), &files[right]).unwrap();
                std::fs::write(dir.join(right), &files[left]).unwrap();
            }
            Damage::Stranger { file } => {
                std::fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
                std::fs::write(dir.join(file), "strange").unwrap();
            }
            Damage::Mend => mend(dir),
        }
    }
}

/// Makes all checksums fit.
fn mend(dir: &Path) {
    let own = [layout::MANIFEST, layout::MANIFEST_CHECKSUM, layout::CHECKSUMS];
    let files = take(dir);
    let line = |(path, bytes): (&String, &Vec<u8>)| format!("{}  {path}\n", Digest::of(bytes));
    let list: String = files.iter().filter(|(path, _)| !own.contains(&path.as_str())).map(line).collect();
    std::fs::write(dir.join(layout::CHECKSUMS), &list).unwrap();
    let Some(mut manifest) = files.get(layout::MANIFEST).cloned() else { return };
    // By its place, for the rest of the manifest may be no JSON.
    let key = b"\"digest\": \"";
    if let Some(at) = manifest.windows(key.len()).position(|window| window == key) {
        let end = (at + key.len() + 32).min(manifest.len());
        let digest = Digest::of(list.as_bytes()).to_string();
        manifest[at + key.len()..end].copy_from_slice(&digest.as_bytes()[..end - at - key.len()]);
    }
    std::fs::write(dir.join(layout::MANIFEST), &manifest).unwrap();
    let line = format!("{}  {}\n", Digest::of(&manifest), layout::MANIFEST);
    std::fs::write(dir.join(layout::MANIFEST_CHECKSUM), line).unwrap();
}

/// The text of a manifest, whatever it is: refused, or such that its chunks follow each other and lie where they may.
pub fn fuzz_manifest(bytes: &[u8]) {
    let Ok(manifest) = Manifest::decode(Path::new(layout::MANIFEST), bytes) else { return };
    for variable in &manifest.variables {
        let grid = variable.grid().unwrap();
        let count = grid.chunks();
        let ends = (0..count.min(50)).chain(count.saturating_sub(50)..count);
        for chunk in ends {
            let range = grid.range(chunk);
            assert!(range.start < range.end && range.end <= grid.bytes());
            assert!(chunk > 0 || range.start == 0);
            assert!(chunk + 1 < count || range.end == grid.bytes());
            assert_eq!(grid.covering(range), chunk..chunk + 1);
            let path = variable.chunk_path(&grid, chunk);
            assert!(path.split('/').all(|part| !part.is_empty() && part != "." && part != ".."), "{path}");
        }
    }
    assert_eq!(Manifest::decode(Path::new(layout::MANIFEST), manifest.encode().as_bytes()).unwrap(), manifest);
}

/// Everything that reading a checkpoint can do, with whatever result.
pub fn read_all(path: &Path) {
    let Ok(checkpoint) = Checkpoint::open(path) else { return };
    let _ = checkpoint.check();
    let _ = checkpoint.verify(2, &|_| {});
    for variable in &checkpoint.manifest().variables {
        let mut out = [0; 100];
        let _ = checkpoint.read(variable.rank, &variable.name, 3..103, &mut out);
    }
}

/// Damages as bytes spell them, eight for each; checksums that fit are made last, or nothing else would be read.
fn spell(files: &Files, bytes: &[u8]) -> Vec<Damage> {
    let names: Vec<&String> = files.keys().collect();
    let damage = |bytes: &[u8]| {
        let file = names[bytes[1] as usize % names.len()].clone();
        let at = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], 0]) as usize % files[&file].len();
        match bytes[0] % 4 {
            0 => Damage::Flip { file, at, bit: bytes[5] % 8 },
            1 => Damage::Length { file, bytes: at as u64 },
            2 => Damage::Remove { file },
            _ => Damage::Write { file, at, bytes: bytes[5..].to_vec() },
        }
    };
    let mut damages: Vec<Damage> = Vec::new();
    for damage in bytes.chunks_exact(8).map(damage) {
        // What is removed cannot be damaged any more.
        let is_removed = |other: &Damage| matches!(other, Damage::Remove { .. });
        if damages.is_empty() || !is_removed(&damage) && !damages.iter().any(is_removed) {
            damages.push(damage);
        }
    }
    damages.push(Damage::Mend);
    damages
}

/// A checkpoint with a region of two variables, for the fuzz target of whole checkpoints.
pub struct Image {
    root: std::path::PathBuf,
    files: Files,
}

impl Image {
    pub fn new() -> Image {
        let root = std::path::PathBuf::from(format!("/dev/shm/stillframe-fuzz-{}", std::process::id()));
        let mut region = stillframe::Region::options().dir(root.join("made")).create("r").unwrap();
        region.array::<f64>("u", &[30, 100]).unwrap();
        region.array::<[u8; 5]>("v", &[7]).unwrap();
        region.publish(1).attr("time", 0.5).commit().unwrap();
        let snapshot = stillframe::Observer::options().dir(root.join("made")).open("r").unwrap().newest().unwrap();
        let options = stillframe_checkpoint::SaveOptions::new().chunk_bytes(4096).threads(1);
        let saver = stillframe_checkpoint::Saver::open(root.join("store"), options).unwrap();
        let saved = saver.save(&snapshot, &|_| {}).unwrap();
        let files = take(&saved.path);
        std::fs::remove_dir_all(&root).unwrap();
        Image { root, files }
    }
}

/// A whole checkpoint, damaged as the bytes spell: read, and restored or not.
pub fn fuzz_checkpoint(image: &Image, bytes: &[u8]) {
    let dir = image.root.join("damaged");
    lay(&image.files, &dir);
    spell(&image.files, bytes).iter().for_each(|damage| damage.apply(&dir, &image.files));
    read_all(&dir);
    if let Ok(checkpoint) = Checkpoint::open(&dir) {
        let region = stillframe::Region::options().dir(image.root.join("restored"));
        let restored = stillframe_checkpoint::restore(&checkpoint, region, "r");
        let entries = std::fs::read_dir(image.root.join("restored")).unwrap().count();
        assert_eq!(entries, usize::from(restored.is_ok()), "{restored:?}");
    }
    std::fs::remove_dir_all(&image.root).unwrap();
}
