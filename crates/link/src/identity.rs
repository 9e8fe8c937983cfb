//! Whose a runtime is: the certificate of a job.
//!
//! All runtimes of a job have the same three files. They take each other for one of the job if the job's authority signed the other's
//! certificate, and it has the job's name. The authority's own key is nowhere: it signs one certificate and is forgotten.

use crate::error::{Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stillframe_kernel::folder::{About, Form};

/// The authority's certificate, in the directory of a job's certificate.
pub const AUTHORITY: &str = "authority.pem";
/// The job's certificate.
pub const CERTIFICATE: &str = "certificate.pem";
/// Its key, for nobody else's eyes.
pub const KEY: &str = "key.pem";
/// How long a certificate is good if nobody says otherwise: 30 days.
pub const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// What follows a job's name in its certificate.
const DOMAIN: &str = ".job.stillframe.internal";
/// How far clocks may be behind the one of the node where a certificate was made.
const CLOCKS_APART: Duration = Duration::from_secs(24 * 3600);
/// More than any certificate and key have.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The certificate of a job and what it proves: copies share it.
#[derive(Debug, Clone)]
pub struct Identity {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) name: ServerName<'static>,
    job: String,
    number: u64,
}

impl Identity {
    /// Reads the three files that [`create`] made.
    ///
    /// # Errors
    /// [`Error::Identity`]: a file is missing or holds something else, others may read the key, or they do not belong together.
    pub fn open(dir: impl AsRef<Path>) -> Result<Identity> {
        let dir = dir.as_ref();
        Identity::of(&dir.join(AUTHORITY), &dir.join(CERTIFICATE), &dir.join(KEY))
    }

