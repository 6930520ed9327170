package io.teamwire;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.teamwire.v1.ClaimNextTaskRequest;
import io.teamwire.v1.CompleteTaskRequest;
import io.teamwire.v1.CreateTaskRequest;
import io.teamwire.v1.ExitReport;
import io.teamwire.v1.GetMessageRequest;
import io.teamwire.v1.GetTeamRequest;
import io.teamwire.v1.HostOffer;
import io.teamwire.v1.HostProfile;
import io.teamwire.v1.ListHistoryRequest;
import io.teamwire.v1.ListInboxRequest;
import io.teamwire.v1.Message;
import io.teamwire.v1.Request;
import io.teamwire.v1.SendRequest;
import io.teamwire.v1.SendResponse;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The Java client's conformance driver; tests/conformance/README.md defines its protocol. */
final class ConformanceDriver {
    private static final Gson GSON = new Gson();

    /** The fields that hold the text of a message. */
    private static final Set<String> TEXTS = Set.of("content", "reason", "plan", "feedback", "detail", "text");

    /** The other fields of messages that the scenarios know. */
    private static final Set<String> SHOWN = Set.of("recipient", "summary", "tool", "approve");

    private Teamwire me;
    private Subscription inbox;

    private final Map<String, Function<Command, Map<String, ?>>> commands = Map.ofEntries(
            Map.entry(
                    "connect",
                    command -> enter(Teamwire.connect(Map.of(
                            "TEAMWIRE_CREDENTIAL", command.text("credential"),
                            "TEAMWIRE_ADDRESS", command.text("address"))))),
            Map.entry("create_team", command -> enter(me.createTeam(command.text("name"), command.text("lead")))),
            Map.entry("get_team", command -> {
                var team =
                        me.teams().getTeam(GetTeamRequest.getDefaultInstance()).getTeam();
                return Map.of("name", team.getName(), "lead", team.getLead());
            }),
            Map.entry("invite", command -> {
                var reply = me.invite(command.text("name"));
                return Map.of(
                        "join_token", reply.getJoinToken(),
                        "join_string", reply.getJoinString(),
                        "expires_at", reply.getExpiresAt().getSeconds());
            }),
            Map.entry("invite_host", command -> {
                var reply = me.inviteHost(command.text("name"));
                return Map.of("join_token", reply.getJoinToken(), "join_string", reply.getJoinString());
            }),
            Map.entry("spawn", command -> {
                var reply = me.spawn(
                        command.text("name"), command.text("profile"), command.text("prompt"), command.text("host"));
                return Map.of(
                        "request_id", reply.getRequest().getId(),
                        "state", word(reply.getMember().getState(), "MEMBER_STATE_"),
                        "host", reply.getRequest().getApprover());
            }),
            Map.entry("hosts", command -> me.allHosts().stream()
                    .collect(Collectors.toMap(
                            host -> host.getName(),
                            host -> Map.of(
                                    "state", word(host.getState(), "MEMBER_STATE_"),
                                    "slots", host.getOffer().getSlots(),
                                    "slots_used", host.getSlotsUsed())))),
            Map.entry("update_host", command -> {
                var start = command.json().has("start_seconds")
                        ? command.json().get("start_seconds").getAsLong()
                        : 60;
                var deadline = com.google.protobuf.Duration.newBuilder().setSeconds(start);
                var profile = HostProfile.newBuilder()
                        .setName(command.text("profile"))
                        .setStartDeadline(deadline);
                var slots = command.json().get("slots").getAsInt();
                var offer = HostOffer.newBuilder().addProfiles(profile).setSlots(slots);
                return Map.of("host", me.updateHost(offer.build()).getName());
            }),
            Map.entry("take_order", command -> {
                var reply = me.takeOrder(command.text("request_id"));
                return Map.of(
                        "member", reply.getRequest().getMember(),
                        "profile", reply.getRequest().getSpawn().getProfile(),
                        "join_token", reply.getJoinToken());
            }),
            Map.entry("refuse_order", command -> {
                var another = command.json().get("try_another_host");
                return decision(me.refuseOrder(
                        command.text("request_id"), command.text("reason"), another != null && another.getAsBoolean()));
            }),
            Map.entry("report_exit", command -> {
                var exit = ExitReport.newBuilder()
                        .setCode(command.json().get("code").getAsInt())
                        .build();
                me.reportExit(command.text("request_id"), Optional.of(exit));
                return Map.of();
            }),
            Map.entry("shutdown", command -> {
                var ended = me.shutdown(command.text("name"), command.text("reason"), command.seconds());
                var shown = new HashMap<String, Object>(decision(ended.request()));
                ended.exit().filter(ExitReport::hasCode).ifPresent(exit -> shown.put("code", exit.getCode()));
                return shown;
            }),
            Map.entry("force_stop", command -> {
                var member = me.forceStop(command.text("name"), command.text("reason"));
                return Map.of("state", word(member.getState(), "MEMBER_STATE_"));
            }),
            Map.entry(
                    "hand_over",
                    command -> Map.of("lead", me.handOver(command.text("name")).getLead())),
            Map.entry("delete_team", command -> {
                me.deleteTeam(command.text("name"));
                return Map.of();
            }),
            Map.entry(
                    "submit_plan",
                    command -> Map.of("request_id", me.submitPlan(command.text("plan"), command.text("summary")))),
            Map.entry(
                    "answer_plan",
                    command -> sent(me.answerPlan(
                            command.text("name"),
                            command.text("request_id"),
                            command.json().get("approve").getAsBoolean(),
                            command.text("feedback")))),
            Map.entry(
                    "request_permission",
                    command -> Map.of(
                            "request_id",
                            me.requestPermission(
                                    command.text("name"),
                                    command.text("tool"),
                                    command.text("summary"),
                                    command.text("detail")))),
            Map.entry(
                    "answer_permission",
                    command -> sent(me.answerPermission(
                            command.text("request_id"),
                            command.json().get("approve").getAsBoolean(),
                            command.text("reason")))),
            Map.entry(
                    "answer_review",
                    command -> sent(me.answerReview(
                            command.text("request_id"),
                            command.json().get("approve").getAsBoolean(),
                            command.text("reason"),
                            ""))),
            Map.entry("withdraw_request", command -> decision(me.withdrawRequest(command.text("request_id")))),
            Map.entry("list_history", command -> {
                var request = ListHistoryRequest.newBuilder().setPageSize(command.pageSize());
                var page = me.history().listHistory(request.build());
                return Map.of(
                        "items",
                        page.getEntriesCount(),
                        "more",
                        !page.getNextPageToken().isEmpty());
            }),
            Map.entry("list_inbox", command -> {
                var request = ListInboxRequest.newBuilder().setPageSize(command.pageSize());
                var page = me.messages().listInbox(request.build());
                return Map.of(
                        "items",
                        page.getDeliveriesCount(),
                        "more",
                        !page.getNextPageToken().isEmpty());
            }),
            Map.entry("join", command -> enter(Teamwire.join(command.text("string"), command.text("name")))),
            Map.entry("join_host", command -> enter(Teamwire.joinHost(command.text("string"), command.text("name")))),
            Map.entry("send", this::send),
            Map.entry("subscribe", command -> {
                inbox = me.subscribe();
                return Map.of();
            }),
            Map.entry("next", command -> next(command.seconds())),
            Map.entry("ack", command -> {
                inbox.ack(command.text("message_id"));
                return Map.of();
            }),
            Map.entry("flush", command -> {
                inbox.flush();
                return Map.of();
            }),
            Map.entry("approve_shutdown", command -> sent(me.approveShutdown(command.text("request_id")))),
            Map.entry(
                    "reject_shutdown",
                    command -> sent(me.rejectShutdown(command.text("request_id"), command.text("reason")))),
            Map.entry(
                    "wait_decision",
                    command -> decision(me.waitDecision(command.text("request_id"), command.seconds()))),
            Map.entry("receipts", command -> me
                    .messages()
                    .getMessage(GetMessageRequest.newBuilder()
                            .setMessageId(command.text("message_id"))
                            .build())
                    .getReceiptsList()
                    .stream()
                    .collect(Collectors.toMap(
                            receipt -> receipt.getRecipient(), receipt -> word(receipt.getState(), "RECEIPT_STATE_")))),
            Map.entry("create_task", command -> {
                var request = CreateTaskRequest.newBuilder().setSubject(command.text("subject"));
                if (command.json().has("reviewer")) {
                    request.setReviewer(command.text("reviewer"));
                }
                if (command.json().has("blocked_by")) {
                    command.json().getAsJsonArray("blocked_by").forEach(id -> request.addBlockedBy(id.getAsLong()));
                }
                return Map.of(
                        "task_id",
                        me.tasks().createTask(request.build()).getTask().getId());
            }),
            Map.entry("claim_next", command -> {
                var reply = me.tasks().claimNextTask(ClaimNextTaskRequest.getDefaultInstance());
                var task = reply.getClaim().getTask();
                return reply.hasClaim()
                        ? Map.of(
                                "task_id", task.getId(),
                                "subject", task.getSubject(),
                                "claim_token", reply.getClaim().getToken())
                        : Map.of();
            }),
            Map.entry("complete_task", command -> {
                me.tasks()
                        .completeTask(CompleteTaskRequest.newBuilder()
                                .setTaskId(command.json().get("task_id").getAsLong())
                                .setClaimToken(command.text("claim_token"))
                                .build());
                return Map.of();
            }),
            Map.entry("members", command -> me.members().stream()
                    .collect(Collectors.toMap(
                            member -> member.getName(), member -> word(member.getState(), "MEMBER_STATE_")))),
            Map.entry("leave", command -> {
                me.leave(command.json().get("code").getAsInt());
                return Map.of();
            }));

