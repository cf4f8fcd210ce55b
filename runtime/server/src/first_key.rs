//! The first key: made at the first start, and left in a file that only the server's user can read. The command finds
//! it there, so that nobody has to type a key on their own machine.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tracing::{info, warn};
use windlass_core::Time;
use windlass_core::access::{KeyNamespaces, NewKey, Role};
use windlass_store::{AccessChange, Clock, Store};

use crate::Config;
use crate::clock::SystemClock;
use crate::http::Authority;
use crate::http::key_text;

/// Its name in the data folder.
pub const FILE: &str = "admin.key";

#[derive(Debug, thiserror::Error)]
pub enum FirstKeyError {
    #[error("cannot write the first key to {}: {why}. Let the server's user write there, or start with --api-key-file", file.display())]
    File { file: PathBuf, why: io::Error },
    #[error("the system has no randomness for the first key")]
    Randomness,
    #[error("cannot store the first key: {0}")]
    Store(#[from] windlass_store::Error),
}

/// Makes the first key if there is no key yet, and a key is needed.
pub async fn ensure(
    store: &Store,
    authority: &Authority,
    clock: &SystemClock,
    config: &Config,
) -> Result<(), FirstKeyError> {
    if authority.is_open() || config.api_key.is_some() || !store.api_keys().await?.is_empty() {
        return Ok(());
    }
    let made = key_text::KEY.make().ok_or(FirstKeyError::Randomness)?;
    let file = config.data.join(FILE);
    // The file first: a key that is stored and written nowhere could never be used.
    write(&file, &made.key).map_err(|why| FirstKeyError::File { file: file.clone(), why })?;
    let new = NewKey {
        name: "the first key".to_owned(),
        role: Role::Admin,
        namespaces: KeyNamespaces::All,
        queues: Vec::new(),
        rate: None,
        expires_at: None,
    };
    let now: Time = clock.now();
    let row = new.make(made.id, made.sha256, None, now);
    store.change_access(AccessChange::AddKey(Box::new(row))).await?;
    authority.refresh().await?;
    info!("the key of an admin is in {}; the command `windlass` finds it there", file.display());
    Ok(())
}

/// Replaces the file in one step.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("key.new");
    let _ = std::fs::remove_file(&new);
    let mut open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    writeln!(open, "{text}")?;
    open.sync_all()?;
    std::fs::rename(&new, file)
}

/// Notes in the user's own state folder where the key of the server on this port is, so that the command finds it from
/// any folder.
pub fn note_place(address: SocketAddr, data: &Path) {
    let Some(place) = place_of(address.port()) else { return };
    let Ok(data) = data.canonicalize() else { return };
    let noted = place.parent().map_or(Ok(()), std::fs::create_dir_all);
    let noted = noted.and_then(|()| std::fs::write(&place, data.join(FILE).as_os_str().as_encoded_bytes()));
    if let Err(why) = noted {
        warn!("where the key is cannot be noted in {}: {why}", place.display());
    }
}

fn place_of(port: u16) -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("windlass").join(format!("{port}.key-file")))
}

/// The first key of the server on this port of this machine, if this user's own server listens there.
pub fn find(port: u16) -> Option<String> {
    if !is_own(port) {
        return None;
    }
    let data = std::env::var_os("WINDLASS_DATA").map_or_else(|| PathBuf::from("./windlass-data"), PathBuf::from);
    let noted = place_of(port).and_then(|place| std::fs::read_to_string(place).ok()).map(PathBuf::from);
    let read = |file: PathBuf| std::fs::read_to_string(file).ok();
    noted.and_then(read).or_else(|| read(data.join(FILE))).map(|text| text.trim().to_owned())
}

/// Whether a process of this user, or of root, listens on the port: the key must not be sent to anybody else's.
#[cfg(target_os = "linux")]
fn is_own(port: u16) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let mut owners = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().flat_map(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        table.lines().filter_map(|line| listener(line, port)).collect::<Vec<_>>()
    });
    owners.all(|owner| owner == own || owner == 0)
}

/// Elsewhere the system's `lsof` knows. Whoever is not root is shown their own sockets alone; without an answer it is
/// nobody's.
#[cfg(not(target_os = "linux"))]
fn is_own(port: u16) -> bool {
    let user = rustix::process::geteuid().as_raw().to_string();
    let listens = format!("-iTCP:{port}");
    let mut lsof = std::process::Command::new("/usr/sbin/lsof");
    let found = lsof.args(["-nP", "-a", &listens, "-sTCP:LISTEN", "-t", "-u", &user]).output();
    found.is_ok_and(|found| found.status.success() && !found.stdout.is_empty())
}

/// The user whose socket listens on the port, from a line of the kernel's table.
#[cfg(target_os = "linux")]
fn listener(line: &str, port: u16) -> Option<u32> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, at) = fields.get(1)?.rsplit_once(':')?;
    let listens = *fields.get(3)? == LISTENS && u16::from_str_radix(at, 16).ok()? == port;
    listens.then(|| fields.get(7)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_of_the_key_is_private_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        for text in ["wl_one", "wl_two"] {
            write(&file, text).expect("it is written");
            assert_eq!(std::fs::read_to_string(&file).expect("text").trim(), text);
        }
        assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_listener_of_a_port_is_read_from_the_table_of_the_kernel() {
        let line = "   3: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0 100 0 0 10 0";
        assert_eq!(listener(line, 7070), Some(1000));
        assert_eq!(listener(line, 7071), None);
        assert_eq!(listener(&line.replace(" 0A ", " 01 "), 7070), None, "it does not listen");
        let own = TcpListener::bind("127.0.0.1:0").expect("a port");
        assert!(is_own(own.local_addr().expect("an address").port()));
    }
}
