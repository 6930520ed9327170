#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| teamwire_fuzz_targets::run("output_parser", data));
