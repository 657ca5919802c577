//! Executables that this machine cannot build: of other platforms, and of the version before.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

use crate::package::executable::{Executable, Platform};

/// The executables, and one that does nothing for each platform without.
pub(super) fn for_all_platforms(executables: &[PathBuf], version: &str, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder)?;
    let mut all = executables.to_vec();
    let read = executables.iter().map(|path| Ok(Executable::read(path, version)?.platform));
    let given = read.collect::<anyhow::Result<Vec<_>>>()?;
    for platform in Platform::ALL.into_iter().filter(|platform| !given.contains(platform)) {
        let path = folder.join(platform.npm());
        let content = match platform {
            Platform::LinuxX64 => elf(0x3e, &path)?,
            Platform::LinuxArm64 => elf(0xb7, &path)?,
            Platform::DarwinX64 => mach(0x0100_0007),
            Platform::DarwinArm64 => mach(0x0100_000c),
        };
        fs::write(&path, content)?;
        all.push(path);
    }
    Ok(all)
}

/// A program of this machine whose header names another.
fn elf(machine: u8, path: &Path) -> anyhow::Result<Vec<u8>> {
    let source = path.with_extension("c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"a stand-in\"); }\n")?;
    let made = Command::new("cc").arg("-o").arg(path).arg(source).status().context("cc")?;
    let mut content = fs::read(path)?;
    ensure!(made.success() && content.len() > 18, "cc makes no program");
    content[18] = machine;
    Ok(content)
}

/// A header alone, with the oldest macOS that the release workflow builds for.
fn mach(cpu: u32) -> Vec<u8> {
    // The header, and one LC_BUILD_VERSION.
    let words = [0xfeed_facf, cpu, 0, 2, 1, 24, 0, 0, 0x32, 24, 1, 0x000b_0000, 0x000b_0000, 0];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// A copy of an executable that says that it is of the version `before`.
pub(super) fn of_before(executable: &Path, version: &str, before: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join("forgefs");
    // Permissions too.
    fs::copy(executable, &path)?;
    let mut content = fs::read(executable)?;
    let (version, before) = (version.as_bytes(), before.as_bytes());
    let mut at = 0;
    while let Some(found) = content[at..].windows(version.len()).position(|bytes| bytes == version) {
        content[at + found..at + found + version.len()].copy_from_slice(before);
        at += found + version.len();
    }
    fs::write(&path, content)?;
    Ok(path)
}

/// A lower version with as many characters; `None` where there is none, as below 0.0.10.
pub(super) fn before(version: &str) -> Option<String> {
    let (numbers, rest) = version.split_at(version.find('-').unwrap_or(version.len()));
    let [major, minor, patch]: [u64; 3] =
        numbers.split('.').map(str::parse).collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()?;
    let lower = match (major, minor, patch) {
        (_, _, 1..) if (patch - 1).to_string().len() == patch.to_string().len() => {
            format!("{major}.{minor}.{}", patch - 1)
        }
        (_, 1.., _) => format!("{major}.{}.", minor - 1),
        (1.., ..) => format!("{}.9.", major - 1),
        _ => return None,
    };
    // A part that lost a digit gives it to the last one.
    let nines = if lower.ends_with('.') { "9".repeat(numbers.len().checked_sub(lower.len())?) } else { String::new() };
    Some(format!("{lower}{nines}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_before_is_as_long() {
        for (version, lower) in [
            ("0.1.0", Some("0.0.9")),
            ("1.0.0", Some("0.9.9")),
            ("1.2.3", Some("1.2.2")),
            ("0.10.0", Some("0.9.99")),
            ("10.0.0", Some("9.9.99")),
            ("0.1.10", Some("0.0.99")),
            ("1.0.0-rc.1", Some("0.9.9-rc.1")),
            ("0.0.10", None),
            ("0.0.0", None),
            ("1.0", None),
        ] {
            assert_eq!(before(version).as_deref(), lower, "{version}");
        }
    }

    #[test]
    fn stand_ins_are_packed_like_executables() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in for_all_platforms(&[], "0.1.0", folder.path()).expect("cc is there") {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let header = if name.starts_with("darwin") { &[0xcf, 0xfa, 0xed, 0xfe] } else { b"\x7fELF" };
            assert!(fs::read(&path).expect("a file").starts_with(header), "{name}");
        }
    }
}
