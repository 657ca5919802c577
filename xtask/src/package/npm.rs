//! Packages of npm: `forgefs`, whose launcher starts the executable of `@forgefs/linux-x64` or another platform. npm
//! installs the one for its own platform; no script runs.

use serde_json::{Map, Value, json};

use super::{
    DESCRIPTION, LICENSE, LICENSES, Made, REPOSITORY, Release,
    executable::{Executable, Oldest, Platform},
    tarball::Tarball,
};

/// The package that a user names.
pub(super) fn launcher(release: Release<'_>) -> anyhow::Result<Made> {
    let optional: Map<String, Value> =
        Platform::ALL.iter().map(|platform| (package(*platform), release.version.into())).collect();
    let mut manifest = manifest(release, "forgefs");
    manifest["keywords"] = json!(["mcp", "model-context-protocol", "gateway", "agent", "sandbox"]);
    manifest["bin"] = json!({"forgefs": "bin/forgefs.js"});
    manifest["engines"] = json!({"node": ">=18"});
    manifest["optionalDependencies"] = optional.into();
    let mut tarball = begun(release, &manifest)?;
    tarball.file("package/README.md", &release.file("packaging/npm/README.md")?)?;
    tarball.program("package/bin/forgefs.js", &release.file("packaging/npm/forgefs.js")?)?;
    Ok(Made { name: format!("forgefs-{}.tgz", release.version), content: tarball.finish()? })
}

/// The package with the executable of one platform.
pub(super) fn platform(release: Release<'_>, executable: &Executable) -> anyhow::Result<Made> {
    let name = package(executable.platform);
    let mut manifest = manifest(release, &name);
    if let Some((os, cpu)) = executable.platform.npm().split_once('-') {
        manifest["os"] = json!([os]);
        manifest["cpu"] = json!([cpu]);
    }
    if matches!(executable.oldest, Oldest::Glibc(_)) {
        manifest["libc"] = json!(["glibc"]);
    }
    manifest["preferUnplugged"] = true.into();
    let mut tarball = begun(release, &manifest)?;
    tarball.file("package/README.md", format!("The executable of `forgefs` for {name}.\n").as_bytes())?;
    tarball.program("package/bin/forgefs", &executable.content)?;
    Ok(Made {
        name: format!("forgefs-{}-{}.tgz", executable.platform.npm(), release.version),
        content: tarball.finish()?,
    })
}

fn package(platform: Platform) -> String {
    format!("@forgefs/{}", platform.npm())
}

fn manifest(release: Release<'_>, name: &str) -> Value {
    json!({
        "name": name,
        "version": release.version,
        "description": DESCRIPTION,
        "license": LICENSE,
        "repository": {"type": "git", "url": format!("git+{REPOSITORY}.git")},
        "publishConfig": {"access": "public"},
    })
}

/// A package with what all have.
fn begun(release: Release<'_>, manifest: &Value) -> anyhow::Result<Tarball> {
    let mut tarball = Tarball::new();
    tarball.file("package/package.json", format!("{manifest:#}\n").as_bytes())?;
    for license in LICENSES {
        tarball.file(&format!("package/{license}"), &release.file(license)?)?;
    }
    Ok(tarball)
}
