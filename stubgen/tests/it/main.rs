//! One binary for the tests of the crate's surface.

mod catalogs;
mod corpus;
mod hostile;
mod invariants;
mod properties;
mod servers;
