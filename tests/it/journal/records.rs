//! On record, or not made: what cannot be written × what the configuration requires, for calls that may write and for
//! those that read.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Bank;
use crate::client::finish;

/// Puts a file where a folder should be.
fn in_the_way(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder.parent().expect("a folder above it")).expect("it can be made");
    fs::write(folder, "").expect("it can be written");
}

/// Reads, then writes; its value is why it did not write.
const BOTH: &str = "await bank.list(); try { await bank.pay({n: 1}) } catch (e) { return e.message } return 'paid'";

const JOURNALS: &str = "journals";
const AUDIT: &str = "audit";
const STATE: &str = "state";

/// What cannot be written; more of the configuration; whether a call that may write and one that reads are made; whether
/// the run is told that it cannot be resumed.
#[rustfmt::skip]
const ROWS: &[(&[&str], &str, bool, bool, bool)] = &[
    (&[],                "",                                                      true,  true,  false),
    (&[STATE],           "",                                                      false, true,  true),
    (&[JOURNALS],        "",                                                      true,  true,  true),
    (&[AUDIT],           "",                                                      true,  true,  false),
    (&[JOURNALS, AUDIT], "",                                                      false, true,  true),
    // What the operator says.
    (&[JOURNALS, AUDIT], "[audit]\nrequired = false\n",                           true,  true,  true),
    (&[AUDIT],           "[audit]\nrequired = true\n",                            false, false, false),
    (&[JOURNALS, AUDIT], "[audit]\nto = \"stderr\"\n",                            true,  true,  true),
    (&[JOURNALS],        "[audit]\nto = \"off\"\n",                               false, true,  true),
    (&[],                "[audit]\nto = \"off\"\nrequired = true\n",             false, false, false),
    (&[],                "[audit]\nto = \"off\"\nrequired = false\n",            true,  true,  false),
    (&[AUDIT],           "[journal]\non = false\n",                               false, true,  false),
    (&[STATE],           "[journal]\non = false\n[audit]\nto = \"off\"\n",        true,  true,  false),
    (&[JOURNALS],        "[journal]\nrequired = true\n",                          false, false, false),
    (&[AUDIT],           "[journal]\nrequired = true\n",                          true,  true,  false),
];

#[test]
fn a_call_that_may_write_is_on_record_or_not_made() {
    for (broken, config, pays, lists, is_told) in ROWS {
        let what = format!("{broken:?} {config}");
        let Some(bank) = Bank::new(config) else { return };
        if broken.contains(&JOURNALS) {
            // Their folder has a name of this configuration's.
            bank.configure("");
            bank.json(&[], "return 1");
            bank.configure(config);
        }
        for broken in *broken {
            match *broken {
                JOURNALS => in_the_way(bank.fence.journals().parent().expect("above the client's")),
                AUDIT => {
                    let _ = fs::remove_file(bank.fence.audit());
                    fs::create_dir_all(bank.fence.audit()).expect("it can be made");
                }
                _ => in_the_way(bank.fence.audit().parent().expect("the state folder")),
            }
        }
        let answer = bank.json(&[], BOTH);
        assert_eq!(answer["ok"], json!(*lists), "{what}: {answer}");
        let told = answer["notes"].to_string().matches("this run has no journal").count();
        assert_eq!(told, usize::from(*is_told), "{what}: {answer}");
        assert_eq!(bank.paid().len(), usize::from(*pays), "{what}: {answer}");
        if !pays && *lists {
            let message = answer["value"].as_str().unwrap_or_default();
            assert!(message.contains("the call is not made: it cannot be put on record"), "{what}: {answer}");
        }
    }
}

#[test]
fn a_command_of_one_call_is_on_record_or_not_made() {
    let Some(bank) = Bank::new("") else { return };
    fs::create_dir_all(bank.fence.audit()).expect("it can be made");
    let call = |tool: &str, args: &str| bank.fence.run(["call", "bank", tool, args]);
    let refused = call("pay", "{\"n\": 1}");
    assert!(refused.code != Some(0) && refused.stderr.contains("it cannot be put on record"), "{refused:?}");
    assert_eq!(call("list", "{}").success().stdout.trim(), "[]");
    bank.configure("[audit]\nrequired = false\n");
    call("pay", "{\"n\": 2}").success();
    assert_eq!(bank.paid(), [2]);
}

#[test]
fn on_a_full_or_read_only_disk_nothing_is_paid_and_reads_go_on() {
    let Some(bank) = Bank::new("") else { return };
    let state = bank.fence.audit().parent().expect("the state folder").to_owned();
    fs::create_dir_all(&state).expect("it can be made");
    let state = state.display().to_string();
    for (disk, mount) in [
        ("full", format!("mount -t tmpfs -o size=64k none {state} && (head -c 1M /dev/zero > {state}/much || true)")),
        ("read-only", format!("mount -t tmpfs -o ro none {state}")),
    ] {
        let run = |code: &str| {
            let command = bank.fence.script(&["--json"], "javascript", code);
            let mut mounted = Command::new("unshare");
            bank.fence.enclose(&mut mounted);
            mounted.args(["-rm", "sh", "-c", &format!("{mount}; exec \"$@\""), "sh"]);
            mounted.arg(command.get_program()).args(command.get_args()).current_dir(bank.fence.work());
            finish(&mut mounted, "")
        };
        let may = Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output();
        if !may.is_ok_and(|output| output.status.success()) {
            crate::real::skipped("no file system can be mounted here");
            return;
        }
        let written = run("return await bank.pay({n: 1})").object();
        let message = written["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("it cannot be put on record"), "{disk}: {written}");
        assert_eq!(run("return await bank.list()").object()["value"], json!([]), "{disk}");
        assert_eq!(bank.paid(), [0; 0], "{disk}");
    }
}
