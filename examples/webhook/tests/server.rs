//! Requests over real sockets: repeated, concurrent, forged, and over a restart.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use txinbox::{Inbox, Map, Retention, hours};
use txinbox_webhook::{App, github_signature, stripe_signature};

const SECRET: &[u8] = b"a secret";

struct Server {
    inbox: Inbox,
    addr: SocketAddr,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(dir: &Path) -> Self {
        let inbox = Inbox::builder(Retention::at_least(hours(24))).open(dir).unwrap();
        let app = App::new(&inbox, SECRET, Duration::from_millis(300)).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, app.router()).await });
        Self { inbox, addr, runtime }
    }

    fn stop(self) {
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        self.inbox.close().unwrap();
    }

    /// Status, head and body of the response.
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut socket = TcpStream::connect(self.addr).unwrap();
        let mut request = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        socket.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        // Every response has its date; all else is compared.
        let same = |line: &&str| !line.starts_with("date:");
        let head: Vec<&str> = head.lines().filter(same).collect();
        (status, head.join("\n"), body.to_owned())
    }

    fn github(&self, id: &str, body: &str) -> u16 {
        let signature = github_signature(SECRET, body.as_bytes());
        let headers = [("x-github-delivery", id), ("x-hub-signature-256", signature.as_str())];
        self.post("/webhooks/github", &headers, body).0
    }

    fn stripe(&self, body: &str, secs: u64) -> u16 {
        let signature = stripe_signature(SECRET, body.as_bytes(), secs);
        self.post("/webhooks/stripe", &[("stripe-signature", &signature)], body).0
    }

    fn pay(&self, key: &str, cents: &str) -> (u16, String, String) {
        self.post("/payments", &[("x-client", "anna"), ("idempotency-key", key)], cents)
    }

    fn number(&self, map: &str, key: &str) -> Option<u64> {
        let map: Map<str, u64> = self.inbox.map(map).unwrap();
        self.inbox.read(|view| view.get(&map, key)).unwrap()
    }
}

fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn webhooks_are_applied_once_over_repeats_connections_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for start in 0..2 {
        let server = Server::start(dir.path());
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for n in 0..10 {
                        assert_eq!(server.github(&format!("guid-{n}"), "{}"), 204);
                        let event = format!("{{\"id\":\"evt_{n}\"}}");
                        assert_eq!(server.stripe(&event, now_secs()), 204);
                    }
                });
            }
        });
        assert_eq!(server.number("seen", "github"), Some(10), "start {start}");
        assert_eq!(server.number("seen", "stripe"), Some(10), "start {start}");
        // The same id with another body is put aside, and changes nothing.
        assert_eq!(server.github("guid-0", "{\"forged\":1}"), 202);
        assert_eq!(server.number("seen", "github"), Some(10));
        server.stop();
    }
}

#[test]
fn what_is_not_signed_or_not_named_does_not_get_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let forged = github_signature(b"another secret", b"{}");
    for headers in [
        &[][..],
        &[("x-github-delivery", "guid")],
        &[("x-github-delivery", "guid"), ("x-hub-signature-256", forged.as_str())],
    ] {
        assert_eq!(server.post("/webhooks/github", headers, "{}").0, 401);
    }
    let signature = github_signature(SECRET, b"{}");
    let unnamed = [("x-hub-signature-256", signature.as_str())];
    assert_eq!(server.post("/webhooks/github", &unnamed, "{}").0, 400);
    assert_eq!(server.github("", "{}"), 400);
    assert_eq!(server.stripe("{\"id\":\"evt\"}", now_secs() - 3_600), 401, "a replay");
    for body in ["", "{}", "{\"id\":\"\"}", "{\"id\":7}", "not JSON"] {
        assert_eq!(server.stripe(body, now_secs()), 400, "{body}");
    }
    assert_eq!(server.number("seen", "github"), None);
    assert_eq!(server.number("seen", "stripe"), None);
    server.stop();
}

#[test]
fn a_payment_is_made_once_and_its_response_repeated_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.post("/payments", &[("x-client", "anna")], "100").0, 400);
    // Eight at once: one pays, and while it does the others are told to wait.
    let all: Vec<_> = thread::scope(|scope| {
        let sent: Vec<_> = (0..8).map(|_| scope.spawn(|| server.pay("\"k\"", "100"))).collect();
        sent.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let paid: Vec<_> = all.iter().filter(|(status, ..)| *status == 201).collect();
    assert!(!paid.is_empty() && paid.iter().all(|response| *response == paid[0]), "{all:?}");
    for (status, head, body) in all.iter().filter(|(status, ..)| *status != 201) {
        assert_eq!(*status, 409);
        assert!(head.contains("retry-after: 1") && body.contains("in progress"), "{head} {body}");
    }
    let first = paid[0].clone();
    assert!(first.1.contains("location: /payments/1") && first.2 == "charged 100");
    assert_eq!(server.pay("k", "100"), first, "without quotes it is the same key");
    assert_eq!(server.pay("\"k\"", "200").0, 422);
    // A refusal is final, a bank that is shut is not.
    assert_eq!(server.pay("\"refused\"", "0").0, 402);
    for _ in 0..2 {
        assert_eq!(server.pay("\"later\"", "later").0, 503);
    }
    assert_eq!(server.number("paid", "anna"), Some(100));
    server.stop();

    let server = Server::start(dir.path());
    assert_eq!(server.pay("\"k\"", "100"), first);
    assert_eq!(server.pay("\"refused\"", "0").0, 402);
    assert_eq!(server.number("paid", "anna"), Some(100));
    server.stop();
}
