//! The wheel of an executable: pip and uv put it beside Python's own programs. maturin would compile it once more, and the
//! release has one executable a platform.

use std::io::{Cursor, Write as _};

use anyhow::{Context, bail};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{DESCRIPTION, LICENSE, LICENSES, Made, REPOSITORY, Release, executable::Executable};

/// The wheel with this executable.
pub(super) fn wheel(release: Release<'_>, executable: &Executable) -> anyhow::Result<Made> {
    let version = python_version(release.version)?;
    let tag = format!("py3-none-{}", executable.wheel_tag());
    let info = format!("forgefs-{version}.dist-info");
    let readme = String::from_utf8(release.file("packaging/pypi/README.md")?).context("the README is not UTF-8")?;

    let mut wheel = Wheel::default();
    wheel.add(&format!("forgefs-{version}.data/scripts/forgefs"), &executable.content, 0o755)?;
    for license in LICENSES {
        wheel.add(&format!("{info}/licenses/{license}"), &release.file(license)?, 0o644)?;
    }
    wheel.add(&format!("{info}/METADATA"), metadata(&version, &readme).as_bytes(), 0o644)?;
    let about = format!("Wheel-Version: 1.0\nGenerator: forgefs\nRoot-Is-Purelib: false\nTag: {tag}\n");
    wheel.add(&format!("{info}/WHEEL"), about.as_bytes(), 0o644)?;
    Ok(Made { name: format!("forgefs-{version}-{tag}.whl"), content: wheel.finish(&format!("{info}/RECORD"))? })
}

fn metadata(version: &str, readme: &str) -> String {
    let licenses: String = LICENSES.iter().map(|license| format!("License-File: {license}\n")).collect();
    format!(
        "Metadata-Version: 2.4\nName: forgefs\nVersion: {version}\nSummary: {DESCRIPTION}\n\
         License-Expression: {LICENSE}\n{licenses}Requires-Python: >=3.8\n\
         Project-URL: Source, {REPOSITORY}\nDescription-Content-Type: text/markdown\n\n{readme}"
    )
}

/// A wheel in the making: a zip file, and the record of its files.
struct Wheel {
    zip: ZipWriter<Cursor<Vec<u8>>>,
    record: String,
}

impl Default for Wheel {
    fn default() -> Self {
        Self { zip: ZipWriter::new(Cursor::default()), record: String::new() }
    }
}

impl Wheel {
    fn add(&mut self, path: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        self.record.push_str(&format!("{path},sha256={hash},{}\n", content.len()));
        self.put(path, content, mode)
    }

    fn put(&mut self, path: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        // The time of an entry is 1980 unless it is set.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(mode);
        self.zip.start_file(path, options).with_context(|| format!("cannot pack {path}"))?;
        self.zip.write_all(content).with_context(|| format!("cannot pack {path}"))
    }

    fn finish(mut self, record: &str) -> anyhow::Result<Vec<u8>> {
        let lines = format!("{}{record},,\n", self.record);
        self.put(record, lines.as_bytes(), 0o644)?;
        Ok(self.zip.finish()?.into_inner())
    }
}

/// A version of Cargo as PyPI writes it: `1.0.0-rc.1` is `1.0.0rc1`.
pub(crate) fn python_version(version: &str) -> anyhow::Result<String> {
    let Some((release, before)) = version.split_once('-') else { return Ok(version.to_owned()) };
    let stage = match before.split_once('.') {
        Some((stage @ ("alpha" | "beta" | "rc"), number)) if number.parse::<u16>().is_ok() => {
            format!("{}{number}", &stage[..if stage == "rc" { 2 } else { 1 }])
        }
        _ => bail!("PyPI has no form of the version {version}; use -alpha.N, -beta.N or -rc.N"),
    };
    Ok(format!("{release}{stage}"))
}

#[cfg(test)]
mod tests {
    use super::python_version;

    #[test]
    fn versions_are_written_as_pypi_does() {
        for (cargo, python) in [("1.2.3", "1.2.3"), ("1.0.0-rc.1", "1.0.0rc1"), ("0.2.0-alpha.10", "0.2.0a10")] {
            assert_eq!(python_version(cargo).expect(cargo), python);
        }
        for cargo in ["1.0.0-nightly", "1.0.0-rc", "1.0.0-rc.x", "1.0.0-rc.1.2"] {
            assert!(python_version(cargo).is_err(), "{cargo}");
        }
    }
}
