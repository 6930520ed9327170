//! stub
use teamwire_proto::v1;
pub(super) struct Tracker;
impl Tracker {
    pub(super) async fn answer(&self, _: &v1::ReadWorkRequest) -> Result<v1::ReadWorkResponse, String> {
        Err("no".into())
    }
}
