//! The load, from a separate process: each connection sends its next request as soon as the last one is answered.
//!
//! It writes HTTP/1.1 by hand on one thread, so that it uses little of the machine, and equally much on both sides.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::http::peer::EVENT_EVERY;

/// What to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    address: String,
    connections: usize,
    seconds: f64,
    what: What,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum What {
    /// The same request repeatedly.
    Post { path: String, body: String, key: Option<String> },
    /// Fetch a job, ack it.
    Work { queue: String },
    /// Watch a stream of events; with `job`, that of a job, which reports progress meanwhile.
    Watch { path: String, job: Option<String> },
}

impl Shape {
    pub fn post(url: &str, path: &str, body: &str, connections: usize, seconds: f64) -> Shape {
        let what = What::Post { path: path.to_owned(), body: body.to_owned(), key: None };
        Shape { address: address(url), connections, seconds, what }
    }

    /// The same, with a key in each request.
    pub fn with_key(mut self, with: &str) -> Shape {
        if let What::Post { key, .. } = &mut self.what {
            *key = Some(with.to_owned());
        }
        self
    }

    pub fn work(url: &str, queue: &str, connections: usize, seconds: f64) -> Shape {
        Shape { address: address(url), connections, seconds, what: What::Work { queue: queue.to_owned() } }
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

fn start(shape: &Shape) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("load").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let input = child.stdin.take().context("no pipe")?;
    serde_json::to_writer(input, shape)?;
    Ok(child)
}

/// Runs a load in a second process; returns requests per second.
pub fn spawn(shape: &Shape) -> anyhow::Result<f64> {
    let output = start(shape)?.wait_with_output()?;
    if !output.status.success() {
        bail!("the load failed");
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Watchers in a second process, until they are stopped.
pub struct Watching {
    child: Child,
    /// The server whose metrics report how many there are.
    url: Option<String>,
}

impl Watching {
    /// Watchers of the peer, which get as many events.
    pub fn of_peer(url: &str, count: usize) -> anyhow::Result<Watching> {
        let what = What::Watch { path: "/events".to_owned(), job: None };
        let child = start(&Shape { address: address(url), connections: count, seconds: 600.0, what })?;
        Ok(Watching { child, url: None })
    }

    /// Watchers of a job. Returns when all are connected.
    pub fn of_job(url: &str, job: &str, count: usize) -> anyhow::Result<Watching> {
        let what = What::Watch { path: format!("/api/v1/jobs/{job}/events"), job: Some(job.to_owned()) };
        let child = start(&Shape { address: address(url), connections: count, seconds: 600.0, what })?;
        let watching = Watching { child, url: Some(url.to_owned()) };
        let began = Instant::now();
        while watching.count()? < count as f64 {
            if began.elapsed() > Duration::from_secs(60) {
                bail!("{count} watchers did not connect within a minute");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(watching)
    }

    fn count(&self) -> anyhow::Result<f64> {
        let Some(url) = &self.url else { return Ok(0.0) };
        let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
        let page = agent.get(format!("{url}/metrics")).call()?.body_mut().read_to_string()?;
        let line = page.lines().find_map(|line| line.strip_prefix("windlass_watchers "));
        Ok(line.unwrap_or("0").parse()?)
    }

    /// Returns how many events they received in total.
    pub fn stop(mut self) -> anyhow::Result<u64> {
        // Its input has already ended, so a signal makes it print its count.
        let asked = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status()?;
        if !asked.success() {
            bail!("the watchers could not be stopped");
        }
        let mut count = String::new();
        if let Some(mut output) = self.child.stdout.take() {
            output.read_to_string(&mut count)?;
        }
        self.child.wait()?;
        let began = Instant::now();
        while self.count()? > 0.0 && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(count.trim().parse().unwrap_or(0))
    }
}

/// The second process: reads its shape, sends, and prints the result.
pub fn run() -> anyhow::Result<()> {
    let shape: Shape = serde_json::from_reader(std::io::stdin())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &shape.what {
            What::Watch { path, job } => println!("{}", watch(&shape, path, job.as_deref()).await?),
            What::Post { .. } | What::Work { .. } => println!("{}", send(&shape).await?),
        }
        Ok(())
    })
}

async fn send(shape: &Shape) -> anyhow::Result<f64> {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(shape.seconds);
    for number in 0..shape.connections {
        let mut connection = Connection::open(&shape.address).await?;
        let what = shape.what.clone();
        tasks.spawn(async move {
            let mut count = 0u64;
            match what {
                What::Post { path, body, key } => {
                    let request = post(&path, &body, key.as_deref());
                    while Instant::now() < until {
                        connection.ask(&request).await?;
                        count += 1;
                    }
                }
                What::Work { queue } => {
                    let fetch = json!({"queues": [queue], "worker_id": format!("w{number}"), "timeout": 1});
                    let fetch = post("/api/v1/fetch", &fetch.to_string(), None);
                    while Instant::now() < until {
                        let answer = connection.ask(&fetch).await?;
                        count += 1;
                        // The first field of the response, without parsing all of it.
                        let Some(id) = answer.split("\"job_id\":\"").nth(1).and_then(|rest| rest.split('"').next())
                        else {
                            continue;
                        };
                        let ack = post(&format!("/api/v1/ack/{id}"), "{}", None);
                        connection.ask(&ack).await?;
                        count += 1;
                    }
                }
                What::Watch { .. } => {}
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(ended) = tasks.join_next().await {
        count += ended??;
    }
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// Watches until a signal arrives; with a job, sends its progress ten times a second.
async fn watch(shape: &Shape, path: &str, job: Option<&str>) -> anyhow::Result<u64> {
    let got = std::rc::Rc::new(std::cell::Cell::new(0u64));
    let local = tokio::task::LocalSet::new();
    for _ in 0..shape.connections {
        let mut stream = TcpStream::connect(&shape.address).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await?;
        let got = std::rc::Rc::clone(&got);
        local.spawn_local(async move {
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                let events = buffer[..read].windows(6).filter(|bytes| bytes == b"event:").count();
                got.set(got.get() + events as u64);
            }
        });
    }
    let busy = async {
        let Some(job) = job else { return std::future::pending().await };
        let body = json!({"jobs": {job: {"progress": {"current": 1, "total": 2, "message": "busy"}}}}).to_string();
        let heartbeat = post("/api/v1/heartbeat", &body, None);
        let mut connection = Connection::open(&shape.address).await?;
        loop {
            connection.ask(&heartbeat).await?;
            sleep(EVENT_EVERY).await;
        }
        #[expect(unreachable_code, reason = "it gives the block its type")]
        anyhow::Ok(())
    };
    let mut stop = signal(SignalKind::terminate())?;
    local
        .run_until(async {
            tokio::select! {
                ended = busy => ended,
                _ = stop.recv() => Ok(()),
            }
        })
        .await?;
    Ok(got.get())
}

fn post(path: &str, body: &str, key: Option<&str>) -> Vec<u8> {
    let length = body.len();
    let key = key.map(|key| format!("x-api-key: {key}\r\n")).unwrap_or_default();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{key}content-type: application/json\r\n");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// One persistent connection.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends, reads the whole response and returns its body. Any status but 2xx ends the measurement.
    async fn ask(&mut self, request: &[u8]) -> anyhow::Result<&str> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (head, length) = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(found) = head(&self.buffer)? {
                break found;
            }
        };
        while self.buffer.len() < head + length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
        }
        Ok(std::str::from_utf8(&self.buffer[head..head + length])?)
    }
}

/// Where the body begins and how long it is, once the head is complete.
fn head(buffer: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&buffer[..end])?;
    if !head.starts_with("HTTP/1.1 2") {
        bail!("the server answered {}", head.lines().next().unwrap_or_default());
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Ok(Some((end + 4, length.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_once_its_head_is_complete() {
        assert!(matches!(head(b"HTTP/1.1 200 OK\r\nconte"), Ok(None)));
        let whole = b"HTTP/1.1 201 Created\r\nContent-Length: 7\r\n\r\n{}";
        assert!(matches!(head(whole), Ok(Some((43, 7)))), "{:?}", head(whole));
        assert!(matches!(head(b"HTTP/1.1 204 No Content\r\n\r\n"), Ok(Some((27, 0)))));
        assert!(head(b"HTTP/1.1 429 Too Many\r\n\r\n").is_err());
    }
}
