//! Packages as the registries show them, and what is wrong with them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::Path,
    process::Command,
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::registries::{Registries, get};
use crate::{
    package::{CHECKSUMS, LICENSE, executable::Platform, hex, wheel::python_version},
    say,
};

/// Largest file that PyPI and crates.io take.
const LARGEST: [(&str, usize); 2] = [("PyPI", 100_000_000), ("crates.io", 10 << 20)];

/// A package as its registry shows it.
#[derive(Debug, Default)]
struct Shown {
    registry: &'static str,
    name: String,
    version: String,
    license: String,
    readme: String,
    bytes: usize,
    /// True if the file is the one in the checksums, of which the release has attestations.
    is_attested: bool,
}

/// Prints the table of what the registries show of this version; fails if something is wrong.
pub(super) fn check(registries: &Registries, packages: &Path, version: &str, sources: &Path) -> anyhow::Result<()> {
    let sums = sums(&fs::read_to_string(packages.join(CHECKSUMS))?);
    let mut shown = npm(registries, version, &sums)?;
    shown.extend(pypi(registries, packages, &sums)?);
    shown.extend(crates(registries)?);
    let mut wrong = Vec::new();
    say::output(format_args!(
        "{:<10}{:<41}{:<9}{:<20}{:>8}  README",
        "registry", "package", "version", "licence", "MB"
    ));
    for package in &shown {
        let Shown { registry, name, license, bytes, .. } = package;
        let readme = package.readme.lines().next().unwrap_or_default();
        let line = format!(
            "{registry:<10}{name:<41}{:<9}{license:<20}{:>8.2}  {readme}",
            package.version,
            *bytes as f64 / 1e6
        );
        say::output(format_args!("{line}"));
        wrong.extend(package.mistakes(version).into_iter().map(|mistake| format!("{registry} {name}: {mistake}")));
    }
    let members = members(sources)?;
    let published = shown.iter().filter(|package| package.registry == "crates.io").count();
    say::output(format_args!("{} packages; {published} crates of {members}", shown.len()));
    if published != members {
        wrong.push(format!("crates.io has {published} crates of {members}"));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => bail!("{} mistakes:\n{}", wrong.len(), wrong.join("\n")),
    }
}

impl Shown {
    fn mistakes(&self, version: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        let version =
            if self.registry == "PyPI" { python_version(version).unwrap_or_default() } else { version.to_owned() };
        if self.version != version {
            mistakes.push(format!("its version is {:?}, not {version}", self.version));
        }
        if self.license != LICENSE {
            mistakes.push(format!("its licence is {:?}, not {LICENSE}", self.license));
        }
        if self.readme.trim().is_empty() {
            mistakes.push("it has no README".to_owned());
        }
        // crates.io completes them with the repository.
        let link = |rest: &&str| !rest.starts_with("http") && !rest.starts_with('#');
        if self.registry != "crates.io" && self.readme.split("](").skip(1).any(|rest| link(&rest)) {
            mistakes.push("its README has a link that leads nowhere".to_owned());
        }
        if LARGEST.iter().any(|(registry, most)| *registry == self.registry && self.bytes > *most) {
            mistakes.push(format!("{} bytes are too large", self.bytes));
        }
        if !self.is_attested {
            mistakes.push("its file is not the one in the checksums".to_owned());
        }
        mistakes
    }
}

/// Number of crates that a release publishes.
fn members(sources: &Path) -> anyhow::Result<usize> {
    let metadata = ["metadata", "--no-deps", "--format-version", "1"];
    let said = Command::new("cargo").args(metadata).current_dir(sources).output()?;
    let metadata: Value = serde_json::from_slice(&said.stdout).context("cargo metadata")?;
    Ok(metadata["packages"].as_array().map_or(0, |all| all.iter().filter(|one| one["publish"].is_null()).count()))
}

/// Checksum of each file.
fn sums(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect()
}

