//! Names that people give: queues, plugins, schedules. Checked once, at the door, and carried as proof.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Refusal, bounds};

/// A name of 1 to 128 characters out of letters, digits and `. _ - : /`, such as `emails.send`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

/// The name of a queue.
pub type QueueName = Name;

impl Name {
    pub fn parse(field: &'static str, text: &str) -> Result<Name, Refusal> {
        let fits = (1..=bounds::NAME_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte));
        if fits {
            return Ok(Name(text.into()));
        }
        Err(Refusal::invalid(
            field,
            format!("a name has 1 to {} of the characters A-Z a-z 0-9 . _ - : /", bounds::NAME_BYTES),
        ))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Refusal;
    fn from_str(text: &str) -> Result<Name, Refusal> {
        Name::parse("name", text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl core::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
