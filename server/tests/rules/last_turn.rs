//! The last turn: reported, read by the lead and the member itself, and by no teammate.

use teamwire_proto::{Reason, v1};

use crate::{calls::RuleCalls as _, team::*};

fn turn(number: u64, final_text: &str) -> v1::ReportActivityRequest {
    let age = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let turn = v1::ReportedTurn {
        turn: number,
        start_age: age(9),
        end_age: age(2),
        final_text: final_text.to_owned(),
        tool_calls: 3,
        files: vec!["src/lib.rs".to_owned(); 200],
        usage: Some(v1::Usage { turns: 1, input_tokens: 10, ..Default::default() }),
        cut_short: "x".repeat(600),
    };
    v1::ReportActivityRequest { turn: Some(turn), ..Default::default() }
}

#[tokio::test]
async fn the_lead_the_operator_and_the_member_read_it_and_a_teammate_does_not() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let read = async |who: &_| {
        let request = v1::GetLastTurnRequest { team: "alpha".to_owned(), member: "ann".to_owned() };
        t.coordinator.last_turn(who, &request).await.map(|reply| reply.turn)
    };
    assert_eq!(read(&ann.who).await, Ok(None));
    t.coordinator.report_activity(&ann.who, &turn(1, "The report.")).await.unwrap();
    for who in [&ann.who, &t.lead.who, &t.operator] {
        let turn = read(who).await.unwrap().expect("a turn");
        assert_eq!((turn.turn, turn.incarnation, turn.final_text.as_str()), (1, 1, "The report."));
        assert_eq!((turn.tool_calls, turn.files.len(), turn.cut_short.len()), (3, 100, 500));
        assert_eq!(turn.usage.map(|usage| usage.input_tokens), Some(10));
        let lasted = turn.ended_at.unwrap().seconds - turn.started_at.unwrap().seconds;
        assert_eq!(lasted, 7);
    }
    assert_eq!(read(&bob.who).await.unwrap_err().reason, Reason::LeadOnly);

    // A report that comes late changes nothing, and a long text is cut in its middle.
    t.coordinator.report_activity(&ann.who, &turn(3, &format!("first{}last", "\n".repeat(100_000)))).await.unwrap();
    t.coordinator.report_activity(&ann.who, &turn(2, "late")).await.unwrap();
    let turn = read(&t.lead.who).await.unwrap().expect("a turn");
    assert_eq!(turn.turn, 3);
    assert!(turn.final_text.len() <= 16 * 1024 && turn.final_text.contains(" bytes left out]"));
    assert!(turn.final_text.starts_with("first\n") && turn.final_text.ends_with("\nlast"));
}
