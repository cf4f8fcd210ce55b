//! Generated from `wit/`: the types and traits of the world `handler`, seen from the host.
//!
//! Only what waits for the disk is async. Every import may trap, because that is how an attempt is ended
//! from inside a call.

wasmtime::component::bindgen!({
    path: "../../wit/0.1.0",
    world: "handler",
    imports: {
        "windlass:job/checkpoint.save": async | trappable,
        "windlass:job/children.read": async | trappable,
        "windlass:job/children.result": async | trappable,
        "windlass:job/records.get": async | trappable,
        "windlass:job/records.mark": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});

/// The package, without its version.
pub const PACKAGE: &str = "windlass:job";
/// The version these bindings speak. Components built for another 0.1.x link as well.
pub(crate) const VERSION: &str = "0.1.0";
/// What a handler must export.
pub(crate) const RUN: &str = "windlass:job/run@0.1.0";
