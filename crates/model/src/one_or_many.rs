//! A parameter that a study gives as one value or as a list of them: `bs = "4KiB"` or `bs = ["4KiB", "1MiB"]`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One value or several, in the order given. A list of one is the value itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> OneOrMany<T> {
    /// One value.
    #[must_use]
    pub fn one(value: T) -> Self {
        Self(vec![value])
    }

    /// The values in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<'a, T> IntoIterator for &'a OneOrMany<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let read = if value.is_array() {
            serde_json::from_value(value).map(Self)
        } else {
            serde_json::from_value(value).map(Self::one)
        };
        read.map_err(serde::de::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Bytes;

    #[test]
    fn a_value_and_a_list_of_it_are_read_and_written_alike() {
        let one: OneOrMany<Bytes> = serde_json::from_str(r#""4KiB""#).unwrap();
        let list: OneOrMany<Bytes> = serde_json::from_str(r#"["4KiB"]"#).unwrap();
        assert_eq!((one.0.as_slice(), &one), (&[Bytes(4096)][..], &list));
        assert_eq!(serde_json::to_string(&one).unwrap(), "4096");
        let many: OneOrMany<u32> = serde_json::from_str("[1, 32]").unwrap();
        assert_eq!(serde_json::to_string(&many).unwrap(), "[1,32]");
        assert!(serde_json::from_str::<OneOrMany<u32>>(r#"["x"]"#).is_err());
    }
}