    private record Command(JsonObject json) {
        String text(String name) {
            return json.has(name) ? json.get(name).getAsString() : "";
        }

        int pageSize() {
            return json.get("page_size").getAsInt();
        }

        Duration seconds() {
            return Duration.ofMillis(
                    json.has("seconds") ? (long) (json.get("seconds").getAsDouble() * 1000) : 20_000);
        }
    }

    public static void main(String[] arguments) throws IOException {
        var driver = new ConformanceDriver();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (var line = in.readLine(); line != null; line = in.readLine()) {
            out.println(GSON.toJson(driver.answer(line)));
        }
        if (driver.inbox != null) {
            driver.inbox.close();
        }
        if (driver.me != null) {
            driver.me.close();
        }
    }

    private Map<String, ?> answer(String line) {
        try {
            var command = new Command(JsonParser.parseString(line).getAsJsonObject());
            var known = commands.get(command.text("do"));
            return known == null ? Map.of("failed", "unknown command") : Map.of("ok", known.apply(command));
        } catch (TeamwireException e) {
            var refused = new LinkedHashMap<String, Object>();
            refused.put("reason", e.reason());
            refused.put("code", e.code().name());
            refused.put("message", e.getMessage());
            refused.put("field", e.field());
            refused.put("retryable", e.isRetryable());
            return e.reason().isEmpty() ? Map.of("failed", e.toString()) : Map.of("refused", filled(refused));
        } catch (RuntimeException e) {
            return Map.of("failed", e.toString());
        }
    }

