//! A connection that can be cut: what is sent then goes nowhere, as in a network that is down, and nobody is told.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A relay to an etcd, until the test ends.
pub struct Proxy {
    endpoint: String,
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn start(endpoint: &str) -> Proxy {
        let to = endpoint.rsplit_once('/').unwrap().1.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (is_cut, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let proxy = Proxy { endpoint, is_cut: is_cut.clone(), streams: streams.clone() };
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                streams.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to, is_cut) = (from.try_clone().unwrap(), to.try_clone().unwrap(), is_cut.clone());
                    thread::spawn(move || relay(from, to, &is_cut));
                }
            }
        });
        proxy
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// From now on nothing comes through.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Connections that were cut have lost what was sent, so they end.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
        self.streams.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !is_cut.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
