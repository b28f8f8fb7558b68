//! Which variables of the caller's environment a command gets.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What tells of user, language, time and temporary files; names that begin with `LC_` too.
const KEPT: [&str; 8] = [
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
];
/// Variables by which code is loaded or a shell is changed: never kept, whoever asks.
const NEVER: [&str; 14] = [
    "BASHOPTS",
    "BASH_ENV",
    "BASH_XTRACEFD",
    "CDPATH",
    "ENV",
    "GCONV_PATH",
    "GLOBIGNORE",
    "IFS",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONSTARTUP",
    "SHELLOPTS",
];
const NEVER_BEGINNING: [&str; 3] = ["BASH_FUNC_", "DYLD_", "LD_"];
/// Where programs are looked for when the caller's environment does not say.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables that commands are started with.
#[derive(Debug, Clone)]
pub(super) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Takes from `variables` those that are always kept, and those whose names stand in `also`.
    pub(super) fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        also: &[String],
    ) -> Self {
        let mut kept: Vec<_> = variables
            .into_iter()
            .filter(|(name, _)| is_kept(name, also))
            .collect();
        let path = kept
            .iter()
            .find(|(name, _)| name == "PATH")
            .map(|(_, path)| absolute(path));
        kept.retain(|(name, _)| name != "PATH" && name != "TERM");
        kept.push((
            "PATH".into(),
            path.filter(|path| !path.is_empty())
                .unwrap_or_else(|| PATH.into()),
        ));
        // Nobody sees colours, and nobody turns pages.
        kept.push(("TERM".into(), "dumb".into()));
        Self(kept)
    }

    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

fn is_kept(name: &OsStr, also: &[String]) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    if NEVER.contains(&name)
        || NEVER_BEGINNING
            .iter()
            .any(|beginning| name.starts_with(beginning))
    {
        return false;
    }
    KEPT.contains(&name) || name.starts_with("LC_") || also.iter().any(|kept| kept == name)
}

/// The absolute folders of a path: a program of the working folder is not taken for one of the
/// system.
fn absolute(path: &OsStr) -> OsString {
    let folders: Vec<&[u8]> = path
        .as_bytes()
        .split(|byte| *byte == b':')
        .filter(|folder| folder.starts_with(b"/"))
        .collect();
    OsString::from_vec(folders.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_kept_and_nothing_that_loads_code() {
        let given = [
            ("HOME", "/home/ada"),
            ("LC_TIME", "C"),
            ("PATH", "bin:/usr/bin:.::/bin"),
            ("TERM", "xterm"),
            ("OPENAI_API_KEY", "sk-1"),
            ("PROJECT", "p"),
            ("BASH_ENV", "/tmp/x"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("BASH_FUNC_ls%%", "() { :; }"),
        ];
        let given = given.map(|(name, value)| (name.into(), value.into()));
        let also = [
            "PROJECT".to_owned(),
            "LD_PRELOAD".to_owned(),
            "BASH_ENV".to_owned(),
        ];
        let environment = Environment::new(given, &also);
        let kept: Vec<_> = environment
            .iter()
            .map(|(name, value)| (name.to_str(), value.to_str()))
            .collect();
        let expected = [
            ("HOME", "/home/ada"),
            ("LC_TIME", "C"),
            ("PROJECT", "p"),
            ("PATH", "/usr/bin:/bin"),
            ("TERM", "dumb"),
        ];
        assert_eq!(
            kept,
            expected.map(|(name, value)| (Some(name), Some(value)))
        );
        assert_eq!(
            Environment::new([], &[]).get("PATH"),
            Some(OsStr::new(PATH))
        );
    }
}
