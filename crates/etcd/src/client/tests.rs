//! What becomes of a keep-alive, by an etcd that ends its stream when it likes.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Kinds of frames of HTTP/2, and their flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` and `content-type: application/grpc`; `grpc-status: 0`.
const OPENS: &[u8] = b"\x88\x0f\x10\x10application/grpc";
const CLOSES: &[u8] = b"\x00\x0bgrpc-status\x010";

fn send(stream: &mut TcpStream, kind: u8, flags: u8, number: [u8; 4], body: &[u8]) {
    let length = (body.len() as u32).to_be_bytes();
    let frame = [&length[1..], &[kind, flags], &number, body].concat();
    stream.write_all(&frame).unwrap();
}

/// Answers one connection: each stream, when its requests have come to an end, with the next of these answers, or with none.
fn serve(stream: &mut TcpStream, answers: &mut impl Iterator<Item = Option<LeaseKeepAliveResponse>>) -> Option<()> {
    stream.read_exact(&mut [0; 24]).ok()?;
    send(stream, SETTINGS, 0, [0; 4], &[]);
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let [l0, l1, l2, kind, flags, number @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
        stream.read_exact(&mut body).ok()?;
        match kind {
            SETTINGS if flags & ACK == 0 => send(stream, SETTINGS, ACK, [0; 4], &[]),
            PING if flags & ACK == 0 => send(stream, PING, ACK, [0; 4], &body),
            DATA if flags & END_STREAM != 0 => {
                send(stream, HEADERS, END_HEADERS, number, OPENS);
                if let Some(answer) = answers.next()? {
                    let bytes = answer.encode_to_vec();
                    let message = [&[0][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat();
                    send(stream, DATA, 0, number, &message);
                }
                send(stream, HEADERS, END_HEADERS | END_STREAM, number, CLOSES);
            }
            _ => {}
        }
    }
}

#[test]
fn a_stream_that_ends_in_order_without_an_answer_tells_nothing_of_the_lease() {
    const LONG: Duration = Duration::from_secs(60);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let lasts = |ttl| Some(LeaseKeepAliveResponse { ttl });
    let mut answers = [None, lasts(3), None, lasts(0)].into_iter();
    // After a failure the client comes by another connection.
    thread::spawn(move || listener.incoming().for_each(|stream| _ = serve(&mut stream.unwrap(), &mut answers)));

    let client = Client::new(&Options::default().endpoint(endpoint)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for ttl in [3, 0] {
            let failed = client.keep_alive(7, LONG).await.unwrap_err();
            assert!(failed.to_string().contains("without an answer"), "{failed}");
            assert_eq!(client.keep_alive(7, LONG).await.unwrap(), ttl);
        }
    });
}
