//! State that cannot be used is told to the operator, with its place and what to do.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{PAY, WAITS, approvals, parked, shape};
use crate::client::Output;
use crate::journal::Bank;

/// The one file below a folder whose path has these parts.
fn below(folder: &Path, parts: [&str; 2]) -> PathBuf {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false if parts.iter().all(|part| path.to_string_lossy().contains(part)) => found.push(path),
                false => {}
            }
        }
    }
    assert_eq!(found.len(), 1, "{parts:?}: {found:?}");
    found.remove(0)
}

/// The warnings of `doctor` about state.
fn warned(bank: &Bank) -> Vec<String> {
    let doctor = bank.fence.run(["doctor"]);
    doctor.stdout.lines().filter(|line| line.starts_with("state    ")).map(str::to_owned).collect()
}

#[test]
fn a_damaged_approval_is_listed_with_its_file() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let (run, id) = parked(&bank.json(&[], PAY));
    let file = below(&bank.fence.audit().with_file_name(""), ["approvals-", &id]);
    let whole = fs::read_to_string(&file).expect("an approval");
    let other = whole.replacen("\"version\":", "\"version\":9", 1);
    for damage in ["", &whole[..whole.len() / 2], &other] {
        fs::write(&file, damage).expect("written");
        let place = file.display().to_string();
        let has_place = |output: &Output| format!("{}{}", output.stdout, output.stderr).contains(&place);
        let listed = approvals(&bank, &["list"]).success();
        assert!(listed.stdout.starts_with(&format!("{id}  damaged")) && has_place(&listed), "{listed:?}");
        let listed = shape(&bank, &["list"]);
        assert_eq!(listed["damaged"], json!([{ "id": id, "file": place }]), "{listed}");
        for words in [["allow", &id], ["show", &id[..6]]] {
            let refused = approvals(&bank, &words);
            assert!(refused.code == Some(4) && has_place(&refused), "{refused:?}");
        }
        let answer = bank.json(&["--resume", &run], PAY).to_string();
        assert!(answer.contains("is damaged, or of another version") && answer.contains("look at the log"), "{answer}");
        assert!(!answer.contains(&place), "{answer}");
        let warned = warned(&bank);
        assert!(warned.len() == 1 && warned[0].contains(&place), "{warned:?}");
    }
    fs::remove_file(&file).expect("removed");
    parked(&bank.json(&["--resume", &run], PAY));
    assert!(warned(&bank).is_empty());
}

#[test]
fn doctor_warns_of_state_with_which_work_is_refused() {
    let Some(bank) = Bank::new(&format!("{WAITS}[budgets]\nday = 1000\n")) else { return };
    parked(&bank.json(&[], PAY));
    assert!(warned(&bank).is_empty());
    let state = bank.fence.audit().with_file_name("");
    for (parts, damage, says) in [
        (
            ["forgefs", "spent-"],
            "hello",
            "what was spent today is not known, and calls are refused: FILE; remove the file",
        ),
        (["journals", "/key"], "", "no run has a journal: the key of the journals is damaged: FILE; remove the file"),
    ] {
        let file = below(&state, parts);
        let whole = fs::read(&file).expect("a file");
        fs::write(&file, damage).expect("written");
        let (warned, says) = (warned(&bank), says.replace("FILE", &file.display().to_string()));
        assert!(warned.len() == 1 && warned[0].contains(&says), "{says}: {warned:?}");
        if damage.is_empty() {
            let refused = bank.run(&["--json"], PAY);
            let why = "it cannot wait, since its run has no journal";
            assert!(refused.stdout.contains(why) && refused.stdout.contains("look at the log"), "{refused:?}");
            let listed = bank.fence.run(["runs", "list"]).success().stdout;
            let last = listed.lines().next_back().unwrap_or_default();
            assert!(last.contains("  no journal: see `forgefs audit show "), "{listed}");
            let log = [file.display().to_string(), "remove the file".to_owned()];
            assert!(log.iter().all(|part| refused.stderr.contains(part)), "{refused:?}");
        }
        fs::write(&file, whole).expect("written");
    }
}

#[test]
fn with_as_the_records_of_one_client_are_shown() {
    let Some(bank) = Bank::new(&format!("{WAITS}[clients.ci]\ntoken = \"0123456789abcdef\"\n")) else { return };
    let (run, id) = parked(&bank.json(&["--as", "ci"], PAY));
    let lists = [&["runs", "list"][..], &["approvals", "list"], &["audit", "list"]];
    for (client, count) in [("ci", 1), ("local", 0)] {
        for words in lists {
            let rows = bank.fence.run([&["--as", client], words].concat()).success().stdout;
            assert_eq!(rows.lines().count(), count, "{words:?} as {client}: {rows}");
        }
        for words in
            [["runs", "show", &run], ["approvals", "show", &id], ["audit", "show", &run], ["replay", &run, "--json"]]
        {
            let shown = bank.fence.run([&words[..], &["--as", client]].concat());
            let is_found = shown.code != Some(2);
            assert_eq!(is_found, count == 1, "{words:?} as {client}: {shown:?}");
        }
    }
    for words in [["runs", "delete", &run], ["approvals", "allow", &id], ["approvals", "deny", &id]] {
        let refused = bank.fence.run([&words[..], &["--as", "local"]].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(" has an id that begins with "), "{refused:?}");
    }
    for words in [lists[0], lists[1], &["audit", "show", "last"]] {
        let refused = bank.fence.run([words, &["--as", "cii"]].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains("did you mean `ci`"), "{words:?}: {refused:?}");
    }
    let refused = bank.fence.run(["doctor", "--as", "ci"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("doctor is for the operator"), "{refused:?}");
    // The log names clients where there are several.
    let audit = || bank.fence.run(["audit", "list"]).success();
    assert!(!audit().stderr.contains("CLIENT"), "{:?}", audit());
    approvals(&bank, &["allow", &id, "--as", "ci"]).success();
    bank.json(&["--as", "ci", "--resume", &run], PAY);
    bank.json(&[], "return 1");
    let (head, rows) = (audit().stderr, audit().stdout);
    assert!(head.contains("    TOOK  CLIENT  CALLS"), "{head}");
    let [first, second, third] = rows.lines().collect::<Vec<_>>()[..] else { panic!("{rows}") };
    assert!(first.ends_with("  ci      bank.list_ ok, bank.pay APPROVAL_WAITS"), "{first}");
    assert!(second.ends_with("  ci      bank.list_ ok, bank.pay ok"), "{second}");
    assert!(third.ends_with("  local"), "{third}");
}
