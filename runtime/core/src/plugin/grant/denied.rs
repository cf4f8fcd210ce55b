//! Something that a plugin asked for and was not given, as data. How it is said, and with which command it is granted,
//! the server knows.

use crate::plugin::egress::{HostKind, HostPattern};
use crate::queue_pattern::QueuePattern;

/// Something that was asked for and not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// What the plugin asked for, such as "the secret `token`".
    pub what: String,
    /// The same without words around it: a host, the name of a secret, a queue.
    pub wanted: String,
    /// What a grant would have to name.
    pub needed: Needed,
    /// Where the host of an HTTP request lies, as far as its name says.
    pub whereabouts: Option<HostKind>,
}

/// What of a grant would allow something: the capability, and the pattern or value to grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needed {
    Http(String),
    PrivateHttp(String),
    /// `host` is the folder that is granted already, but not for writing.
    Folder {
        guest: String,
        host: Option<String>,
        write: bool,
    },
    /// A variable, whose value the operator chooses.
    Environment(String),
    Secret(String),
    Spawn(String),
    /// A higher ceiling.
    Limit {
        name: String,
        value: String,
    },
}

impl Needed {
    /// Where a manifest asks for it: a field of its `[capabilities]`, or `limits`.
    pub fn field(&self) -> &'static str {
        match self {
            Needed::Http(_) | Needed::PrivateHttp(_) => "http",
            Needed::Folder { write: false, .. } => "read",
            Needed::Folder { write: true, .. } => "write",
            Needed::Environment(_) => "environment",
            Needed::Secret(_) => "secrets",
            Needed::Spawn(_) => "spawn",
            Needed::Limit { .. } => "limits",
        }
    }
}

impl Denied {
    pub(super) fn new(what: String, needed: Needed) -> Denied {
        Denied { wanted: what.clone(), what, needed, whereabouts: None }
    }

    /// A request to a host. `asked` is what covers it in the manifest, and best granted as it was asked for.
    pub fn http(host: &HostPattern, asked: Option<&HostPattern>) -> Denied {
        let whereabouts = host.whereabouts();
        let is_private = whereabouts == HostKind::Private;
        // Nobody should grant the whole private network for the sake of one host.
        let pattern = asked.filter(|asked| !(is_private && asked.is_any())).unwrap_or(host).to_string();
        let needed = if is_private { Needed::PrivateHttp(pattern) } else { Needed::Http(pattern) };
        let denied = Denied::new(format!("HTTP to `{host}`"), needed);
        Denied { wanted: host.to_string(), whereabouts: Some(whereabouts), ..denied }
    }

    /// A host that may be reached, but not at an address that is not public.
    pub fn private_address(host: &HostPattern) -> Denied {
        let denied = Denied::new(format!("HTTP to `{host}`"), Needed::PrivateHttp(host.to_string()));
        Denied { wanted: host.to_string(), ..denied }
    }

    /// A job in a queue, or in all that a pattern covers.
    pub fn spawn(queue: &QueuePattern, asked: Option<&QueuePattern>) -> Denied {
        let pattern = asked.filter(|asked| !asked.is_any()).unwrap_or(queue);
        let denied = Denied::new(format!("spawning into the queue `{queue}`"), Needed::Spawn(pattern.to_string()));
        Denied { wanted: queue.to_string(), ..denied }
    }

    pub fn secret(name: &str) -> Denied {
        let denied = Denied::new(format!("the secret `{name}`"), Needed::Secret(name.to_owned()));
        Denied { wanted: name.to_owned(), ..denied }
    }

    /// The list of a grant that would allow it, and what to add there. None where more than that has to be decided, or
    /// no grant helps.
    pub fn grant(&self) -> Option<(&'static str, &str)> {
        if matches!(self.whereabouts, Some(HostKind::Never(_))) {
            return None;
        }
        match &self.needed {
            Needed::Http(pattern) => Some(("http", pattern)),
            Needed::PrivateHttp(pattern) => Some(("private_http", pattern)),
            Needed::Secret(name) => Some(("secrets", name)),
            Needed::Spawn(pattern) => Some(("spawn", pattern)),
            Needed::Folder { .. } | Needed::Environment(_) | Needed::Limit { .. } => None,
        }
    }
}
