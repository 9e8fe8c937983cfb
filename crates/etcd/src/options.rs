//! How etcd is reached.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// Longest prefix of all keys, in bytes.
const PREFIX_BYTES_MAX: usize = 200;

/// How often an idle connection with a watch is tried. etcd hangs up on those that try more often than every 5 s.
const TRY: Duration = Duration::from_secs(10);
const TRY_LIMIT: Duration = Duration::from_secs(3);

/// Files for mutual TLS, each in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of those who may sign etcd's.
    pub ca: PathBuf,
    /// The certificate of this process.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The name that etcd's certificate has to have; without one, that of its address.
    pub name: Option<String>,
}

/// Options for opening an etcd; see [`Etcd::options`](crate::Etcd::options).
#[derive(Debug, Clone)]
pub struct Options {
    addresses: Vec<String>,
    tls: Option<Tls>,
    pub(crate) prefix: String,
    pub(crate) deadline: Duration,
    pub(crate) grace: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            addresses: Vec::new(),
            tls: None,
            prefix: "stillframe".into(),
            deadline: Duration::from_secs(5),
            grace: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// One more address of etcd, as `http://10.0.0.1:2379` or `https://names.cluster:2379`. One after the other is tried.
    pub fn endpoint(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// The certificates with which etcd and this process know each other; needed for addresses with `https`.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// With what all keys begin, so that many jobs may share one etcd; `stillframe` by default.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long each call may take; 5 s by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long nodes and objects have to come back when etcd has lost its data; 10 s by default. It should be longer than the
    /// leases of nodes. That of nodes begins when it is seen that the data are lost; that of objects, when this process has put there again
    /// what it knows ([`Cluster::rebuild`](crate::Cluster::rebuild)).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let Options { prefix, .. } = self;
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || prefix.ends_with('/') || prefix.contains('\0') {
            let why =
                format!("'{prefix}' is none: it has 1 to {PREFIX_BYTES_MAX} bytes, no zero, and no '/' at its end");
            return Err(Error::option("prefix of keys", why));
        }
        if self.deadline.is_zero() {
            return Err(Error::option("deadline", "nothing can be done in no time"));
        }
        Ok(())
    }

    pub(crate) fn endpoints(&self) -> Result<Vec<(String, Endpoint)>> {
        if self.addresses.is_empty() {
            return Err(Error::option("addresses of etcd", "there are none: give one, as http://127.0.0.1:2379"));
        }
        let tls = self.tls.as_ref().map(config).transpose()?;
        self.addresses.iter().map(|address| Ok((address.clone(), endpoint(address, tls.as_ref())?))).collect()
    }
}

fn endpoint(address: &str, tls: Option<&ClientTlsConfig>) -> Result<Endpoint> {
    let wrong = |why: String| Error::option(format!("the address '{address}'"), why);
    let is_secret = address.starts_with("https://");
    if !is_secret && !address.starts_with("http://") {
        return Err(wrong("it begins neither with http:// nor with https://".into()));
    }
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| wrong(error.to_string()))?;
    let endpoint = endpoint
        .connect_timeout(Duration::from_secs(1))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(TRY)
        .keep_alive_timeout(TRY_LIMIT)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20);
    match (is_secret, tls) {
        (true, Some(tls)) => endpoint.tls_config(tls.clone()).map_err(|error| wrong(error.to_string())),
        (true, None) => Err(wrong("it needs certificates: give Tls { ca, certificate, key, name }".into())),
        // Whoever has certificates does not mean to be heard by everybody.
        (false, Some(_)) => Err(wrong("there are certificates, which only https:// uses: write https://".into())),
        (false, None) => Ok(endpoint),
    }
}

fn config(tls: &Tls) -> Result<ClientTlsConfig> {
    let ca = Certificate::from_pem(pem(&tls.ca, "CERTIFICATE")?);
    let identity = Identity::from_pem(pem(&tls.certificate, "CERTIFICATE")?, pem(&tls.key, "PRIVATE KEY")?);
    let config = ClientTlsConfig::new().ca_certificate(ca).identity(identity);
    Ok(match &tls.name {
        Some(name) => config.domain_name(name),
        None => config,
    })
}

/// A file in PEM with at least one part of this kind.
fn pem(path: &Path, kind: &str) -> Result<Vec<u8>> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
    let is_there = text.lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(kind));
    if !is_there {
        return Err(Error::option(path.display().to_string(), format!("it holds no '{kind}' in PEM")));
    }
    Ok(text.into_bytes())
}
