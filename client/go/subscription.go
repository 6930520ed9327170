package teamwire

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

const (
	// queued bounds the waiting acknowledgements, and remembered the known message ids.
	queued, remembered = 4096, 4096
	// acksInCall is how many messages one call may acknowledge: the protocol's limit.
	acksInCall = 1000
	// unackedMax is how many messages a session may leave unacknowledged if the request does not say.
	unackedMax = 64
	// settled is how long a session must last before its loss resets the delays.
	settled = 10 * time.Second
)

// ackPause is the shortest time between the beginnings of two calls that acknowledge, unless the second one is urgent. All clients
// wait equally long. Tests change it.
var ackPause = 20 * time.Millisecond

// The time is longer if the first call was slow, because the coordinator is busy then.
const (
	ackPauseInCalls = 8                      // how many times as long as the call took
	ackPauseMax     = 100 * time.Millisecond // but at most
)

// The reasons of an [End].
const (
	ShutdownApproved = v1.CloseReason_CLOSE_REASON_SHUTDOWN_APPROVED
	Superseded       = v1.CloseReason_CLOSE_REASON_SUPERSEDED // another process holds the inbox
	TeamDeleted      = v1.CloseReason_CLOSE_REASON_TEAM_DELETED
	MemberStopped    = v1.CloseReason_CLOSE_REASON_MEMBER_STOPPED
	DataLost         = v1.CloseReason_CLOSE_REASON_DATA_LOST // the coordinator's store lost the team
)

// refusals maps the reason of a refusal to the end that it means.
var refusals = map[string]v1.CloseReason{
	"SESSION_SUPERSEDED": Superseded, "TEAM_NOT_FOUND": TeamDeleted, "MEMBER_STOPPED": MemberStopped,
}

// End says how a subscription has ended.
type End struct {
	// Reason is one of the five above. Zero if the subscription ended with an error.
	Reason v1.CloseReason
	// RequestID is the approved request, with ShutdownApproved.
	RequestID string
}

// Message is a message of the inbox.
type Message struct {
	*v1.Message
	// DeliveryCount is how many sessions have, or may have, delivered the message. Above 1, an earlier process may have
	// seen it.
	DeliveryCount uint32
	inbox         *Subscription
}

// Ack acknowledges the message as processed. It returns at once; see [Subscription.Flush].
func (m *Message) Ack() { m.inbox.Ack(m.GetId()) }

// errSuperseded ends the reading of a stream that is silent, and that must not take the inbox back.
var errSuperseded = errors.New("another process holds the inbox")

// Subscription hands out the messages of the caller's inbox. It is safe for concurrent use.
type Subscription struct {
	client     *Client
	ctx        context.Context
	reading    context.Context // ends earlier, with errSuperseded, if an acknowledgement is refused because of another process
	request    *v1.StreamRequest
	filled     chan struct{} // holds a token if a message may wait
	acks       chan ack
	pause      time.Duration // ackPause
	urgentFrom int           // from how many waiting acknowledgements on they are urgent

	ended chan struct{} // closed once end and err are set
	end   End
	err   error

	stopped chan struct{} // closed when acknowledging has ended, because of ackErr
	ackErr  error

	session *session // the latest

	stopReading context.CancelCauseFunc // of reading
	isReopening atomic.Bool             // true between two sessions

	mu   sync.Mutex
	seen window
	// urgent and waiting hold the messages that were not taken. The session's credit bounds them. Adding one never waits, or
	// a shutdown request and the end could not get past messages that the application does not take.
	urgent, waiting []*Message
}

// ack is the id of an acknowledged message, or a Flush that waits for the acknowledgements before it.
type ack struct {
	id        string
	confirmed chan struct{}
}

// window remembers the latest messages, and whether each is acknowledged.
type window struct {
	acked map[string]bool
	order []string
}

func (w *window) put(id string, isAcked bool) {
	if _, isKnown := w.acked[id]; !isKnown {
		w.order = append(w.order, id)
	}
	if w.acked[id] = isAcked; len(w.order) > remembered {
		delete(w.acked, w.order[0])
		w.order = w.order[1:]
	}
}

