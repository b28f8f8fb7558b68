//! Environment variables that make a program run other code than its own.

use std::collections::BTreeMap;

/// The names of such variables, in capital letters.
const NAMES: [&str; 34] = [
    "BASH_ENV",
    "BUN_OPTIONS",
    "CLASSPATH",
    "COMSPEC",
    "CORECLR_PROFILER_PATH",
    "DENO_DIR",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ENV",
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LUA_INIT",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NPM_CONFIG_REGISTRY",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PHPRC",
    "PIP_INDEX_URL",
    "RUBYLIB",
    "RUBYOPT",
    "SSH_ASKPASS",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "VISUAL",
    "_JAVA_OPTIONS",
];
/// The beginnings of the names of such variables, in capital letters.
const PREFIXES: [&str; 4] = ["DYLD_", "GIT_CONFIG_", "LD_", "PYTHON"];
/// Names with such a beginning that run nothing.
const HARMLESS: [&str; 5] = [
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
];

/// Returns the variables that make a server's program run other code: those that are set with their
/// values, and those that it inherits without.
pub(super) fn code_variables(
    variables: &BTreeMap<String, String>,
    inherit: &[String],
) -> BTreeMap<String, Option<String>> {
    let inherited = inherit.iter().map(|name| (name, None));
    let set = variables
        .iter()
        .map(|(name, value)| (name, Some(value.clone())));
    inherited
        .chain(set)
        .filter(|(name, _)| runs_code(name))
        .map(|(name, value)| (name.clone(), value))
        .collect()
}

/// Returns `true` if a variable makes programs run code, or load it from another place.
fn runs_code(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has_prefix = || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    NAMES.contains(&name.as_str()) || has_prefix() && !HARMLESS.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_run_code_are_recognised() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "node_options",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PYTHONHOME",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "BASH_ENV",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "PATH",
        ] {
            assert!(runs_code(name), "{name}");
        }
        for name in ["API_KEY", "PYTHONUNBUFFERED", "HOME", "LDAP_URL", "PATHS"] {
            assert!(!runs_code(name), "{name}");
        }
    }
}
