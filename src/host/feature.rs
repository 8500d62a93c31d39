//! What this build lacks, told as a problem. Which features it has is a parameter, because the tests of this crate
//! switch every feature on.

use nervekit_conversation_core::BuildProblem;
use nervekit_harness::ResolveError;

/// The features that decide what a name may stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) demo: bool,
    pub(super) redb: bool,
}

impl Features {
    /// Those of this build.
    pub(super) const BUILT: Self = Self { demo: cfg!(feature = "demo"), redb: cfg!(feature = "redb") };

    /// Why conversations cannot be kept in a home folder, if they cannot.
    pub(super) fn home_problem(self) -> Option<BuildProblem> {
        (!self.redb).then(|| BuildProblem::FeatureOff { name: "a home folder".to_owned(), feature: "redb" })
    }

    /// Why the model that was named so cannot be asked.
    pub(super) fn model_problem(self, name: &str, error: ResolveError) -> BuildProblem {
        match error {
            ResolveError::UnknownProvider { .. } | ResolveError::UnknownModel { .. }
                if !self.demo && matches!(name, "demo" | "demo/demo") =>
            {
                BuildProblem::FeatureOff { name: name.to_owned(), feature: "demo" }
            }
            ResolveError::FeatureOff { provider, feature } => {
                BuildProblem::FeatureOff { name: provider, feature }
            }
            ResolveError::UnknownProvider { name, known } => BuildProblem::UnknownProvider { name, known },
            other => BuildProblem::UnusableModel { model: name.to_owned(), reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use nervekit_harness::ModelSelection;

    use super::*;

    const NONE: Features = Features { demo: false, redb: false };
    const ALL: Features = Features { demo: true, redb: true };

    fn no_provider(name: &str) -> ResolveError {
        ResolveError::UnknownProvider { name: name.to_owned(), known: vec!["openai".to_owned()] }
    }

    #[test]
    fn the_demo_without_its_feature_names_the_feature() {
        let bare = ResolveError::unknown_model(ModelSelection::new("", "demo"), []);
        for problem in
            [NONE.model_problem("demo", bare), NONE.model_problem("demo/demo", no_provider("demo"))]
        {
            assert!(matches!(&problem, BuildProblem::FeatureOff { feature: "demo", .. }), "{problem:?}");
            assert!(problem.to_string().contains("`demo`"), "{problem}");
        }
    }

    #[test]
    fn a_name_that_no_feature_would_help_is_what_it_is() {
        for features in [NONE, ALL] {
            let problem = features.model_problem("opnai/gpt-5", no_provider("opnai"));
            assert!(
                matches!(&problem, BuildProblem::UnknownProvider { name, .. } if name == "opnai"),
                "{problem:?}"
            );
        }
        let problem = ALL.model_problem("demo/demo", no_provider("demo"));
        assert!(matches!(&problem, BuildProblem::UnknownProvider { .. }), "{problem:?}");
    }

    #[test]
    fn a_provider_whose_format_is_not_built_in_names_the_feature() {
        let off = ResolveError::FeatureOff { provider: "openai".to_owned(), feature: "openai-compatible" };
        let problem = ALL.model_problem("openai/gpt-5", off);
        assert!(
            matches!(
                &problem,
                BuildProblem::FeatureOff { name, feature: "openai-compatible" } if name == "openai"
            ),
            "{problem:?}"
        );
    }

    #[test]
    fn a_home_folder_without_its_feature_names_the_feature() {
        let problem = NONE.home_problem();
        assert!(matches!(&problem, Some(BuildProblem::FeatureOff { feature: "redb", .. })), "{problem:?}");
        assert!(ALL.home_problem().is_none());
    }
}
