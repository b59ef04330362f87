//! Claims that a study cannot judge as it is planned: said before hours are spent.

use std::collections::BTreeMap;

use fsage_analysis::stats::{foresee, planned};
use fsage_lab::study::Study;
use fsage_model::number;

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

/// The claims that each reason concerns.
fn by_reason(unjudged: &BTreeMap<String, String>) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, reason) in unjudged {
        reasons.entry(reason).or_default().push(id);
    }
    reasons
}

/// One line for each reason, with the claims that it concerns.
pub(crate) fn lines(unjudged: &BTreeMap<String, String>) -> Vec<String> {
    by_reason(unjudged)
        .into_iter()
        .map(|(reason, claims)| format!("{}: {reason}", claims.join(", ")))
        .collect()
}

/// The same in few words, before a run: how many claims each reason concerns, and the name of one that stands alone.
pub(crate) fn short_lines(unjudged: &BTreeMap<String, String>) -> Vec<String> {
    let mut reasons: Vec<_> = by_reason(unjudged).into_iter().collect();
    reasons.sort_by_key(|(_, claims)| std::cmp::Reverse(claims.len()));
    let line = |(reason, claims): &(&str, Vec<&str>)| match &claims[..] {
        [one] => format!("{one}: {reason}"),
        more => format!("{} claims: {reason}", more.len()),
    };
    let mut lines: Vec<String> = reasons.iter().take(SHOWN_REASONS).map(line).collect();
    let rest: usize = reasons.iter().skip(SHOWN_REASONS).map(|(_, claims)| claims.len()).sum();
    if rest > 0 {
        lines.push(format!(
            "{} for other reasons",
            number::plural(u64::try_from(rest).unwrap_or(u64::MAX), "claim", "claims")
        ));
    }
    lines
}

/// Reasons shown before a run.
const SHOWN_REASONS: usize = 3;

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
        assert!(found["age-slows-cold-reads"].starts_with("2 of 3 repeats"), "{found:?}");
        let lines = lines(&found);
        assert!(
            lines.len() < found.len() && lines.iter().any(|line| line.ends_with("(`repeats`)")),
            "{lines:?}"
        );
        let short = short_lines(&found);
        assert!(short.len() <= SHOWN_REASONS + 1 && short[0].contains(" claims: "), "{short:?}");
        let counted = short.iter().map(|line| match line.split_once(" claim") {
            Some((count, _)) => count.parse::<usize>().unwrap_or(1),
            None => 1,
        });
        assert_eq!(counted.sum::<usize>(), found.len(), "{short:?}");
        let all = study::load(Path::new("aging"), &Overrides::default(), Consent::Below(None)).unwrap();
        assert!(!unjudged(&all).contains_key("age-slows-cold-reads"));
    }
}
