//! Resolves `$ref`s: inside the document, or in files of its folder. Nothing is fetched.

use std::collections::BTreeMap;
use std::path::Path;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::document::{self, Document};
use base::limits;
use base::text::brief;
use base::tree::Tree;

/// Longest chain of `$ref`s to `$ref`s.
const MAX_CHAIN: usize = 32;

/// A place in one of the files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) pointer: String,
}

/// The document and the files beside it.
pub(super) struct Refs<'d> {
    root: &'d Value,
    /// Other files, from number 1 on.
    others: Vec<Value>,
    /// Folder of each file below that of the document, without `/` at its end.
    folders: Vec<String>,
    /// Number of each file by its path, or the reason why it is not read.
    numbers: BTreeMap<String, Result<usize, String>>,
    _rooms: Vec<base::memory::Reservation>,
}

impl<'d> Refs<'d> {
    /// Reads the files that the document names, and those that they name. `folder` is the document's, if it is a file.
    pub(super) fn of(document: &'d Document, folder: Option<&Path>) -> Self {
        let mut refs = Self {
            root: &document.root,
            others: Vec::new(),
            folders: vec![String::new()],
            numbers: BTreeMap::new(),
            _rooms: Vec::new(),
        };
        let mut wanted = Vec::new();
        files(&document.root, 0, &mut wanted);
        let tree = folder.map(Tree::open);
        let mut left = limits::OPENAPI_DOCUMENT.max;
        while let Some((file, name)) = wanted.pop() {
            let Ok(path) = refs.path(file, &name) else { continue };
            if refs.numbers.contains_key(&path) {
                continue;
            }
            let read = match &tree {
                None => Err("only a document that is a file has files beside it".to_owned()),
                Some(Err(error)) => Err(format!("its folder is not read: {error}")),
                Some(Ok(_)) if refs.others.len() >= limits::OPENAPI_FILES.max => {
                    Err(format!("it is one file more than {}", limits::OPENAPI_FILES.max))
                }
                Some(Ok(tree)) => tree.read(&path, left as u64).map_err(|error| error.to_string()),
            };
            let number = read.and_then(|bytes| {
                left -= bytes.len().min(left);
                let (value, room) = document::values(&bytes).map_err(|error| error.message)?;
                refs.others.push(value);
                refs._rooms.push(room);
                refs.folders.push(path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned());
                Ok(refs.others.len())
            });
            if let Ok(number) = number
                && let Some(value) = refs.others.get(number - 1)
            {
                files(value, number, &mut wanted);
            }
            refs.numbers.insert(path, number);
        }
        refs
    }

    /// The place that `reference` in `file` names.
    ///
    /// # Errors
    /// Why it is not followed.
    pub(super) fn place(&self, file: usize, reference: &str) -> Result<Place, String> {
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let refused = |why: &str| format!("`$ref` to `{}` is not followed: {why}", brief(reference));
        let file = match name {
            "" => file,
            name => {
                let path = self.path(file, name).map_err(refused)?;
                match self.numbers.get(&path) {
                    Some(Ok(number)) => *number,
                    Some(Err(why)) => return Err(refused(why)),
                    None => return Err(refused("its file was not read")),
                }
            }
        };
        let pointer = percent_decode_str(fragment).decode_utf8().map_err(|_| refused("it is not UTF-8 text"))?;
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(refused("it is no JSON pointer such as `#/components/schemas/Pet`"));
        }
        Ok(Place { file, pointer: pointer.into_owned() })
    }

    /// The value at a place.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn value(&self, place: &Place) -> Result<&Value, String> {
        let root = if place.file == 0 { Some(self.root) } else { self.others.get(place.file - 1) };
        let value = root.and_then(|root| root.pointer(&place.pointer));
        value.ok_or_else(|| format!("`$ref` to `#{}` leads to nothing", brief(&place.pointer)))
    }

    /// Follows `$ref`s from a value in `file` to one that is none, with its file.
    ///
    /// # Errors
    /// One leads nowhere, or in a circle.
    pub(super) fn follow<'v>(&'v self, mut file: usize, mut value: &'v Value) -> Result<(usize, &'v Value), String> {
        for _ in 0..MAX_CHAIN {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok((file, value)) };
            let place = self.place(file, reference)?;
            (file, value) = (place.file, self.value(&place)?);
        }
        let last = value.get("$ref").and_then(Value::as_str).unwrap_or_default();
        Err(format!("`$ref` to `{}` leads in a circle, or through more than {MAX_CHAIN} others", brief(last)))
    }

    /// Path below the document's folder of the file `name`, as a file beside it names it.
    fn path(&self, from: usize, name: &str) -> Result<String, &'static str> {
        if name.contains("://")
            || name.starts_with("//")
            || name.split('/').next().is_some_and(|first| first.contains(':'))
        {
            return Err("it is elsewhere, and nothing is fetched; save it below the document's folder");
        }
        let name = percent_decode_str(name).decode_utf8().map_err(|_| "it is not UTF-8 text")?;
        if name.starts_with('/') || name.contains(['\\', '\0', '?']) {
            return Err("it is no relative path");
        }
        let parts: Vec<&str> = name.split('/').filter(|part| *part != ".").collect();
        if parts.iter().any(|part| *part == ".." || part.is_empty()) {
            return Err("`..` is not followed; only files below the document's folder are read");
        }
        let folder = self.folders.get(from).map_or("", String::as_str);
        Ok(if folder.is_empty() { parts.join("/") } else { format!("{folder}/{}", parts.join("/")) })
    }
}

/// Finds the files that the `$ref`s in a value name.
fn files(value: &Value, file: usize, found: &mut Vec<(usize, String)>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                match reference.split_once('#').map_or(reference.as_str(), |(name, _)| name) {
                    "" => {}
                    name => found.push((file, name.to_owned())),
                }
            }
            fields.values().for_each(|value| files(value, file, found));
        }
        Value::Array(items) => items.iter().for_each(|item| files(item, file, found)),
        _ => {}
    }
}
