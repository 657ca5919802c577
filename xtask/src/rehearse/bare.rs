//! A user's machine: a bare Debian, or an empty home on this one.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;

use crate::{bounded, real, say, step};

/// A user without rights in the Debian.
const USER: u32 = 10001;
/// Runs a script in the Debian, with a mount of its own that ends with it.
const ENTER: &str = r#"mount -t proc proc "$0/proc" && chown $USER_ID "$0$HOME" &&
exec chroot --userspec=$USER_ID "$0" /usr/bin/env -i HOME="$HOME" "$@""#;
/// Longest time of making the Debian.
const MAKING: Duration = Duration::from_secs(900);
/// Longest time of a user's script.
const LIMIT: Duration = Duration::from_secs(300);

/// A user's machine.
pub(super) struct Bare {
    /// Root of the Debian, if it is one.
    debian: Option<PathBuf>,
    /// Folder of homes, as seen from outside.
    homes: PathBuf,
    path: OsString,
}

impl Bare {
    /// A Debian where root and debootstrap are there, which is kept for the next time; `uv` are programs that it gets.
    pub(super) fn new(root: &Path, target: &Path, uv: &[PathBuf]) -> anyhow::Result<Self> {
        let lacks = match step::probe("id", &["-u"]).as_deref() {
            Some("0") => step::probe("debootstrap", &["--version"]).is_none().then_some("debootstrap is not installed"),
            _ => Some("needs root"),
        };
        if let Some(lacks) = lacks {
            say::skipped("a bare Debian, packages are tried in empty homes instead", format_args!("{lacks}"));
            let bin = uv.first().and_then(|uv| uv.parent()).map(Path::to_owned);
            let path = real::path_with_python(root)?;
            let path = std::env::join_paths(bin.into_iter().chain(std::env::split_paths(&path)))?;
            return Ok(Self { debian: None, homes: target.join("homes"), path });
        }
        let debian = target.join("debian");
        if !debian.join("ready").exists() {
            let _ = fs::remove_dir_all(&debian);
            let mut make = Command::new("sh");
            make.args(["-ec", include_str!("debian.sh"), "sh"]).arg(&debian).arg(USER.to_string());
            bounded::run_guarded(&make, target, MAKING)?.succeeded("making a Debian")?;
            fs::write(debian.join("ready"), "")?;
        }
        for program in uv {
            let name = program.file_name().context("a name")?;
            fs::copy(program, debian.join("usr/local/bin").join(name))
                .with_context(|| program.display().to_string())?;
        }
        Ok(Self { homes: debian.join("work"), debian: Some(debian), path: "/usr/local/bin:/usr/bin:/bin".into() })
    }

    /// The place, for a person.
    pub(super) fn name(&self) -> &'static str {
        if self.debian.is_some() { "in a bare Debian" } else { "in an empty home" }
    }

    /// Runs a script in a new home with these variables alone, and says its lines that begin with `+`.
    pub(super) fn run(&self, name: &str, script: &str, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        let home = self.homes.join(name);
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home)?;
        let mut command = match &self.debian {
            Some(debian) => {
                let mut enter = Command::new("unshare");
                enter.envs([("USER_ID", USER.to_string()), ("HOME", format!("/work/{name}"))]);
                enter.args(["--mount", "/bin/sh", "-c", ENTER]).arg(debian);
                enter
            }
            None => {
                let mut env = Command::new("env");
                env.arg("-i").arg(format!("HOME={}", home.display()));
                env
            }
        };
        command.arg(format!("PATH={}", self.path.to_string_lossy()));
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(["/bin/sh", "-ec", &format!("cd \"$HOME\"\n{script}")]);
        let ended = bounded::run_guarded(&command, &home, LIMIT)?;
        for line in ended.stdout.lines().filter_map(|line| line.strip_prefix("+ ")) {
            say::line(format_args!("   {line}"));
        }
        ended.succeeded(name)
    }
}
