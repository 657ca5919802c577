//! Throughput of redaction: `cargo bench --bench redaction`. Each line is a text of 8 MB and its throughput per second,
//! the best of five.
#![expect(clippy::print_stdout, reason = "a bench prints what it measures")]

use std::time::Instant;

use forgefs::redact::{self, Results, Surface};

const SIZE: usize = 8 << 20;

fn main() {
    let prose =
        "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.\n";
    let code = "    let config = Config::load(path)?; // reads \"forge.toml\", version 1.2.3\n    for item in &config.items {\n";
    let records = "{\"id\":48151623,\"title\":\"Crash on start\",\"user\":{\"login\":\"octo\",\"key\":\"ACME-12\"},\"labels\":[\"bug\"],\
                   \"url\":\"https://api.acme.dev/repos/acme/app/issues/42\",\"next_page_token\":\"q8Zk2mXc\"},\n";
    let keys = format!("{{\"name\":\"deploy\",\"token\":\"ghp_{}\"}},\n", "a1B2c3D4e5F6".repeat(3));
    let base64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg";
    let anchors = "token=token=password:\"key://bearer basic ghp_ sk- eyJ -----BEGIN ";
    println!("{:<22}{:>14}{:>14}{:>14}", "text", "secrets", "secrets+pii", "errors");
    let texts = [
        ("prose", prose),
        ("code", code),
        ("JSON records", records),
        ("base64", base64),
        ("a key a line", &keys),
        ("anchors only", anchors),
    ];
    for (name, part) in texts {
        let text = part.repeat(SIZE / part.len());
        let surfaces = [Surface::Answer(Results::Secrets), Surface::Answer(Results::SecretsAndPii), Surface::Error];
        let rates = surfaces.map(|surface| format!("{:.0} MB/s", rate(&text, surface)));
        println!("{name:<22}{:>14}{:>14}{:>14}", rates[0], rates[1], rates[2]);
    }
}

fn rate(text: &str, surface: Surface) -> f64 {
    let once = || {
        let started = Instant::now();
        std::hint::black_box(redact::text(surface, std::hint::black_box(text)));
        started.elapsed().as_secs_f64()
    };
    let best = (0..5).map(|_| once()).fold(f64::MAX, f64::min);
    text.len() as f64 / 1e6 / best
}
