//! Declaring what two of our programs can ask each other: each call a type that names its reply.

/// Declares each call as a struct, and an enum of any of them, `{"TAG":"name-of-call", …fields}` in JSON.
///
/// Where it is used there must be a trait `Call` with a type `Reply`, a trait `Handle<C: Call>` with
/// `fn handle(&self, C)`, and a function that makes of each reply what the enum's `handled_by` releases.
macro_rules! calls {
    (@declare $(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name;
    };
    (@declare $(#[$about:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$attribute])* pub $field: $type),* }
    };
    (
        $(#[$what:meta])* $any:ident, $tag:tt, $finish:ident -> $outcome:ty;
        $(
            $(#[$about:meta])*
            $name:ident $({ $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })? -> $reply:ty;
        )*
    ) => {
        $(
            calls! { @declare $(#[$about])* $name $({ $($(#[$attribute])* $field: $type),* })? }

            impl Call for $name {
                type Reply = $reply;
            }

            impl From<$name> for $any {
                fn from(call: $name) -> Self {
                    Self::$name(call)
                }
            }
        )*

        $(#[$what])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = $tag, rename_all = "kebab-case")]
        pub enum $any {
            $($(#[$about])* $name($name)),*
        }

        impl $any {
            /// Lets `handler`, which has a handler for every call, do this one.
            pub fn handled_by<H>(self, handler: &H) -> $outcome
            where
                $(H: Handle<$name>),*
            {
                match self {
                    $(Self::$name(call) => $finish::<$name>(handler.handle(call))),*
                }
            }

            /// Its name on the wire (`loop-attach`).
            #[must_use]
            pub fn name(&self) -> String {
                let variant = match self {
                    $(Self::$name(_) => stringify!($name)),*
                };
                let mut name = String::new();
                for letter in variant.chars() {
                    if letter.is_ascii_uppercase() && !name.is_empty() {
                        name.push('-');
                    }
                    name.push(letter.to_ascii_lowercase());
                }
                name
            }
        }
    };
}

pub(crate) use calls;
