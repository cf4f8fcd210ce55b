//! What a confined process must not be able to do, to be tried by one: in tests, and by `windlass doctor`.

use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

/// What it is, and a try, which says whether it succeeded and leaves nothing behind.
pub(super) struct Trespass {
    pub(super) what: &'static str,
    succeeds: fn() -> bool,
}

pub(super) const TRESPASSES: [Trespass; 6] = [
    Trespass { what: "reading a file", succeeds: || File::open("/dev/null").is_ok() },
    Trespass { what: "creating a file", succeeds: || tempfile::tempfile().is_ok() },
    Trespass { what: "looking into a folder", succeeds: || fs::read_dir("/").is_ok() },
    Trespass { what: "listening on a port", succeeds: || TcpListener::bind("127.0.0.1:0").is_ok() },
    Trespass { what: "sending datagrams", succeeds: || UdpSocket::bind("127.0.0.1:0").is_ok() },
    Trespass { what: "starting a program", succeeds: starts_program },
];

/// Those that succeed in the calling thread.
pub(super) fn possible() -> Vec<&'static str> {
    TRESPASSES.iter().filter(|trespass| (trespass.succeeds)()).map(|trespass| trespass.what).collect()
}

fn starts_program() -> bool {
    let started = Command::new("/bin/sh").args(["-c", ":"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    started.is_ok_and(|mut program| program.wait().is_ok())
}
