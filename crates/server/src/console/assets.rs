//! The page: files of the executable, which need no token and tell nothing.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};

use super::PAGE;
use super::reply::{self, Refusal, Reply};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        [$(($name, $kind, include_bytes!(concat!("web/", $name)).as_slice())),*]
    };
}

/// The files, by name below the page.
const FILES: &[(&str, &str, &[u8])] = &files![
    "index.html" HTML,
    "style.css" CSS,
    "add.js" SCRIPT,
    "api.js" SCRIPT,
    "approvals.js" SCRIPT,
    "catalog.js" SCRIPT,
    "code.js" SCRIPT,
    "drift.js" SCRIPT,
    "form.js" SCRIPT,
    "logins.js" SCRIPT,
    "main.js" SCRIPT,
    "now.js" SCRIPT,
    "run.js" SCRIPT,
    "runs.js" SCRIPT,
    "script.js" SCRIPT,
    "search.js" SCRIPT,
    "spending.js" SCRIPT,
    "text.js" SCRIPT,
    "timeline.js" SCRIPT,
    "tool.js" SCRIPT,
    "ui.js" SCRIPT,
    "vendor/hooks.js" SCRIPT,
    "vendor/htm.js" SCRIPT,
    "vendor/preact.js" SCRIPT,
    "vendor/uplot.css" CSS,
    "vendor/uplot.js" SCRIPT,
];

/// Answers a request for a file.
pub(super) fn answer(method: &Method, path: &str) -> Reply {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Refusal::method().reply(|object| object);
    }
    let name = match path.strip_prefix(PAGE).unwrap_or_default() {
        "" => {
            let mut moved = reply::with_headers(Full::default().boxed(), HTML);
            *moved.status_mut() = StatusCode::PERMANENT_REDIRECT;
            moved.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/console/"));
            return moved;
        }
        "/" => "index.html",
        name => name.trim_start_matches('/'),
    };
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, bytes)) => reply::with_headers(Full::new(Bytes::from_static(bytes)).boxed(), kind),
        None => {
            let refusal = Refusal::new(StatusCode::NOT_FOUND, "there is no such file", "the page is at /console/");
            refusal.reply(|object| object)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_each_of_its_files_is_in_the_table() {
        let bytes: usize = FILES.iter().map(|(_, _, bytes)| bytes.len()).sum();
        assert!(bytes <= 260_000, "{bytes} bytes");
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/web");
        let of = |folder: &std::path::Path, before: &str| -> Vec<String> {
            let files = std::fs::read_dir(folder).expect("a folder").flatten();
            let names = files.filter(|file| file.path().is_file()).map(|file| file.file_name());
            names
                .map(|name| format!("{before}{}", name.to_string_lossy()))
                .filter(|name| !name.ends_with(".md"))
                .collect()
        };
        let mut files = of(&folder, "");
        files.extend(of(&folder.join("vendor"), "vendor/"));
        files.sort();
        let mut table: Vec<&str> = FILES.iter().map(|(name, ..)| *name).collect();
        table.sort_unstable();
        assert_eq!(files, table);
    }
}
