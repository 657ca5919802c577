//! The facts of an executable that its packages are named by: the platform, and the oldest system that it runs on.

use std::{
    env::consts,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use goblin::{
    elf::{Elf, header},
    mach::{MachO, constants::cputype, load_command::CommandVariant},
};

/// Libraries that every Linux of a manylinux tag has.
const PROMISED: &[&str] = &[
    "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6",
    "libpthread.so.0", "librt.so.1", "libstdc++.so.6",
];
/// The glibc of the oldest manylinux tag that installers know.
const OLDEST_GLIBC: u32 = 17;

/// A built `forgefs`.
pub(crate) struct Executable {
    pub(crate) platform: Platform,
    /// The oldest system that it runs on.
    pub(super) oldest: Oldest,
    pub(super) content: Vec<u8>,
    /// Its absolute path, if it is for this machine.
    pub(super) runs_here: Option<PathBuf>,
}

/// A platform with packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    LinuxX64,
    LinuxArm64,
    DarwinX64,
    DarwinArm64,
}

/// The minor version of glibc 2, or the version of macOS.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Oldest {
    Glibc(u32),
    MacOs(u32, u32),
}

impl Platform {
    pub(crate) const ALL: [Self; 4] = [Self::LinuxX64, Self::LinuxArm64, Self::DarwinX64, Self::DarwinArm64];

    /// Name of the npm package below `@forgefs/`: node's platform and architecture.
    pub(crate) fn npm(self) -> &'static str {
        match self {
            Self::LinuxX64 => "linux-x64",
            Self::LinuxArm64 => "linux-arm64",
            Self::DarwinX64 => "darwin-x64",
            Self::DarwinArm64 => "darwin-arm64",
        }
    }

    /// Rust's name.
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::LinuxX64 => "x86_64-unknown-linux-gnu",
            Self::LinuxArm64 => "aarch64-unknown-linux-gnu",
            Self::DarwinX64 => "x86_64-apple-darwin",
            Self::DarwinArm64 => "aarch64-apple-darwin",
        }
    }

    /// True if its executables run here.
    fn is_this_machine(self) -> bool {
        let this = match (consts::OS, consts::ARCH) {
            ("linux", "x86_64") => Self::LinuxX64,
            ("linux", "aarch64") => Self::LinuxArm64,
            ("macos", "x86_64") => Self::DarwinX64,
            ("macos", "aarch64") => Self::DarwinArm64,
            _ => return false,
        };
        self == this
    }
}

impl Executable {
    /// Reads an executable, which must be of `version` if it runs here.
    pub(crate) fn read(path: &Path, version: &str) -> anyhow::Result<Self> {
        let content = fs::read(path).context("cannot be read")?;
        let (platform, oldest) = if content.starts_with(b"\x7fELF") {
            linux(&content)?
        } else if content.starts_with(&[0xcf, 0xfa, 0xed, 0xfe]) {
            mac_os(&content)?
        } else {
            bail!("no executable of Linux or macOS (ELF or Mach-O of 64 bits)");
        };
        let runs_here = if platform.is_this_machine() { Some(fs::canonicalize(path)?) } else { None };
        if let Some(program) = &runs_here {
            let said = Command::new(program).arg("-V").output().context("cannot be started")?;
            let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            ensure!(said == format!("forgefs {version}"), "`-V` says {said:?}, and the packages are of {version}");
        }
        Ok(Self { platform, oldest, content, runs_here })
    }

    /// Platform tag of its wheel.
    pub(super) fn wheel_tag(&self) -> String {
        let machine = match self.platform {
            Platform::LinuxX64 | Platform::DarwinX64 => "x86_64",
            Platform::LinuxArm64 => "aarch64",
            Platform::DarwinArm64 => "arm64",
        };
        match self.oldest {
            Oldest::Glibc(minor) => format!("manylinux_2_{}_{machine}", minor.max(OLDEST_GLIBC)),
            // Minor versions do not count since macOS 11.
            Oldest::MacOs(major @ 11.., _) => format!("macosx_{major}_0_{machine}"),
            Oldest::MacOs(major, minor) => format!("macosx_{major}_{minor}_{machine}"),
        }
    }
}

fn linux(content: &[u8]) -> anyhow::Result<(Platform, Oldest)> {
    let elf = Elf::parse(content).context("no valid ELF file")?;
    let platform = match elf.header.e_machine {
        header::EM_X86_64 => Platform::LinuxX64,
        header::EM_AARCH64 => Platform::LinuxArm64,
        other => bail!("no package is for its machine (ELF machine {other})"),
    };
    ensure!(elf.interpreter.is_some(), "a library, or linked statically; packages are for executables with glibc");
    if let Some(other) = elf.libraries.iter().find(|library| !PROMISED.contains(library)) {
        bail!("needs {other}, which a wheel cannot rely on; link it statically");
    }
    let needs = elf.verneed.iter().flat_map(|needs| needs.iter());
    let versions = needs.flat_map(|need| need.iter().map(|version| version.vna_name).collect::<Vec<_>>());
    // "GLIBC_2.34", "GLIBC_2.2.5"; private ones have no number.
    let minor = |version: &str| version.strip_prefix("GLIBC_2.")?.split('.').next()?.parse::<u32>().ok();
    let glibc =
        versions.filter_map(|name| minor(elf.dynstrtab.get_at(name)?)).max().context("names no version of glibc")?;
    Ok((platform, Oldest::Glibc(glibc)))
}

fn mac_os(content: &[u8]) -> anyhow::Result<(Platform, Oldest)> {
    let mach = MachO::parse(content, 0).context("no valid Mach-O file")?;
    let platform = match mach.header.cputype() {
        cputype::CPU_TYPE_X86_64 => Platform::DarwinX64,
        cputype::CPU_TYPE_ARM64 => Platform::DarwinArm64,
        other => bail!("no package is for its machine (Mach-O CPU type {other})"),
    };
    let version = mach.load_commands.iter().find_map(|command| match &command.command {
        CommandVariant::BuildVersion(build) => Some(build.minos),
        CommandVariant::VersionMinMacosx(least) => Some(least.version),
        _ => None,
    });
    let version = version.context("does not name the oldest macOS that it runs on")?;
    Ok((platform, Oldest::MacOs(version >> 16, version >> 8 & 0xff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_tagged_by_the_oldest_system() {
        for (platform, oldest, tag) in [
            (Platform::LinuxX64, Oldest::Glibc(36), "manylinux_2_36_x86_64"),
            (Platform::LinuxArm64, Oldest::Glibc(4), "manylinux_2_17_aarch64"),
            (Platform::DarwinX64, Oldest::MacOs(10, 12), "macosx_10_12_x86_64"),
            (Platform::DarwinArm64, Oldest::MacOs(11, 3), "macosx_11_0_arm64"),
        ] {
            assert_eq!(Executable { platform, oldest, content: Vec::new(), runs_here: None }.wheel_tag(), tag);
        }
    }
}
