//! What a search found: which options to use, what each gives, and whether fresh runs confirm it.

use fsage_model::search::{Confirmation, Fate, Gain, Method, Verdict};
use serde::Serialize;

use crate::report::search::Searched;
use crate::report::text::{counted, percent};

/// What the search on one cell found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// The file system and the device, whose model is named where it is one.
    pub place: String,
    /// `evidence` or `greedy`.
    pub method: &'static str,
    /// Runs that were done.
    pub runs: usize,
    /// Runs, at most.
    pub budget: usize,
    /// The search is over.
    pub is_over: bool,
    /// The smallest gain that matters, as a share.
    pub least_gain: f64,
    /// Standard deviation of one run, as a share, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Times are by a virtual disk's clock.
    pub is_model: bool,
    /// Options to use, which fresh runs confirm; none: the default is not beaten, or the search is not over.
    pub recommended: Vec<String>,
    /// Options that gained in the search, and that no fresh runs confirm: too few were left, or the search is greedy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
    /// The recommended options together against the default, on runs that had no part in choosing them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmed>,
    /// Each option, the largest gain first.
    pub options: Vec<OptionGain>,
    /// Options that were left out, because they failed by themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// The chosen options against the default, on fresh runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confirmed {
    /// `confirmed`, `not-confirmed` or `too-few`.
    pub verdict: Verdict,
    /// Pairs of fresh runs.
    pub pairs: usize,
    /// The gain that they show, as a share.
    pub gain: f64,
    /// Lower end of its 90 % interval, which is above 0 where the gain is confirmed (one-sided, 5 %).
    pub low_90: f64,
    /// Upper end.
    pub high_90: f64,
    /// The gain that the search led to expect.
    pub expected: f64,
}

/// What an option gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OptionGain {
    /// Its name.
    pub name: String,
    /// It is known to gain nothing: a control.
    pub is_null: bool,
    /// What setting it gives, as a share; absent as long as the runs do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Lower end of its 95 % interval; absent of a greedy search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What became of it, in words.
    pub fate: String,
    /// It was shown to gain.
    pub is_kept: bool,
}

impl OptionGain {
    fn new(searched: &Searched, option: usize) -> Self {
        let finding = searched.path.findings[option];
        let share =
            |end: fn((f64, f64)) -> f64| finding.gain?.interval.map(|interval| end(interval).exp_m1());
        Self {
            name: searched.space.options[option].clone(),
            is_null: searched.space.null.has(option),
            gain: finding.gain.map(|gain: Gain| gain.value.exp_m1()),
            low: share(|interval| interval.0),
            high: share(|interval| interval.1),
            fate: fate(searched, finding.fate),
            is_kept: matches!(finding.fate, Fate::Kept { .. }),
        }
    }

    /// `noatime +5.1 % (+3.2 % to +7.0 %, kept)`.
    fn text(&self) -> String {
        let gain = self.gain.map_or_else(|| "not known".to_owned(), signed);
        let control = if self.is_null { ", control" } else { "" };
        let interval = self.interval().map_or_else(String::new, |interval| format!("{interval}, "));
        format!("{} {gain} ({interval}{}{control})", self.name, self.fate)
    }

    /// `+3.2 % to +7.0 %`; `None` without an interval.
    #[must_use]
    pub fn interval(&self) -> Option<String> {
        Some(format!("{} to {}", signed(self.low?), signed(self.high?)))
    }
}

/// A share with its sign.
#[must_use]
pub fn signed(share: f64) -> String {
    // What is shown as 0 has no sign.
    let sign = match share {
        share if share.abs() < 0.0005 => "",
        share if share < 0.0 => "\u{2212}",
        _ => "+",
    };
    format!("{sign}{}", percent(share.abs()))
}

/// What became of an option, in a few words.
fn fate(searched: &Searched, fate: Fate) -> String {
    match fate {
        Fate::Undecided => "not decided yet".to_owned(),
        Fate::Kept { .. } => "kept".to_owned(),
        Fate::Futile { .. } => "dropped".to_owned(),
        Fate::NoEvidence => "no gain shown".to_owned(),
        Fate::Clash { with } => {
            format!("clashes with {}", searched.space.options.get(with).map_or("another", String::as_str))
        }
        Fate::NotConfirmed => "not confirmed".to_owned(),
        Fate::NotBetter => "not better".to_owned(),
    }
}

