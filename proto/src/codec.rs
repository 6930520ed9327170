//! How messages are encoded: as prost does, into small buffers. A coordinator has a buffer for each open stream, and most
//! streams are idle.

use std::{fmt, marker::PhantomData};

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// How large a buffer is at first: enough for most messages.
const BUFFER_BYTES: usize = 1024;

/// How many bytes of encoded messages are gathered before they are handed to the connection. tonic's default.
const GATHERED_BYTES: usize = 32 * 1024;

/// Encodes messages `T`, and decodes messages `U`.
pub struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> fmt::Debug for SmallBuffers<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SmallBuffers")
    }
}

impl<T: Message + Send + 'static, U: Message + Default + Send + 'static> Codec for SmallBuffers<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(settings())
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, GATHERED_BYTES)
}
