//! The contenders that are not written in Rust, and how their tools are made: once, at the first run,
//! under the target directory.

use crate::{Result, confine};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

const BOOST: &str = include_str!("../native/boost.cpp");
const SST: &str = include_str!("../native/sst.py");
const ADIOS2: &str = "adios2==2.12.1.1001";

/// `rivals-tools`, beside this executable.
fn tools() -> Result<PathBuf> {
    let dir = env::current_exe()?.with_file_name("rivals-tools");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The command of a contender that is a program of its own; the runner appends the arguments that
/// all children share. `first` is the process that was started before, if any.
pub fn command(contender: &str, role: &str, first: Option<u32>) -> Result<Option<Command>> {
    let tools = tools()?;
    let (program, how) = match contender {
        "boost" => ("boost", "copy"),
        "boost-inplace" => ("boost", "inplace"),
        "adios2-sst" => ("venv/bin/python", "-"),
        _ => return Ok(None),
    };
    let mut command = Command::new(tools.join(program));
    if contender == "adios2-sst" {
        command.arg(tools.join("sst.py"));
        // SST copies every step into new memory. Let glibc keep what was freed, or each step would
        // pay for its pages again: twice the time.
        command.env("MALLOC_MMAP_MAX_", "0").env("MALLOC_TRIM_THRESHOLD_", (1u64 << 40).to_string());
        match first {
            None => confine::make(&mut command),
            Some(pid) => confine::join(&mut command, pid)?,
        }
    }
    command.args([role, how]);
    Ok(Some(command))
}

/// Builds what the contender needs, unless that was done before. An error means: cannot run here.
pub fn prepare(contender: &str) -> Result<()> {
    match contender {
        "boost" | "boost-inplace" => compile(&tools()?),
        "adios2-sst" => confine::test().and_then(|()| install(&tools()?)),
        _ => Ok(()),
    }
}

fn compile(tools: &Path) -> Result<()> {
    let (source, program) = (tools.join("boost.cpp"), tools.join("boost"));
    if program.exists() && fs::read_to_string(&source).is_ok_and(|built| built == BOOST) {
        return Ok(());
    }
    // A failed build must not leave a program that looks built from this source.
    let _ = fs::remove_file(&program);
    fs::write(&source, BOOST)?;
    let mut gxx = Command::new("g++");
    gxx.args(["-std=c++17", "-O3", "-Wall", "-Wextra"]);
    if let Some(include) = env::var_os("BOOST_INCLUDE") {
        gxx.arg("-isystem").arg(include);
    }
    gxx.arg(&source).arg("-o").arg(&program).args(["-pthread", "-lrt"]);
    quietly(&mut gxx, "Boost.Interprocess (Debian: libboost-dev) and g++ are needed")
}

fn install(tools: &Path) -> Result<()> {
    fs::write(tools.join("sst.py"), SST)?;
    let (venv, done) = (tools.join("venv"), tools.join("venv/installed"));
    if fs::read_to_string(&done).is_ok_and(|installed| installed == ADIOS2) {
        return Ok(());
    }
    let needed = "Python 3 with venv, and the adios2 wheel, are needed";
    quietly(Command::new("python3").args(["-m", "venv"]).arg(&venv), needed)?;
    let mut pip = Command::new(venv.join("bin/pip"));
    quietly(pip.args(["install", "--quiet", "--disable-pip-version-check", ADIOS2, "numpy"]), needed)?;
    Ok(fs::write(done, ADIOS2)?)
}

/// Runs a command, telling what it wrote only if it failed.
fn quietly(command: &mut Command, needed: &str) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{needed}: cannot start {:?}: {e}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first = stderr.lines().find(|line| line.contains("rror")).unwrap_or("no message");
    Err(format!("{needed}: {:?} failed: {first}", command.get_program()).into())
}
