//! Numbers that a float would round.

use std::fmt;

use allocative::Allocative;
use starlark::starlark_simple_value;
use starlark::values::{
    NoSerialize, ProvidesStaticType, StarlarkPagable, StarlarkValue, Value, ValueLike as _, starlark_value,
};

/// A number of a JSON text by its digits. It can be passed on, compared and made text; nothing calculates with it.
#[derive(Debug, Clone, PartialEq, ProvidesStaticType, NoSerialize, StarlarkPagable, Allocative)]
pub(super) struct ExactNumber(pub(super) String);

starlark_simple_value!(ExactNumber);

impl fmt::Display for ExactNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[starlark_value(type = "number")]
impl<'v> StarlarkValue<'v> for ExactNumber {
    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.downcast_ref::<Self>() == Some(self))
    }
}
