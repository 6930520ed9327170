package teamwire

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

// attemptTimeout limits one attempt of a call, and the opening of a session.
const attemptTimeout = 10 * time.Second

// waitedMin is the time after which an attempt that breaks has waited at a coordinator, if the call is one that waits.
const waitedMin = time.Second

// session is a session that a subscription has opened. Calls carry its id.
type session struct {
	id   string
	over context.Context // done when another has replaced it, or the subscription has ended
	end  context.CancelFunc
}

// waitUntil is an option of a call that waits: when its caller stops waiting. No attempt begins later, and none asks the coordinator
// to wait longer.
type waitUntil struct {
	grpc.EmptyCallOption
	time time.Time
}

var noSession = &session{end: func() {}}

// Invoke makes a call for the generated stubs, and retries it until its outcome is known. With NewStream, it makes Client a
// [grpc.ClientConnInterface].
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	request := c.complete(method, args.(proto.Message))
	until, isLimited := limitOf(opts)
	isWaiting := waits(method, request) > 0
	giveUp := time.Now().Add(c.patience)
	if !isWaiting {
		limited, cancel := context.WithDeadline(ctx, giveUp)
		defer cancel()
		ctx = limited
	}
	hasMaybeChanged := false
	for n := 0; ; n++ {
		if isLimited {
			limitWait(method, request, until)
		}
		session, place := c.session.Load(), c.place.Load()
		attempt, cancel := context.WithTimeout(c.sign(ctx, session, method), attemptTimeout+waits(method, request))
		tried := time.Now()
		var at peer.Peer // stays empty if nothing was sent
		err := c.conns[place].Invoke(attempt, method, request, reply, append(slices.Clip(opts), grpc.Peer(&at))...)
		cancel()
		if err == nil {
			c.isTrusted.Store(true)
			return nil
		}
		failure := c.failure(ctx, err, place)
		if failure.Reason == "SESSION_SUPERSEDED" && c.hasReopened(ctx, session) {
			continue
		}
		failure.isOnce = isOnce(method)
		mayBeDone := failure.mayBeDone(at.Addr != nil)
		hasMaybeChanged = hasMaybeChanged || mayBeDone && !isRead(method)
		failure.OutcomeUnknown = hasMaybeChanged && failure.leavesOpen()
		if !failure.isPassing() || failure.isOnce && mayBeDone {
			return failure
		}
		if isWaiting && failure.hasWaited(at.Addr != nil, time.Since(tried)) {
			giveUp, n = time.Now().Add(c.patience), 0 // another outage begins
		}
		pause := max(delay(n), failure.RetryAfter)
		if pause >= time.Until(giveUp) || isLimited && pause >= time.Until(until) {
			failure.cause = cmp.Or(failure.cause, context.DeadlineExceeded)
			return failure
		}
		if failure.cause = c.pause(ctx, pause); failure.cause != nil {
			return failure
		}
	}
}

// NewStream opens a stream for the generated stubs. It does not reopen a broken one.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	place := c.place.Load()
	opened, err := c.conns[place].NewStream(c.sign(ctx, c.session.Load(), method), desc, method, opts...)
	if err != nil {
		return nil, c.failure(ctx, err, place)
	}
	return &stream{ClientStream: opened, client: c, method: method, place: place}, nil
}

// stream fills in the request of a stream, and converts its errors.
type stream struct {
	grpc.ClientStream
	client *Client
	method string
	place  int32
}

func (s *stream) SendMsg(message any) error {
	return s.ClientStream.SendMsg(s.client.complete(s.method, message.(proto.Message)))
}

func (s *stream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil || err == io.EOF {
		return err
	}
	return s.client.failure(s.Context(), err, s.place)
}

// complete returns a copy of a request with the team and the idempotency key filled in where they are empty.
func (c *Client) complete(method string, request proto.Message) proto.Message {
	request = proto.Clone(request)
	message := request.ProtoReflect()
	set := func(name protoreflect.Name, value string) {
		if field := message.Descriptor().Fields().ByName(name); field != nil && !message.Has(field) {
			message.Set(field, protoreflect.ValueOfString(value))
		}
	}
	set("team", c.Team)
	if isSecret(method) { // anyone who guesses the key gets the credential
		set("idempotency_key", uuid.NewString())
	} else { // sorts by time, which is the cheapest for a coordinator
		set("idempotency_key", uuid.Must(uuid.NewV7()).String())
	}
	return request
}

// waits returns how long a coordinator is asked to wait before it answers.
func waits(method string, request proto.Message) time.Duration {
	field, asked, most := waitOf(method)
	if field == "" {
		return 0
	}
	message := request.ProtoReflect()
	if field := message.Descriptor().Fields().ByName(protoreflect.Name(field)); message.Has(field) {
		asked = message.Get(field).Message().Interface().(*durationpb.Duration).AsDuration()
	}
	return max(0, min(asked, most))
}

// limitOf returns when the caller stops waiting, if the options say so.
func limitOf(opts []grpc.CallOption) (time.Time, bool) {
	for _, option := range opts {
		if until, ok := option.(waitUntil); ok {
			return until.time, true
		}
	}
	return time.Time{}, false
}

// limitWait makes a request ask the coordinator to wait only for what is left of the time.
func limitWait(method string, request proto.Message, until time.Time) {
	field, _, _ := waitOf(method)
	message := request.ProtoReflect()
	left := durationpb.New(max(0, time.Until(until)))
	message.Set(message.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOfMessage(left.ProtoReflect()))
}

// sign adds the credential and the session. The call that opens a session is outside the previous one.
func (c *Client) sign(ctx context.Context, session *session, method string) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.bearer())
	if session.id != "" && method != v1.MessageService_Stream_FullMethodName {
		ctx = metadata.AppendToOutgoingContext(ctx, "teamwire-session", session.id)
	}
	return ctx
}

// failure converts the error of an attempt, and leaves a coordinator that is unreachable or draining.
func (c *Client) failure(ctx context.Context, err error, place int32) *Error {
	failure := newError(err, cmp.Or(ctx.Err(), c.ctx.Err()))
	if failure.Reason != "" {
		c.isTrusted.Store(true)
	}
	failure.mayTrust = c.isTrusted.Load()
	if failure.cause == nil && failure.isPassing() && (failure.Reason == "" || failure.Reason == "DRAINING") {
		c.leave(place)
	}
	return failure
}

// leave makes new calls use the next address. Of many calls that fail at once, only the first has an effect.
func (c *Client) leave(place int32) { c.place.CompareAndSwap(place, (place+1)%int32(len(c.conns))) }

// hasReopened waits until the subscription has replaced the refused session or ended, and returns whether it was replaced.
func (c *Client) hasReopened(ctx context.Context, refused *session) bool {
	if refused.id == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	select {
	case <-refused.over.Done():
	case <-ctx.Done():
	}
	return c.session.Load() != refused
}
