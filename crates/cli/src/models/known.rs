//! The models that have a name: what they are, where they are, and how they get here.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::fetch::{self, Limits, Wanted};
use picktools::embed::{EmbedError, Embedder, StaticEmbedder};
#[cfg(feature = "onnx")]
use picktools_onnx::{FastEmbedder, HubModel};
use picktools_tuned::TunedEmbedder;

/// The table of token vectors inside the program.
pub(in super::super) const STATIC: &str = "static";
/// The transformer of our own.
pub(in super::super) const TUNED: &str = "tuned";

/// The tuned model has 24 MB.
const LIMITS: Limits = Limits {
    bytes: 32_000_000,
    time: Duration::from_secs(15 * 60),
};

/// A model that can be named.
#[derive(Debug, Clone, Serialize)]
pub(in super::super) struct KnownModel {
    pub(in super::super) name: String,
    pub(in super::super) dimensions: usize,
    /// On disk or in the program, where it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) licence: Option<&'static str>,
    pub(in super::super) description: String,
    #[serde(flatten)]
    pub(in super::super) place: Place,
}

/// Where a model is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "place", rename_all = "snake_case")]
pub(in super::super) enum Place {
    InProgram,
    OnDisk { path: PathBuf },
    NotHere { remedy: String },
}

/// What came of pulling a model.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Pulled {
    InProgram,
    Already(PathBuf),
    Fetched(PathBuf),
}

/// Returns every model that has a name: our own, then those of fastembed by name.
///
/// `models` is the folder of what we fetch, `hub` that of what fastembed does.
pub(in super::super) fn models(
    models: Option<&Path>,
    hub: Option<&Path>,
) -> Result<Vec<KnownModel>, EmbedError> {
    let own = KnownModel {
        name: STATIC.to_owned(),
        dimensions: StaticEmbedder::shared()?.dimensions(),
        bytes: Some(StaticEmbedder::built_in_size()),
        licence: Some(env!("CARGO_PKG_LICENSE")),
        description: "Token vectors for tools; microseconds a request, the default".to_owned(),
        place: Place::InProgram,
    };
    Ok([own, tuned(models)]
        .into_iter()
        .chain(of_fastembed(hub))
        .collect())
}

#[cfg(feature = "onnx")]
fn of_fastembed(hub: Option<&Path>) -> Vec<KnownModel> {
    FastEmbedder::known_models(hub)
        .into_iter()
        .map(of_hub)
        .collect()
}