// Subscribe subscribes to the caller's inbox until ctx is done; an older subscription of the same member ends. From now on,
// the client's calls carry its session: the coordinator refuses them once another process has taken over. options may change
// the request, for example the unacknowledged window.
func (c *Client) Subscribe(ctx context.Context, options ...func(*v1.StreamRequest)) *Subscription {
	s := &Subscription{
		client: c, request: &v1.StreamRequest{InstanceId: uuid.NewString()},
		filled: make(chan struct{}, 1), acks: make(chan ack, queued), pause: ackPause,
		ended: make(chan struct{}), stopped: make(chan struct{}), session: noSession, seen: window{acked: map[string]bool{}},
	}
	for _, set := range options {
		set(s.request)
	}
	s.urgentFrom = min((cmp.Or(int(s.request.GetUnackedMessagesMax()), unackedMax)+1)/2, acksInCall)
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	s.reading, s.stopReading = context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	c.running.Add(2)
	go func() {
		defer c.running.Done()
		defer close(s.ended)
		s.read()
	}()
	go func() {
		defer c.running.Done()
		defer stop()
		defer close(s.stopped)
		s.ackErr = s.acknowledge()
	}()
	return s
}

// Messages yields messages until the subscription ends: shutdown requests first, the others in order. Leaving the loop does
// not end the subscription.
func (s *Subscription) Messages() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for {
			message, err := s.Next(context.Background())
			if err != nil || !yield(message) {
				return
			}
		}
	}
}

// Next waits for the next message. It returns io.EOF if the subscription has ended as End says, or the error that ended it.
func (s *Subscription) Next(ctx context.Context) (*Message, error) {
	for {
		select { // the end takes precedence over waiting messages
		case <-s.ended:
			return nil, cmp.Or(s.err, io.EOF)
		default:
		}
		if message := s.take(); message != nil {
			return message, nil
		}
		select {
		case <-s.ended:
		case <-s.filled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take removes the next message, shutdown requests first. It returns nil if none waits.
func (s *Subscription) take() *Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := &s.urgent
	if len(*from) == 0 {
		from = &s.waiting
	}
	if len(*from) == 0 {
		return nil
	}
	message := (*from)[0]
	(*from)[0] = nil // so that it can be collected
	*from = (*from)[1:]
	if len(s.urgent)+len(s.waiting) > 0 {
		s.wake()
	}
	return message
}

// wake lets one waiting Next look for a message.
func (s *Subscription) wake() {
	select {
	case s.filled <- struct{}{}:
	default:
	}
}

// End waits until the subscription has ended, and returns how. It is zero if an error ended it; see [Subscription.Err].
func (s *Subscription) End() End {
	<-s.ended
	return s.end
}

// Err waits until the subscription has ended, and returns the error that ended it, or nil if it ended as End says.
func (s *Subscription) Err() error {
	<-s.ended
	return s.err
}

// Ack acknowledges a message as processed. It returns at once, and ignores a malformed id. After a pause, the acknowledgement is
// sent at once. Those that follow within 20 ms share a call, or within up to 100 ms if the coordinator is busy. Flush does not wait
// for them.
func (s *Subscription) Ack(id string) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return // the coordinator would refuse the whole batch
	}
	id = parsed.String()
	s.mu.Lock()
	s.seen.put(id, true)
	s.mu.Unlock()
	select {
	case s.acks <- ack{id: id}:
	default: // far above the unacknowledged window; the message is redelivered
	}
}

