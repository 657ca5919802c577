//! People are told once that an approval waits, by a program or a webhook; what goes wrong there fails no run twice.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PAY, WAITS, approvals, parked, shape, waiting};
use crate::journal::Bank;

const SECRET: &str = "tok-5f2a9c11d8e7b6a4";

/// A configuration whose approvals are told to this Python program.
fn told_by(bank: &Bank, program: &str) -> String {
    let file = bank.fence.write("hook.py", program);
    format!("env = {{ BANK_API_TOKEN = \"{SECRET}\" }}\n{WAITS}notify = [\"python3\", {file:?}, \"a b; $(c)\"]\n")
}

#[test]
fn a_program_gets_the_approval_once_and_nothing_of_the_environment() {
    let Some(bank) = Bank::new("") else { return };
    let out = bank.fence.work().join("news");
    let program = format!(
        "import json, os, sys\nnews = json.load(sys.stdin)\nopen({out:?}, 'a').write(json.dumps([news, sys.argv[1:], sorted(os.environ)]) + '\\n')\n"
    );
    bank.configure(&told_by(&bank, &program));
    let code = format!("await bank.pay({{n: 7}});\nawait bank.note({{text: '{SECRET}'}});");
    let mut command = bank.fence.script(&["--json"], "javascript", &code);
    let first = crate::client::finish(command.env("BANK_API_TOKEN", SECRET).env("OTHER_SECRET", "x"), "");
    let (run, id) = parked(&first.object());
    parked(&bank.json(&["--resume", &run], &code));
    let read = || fs::read_to_string(&out).expect("it was called");
    assert_eq!(read().lines().count(), 1, "{}", read());
    let told: Value = serde_json::from_str(&read()).expect("JSON");
    let news = &told[0];
    for (key, expected) in [
        ("id", json!(id)),
        ("client", json!("local")),
        ("run", json!(run)),
        ("server", json!("bank")),
        ("tool", json!("pay")),
        ("state", json!("waits")),
        ("arguments", json!({"n": 7})),
        ("allow", json!(format!("forgefs approvals allow {id}"))),
    ] {
        assert_eq!(news[key], expected, "{key}: {news:#}");
    }
    assert_eq!(told[1], json!(["a b; $(c)"]));
    let environment = told[2].to_string();
    assert!(environment.contains("PATH") && !environment.contains("SECRET") && !environment.contains("TOKEN"));
    approvals(&bank, &["allow", &id]).success();
    let (_, second) = parked(&bank.json(&["--resume", &run], &code));
    assert!(read().lines().count() == 2 && second != id && !read().contains(SECRET), "{}", read());
    assert!(shape(&bank, &["show", &second])["approval"]["told"]["error"].is_null());
}

#[test]
fn a_program_that_fails_or_hangs_is_told_of_and_the_call_waits() {
    let Some(bank) = Bank::new("") else { return };
    let hangs = "import subprocess\nsubprocess.run(['sleep', '300'])\n";
    for (program, expected) in [("import sys\nsys.exit('no pager')\n", "no pager"), (hangs, "did not end within")] {
        bank.configure(&told_by(&bank, program));
        let started = Instant::now();
        let (run, id) = parked(&bank.json(&[], PAY));
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        let listed = approvals(&bank, &["list"]).success().stdout;
        assert!(listed.contains("notification failed") && listed.contains(expected), "{listed}");
        approvals(&bank, &["allow", &id]).success();
        assert_eq!(bank.json(&["--resume", &run], PAY)["ok"], json!(true));
    }
    bank.configure(&format!("{WAITS}notify = [\"/no/such/program\"]\n"));
    parked(&bank.json(&[], PAY));
    let listed = approvals(&bank, &["list"]).stdout;
    assert!(listed.contains("did not start"), "{listed}");
    assert_eq!(waiting(&bank).len(), 1);
}

#[test]
fn a_webhook_gets_the_approval_and_is_tried_again_within_bounds() {
    let Some(bank) = Bank::new("") else { return };
    for (answers, posts, error) in [
        (&["200 OK"][..], 1, None),
        (&["500 Oops", "200 OK"][..], 2, None),
        (&["500 Oops", "500 Oops", "500 Oops", "200 OK"][..], 3, Some("it answered 500")),
        (&["302 Found"][..], 1, Some("it answered 302")),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (tell, bodies) = mpsc::channel();
        let answers: Vec<String> = answers.iter().map(|status| (*status).to_owned()).collect();
        thread::spawn(move || {
            for status in answers {
                let (mut stream, _) = listener.accept().expect("a request");
                let _ = tell.send(request(&mut stream));
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nlocation: /x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
            }
        });
        bank.configure(&format!("{WAITS}webhook = \"http://127.0.0.1:{port}/hook/{SECRET}\"\n"));
        let (_, id) = parked(&bank.json(&[], PAY));
        let bodies: Vec<Value> = bodies.try_iter().collect();
        assert_eq!(bodies.len(), posts, "{bodies:?}");
        assert!(bodies.iter().all(|body| body["id"] == json!(id) && body["tool"] == json!("pay")), "{bodies:?}");
        let told = shape(&bank, &["show", &id])["approval"]["told"].clone();
        match error {
            None => assert!(told["error"].is_null(), "{told}"),
            Some(error) => assert!(told["error"].as_str().is_some_and(|told| told.contains(error)), "{told}"),
        }
        assert!(!told.to_string().contains(SECRET), "{told}");
    }
}

/// Reads one request, and returns its body as JSON.
fn request(stream: &mut std::net::TcpStream) -> Value {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return serde_json::from_str(body).expect("JSON");
            }
        }
        let count = stream.read(&mut part).expect("a request");
        assert!(count > 0, "the request is cut: {text}");
        bytes.extend_from_slice(&part[..count]);
    }
}
