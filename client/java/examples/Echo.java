import io.teamwire.End;
import io.teamwire.Teamwire;

/** A minimal teammate: echoes every message, and exits when its shutdown is approved. Joins with TEAMWIRE_JOIN, if set. */
class Echo {
    public static void main(String[] arguments) {
        var invitation = System.getenv("TEAMWIRE_JOIN");
        var name = arguments.length > 0 ? arguments[0] : System.getenv().getOrDefault("TEAMWIRE_NAME", "");
        try (var me = invitation == null ? Teamwire.connect() : Teamwire.join(invitation, name);
                var inbox = me.subscribe()) {
            for (var delivery : inbox) {
                var message = delivery.message();
                switch (message.getBodyCase()) {
                    case MESSAGE ->
                        me.reply(
                                message,
                                "an echo",
                                "You said: " + message.getMessage().getContent());
                    case SHUTDOWN_REQUEST -> me.approveShutdown(message.getRequestId());
                    default -> {}
                }
                delivery.ack();
            }
            if (inbox.end().orElseThrow().reason() != End.Reason.SHUTDOWN_APPROVED) {
                System.exit(1);
            }
            inbox.flush();
            me.leave(0);
        }
    }
}
