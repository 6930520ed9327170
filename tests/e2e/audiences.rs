//! Who may make which call, as the protocol's options say.

use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _, Value};
use teamwire_proto::{
    Method,
    v1::{self, Audience, access_service_client::AccessServiceClient},
};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{Code, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use crate::{
    raw::Raw,
    world::{LEAD, PATIENCE, ScriptedHost, World, offer},
};

/// The calls that end the caller's credential when they succeed.
const SPENT: [Method; 4] = [Method::DeleteTeam, Method::Join, Method::Leave, Method::SignIn];

/// The ids of a message and of a request that do not exist.
const MESSAGE: &str = "018f4e3c-7a00-7000-8000-000000000000";
const REQUEST: &str = "req_00000000000000000000000000";

/// Makes a call about the team, with a request that is otherwise empty. Returns whether the caller may make it.
async fn may_call(raw: &Raw, pool: &DescriptorPool, method: Method) -> bool {
    let service = pool.get_service_by_name(&format!("teamwire.v1.{}", method.service())).unwrap();
    let input = service.methods().find(|found| found.name() == method.name()).unwrap().input();
    let mut request = DynamicMessage::new(input);
    let text = |text: &str| Value::String(text.to_owned());
    for (field, value) in [("team", text("acme")), ("message_id", text(MESSAGE)), ("request_id", text(REQUEST))] {
        if request.descriptor().get_field_by_name(field).is_some() {
            request.set_field_by_name(field, value);
        }
    }
    if matches!(method, Method::ListInbox | Method::SetNoticeLevel) {
        request.set_field_by_name("member", text("bob"));
    }
    if method == Method::SetNoticeLevel {
        request.set_field_by_name("level", Value::EnumNumber(v1::NoticeLevel::All.into()));
    }
    let mut grpc = Grpc::new(raw.channel.clone());
    grpc.ready().await.unwrap();
    // Every reply can be read as a stream.
    let codec = ProstCodec::<DynamicMessage, ()>::default();
    let answer =
        timeout(PATIENCE, grpc.server_streaming(raw.request(request), PathAndQuery::from_static(method.path()), codec));
    let code = match answer.await.expect("an answer") {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    };
    assert!(code != Code::ResourceExhausted, "{method:?}: too many calls");
    !matches!(code, Code::PermissionDenied | Code::Unauthenticated)
}

#[test]
fn a_call_is_refused_to_everyone_but_its_audience() {
    let world = World::embedded();
    world.create_team("acme");
    let invite = |arguments: &[&str]| {
        let invited = world.cli(LEAD, &[&["invite", "--json"], arguments].concat()).succeeds().json();
        invited["token"].as_str().unwrap().to_owned()
    };
    let (join_token, observer) = (invite(&[]), invite(&["--observer"]));
    let host = ScriptedHost::join(&world, "rack", offer(&["any"], &[], 1));
    let address = world.coordinator.address();
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let raw = |credential: &str| Raw::at(&address, credential);
    let lead = raw(&world.credential(LEAD));
    let mut access = AccessServiceClient::new(lead.channel.clone());
    let code = access.create_sign_in_code(lead.request(v1::CreateSignInCodeRequest::default()));
    let code = runtime.block_on(code).unwrap().into_inner().code;
    let callers = [
        (Audience::Member, raw(&world.join("bob"))),
        (Audience::Lead, lead),
        (Audience::Host, raw(host.client.credential())),
        (Audience::Observer, raw(&observer)),
        (Audience::Operator, raw(&world.operator())),
        (Audience::JoinToken, raw(&join_token)),
        (Audience::SignInCode, raw(&code)),
    ];
    let pool = DescriptorPool::decode(teamwire_proto::DESCRIPTORS).unwrap();
    let mut wrong = Vec::new();
    for method in Method::ALL.iter().copied() {
        for (caller, raw) in &callers {
            let is_listed =
                |listed: &Audience| listed == caller || (*listed, *caller) == (Audience::Member, Audience::Lead);
            let is_in_audience = method.audience().iter().any(is_listed);
            if is_in_audience && SPENT.contains(&method) {
                continue;
            }
            if runtime.block_on(may_call(raw, &pool, method)) != is_in_audience {
                wrong.push(format!("{method:?} by {caller:?}: listed {is_in_audience}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
