//! The kinds of media: one file and one line each.
//!
//! A kind's file has its `Parameters` and `Overrides` (made by `parameters!`), the `PRESETS`, and whether it
//! `TURNS` (is rotational). Its model, with `new`, is in the virtual disk's crate, under the same name.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::parameter::{OutOfRange, Parameter};
use super::preset::Preset;
use super::spec::{MediumError, read};

static RAM: Preset =
    Preset { name: "ram", summary: "no device time passes", source: "", parameters: Parameters::Ram };

/// Makes the registry. `Ram` has no parameters.
macro_rules! media {
    ($($(#[doc = $about:literal])+ $Name:ident($module:ident);)+) => {
        /// The parameters of a medium, by kind.
        #[derive(Debug)]
        pub enum Parameters {
            /// No parameters.
            Ram,
            $($(#[doc = $about])+ $Name(super::$module::Parameters),)+
        }

        /// Overrides of a preset, by kind.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) enum Overrides {
            Ram,
            $($Name(super::$module::Overrides),)+
        }

        impl Parameters {
            /// Whether it is rotational.
            pub(super) const fn turns(&self) -> bool {
                match self {
                    Self::Ram => false,
                    $(Self::$Name(_) => super::$module::TURNS,)+
                }
            }

            /// Reads overrides of these parameters, which are those of `preset`.
            pub(super) fn overrides(
                &self,
                preset: &'static str,
                values: Map<String, Value>,
            ) -> Result<Overrides, MediumError> {
                match self {
                    Self::Ram => read(preset, &[], values, |_: NoOverrides| Overrides::Ram),
                    $(Self::$Name(_) => {
                        read(preset, super::$module::Parameters::KEYS, values, Overrides::$Name)
                    })+
                }
            }

            /// These with the overrides, which are of the same kind, applied.
            pub(super) fn with(&self, overrides: &Overrides) -> Result<Self, OutOfRange> {
                match (self, overrides) {
                    $((Self::$Name(base), Overrides::$Name(overrides)) => base.with(overrides).map(Self::$Name),)+
                    _ => Ok(Self::Ram),
                }
            }

            /// Capacity in bytes; `None` for a drive that is as large as its volume.
            #[must_use]
            pub fn capacity_bytes(&self) -> Option<u64> {
                match self {
                    Self::Ram => None,
                    $(Self::$Name(parameters) => Some(parameters.capacity_bytes()),)+
                }
            }

            /// The parameter to change so that a volume of that size fits, and its value; `None` if it fits.
            pub(super) fn enlarged(&self, size_bytes: u64) -> Option<(&'static str, u64)> {
                if self.capacity_bytes().is_none_or(|capacity| capacity >= size_bytes) {
                    return None;
                }
                match self {
                    Self::Ram => None,
                    $(Self::$Name(parameters) => Some(parameters.enlarged(size_bytes)),)+
                }
            }

            /// Every parameter with its value.
            pub(super) fn list(&self) -> Vec<Parameter> {
                match self {
                    Self::Ram => Vec::new(),
                    $(Self::$Name(parameters) => parameters.list(),)+
                }
            }

        }

        impl Overrides {
            /// As a study has them.
            pub(super) fn values(&self) -> serde_json::Result<Value> {
                match self {
                    Self::Ram => Ok(Value::Null),
                    $(Self::$Name(overrides) => serde_json::to_value(overrides),)+
                }
            }

            /// The schemas of every kind's.
            pub(super) fn schemas(generator: &SchemaGenerator) -> Vec<Schema> {
                vec![$(generator.clone().into_root_schema_for::<super::$module::Overrides>()),+]
            }
        }

        /// Every preset, kind after kind.
        pub(super) fn presets() -> Vec<&'static Preset> {
            std::iter::once(&RAM)$(.chain(super::$module::PRESETS))+.collect()
        }
    };
}

/// The overrides of a medium that has no parameters.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOverrides {}

// Every kind, one line each: the model, and its file.
media! {
    /// A hard disk.
    Hdd(hdd);
    /// A solid state drive.
    Ssd(ssd);
    /// A memory card.
    Sd(sd);
}
