//! From id to entry, from step and version to ids.
