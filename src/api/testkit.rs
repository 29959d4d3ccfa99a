//! For users' own tests: a simulated clock.
