//! Kills of gateway, worker and server at every point of a call; every payment is made exactly once in the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Bank;
use crate::client::finish;

/// Payments of a script.
const COUNT: u64 = 12;
/// Most runs until all is paid.
const MOST: usize = 60;

/// Pays, and looks before it repeats what may be done.
const JAVASCRIPT: &str = "
const pay = async (n) => {
  try { await bank.pay({n}) } catch (e) {
    if (e.code !== 'MAYBE_DONE') throw e;
    console.log('maybe', n);
    if (!(await bank.list()).includes(n)) await bank.pay({n});
  }
};
for (let n = 0; n < 12; n += 3) await Promise.all([pay(n), pay(n + 1), pay(n + 2)]);
return 'paid';
";
const STARLARK: &str = "
def pay(n):
    paid = try_call(lambda: bank.pay(n = n))
    if paid.ok:
        return
    if paid.error.code != 'MAYBE_DONE':
        fail(paid.error.code)
    print('maybe', n)
    if n not in bank.list():
        bank.pay(n = n)

for n in range(12):
    pay(n)
'paid'
";

/// What is killed, and when: by the server at a point of a call, or at any time.
const POINTS: [&str; 9] = [
    "gateway-before", "gateway-done", "gateway-answered", "worker-before", "worker-done", "worker-answered",
    "server-before", "server-done", "gateway-anytime",
];

/// Numbers below a bound, for a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Runs struck at a point, by their end, and those that met a call that may be done.
#[derive(Debug, Default)]
struct Counts {
    killed: usize,
    failed: usize,
    paid: usize,
    maybe: usize,
}

/// `FORGEFS_CRASHES` is the number of scripts, for a long run by hand; its table is in `target/tmp/crashes.txt`.
#[test]
fn every_payment_is_made_once_whatever_is_killed() {
    let scripts = std::env::var("FORGEFS_CRASHES").ok().and_then(|number| number.parse().ok()).unwrap_or(6);
    let mut table: BTreeMap<&str, Counts> = BTreeMap::new();
    for seed in 0..scripts {
        let mut dice = Dice(seed + 1);
        let Some(bank) = Bank::new("") else { return };
        let (language, code) = if seed % 2 == 0 { ("javascript", JAVASCRIPT) } else { ("starlark", STARLARK) };
        // A run that was killed before its journal began has done nothing, and is not there.
        let (mut is_paid, mut has_begun) = (false, false);
        for attempt in 0..MOST {
            let resume: &[&str] = if !has_begun { &[] } else { &["--resume", "last", "--fresh", "bank.list"] };
            // The first runs are struck, each at another point; the last ones end.
            let point = POINTS[dice.roll(POINTS.len() as u64) as usize];
            let is_struck = attempt < 8;
            let mut command = bank.fence.script(resume, language, code);
            let output = match (is_struck, point) {
                (true, "gateway-anytime") => killed(&mut command, Duration::from_millis(100 + dice.roll(400))),
                (true, _) => {
                    bank.tell("kill", &format!("{point} {}", dice.roll(6)));
                    finish(&mut command, "")
                }
                (false, _) => {
                    bank.tell("kill", "nobody 1000");
                    finish(&mut command, "")
                }
            };
            let counts = table.entry(if is_struck { point } else { "none" }).or_default();
            match output.code {
                None => counts.killed += 1,
                Some(0) => counts.paid += 1,
                Some(_) => counts.failed += 1,
            }
            counts.maybe += usize::from(output.stderr.contains("maybe"));
            is_paid = output.code == Some(0);
            has_begun = has_journal(&bank) && !output.stderr.contains("no run that failed and can be resumed");
            if is_paid {
                break;
            }
            let known = ["can be resumed", "TRANSPORT_DEAD", "MAYBE_DONE", "sandbox process", "resume"];
            let is_known = output.code.is_none() || known.iter().any(|known| output.stderr.contains(known));
            assert!(is_known, "{point}: {output:?}");
        }
        assert!(is_paid, "{language}, seed {seed}: not paid after {MOST} runs");
        let mut paid = bank.paid();
        paid.sort_unstable();
        assert_eq!(paid, (0..COUNT).collect::<Vec<_>>(), "{language}, seed {seed}: {table:?}");
    }
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crashes.txt");
    fs::write(report, format!("{scripts} scripts\n{table:#?}\n")).expect("the report can be written");
}

/// True if there is a journal.
fn has_journal(bank: &Bank) -> bool {
    let state = bank.fence.audit().with_file_name("");
    let folders = fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path().join("local"));
    folders
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .any(|file| file.path().extension().is_some_and(|extension| extension == "jsonl"))
}

/// Runs a command, and kills it after a while like `kill -9`.
fn killed(command: &mut std::process::Command, after: Duration) -> crate::client::Output {
    let piped = std::process::Stdio::piped;
    let mut child =
        command.stdin(std::process::Stdio::null()).stdout(piped()).stderr(piped()).spawn().expect("it starts");
    std::thread::sleep(after);
    let _ = child.kill();
    let output = child.wait_with_output().expect("it can be waited for");
    crate::client::Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
