// The Go client's conformance driver; tests/conformance/README.md defines its protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/teamwire/teamwire/client/go"
	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

type object = map[string]any

// command holds the fields of all commands.
type command struct {
	Do         string
	String     string
	Credential string
	Address    string
	Name       string
	Lead       string
	Plan       string
	Summary    string
	Approve    bool
	Feedback   string
	Tool       string
	Detail     string
	PageSize   uint32 `json:"page_size"`
	Message    message
	Key        string
	Seconds    *float64
	MessageID  string `json:"message_id"`
	RequestID  string `json:"request_id"`
	Reason     string
	Subject    string
	BlockedBy  []uint64 `json:"blocked_by"`
	Reviewer   string   `json:"reviewer"`
	TaskID     uint64   `json:"task_id"`
	ClaimToken string   `json:"claim_token"`
	Code       int32
	Profile    string
	Prompt     string
	Host       string
	Slots      uint32
	Start      *int64 `json:"start_seconds"`
	TryAnother bool   `json:"try_another_host"`
}

// message is a SendMessage object, sent or received.
type message struct {
	Type          string `json:"type"`
	ID            string `json:"id,omitempty"`
	From          string `json:"from,omitempty"`
	Recipient     string `json:"recipient,omitempty"`
	Tool          string `json:"tool,omitempty"`
	Member        string `json:"member,omitempty"`
	Profile       string `json:"profile,omitempty"`
	Summary       string `json:"summary,omitempty"`
	Content       string `json:"content,omitempty"`
	RequestID     string `json:"request_id,omitempty"`
	Approve       *bool  `json:"approve,omitempty"`
	InReplyTo     string `json:"in_reply_to,omitempty"`
	Notice        string `json:"notice,omitempty"`
	DeliveryCount uint32 `json:"delivery_count,omitempty"`
}

type driver struct {
	client *teamwire.Client
	inbox  *teamwire.Subscription
}

