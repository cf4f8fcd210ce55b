//! What the documentation says, tried out: its commands, the examples, the READMEs of the SDKs.

mod docs;
mod examples;
mod readmes;
