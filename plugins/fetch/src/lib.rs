//! Downloads a list of addresses and hashes what is there.
//!
//! An interrupted download resumes at the byte of its last checkpoint, if the other side supports that
//! (`Range`, and the same `ETag`); otherwise that one file begins again. The bodies are hashed and thrown away.

mod hash;

use std::io::Read;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::http::{self, Opened};
use windlass::{Context, Error, Level, Progress, Result};

use hash::Hash;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Order {
    pub urls: Vec<String>,
    /// Save at most this often. A second when absent.
    pub checkpoint_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct File {
    pub url: String,
    pub status: u16,
    pub bytes: u64,
    /// In hex; of what came with the status.
    pub sha256: String,
    /// How often the download went on in the middle.
    pub resumed: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Outcome {
    pub files: Vec<File>,
    pub bytes: u64,
}

/// What a checkpoint holds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Standing {
    done: Vec<File>,
    /// The download under way.
    part: Option<Part>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Part {
    hash: Hash,
    etag: Option<String>,
    resumed: u32,
}

const MOST_URLS: usize = 10_000;
const MOST_REDIRECTS: u32 = 5;
const TIMEOUT: Duration = Duration::from_secs(30);

pub fn fetch(ctx: &mut Context, order: Order) -> Result<Outcome> {
    if order.urls.is_empty() || order.urls.len() > MOST_URLS {
        return Err(Error::fatal(format_args!("name 1 to {MOST_URLS} addresses in `urls`")));
    }
    let period = Duration::from_millis(order.checkpoint_ms.unwrap_or(1_000));
    let mut standing: Standing = ctx.state()?.unwrap_or_default();
    while let Some(url) = order.urls.get(standing.done.len()) {
        let file = download(ctx, url, order.urls.len(), &mut standing, period)?;
        standing.done.push(file);
        standing.part = None;
        ctx.checkpoint_every(period, &standing)?;
    }
    let bytes = standing.done.iter().map(|file| file.bytes).sum();
    Ok(Outcome { files: standing.done, bytes })
}

fn download(ctx: &mut Context, url: &str, of: usize, standing: &mut Standing, period: Duration) -> Result<File> {
    let number = standing.done.len() as u64 + 1;
    let mut part = standing.part.take().unwrap_or_default();
    let mut answer = open(url, &part)?;
    match answer.status {
        206 => part.resumed += 1,
        408 | 429 | 500..=599 => return Err(later(url, &answer)),
        // It cannot go on in the middle, or it is no longer the same file.
        _ if part.hash.bytes > 0 => {
            ctx.log(Level::Warn, format!("{url} begins again"));
            part = Part::default();
            if answer.status == 416 {
                answer = open(url, &part)?;
            }
        }
        _ => {}
    }
    part.etag = answer.header("etag").map(str::to_owned);
    let total = answer.header("content-length").and_then(|text| text.parse::<u64>().ok());
    let total = total.map(|rest| part.hash.bytes + rest);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if ctx.cancelled().is_some() {
            standing.part = Some(part);
            ctx.checkpoint(&standing)?;
            ctx.check_cancelled()?;
            return Err(Error::new("stopped"));
        }
        let read = match answer.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) => {
                // What has arrived is not lost: the next attempt resumes here.
                standing.part = Some(part);
                ctx.checkpoint(&standing)?;
                return Err(error.into());
            }
        };
        part.hash.add(&buffer[..read])?;
        let progress = Progress::new(format!("{number} of {of}: {url}")).phase("download").unit("bytes");
        ctx.report(match total {
            Some(total) => progress.count(part.hash.bytes, total),
            None => progress,
        });
        standing.part = Some(part);
        ctx.checkpoint_every(period, &standing)?;
        part = standing.part.take().unwrap_or_default();
    }
    if total.is_some_and(|total| total != part.hash.bytes) {
        standing.part = Some(part);
        ctx.checkpoint(&standing)?;
        return Err(Error::new(format_args!("{url} broke off")));
    }
    // Whoever went on in the middle has the whole file, whatever the last answer's number was.
    let status = if answer.status == 206 { 200 } else { answer.status };
    Ok(File { url: url.to_owned(), status, bytes: part.hash.bytes, sha256: part.hash.sha256()?, resumed: part.resumed })
}

/// Sends the request, after redirects; for the rest of the file where a part is there.
fn open(url: &str, part: &Part) -> Result<Opened> {
    let mut at = url.to_owned();
    for _ in 0..=MOST_REDIRECTS {
        let mut request = http::get(&at).timeout(TIMEOUT);
        if part.hash.bytes > 0 {
            request = request.header("range", format!("bytes={}-", part.hash.bytes));
            if let Some(etag) = &part.etag {
                request = request.header("if-range", etag);
            }
        }
        let answer = request.open()?;
        match (answer.status, answer.header("location")) {
            (301 | 302 | 303 | 307 | 308, Some(next)) => at = join(&at, next)?,
            _ => return Ok(answer),
        }
    }
    Err(Error::fatal(format_args!("{url} leads from one place to the next more than {MOST_REDIRECTS} times")))
}

/// Where a redirect leads: an address, or a path on the same host.
fn join(from: &str, to: &str) -> Result<String> {
    if to.starts_with("http://") || to.starts_with("https://") {
        return Ok(to.to_owned());
    }
    let host = from.match_indices('/').nth(2).map_or(from, |(at, _)| &from[..at]);
    if to.starts_with('/') && !to.starts_with("//") {
        return Ok(format!("{host}{to}"));
    }
    Err(Error::fatal(format_args!("{from} leads to `{to}`, which is no address")))
}

/// The other side is busy: when it says until when, then then.
fn later(url: &str, answer: &Opened) -> Error {
    let message = format!("{url} answered {}", answer.status);
    match answer.header("retry-after").and_then(|text| text.trim().parse().ok()) {
        Some(seconds) => Error::retry_after(Duration::from_secs(seconds), message),
        None => Error::new(message),
    }
}

windlass::handlers! { _ => fetch }
