//! Runs checkers and formatters of both languages over the stubs of the corpus and of real catalogs.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::{real, say, step, tasks::Build};

/// Writes every stub below target/check-stubs, runs each checker once over all of them, and prints a table.
pub(crate) fn run(root: &Path, build: &Build) -> anyhow::Result<()> {
    let out = root.join("target/check-stubs");
    let tree = out.join("tree");
    let inputs = inputs(root)?;
    for old in [&tree, &out.join("editors")] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot empty {}", old.display()))?;
        }
    }
    fs::create_dir_all(&out)?;
    step::run(build.cargo(&["build", "--quiet", "--workspace", "--examples"]).current_dir(root))?;
    let mut write = example(root, "write_stubs");
    capture("write_stubs", write.arg(&out).args(&inputs).current_dir(root))?;
    fs::write(out.join("pyrightconfig.json"), PYRIGHT)?;
    fs::write(out.join("tsconfig.json"), TSC)?;
    fs::write(out.join("editors.pyright.json"), EDITORS_PYRIGHT)?;
    fs::write(out.join("editors.tsconfig.json"), EDITORS_TSC)?;

    let found = real::install_checkers(root);
    let checkers = Checkers { python: found.python, node: found.node, scripts: root.join("stubgen/checks"), out };
    let files = Files::below(&tree)?;
    let mut rows = checkers.check_tree(&files)?;
    rows.extend(checkers.check_editors()?);
    let judged = checkers.check_arguments(&mut rows)?;
    let tokens = capture("count_tokens", example(root, "count_tokens").args(&inputs).current_dir(root))?;

    // One per tool, and one for the whole tree.
    let tools = files.typescript.saturating_sub(1);
    say::output(format_args!("{tools} tools of {} files of definitions", inputs.len()));
    say::output(format_args!("{:<28} {:>6} {:>7} {:>8}", "checker", "files", "errors", "seconds"));
    for Row { name, files, errors, time } in &rows {
        say::output(format_args!("{name:<28} {files:>6} {errors:>7} {:>8.1}", time.as_secs_f64()));
    }
    say::output(format_args!("{judged}o200k tokens:\n{}", tokens.trim_end()));
    match rows.iter().filter(|row| row.errors > 0).map(|row| row.name.as_str()).collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        names => bail!("{} found errors in stubs; what they say is in {}", names.join(", "), checkers.out.display()),
    }
}

/// A stub of a remote tool has no source.
const PYRIGHT: &str = r#"{
  "include": ["tree", "arguments"],
  "extraPaths": ["tree"],
  "typeCheckingMode": "standard",
  "reportMissingModuleSource": false
}
"#;

pub(crate) const TSC: &str = r#"{
  "include": ["tree/**/*.d.ts"],
  "compilerOptions": { "strict": true, "noEmit": true, "target": "esnext", "lib": ["esnext"], "types": [] }
}
"#;

/// The types for people's editors, which lead to those of every tool.
const EDITORS_PYRIGHT: &str = r#"{ "include": ["editors/tools.pyi"], "reportMissingModuleSource": false }
"#;

const EDITORS_TSC: &str = r#"{
  "files": ["editors/tools.d.ts"],
  "compilerOptions": { "strict": true, "noEmit": true, "target": "esnext", "lib": ["esnext"], "types": [] }
}
"#;

