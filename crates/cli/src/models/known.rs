//! The models that have a name: their properties, locations and downloads.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::fetch::{self, DownloadLimits, ExpectedFile};
use picktools::embed::{EmbedError, Embedder, StaticEmbedder};
#[cfg(feature = "onnx")]
use picktools_onnx::{FastEmbedder, HubModel};
use picktools_tuned::TunedEmbedder;

/// The built-in static model, a table of token vectors.
pub(in super::super) const STATIC: &str = "static";
/// The tuned model, a small transformer.
pub(in super::super) const TUNED: &str = "tuned";

/// The download limits; the tuned model has 24 MB.
const LIMITS: DownloadLimits = DownloadLimits {
    bytes: 32_000_000,
    time: Duration::from_secs(15 * 60),
};

/// A model with a name.
#[derive(Debug, Clone, Serialize)]
pub(in super::super) struct KnownModel {
    pub(in super::super) name: String,
    pub(in super::super) dimensions: usize,
    /// The size on disk or in the program, if the model is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) licence: Option<&'static str>,
    pub(in super::super) description: String,
    #[serde(flatten)]
    pub(in super::super) place: ModelLocation,
}

/// The location of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "place", rename_all = "snake_case")]
pub(in super::super) enum ModelLocation {
    InProgram,
    OnDisk { path: PathBuf },
    NotHere { remedy: String },
}

/// The outcome of downloading a model.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum PullOutcome {
    InProgram,
    Already(PathBuf),
    Fetched(PathBuf),
}

/// Returns every model that has a name: the built-in ones, then those of fastembed by name.
///
/// `models` is the folder of downloaded models, `hub` the folder of fastembed's downloads.
pub(in super::super) fn models(
    models: Option<&Path>,
    hub: Option<&Path>,
) -> Result<Vec<KnownModel>, EmbedError> {
    let static_model = KnownModel {
        name: STATIC.to_owned(),
        dimensions: StaticEmbedder::shared()?.dimensions(),
        bytes: Some(StaticEmbedder::built_in_size()),
        licence: Some(env!("CARGO_PKG_LICENSE")),
        description: "Token vectors for tools; microseconds per request (default)".to_owned(),
        place: ModelLocation::InProgram,
    };
    let mut all_models = vec![static_model, tuned(models)];
    all_models.extend(fastembed_models(hub));
    Ok(all_models)
}

#[cfg(feature = "onnx")]
fn fastembed_models(hub: Option<&Path>) -> Vec<KnownModel> {
    FastEmbedder::known_models(hub)
        .into_iter()
        .map(hub_model)
        .collect()
}

#[cfg(feature = "onnx")]
fn hub_model(
    HubModel {
        name,
        repository,
        description,
        dimensions,
        fetched,
        ..
    }: HubModel,
) -> KnownModel {
    let sizes = fetched
        .iter()
        .filter_map(|file| std::fs::metadata(file).ok())
        .map(|metadata| metadata.len());
    let bytes = (!fetched.is_empty()).then(|| sizes.sum());
    let place = match fetched.into_iter().next() {
        Some(path) => ModelLocation::OnDisk { path },
        None if cfg!(feature = "onnx-download") => ModelLocation::NotHere {
            remedy: format!("picktools models pull {name}"),
        },
        None => ModelLocation::NotHere {
            remedy: "build with the feature onnx-download".to_owned(),
        },
    };
    KnownModel {
        name,
        dimensions,
        bytes,
        licence: None,
        description: format!("{description} ({repository})"),
        place,
    }
}

#[cfg(not(feature = "onnx"))]
fn fastembed_models(_: Option<&Path>) -> Vec<KnownModel> {
    Vec::new()
}

fn tuned(models: Option<&Path>) -> KnownModel {
    let (bytes, place) = tuned_place(models);
    KnownModel {
        name: TUNED.to_owned(),
        dimensions: 384,
        bytes,
        licence: Some(env!("CARGO_PKG_LICENSE")),
        description:
            "A small transformer trained for tools, in pure Rust; milliseconds per request"
                .to_owned(),
        place,
    }
}

fn tuned_place(models: Option<&Path>) -> (Option<u64>, ModelLocation) {
    if let Some(bytes) = TunedEmbedder::built_in_size() {
        return (Some(bytes), ModelLocation::InProgram);
    }
    if let Some(folder) = models {
        let path = tuned_file(folder);
        if path.is_file() {
            let metadata = fs::metadata(&path).ok();
            let bytes = metadata.map(|metadata| metadata.len());
            return (bytes, ModelLocation::OnDisk { path });
        }
    }
    let remedy = format!("picktools models pull {TUNED} --from URL|FILE");
    (None, ModelLocation::NotHere { remedy })
}

/// Opens the tuned model: the built-in one, or else the downloaded one.
pub(in super::super) fn open_tuned(
    models: Option<&Path>,
) -> Result<std::sync::Arc<TunedEmbedder>, EmbedError> {
    if let Some(model) = TunedEmbedder::shared() {
        return model;
    }
    match tuned_place(models).1 {
        ModelLocation::OnDisk { path } => TunedEmbedder::from_file(path).map(std::sync::Arc::new),
        _ => Err(EmbedError::Load {
            name: TUNED.to_owned(),
            reason: format!(
                "it is neither built in nor downloaded; download it with `picktools models pull \
                 {TUNED} --from URL|FILE`, or pass its file with --model FILE.onnx"
            ),
        }),
    }
}