    /// Reads files that lie elsewhere, or that a site's own authority made: the certificate has to be for
    /// `JOB.job.stillframe.internal`, for clients and for servers.
    ///
    /// # Errors
    /// As [`open`](Identity::open).
    pub fn of(authority: &Path, certificate: &Path, key: &Path) -> Result<Identity> {
        let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>> {
            let text = read(path, false)?;
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
            match all {
                Ok(all) if !all.is_empty() => Ok(all),
                _ => Err(refused(path, "it holds no certificate in PEM: make it with 'still node certificate'")),
            }
        };
        let authorities = certificates(authority)?;
        let chain = certificates(certificate)?;
        let parsed = PrivateKeyDer::from_pem_slice(&read(key, true)?);
        let secret = parsed
            .map_err(|_| refused(key, "it holds no private key in PEM: make it with 'still node certificate'"))?;
        let job = job_of(&chain[0]).ok_or_else(|| {
            refused(certificate, format!("it is for no job, which it would be by a name that ends in '{DOMAIN}'"))
        })?;
        let number = number_of(&job, &authorities[0]);
        let mut roots = RootCertStore::empty();
        for authority_certificate in authorities {
            roots.add(authority_certificate).map_err(|error| refused(authority, error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(provider());
        let name = name_of(&job).ok_or_else(|| refused(certificate, "the name of its job is none"))?;
        let belongs = |error: rustls::Error| refused(certificate, format!("it cannot be used with its key: {error}"));

        let client = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let client = client.with_protocol_versions(&[&rustls::version::TLS13]).map_err(belongs)?;
        let client = client.with_root_certificates(Arc::clone(&roots));
        let mut client = client.with_client_auth_cert(chain.clone(), secret.clone_key()).map_err(belongs)?;
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_secret_extraction = true;

        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| refused(authority, error))?;
        let verifier = Arc::new(OfJob { verifier, name: name.clone() });
        let server = ServerConfig::builder_with_provider(provider);
        let server = server.with_protocol_versions(&[&rustls::version::TLS13]).map_err(belongs)?;
        let mut server = server.with_client_cert_verifier(verifier).with_single_cert(chain, secret).map_err(belongs)?;
        // Runtimes connect seldom, and a ticket would be a message in the middle of frames.
        server.send_tls13_tickets = 0;
        server.enable_secret_extraction = true;
        Ok(Identity { client: Arc::new(client), server: Arc::new(server), name, job, number })
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// A number that no other job has: of its name and its authority's certificate. Of one name there may be jobs of several
    /// authorities, and a site's own authority signs jobs of many names.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name that the job's certificate has, as a server's.
    pub fn name(&self) -> String {
        format!("{}{DOMAIN}", self.job)
    }

    /// One that shows no certificate.
    #[cfg(test)]
    pub(crate) fn without_certificate(&self) -> Identity {
        let mut client = (*self.client).clone();
        client.client_auth_cert_resolver = Arc::new(Nothing);
        Identity { client: Arc::new(client), ..self.clone() }
    }
}

#[cfg(test)]
#[derive(Debug)]
struct Nothing;

#[cfg(test)]
impl rustls::client::ResolvesClientCert for Nothing {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// Ciphers, the fastest first.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| suite.tls13().is_some());
    let rank = |suite: CipherSuite| match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => 1,
        _ => 2,
    };
    provider.cipher_suites.sort_by_key(|suite| rank(suite.suite()));
    provider
}

/// Takes clients for one of the job that have a certificate of its authority and its name.
#[derive(Debug)]
struct OfJob {
    verifier: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for OfJob {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.verifier.verify_client_cert(certificate, chain, now)?;
        let parsed = ParsedCertificate::try_from(certificate)?;
        let named = rustls::client::verify_server_name(&parsed, &self.name);
        // Said by an alert of its own.
        named.map_err(|_| rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

fn refused(path: &Path, why: impl ToString) -> Error {
    Error::Identity { path: path.into(), why: why.to_string() }
}

/// The bytes of a file, which for a key has to be its owner's alone.
fn read(path: &Path, is_secret: bool) -> Result<Vec<u8>> {
    let cannot = |what: &'static str| {
        move |error: std::io::Error| refused(path, format!("{what}: {error}; make it with 'still node certificate'"))
    };
    // A pipe would be waited for.
    if About::at(path, false).map_err(cannot("stat"))?.form != Form::File {
        return Err(refused(path, "it is no regular file: name one"));
    }
    let file = File::open(path).map_err(cannot("open"))?;
    let about = About::of(&file).map_err(cannot("fstat"))?;
    if is_secret {
        let user = stillframe_kernel::user_id();
        if about.owner != user && about.owner != 0 {
            let why = format!(
                "it belongs to user {}, and this is user {user}: let the user who runs this have it",
                about.owner
            );
            return Err(refused(path, why));
        }
        if about.mode & 0o077 != 0 {
            let why = format!(
                "its mode is {:o}, so that others can use it: 'chmod 600' it, and if they may have read it, make a new one",
                about.mode
            );
            return Err(refused(path, why));
        }
    }
    if about.bytes > FILE_BYTES_MAX {
        return Err(refused(path, "it is too long for a certificate or a key"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(cannot("read"))?;
    Ok(bytes)
}

/// The name a certificate has for a job, if it can have one.
fn name_of(job: &str) -> Option<ServerName<'static>> {
    let is_fine = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '-' | '_');
    let is_name =
        !job.is_empty() && job.len() <= 63 && job.chars().all(is_fine) && !job.starts_with('-') && !job.ends_with('-');
    is_name.then(|| ServerName::try_from(format!("{job}{DOMAIN}")).ok()).flatten()
}

/// The number of a job. No name has a byte that ends it.
fn number_of(job: &str, authority: &CertificateDer<'_>) -> u64 {
    let mut digest = ::ring::digest::Context::new(&::ring::digest::SHA256);
    [job.as_bytes(), &[0], authority.as_ref()].into_iter().for_each(|part| digest.update(part));
    digest.finish().as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn job_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let job = certificate.valid_dns_names().find_map(|name| name.strip_suffix(DOMAIN))?;
    Some(job.into())
}

/// Makes the certificate of a job in `dir`, a directory that is made for it and that only its owner can look into. All three files
/// are there at once, or none. Give them to all runtimes of the job, by a directory that all nodes see or by copies.
///
/// A job's name has up to 63 lower-case letters, digits, '-' and '_'.
///
/// # Errors
/// [`Error::Identity`]: the name is none, there is something in `dir` already, or it cannot be written.
pub fn create(dir: impl AsRef<Path>, job: &str, lifetime: Duration) -> Result<Identity> {
    let now = SystemTime::now();
    let not_before = now.checked_sub(CLOCKS_APART).unwrap_or(UNIX_EPOCH);
    let not_after = now.checked_add(lifetime);
    let dir = dir.as_ref();
    let not_after = not_after.ok_or_else(|| refused(dir, "no certificate can be good for so long"))?;
    let authority = Authority::new(job, not_before, not_after).map_err(|why| refused(dir, why))?;
    authority.issue(dir, job, not_before, not_after)?;
    Identity::open(dir)
}

/// Who signs the certificate of a job.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

fn params(name: &str, not_before: SystemTime, not_after: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    let since =
        |time: SystemTime| rcgen::date_time_ymd(1970, 1, 1) + time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (params.not_before, params.not_after) = (since(not_before), since(not_after));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub(crate) fn new(job: &str, not_before: SystemTime, not_after: SystemTime) -> Result<Authority, String> {
        let mut params = params(&format!("Stillframe job {job}"), not_before, not_after);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(|error| error.to_string())?;
        Ok(Authority { issuer })
    }

    /// Writes the three files.
    pub(crate) fn issue(&self, dir: &Path, job: &str, not_before: SystemTime, not_after: SystemTime) -> Result<()> {
        if name_of(job).is_none() {
            let why =
                format!("'{job}' cannot be a job's name: it has up to 63 lower-case letters, digits, '-' and '_'");
            return Err(refused(dir, why));
        }
        let name = format!("{job}{DOMAIN}");
        let mut params = params(&name, not_before, not_after);
        let unusable = |error: rcgen::Error| refused(dir, error);
        params.subject_alt_names = vec![rcgen::SanType::DnsName(name.try_into().map_err(unusable)?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(unusable)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(unusable)?;
        let files = [(AUTHORITY, self.issuer.pem()), (CERTIFICATE, certificate.pem()), (KEY, key.serialize_pem())];
        write(dir, &files)
    }
}

/// Writes files into a hidden directory, which then gets the name.
fn write(dir: &Path, files: &[(&str, String)]) -> Result<()> {
    let cannot = |path: &Path, what: &str, error: std::io::Error| refused(path, format!("{what}: {error}"));
    let name = dir.file_name().ok_or_else(|| refused(dir, "it names no directory"))?;
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let aside = parent.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&aside).map_err(|error| cannot(&aside, "mkdir", error))?;
    let done = write_into(&aside, files).and_then(|()| {
        fs::rename(&aside, dir).map_err(|error| {
            let why =
                format!("rename: {error}; if there is a certificate already, remove it or choose another directory");
            refused(dir, why)
        })
    });
    if done.is_err() {
        let _ = fs::remove_dir_all(&aside);
    }
    done
}

fn write_into(dir: &Path, files: &[(&str, String)]) -> Result<()> {
    for (name, text) in files {
        let path = dir.join(name);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|error| refused(&path, format!("write: {error}")))?;
    }
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| refused(dir, format!("fsync: {error}")))
}
