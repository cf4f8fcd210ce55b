//! The `windlass` command on a terminal.

mod basics;
mod dev;
mod run;
mod same_words;
mod watching;
