import io.teamwire.Teamwire;
import java.time.Duration;

/** A minimal lead: invites a teammate, sends it a message, waits for the reply, and shuts it down. */
class Lead {
    public static void main(String[] arguments) throws InterruptedException {
        var name = arguments.length > 0 ? arguments[0] : "backend";
        try (var me = Teamwire.connect();
                var inbox = me.subscribe()) {
            System.out.println("I am " + me.name() + " of " + me.team() + ". Join with:");
            System.out.println(me.invite(name).getJoinString());
            while (me.members().stream().noneMatch(member -> member.getName().equals(name))) {
                Thread.sleep(1_000);
            }

            var sent = me.send(name, "a question", "What is the answer?");
            for (var delivery : inbox) {
                delivery.ack();
                if (delivery.message().getInReplyTo().equals(sent.getMessageId())) {
                    System.out.println(name + " replied: "
                            + delivery.message().getMessage().getContent());
                    break;
                }
            }

            var ended = me.shutdown(name, "Thank you.", Duration.ofMinutes(10));
            System.out.println(name + ": " + ended.request().getState() + ", exit: " + ended.exit());
        }
    }
}
