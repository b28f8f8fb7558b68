//! The root of the built-in tools: the folder that they never leave.
//!
//! Files are opened relative to the root with `cap-std`, which follows no link and no `..` out of
//! it, even if files change at the same time.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use picktools_runtime::{Context, ErrorType, ToolResult};
use serde_json::{Value, json};

/// The message of a call that was cancelled or reached its deadline.
const STOPPED: &str = "reading was stopped before the end";

/// The root, and the folder in it to which paths of a call are relative.
pub(crate) struct Root {
    pub(crate) dir: Dir,
    path: PathBuf,
    /// The folder of the session, relative to the root.
    folder: PathBuf,
}

/// A regular file that is open for reading.
pub(crate) struct RegularFile {
    /// The path of the file, for the record of files.
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
}

/// The place of a file to write: a folder, which is open, and a name in it.
pub(crate) struct WriteTarget {
    pub(crate) folder: Dir,
    pub(crate) name: OsString,
    /// The path of the file relative to the root, without links.
    pub(crate) relative_path: PathBuf,
    /// The path of the file, for the record of files.
    pub(crate) path: PathBuf,
}

/// A reason for which a file cannot be used.
#[derive(Debug)]
pub(crate) struct FileFailure {
    pub(crate) error_type: ErrorType,
    pub(crate) message: String,
    pub(crate) suggestion: &'static str,
}

impl Root {
    /// Opens the root of a call. Paths are relative to the folder of its session.
    pub(crate) fn open(arguments: &Value, context: &Context) -> Result<Self, FileFailure> {
        let dir = Dir::open_ambient_dir(context.root(), ambient_authority()).map_err(|error| {
            FileFailure::new(
                ErrorType::System,
                format!("the working folder cannot be opened: {error}"),
                "",
            )
        })?;
        Ok(Self {
            dir,
            path: context.root().to_owned(),
            folder: context.folders().get(session_id(arguments)),
        })
    }

    /// Returns a path of a call relative to the root. It may still lead out through links and `..`,
    /// which [`Root::dir`] does not follow.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, FileFailure> {
        let path = Path::new(path);
        let relative_path = match path.is_absolute() {
            true => path
                .strip_prefix(&self.path)
                .map_err(|_| FileFailure::outside())?
                .to_owned(),
            false => self.folder.join(path),
        };
        let is_prefix = |part| matches!(part, Component::Prefix(_) | Component::RootDir);
        if relative_path.components().any(is_prefix) {
            return Err(FileFailure::outside());
        }
        match relative_path.as_os_str().is_empty() {
            true => Ok(PathBuf::from(".")),
            false => Ok(relative_path),
        }
    }

    /// Resolves the links of a path relative to the root. The root itself is an empty path.
    pub(crate) fn resolve(&self, relative_path: &Path) -> io::Result<PathBuf> {
        let resolved_path = self.dir.canonicalize(relative_path)?;
        match resolved_path == Path::new(".") {
            true => Ok(PathBuf::new()),
            false => Ok(resolved_path),
        }
    }

    /// Returns a path relative to the root as a later call of the session can give it: relative to
    /// the folder of the session, or else absolute.
    pub(crate) fn path_for_calls(&self, relative_path: &Path) -> String {
        let path = match relative_path.strip_prefix(&self.folder) {
            Ok(path) => path.to_owned(),
            Err(_) => self.path.join(relative_path),
        };
        match path.to_string_lossy() {
            text if cfg!(windows) => text.replace('\\', "/"),
            text => text.into_owned(),
        }
    }

    /// Opens a regular file for reading. It does not block on other files, such as pipes.
    pub(crate) fn open_file(&self, path: &str) -> Result<RegularFile, FileFailure> {
        self.open_relative(&self.relative(path)?)
    }

    /// Opens a regular file by its path relative to the root.
    pub(crate) fn open_relative(&self, relative_path: &Path) -> Result<RegularFile, FileFailure> {
        let file = self
            .dir
            .open_with(relative_path, &reading_options())
            .map_err(|error| FileFailure::from_io(&error))?
            .into_std();
        let metadata = regular_metadata(&file)?;
        Ok(RegularFile {
            path: self.path.join(relative_path),
            file,
            metadata,
        })
    }

    /// Returns the place of a file to write. Links are resolved, so that the file that a link means
    /// is written.
    pub(crate) fn write_target(&self, path: &str) -> Result<WriteTarget, FileFailure> {
        if path.ends_with(['/', '\\']) {
            return Err(FileFailure::folder());
        }
        let relative_path = self.relative(path)?;
        let resolved_path = match self.resolve(&relative_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.resolve_new(&relative_path)?
            }
            resolved => resolved.map_err(|error| FileFailure::from_io(&error))?,
        };
        self.resolved_target(resolved_path)
    }

    /// Returns the place of a file by its path relative to the root, which has no links.
    pub(crate) fn resolved_target(
        &self,
        relative_path: PathBuf,
    ) -> Result<WriteTarget, FileFailure> {
        let Some(name) = relative_path.file_name() else {
            return Err(FileFailure::folder());
        };
        let folder = match relative_path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = self.dir.open_dir(folder);
        Ok(WriteTarget {
            folder: folder.map_err(|error| FileFailure::from_io(&error))?,
            name: name.to_owned(),
            path: self.path.join(&relative_path),
            relative_path,
        })
    }

    /// Returns the path of a new file without links, and creates its folder.
    fn resolve_new(&self, relative_path: &Path) -> Result<PathBuf, FileFailure> {
        if self.dir.symlink_metadata(relative_path).is_ok() {
            return Err(FileFailure::new(
                ErrorType::User,
                "it is a link to a file that does not exist",
                "Give the path of the file.",
            ));
        }
        let (Some(name), Some(parent)) = (relative_path.file_name(), relative_path.parent()) else {
            return Err(FileFailure::folder());
        };
        if parent.as_os_str().is_empty() {
            return Ok(name.into());
        }
        let created = self.dir.create_dir_all(parent);
        created.map_err(|error| FileFailure::from_write(&error))?;
        let resolved = self.resolve(parent);
        let resolved = resolved.map_err(|error| FileFailure::from_io(&error))?;
        Ok(resolved.join(name))
    }
}

