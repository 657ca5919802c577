//! One binary for the tests of the crate's surface.

mod catalogs;
mod corpus;
mod properties;
mod servers;
