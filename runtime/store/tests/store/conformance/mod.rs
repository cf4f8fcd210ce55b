//! What every backend of the store must do, asked through its commands alone: nothing here knows of keys or of fjall.
//! Time is a clock that the test moves; where a promise must outlive the process, the store is closed and opened again.

mod access;
mod bulk;
mod claims;
mod events;
mod input;
mod jobs;
mod limits;
mod no_job;
mod overload;
mod pause;
mod plugins;
mod retention;
mod rounds;
mod schedules;
mod search;
mod slots;
mod test_store;
mod unique;
mod views;
mod webhooks;
