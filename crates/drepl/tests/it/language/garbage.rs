//! Whatever text comes, there is an answer: never a panic, and never one that takes for ever. The fuzz target `drepl` tries
//! the same with bytes of its own.

use std::{sync::mpsc, thread, time::Duration};

use super::texts::read;
use crate::{dice::Dice, tier::by_tier};

/// Words and signs, valid names among them.
const WORDS: [&str; 76] = [
    "fill",
    "nan",
    "at",
    "at[",
    "var",
    "const",
    "type",
    "struct",
    "dataset",
    "view",
    "replica",
    "skip",
    "complete",
    "readonly",
    "default",
    "clipped",
    "rowmajor",
    "columnmajor",
    "bigendian",
    "littleendian",
    "packed",
    "aligned",
    "{",
    "}",
    "{",
    "}",
    "[",
    "]",
    "[",
    "]",
    "(",
    ")",
    ",",
    ";",
    ":",
    "=",
    "+",
    "-",
    "*",
    "/",
    "%",
    ".",
    "\n",
    " ",
    "0",
    "1",
    "2",
    "3",
    "7",
    "0x10",
    "9223372036854775807",
    "99999999999999999999",
    "a",
    "b",
    "c",
    "mesh",
    "line",
    "Cell",
    "rho",
    "e",
    "i",
    "j",
    "k",
    "N",
    "x",
    "y",
    "float64",
    "int8",
    "string3",
    "complex64",
    "zero",
    "minus",
    "most",
    "\"1\"",
    "/*",
    "\0",
];

