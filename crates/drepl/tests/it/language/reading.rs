//! Texts that include others, and who decides which.

use std::{collections::HashMap, fs, path::PathBuf};

use drepl::{
    Bindings, Program,
    text::loader::{Loaded, Loader},
};

/// Texts in memory; `a/../b` is `b`.
struct Shelf(HashMap<&'static str, &'static str>);

impl Loader for Shelf {
    fn load(&mut self, name: &str, _: &str) -> Result<Loaded, String> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let text = self.0.get(name).ok_or("there is no such text")?;
        Ok(Loaded { name: name.into(), text: (*text).into() })
    }
}

#[test]
fn an_included_text_is_read_as_if_it_stood_there_and_only_once() {
    let mut shelf = Shelf(HashMap::from([
        ("mesh", "dataset \"numbers\" var mesh [N,N]float64 view all { var m = mesh }"),
        ("numbers", "const N = 6"),
    ]));
    let text = "dataset \"mesh\" dataset \"x/../numbers\"; view half { var m [i,j:N/2] = mesh[i,j] }";
    let program = Program::parse_with("main", text, &mut shelf).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let schema = program.bind(&Bindings::new()).unwrap();
    assert_eq!(schema.view("all").unwrap().fragment.size_bytes(), 288);
    assert_eq!(schema.view("half").unwrap().fragment.size_bytes(), 144);
}

#[test]
fn mistakes_in_included_texts_are_told_there() {
    let mut shelf = Shelf(HashMap::from([("mesh", "const N = 6\nvar mesh [M]float64")]));
    let program = Program::parse_with("main", "\n\ndataset \"mesh\"\nview v { var a = mehs }", &mut shelf).unwrap();
    let mistakes = program.bind(&Bindings::new()).unwrap_err();
    let places: Vec<_> = mistakes.iter().map(|one| (&*one.place.file, one.place.line, one.place.column)).collect();
    assert_eq!(places, [("main", 4, 18), ("mesh", 2, 11)]);
    assert!(mistakes.to_string().contains("did you mean `mesh`?"), "{mistakes}");
    assert!(mistakes.to_string().contains(" --> mesh:2:11\n"), "{mistakes}");
    let found = Program::parse_with("main", "dataset \"mash\"", &mut shelf).unwrap_err();
    let expected = "\
error[include]: cannot include \"mash\": there is no such text
 --> main:1:9
  |
1 | dataset \"mash\"
  |         ^^^^^^";
    assert_eq!(found.to_string(), expected);
}

#[test]
fn texts_that_include_each_other_are_refused() {
    let mut shelf = Shelf(HashMap::from([("a", "dataset \"b\""), ("b", "dataset \"a\"")]));
    let found = Program::parse_with("a", "dataset \"b\"", &mut shelf).unwrap_err();
    let expected = "\
error[cycle]: \"a\" includes itself
 --> b:1:9
  |
1 | dataset \"a\"
  |         ^^^
  |
  = help: a → b → a";
    assert_eq!(found.to_string(), expected);
}

#[test]
fn a_text_from_elsewhere_includes_nothing() {
    let found = Program::parse("dataset \"/etc/hostname\"").unwrap_err().to_string();
    assert!(found.contains("a text that comes from no file can include none"), "{found}");
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("drepl-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("inner/deep")).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_includes_files_of_its_own_folder_and_no_others() {
    let folder = Folder::new("files");
    folder.write("outside.drepl", "const SECRET = 1");
    folder.write("inner/deep/numbers.drepl", "const N = 6");
    folder.write("inner/deep/mesh.drepl", "dataset \"numbers.drepl\" var mesh [N]float64");
    let main = folder.write("inner/main.drepl", "dataset \"deep/mesh.drepl\" view v { var a = mesh }");
    let schema = Program::parse_file(&main).unwrap().bind(&Bindings::new()).unwrap();
    assert_eq!(schema.view("v").unwrap().fragment.size_bytes(), 48);
    std::os::unix::fs::symlink("../outside.drepl", folder.0.join("inner/link.drepl")).unwrap();
    for name in ["../outside.drepl", "link.drepl", "/etc/hostname", "deep/../../outside.drepl"] {
        let bad = folder.write("inner/bad.drepl", &format!("dataset \"{name}\""));
        let found = Program::parse_file(&bad).unwrap_err().to_string();
        assert!(found.contains("it lies outside of") && !found.contains("SECRET"), "{found}");
    }
    let bad = folder.write("inner/bad.drepl", "dataset \"deep\" dataset \"none\"");
    let found = Program::parse_file(&bad).unwrap_err().to_string();
    assert!(found.contains("it is no regular file") && found.contains("No such file"), "{found}");
    let found = Program::parse_file(folder.0.join("none")).unwrap_err().to_string();
    assert!(found.contains("cannot read"), "{found}");
    fs::write(folder.0.join("bytes"), [0xff, 0xfe, 0]).unwrap();
    assert!(Program::parse_file(folder.0.join("bytes")).is_err());
}

#[test]
fn files_are_called_as_the_caller_calls_them() {
    let folder = Folder::new("called");
    folder.write("inner/deep/mesh.drepl", "var mesh [0]float64");
    folder.write("inner/main.drepl", "dataset \"deep/mesh.drepl\" view v { var a = nothing }");
    let roundabout = folder.0.join("inner/deep/..");
    let found = Program::parse_file(roundabout.join("main.drepl")).unwrap().bind(&Bindings::new()).unwrap_err();
    let files: Vec<_> = found.iter().map(|one| one.place.file.to_string()).collect();
    let expected = ["main.drepl", "deep/mesh.drepl"].map(|name| roundabout.join(name).display().to_string());
    assert_eq!(files, expected, "{found}");
    std::os::unix::fs::symlink("inner/main.drepl", folder.0.join("link.drepl")).unwrap();
    let found = Program::parse_file(folder.0.join("link.drepl")).unwrap().bind(&Bindings::new()).unwrap_err();
    let main = folder.0.canonicalize().unwrap().join("inner/main.drepl");
    assert!(found.to_string().contains(&*main.to_string_lossy()), "{found}");
}
