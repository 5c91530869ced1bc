//! Checkpoints in object storage, against a real S3 server: one program, since each takes the server and the client to link.

#[path = "../common/mod.rs"]
mod common;

mod annotated;
mod damage;
mod refusals;
mod retention;
mod round_trip;
mod server_lost;
mod whole_or_absent;