const PROGRAMS: [&str; 5] = [
    "const N = 12 - 2 type Cell struct { rho, e float64; flux [3]float32; id int32 }
type Small struct { id int32 rho float64 }
dataset { var mesh [N,N]Cell var line [40]float32 var vec [4,5][3]int16 }
view sim default { var mesh = mesh }
view soa readonly { var r [,]{rho} = mesh[,]; var e [,]{e} = mesh[,] }
view coarse readonly aligned { var m [i,j]{rho; id} = mesh[i*4,j*4] }
view ft columnmajor { var m [i,j] = mesh[j,i] }
view turned bigendian { var w [i] = line[39 - i] }
view halves { var a [i/2] = line[i]; var b [2*i+1] = line[(i + 1)*2 - 1] }
view vectors { var v [k][i,j] = vec[i,j][k] }
view clip clipped { var g[x:4,y:4] = mesh[x-1,y-1].flux[2] }
view small { var s [i,j]Small = mesh[i+1,j*2] }
replica complete main \"main.dat\" { skip 16; view sim; view soa }
replica complete bigendian rest { view coarse }",
    "var grid [64,2*b+26] float64\0{ var g[x:16,y:b] = grid[x+xmin,y+xmin*2-1\n] }\0view readonly { var ghost[x:1,y:32] = grid[x+47,y] }",
    "dataset \"1\" dataset \"2\" view v { var a = mesh.rho }\0dataset \"2\" var mesh [N]Cell\0const N = 3 type Cell struct { rho int8 }",
    "type S struct { a [3]int16; b [3]float32; c struct { d [2,2]bool; e string5 } } var s [2]S
view aos { var v [p][i]{a; b} = s[p]{b[i]; a[i]} { var w = s[1].c{e; d[x,1]} }
view aligned { var t = s }",
    "const at = [3, 7, 1] const to = [at[2], 2*at[0], 9] type Cell struct { rho float64; id int16 }
var mesh [10,12]Cell var line [40]float32
view lists readonly fill -1 { var a [i] = line[at[i]]; var b [i]{id; skip 4; rho; skip (2*at[0])} = mesh[to[i],at[i] - 1] }
view diagonals clipped fill nan { var d [i:12] = mesh[i,i].rho; var e [2*i] = mesh[9-i,at[i/4]].rho }
view round readonly { var f [i:30,j] = mesh[i % 10,j]{id} }",
];

/// Runs in a thread of its own, so that what takes for ever is told.
fn watched(name: &str, body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let worker = thread::Builder::new().spawn(move || {
        body();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_secs(240)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name} takes for ever"),
        _ => worker.unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn rounds() -> u64 {
    std::env::var("DREPL_TEST_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or_else(|| by_tier(1000, 4000))
}

#[test]
fn random_bytes_have_an_answer() {
    watched("random bytes", || {
        for seed in 0..rounds() {
            let mut dice = Dice(seed);
            let bytes: Vec<u8> = (0..dice.below(200)).map(|_| dice.next() as u8).collect();
            read(&bytes);
        }
    });
}

#[test]
fn random_words_have_an_answer() {
    watched("random words", || {
        for seed in 0..rounds() {
            let mut dice = Dice(seed);
            let mut text = String::new();
            for _ in 0..dice.below(120) {
                text += WORDS[dice.below(WORDS.len())];
                text += if dice.below(3) == 0 { "" } else { " " };
            }
            read(text.as_bytes());
        }
    });
}

#[test]
fn programs_with_damages_have_an_answer() {
    for program in PROGRAMS {
        read(program.as_bytes());
    }
    watched("damaged programs", || {
        for seed in 0..rounds() {
            let mut dice = Dice(seed);
            let mut bytes = PROGRAMS[dice.below(PROGRAMS.len())].as_bytes().to_vec();
            for _ in 0..=dice.below(4) {
                let at = dice.below(bytes.len().max(1)).min(bytes.len());
                let end = (at + dice.below(12)).min(bytes.len());
                let word = WORDS[dice.below(WORDS.len())];
                match dice.below(5) {
                    0 if at < bytes.len() => bytes[at] = dice.next() as u8,
                    1 => drop(bytes.drain(at..end)),
                    2 => drop(bytes.splice(at..end, word.bytes())),
                    3 => {
                        let piece = bytes[at..end].to_vec();
                        let to = dice.below(bytes.len() + 1);
                        drop(bytes.splice(to..to, piece));
                    }
                    _ => drop(bytes.splice(at..at, word.bytes())),
                }
            }
            read(&bytes);
        }
    });
}

#[test]
fn long_texts_have_an_answer() {
    let many = |piece: &str, count: usize| piece.repeat(count);
    let numbered = |count: usize, write: &dyn Fn(usize) -> String| (0..count).map(write).collect::<String>();
    let texts = vec![
        many("(", 300_000),
        many("[", 300_000),
        many("{", 300_000),
        many("{ var a {", 50_000),
        many("type T struct { a ", 20_000),
        many("/*", 300_000),
        many("\"", 300_000),
        many("-", 300_000),
        many("a", 1_000_000),
        many("\u{3c1}", 300_000),
        many("@ ", 300_000),
        many("\n", 1_000_000),
        format!("const A = {}1", many("-1*", 200_000)),
        format!("const A = {}", many("9223372036854775807*", 100_000)),
        format!("var m [{}1]int8", many("1,", 100_000)),
        format!("const at = [{}1] var m [9]int8 view v readonly {{ var a [i] = m[at[i]] }}", many("1, ", 100_000)),
        format!(
            "const at = [{}1] var m [9]int8 view v clipped readonly {{ {} }}",
            many("99, ", 60_000),
            numbered(20_000, &|n| format!("var a{n} [i] = m[at[i]] "))
        ),
        format!(
            "var m [65536,65536]int8 view v readonly {{ {} }}",
            numbered(20_000, &|n| format!("var a{n} [i] = m[i,i] "))
        ),
        format!("var m [9]int8 view v {{ {} }}", numbered(20_000, &|n| format!("var a{n} [i] = m[i] "))),
        format!(
            "var m [99999]int8 view v {{ {} }}",
            numbered(20_000, &|n| format!("var a{n} [i:4] = m[20000*i+{n}] "))
        ),
        format!("var m [4]int8 view v readonly {{ {} }}", numbered(20_000, &|n| format!("var a{n} = m "))),
        format!("type T struct {{ {} }} var t T view v {{ var a = t }}", numbered(60_000, &|n| format!("f{n} int8 "))),
        format!(
            "type T struct {{ {} }} var t T view v readonly {{ {} }}",
            numbered(60_000, &|n| format!("f{n} int8 ")),
            numbered(2000, &|n| format!("var a{n} = t "))
        ),
        format!(
            "type T struct {{ {} }} var t T view v {{ var a = t{{ {} }}; var b {{ {} }} = t }}",
            numbered(60_000, &|n| format!("f{n} int8 ")),
            numbered(60_000, &|n| format!("g{n};")),
            numbered(60_000, &|n| format!("h{n};"))
        ),
        format!("{}", numbered(30_000, &|n| format!("const c{n} = c{} ", n + 1))),
        format!("{} var a T0", numbered(30_000, &|n| format!("type T{n} struct {{ a, b T{} }} ", n + 1))),
        format!(
            "type T0 int8 {} {}",
            numbered(16, &|n| format!("type T{} struct {{ a, b T{n} }} ", n + 1)),
            numbered(20_000, &|n| format!("var a{n} T16 "))
        ),
        "var m [1000000007,1000000009]int8 view v { var a [i,j] = m[i*1009,j*1013] } replica complete r { view v }"
            .into(),
        "var m [4611686018427387904]int8 view v { var a [i] = m[i*3037000499] } replica complete r { view v }".into(),
        format!(
            "var m [1000000]int8 {} replica complete r {{ {} }}",
            numbered(40, &|n| format!("view v{n} {{ var a [i] = m[{}*i+{n}] }} ", 1000 + n)),
            numbered(40, &|n| format!("view v{n} "))
        ),
    ];
    watched("long texts", move || texts.iter().for_each(|text| read(text.as_bytes())));
}