fn npm(registries: &Registries, version: &str, sums: &BTreeMap<String, String>) -> anyhow::Result<Vec<Shown>> {
    let platforms = Platform::ALL.map(|platform| format!("@forgefs/{}", platform.npm()));
    let mut shown = Vec::new();
    for name in platforms.into_iter().chain(["forgefs".to_owned()]) {
        let mut view = Command::new("npm");
        view.args(["view", "--json", &format!("{name}@{version}"), "version", "license", "readme", "dist.tarball"]);
        let said = registries.known_to(&mut view).output()?;
        let about: Value = serde_json::from_slice(&said.stdout).with_context(|| format!("npm shows no {name}"))?;
        let text = |key: &str| about[key].as_str().unwrap_or_default().to_owned();
        let file = get(&text("dist.tarball"))?;
        let sum = hex(&Sha256::digest(&file));
        shown.push(Shown {
            registry: "npm",
            name,
            version: text("version"),
            license: text("license"),
            readme: text("readme"),
            bytes: file.len(),
            is_attested: sums.values().any(|known| *known == sum),
        });
    }
    Ok(shown)
}

fn pypi(registries: &Registries, packages: &Path, sums: &BTreeMap<String, String>) -> anyhow::Result<Vec<Shown>> {
    let page = String::from_utf8(get(&format!("{}forgefs/", registries.simple()))?)?;
    let mut shown = Vec::new();
    for (name, sum) in sums.iter().filter(|(name, _)| name.ends_with(".whl")) {
        ensure!(page.contains(&format!(">{name}<")), "PyPI shows no {name}");
        let file = get(&format!("{}/packages/{name}", registries.pypi))?;
        let mut wheel = zip::ZipArchive::new(File::open(packages.join(name))?)?;
        let metadata = wheel.file_names().find(|name| name.ends_with("/METADATA")).context("a METADATA")?.to_owned();
        let mut text = String::new();
        wheel.by_name(&metadata)?.read_to_string(&mut text)?;
        let is_attested = hex(&Sha256::digest(&file)) == *sum;
        shown.push(Shown { name: name.clone(), bytes: file.len(), is_attested, ..of_metadata(&text) });
    }
    Ok(shown)
}

/// What PyPI reads from METADATA.
fn of_metadata(text: &str) -> Shown {
    let (head, readme) = text.split_once("\n\n").unwrap_or((text, ""));
    let field = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_default().to_owned()
    };
    let (version, license) = (field("Version"), field("License-Expression"));
    Shown { registry: "PyPI", version, license, readme: readme.to_owned(), ..Shown::default() }
}

/// Their files have no attestation: the registry has the checksums, and cargo checks them.
fn crates(registries: &Registries) -> anyhow::Result<Vec<Shown>> {
    let about: Vec<Value> = serde_json::from_slice(&get(&registries.listed())?)?;
    let shown = about.iter().map(|about| {
        let text = |key: &str| about[key].as_str().unwrap_or_default().to_owned();
        Shown {
            registry: "crates.io",
            name: text("name"),
            version: text("vers"),
            license: text("license"),
            readme: text("readme"),
            bytes: about["size"].as_u64().unwrap_or_default() as usize,
            is_attested: true,
        }
    });
    Ok(shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_of_a_package_is_named() {
        let good = || {
            let fields = "Metadata-Version: 2.4\nVersion: 1.0.0rc1\nLicense-Expression: MIT OR Apache-2.0";
            Shown { is_attested: true, bytes: 9, ..of_metadata(&format!("{fields}\n\n# ForgeFS\n\n[x](https://y)\n")) }
        };
        assert_eq!(good().mistakes("1.0.0-rc.1"), Vec::<String>::new());
        for (package, says) in [
            (Shown { version: "1.0.0".to_owned(), ..good() }, "its version is \"1.0.0\", not 1.0.0rc1"),
            (Shown { license: String::new(), ..good() }, "its licence is \"\", not MIT OR Apache-2.0"),
            (Shown { readme: "\n".to_owned(), ..good() }, "it has no README"),
            (Shown { readme: "[x](docs/y.md)".to_owned(), ..good() }, "its README has a link that leads nowhere"),
            (Shown { bytes: 100_000_001, ..good() }, "100000001 bytes are too large"),
            (Shown { is_attested: false, ..good() }, "its file is not the one in the checksums"),
        ] {
            assert_eq!(package.mistakes("1.0.0-rc.1"), [says]);
        }
    }
}
