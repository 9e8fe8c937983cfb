//! Containers of a runtime: runc(8), which Docker, Podman and Kubernetes run underneath.

use super::enclosure::{INSIDE, with_program};
use crate::common::Dir;
use crate::helper::{Helper, command};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A container that runs a helper. It ends with this.
pub struct Container {
    name: String,
    bundle: PathBuf,
    pub helper: Option<Helper>,
}

/// Whether there is a runtime that makes containers here; says so if not.
pub fn may_run(dir: &Dir) -> bool {
    let bundle = make_bundle(dir, Path::new("/"), 0, &["true".into()], &[]);
    let status = runc(&bundle).args(["run", "--bundle"]).arg(&bundle).arg(name()).stderr(Stdio::null()).status();
    let may = status.as_ref().is_ok_and(|status| status.success());
    if !may {
        eprintln!("skipped: runc makes no containers here ({status:?}); scripts/setup.sh containers installs it");
    }
    may
}

fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("stillframe-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn runc(bundle: &Path) -> Command {
    let mut command = Command::new("runc");
    command.arg("--root").arg(bundle.join("state")).stdin(Stdio::null());
    command
}

/// A root file system that has the host's programs and libraries, and the place mounted to be read only.
fn make_bundle(dir: &Dir, place: &Path, user: u32, words: &[String], env: &[String]) -> PathBuf {
    let bundle = dir.path().join(format!("bundle-{}", name()));
    let root = bundle.join("rootfs");
    for folder in ["proc", "dev", "usr", "mnt"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for link in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link)).unwrap();
    }
    let bind = |from: &str, to: &str, option: &str| json!({ "destination": to, "type": "bind", "source": from, "options": [option, "ro", "nosuid", "nodev"] });
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["size=64k"] }),
        bind("/usr", "/usr", "rbind"),
    ];
    if place != Path::new("/") {
        mounts.push(bind(place.to_str().unwrap(), INSIDE, "bind"));
    }
    let kinds = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind }));
    let mut all_env = vec!["PATH=/usr/bin".to_string()];
    all_env.extend_from_slice(env);
    let config: Value = json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": user, "gid": user }, "args": words, "env": all_env, "cwd": "/",
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "enclave",
        "mounts": mounts,
        "linux": { "namespaces": kinds },
    });
    std::fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    bundle
}

impl Container {
    /// Runs a helper as a user without privileges.
    #[track_caller]
    pub fn start(dir: &Dir, place: &Path, user: u32, role: &str, arguments: &[&str]) -> Container {
        let helper = command(role, arguments);
        let mut words = vec!["/proc/self/fd/3".to_string()];
        words.extend(helper.get_args().map(|word| word.to_str().unwrap().to_string()));
        let env = helper.get_envs().map(|(key, value)| {
            let value = value.unwrap_or_default();
            format!("{}={}", key.to_str().unwrap(), value.to_str().unwrap())
        });
        let bundle = make_bundle(dir, place, user, &words, &env.collect::<Vec<_>>());
        let name = name();
        let (state, bundle_text) = (bundle.join("state"), bundle.to_str().unwrap().to_string());
        let begin = ["runc", "--root", state.to_str().unwrap(), "run", "--preserve-fds", "1", "--bundle", &bundle_text];
        let words: Vec<String> = begin.into_iter().map(String::from).chain([name.clone()]).collect();
        let helper = Helper::start(with_program(&words));
        Container { name, bundle, helper: Some(helper) }
    }

    pub fn helper(&mut self) -> &mut Helper {
        self.helper.as_mut().unwrap()
    }

    /// Kills all that is in it.
    pub fn kill(&mut self) {
        let killed = runc(&self.bundle).args(["kill", &self.name, "KILL"]).status().unwrap();
        assert!(killed.success());
        self.helper.take().map(|mut helper| helper.wait());
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let mut delete = runc(&self.bundle);
        let _ = delete.args(["delete", "--force", &self.name]).stderr(Stdio::null()).status();
    }
}
