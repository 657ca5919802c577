//! The integration tests: every one drives the real `forgefs` executable, with real worker processes.

mod access;
mod asking;
mod audit;
mod auth;
mod bad_input;
mod cli;
mod client;
mod config;
mod examples;
mod fault_proxy;
mod faults;
mod faulty;
mod http;
mod import;
mod lifecycle;
mod processes;
mod real;
mod real_servers;
mod redaction;
mod redaction_corpus;
mod relay;
mod soak;
mod spending;
mod static_layer;
mod surface;
mod telemetry;
