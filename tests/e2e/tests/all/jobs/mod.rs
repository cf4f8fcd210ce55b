//! Jobs one by one and many at once: external workers, schedules, search and bulk actions.

mod attempts;
mod bulk;
mod counting;
mod dead;
mod editing;
mod schedules;
mod search;
mod served;
mod usage;
mod workers;
