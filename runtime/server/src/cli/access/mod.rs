//! Who may do what: keys, namespaces, enqueue rules, and the audit log.

pub mod audit;
pub mod key;
pub mod namespace;
pub mod rule;
