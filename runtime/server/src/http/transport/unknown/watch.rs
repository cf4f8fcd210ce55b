//! A deserializer around another that collects the fields that a type does not read. It costs a few pointer copies for
//! each field, and allocates only for what it finds: a path is a list on the stack, and a key is borrowed from the
//! request.
//!
//! A type asks to skip a value with `deserialize_ignored_any`, and a derived one does so for exactly the fields it does
//! not know. The names that it does know it gives to `deserialize_struct`.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};

use crate::http::transport::unknown::Unknown;

/// Fields of the object that is being read.
type Known = &'static [&'static str];

/// Where in the request something is.
#[derive(Clone, Copy)]
struct PathStep<'p> {
    parent: Option<&'p PathStep<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl fmt::Display for PathStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (self.step, self.parent) {
            (Step::Root, _) => Ok(()),
            (Step::Index(index), _) => write!(f, "[{index}]"),
            (Step::Key(key), Some(PathStep { step: Step::Root, .. }) | None) => f.write_str(key),
            (Step::Key(key), Some(_)) => write!(f, ".{key}"),
        }
    }
}

const ROOT: PathStep<'static> = PathStep { parent: None, step: Step::Root };

/// A deserializer that collects unknown fields.
pub struct Watch<'p, D> {
    inner: D,
    at: &'p PathStep<'p>,
    /// The fields of the object that this value is in.
    known: Known,
    unknown: &'p Unknown,
}

impl<'p, D> Watch<'p, D> {
    pub fn new(inner: D, unknown: &'p Unknown) -> Watch<'p, D> {
        Watch { inner, at: &ROOT, known: &[], unknown }
    }

    /// Wraps the visitor of this value, which knows these fields.
    fn around<V>(&self, inner: V, known: Known) -> Around<'p, V> {
        Around { inner, at: self.at, known, unknown: self.unknown }
    }
}

/// Methods that call the inner deserializer with a wrapped visitor.
macro_rules! ask {
    ($($method:ident($($argument:ident: $type:ty),*) as $known:expr;)+) => {
        $(
            fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
                let visitor = self.around(visitor, $known);
                self.inner.$method($($argument,)* visitor)
            }
        )+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Watch<'_, D> {
    type Error = D::Error;

    ask! {
        deserialize_any() as &[];
        deserialize_bool() as &[];
        deserialize_i8() as &[];
        deserialize_i16() as &[];
        deserialize_i32() as &[];
        deserialize_i64() as &[];
        deserialize_i128() as &[];
        deserialize_u8() as &[];
        deserialize_u16() as &[];
        deserialize_u32() as &[];
        deserialize_u64() as &[];
        deserialize_u128() as &[];
        deserialize_f32() as &[];
        deserialize_f64() as &[];
        deserialize_char() as &[];
        deserialize_str() as &[];
        deserialize_string() as &[];
        deserialize_bytes() as &[];
        deserialize_byte_buf() as &[];
        deserialize_option() as &[];
        deserialize_unit() as &[];
        deserialize_unit_struct(name: &'static str) as &[];
        deserialize_newtype_struct(name: &'static str) as &[];
        deserialize_seq() as &[];
        deserialize_tuple(len: usize) as &[];
        deserialize_tuple_struct(name: &'static str, len: usize) as &[];
        deserialize_map() as &[];
        deserialize_struct(name: &'static str, fields: Known) as fields;
        deserialize_enum(name: &'static str, variants: Known) as &[];
        deserialize_identifier() as &[];
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        if let Step::Key(name) = self.at.step {
            self.unknown.add(self.at.to_string(), name, self.known);
        }
        self.inner.deserialize_ignored_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A visitor or a seed that passes on what it is given, wrapped so that its contents are watched too.
struct Around<'p, V> {
    inner: V,
    at: &'p PathStep<'p>,
    known: Known,
    unknown: &'p Unknown,
}

impl<'p, V> Around<'p, V> {
    fn watch<D>(inner: D, at: &'p PathStep<'p>, unknown: &'p Unknown) -> Watch<'p, D> {
        Watch { inner, at, known: &[], unknown }
    }
}

macro_rules! hand_on {
    ($($method:ident($type:ty);)+) => {
        $(
            fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
                self.inner.$method(value)
            }
        )+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Around<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    hand_on! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Around::<V>::watch(deserializer, self.at, self.unknown))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Around::<V>::watch(deserializer, self.at, self.unknown))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(List { inner: list, at: self.at, index: 0, unknown: self.unknown })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Object { inner: map, at: self.at, key: None, known: self.known, unknown: self.unknown })
    }

    /// The enums of requests have no fields.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(data)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Around<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let Around { inner, at, known, unknown } = self;
        inner.deserialize(Watch { inner: deserializer, at, known, unknown })
    }
}

struct List<'p, A> {
    inner: A,
    at: &'p PathStep<'p>,
    index: usize,
    unknown: &'p Unknown,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for List<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let at = PathStep { parent: Some(self.at), step: Step::Index(self.index) };
        self.index += 1;
        self.inner.next_element_seed(Around { inner: seed, at: &at, known: &[], unknown: self.unknown })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Object<'p, 'de, A> {
    inner: A,
    at: &'p PathStep<'p>,
    key: Option<Cow<'de, str>>,
    known: Known,
    unknown: &'p Unknown,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Object<'_, 'de, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let key = self.inner.next_key::<Key<'de>>()?;
        self.key = key.map(|Key(key)| key);
        match &self.key {
            None => Ok(None),
            Some(Cow::Borrowed(key)) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            Some(Cow::Owned(key)) => seed.deserialize(StrDeserializer::new(key)).map(Some),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let key = self.key.take();
        let at = PathStep { parent: Some(self.at), step: Step::Key(key.as_deref().unwrap_or_default()) };
        self.inner.next_value_seed(Around { inner: seed, at: &at, known: self.known, unknown: self.unknown })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A key, borrowed from the request unless it has escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key<'de>, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E: Error>(self, text: String) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