func main() {
	d, out := &driver{}, json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var received command
		answer, err := object{}, json.Unmarshal(lines.Bytes(), &received)
		if err == nil {
			answer, err = d.do(context.Background(), received)
		}
		if err := out.Encode(outcome(answer, err)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if d.client != nil {
		d.client.Close()
	}
}

func outcome(answer object, err error) object {
	var refused *teamwire.Error
	switch {
	case err == nil:
		return object{"ok": answer}
	case errors.As(err, &refused) && refused.Reason != "":
		refusal := object{"reason": refused.Reason, "code": codeName(refused), "message": status.Convert(refused).Message()}
		refusal["retryable"] = refused.Retryable()
		if refused.Field != "" {
			refusal["field"] = refused.Field
		}
		return object{"refused": refusal}
	default:
		return object{"failed": err.Error()}
	}
}

// codeName returns a code as the protocol writes it: NOT_FOUND, not NotFound.
func codeName(err error) string {
	var name strings.Builder
	for n, letter := range status.Code(err).String() {
		if n > 0 && letter >= 'A' && letter <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	return strings.ToUpper(name.String())
}

func (d *driver) do(ctx context.Context, c command) (object, error) {
	switch c.Do {
	case "connect":
		return d.enter(teamwire.Connect(ctx, func(o *teamwire.Options) {
			o.Credential, o.Address = c.Credential, c.Address
		}))
	case "join":
		return d.enter(teamwire.Join(ctx, c.String, c.Name))
	case "join_host":
		return d.enter(teamwire.JoinHost(ctx, c.String, c.Name))
	}
	if d.client == nil {
		return nil, errors.New("connect or join first")
	}
	switch c.Do {
	case "create_team":
		return d.enter(d.client.CreateTeam(ctx, c.Name, c.Lead))
	case "get_team":
		reply, err := d.client.Teams.GetTeam(ctx, &v1.GetTeamRequest{})
		return object{"name": reply.GetTeam().GetName(), "lead": reply.GetTeam().GetLead()}, err
	case "invite":
		reply, err := d.client.Invite(ctx, c.Name)
		return object{
			"join_token": reply.GetJoinToken(), "join_string": reply.GetJoinString(), "expires_at": reply.GetExpiresAt().GetSeconds(),
		}, err
	case "invite_host":
		reply, err := d.client.InviteHost(ctx, c.Name)
		return object{"join_token": reply.GetJoinToken(), "join_string": reply.GetJoinString()}, err
	case "spawn":
		reply, err := d.client.Spawn(ctx, c.Name, c.Profile, c.Prompt, c.Host)
		order := reply.GetRequest()
		state := word(reply.GetMember().GetState(), "MEMBER_STATE_")
		return object{"request_id": order.GetId(), "state": state, "host": order.GetApprover()}, err
	case "hosts":
		hosts, err := d.client.AllHosts(ctx)
		shown := object{}
		for _, host := range hosts {
			shown[host.GetName()] = object{
				"state": word(host.GetState(), "MEMBER_STATE_"), "slots": host.GetOffer().GetSlots(), "slots_used": host.GetSlotsUsed(),
			}
		}
		return shown, err
	case "update_host":
		host, err := d.client.UpdateHost(ctx, c.offer())
		return object{"host": host.GetName()}, err
	case "take_order":
		reply, err := d.client.TakeOrder(ctx, c.RequestID)
		order := reply.GetRequest()
		return object{
			"member": order.GetMember(), "profile": order.GetSpawn().GetProfile(), "join_token": reply.GetJoinToken(),
		}, err
	case "refuse_order":
		order, err := d.client.RefuseOrder(ctx, c.RequestID, c.Reason, c.TryAnother)
		return decision(order), err
	case "report_exit":
		return object{}, d.client.ReportExit(ctx, c.RequestID, &v1.ExitReport{Code: &c.Code})
	case "shutdown":
		ended, err := d.client.Shutdown(ctx, c.Name, c.Reason, c.seconds())
		answer := decision(ended.Request)
		if ended.Exit != nil && ended.Exit.Code != nil {
			answer["code"] = ended.Exit.GetCode()
		}
		return answer, err
	case "force_stop":
		member, err := d.client.ForceStop(ctx, c.Name, c.Reason)
		return object{"state": word(member.GetState(), "MEMBER_STATE_")}, err
	case "hand_over":
		team, err := d.client.HandOver(ctx, c.Name)
		return object{"lead": team.GetLead()}, err
	case "delete_team":
		return object{}, d.client.DeleteTeam(ctx, c.Name)
	case "submit_plan":
		id, err := d.client.SubmitPlan(ctx, c.Plan, c.Summary)
		return object{"request_id": id}, err
	case "answer_plan":
		return sent(d.client.AnswerPlan(ctx, c.Name, c.RequestID, c.Approve, c.Feedback))
	case "request_permission":
		id, err := d.client.RequestPermission(ctx, c.Name, c.Tool, c.Summary, c.Detail)
		return object{"request_id": id}, err
	case "answer_permission":
		return sent(d.client.AnswerPermission(ctx, c.RequestID, c.Approve, c.Reason))
	case "answer_review":
		return sent(d.client.AnswerReview(ctx, c.RequestID, c.Approve, c.Reason, ""))
	case "withdraw_request":
		request, err := d.client.WithdrawRequest(ctx, c.RequestID)
		return decision(request), err
	case "list_history":
		page, err := d.client.History.ListHistory(ctx, &v1.ListHistoryRequest{PageSize: c.PageSize})
		return object{"items": len(page.GetEntries()), "more": page.GetNextPageToken() != ""}, err
	case "list_inbox":
		page, err := d.client.Messages.ListInbox(ctx, &v1.ListInboxRequest{PageSize: c.PageSize})
		return object{"items": len(page.GetDeliveries()), "more": page.GetNextPageToken() != ""}, err
	case "send":
		request, err := c.Message.request()
		if err != nil {
			return nil, err
		}
		request.IdempotencyKey = c.Key
		return sent(d.client.Messages.Send(ctx, request))
	case "subscribe":
		d.inbox = d.client.Subscribe(ctx)
		return object{}, nil
	case "approve_shutdown":
		return sent(d.client.ApproveShutdown(ctx, c.RequestID))
	case "reject_shutdown":
		return sent(d.client.RejectShutdown(ctx, c.RequestID, c.Reason))
	case "wait_decision":
		request, err := d.client.WaitDecision(ctx, c.RequestID, c.seconds())
		return decision(request), err
	case "receipts":
		reply, err := d.client.Messages.GetMessage(ctx, &v1.GetMessageRequest{MessageId: c.MessageID})
		states := object{}
		for _, receipt := range reply.GetReceipts() {
			states[receipt.GetRecipient()] = word(receipt.GetState(), "RECEIPT_STATE_")
		}
		return states, err
	case "create_task":
		reply, err := d.client.Tasks.CreateTask(ctx, &v1.CreateTaskRequest{Subject: c.Subject, BlockedBy: c.BlockedBy, Reviewer: c.Reviewer})
		return object{"task_id": reply.GetTask().GetId()}, err
	case "claim_next":
		reply, err := d.client.Tasks.ClaimNextTask(ctx, &v1.ClaimNextTaskRequest{})
		if claim := reply.GetClaim(); claim != nil {
			task := claim.GetTask()
			return object{"task_id": task.GetId(), "subject": task.GetSubject(), "claim_token": claim.GetToken()}, err
		}
		return object{}, err
	case "complete_task":
		_, err := d.client.Tasks.CompleteTask(ctx, &v1.CompleteTaskRequest{TaskId: c.TaskID, ClaimToken: c.ClaimToken})
		return object{}, err
	case "members":
		members, err := d.client.Members(ctx)
		states := object{}
		for _, member := range members {
			states[member.GetName()] = word(member.GetState(), "MEMBER_STATE_")
		}
		return states, err
	case "leave":
		return object{}, d.client.Leave(ctx, c.Code)
	}
	if d.inbox == nil {
		return nil, fmt.Errorf("%q is unknown, or needs a subscription first", c.Do)
	}
	switch c.Do {
	case "next":
		return d.next(ctx, c.seconds())
	case "ack":
		d.inbox.Ack(c.MessageID)
		return object{}, nil
	case "flush":
		return object{}, d.inbox.Flush(ctx)
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func (d *driver) enter(client *teamwire.Client, err error) (object, error) {
	if err != nil {
		return nil, err
	}
	if d.client != nil {
		d.client.Close()
	}
	d.client, d.inbox = client, nil
	return object{"member": client.Name, "team": client.Team}, nil
}

func decision(request *v1.Request) object {
	return object{"state": word(request.GetState(), "REQUEST_STATE_"), "reason": request.GetReason()}
}

func (d *driver) next(ctx context.Context, patience time.Duration) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	next, err := d.inbox.Next(ctx)
	switch {
	case err == nil:
		return object{"message": written(next)}, nil
	case ctx.Err() != nil:
		return object{"nothing": true}, nil
	case err != io.EOF:
		return nil, err
	}
	ended := object{"ended": word(d.inbox.End().Reason, "CLOSE_REASON_")}
	if id := d.inbox.End().RequestID; id != "" {
		ended["request_id"] = id
	}
	return ended, nil
}

// offer returns what a host offers: one profile.
func (c command) offer() *v1.HostOffer {
	start := time.Minute
	if c.Start != nil {
		start = time.Duration(*c.Start) * time.Second
	}
	profile := &v1.HostProfile{Name: c.Profile, StartDeadline: durationpb.New(start)}
	return &v1.HostOffer{Profiles: []*v1.HostProfile{profile}, Slots: c.Slots}
}

func (c command) seconds() time.Duration {
	if c.Seconds == nil {
		return 20 * time.Second
	}
	return time.Duration(*c.Seconds * float64(time.Second))
}

func sent(reply *v1.SendResponse, err error) (object, error) {
	return object{
		"message_id": reply.GetMessageId(), "request_id": reply.GetRequestId(), "replayed": reply.GetReplayed(),
		"recipients": append([]string{}, reply.GetRecipients()...), "warnings": append([]string{}, reply.GetWarnings()...),
	}, err
}

// word returns the name of an enum's value as the driver protocol writes it.
func word(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
}

// texts are the fields that hold the text of a message.
var texts = []protoreflect.Name{"content", "reason", "plan", "feedback", "detail", "text"}

// parts returns the other fields of messages that the scenarios know.
func (m *message) parts() map[protoreflect.Name]*string {
	return map[protoreflect.Name]*string{
		"recipient": &m.Recipient, "summary": &m.Summary, "tool": &m.Tool, "request_id": &m.RequestID,
	}
}

func (m message) request() (*v1.SendRequest, error) {
	request := &v1.SendRequest{InReplyTo: m.InReplyTo}
	kind := request.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(m.Type))
	if kind == nil || kind.Message() == nil {
		return nil, fmt.Errorf("unknown message type %q", m.Type)
	}
	body := request.ProtoReflect().Mutable(kind).Message()
	fields := body.Descriptor().Fields()
	for name, value := range m.parts() {
		if field := fields.ByName(name); field != nil {
			body.Set(field, protoreflect.ValueOfString(*value))
		}
	}
	for _, name := range texts {
		if field := fields.ByName(name); field != nil {
			body.Set(field, protoreflect.ValueOfString(m.Content))
		}
	}
	if field := fields.ByName("approve"); field != nil && m.Approve != nil {
		body.Set(field, protoreflect.ValueOfBool(*m.Approve))
	}
	return request, nil
}

func written(received *teamwire.Message) message {
	m := message{InReplyTo: received.GetInReplyTo(), DeliveryCount: received.DeliveryCount}
	whole := received.ProtoReflect()
	if kind := whole.WhichOneof(whole.Descriptor().Oneofs().ByName("body")); kind != nil {
		m.Type = string(kind.Name())
		body := whole.Get(kind).Message()
		fields := body.Descriptor().Fields()
		for name, value := range m.parts() {
			if field := fields.ByName(name); field != nil {
				*value = body.Get(field).String()
			}
		}
		for _, name := range texts {
			if field := fields.ByName(name); field != nil {
				m.Content = body.Get(field).String()
			}
		}
		if field := fields.ByName("approve"); field != nil && body.Has(field) {
			approve := body.Get(field).Bool()
			m.Approve = &approve
		}
	}
	if order := received.GetSpawnOrder(); order != nil {
		m.Member, m.Profile = order.GetMember(), order.GetTerms().GetProfile()
	}
	if notice := received.GetNotice(); notice != nil {
		m.Notice = word(notice.GetKind(), "NOTICE_KIND_")
	}
	m.ID, m.From, m.RequestID = received.GetId(), received.GetSender().GetName(), received.GetRequestId()
	return m
}
