//! Two ids are one only if they were made alike.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txinbox::testkit::fuzz::ids(data));