impl Tuned {
    /// What a search found.
    #[must_use]
    pub fn new(searched: &Searched) -> Self {
        let (path, space) = (&searched.path, &searched.space);
        let mut options: Vec<OptionGain> =
            (0..space.options.len()).map(|option| OptionGain::new(searched, option)).collect();
        let order = |option: &OptionGain| option.gain.unwrap_or(f64::NEG_INFINITY);
        options.sort_by(|a, b| order(b).total_cmp(&order(a)));
        let chosen = path.chosen.options().map(|option| space.options[option].clone()).collect();
        let is_confirmed = path.confirmation.is_some_and(|found| found.verdict == Verdict::Confirmed);
        let (recommended, unconfirmed) =
            if is_confirmed { (chosen, Vec::new()) } else { (Vec::new(), chosen) };
        Self {
            place: searched.place.clone(),
            method: path.method.name(),
            runs: path.runs(),
            budget: space.problem.budget,
            is_over: path.pending.is_none(),
            least_gain: space.problem.least_gain,
            noise: path.noise.map(f64::exp_m1),
            is_model: searched.is_model,
            recommended,
            unconfirmed,
            confirmation: path.confirmation.map(|found| Confirmed::new(&found)),
            options,
            refused: searched.refused.clone(),
        }
    }

    /// The finding in one sentence: what stands before it, and the finding.
    #[must_use]
    pub fn parts(&self) -> (String, String) {
        (format!("{}: ", self.place), format!("{}{}", self.finding(), self.doubt()))
    }

    fn finding(&self) -> String {
        let runs = counted(self.runs, "run");
        if !self.is_over {
            let done = format!("{} of at most {} runs", self.runs, self.budget);
            return format!("the search is not over ({done}); run the study again to resume it");
        }
        let (together, unconfirmed) = (self.recommended.join(" + "), self.unconfirmed.join(" + "));
        if self.recommended.is_empty() && self.unconfirmed.is_empty() {
            return self.not_beaten(&runs);
        }
        match &self.confirmation {
            Some(found) if self.recommended.is_empty() => format!(
                "{unconfirmed} gained in the search, but the fresh runs are too few to confirm it ({}); {runs}",
                found.text()
            ),
            Some(found) => format!("use {together}; confirmed: {}; {runs}", found.text()),
            None => format!("the greedy search keeps {unconfirmed}, by single runs and unconfirmed; {runs}"),
        }
    }

    fn not_beaten(&self, runs: &str) -> String {
        let noise = match self.noise {
            Some(noise) => format!(" (noise of a run {})", percent(noise)),
            None => String::new(),
        };
        match &self.confirmation {
            Some(found) => format!(
                "the default is not beaten: what gained in the search is not confirmed ({}); {runs}{noise}",
                found.text()
            ),
            None if self.method == Method::Greedy.name() => {
                format!("the default is not beaten in single runs; {runs}")
            }
            None => format!(
                "the default is not beaten: none of {} is shown to gain{}; {runs}{noise}",
                counted(self.options.len(), "option"),
                self.ruled_out()
            ),
        }
    }

    /// Which gains of single options the runs rule out, if any.
    fn ruled_out(&self) -> String {
        let real = || self.options.iter().filter(|option| !option.is_null);
        let most = real().filter_map(|option| option.high).fold(f64::NEG_INFINITY, f64::max);
        if real().all(|option| option.high.is_none()) {
            return ", but the runs tell nothing of their gains".to_owned();
        }
        let unknown = match real().filter(|option| option.high.is_none()).count() {
            0 => String::new(),
            some => format!(", but nothing is known of {}", counted(some, "option")),
        };
        let noisy = match most > self.least_gain {
            true => format!(": the runs were too noisy to tell a gain of {}", percent(self.least_gain)),
            false => String::new(),
        };
        format!(", and gains above {} are ruled out{unknown}{noisy}", signed(most))
    }

