//! Which ways of ranking are evaluated.

use super::super::args::{Model, RankingArgs};
use picktools::options::{DEFAULT_RRF_K, Fusion};
use picktools::{Mode, PickOptions};

/// What is evaluated on every set.
pub(super) struct Plan {
    /// One engine is built for each.
    pub(super) models: Vec<Model>,
    pub(super) configurations: Vec<Configuration>,
    /// The configuration that the options name.
    pub(super) subject: usize,
    /// What the subject is held against, request by request: keywords alone, or what uses every
    /// signal where the subject itself is keywords alone.
    pub(super) baseline: usize,
    /// The configuration that uses every signal.
    pub(super) whole: usize,
    /// What can be taken away from it, and the configuration that is left.
    pub(super) ablations: Vec<(String, usize)>,
}

/// A way of ranking.
pub(super) struct Configuration {
    pub(super) name: String,
    /// Its place among the models.
    pub(super) model: usize,
    pub(super) options: PickOptions,
}

impl Plan {
    /// The configuration that the options name, and no other.
    pub(super) fn subject_alone(
        ranking: &RankingArgs,
        options: &PickOptions,
    ) -> anyhow::Result<Self> {
        let model = ranking.open_model()?;
        let configuration = Configuration::new(&model, 0, ranking.mode(), options.fusion, options);
        let (models, configurations) = (vec![model], vec![configuration]);
        Ok(Self {
            models,
            configurations,
            subject: 0,
            baseline: 0,
            whole: 0,
            ablations: Vec::new(),
        })
    }

    /// The configuration that the options name, and what it is compared with.
    pub(super) fn comparison(ranking: &RankingArgs, options: &PickOptions) -> anyhow::Result<Self> {
        let models = ranking.open_models()?;
        let mode = ranking.mode();
        let fusion_of = |of: Mode| {
            if of == mode {
                options.fusion
            } else {
                Fusion::Weighted
            }
        };
        let own = |mode, fusion| Configuration::new(&models[0], 0, mode, fusion, options);
        let mut configurations = vec![
            own(Mode::Keyword, fusion_of(Mode::Keyword)),
            own(Mode::Semantic, fusion_of(Mode::Semantic)),
            own(Mode::Hybrid, Fusion::Weighted),
            own(Mode::Hybrid, Fusion::Rrf { k: DEFAULT_RRF_K }),
        ];
        let [keyword, semantic, hybrid, ranks] = [0, 1, 2, 3];
        let subject = match mode {
            Mode::Keyword => keyword,
            Mode::Semantic => semantic,
            Mode::Hybrid if options.fusion == Fusion::Weighted => hybrid,
            Mode::Hybrid => ranks,
        };
        let mut ablations = vec![
            ("without words".to_owned(), semantic),
            ("without meaning".to_owned(), keyword),
            ("with ranks in place of weighted scores".to_owned(), ranks),
        ];
        if let Some(other) = models.get(1) {
            let modes = [Mode::Semantic, Mode::Hybrid];
            configurations.extend(
                modes.map(|mode| Configuration::new(other, 1, mode, Fusion::Weighted, options)),
            );
            let without = format!(
                "without {}, {} alone for meaning",
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
            whole: hybrid,
            ablations,
        })
    }

    pub(super) fn subject(&self) -> &Configuration {
        &self.configurations[self.subject]
    }
}

impl Configuration {
    fn new(model: &Model, place: usize, mode: Mode, fusion: Fusion, options: &PickOptions) -> Self {
        let name = match (mode, fusion) {
            (Mode::Keyword, _) => mode.name().to_owned(),
            (Mode::Hybrid, Fusion::Rrf { .. }) => {
                format!("{}, {}, rank fusion", mode.name(), model.name())
            }
            (Mode::Hybrid | Mode::Semantic, _) => format!("{}, {}", mode.name(), model.name()),
        };
        Self {
            name,
            model: place,
            options: PickOptions {
                mode: Some(mode),
                fusion,
                ..options.clone()
            },
        }
    }
}
