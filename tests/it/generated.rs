//! `--version`, completions and man pages: made of the command line's own definition, so that they name every command.

use std::fs;

use crate::client::{Fence, finish};

/// Commands of `forgefs --help`.
fn commands() -> Vec<String> {
    let help = Fence::new().run(["--help"]).success().stdout;
    let groups = help.split("\nUse:\n").nth(1).and_then(|rest| rest.split("\nOptions").next()).expect("groups");
    let commands: Vec<String> = groups
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|command| command != "help")
        .collect();
    assert!(commands.len() > 12, "{help}");
    commands
}

#[test]
fn version_names_the_engines_and_the_platform() {
    let fence = Fence::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(fence.run(["-V"]).success().stdout, format!("forgefs {version}\n"));
    let long = fence.run(["--version"]).success().stdout;
    let lines: Vec<&str> = long.lines().collect();
    let [name, engines, platform] = lines[..] else { panic!("three lines: {long}") };
    assert_eq!(name, format!("forgefs {version}"));
    assert!(platform.starts_with(&format!("platform  {} {}", std::env::consts::OS, std::env::consts::ARCH)), "{long}");
    // The engines that `--engine` takes.
    let refused = fence.run(["--engine", "no such", "doctor"]).stderr;
    let has = refused.lines().next().and_then(|line| line.split("it has ").nth(1)).expect("it lists the engines");
    assert_eq!(engines, format!("engines   {}, starlark", has.replace(" and ", ", ")));
    let doctor = fence.run(["doctor"]).success().stdout;
    let build = format!("build    {}; {}\n", &engines["engines   ".len()..], &platform["platform  ".len()..]);
    assert!(doctor.contains(&build), "no {build:?} in {doctor}");
}

#[test]
fn completions_name_every_command_and_shells_accept_them() {
    let fence = Fence::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = fence.run(["completions", shell]).success().stdout;
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not complete {command}");
        }
        let file = fence.write(shell, &script);
        let checks = ["bash", "fish", "zsh"].contains(&shell);
        match finish_if_installed(shell, &["-n", &file.to_string_lossy()]) {
            Some(code) if checks => assert_eq!(code, Some(0), "{shell} does not accept the script"),
            _ => {}
        }
    }
    let refused = fence.run(["completions", "tcsh"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("bash, elvish, fish"), "{refused:?}");
    let completed = finish(
        std::process::Command::new("bash").args([
            "-c",
            "source \"$0\"; COMP_WORDS=(forgefs doc); COMP_CWORD=1; _forgefs forgefs doc forgefs; echo ${COMPREPLY[@]}",
            &fence.work().join("bash").to_string_lossy(),
        ]),
        "",
    );
    assert_eq!(completed.success().stdout, "doctor\n");
}

/// The exit code of a program; `None` if it is not installed.
fn finish_if_installed(program: &str, args: &[&str]) -> Option<Option<i32>> {
    let output = std::process::Command::new(program).args(args).output().ok()?;
    Some(output.status.code())
}

#[test]
fn every_command_has_a_man_page() {
    let fence = Fence::new();
    let folder = fence.work().join("share/man/man1");
    let said = fence.run(["man", "share/man/man1"]).success();
    assert!(said.stdout.is_empty() && said.stderr.contains("share/man/man1"), "{said:?}");
    for command in commands() {
        let page = fs::read_to_string(folder.join(format!("forgefs-{command}.1"))).expect("a page");
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let first = fs::read_to_string(folder.join("forgefs.1")).expect("a page");
    assert!(first.contains("Exit codes: 0 done"), "{first}");
    assert!(!folder.join("forgefs-demo-server.1").exists(), "a hidden command has no page");
    fence.write("file", "");
    let refused = fence.run(["man", "file"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("cannot be written to file"), "{refused:?}");
}
