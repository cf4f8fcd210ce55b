//! Why a handler did not succeed, and what should happen next.

use std::fmt;
use std::time::Duration;

use crate::job::Reason;

/// What a handler returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed attempt. `?` converts any `std::error::Error` into one, which is retried with the job's backoff.
///
/// Like other types that every error converts into, it is not a `std::error::Error` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
    detail: Option<String>,
    next: Next,
}

/// What should happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Retry,
    RetryAfter(Duration),
    Never,
    /// Not a failure: the handler stopped because it was asked to.
    Cancelled(Reason),
    /// Not a failure either: the job runs again when its children have ended.
    Waiting,
}

impl Error {
    /// A failure that is retried with the job's backoff.
    pub fn new(message: impl fmt::Display) -> Self {
        Error { message: message.to_string(), detail: None, next: Next::Retry }
    }

    /// A failure that would recur in every attempt: the job is dead at once.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Error { next: Next::Never, ..Error::new(message) }
    }

    /// A failure that is retried after this time.
    pub fn retry_after(delay: Duration, message: impl fmt::Display) -> Self {
        Error { next: Next::RetryAfter(delay), ..Error::new(message) }
    }

    pub(crate) fn cancelled(reason: Reason) -> Self {
        Error { next: Next::Cancelled(reason), ..Error::new(format_args!("stopped on request: {reason}")) }
    }

    pub(crate) fn waiting() -> Self {
        Error { next: Next::Waiting, ..Error::new("waits for its children") }
    }

    /// Adds details for debugging: a backtrace, a chain of causes, the response of a remote server.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Trying again is of no use.
    pub fn is_fatal(&self) -> bool {
        self.next == Next::Never
    }

    /// The handler stopped because it was asked to.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.next, Next::Cancelled(_))
    }

    /// The handler ended because the job waits for its children.
    pub fn is_waiting(&self) -> bool {
        self.next == Next::Waiting
    }

    /// The delay asked for, if one was.
    pub fn delay(&self) -> Option<Duration> {
        match self.next {
            Next::RetryAfter(delay) => Some(delay),
            Next::Retry | Next::Never | Next::Cancelled(_) | Next::Waiting => None,
        }
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn into_parts(self) -> (String, Option<String>, Next) {
        (self.message, self.detail, self.next)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut causes = String::new();
        let mut cause = error.source();
        while let Some(next) = cause {
            causes.push_str(if causes.is_empty() { "caused by: " } else { "\ncaused by: " });
            causes.push_str(&next.to_string());
            cause = next.source();
        }
        Error { detail: Some(causes).filter(|causes| !causes.is_empty()), ..Error::new(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bad row")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_ordinary_error_retries_and_keeps_its_causes() {
        fn fails() -> Result<u8> {
            Ok("x".parse::<u8>().map_err(Outer)?)
        }
        let error = fails().expect_err("x is no number");
        assert_eq!(error.message(), "bad row");
        assert_eq!(error.detail(), Some("caused by: invalid digit found in string"));
        assert!(!error.is_fatal() && !error.is_cancelled() && error.delay().is_none());
    }

    #[test]
    fn an_error_says_what_should_happen_next() {
        assert!(Error::fatal("no such account").is_fatal());
        assert_eq!(Error::retry_after(Duration::from_secs(9), "busy").delay(), Some(Duration::from_secs(9)));
        assert!(Error::cancelled(Reason::Swap).is_cancelled());
    }
}
