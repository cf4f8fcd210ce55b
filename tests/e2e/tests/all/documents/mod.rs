//! The documentation is tested: its commands, the examples, the READMEs of the SDKs.

mod docs;
mod examples;
mod readmes;
mod sources;
