//! A web server for plugins that send requests: the test answers each request with a function.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// One request as received.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    /// The names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Listens as long as the process runs, and records its requests.
#[derive(Clone)]
pub struct Origin {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Origin {
    /// `answer` writes the whole response; then the connection is closed.
    pub fn start(answer: impl Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let origin = Origin { address: listener.local_addr().expect("an address"), asked: Arc::default() };
        let (asked, answer) = (Arc::clone(&origin.asked), Arc::new(answer));
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    asked.lock().expect("nobody panics with it").push(request.clone());
                    // The client may have disconnected.
                    let _ = answer(&request, &mut stream);
                });
            }
        });
        origin
    }

    /// Host and port, as a grant names them.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests for a path so far.
    pub fn asked(&self, path: &str) -> Vec<Request> {
        let asked = self.asked.lock().expect("nobody panics with it");
        asked.iter().filter(|request| request.path == path).cloned().collect()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let mut request = Request { path, headers, body: Vec::new() };
    match (request.header("content-length").and_then(|text| text.parse().ok()), request.header("transfer-encoding")) {
        (Some(length), _) => {
            request.body = vec![0; length];
            reader.read_exact(&mut request.body).ok()?;
        }
        (None, Some(_)) => request.body = chunks(&mut reader)?,
        (None, None) => {}
    }
    Some(request)
}

/// A body in chunked transfer encoding.
fn chunks(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let length = u64::from_str_radix(line.trim_end(), 16).ok()?;
        reader.take(length).read_to_end(&mut body).ok()?;
        reader.read_line(&mut line).ok()?;
        if length == 0 {
            return Some(body);
        }
    }
}

/// Writes a response with a short or an empty body.
pub fn answer(stream: &mut TcpStream, status: u16, body: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// A latch: several threads wait until another opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("nobody panics with it") = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let open = self.0.0.lock().expect("nobody panics with it");
        drop(self.0.1.wait_while(open, |open| !*open).expect("nobody panics with it"));
    }
}
