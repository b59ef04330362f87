//! What a search found: which options to use, what each gives, and whether fresh runs confirm it.

use fsage_model::search::{Confirmation, Fate, Gain, Method, Verdict};
use serde::Serialize;

use crate::report::search::Searched;
use crate::report::text::{counted, percent, significant};

/// What options do with which it is not promised that a power cut is survived, or was found not to be.
const UNSAFE: &str = "a power cut may lose synced data or leave a file system that needs repair";

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
    /// Options that were left out, because they break what the study requires.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<String>,
    /// Of the recommended or unconfirmed options those with which a power cut may lose what was synced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lossy: Vec<String>,
    /// Whether the file system without options keeps what was synced in a power cut; absent: nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub survives: Option<bool>,
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
    /// What is written to the medium with the chosen options, as a ratio to the default with its 90 % interval; absent where
    /// nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Ratio>,
    /// The chosen options together may write more than the study allows, or nobody knows, and are not recommended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_too_worn: bool,
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The estimate.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    fn new(logarithm: Gain) -> Self {
        let (low, high) = logarithm.interval.unwrap_or((logarithm.value, logarithm.value));
        Self { value: logarithm.value.exp(), low: low.exp(), high: high.exp() }
    }

    /// `1.25 (1.20 to 1.31)`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} ({} to {})", significant(self.value), significant(self.low), significant(self.high))
    }
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
    /// What is written to the medium with it, as a ratio to what is written without; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Ratio>,
    /// What became of it, in words.
    pub fate: String,
    /// It was shown to gain.
    pub is_kept: bool,
    /// It gains, but writes more than the study allows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_too_worn: bool,
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
            written: finding.written.map(Ratio::new),
            fate: fate(searched, finding.fate),
            is_kept: matches!(finding.fate, Fate::Kept { .. }),
            is_too_worn: matches!(finding.fate, Fate::Wears | Fate::WearUnknown),
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
        Fate::Wears => "may write too much".to_owned(),
        Fate::WearUnknown => "what it writes is not known".to_owned(),
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
        let is_confirmed =
            path.confirmation.is_some_and(|found| found.verdict == Verdict::Confirmed && !found.is_too_worn);
        let lossy = path.chosen.options().map(|option| &space.options[option]);
        let lossy = lossy.filter(|name| searched.lossy.contains(name)).cloned().collect();
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
            unfit: searched.unfit.clone(),
            lossy,
            survives: searched.survives,
        }
    }

    /// The finding in one sentence: what stands before it, and the finding.
    #[must_use]
    pub fn parts(&self) -> (String, String) {
        (
            format!("{}: ", self.place),
            format!("{}{}{}{}", self.finding(), self.worn(), self.danger(), self.doubt()),
        )
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
            Some(found) if found.is_too_worn => {
                let why = found.written.map_or_else(
                    || "how much the options that gained in the search write is not known".to_owned(),
                    |ratio| {
                        let ratio = ratio.text();
                        format!("the options that gained in the search write {ratio} times as much together, which the study does not allow")
                    },
                );
                format!("nothing is recommended: {why} ({}); {runs}{noise}", found.text())
            }
            Some(found) => format!(
                "the default is not beaten: what gained in the search is not confirmed ({}); {runs}{noise}",
                found.text()
            ),
            None if self.options.iter().any(|one| one.is_too_worn) => {
                format!("nothing is recommended within the limit on what is written; {runs}{noise}")
            }
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

    /// What is written with what it names, and options that were dropped for that.
    fn worn(&self) -> String {
        if !self.is_over {
            return String::new();
        }
        let written = self.confirmation.as_ref().and_then(|found| found.written);
        let named = !self.recommended.is_empty() || !self.unconfirmed.is_empty();
        let ratio = match written {
            _ if !named => String::new(),
            Some(ratio) if ratio.low > 1.0 || ratio.high < 1.0 => {
                format!("; ageing writes {} times as much with it", ratio.text())
            }
            Some(ratio) => {
                format!("; no difference is shown in what ageing writes ({} times as much)", ratio.text())
            }
            None => "; how much is written with it is not known".to_owned(),
        };
        let dropped: Vec<String> = self
            .options
            .iter()
            .filter(|one| one.is_too_worn)
            .map(|one| match one.written {
                Some(written) => format!("{}, which writes {} times as much", one.name, written.text()),
                None => format!("{}, whose writes are not known", one.name),
            })
            .collect();
        match dropped.as_slice() {
            [] => ratio,
            names => format!("{ratio}; left out by the limit on what is written: {}", names.join("; ")),
        }
    }

    /// What may be lost in a power cut with what it names.
    fn danger(&self) -> String {
        let named = !self.recommended.is_empty() || !self.unconfirmed.is_empty();
        match (self.lossy.as_slice(), self.survives) {
            _ if !self.is_over || !named => String::new(),
            ([], Some(true)) => {
                "; no documentation cancels the promise of synced data for it (tests: docs/power.md)"
                    .to_owned()
            }
            ([], Some(false)) => format!("; with or without it {UNSAFE}"),
            ([], None) => {
                "; what this file system keeps in a power cut is not known: test it with `fsage crash`"
                    .to_owned()
            }
            (lossy, Some(false)) => format!("; with or without {} {UNSAFE}", lossy.join(" or ")),
            (lossy, _) => format!("; with {} {UNSAFE}", lossy.join(" or ")),
        }
    }

    /// That a control was kept, or that its own interval is one of a gain or a loss.
    fn doubt(&self) -> String {
        let kept: Vec<&str> = self
            .options
            .iter()
            .filter(|one| one.is_null && (one.is_kept || one.is_too_worn))
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
        let unfit = match self.unfit.as_slice() {
            [] => String::new(),
            names => format!("; left out, because with them {UNSAFE}: {}", names.join(", ")),
        };
        format!("Gains on {}: {}{refused}{unfit}.", self.place, each.join("; "))
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
            written: found.written.map(Ratio::new),
            is_too_worn: found.is_too_worn,
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
        assert!(text.contains(" runs; how much is written with it is not known; no documentation"), "{text}");
        let gains = found.gains();
        assert!(gains.contains("noatime +") && gains.contains(", kept); same "), "{gains}");
        assert!(gains.ends_with(", control)."), "{gains}");
    }

    #[test]
    fn what_a_power_cut_may_lose_stands_beside_the_recommendation() {
        let mut searched = searched(usize::MAX);
        searched.lossy = vec!["nobarrier".to_owned()];
        searched.unfit = vec!["no-journal".to_owned()];
        let found = Tuned::new(&searched);
        assert!(found.lossy.is_empty() && !found.text().contains(UNSAFE), "{}", found.text());
        assert!(found.text().ends_with("cancels the promise of synced data for it (tests: docs/power.md)."));
        assert!(found.gains().ends_with(&format!("; left out, because with them {UNSAFE}: no-journal.")));
        searched.lossy = vec!["noatime".to_owned()];
        let found = Tuned::new(&searched);
        assert_eq!(found.lossy, ["noatime"]);
        assert!(found.text().ends_with(&format!("; with noatime {UNSAFE}.")), "{}", found.text());
        searched.lossy.clear();
        for (survives, said) in
            [(Some(false), "; with or without it a power cut"), (None, "is not known: test it")]
        {
            searched.survives = survives;
            let text = Tuned::new(&searched).text();
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn what_is_written_stands_beside_the_recommendation() {
        let mut found = Tuned::new(&searched(usize::MAX));
        assert!(found.text().contains("; how much is written with it is not known"), "{}", found.text());
        let ratio = |low, high| Some(Ratio { value: 1.25, low, high });
        found.confirmation.as_mut().unwrap().written = ratio(0.9, 1.6);
        let text = found.text();
        assert!(
            text.contains(
                "; no difference is shown in what ageing writes (1.25 (0.90 to 1.60) times as much)"
            ),
            "{text}"
        );
        found.confirmation.as_mut().unwrap().written = ratio(1.2, 1.31);
        let text = found.text();
        assert!(text.contains("; ageing writes 1.25 (1.20 to 1.31) times as much with it; "), "{text}");
    }

    #[test]
    fn what_the_limit_on_writing_leaves_out_is_not_called_beaten_or_without_gain() {
        let mut searched = searched(usize::MAX);
        let option = searched.path.chosen.options().next().unwrap();
        searched.path.findings[option].written = Some(Gain { value: 0.2, interval: Some((0.1, 0.3)) });
        searched.path.findings[option].fate = Fate::Wears;
        let (chosen, confirmation) = (searched.path.chosen, searched.path.confirmation.take());
        searched.path.chosen = fsage_model::search::Configuration::BASE;
        let text = Tuned::new(&searched).text();
        assert!(text.contains("nothing is recommended within the limit on what is written; "), "{text}");
        assert!(text.ends_with("; left out by the limit on what is written: noatime, which writes 1.22 (1.11 to 1.35) times as much."), "{text}");
        searched.path.findings[option].written = None;
        assert!(Tuned::new(&searched).text().ends_with("written: noatime, whose writes are not known."));
        // Confirmed, but together the chosen options write too much: no option alone is to blame.
        searched.path.findings[option].fate = Fate::Kept { runs: 8 };
        searched.path.confirmation = confirmation;
        let confirmation = searched.path.confirmation.as_mut().unwrap();
        confirmation.written = Some(Gain { value: 0.2, interval: Some((0.1, 0.3)) });
        confirmation.is_too_worn = true;
        let found = Tuned::new(&searched);
        assert!(found.recommended.is_empty() && found.unconfirmed.is_empty(), "{found:?}");
        assert!(
            found
                .text()
                .contains("write 1.22 (1.11 to 1.35) times as much together, which the study does not allow")
        );
        assert!(!found.text().contains("not confirmed"), "{}", found.text());
        assert!(!chosen.is_empty());
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
