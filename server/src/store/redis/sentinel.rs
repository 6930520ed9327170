//! Asks Sentinels for the primary of a service.

use std::time::Duration;

use futures::{StreamExt, stream::FuturesUnordered};
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, RedisError};
use tokio::time::timeout;

use super::url;
use crate::store::StoreError;

/// How long Sentinels may take to answer. All are asked at once, and the first answer wins: a server that is no longer
/// a primary says so itself.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

/// Sentinels, and the service to ask for.
pub(super) struct Sentinels {
    sentinels: Vec<ConnectionInfo>,
    service: String,
    primary: ConnectionInfo,
}

impl Sentinels {
    pub(super) fn new(sentinels: Vec<ConnectionInfo>, service: String, primary: ConnectionInfo) -> Self {
        Self { sentinels, service, primary }
    }

    /// Returns a name for the primary while its address is unknown.
    pub(super) fn name(&self) -> String {
        format!("primary of {}", self.service)
    }

    /// Returns the primary's address.
    pub(super) async fn primary(&self) -> Result<ConnectionInfo, StoreError> {
        let mut answers: FuturesUnordered<_> = self.sentinels.iter().map(|sentinel| self.ask(sentinel)).collect();
        let mut reason = "no Sentinel answered".to_owned();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok((host, port)) => return Ok(url::with_address(&self.primary, &host, port)),
                Err(why) => reason = why,
            }
        }
        Err(StoreError::Unavailable(format!("the {} is not known: {reason}", self.name())))
    }

    async fn ask(&self, sentinel: &ConnectionInfo) -> Result<(String, u16), String> {
        let asking = async {
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_TIMEOUT));
            let client = Client::open(sentinel.clone())?;
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            let mut query = redis::cmd("SENTINEL");
            query.arg("get-master-addr-by-name").arg(&self.service);
            query.query_async::<Option<(String, u16)>>(&mut connection).await
        };
        let address = sentinel.addr();
        match timeout(ANSWER_TIMEOUT, asking).await {
            Ok(Ok(Some(primary))) => Ok(primary),
            Ok(Ok(None)) => Err(format!("{address}: it knows no such service")),
            Ok(Err(error)) => Err(format!("{address}: {}", RedisError::to_string(&error))),
            Err(_) => Err(format!("{address}: no answer")),
        }
    }
}
