//! The ranking configurations that an evaluation compares.

use super::super::args::{Model, RankingArgs};
use picktools::options::{DEFAULT_RRF_K, Fusion};
use picktools::{Mode, PickOptions};

/// The configurations that are evaluated on every set.
pub(super) struct Plan {
    /// The models; one engine is built for each.
    pub(super) models: Vec<Model>,
    pub(super) configurations: Vec<RankingConfiguration>,
    /// The configuration of the options, by index.
    pub(super) subject: usize,
    /// The configuration with which the subject is compared per request: keywords, or every signal
    /// if the subject is keywords.
    pub(super) baseline: usize,
    /// The configuration that uses every signal.
    pub(super) full: usize,
    /// The configurations without one of the signals, with their descriptions.
    pub(super) ablations: Vec<(String, usize)>,
}

/// A ranking configuration.
pub(super) struct RankingConfiguration {
    pub(super) name: String,
    /// The index of its model.
    pub(super) model: usize,
    pub(super) options: PickOptions,
}

impl Plan {
    /// Returns a plan with the configuration of the options alone.
    pub(super) fn subject_alone(
        ranking: &RankingArgs,
        options: &PickOptions,
    ) -> anyhow::Result<Self> {
        let model = ranking.open_model()?;
        let configuration =
            RankingConfiguration::new(&model, 0, ranking.mode(), options.fusion, options);
        let (models, configurations) = (vec![model], vec![configuration]);
        Ok(Self {
            models,
            configurations,
            subject: 0,
            baseline: 0,
            full: 0,
            ablations: Vec::new(),
        })
    }

    /// Returns a plan with the configuration of the options and those that it is compared with.
    pub(super) fn comparison(ranking: &RankingArgs, options: &PickOptions) -> anyhow::Result<Self> {
        let models = ranking.open_models()?;
        let mode = ranking.mode();
        let fusion_for = |other: Mode| {
            if other == mode {
                options.fusion
            } else {
                Fusion::Weighted
            }
        };
        let with_model =
            |mode, fusion| RankingConfiguration::new(&models[0], 0, mode, fusion, options);
        let mut configurations = vec![
            with_model(Mode::Keyword, fusion_for(Mode::Keyword)),
            with_model(Mode::Semantic, fusion_for(Mode::Semantic)),
            with_model(Mode::Hybrid, Fusion::Weighted),
            with_model(Mode::Hybrid, Fusion::Rrf { k: DEFAULT_RRF_K }),
        ];
        let [keyword, semantic, hybrid, ranks] = [0, 1, 2, 3];
        let subject = match mode {
            Mode::Keyword => keyword,
            Mode::Semantic => semantic,
            Mode::Hybrid if options.fusion == Fusion::Weighted => hybrid,
            Mode::Hybrid => ranks,
        };
        let mut ablations = vec![
            ("without keywords".to_owned(), semantic),
            ("without semantic similarity".to_owned(), keyword),
            (
                "with rank fusion instead of weighted scores".to_owned(),
                ranks,
            ),
        ];
        if let Some(other) = models.get(1) {
            let modes = [Mode::Semantic, Mode::Hybrid];
            configurations.extend(
                modes.map(|mode| {
                    RankingConfiguration::new(other, 1, mode, Fusion::Weighted, options)
                }),
            );
            let without = format!(
                "without {}, only {} for semantic similarity",
                models[0].name(),
                other.name()
            );
            ablations.push((without, configurations.len() - 1));
        }
        let baseline = if subject == keyword { hybrid } else { keyword };
        Ok(Self {
            models,
            configurations,
            subject,
            baseline,
            full: hybrid,
            ablations,
        })
    }

    pub(super) fn subject(&self) -> &RankingConfiguration {
        &self.configurations[self.subject]
    }
}

impl RankingConfiguration {
    fn new(model: &Model, index: usize, mode: Mode, fusion: Fusion, options: &PickOptions) -> Self {
        let name = match (mode, fusion) {
            (Mode::Keyword, _) => mode.name().to_owned(),
            (Mode::Hybrid, Fusion::Rrf { .. }) => {
                format!("{}, {}, rank fusion", mode.name(), model.name())
            }
            (Mode::Hybrid | Mode::Semantic, _) => format!("{}, {}", mode.name(), model.name()),
        };
        Self {
            name,
            model: index,
            options: PickOptions {
                mode: Some(mode),
                fusion,
                ..options.clone()
            },
        }
    }
}
