//! Records of TLS 1.3 (RFC 8446, section 5), sealed and opened.
//!
//! `rustls` makes the handshake and hands out the keys of both directions, as for TLS in the kernel; its own ciphers seal and open
//! here. So the two directions share nothing but the generation of keys, and two threads send and receive at once without a lock,
//! from and into buffers that lie where they are needed.

use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::{AlertDescription, ContentType, ProtocolVersion, Tls13CipherSuite};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of plain text in a record at most.
pub(crate) const PLAIN_BYTES_MAX: usize = 1 << 14;
/// Bytes of a record's head.
pub(crate) const HEAD_BYTES: usize = 5;
/// Bytes of a whole record at most.
pub(crate) const RECORD_BYTES_MAX: usize = HEAD_BYTES + PLAIN_BYTES_MAX + 256;
/// Records after which a new key is taken, far below what AES-GCM bears.
const KEY_RECORDS: u64 = 1 << 22;
/// "I take a new key, and you need not" (`KeyUpdate`).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Where the keys come from.
pub(crate) trait Keys: Send {
    /// The next one to send with.
    fn next_to_send(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error>;
    /// The next one to receive with.
    fn next_to_receive(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error>;
}

/// Keys that both directions take from, seldom.
pub(crate) type SharedKeys = Arc<Mutex<Box<dyn Keys>>>;

/// Key and initial vector, whatever the cipher.
fn parts(secrets: ConnectionTrafficSecrets) -> Result<(AeadKey, Iv), rustls::Error> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        _ => Err(rustls::Error::General("a cipher without keys to hand out".into())),
    }
}

/// Seals what is sent.
pub(crate) struct Sealer {
    suite: &'static Tls13CipherSuite,
    cipher: Box<dyn MessageEncrypter>,
    sequence: u64,
    keys: SharedKeys,
    key_records: u64,
}

impl Sealer {
    pub(crate) fn new(
        suite: &'static Tls13CipherSuite,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
        keys: SharedKeys,
    ) -> Result<Sealer, rustls::Error> {
        let (key, iv) = parts(secrets)?;
        Ok(Sealer { suite, cipher: suite.aead_alg.encrypter(key, iv), sequence, keys, key_records: KEY_RECORDS })
    }

    /// Has keys live for so many records.
    #[cfg(test)]
    pub(crate) fn set_key_records(&mut self, records: u64) {
        self.key_records = records;
    }

    fn record(&mut self, kind: ContentType, plain: OutboundChunks<'_>) -> Result<Vec<u8>, rustls::Error> {
        let message = OutboundPlainMessage { typ: kind, version: ProtocolVersion::TLSv1_3, payload: plain };
        let sealed = self.cipher.encrypt(message, self.sequence)?;
        self.sequence += 1;
        Ok(sealed.encode())
    }

    /// Seals up to [`PLAIN_BYTES_MAX`] bytes as one record, after one that announces a new key if it is time for it.
    pub(crate) fn seal(&mut self, plain: OutboundChunks<'_>, out: &mut Vec<Vec<u8>>) -> Result<(), rustls::Error> {
        if self.sequence >= self.key_records {
            out.push(self.record(ContentType::Handshake, OutboundChunks::Single(&KEY_UPDATE))?);
            let secrets = self.keys.lock().unwrap_or_else(PoisonError::into_inner).next_to_send()?;
            let (key, iv) = parts(secrets)?;
            (self.cipher, self.sequence) = (self.suite.aead_alg.encrypter(key, iv), 0);
        }
        out.push(self.record(ContentType::ApplicationData, plain)?);
        Ok(())
    }

    /// The last record of a connection that ends as it should.
    pub(crate) fn farewell(&mut self) -> Result<Vec<u8>, rustls::Error> {
        const CLOSE_NOTIFY: [u8; 2] = [1, 0];
        self.record(ContentType::Alert, OutboundChunks::Single(&CLOSE_NOTIFY))
    }
}

/// What a record was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Bytes, at these places of the record.
    Plain(std::ops::Range<usize>),
    /// Nothing for the receiver.
    Nothing,
    /// The peer ended the connection as it should.
    Farewell,
    /// The peer ended it because it does not like something.
    Alert(AlertDescription),
}

/// Why a record was not opened.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// By the cipher, or by the keys.
    Tls(rustls::Error),
    /// Because nobody sends this.
    Unknown(&'static str),
}

/// Opens what was received.
pub(crate) struct Opener {
    suite: &'static Tls13CipherSuite,
    cipher: Box<dyn MessageDecrypter>,
    sequence: u64,
    keys: SharedKeys,
}

impl Opener {
    pub(crate) fn new(
        suite: &'static Tls13CipherSuite,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
        keys: SharedKeys,
    ) -> Result<Opener, rustls::Error> {
        let (key, iv) = parts(secrets)?;
        Ok(Opener { suite, cipher: suite.aead_alg.decrypter(key, iv), sequence, keys })
    }

    /// Bytes of the record that begins with this head, the head included.
    pub(crate) fn record_bytes(head: [u8; HEAD_BYTES]) -> Result<usize, NotOpened> {
        let bytes = HEAD_BYTES + usize::from(u16::from_be_bytes([head[3], head[4]]));
        if head[0] != 23 {
            return Err(NotOpened::Unknown("something that is no sealed record"));
        }
        if bytes > RECORD_BYTES_MAX {
            return Err(NotOpened::Unknown("a record that is too long"));
        }
        Ok(bytes)
    }

    /// Opens a whole record in its place.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<Opened, NotOpened> {
        let begin = record.as_ptr() as usize;
        let sealed = &mut record[HEAD_BYTES..];
        let message = InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, sealed);
        let plain = self.cipher.decrypt(message, self.sequence).map_err(NotOpened::Tls)?;
        self.sequence += 1;
        match plain.typ {
            ContentType::ApplicationData => {
                let at = plain.payload.as_ptr() as usize - begin;
                Ok(Opened::Plain(at..at + plain.payload.len()))
            }
            ContentType::Alert => match *plain.payload {
                [_, 0] => Ok(Opened::Farewell),
                [_, number] => Ok(Opened::Alert(AlertDescription::from(number))),
                _ => Err(NotOpened::Unknown("an alert that is none")),
            },
            // Only whole records and only this message: no runtime asks for tickets, or for the peer's keys to be changed.
            ContentType::Handshake if *plain.payload == KEY_UPDATE => {
                let secrets = self.keys.lock().unwrap_or_else(PoisonError::into_inner).next_to_receive();
                let (key, iv) = secrets.and_then(parts).map_err(NotOpened::Tls)?;
                (self.cipher, self.sequence) = (self.suite.aead_alg.decrypter(key, iv), 0);
                Ok(Opened::Nothing)
            }
            _ => Err(NotOpened::Unknown("a message of the handshake that no runtime sends")),
        }
    }
}
