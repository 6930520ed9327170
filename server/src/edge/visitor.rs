//! Whether whoever opened a connection has shown a credential that holds.
//!
//! A [`Visitor`] is made for each connection and travels in tonic's connection info. [`Watch`], a layer around all
//! services, makes a [`Call`] of it for each call; the services note there that a whole request with a credential has
//! come, and that the credential holds. While such a call is decided the connection is left alone, however long that
//! takes; once a credential was found to hold the visitor is known for good. How a call is answered says nothing of that:
//! much is refused without a look at who asks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use tower::{Layer, Service};

/// Whoever opened a connection.
#[derive(Debug, Default)]
pub struct Visitor {
    known: AtomicBool,
    /// How many calls with a credential are being decided.
    calling: AtomicUsize,
}

impl Visitor {
    /// Returns whether a credential of the visitor's was found to hold.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Returns whether a call with a credential is being decided.
    pub fn is_calling(&self) -> bool {
        self.calling.load(Ordering::Acquire) > 0
    }
}

/// One call of a visitor.
#[derive(Debug)]
pub struct Call {
    visitor: Arc<Visitor>,
    presented: AtomicBool,
}

impl Call {
    /// The whole request is there, with a credential that can be looked up.
    pub fn presents(&self) {
        if !self.presented.swap(true, Ordering::AcqRel) {
            self.visitor.calling.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The credential was looked up, and holds.
    pub fn holds(&self) {
        self.visitor.known.store(true, Ordering::Release);
    }

    /// Returns whether a credential of the visitor's was found to hold, with this call or before.
    pub fn is_known(&self) -> bool {
        self.visitor.is_known()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.presented.load(Ordering::Acquire) {
            self.visitor.calling.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The layer that watches how the calls of visitors are answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch;

impl<S> Layer<S> for Watch {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched { inner }
    }
}

/// A service whose answers are watched.
#[derive(Clone, Debug)]
pub struct Watched<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Watched<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(visitor) = request.extensions().get::<Arc<Visitor>>().cloned() else {
            return self.inner.call(request).boxed();
        };
        let call = Arc::new(Call { visitor, presented: AtomicBool::new(false) });
        request.extensions_mut().insert(Arc::clone(&call));
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            drop(call);
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_of(visitor: &Arc<Visitor>) -> Call {
        Call { visitor: Arc::clone(visitor), presented: AtomicBool::new(false) }
    }

    #[test]
    fn only_a_credential_that_holds_makes_a_visitor_known() {
        let visitor = Arc::new(Visitor::default());
        drop(call_of(&visitor));
        assert!(!visitor.is_known(), "nothing was shown");
        let call = call_of(&visitor);
        call.presents();
        drop(call);
        assert!(!visitor.is_known(), "what was shown does not hold");
        let call = call_of(&visitor);
        call.presents();
        call.holds();
        drop(call);
        assert!(visitor.is_known());
        assert!(call_of(&visitor).is_known(), "for good");
    }

    #[test]
    fn a_visitor_calls_until_each_call_is_over() {
        let visitor = Arc::new(Visitor::default());
        let (one, other) = (call_of(&visitor), call_of(&visitor));
        one.presents();
        one.presents();
        other.presents();
        drop(one);
        assert!(visitor.is_calling());
        drop(other);
        assert!(!visitor.is_calling());
    }
}