#[cfg(feature = "onnx")]
fn of_hub(
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
        Some(path) => Place::OnDisk { path },
        None if cfg!(feature = "onnx-download") => Place::NotHere {
            remedy: format!("picktools models pull {name}"),
        },
        None => Place::NotHere {
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
fn of_fastembed(_: Option<&Path>) -> Vec<KnownModel> {
    Vec::new()
}

fn tuned(models: Option<&Path>) -> KnownModel {
    let (bytes, place) = tuned_place(models);
    KnownModel {
        name: TUNED.to_owned(),
        dimensions: 384,
        bytes,
        licence: Some(env!("CARGO_PKG_LICENSE")),
        description: "A small transformer trained for tools, in pure Rust; milliseconds a request"
            .to_owned(),
        place,
    }
}

fn tuned_place(models: Option<&Path>) -> (Option<u64>, Place) {
    if let Some(bytes) = TunedEmbedder::built_in_size() {
        return (Some(bytes), Place::InProgram);
    }
    match models.map(tuned_file).filter(|path| path.is_file()) {
        Some(path) => (
            fs::metadata(&path).ok().map(|metadata| metadata.len()),
            Place::OnDisk { path },
        ),
        None => (
            None,
            Place::NotHere {
                remedy: format!("picktools models pull {TUNED} --from URL|FILE"),
            },
        ),
    }
}

/// Opens the tuned model: that of the program, else the one that was pulled.
pub(in super::super) fn open_tuned(
    models: Option<&Path>,
) -> Result<std::sync::Arc<TunedEmbedder>, EmbedError> {
    if let Some(model) = TunedEmbedder::shared() {
        return model;
    }
    match tuned_place(models).1 {
        Place::OnDisk { path } => TunedEmbedder::from_file(path).map(std::sync::Arc::new),
        _ => Err(EmbedError::Load {
            name: TUNED.to_owned(),
            reason: format!(
                "this program was built without it, and it was not fetched; fetch it with `picktools models pull \
                 {TUNED} --from URL|FILE`, or name its file with --model FILE.onnx"
            ),
        }),
    }
}

/// Gets the tuned model where the program was built without it.
///
/// `from` is a URL or a file; without one the release of this version is asked, where the package
/// tells of any.
pub(in super::super) fn pull_tuned(
    models: Option<&Path>,
    from: Option<&str>,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<Pulled, EmbedError> {
    if TunedEmbedder::built_in_size().is_some() {
        return Ok(Pulled::InProgram);
    }
    let no_folder = || {
        failed(
            "there is no folder to keep it in",
            "name one with --cache-dir",
        )
    };
    let to = tuned_file(models.ok_or_else(no_folder)?);
    let release = release(env!("CARGO_PKG_REPOSITORY"), env!("CARGO_PKG_VERSION"));
    let wanted = Wanted {
        model: TUNED,
        sha256: TunedEmbedder::sha256(),
        to: &to,
    };
    pull_file(&wanted, from.or(release.as_deref()), &LIMITS, progress)
}

/// Fetches a file unless it is there, sound.
fn pull_file(
    wanted: &Wanted<'_>,
    from: Option<&str>,
    limits: &Limits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<Pulled, EmbedError> {
    if fetch::sha256(wanted.to).is_ok_and(|found| found == wanted.sha256) {
        return Ok(Pulled::Already(wanted.to.to_owned()));
    }
    let nowhere = || {
        failed(
            "this program knows of no place to fetch it from",
            "name a URL or a file with --from",
        )
    };
    fetch::fetch(wanted, from.ok_or_else(nowhere)?, limits, progress)?;
    Ok(Pulled::Fetched(wanted.to.to_owned()))
}

fn failed(reason: &str, remedy: &str) -> EmbedError {
    EmbedError::Download {
        name: TUNED.to_owned(),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// Where a pulled model is kept; the name tells versions apart.
fn tuned_file(models: &Path) -> PathBuf {
    let digest = TunedEmbedder::sha256();
    models.join(format!(
        "{TUNED}-{}.onnx",
        digest.get(..16).unwrap_or(digest)
    ))
}

/// Where the release of a version has the model.
fn release(repository: &str, version: &str) -> Option<String> {
    let repository = repository.trim_end_matches('/');
    (!repository.is_empty())
        .then(|| format!("{repository}/releases/download/v{version}/tuned.onnx"))
}

/// Completes what is said of an unknown name by our own models, which may be meant.
#[cfg(feature = "onnx")]
pub(in super::super) fn with_own_names(error: EmbedError) -> EmbedError {
    let EmbedError::UnknownModel {
        name,
        suggestion,
        mut known,
    } = error
    else {
        return error;
    };
    known.splice(0..0, [STATIC, TUNED].map(str::to_owned));
    let suggestion = own_name_like(&name).map(str::to_owned).or(suggestion);
    EmbedError::UnknownModel {
        name,
        suggestion,
        known,
    }
}

/// Returns the name of our own model that was probably meant.
pub(in super::super) fn own_name_like(name: &str) -> Option<&'static str> {
    [STATIC, TUNED]
        .into_iter()
        .find(|own| strsim::jaro_winkler(own, &name.to_lowercase()) > 0.8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tuned_model_is_within_the_limits() {
        assert!(TunedEmbedder::built_in_size().is_none_or(|bytes| bytes <= LIMITS.bytes));
    }

    #[test]
    fn the_facts_of_the_tuned_model_are_true() {
        if let Some(model) = TunedEmbedder::shared() {
            assert_eq!(
                model.expect("it is valid").dimensions(),
                tuned(None).dimensions
            );
        }
    }

    #[test]
    fn a_release_has_an_address_where_the_package_names_a_repository() {
        assert_eq!(release("", "1.2.3"), None);
        let address = "https://example.org/it/releases/download/v1.2.3/tuned.onnx";
        assert_eq!(
            release("https://example.org/it/", "1.2.3").as_deref(),
            Some(address)
        );
    }

    #[test]
    fn a_sound_file_is_not_fetched_again_and_a_damaged_one_is() {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let (from, to) = (temporary.path().join("from"), temporary.path().join("to"));
        fs::write(&from, b"hello\n").expect("it can be written");
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let wanted = Wanted {
            model: TUNED,
            sha256,
            to: &to,
        };
        let pull = |from| pull_file(&wanted, from, &LIMITS, &|_, _| {});
        let from = from.to_str();
        assert_eq!(pull(from).ok(), Some(Pulled::Fetched(to.clone())));
        assert_eq!(
            pull(Some("no/such/file")).ok(),
            Some(Pulled::Already(to.clone()))
        );
        assert_eq!(pull(None).ok(), Some(Pulled::Already(to.clone())));
        fs::write(&to, b"damaged").expect("it can be written");
        let nowhere = pull(None).expect_err("it must come from somewhere");
        assert!(
            nowhere.to_string().contains("with --from") && pull(Some("no/such/file")).is_err(),
            "{nowhere}"
        );
        assert_eq!(pull(from).ok(), Some(Pulled::Fetched(to.clone())));
        assert_eq!(fs::read(&to).expect("it can be read"), b"hello\n");
    }

    #[test]
    fn near_names_of_our_own_are_suggested() {
        for (name, own) in [
            ("tuend", Some(TUNED)),
            ("Static", Some(STATIC)),
            ("BGESmallENV15", None),
            ("", None),
        ] {
            assert_eq!(own_name_like(name), own, "{name}");
        }
    }
}