// Flush waits until the coordinator has confirmed every acknowledgement so far.
func (s *Subscription) Flush(ctx context.Context) error {
	flush := ack{confirmed: make(chan struct{})}
	select {
	case s.acks <- flush:
	case <-s.stopped:
	case <-ctx.Done():
	}
	select {
	case <-flush.confirmed:
		return nil
	case <-s.stopped:
		return s.ackErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read runs sessions, one after the other, until the subscription ends.
func (s *Subscription) read() {
	defer func() { s.session.end() }()
	for n := 0; ; n++ {
		began := time.Now()
		err := s.hold()
		s.isReopening.Store(true)
		if s.end.Reason != 0 || s.isSuperseded() {
			return
		}
		if failure, ok := err.(*Error); ok && failure.isFinal() {
			if s.end.Reason = refusals[failure.Reason]; s.end.Reason == 0 {
				s.err = err
			}
			return
		}
		if time.Since(began) >= settled {
			n = 0
		}
		if s.err = s.client.pause(s.reading, delay(n)); s.err != nil {
			if s.isSuperseded() {
				s.err = nil
			}
			return
		}
	}
}

// isSuperseded ends the subscription if an acknowledgement was refused because another process holds the inbox.
func (s *Subscription) isSuperseded() bool {
	if context.Cause(s.reading) != errSuperseded {
		return false
	}
	s.end.Reason = Superseded
	return true
}

// hold opens a session and reads it to its end.
func (s *Subscription) hold() error {
	ctx, cancel := context.WithCancel(s.reading)
	defer cancel()
	place, patience := s.client.place.Load(), attemptTimeout
	silence := time.AfterFunc(patience, func() {
		s.client.leave(place)
		cancel()
	})
	defer silence.Stop()
	stream, err := s.client.Messages.Stream(ctx, s.request)
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		silence.Stop() // a slow consumer is not a silent coordinator
		switch frame := response.Frame.(type) {
		case *v1.StreamResponse_Opened:
			patience = max(3*frame.Opened.HeartbeatInterval.AsDuration(), time.Second)
			s.session = &session{id: frame.Opened.SessionId}
			s.session.over, s.session.end = context.WithCancel(context.Background())
			s.client.session.Swap(s.session).end()
			s.isReopening.Store(false)
			s.client.isTrusted.Store(true)
		case *v1.StreamResponse_Delivery:
			s.deliver(frame.Delivery)
		case *v1.StreamResponse_Closing:
			switch reason := frame.Closing.Reason; reason {
			case ShutdownApproved, Superseded, TeamDeleted, MemberStopped, DataLost:
				s.end = End{reason, frame.Closing.RequestId}
			default: // draining, or a reason newer than this client
				s.client.leave(place)
			}
			return nil
		}
		silence.Reset(patience)
	}
}

// deliver queues a new message.
func (s *Subscription) deliver(delivery *v1.Delivery) {
	message := &Message{Message: delivery.GetMessage(), DeliveryCount: delivery.GetDeliveryCount(), inbox: s}
	id := message.GetId()
	s.mu.Lock()
	isAcked, isKnown := s.seen.acked[id]
	s.seen.put(id, isAcked)
	switch {
	case isKnown:
	case message.GetShutdownRequest() != nil:
		s.urgent = append(s.urgent, message)
	default:
		s.waiting = append(s.waiting, message)
	}
	s.mu.Unlock()
	if isAcked { // the coordinator has not recorded it
		s.Ack(id)
	}
	s.wake()
}

// acknowledge sends acknowledgements in batches until the coordinator refuses them permanently.
func (s *Subscription) acknowledge() error {
	var due time.Time
	for {
		ids, flushes, err := s.collect(due)
		if err != nil {
			return err
		}
		for n := 0; len(ids) > 0; n++ {
			began := time.Now()
			_, err := s.client.Messages.Ack(s.ctx, &v1.AckRequest{MessageIds: ids})
			due = began.Add(max(s.pause, min(ackPauseInCalls*time.Since(began), ackPauseMax)))
			if err == nil {
				break
			}
			failure, ok := err.(*Error)
			isSuperseded := ok && refusals[failure.Reason] == Superseded
			// While it is being reopened, our own next session may have superseded this one, although no answer has come.
			if ok && failure.isFinal() && !(isSuperseded && s.isReopening.Load()) {
				if isSuperseded {
					s.stopReading(errSuperseded)
				}
				return err
			}
			if err := s.client.pause(s.ctx, delay(n)); err != nil {
				return err
			}
		}
		for _, flush := range flushes {
			close(flush)
		}
	}
}

// collect waits for acknowledgements, and then for more until they are due or urgent. It also returns the flushes behind them.
func (s *Subscription) collect(due time.Time) (ids []string, flushes []chan struct{}, err error) {
	add := func(taken ack) {
		if taken.confirmed != nil {
			flushes = append(flushes, taken.confirmed)
		} else {
			ids = append(ids, taken.id)
		}
	}
	select {
	case taken := <-s.acks:
		add(taken)
	case <-s.ctx.Done():
		return nil, nil, s.ctx.Err()
	}
	pause := time.NewTimer(time.Until(due))
	defer pause.Stop()
	for isDue := time.Until(due) <= 0; !isDue && len(flushes) == 0 && len(ids) < s.urgentFrom; {
		select {
		case taken := <-s.acks:
			add(taken)
		case <-pause.C:
			isDue = true
		case <-s.ended:
			isDue = true
		case <-s.ctx.Done():
			return nil, nil, s.ctx.Err()
		}
	}
	for len(s.acks) > 0 && len(ids) < acksInCall {
		add(<-s.acks)
	}
	return ids, flushes, nil
}
