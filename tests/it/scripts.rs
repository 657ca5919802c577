//! Scripts that are tools.

mod lock;
