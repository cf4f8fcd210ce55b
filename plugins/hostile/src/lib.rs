//! The guests of the gallery that need files, sockets or secrets: one component, and the payload says what it tries.
//!
//! Whatever the server lets it have is its result; whatever is refused is its error, in the words it was told.

mod bombs;

use std::fs;
use std::io;
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use windlass::{Child, Context, Error, Level, OnFailure, Progress, Result};

use bombs::{Filling, Place};

/// What to try.
#[derive(Debug, Deserialize)]
#[serde(tag = "try", rename_all = "snake_case", deny_unknown_fields)]
pub enum Attempt {
    /// Return at once: the smallest job in Rust.
    Nothing,
    /// The time when the guest began, in nanoseconds since 1970.
    Clock,
    Sleep {
        ms: u64,
    },
    /// Compute for so long.
    Compute {
        ms: u64,
    },
    /// Write lines to the log for so long.
    Flood {
        ms: u64,
    },
    /// Call the host for so long.
    Call {
        ms: u64,
    },
    /// Take and touch so much memory, again and again, for so long.
    Memory {
        mb: usize,
        ms: u64,
    },
    /// Save a checkpoint of so many bytes, again and again, for so long.
    Save {
        bytes: usize,
        ms: u64,
    },
    /// Read a file.
    Read {
        path: String,
    },
    /// Write a file.
    Write {
        path: String,
        text: String,
    },
    Remove {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// Names in a folder, sorted.
    List {
        path: String,
    },
    /// An environment variable.
    Environment {
        name: String,
    },
    /// All of them.
    WholeEnvironment,
    /// Open a connection.
    Connect {
        to: String,
    },
    /// Send a datagram.
    Send {
        to: String,
    },
    /// Look up a name.
    Resolve {
        name: String,
    },
    Secret {
        name: String,
    },
    /// Say a secret in every way there is, and fail with it.
    TellSecret {
        name: String,
    },
    /// Put a secret into the checkpoint, fail, and find it there again; then put it into the result.
    KeepSecret {
        name: String,
    },
    /// Put a secret into the payload of a child.
    SpawnSecret {
        name: String,
    },
    /// Put a secret where it is neither redacted nor encrypted.
    TellSecretIn {
        name: String,
        place: Place,
    },
    /// Spawn a child into a queue.
    Spawn {
        queue: String,
    },
    /// Spawn so many children into a queue, each of which does the same.
    Descend {
        queue: String,
        width: u32,
    },
    /// Write as much as possible to the disk for so long.
    Fill {
        with: Filling,
        ms: u64,
    },
    /// How many milliseconds this attempt may take.
    TimeLimit,
    Config {
        name: String,
    },
    /// Start so many children, ask to wait for them, and then do something else; or, when they have ended, add up what
    /// they gave back.
    Wait {
        children: u32,
        then: Then,
    },
    /// Note something under a key, read what another queue has there, mark that, and then do something else.
    Record {
        key: String,
        queue: String,
        then: Then,
    },
    /// Note things until it is refused.
    RecordFlood,
    /// Save a checkpoint and spawn a child, both of them JSON that is nested so deep. The child is for later.
    Deep {
        levels: usize,
        queue: String,
    },
    /// How many jobs this very instance has served.
    Served,
    /// Trap instead of returning.
    Panic,
}

/// What to do after something was noted.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    Wait,
    Save,
    Complete,
    Fail,
    Trap,
}

static SERVED: AtomicU32 = AtomicU32::new(0);

fn run(ctx: &mut Context, attempt: Attempt) -> Result<String> {
    let served = SERVED.fetch_add(1, Ordering::Relaxed) + 1;
    match attempt {
        Attempt::Nothing => Ok(String::new()),
        Attempt::Clock => since_1970().map(|now| now.as_nanos().to_string()),
        Attempt::Sleep { ms } => {
            thread::sleep(Duration::from_millis(ms));
            Ok(String::new())
        }
        Attempt::Compute { ms } => Ok(compute(ms)),
        Attempt::Flood { ms } => done(|| for_so_long(ms, || ctx.log(Level::Info, "a line, and not the last one"))),
        Attempt::Call { ms } => done(|| for_so_long(ms, || drop(ctx.config("nothing")))),
        Attempt::Memory { mb, ms } => done(|| for_so_long(ms, || take_memory(mb))),
        Attempt::Save { bytes, ms } => {
            let mut failed = None;
            for_so_long(ms, || failed = ctx.checkpoint_raw(vec![b'x'; bytes]).err());
            failed.map_or(Ok(String::new()), Err)
        }
        Attempt::Read { path } => told(fs::read_to_string(path)),
        Attempt::Write { path, text } => told(fs::write(path, text).map(|()| "written".to_owned())),
        Attempt::Remove { path } => told(fs::remove_file(path).map(|()| "removed".to_owned())),
        Attempt::Rename { from, to } => told(fs::rename(from, to).map(|()| "renamed".to_owned())),
        Attempt::List { path } => told(list(&path)),
        Attempt::Environment { name } => std::env::var(name).map_err(Error::new),
        Attempt::WholeEnvironment => Ok(sorted(std::env::vars().map(|(name, _)| name).collect())),
        Attempt::Connect { to } => told(TcpStream::connect(to).map(|_| "connected".to_owned())),
        Attempt::Send { to } => told(send(&to)),
        Attempt::Resolve { name } => {
            told((name, 80).to_socket_addrs().map(|found| format!("{:?}", found.collect::<Vec<_>>())))
        }
        Attempt::Secret { name } => ctx.secret(&name),
        Attempt::TellSecret { name } => tell(ctx, &name),
        Attempt::KeepSecret { name } => keep_secret(ctx, &name),
        Attempt::SpawnSecret { name } => {
            let child = Child::new("children", &ctx.secret(&name)?)?;
            ctx.spawn(child).map(|ordinal| ordinal.to_string())
        }
        Attempt::TellSecretIn { name, place } => bombs::tell_secret_in(ctx, &name, place),
        Attempt::Spawn { queue } => ctx.spawn(Child::new(queue, &1)?).map(|ordinal| ordinal.to_string()),
        Attempt::Descend { queue, width } => bombs::descend(ctx, &queue, width),
        Attempt::Fill { with, ms } => bombs::fill(ctx, with, ms),
        Attempt::TimeLimit => time_limit(ctx),
        Attempt::Config { name } => ctx.config(&name).ok_or_else(|| Error::new("not set")),
        Attempt::Wait { children, then } => wait(ctx, children, then),
        Attempt::Record { key, queue, then } => record(ctx, &key, &queue, then),
        Attempt::RecordFlood => loop {
            ctx.put_record("key", &"value")?;
        },
        Attempt::Deep { levels, queue } => deep(ctx, levels, queue),
        Attempt::Served => Ok(served.to_string()),
        Attempt::Panic => panic!("served {served} jobs and had enough"),
    }
}

