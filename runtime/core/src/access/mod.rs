//! Who may do what: roles and the permissions they have, API keys, the groups of people who have none, and rules for
//! enqueueing without one.
//!
//! Every route of the server states the [`Permission`] it needs; [`Role::may`] is the only place that says who has it.

mod actor;
mod audit;
mod enqueue_rule;
mod group_role;
mod key;
mod namespace_row;
mod session;

pub use actor::Actor;
pub use audit::{AuditEntry, AuditHead, AuditNote, AuditOutcome, verify_chain};
pub use enqueue_rule::{EnqueueRule, Who};
pub use group_role::{GroupRole, role_of, shown_name};
pub use key::{ApiKey, KeyNamespaces, NewKey};
pub use namespace_row::{NamespaceRow, Quotas, Used};
pub use session::{Session, SessionOf};

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Refusal;

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Enqueues jobs, and reads those whose id it has.
    Producer,
    /// Runs jobs: fetch, heartbeat, ack, fail.
    Worker,
    /// Reads everything but secrets.
    Viewer,
    /// Runs the place: acts on jobs, queues and schedules.
    Operator,
    /// Uploads and activates plugins. What they may reach is granted by an admin.
    Deployer,
    /// Everything in its namespace.
    Admin,
}

/// What a route lets its caller do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Anybody, without a key: it reveals nothing about jobs.
    Public,
    /// Anybody; whoever has a key or a session is recognised.
    Anybody,
    /// Anybody who has signed in.
    SignedIn,
    /// Enqueue jobs, and make batches.
    Enqueue,
    /// Fetch jobs and report on them.
    Work,
    /// Read one job by its id, which only those know who were told.
    ReadJob,
    /// List and search; watch all events.
    Read,
    /// Act on jobs, queues and schedules.
    Operate,
    /// Upload and activate plugins.
    Deploy,
    /// Grants, secrets, keys, webhooks, enqueue rules; the audit log.
    Administer,
    /// What concerns all namespaces: only an admin of all of them.
    AdministerServer,
}

impl Role {
    pub const ALL: [Role; 6] =
        [Role::Producer, Role::Worker, Role::Viewer, Role::Operator, Role::Deployer, Role::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Worker => "worker",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Deployer => "deployer",
            Role::Admin => "admin",
        }
    }

    /// Whether the role has a permission. `everywhere` is whether it has the role in all namespaces.
    pub fn may(self, permission: Permission, everywhere: bool) -> bool {
        use Permission::{
            Administer, AdministerServer, Anybody, Deploy, Enqueue, Operate, Public, Read, ReadJob, SignedIn, Work,
        };
        match permission {
            Public | Anybody | SignedIn | ReadJob => true,
            Enqueue => matches!(self, Role::Producer | Role::Operator | Role::Deployer | Role::Admin),
            Work => matches!(self, Role::Worker | Role::Admin),
            Read => matches!(self, Role::Viewer | Role::Operator | Role::Deployer | Role::Admin),
            Operate => matches!(self, Role::Operator | Role::Admin),
            Deploy => matches!(self, Role::Deployer | Role::Admin),
            Administer => self == Role::Admin,
            AdministerServer => self == Role::Admin && everywhere,
        }
    }
}

impl Permission {
    pub const ALL: [Permission; 11] = [
        Permission::Public,
        Permission::Anybody,
        Permission::SignedIn,
        Permission::Enqueue,
        Permission::Work,
        Permission::ReadJob,
        Permission::Read,
        Permission::Operate,
        Permission::Deploy,
        Permission::Administer,
        Permission::AdministerServer,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Public => "public",
            Permission::Anybody => "anybody",
            Permission::SignedIn => "signed-in",
            Permission::Enqueue => "enqueue",
            Permission::Work => "work",
            Permission::ReadJob => "read-job",
            Permission::Read => "read",
            Permission::Operate => "operate",
            Permission::Deploy => "deploy",
            Permission::Administer => "administer",
            Permission::AdministerServer => "administer-server",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Role, Refusal> {
        // `readonly` is the name of other servers of this wire format.
        let text = if text == "readonly" { "viewer" } else { text };
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            let all = Role::ALL.map(Role::as_str).join(", ");
            Refusal::invalid("role", format!("{text:?} is not one of {all}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_permissions_and_no_more() {
        let of = |role: Role, everywhere| {
            let has = Permission::ALL.into_iter().filter(|permission| role.may(*permission, everywhere));
            has.skip(3).map(Permission::as_str).collect::<Vec<_>>().join(" ")
        };
        for (role, expected) in [
            (Role::Producer, "enqueue read-job"),
            (Role::Worker, "work read-job"),
            (Role::Viewer, "read-job read"),
            (Role::Operator, "enqueue read-job read operate"),
            (Role::Deployer, "enqueue read-job read deploy"),
            (Role::Admin, "enqueue work read-job read operate deploy administer"),
        ] {
            assert_eq!(of(role, false), expected, "{role}");
        }
        assert!(Role::Admin.may(Permission::AdministerServer, true));
        for role in Role::ALL {
            assert!(!role.may(Permission::AdministerServer, false), "{role}");
            assert_eq!(role.may(Permission::AdministerServer, true), role == Role::Admin, "{role}");
        }
    }

    #[test]
    fn a_role_is_read_by_its_name() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>().expect("a role"), role);
        }
        assert_eq!("readonly".parse::<Role>().expect("an alias"), Role::Viewer);
        assert!("root".parse::<Role>().expect_err("no role").to_string().contains("producer"));
    }
}