impl WriteTarget {
    /// Opens the file for reading; `None` if it does not exist. The file must be regular, no link,
    /// and writable.
    pub(crate) fn open(&self) -> Result<Option<(File, Metadata)>, FileFailure> {
        match self.folder.symlink_metadata(&self.name) {
            Ok(metadata) if metadata.is_dir() => return Err(FileFailure::folder()),
            Ok(metadata) if !metadata.is_file() => return Err(FileFailure::special()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            checked => checked.map_err(|error| FileFailure::from_io(&error))?,
        };
        let mut options = OpenOptions::new();
        // Opened for writing too, because a rename would replace a file that is read-only.
        options.read(true).write(true);
        #[cfg(unix)]
        {
            let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
            options.custom_flags(flags.bits().cast_signed());
        }
        let file = self
            .folder
            .open_with(&self.name, &options)
            .map_err(|error| FileFailure::from_write(&error))?
            .into_std();
        let metadata = regular_metadata(&file)?;
        Ok(Some((file, metadata)))
    }
}

fn reading_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Returns the metadata of an open file, which must be regular.
fn regular_metadata(file: &File) -> Result<Metadata, FileFailure> {
    let metadata = file
        .metadata()
        .map_err(|error| FileFailure::from_io(&error))?;
    if metadata.is_dir() {
        return Err(FileFailure::folder());
    }
    if !metadata.is_file() {
        return Err(FileFailure::special());
    }
    Ok(metadata)
}

/// Returns the session of a call; `""` if it names none.
pub(crate) fn session_id(arguments: &Value) -> &str {
    arguments["sessionId"].as_str().unwrap_or_default()
}

/// Returns the schema of the argument `sessionId`.
pub(crate) fn session_schema() -> Value {
    json!({
        "type": "string",
        "maxLength": 200,
        "description": "Terminal session, whose working folder `cd` sets",
    })
}

impl FileFailure {
    pub(crate) fn new(
        error_type: ErrorType,
        message: impl Into<String>,
        suggestion: &'static str,
    ) -> Self {
        Self {
            error_type,
            message: message.into(),
            suggestion,
        }
    }

    pub(crate) fn outside() -> Self {
        Self::new(
            ErrorType::Security,
            "it is outside the working folder",
            "Give a path within the working folder.",
        )
    }

    pub(crate) fn folder() -> Self {
        Self::new(
            ErrorType::User,
            "it is a folder",
            "Give the paths of files.",
        )
    }

    fn special() -> Self {
        Self::new(
            ErrorType::User,
            "it is not a regular file",
            "Give the paths of files.",
        )
    }

    pub(crate) fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::new(
                ErrorType::User,
                "there is no such file",
                "Check the path, and try again.",
            ),
            // `cap-std` returns an error without a code for a path that leads out of the folder.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => Self::outside(),
            io::ErrorKind::PermissionDenied => Self::new(
                ErrorType::Permission,
                "permission denied",
                "Give the path of a file that you may use.",
            ),
            io::ErrorKind::Interrupted | io::ErrorKind::TimedOut => {
                Self::new(ErrorType::System, STOPPED, "Read less at once.")
            }
            _ => Self::new(
                ErrorType::User,
                format!("it cannot be read: {error}"),
                "Check the path, and try again.",
            ),
        }
    }

    pub(crate) fn from_write(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied => Self::from_io(error),
            _ => Self::new(
                ErrorType::System,
                format!("it cannot be written: {error}"),
                "",
            ),
        }
    }

    /// Returns the failure of a call that was cancelled or reached its deadline.
    pub(crate) fn stopped() -> Self {
        Self::from_io(&io::ErrorKind::TimedOut.into())
    }

    /// Makes the result of a call that failed at a path.
    pub(crate) fn into_result(self, path: &str) -> ToolResult {
        let message = match path.is_empty() {
            true => self.message,
            false => format!("{path}: {}", self.message),
        };
        let result = ToolResult::failure(self.error_type, message);
        match self.suggestion.is_empty() {
            true => result,
            false => result.suggest(self.suggestion),
        }
    }
}

/// Resolves the `.` and `..` of a path as text.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            // The parent of `/` is `/`.
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}
