//! The words for choices, in requests, in answers and as values of flags: named once, so that they cannot differ.

use windlass_core::flow::OnFailure;
use windlass_core::schedule::Overlap;
use windlass_core::{BackoffKind, Priority, UniqueScope, Until};

/// Declares the wire form of an enum of the rules: the same variants, as lower-case words.
macro_rules! words {
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
            fn from(word: $name) -> $of {
                match word {
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

pub(in crate::http) use words;

words!(PriorityWord = Priority { Critical, High, Normal, Low });
words!(BackoffWord = BackoffKind { None, Fixed, Linear, Quadratic, Exponential });
words!(WithinWord = UniqueScope { Queue, Scope });
words!(UntilWord = Until { End, Period });
words!(OnFailureWord = OnFailure { Fail, Cancel, Continue });
words!(OverlapWord = Overlap { Allow, Skip, Cancel });

/// What a schedule does about times that passed while the server was down. How many of `all` is a field of its own.
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