/// The corpus, and the catalogs of real servers if available.
fn inputs(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shared = env::var_os("FORGEFS_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let catalogs = shared.join("catalogs");
    let mut inputs = json_files(&root.join("stubgen/tests/corpus"))?;
    if catalogs.is_dir() {
        inputs.extend(json_files(&catalogs)?);
    } else {
        say::skipped("stubs of real catalogs", format_args!("there is no {}", catalogs.display()));
    }
    Ok(inputs)
}

fn json_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

/// A built example of stubgen.
fn example(root: &Path, name: &str) -> Command {
    Command::new(Build::debug(root, &format!("examples/{name}")))
}

/// Standard output of a step that must succeed.
fn capture(what: &str, command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{what} could not be started"))?;
    if !output.status.success() {
        bail!("{what} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Number of files by language.
#[derive(Default)]
struct Files {
    python: usize,
    typescript: usize,
}

impl Files {
    fn below(folder: &Path) -> anyhow::Result<Self> {
        let mut files = Self::default();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.to_string_lossy();
            if path.is_dir() {
                let inner = Self::below(&path)?;
                files.python += inner.python;
                files.typescript += inner.typescript;
            } else if name.ends_with(".pyi") || name.ends_with(".py") {
                files.python += 1;
            } else if name.ends_with(".d.ts") {
                files.typescript += 1;
            }
        }
        Ok(files)
    }
}

/// Result of one checker.
struct Row {
    name: String,
    files: usize,
    errors: usize,
    time: Duration,
}

pub(crate) struct Checkers {
    /// The venv and the folder of node_modules, unless skipped.
    pub(crate) python: Option<PathBuf>,
    pub(crate) node: Option<PathBuf>,
    pub(crate) scripts: PathBuf,
    /// Folder of the tree and of the checkers' reports.
    pub(crate) out: PathBuf,
}

impl Checkers {
    fn check_tree(&self, files: &Files) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        if let Some(mut parse) = self.script("parse.py") {
            rows.push(self.count("ast.parse", "error: ", files.python, parse.arg("tree"))?);
        }
        if let Some(mut ruff) = self.python("ruff") {
            ruff.args(["format", "--check", "--isolated", "--no-cache", "--no-respect-gitignore", "tree"]);
            rows.push(self.count("ruff format", ": File would be reformatted", files.python, &mut ruff)?);
        }
        for (kind, mark) in TYPE_CHECKERS {
            if let Some(mut checker) = self.type_checker(kind, "tree") {
                rows.push(self.count(kind, mark, files.python, &mut checker)?);
            }
        }
        if let Some(mut tsc) = self.tsc() {
            rows.push(self.count("tsc", "error TS", files.typescript, &mut tsc)?);
        }
        if let Some(mut prettier) = self.node("prettier/bin/prettier.cjs") {
            prettier.args(["--no-config", "--no-editorconfig", "--list-different", "tree/**/*.d.ts"]);
            rows.push(self.count("prettier", ".d.ts", files.typescript, &mut prettier)?);
        }
        Ok(rows)
    }

    /// The files for people's editors: `tools` and `forge` in both languages. mypy takes minutes for one file with every tool
    /// of the corpus.
    fn check_editors(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        if let Some(mut ruff) = self.python("ruff") {
            ruff.args(["format", "--check", "--isolated", "--no-cache", "--no-respect-gitignore"]);
            ruff.args(["editors/tools.pyi", "editors/forge.pyi"]);
            rows.push(self.count("ruff format on editors", "Would reformat", 2, &mut ruff)?);
        }
        if let Some(mut ty) = self.python("ty") {
            ty.args(["check", "--output-format", "concise", "--no-progress", "--no-respect-ignore-files"]);
            rows.push(self.count(
                "ty on editors",
                ": error[",
                1,
                ty.args(["--error-on-warning", "editors/tools.pyi"]),
            )?);
        }
        if let Some(mut pyright) = self.node("pyright/index.js") {
            pyright.args(["--project", "editors.pyright.json"]);
            rows.push(self.count("pyright on editors", " - error:", 1, &mut pyright)?);
        }
        if let Some(mut tsc) = self.node("typescript/bin/tsc") {
            rows.push(self.count("tsc on editors", "error TS", 2, tsc.args(["--project", "editors.tsconfig.json"]))?);
        }
        if let Some(mut prettier) = self.node("prettier/bin/prettier.cjs") {
            prettier.args(["--no-config", "--no-editorconfig", "--list-different"]);
            prettier.args(["editors/tools.d.ts", "editors/forge.d.ts"]);
            rows.push(self.count("prettier on editors", ".d.ts", 2, &mut prettier)?);
        }
        Ok(rows)
    }

    /// Checks calls made from the schemas: a type checker must accept the valid and refuse the invalid ones. Returns
    /// the verdict on each.
    fn check_arguments(&self, rows: &mut Vec<Row>) -> anyhow::Result<String> {
        let Some(mut write) = self.script("arguments.py") else { return Ok(String::new()) };
        capture("arguments.py", write.args(["tree", "arguments"]))?;
        let files = Files::below(&self.out.join("arguments"))?.python;
        let mut judged = String::new();
        for (kind, mark) in TYPE_CHECKERS {
            let Some(mut checker) = self.type_checker(kind, "arguments") else { continue };
            let name = format!("{kind} on arguments");
            let Row { time, .. } = self.count(&name, mark, files, &mut checker)?;
            let Some(mut judge) = self.script("arguments.py") else { continue };
            judge.args(["--judge", "arguments", &report(&name)]);
            let verdict = self.count(&format!("{name}-judged"), "mistake: ", files, &mut judge)?;
            let said = fs::read_to_string(self.out.join(report(&verdict.name)))?;
            judged += &format!("{name}: {}\n", said.lines().next().unwrap_or_default());
            rows.push(Row { name, time, ..verdict });
        }
        Ok(judged)
    }

    pub(crate) fn type_checker(&self, kind: &str, folder: &str) -> Option<Command> {
        let mut command = match kind {
            "pyright" => self.node("pyright/index.js")?,
            "ty" => {
                let mut ty = self.python("ty")?;
                ty.args(["check", "--output-format", "concise", "--no-progress", "--no-respect-ignore-files"]);
                ty.args(["--error-on-warning", "--extra-search-path", "tree"]);
                ty
            }
            _ => {
                let mut mypy = self.python("mypy")?;
                mypy.args(["--strict", "--namespace-packages", "--explicit-package-bases", "--config-file="]);
                mypy.env("MYPYPATH", "tree");
                mypy
            }
        };
        command.arg(folder);
        Some(command)
    }

    pub(crate) fn tsc(&self) -> Option<Command> {
        let mut tsc = self.node("typescript/bin/tsc")?;
        tsc.args(["--project", "."]);
        Some(tsc)
    }

    /// A module of the venv.
    fn python(&self, module: &str) -> Option<Command> {
        let mut command = Command::new(self.python.as_ref()?.join(real::VENV_PYTHON));
        command.args(["-m", module]).current_dir(&self.out);
        Some(command)
    }

    /// A script of stubgen/checks.
    fn script(&self, name: &str) -> Option<Command> {
        let mut command = Command::new(self.python.as_ref()?.join(real::VENV_PYTHON));
        command.arg(self.scripts.join(name)).current_dir(&self.out);
        Some(command)
    }

    fn node(&self, script: &str) -> Option<Command> {
        let mut command = Command::new("node");
        command.arg(self.node.as_ref()?.join("node_modules").join(script)).current_dir(&self.out);
        Some(command)
    }

    /// Runs a checker; every line of its output with the mark is an error, and so is a failure without one.
    fn count(&self, name: &str, mark: &str, files: usize, command: &mut Command) -> anyhow::Result<Row> {
        say::line(format_args!("Running {name}."));
        let start = Instant::now();
        let output = command.output().with_context(|| format!("{name} could not be started"))?;
        let time = start.elapsed();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        fs::write(self.out.join(report(name)), &text)?;
        let errors = text.lines().filter(|line| line.contains(mark)).count();
        Ok(Row { name: name.to_owned(), files, errors: errors.max(usize::from(!output.status.success())), time })
    }
}

/// Report of a checker, below target/check-stubs.
fn report(name: &str) -> String {
    format!("{}.txt", name.replace(' ', "-"))
}

/// Type checkers, with the mark of an error in their output.
const TYPE_CHECKERS: [(&str, &str); 3] = [("mypy", ": error:"), ("ty", ": error["), ("pyright", " - error:")];
