//! What TLS says when it refuses somebody, in words that say what to do.

use crate::error::{Error, Refusal};
use rustls::{AlertDescription, CertificateError};
use std::net::SocketAddr;

/// The peer sent an alert.
pub(crate) fn there(peer: SocketAddr, alert: AlertDescription) -> Error {
    let advice = match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "this side's certificate is not signed by that job's authority: give all runtimes of the job the same files, those of \
             one run of 'still node certificate'"
        }
        AlertDescription::CertificateExpired => {
            "this side's certificate has expired, or a clock is wrong: make a new one ('still node certificate'), or set the clocks"
        }
        AlertDescription::CertificateRequired => {
            "this side shows no certificate: start it with those of the job ('still node certificate')"
        }
        AlertDescription::AccessDenied | AlertDescription::BadCertificate => {
            "this side's certificate is that of another job: see which address was found under the peer's name"
        }
        AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
            "the two sides have no version or cipher in common: run the same Stillframe on all nodes"
        }
        _ => "see there why",
    };
    Error::RefusedThere { peer, alert: format!("{alert:?}"), advice }
}

/// A handshake failed on this side.
pub(crate) fn here(peer: SocketAddr, job: &str, error: &rustls::Error) -> Error {
    let why = match error {
        rustls::Error::AlertReceived(alert) => return there(peer, *alert),
        rustls::Error::NoCertificatesPresented => Refusal::NoCertificate,
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Refusal::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Refusal::NotYetValid,
            CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }
            | CertificateError::ApplicationVerificationFailure => Refusal::OtherJob { job: job.into() },
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Refusal::OtherAuthority,
            other => Refusal::NotTls { detail: other.to_string() },
        },
        other => Refusal::NotTls { detail: other.to_string() },
    };
    Error::Refused { peer, why }
}
