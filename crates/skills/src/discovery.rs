//! Finding skills below a folder: bounded in depth, number and size, links followed but never round
//! and round.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use picktools::skills::Skill;

use crate::{SkillError, front_matter};

/// The file that makes a folder a skill.
const FILE_NAME: &str = "SKILL.md";
/// Folders that hold no skills and may be large.
const PASSED_OVER: [&str; 2] = [".git", "node_modules"];
/// How far below the folder a file may stand.
const MAX_DEPTH: usize = 8;
/// The most files and folders that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// The most skills that are read.
const MAX_SKILLS: usize = 1_000;
/// The most bytes of a file.
const MAX_BYTES: u64 = 256 * 1024;

/// What was found below a folder of skills.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkillFolder {
    /// The skills, in the order of their paths.
    pub skills: Vec<Skill>,
    /// What could not be read or used, and skills whose folders have other names, which the
    /// specification forbids and nothing here needs. None of it stands in the way of the others.
    pub errors: Vec<SkillError>,
}

impl SkillFolder {
    /// Reads every `SKILL.md` below a folder, the folder's own as well.
    ///
    /// Symbolic links are followed. What lies more than 8 levels deep, or in `.git` and
    /// `node_modules`, is not looked at, nor are more than 20,000 files and folders; at most 1,000
    /// skills of at most 256 KiB each are read. Of skills with one name the first counts.
    ///
    /// # Errors
    ///
    /// [`SkillError::Read`] when the folder cannot be read, and [`SkillError::NoSkills`] when there
    /// is no `SKILL.md` in it. Faults of single files stand in [`SkillFolder::errors`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, SkillError> {
        let folder = folder.as_ref();
        fs::read_dir(folder).map_err(|source| SkillError::Read {
            path: folder.to_owned(),
            source,
        })?;
        let (files, mut errors) = files(folder);
        if files.is_empty() {
            let none = SkillError::NoSkills {
                path: folder.to_owned(),
            };
            // What was in the way says more than that there is nothing.
            return Err(errors.into_iter().next().unwrap_or(none));
        }
        let mut skills: Vec<Skill> = Vec::new();
        let mut known: HashMap<String, PathBuf> = HashMap::new();
        for file in files {
            match read(folder, &file) {
                Ok(skill) => match known.get(&skill.name) {
                    Some(first) => {
                        errors.push(SkillError::Duplicate {
                            path: file,
                            name: skill.name,
                            first: first.clone(),
                        });
                    }
                    None => {
                        errors.extend(misnamed(folder, &file, &skill.name));
                        known.insert(skill.name.clone(), file);
                        skills.push(skill);
                    }
                },
                Err(error) => errors.push(error),
            }
        }
        Ok(Self { skills, errors })
    }
}

/// Finds the files, in the order of their paths, with what was in the way.
fn files(folder: &Path) -> (Vec<PathBuf>, Vec<SkillError>) {
    let mut files = Vec::new();
    let mut errors = Vec::new();
    let mut too_deep = None;
    let walk = WalkDir::new(folder)
        .follow_links(true)
        .max_depth(MAX_DEPTH)
        .sort_by_file_name();
    for (count, entry) in walk.into_iter().filter_entry(is_looked_at).enumerate() {
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
            Err(error) => errors.push(in_the_way(folder, error)),
        }
    }
    errors.extend(too_deep.map(|path| SkillError::TooDeep {
        path,
        limit: MAX_DEPTH,
    }));
    (files, errors)
}

fn is_looked_at(entry: &DirEntry) -> bool {
    entry.depth() == 0 || !PASSED_OVER.iter().any(|name| entry.file_name() == *name)
}

fn in_the_way(folder: &Path, error: walkdir::Error) -> SkillError {
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

fn read(folder: &Path, path: &Path) -> Result<Skill, SkillError> {
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
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(SkillError::NotUtf8 {
            path: path.to_owned(),
        });
    };
    let skill = front_matter::read(&text).map_err(|faults| SkillError::Invalid {
        path: path.to_owned(),
        faults,
    })?;
    Ok(Skill {
        path: with_slashes(path.strip_prefix(folder).unwrap_or(path)),
        ..skill
    })
}

/// A skill's folder should have the skill's name; the folder that was searched may be called
/// anything.
fn misnamed(folder: &Path, path: &Path, name: &str) -> Option<SkillError> {
    let parent = path.parent().filter(|parent| *parent != folder)?;
    let is_other = parent
        .file_name()
        .is_some_and(|of_folder| of_folder != name);
    is_other.then(|| SkillError::Misnamed {
        path: path.to_owned(),
        name: name.to_owned(),
    })
}

/// Writes a path the same way everywhere.
pub(super) fn with_slashes(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}