fn done(work: impl FnOnce()) -> Result<String> {
    work();
    Ok(String::new())
}

fn since_1970() -> Result<Duration> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(Error::new)
}

fn compute(ms: u64) -> String {
    let mut sum = 0u64;
    for_so_long(ms, || (0..100_000u64).for_each(|n| sum = std::hint::black_box(sum.wrapping_mul(31) ^ n)));
    sum.to_string()
}

fn take_memory(mb: usize) {
    let mut taken = vec![0u8; mb << 20];
    taken.iter_mut().step_by(4_096).for_each(|byte| *byte = 1);
    std::hint::black_box(taken);
}

fn send(to: &str) -> io::Result<String> {
    let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"hello", to));
    sent.map(|_| "sent".to_owned())
}

fn keep_secret(ctx: &mut Context, name: &str) -> Result<String> {
    let state = ctx.secret(name).map(|secret| format!("kept: {secret}"));
    match ctx.state::<String>()? {
        Some(kept) => Ok(format!("as it was: {}; {kept}", state.is_ok_and(|state| kept == state))),
        None => ctx.checkpoint(&state?).and(Err(Error::new("once more"))),
    }
}

fn time_limit(ctx: &mut Context) -> Result<String> {
    let now = since_1970()?;
    let deadline = ctx.job().deadline_ms.ok_or_else(|| Error::new("there is none"))?;
    Ok(deadline.saturating_sub(now.as_millis() as u64).to_string())
}

fn deep(ctx: &mut Context, levels: usize, queue: String) -> Result<String> {
    let nested = format!("{}1{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
    ctx.checkpoint_raw(nested.clone())?;
    ctx.spawn(Child::raw(queue, nested).delay(Duration::from_secs(3_600))).map(|ordinal| ordinal.to_string())
}

fn sorted(mut names: Vec<String>) -> String {
    names.sort();
    names.join(" ")
}

fn wait(ctx: &mut Context, children: u32, then: Then) -> Result<String> {
    if let Some(counts) = ctx.joined() {
        let (mut sum, mut errors) = (0, String::new());
        for child in ctx.children() {
            let child = child?;
            match &child.error {
                Some(error) => errors.push_str(error),
                None => sum += child.result::<u64>()?,
            }
        }
        return Ok(format!("{} joined, {sum} in all, {errors}", counts.total));
    }
    for n in 0..children {
        ctx.spawn(Child::new("more", &n)?)?;
    }
    let waits = ctx.wait_for_children(OnFailure::Continue, &"begun");
    match (waits, then) {
        (Err(error), _) if !error.is_waiting() => Err(error),
        (waits, Then::Wait | Then::Save) => waits,
        (_, Then::Complete) => Ok("nobody reads this".to_owned()),
        (_, Then::Fail) => Err(Error::new("failed after all")),
        (_, Then::Trap) => panic!("trapped after all"),
    }
}

fn record(ctx: &mut Context, key: &str, queue: &str, then: Then) -> Result<String> {
    ctx.put_record(key, &"ours")?;
    let found = ctx.get_record::<String>(queue, key)?;
    ctx.mark(queue, key, Some("seen"))?;
    let (value, mark) = found.map_or_else(Default::default, |found| (found.value, found.mark.unwrap_or_default()));
    let round = ctx.job().round.map_or("no round".to_owned(), |round| format!("round {round}"));
    match then {
        Then::Save => ctx.checkpoint(&1)?,
        Then::Fail => return Err(Error::new("failed after all")),
        Then::Trap => panic!("trapped after all"),
        Then::Wait | Then::Complete => {}
    }
    Ok(format!("{round}: {value}, {mark}"))
}

fn for_so_long(ms: u64, mut work: impl FnMut()) {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until {
        work();
    }
}

fn tell(ctx: &mut Context, name: &str) -> Result<String> {
    let secret = ctx.secret(name)?;
    println!("on standard output: {secret}");
    eprintln!("on standard error: {secret}");
    ctx.log(Level::Info, format!("in the log: {secret}"));
    ctx.report(
        Progress::new(format!("in progress: {secret}")).phase(secret.clone()).detail(format!("{{\"key\":{secret:?}}}")),
    );
    Err(Error::new(format_args!("in the error: {secret}")))
}

fn list(path: &str) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(sorted(names))
}

fn told(answer: io::Result<String>) -> Result<String> {
    answer.map_err(|error| Error::new(format_args!("refused: {error}")))
}

// One handler, whatever the queue is called.
windlass::handlers! { _ => run }
