//! Claims that a study cannot judge as it is planned: said before hours are spent.

use std::collections::BTreeMap;

use fsage_analysis::stats::{foresee, planned};
use fsage_lab::study::Study;

/// Ids of the claims that cannot be judged, and why.
pub(crate) fn unjudged(study: &Study) -> BTreeMap<String, String> {
    let claims = &study.spec.claim;
    if claims.iter().all(|claim| claim.clauses().next().is_none()) {
        return BTreeMap::new();
    }
    let trials: Vec<_> = study
        .cells
        .iter()
        // Controls are about the study's numbers and judge no claim.
        .filter(|cell| cell.spec.control.is_none())
        .flat_map(|cell| {
            let spec = serde_json::to_value(&cell.spec).unwrap_or_default();
            planned(&cell.factors, &spec, study.spec.repeats)
        })
        .collect();
    let reason = |claim: &fsage_model::study::ClaimSpec| {
        let values = claim.each.as_ref().and_then(|path| study.spec.matrix.get(path));
        foresee(claim, values.map(Vec::as_slice).unwrap_or_default(), &trials)
    };
    claims.iter().filter_map(|claim| Some((claim.id.clone(), reason(claim)?))).collect()
}

/// One line for each reason, with the claims that it concerns.
pub(crate) fn lines(unjudged: &BTreeMap<String, String>) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, reason) in unjudged {
        reasons.entry(reason).or_default().push(id);
    }
    reasons.into_iter().map(|(reason, claims)| format!("{}: {reason}", claims.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fsage_lab::study::{self, Consent, Overrides};

    use super::*;

    #[test]
    fn the_quick_study_says_which_claims_it_cannot_judge() {
        let overrides = Overrides { preset: Some("hdd".to_owned()), set: vec!["repeats=2".to_owned()] };
        let study = study::load(Path::new("aging"), &overrides, Consent::Below(None)).unwrap();
        let found = unjudged(&study);
        assert!(found["age-slows-cold-reads"].starts_with("2 repeats of the 3"), "{found:?}");
        let lines = lines(&found);
        assert!(
            lines.len() < found.len() && lines.iter().any(|line| line.ends_with("(`repeats`)")),
            "{lines:?}"
        );
        let all = study::load(Path::new("aging"), &Overrides::default(), Consent::Below(None)).unwrap();
        assert!(!unjudged(&all).contains_key("age-slows-cold-reads"));
    }
}
