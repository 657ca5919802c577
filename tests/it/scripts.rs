//! Scripts that are tools.

mod examples;
mod lock;
mod served;
