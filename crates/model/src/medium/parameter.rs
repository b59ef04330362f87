//! How a medium's parameters are declared: once, with their meaning, unit and range.
//!
//! From one table come the typed parameters, the overrides that a study or a flag may give (every one
//! optional), the JSON schema, the check of ranges and the list that reports show. All numbers are whole: a
//! float that two builds round differently would make times differ.

use serde::Serialize;

/// One parameter of a medium as it was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its key in a study.
    pub key: &'static str,
    /// Its value, as it is written in a study.
    pub value: String,
    /// Its unit; `"1"` of counts, `""` of choices.
    pub unit: &'static str,
    /// What it is.
    pub summary: &'static str,
}

/// A value that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value} is not between {min} and {max}")]
pub struct OutOfRange {
    /// The parameter.
    pub key: &'static str,
    /// What was given.
    pub value: u64,
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
}

/// Declares the parameters of a medium and the overrides of them.
///
/// `numbers` are `u64` with a range and a unit; `choices` are any other type that serde reads.
macro_rules! parameters {
    (
        $(#[$about:meta])*
        numbers { $( $(#[doc = $number_doc:literal])+ $number:ident: $min:literal ..= $max:literal, $unit:literal; )+ }
        choices { $( $(#[doc = $choice_doc:literal])+ $choice:ident: $type:ty; )* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        pub struct Parameters {
            $( $(#[doc = $number_doc])+ pub $number: u64, )+
            $( $(#[doc = $choice_doc])+ pub $choice: $type, )*
        }

        /// Overrides of a preset by a study or a flag; absent keys keep the preset's values.
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Overrides {
            $(
                $(#[doc = $number_doc])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(extend(
                    "minimum" = std::convert::identity::<u64>($min),
                    "maximum" = std::convert::identity::<u64>($max)
                ))]
                pub $number: Option<u64>,
            )+
            $(
                $(#[doc = $choice_doc])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $choice: Option<$type>,
            )*
        }

        impl Parameters {
            /// All keys.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($number),)+ $(stringify!($choice),)*];

            /// These with the overrides applied, each within its range.
            ///
            /// # Errors
            /// When a number is out of its range.
            pub fn with(&self, overrides: &Overrides) -> Result<Self, $crate::medium::parameter::OutOfRange> {
                let with = Self {
                    $( $number: overrides.$number.unwrap_or(self.$number), )+
                    $( $choice: overrides.$choice.clone().unwrap_or_else(|| self.$choice.clone()), )*
                };
                $(
                    if !($min..=$max).contains(&with.$number) {
                        return Err($crate::medium::parameter::OutOfRange {
                            key: stringify!($number),
                            value: with.$number,
                            min: $min,
                            max: $max,
                        });
                    }
                )+
                Ok(with)
            }

            /// All of them, for a report.
            #[must_use]
            pub fn list(&self) -> Vec<$crate::medium::parameter::Parameter> {
                vec![
                    $( $crate::medium::parameter::Parameter {
                        key: stringify!($number),
                        value: self.$number.to_string(),
                        unit: $unit,
                        summary: concat!($($number_doc),+).trim_ascii(),
                    }, )+
                    $( $crate::medium::parameter::Parameter {
                        key: stringify!($choice),
                        value: $crate::medium::parameter::written(&self.$choice),
                        unit: "",
                        summary: concat!($($choice_doc),+).trim_ascii(),
                    }, )*
                ]
            }
        }
    };
}
pub(super) use parameters;

/// A choice as a study writes it, without the quotes.
pub(super) fn written(choice: &impl Serialize) -> String {
    serde_json::to_value(choice).map_or_else(
        |_| String::new(),
        |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    )
}
