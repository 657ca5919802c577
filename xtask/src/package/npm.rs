//! Packages of npm: `forgefs`, whose launcher starts the executable of `@forgefs/linux-x64` or another platform. npm
//! installs the one for its own platform; no script runs.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{
    DESCRIPTION, LICENSE, LICENSES, Made, REPOSITORY, VERSION,
    executable::{Executable, Oldest, Platform},
    file,
    tarball::Tarball,
};

/// The package that a user names.
pub(super) fn launcher(root: &Path) -> anyhow::Result<Made> {
    let optional: Map<String, Value> =
        Platform::ALL.iter().map(|platform| (package(*platform), VERSION.into())).collect();
    let mut manifest = manifest("forgefs");
    manifest["keywords"] = json!(["mcp", "model-context-protocol", "gateway", "agent", "sandbox"]);
    manifest["bin"] = json!({"forgefs": "bin/forgefs.js"});
    manifest["engines"] = json!({"node": ">=18"});
    manifest["optionalDependencies"] = optional.into();
    let mut tarball = begun(root, &manifest)?;
    tarball.file("package/README.md", &file(root, "packaging/npm/README.md")?)?;
    tarball.program("package/bin/forgefs.js", &file(root, "packaging/npm/forgefs.js")?)?;
    Ok(Made { name: format!("forgefs-{VERSION}.tgz"), content: tarball.finish()? })
}

/// The package with the executable of one platform.
pub(super) fn platform(root: &Path, executable: &Executable) -> anyhow::Result<Made> {
    let name = package(executable.platform);
    let mut manifest = manifest(&name);
    if let Some((os, cpu)) = executable.platform.npm().split_once('-') {
        manifest["os"] = json!([os]);
        manifest["cpu"] = json!([cpu]);
    }
    if matches!(executable.oldest, Oldest::Glibc(_)) {
        manifest["libc"] = json!(["glibc"]);
    }
    manifest["preferUnplugged"] = true.into();
    let mut tarball = begun(root, &manifest)?;
    tarball.file("package/README.md", format!("The executable of `forgefs` for {name}.\n").as_bytes())?;
    tarball.program("package/bin/forgefs", &executable.content)?;
    Ok(Made { name: format!("forgefs-{}-{VERSION}.tgz", executable.platform.npm()), content: tarball.finish()? })
}

fn package(platform: Platform) -> String {
    format!("@forgefs/{}", platform.npm())
}

fn manifest(name: &str) -> Value {
    json!({
        "name": name,
        "version": VERSION,
        "description": DESCRIPTION,
        "license": LICENSE,
        "repository": {"type": "git", "url": format!("git+{REPOSITORY}.git")},
        "publishConfig": {"access": "public"},
    })
}

/// A package with what all have.
fn begun(root: &Path, manifest: &Value) -> anyhow::Result<Tarball> {
    let mut tarball = Tarball::new();
    tarball.file("package/package.json", format!("{manifest:#}\n").as_bytes())?;
    for license in LICENSES {
        tarball.file(&format!("package/{license}"), &file(root, license)?)?;
    }
    Ok(tarball)
}
