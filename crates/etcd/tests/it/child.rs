//! An etcd of one's own: it ends with whoever started it, is nobody else's, and says why it did not start.

use crate::common;

use crate::common::{LONG, described, open, signal, start, until, watchdog};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::fmt::{Debug, Display};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stillframe_etcd::{Child, Cluster, Error, Etcd, JoinOptions, Shard, Tls};
use stillframe_object::Names;

/// What a process does that this test starts from its own program.
const ROLE: &str = "STILLFRAME_TEST_ETCD_ROLE";

fn play(role: &str) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::a_role_is_played", "--nocapture"]).env(ROLE, role).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// The words of the next line that begins with this one.
fn words(lines: &mut impl Iterator<Item = std::io::Result<String>>, first: &str) -> Vec<String> {
    let line = lines.map(Result::unwrap).find(|line| line.starts_with(first)).unwrap();
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_role_is_played() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(' ') {
        None => {
            let child = start();
            println!("\nstarted {} {}", child.process(), child.directory().display());
            std::thread::sleep(10 * LONG);
        }
        Some((_, endpoint)) => {
            let etcd = common::at(endpoint);
            let cluster =
                Cluster::join(&etcd, JoinOptions::new("stopped", "a:1").lease(Duration::from_secs(10))).unwrap();
            cluster.claim(&[Shard::new(5).unwrap()]).unwrap();
            println!("\nclaimed");
            loop {
                let now_ns = stillframe_kernel::boot_ns();
                let acts = cluster.acts_as_home(Shard::new(5).unwrap()).is_some();
                println!("at {now_ns} {acts}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn it_ends_with_its_parent_and_what_that_left_is_removed() {
    let _watchdog = watchdog(120);
    let mut parent = play("parent");
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let words = words(&mut lines, "started");
    let (process, directory) = (words[1].clone(), PathBuf::from(&words[2]));
    assert!(directory.exists());
    assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    parent.kill().unwrap();
    parent.wait().unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    until("it ended", || state().is_empty() || state().contains(") Z "));
    let child = start();
    assert!(!directory.exists());
    let own = child.directory().to_owned();
    assert!(own.exists());
    drop(child);
    assert!(!own.exists());
}

#[test]
fn a_node_that_was_stopped_does_not_act_as_home_afterwards() {
    let _watchdog = watchdog(120);
    let child = start();
    let etcd = open(&child);
    let other = Cluster::join(&etcd, JoinOptions::new("other", "b:1")).unwrap();
    let mut stopped = play(&format!("home {}", child.endpoint()));
    let mut lines = BufReader::new(stopped.stdout.take().unwrap()).lines();
    words(&mut lines, "claimed");
    assert_eq!(words(&mut lines, "at")[2], "true");
    // When it looked, and whether it was the home.
    let looks = Arc::new(Mutex::new(Vec::<(u64, bool)>::new()));
    let reading = {
        let looks = looks.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some((at, acts)) = line.strip_prefix("at ").and_then(|look| look.split_once(' ')) else { continue };
                looks.lock().unwrap().push((at.parse().unwrap(), acts == "true"));
            }
        })
    };
    signal(stopped.id(), libc::SIGSTOP);
    let shard = Shard::new(5).unwrap();
    until("the other is the home", || other.claim(&[shard]).unwrap()[0].node == other.node());
    let taken_ns = stillframe_kernel::boot_ns();
    signal(stopped.id(), libc::SIGCONT);
    let later = || looks.lock().unwrap().iter().filter(|(at_ns, _)| *at_ns > taken_ns).count();
    until("it goes on", || later() > 100);
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    reading.join().unwrap();
    assert!(looks.lock().unwrap().iter().all(|(at_ns, acts)| !acts || *at_ns < taken_ns));
    assert!(other.acts_as_home(shard).is_some());
}

#[test]
fn one_that_does_not_start_says_why() {
    let _watchdog = watchdog(120);
    let failed = Child::options().program("/nowhere/etcd").start().unwrap_err();
    assert!(failed.to_string().contains("etcd-server"), "{failed}");
    let first = start();
    let port = first.endpoint().rsplit_once(':').unwrap().1.parse().unwrap();
    let failed = Child::options().port(port).start().unwrap_err();
    let Error::Child { log, .. } = &failed else { panic!("{failed}") };
    assert!(log.iter().any(|line| line.contains("address already in use")), "{failed}");
    let failed = Child::options().program("/bin/sleep").deadline(LONG).start().unwrap_err();
    assert!(matches!(&failed, Error::Child { why, .. } if why.contains("ended")), "{failed}");
    let failed = Child::options().address([0, 0, 0, 0].into()).start().unwrap_err();
    assert!(failed.to_string().contains("certificates"), "{failed}");
}

#[test]
fn a_call_that_nobody_answers_names_all_addresses() {
    let _watchdog = watchdog(120);
    let child = start();
    let options = |limit| Etcd::options().endpoint("http://127.0.0.1:1").deadline(limit);
    let named = |limit| options(limit).endpoint("http://127.0.0.1:2").open().unwrap().names();
    let failed = refused(&["range", "127.0.0.1:1", "127.0.0.1:2", "refused"], |limit| named(limit).get("u"));
    assert!(failed.is_timeout());
    let names = named(Duration::from_millis(300));
    assert!(names.put("u", &described("text", 1)).is_err());
    assert!(names.wait("u", Duration::from_millis(50)).is_err());
    // The next one is tried.
    let names = options(LONG).endpoint(child.endpoint()).open().unwrap().names();
    names.put("u", &described("text", 1)).unwrap();
    assert_eq!(names.list().unwrap(), ["u"]);
}

/// The error of a call that says all of this: as calls are tried again until their limit, they are given a longer one where they were
/// not even tried once before.
fn refused<T: Debug, E: Display>(texts: &[&str], call: impl Fn(Duration) -> Result<T, E>) -> E {
    let mut limit = Duration::from_millis(500);
    loop {
        let failed = call(limit).map(|got| format!("{got:?}")).expect_err("it is to be refused");
        let said = failed.to_string();
        if texts.iter().all(|text| said.contains(text)) {
            return failed;
        }
        assert!(limit < LONG, "{said}");
        limit *= 2;
    }
}

/// Certificates and keys of a job, below a directory.
struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(directory: &Path) -> Authority {
        std::fs::create_dir_all(directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(directory.join("ca.pem"), ca.pem()).unwrap();
        Authority { directory: directory.to_owned(), issuer: Issuer::new(params, key) }
    }

    fn certify(&self, name: &str) -> Tls {
        self.certify_for("127.0.0.1", name)
    }

    /// A certificate for a name or an address.
    fn certify_for(&self, who: &str, name: &str) -> Tls {
        let mut params = CertificateParams::new(vec![who.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |kind: &str| self.directory.join(format!("{name}.{kind}"));
        std::fs::write(file("pem"), certificate.pem()).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        Tls { ca: self.directory.join("ca.pem"), certificate: file("pem"), key: file("key"), name: None }
    }
}

#[test]
fn with_certificates_only_those_of_the_job_are_heard() {
    let _watchdog = watchdog(120);
    let place = std::env::temp_dir().join(format!("stillframe-test-etcd-{}", std::process::id()));
    let (job, others) = (Authority::new(&place.join("job")), Authority::new(&place.join("others")));
    let own = job.certify("own");
    let child = Child::options().tls(own.clone()).deadline(LONG).start().unwrap();
    assert!(child.endpoint().starts_with("https://"));
    let within = |limit: Duration, tls: Tls| Etcd::options().endpoint(child.endpoint()).tls(tls).deadline(limit).open();
    let reach = |tls: Tls| within(LONG, tls);
    let names = reach(job.certify("second")).unwrap().names();
    names.put("u", &described("text", 1)).unwrap();
    assert_eq!(names.get("u").unwrap(), Some(described("text", 1)));

    // One that another authority signed is refused by etcd; an etcd that another authority signed is refused here.
    let stranger = others.certify("stranger");
    let get = |tls: &Tls, limit| within(limit, tls.clone()).unwrap().names().get("u");
    let unknown = Tls { ca: own.ca.clone(), ..stranger.clone() };
    refused(&["https://127.0.0.1"], |limit| get(&unknown, limit));
    let unknown = Tls { ca: stranger.ca.clone(), ..own.clone() };
    refused(&["invalid peer certificate"], |limit| get(&unknown, limit));
    let plain = child.endpoint().replace("https", "http");
    let plain = Etcd::options().endpoint(plain).deadline(Duration::from_secs(2)).open().unwrap();
    assert!(plain.names().get("u").is_err());
    let missing = reach(Tls { key: place.join("nothing"), ..own.clone() }).unwrap_err();
    assert!(missing.to_string().contains("nothing"), "{missing}");
    let swapped = reach(Tls { key: own.certificate.clone(), ..own.clone() }).unwrap_err();
    assert!(swapped.to_string().contains("PRIVATE KEY"), "{swapped}");
    std::fs::remove_dir_all(place).unwrap();
}

/// An authority of a site signs for many jobs.
#[test]
fn of_certificates_of_one_authority_only_those_for_the_name_of_the_job_are_heard() {
    let _watchdog = watchdog(120);
    let place = std::env::temp_dir().join(format!("stillframe-test-etcd-site-{}", std::process::id()));
    let site = Authority::new(&place);
    let (job, other) = ("one.job.test", "two.job.test");
    let named = |who: &str, file: &str| Tls { name: Some(job.into()), ..site.certify_for(who, file) };
    let child = Child::options().tls(named(job, "own")).deadline(LONG).start().unwrap();
    let within = |limit: Duration, tls: &Tls| {
        let etcd = Etcd::options().endpoint(child.endpoint()).tls(tls.clone()).deadline(limit).open().unwrap();
        etcd.names().get("u")
    };
    assert_eq!(within(LONG, &named(job, "second")).unwrap(), None);
    let stranger = named(other, "stranger");
    refused(&["https://127.0.0.1"], |limit| within(limit, &stranger));
    std::fs::remove_dir_all(place).unwrap();
}
