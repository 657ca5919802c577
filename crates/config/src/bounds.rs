//! Tables of bounds: each key stands once, with its field, its default and its range.

use super::error::ConfigError;
use super::key::Key;

/// A table of bounds.
pub(super) trait Bounds: Default {
    /// The table as it is written.
    type Raw;

    /// Reads each key.
    fn read(key: &Key<'_>, raw: Self::Raw) -> Result<Self, ConfigError>;

    /// Keys with a higher bound in `next`.
    fn raised(&self, next: &Self) -> Vec<&'static str>;
}

/// Makes a table of bounds: the struct with its defaults, unless there is one, and its raw form.
///
/// `heap as heap_bytes: size u64 = 64 << 20, 8 * MIB..=4 * GIB;` is the key `heap`, which [`Key::size`] reads into the
/// field `heap_bytes`: 64 MiB by default, and from 8 MiB to 4 GiB.
macro_rules! bounds {
    ($(#[$of_table:meta])* $table:ident from $raw:ident {
        $($(#[$of_key:meta])* $key:ident as $field:ident: $read:ident $type:ty = $default:expr, $range:expr;)*
    }) => {
        $(#[$of_table])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $table {
            $($(#[$of_key])* pub $field: $type,)*
        }

        impl Default for $table {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        bounds! { for $table from $raw { $($key as $field: $read, $range;)* } }
    };
    (for $table:ident from $raw:ident { $($key:ident as $field:ident: $read:ident, $range:expr;)* }) => {
        #[derive(Default, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, default, expecting = "a table")]
        pub(super) struct $raw {
            $($key: Option<$crate::bounds::raw!($read)>,)*
        }

        impl $crate::bounds::Bounds for $table {
            type Raw = $raw;

            fn read(key: &$crate::key::Key<'_>, raw: $raw) -> Result<Self, $crate::error::ConfigError> {
                let usual = Self::default();
                Ok(Self { $($field: key.key(stringify!($key)).$read(raw.$key, $range)?.unwrap_or(usual.$field),)* })
            }

            fn raised(&self, next: &Self) -> Vec<&'static str> {
                let keys = [$((stringify!($key), next.$field > self.$field)),*];
                keys.into_iter().filter_map(|(key, is_raised)| is_raised.then_some(key)).collect()
            }
        }
    };
}

/// Raw type of a key, by the method of [`Key`] that reads it.
macro_rules! raw {
    (duration) => {
        $crate::raw::DurationText
    };
    (size) => {
        $crate::raw::SizeText
    };
    (count) => {
        i64
    };
}

pub(super) use {bounds, raw};
