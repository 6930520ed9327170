//! Compactions: a program cuts its context, and the agent still knows who it is.

use teamwire_scripted_model::{Request, Rule};

use crate::{program::Can, setup::Setup};

scenarios! {
    after_a_compaction_the_agent_knows_who_it_is_and_has_its_tools,
}

/// The message that fills the context.
const FILL: &str = "fill the context";

/// Tokens that every context holds.
const A_LOT: u64 = 50_000;

/// More tokens than the context of any program holds.
const TOO_MANY: u64 = 2_000_000;

fn after_a_compaction_the_agent_knows_who_it_is_and_has_its_tools(setup: Setup) {
    if !setup.program.can(Can::ReportCompaction) {
        eprintln!("skipped: {} does not say that it has compacted its context", setup.program.name);
        return;
    }
    setup.model.add(Rule::when("read a file").says("Noted.").reads(A_LOT));
    setup.model.add(Rule::when(FILL).says("Noted.").reads(TOO_MANY));
    // Reminders of what was not sent, in which the context does not shrink.
    setup.model.add(Rule::when("Your last turn sent nothing").says("No.").reads(A_LOT).always());
    let backend = setup.backend(&[]);
    for message in ["read a file", FILL] {
        setup.send(message);
        setup.await_receipt(message, "processed");
    }
    for message in ["the first afterwards", "the second afterwards"] {
        setup.send(message);
        setup.await_receipt(message, "processed");
        let asked = setup.model.await_requests(message, |requests| {
            requests.iter().find(|request| request.new.contains(message) && !request.tools.is_empty()).cloned()
        });
        assert!(is_compacted(&setup.model.requests()), "the program did not compact its context");
        for part in ["You are backend, a teammate of team acme. Its lead is lead.", "SendMessage"] {
            assert!(asked.text.contains(part), "{message}: the model was not shown {part}: {}", asked.text);
        }
        for tool in ["SendMessage", "TaskList", "TaskClaim"] {
            assert!(asked.tools.iter().any(|offered| offered.ends_with(tool)), "{message}: {tool}: {:?}", asked.tools);
        }
    }
    setup.shut_down(backend);
}

/// Returns whether a program has asked the model for a summary of the conversation that fills the context.
fn is_compacted(requests: &[Request]) -> bool {
    let filled = requests.iter().skip_while(|request| request.rule.as_deref() != Some(FILL));
    let mut others = filled.filter(|request| request.rule.is_none() && !request.new.contains("afterwards"));
    others.any(|request| request.new.contains("summary"))
}
