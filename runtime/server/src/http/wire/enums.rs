//! The names of choices in requests, in responses and as values of flags, defined once so that they cannot differ.

use windlass_core::flow::{FlowKind, OnFailure};
use windlass_core::schedule::Overlap;
use windlass_core::{BackoffKind, Priority, SignatureScheme, UniqueScope, Until};

/// Declares the wire form of an enum of the rules: the same variants, in lower case.
macro_rules! wire_enum {
    ($name:ident = $of:ident { $($variant:ident),+ $(,)? }) => {
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        #[serde(rename_all = "lowercase")]
        #[value(rename_all = "lower")]
        pub enum $name {
            $($variant),+
        }

        impl From<$name> for $of {
            fn from(name: $name) -> $of {
                match name {
                    $($name::$variant => $of::$variant),+
                }
            }
        }

        impl From<$of> for $name {
            fn from(value: $of) -> $name {
                match value {
                    $($of::$variant => $name::$variant),+
                }
            }
        }
    };
}

pub(in crate::http) use wire_enum;

wire_enum!(PriorityName = Priority { Critical, High, Normal, Low });
wire_enum!(BackoffName = BackoffKind { None, Fixed, Linear, Quadratic, Exponential });
wire_enum!(WithinName = UniqueScope { Queue, Scope });
wire_enum!(UntilName = Until { End, Period });
wire_enum!(OnFailureName = OnFailure { Fail, Cancel, Continue });
wire_enum!(FlowKindName = FlowKind { Batch, Chain, Tree });
wire_enum!(OverlapName = Overlap { Allow, Skip, Cancel });
wire_enum!(SchemeName = SignatureScheme { GitHub, Stripe, Standard });

/// What a schedule does about times that passed while the server was down. How many of `all` is a separate field.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum CatchUpName {
    Skip,
    Once,
    All,
}
