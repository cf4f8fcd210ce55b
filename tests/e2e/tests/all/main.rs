//! Windlass as its users see it: the real binary, over HTTP, through crashes.

mod access;
mod api;
mod bad_input;
mod bulk;
mod command;
mod crash;
mod docs;
mod door;
mod flows;
mod joins;
mod languages;
mod live;
mod operating;
mod patience;
mod plugins;
mod rounds;
mod run;
mod running;
mod schedules;
mod search;
mod secrets;
mod start_and_stop;
mod swaps;
mod uploads;
mod webhooks;
mod workers;
