//! The project's chores, one word each.

fn main() {}
