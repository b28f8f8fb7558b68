//! The environment variables of a command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The variables for user, language, time and temporary files. Names with the prefix `LC_` belong
/// to them too.
const ALLOWED: [&str; 8] = [
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
];
/// The variables that load code or change a shell. They are always removed, even if the options
/// name them.
const FORBIDDEN: [&str; 14] = [
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
const FORBIDDEN_PREFIXES: [&str; 3] = ["BASH_FUNC_", "DYLD_", "LD_"];
/// The default of `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The environment variables of commands.
#[derive(Debug, Clone)]
pub(super) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Selects from `variables` the default ones and those with a name in `additional`.
    pub(super) fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        additional: &[String],
    ) -> Self {
        let mut path = None;
        let mut selected = Vec::new();
        for (name, value) in variables {
            if name == "PATH" {
                path.get_or_insert_with(|| absolute_folders(&value));
            } else if name != "TERM" && is_allowed(&name, additional) {
                selected.push((name, value));
            }
        }
        let path = match path {
            Some(path) if !path.is_empty() => path,
            _ => DEFAULT_PATH.into(),
        };
        selected.push(("PATH".into(), path));
        // A dumb terminal turns off colours and pagers.
        selected.push(("TERM".into(), "dumb".into()));
        Self(selected)
    }

    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.0.iter().find(|(candidate, _)| candidate == name)?;
        Some(value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

fn is_allowed(name: &OsStr, additional: &[String]) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    if FORBIDDEN.contains(&name)
        || FORBIDDEN_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
    {
        return false;
    }
    ALLOWED.contains(&name)
        || name.starts_with("LC_")
        || additional.iter().any(|allowed| allowed == name)
}

/// Returns `PATH` with its absolute folders only, so that no program of the working folder runs in
/// place of a system program.
fn absolute_folders(path: &OsStr) -> OsString {
    let mut folders = path
        .as_bytes()
        .split(|byte| *byte == b':')
        .collect::<Vec<_>>();
    folders.retain(|folder| folder.starts_with(b"/"));
    OsString::from_vec(folders.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_has_only_allowed_variables_and_none_that_load_code() {
        let variables = [
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
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let additional = [
            "PROJECT".to_owned(),
            "LD_PRELOAD".to_owned(),
            "BASH_ENV".to_owned(),
        ];
        let environment = Environment::new(variables, &additional);
        let selected: Vec<_> = environment
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
            selected,
            expected.map(|(name, value)| (Some(name), Some(value)))
        );
        assert_eq!(
            Environment::new([], &[]).get("PATH"),
            Some(OsStr::new(DEFAULT_PATH))
        );
    }
}
