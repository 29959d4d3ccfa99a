//! A store whose files were damaged at rest.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txinbox::testkit::fuzz::damage(data));