    /// That a control was kept, or that its own interval is one of a gain or a loss.
    fn doubt(&self) -> String {
        let kept: Vec<&str> = self
            .options
            .iter()
            .filter(|one| one.is_null && one.is_kept)
            .map(|one| one.name.as_str())
            .collect();
        if kept.is_empty() {
            let is_off = |one: &&OptionGain| {
                one.is_null
                    && (one.low.is_some_and(|low| low > 0.0) || one.high.is_some_and(|high| high < 0.0))
            };
            let off: Vec<String> = self.options.iter().filter(is_off).map(OptionGain::text).collect();
            return match off.is_empty() {
                true => String::new(),
                false => format!(
                    "; the {} interval of a control does not contain 0, which happens by chance in 1 of 20: {}",
                    percent(0.95),
                    off.join(", ")
                ),
            };
        }
        format!("; but the search kept {}, which cannot gain: do not trust it", kept.join(", "))
    }

    /// The sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let (before, found) = self.parts();
        format!("{before}{found}.")
    }

    /// What each option gives, in one line.
    #[must_use]
    pub fn gains(&self) -> String {
        let each: Vec<String> = self.options.iter().map(OptionGain::text).collect();
        let refused = match self.refused.as_slice() {
            [] => String::new(),
            names => format!("; left out, because they fail here: {}", names.join(", ")),
        };
        format!("Gains on {}: {}{refused}.", self.place, each.join("; "))
    }
}

impl Confirmed {
    fn new(found: &Confirmation) -> Self {
        Self {
            verdict: found.verdict,
            pairs: found.pairs,
            gain: found.gain.exp_m1(),
            low_90: found.interval.0.exp_m1(),
            high_90: found.interval.1.exp_m1(),
            expected: found.expected.exp_m1(),
        }
    }

    /// `+5.1 % over the default, 90 % interval +3.2 % to +7.0 %, 3 fresh pairs of runs`.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{} over the default, {} interval {} to {}, {} of fresh runs",
            signed(self.gain),
            percent(0.9),
            signed(self.low_90),
            signed(self.high_90),
            counted(self.pairs, "pair")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::search::tests::searched;

    #[test]
    fn the_answer_names_the_options_with_the_confirmation() {
        let found = Tuned::new(&searched(usize::MAX));
        assert_eq!((found.recommended.as_slice(), found.is_over), (["noatime".to_owned()].as_slice(), true));
        let text = found.text();
        assert!(text.starts_with("ext4 on an SSD (model ssd): use noatime; confirmed: +"), "{text}");
        assert!(text.contains("over the default, 90\u{202f}% interval +"), "{text}");
        assert!(text.ends_with(" runs."), "{text}");
        let gains = found.gains();
        assert!(gains.contains("noatime +") && gains.contains(", kept); same "), "{gains}");
        assert!(gains.ends_with(", control)."), "{gains}");
    }

    #[test]
    fn a_search_that_is_not_over_recommends_nothing() {
        let found = Tuned::new(&searched(1));
        assert_eq!((found.recommended.len(), found.is_over), (0, false));
        assert_eq!(
            found.text(),
            "ext4 on an SSD (model ssd): the search is not over (4 of at most 24 runs); run the study again to resume it."
        );
    }

    #[test]
    fn a_default_that_is_not_beaten_and_a_control_that_is_kept_are_said() {
        let mut found = Tuned::new(&searched(usize::MAX));
        found.recommended.clear();
        found.confirmation = None;
        for option in &mut found.options {
            (option.low, option.high) = (Some(-0.01), Some(0.015));
        }
        assert!(found.text().contains("and gains above +1.5\u{202f}% are ruled out; "), "{}", found.text());
        found.options.iter_mut().for_each(|option| option.high = Some(0.06));
        assert!(found.text().contains("too noisy to tell a gain of 2"), "{}", found.text());
        let control = found.options.iter_mut().find(|one| one.is_null).unwrap();
        control.low = Some(0.01);
        assert!(found.text().contains("interval of a control does not contain 0"), "{}", found.text());
        for option in &mut found.options {
            (option.low, option.high) = (None, None);
        }
        assert!(found.text().contains("the runs tell nothing of their gains"), "{}", found.text());
        assert!(
            found.text().contains("the default is not beaten: none of 2 options is shown to gain"),
            "{}",
            found.text()
        );
        let same = found.options.iter_mut().find(|one| one.is_null).unwrap();
        same.is_kept = true;
        assert!(found.text().ends_with("but the search kept same, which cannot gain: do not trust it."));
    }
}
