//! A store used, stopped, failed and cut off at any moment.
#![no_main]

libfuzzer_sys::fuzz_target!(
    // redb may panic on damage, which the crate turns into an error. The fuzzer's own hook would end
    // the process there; without it, only a panic that comes out of the crate does.
    init: std::panic::set_hook(Box::new(|info| eprintln!("{info}"))),
    |data: &[u8]| txinbox::testkit::fuzz::operations(data)
);