    private Map<String, ?> enter(Teamwire client) {
        if (me != null) {
            me.close();
        }
        me = client;
        return Map.of("member", me.name(), "team", me.team());
    }

    private static Map<String, ?> decision(Request request) {
        return Map.of("state", word(request.getState(), "REQUEST_STATE_"), "reason", request.getReason());
    }

    private Map<String, ?> send(Command command) {
        var message = new Command(command.json().getAsJsonObject("message"));
        var request = SendRequest.newBuilder()
                .setIdempotencyKey(command.text("key"))
                .setInReplyTo(message.text("in_reply_to"));
        var kind = SendRequest.getDescriptor().findFieldByName(message.text("type"));
        if (kind != null) { // The coordinator refuses a message of no kind.
            var body = request.getFieldBuilder(kind);
            for (var field : body.getDescriptorForType().getFields()) {
                var value = message.json().get(TEXTS.contains(field.getName()) ? "content" : field.getName());
                if (value != null) {
                    body.setField(
                            field, field.getName().equals("approve") ? value.getAsBoolean() : value.getAsString());
                }
            }
        }
        return sent(me.send(request));
    }

    private static Map<String, ?> sent(SendResponse response) {
        return Map.of(
                "message_id", response.getMessageId(),
                "request_id", response.getRequestId(),
                "recipients", response.getRecipientsList(),
                "replayed", response.getReplayed(),
                "warnings", response.getWarningsList());
    }

    private Map<String, ?> next(Duration patience) {
        var next = inbox.next(patience);
        if (next.isPresent()) {
            return Map.of("message", shown(next.get()));
        }
        return inbox.end()
                .<Map<String, ?>>map(end -> Map.of("ended", word(end.reason(), ""), "request_id", end.requestId()))
                .orElse(Map.of("nothing", true));
    }

    private static Map<String, ?> shown(Delivery delivery) {
        Message message = delivery.message();
        var shown = new LinkedHashMap<String, Object>();
        shown.put("type", word(message.getBodyCase(), ""));
        shown.put("id", message.getId());
        shown.put("from", message.getSender().getName());
        shown.put("request_id", message.getRequestId());
        shown.put("in_reply_to", message.getInReplyTo());
        shown.put("delivery_count", delivery.deliveryCount());
        var kind =
                Message.getDescriptor().findFieldByNumber(message.getBodyCase().getNumber());
        if (kind != null) {
            var body = (com.google.protobuf.Message) message.getField(kind);
            for (var field : body.getDescriptorForType().getFields()) {
                if (TEXTS.contains(field.getName())) {
                    shown.put("content", body.getField(field));
                } else if (SHOWN.contains(field.getName())) {
                    shown.put(field.getName(), body.getField(field));
                }
            }
        }
        if (message.hasSpawnOrder()) {
            shown.put("member", message.getSpawnOrder().getMember());
            shown.put("profile", message.getSpawnOrder().getTerms().getProfile());
        }
        if (message.hasNotice()) {
            shown.put("notice", word(message.getNotice().getKind(), "NOTICE_KIND_"));
        }
        return filled(shown);
    }

    /** Removes empty values. */
    private static <V> Map<String, V> filled(Map<String, V> map) {
        map.values().removeIf(""::equals);
        return map;
    }

    private static String word(Enum<?> value, String prefix) {
        return value.name().substring(prefix.length()).toLowerCase(Locale.ROOT);
    }
}