/// Downloads the tuned model if it is not built in.
///
/// `from` is a URL or a file. Without it the release of this version is used, if the package names
/// a repository.
pub(in super::super) fn pull_tuned(
    models: Option<&Path>,
    from: Option<&str>,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<PullOutcome, EmbedError> {
    if TunedEmbedder::built_in_size().is_some() {
        return Ok(PullOutcome::InProgram);
    }
    let no_folder = || failed("no cache folder found", "pass one with --cache-dir");
    let to = tuned_file(models.ok_or_else(no_folder)?);
    let release = release(env!("CARGO_PKG_REPOSITORY"), env!("CARGO_PKG_VERSION"));
    let expected = ExpectedFile {
        model: TUNED,
        sha256: TunedEmbedder::sha256(),
        to: &to,
    };
    pull_file(&expected, from.or(release.as_deref()), &LIMITS, progress)
}

/// Downloads a file unless an intact copy exists.
fn pull_file(
    expected: &ExpectedFile<'_>,
    from: Option<&str>,
    limits: &DownloadLimits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<PullOutcome, EmbedError> {
    if fetch::sha256(expected.to).is_ok_and(|found| found == expected.sha256) {
        return Ok(PullOutcome::Already(expected.to.to_owned()));
    }
    let no_source = || {
        failed(
            "this program has no download address",
            "pass a URL or a file with --from",
        )
    };
    fetch::fetch(expected, from.ok_or_else(no_source)?, limits, progress)?;
    Ok(PullOutcome::Fetched(expected.to.to_owned()))
}

fn failed(reason: &str, remedy: &str) -> EmbedError {
    EmbedError::Download {
        name: TUNED.to_owned(),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// Returns the path of the downloaded model. Its name differs between versions.
fn tuned_file(models: &Path) -> PathBuf {
    let digest = TunedEmbedder::sha256();
    models.join(format!(
        "{TUNED}-{}.onnx",
        digest.get(..16).unwrap_or(digest)
    ))
}

/// Returns the download address of the model in the release of a version.
fn release(repository: &str, version: &str) -> Option<String> {
    let repository = repository.trim_end_matches('/');
    if repository.is_empty() {
        return None;
    }
    Some(format!(
        "{repository}/releases/download/v{version}/tuned.onnx"
    ))
}

/// Adds the built-in models to the suggestions for an unknown name.
#[cfg(feature = "onnx")]
pub(in super::super) fn with_built_in_names(error: EmbedError) -> EmbedError {
    let EmbedError::UnknownModel {
        name,
        suggestion,
        mut known,
    } = error
    else {
        return error;
    };
    known.splice(0..0, [STATIC, TUNED].map(str::to_owned));
    let suggestion = similar_built_in_name(&name)
        .map(str::to_owned)
        .or(suggestion);
    EmbedError::UnknownModel {
        name,
        suggestion,
        known,
    }
}

/// Returns the name of a built-in model that is similar to `name`.
pub(in super::super) fn similar_built_in_name(name: &str) -> Option<&'static str> {
    [STATIC, TUNED]
        .into_iter()
        .find(|built_in| strsim::jaro_winkler(built_in, &name.to_lowercase()) > 0.8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuned_model_fits_the_download_limits() {
        assert!(TunedEmbedder::built_in_size().is_none_or(|bytes| bytes <= LIMITS.bytes));
    }

    #[test]
    fn tuned_model_has_the_listed_dimensions() {
        if let Some(model) = TunedEmbedder::shared() {
            assert_eq!(
                model.expect("it is valid").dimensions(),
                tuned(None).dimensions
            );
        }
    }

    #[test]
    fn release_address_needs_a_repository() {
        assert_eq!(release("", "1.2.3"), None);
        let address = "https://example.org/it/releases/download/v1.2.3/tuned.onnx";
        assert_eq!(
            release("https://example.org/it/", "1.2.3").as_deref(),
            Some(address)
        );
    }

    #[test]
    fn pull_file_replaces_only_damaged_files() {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let (from, to) = (temporary.path().join("from"), temporary.path().join("to"));
        fs::write(&from, b"hello\n").expect("it can be written");
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let expected = ExpectedFile {
            model: TUNED,
            sha256,
            to: &to,
        };
        let pull = |from| pull_file(&expected, from, &LIMITS, &|_, _| {});
        let from = from.to_str();
        assert_eq!(pull(from).ok(), Some(PullOutcome::Fetched(to.clone())));
        assert_eq!(
            pull(Some("no/such/file")).ok(),
            Some(PullOutcome::Already(to.clone()))
        );
        assert_eq!(pull(None).ok(), Some(PullOutcome::Already(to.clone())));
        fs::write(&to, b"damaged").expect("it can be written");
        let error = pull(None).expect_err("it must come from somewhere");
        assert!(
            error.to_string().contains("with --from") && pull(Some("no/such/file")).is_err(),
            "{error}"
        );
        assert_eq!(pull(from).ok(), Some(PullOutcome::Fetched(to.clone())));
        assert_eq!(fs::read(&to).expect("it can be read"), b"hello\n");
    }

    #[test]
    fn similar_built_in_names_are_suggested() {
        for (name, own) in [
            ("tuend", Some(TUNED)),
            ("Static", Some(STATIC)),
            ("BGESmallENV15", None),
            ("", None),
        ] {
            assert_eq!(similar_built_in_name(name), own, "{name}");
        }
    }
}
