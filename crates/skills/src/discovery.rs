//! The search for skills below a folder: limited in depth, number and size. Symbolic links are
//! followed, but cycles are not.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use picktools::skills::Skill;

use crate::SkillError;
use crate::front_matter::{self, ParsedSkill};

/// The name of a skill's file.
const FILE_NAME: &str = "SKILL.md";
/// Folders that are skipped: they have no skills and may be large.
const SKIPPED_FOLDERS: [&str; 2] = [".git", "node_modules"];
/// The largest depth of a file below the folder.
const MAX_DEPTH: usize = 8;
/// The largest number of visited files and folders.
const MAX_ENTRIES: usize = 400_000;
/// The largest number of skills.
const MAX_SKILLS: usize = 20_000;
/// The largest size of a file, in bytes.
const MAX_BYTES: u64 = 256 * 1024;
/// The largest size of all files together, in bytes.
const MAX_TOTAL_BYTES: usize = 256 * 1024 * 1024;

/// The result of the search below a folder of skills.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkillFolder {
    /// The skills, in the order of their paths.
    pub skills: Vec<Skill>,
    /// Files that cannot be read or are not valid. An error does not affect other skills. Some are
    /// warnings about skills that work ([`SkillError::is_warning`]): their folders have other names,
    /// or their front matter is not valid YAML.
    pub errors: Vec<SkillError>,
}

impl SkillFolder {
    /// Reads every `SKILL.md` in a folder and below it.
    ///
    /// Symbolic links are followed. Files more than 8 levels deep and the folders `.git` and
    /// `node_modules` are skipped. At most 400,000 files and folders are visited. At most 20,000 skills
    /// of at most 256 KiB each, and of 256 MiB together, are read. If two skills have one name, the first is used.
    ///
    /// # Errors
    ///
    /// [`SkillError::Read`] if the folder cannot be read, and [`SkillError::NoSkills`] if it has no
    /// `SKILL.md`. Errors of single files are in [`SkillFolder::errors`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, SkillError> {
        let folder = folder.as_ref();
        fs::read_dir(folder).map_err(|source| SkillError::Read {
            path: folder.to_owned(),
            source,
        })?;
        let (files, mut errors) = find_files(folder);
        if files.is_empty() {
            let no_skills = SkillError::NoSkills {
                path: folder.to_owned(),
            };
            // An obstacle explains more than the absence of skills.
            return Err(errors.into_iter().next().unwrap_or(no_skills));
        }
        let mut skills: Vec<Skill> = Vec::new();
        let mut files_by_name: HashMap<String, PathBuf> = HashMap::new();
        let mut bytes_left = MAX_TOTAL_BYTES;
        for file in files {
            let text = match read_text(&file) {
                Ok(text) => text,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let Some(bytes) = bytes_left.checked_sub(text.len()) else {
                errors.push(SkillError::TooMany {
                    path: folder.to_owned(),
                    what: "bytes of skills",
                    limit: MAX_TOTAL_BYTES,
                });
                break;
            };
            bytes_left = bytes;
            let ParsedSkill { skill, warnings } = match parse_skill(folder, &file, &text) {
                Ok(parsed) => parsed,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            if let Some(first) = files_by_name.get(&skill.name) {
                errors.push(SkillError::Duplicate {
                    path: file,
                    name: skill.name,
                    first: first.clone(),
                });
                continue;
            }
            if !warnings.is_empty() {
                errors.push(SkillError::NotYaml {
                    path: file.clone(),
                    warnings,
                });
            }
            errors.extend(check_folder_name(folder, &file, &skill.name));
            files_by_name.insert(skill.name.clone(), file);
            skills.push(skill);
        }
        Ok(Self { skills, errors })
    }
}

/// Finds the files, in the order of their paths, with the errors of the search.
fn find_files(folder: &Path) -> (Vec<PathBuf>, Vec<SkillError>) {
    let mut files = Vec::new();
    let mut errors = Vec::new();
    let mut too_deep = None;
    let walk = WalkDir::new(folder)
        .follow_links(true)
        .max_depth(MAX_DEPTH)
        .sort_by_file_name();
    for (count, entry) in walk.into_iter().filter_entry(is_visited).enumerate() {
        if count == MAX_ENTRIES {
            errors.push(SkillError::TooMany {
                path: folder.to_owned(),
                what: "files and folders",
                limit: MAX_ENTRIES,
            });
            break;
        }
        match entry {
            Ok(entry) if entry.file_type().is_dir() && entry.depth() == MAX_DEPTH => {
                too_deep.get_or_insert_with(|| entry.into_path());
            }
            Ok(entry) if entry.file_type().is_file() && entry.file_name() == FILE_NAME => {
                if files.len() == MAX_SKILLS {
                    errors.push(SkillError::TooMany {
                        path: folder.to_owned(),
                        what: "skills",
                        limit: MAX_SKILLS,
                    });
                    break;
                }
                files.push(entry.into_path());
            }
            Ok(_) => {}
            Err(error) => errors.push(search_error(folder, error)),
        }
    }
    if let Some(path) = too_deep {
        errors.push(SkillError::TooDeep {
            path,
            limit: MAX_DEPTH,
        });
    }
    (files, errors)
}

fn is_visited(entry: &DirEntry) -> bool {
    let is_skipped = SKIPPED_FOLDERS
        .iter()
        .any(|name| entry.file_name() == *name);
    entry.depth() == 0 || !is_skipped
}

fn search_error(folder: &Path, error: walkdir::Error) -> SkillError {
    let path = error.path().unwrap_or(folder).to_owned();
    match error.loop_ancestor() {
        Some(ancestor) => SkillError::Loop {
            path,
            ancestor: ancestor.to_owned(),
        },
        None => SkillError::Read {
            path,
            source: error.into(),
        },
    }
}

/// Reads a file within the limits.
fn read_text(path: &Path) -> Result<String, SkillError> {
    let failed = |source| SkillError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(failed)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SkillError::TooLarge {
            path: path.to_owned(),
            limit: MAX_BYTES,
        });
    }
    String::from_utf8(bytes).map_err(|_| SkillError::NotUtf8 {
        path: path.to_owned(),
    })
}

/// Parses the text of a file in the searched folder.
fn parse_skill(folder: &Path, path: &Path, text: &str) -> Result<ParsedSkill, SkillError> {
    let mut parsed = front_matter::parse(text).map_err(|faults| SkillError::Invalid {
        path: path.to_owned(),
        faults,
    })?;
    parsed.skill.path = with_slashes(path.strip_prefix(folder).unwrap_or(path));
    Ok(parsed)
}

/// Reports a skill whose folder has another name. The searched folder itself may have any name.
fn check_folder_name(folder: &Path, path: &Path, name: &str) -> Option<SkillError> {
    let parent = path.parent()?;
    if parent == folder || parent.file_name()? == name {
        return None;
    }
    Some(SkillError::Misnamed {
        path: path.to_owned(),
        name: name.to_owned(),
    })
}

/// Formats a path with slashes, which is the same on every platform.
pub(super) fn with_slashes(path: &Path) -> String {
    let mut parts = Vec::new();
    for part in path.components() {
        parts.push(part.as_os_str().to_string_lossy());
    }
    parts.join("/")
}
