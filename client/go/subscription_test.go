package teamwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

func opened(id string) *v1.StreamResponse {
	session := &v1.SessionOpened{SessionId: id, HeartbeatInterval: durationpb.New(100 * time.Millisecond)}
	return &v1.StreamResponse{Frame: &v1.StreamResponse_Opened{Opened: session}}
}

func delivery(id string) *v1.StreamResponse {
	message := &v1.Message{Id: id, Body: &v1.Message_Message{Message: &v1.DirectMessage{}}}
	return &v1.StreamResponse{Frame: &v1.StreamResponse_Delivery{Delivery: &v1.Delivery{Message: message}}}
}

func shutdown(id string) *v1.StreamResponse {
	frame := delivery(id)
	frame.GetDelivery().Message.Body = &v1.Message_ShutdownRequest{ShutdownRequest: &v1.ShutdownRequest{}}
	return frame
}

func closing(reason v1.CloseReason) *v1.StreamResponse {
	frame := &v1.SessionClosing{Reason: reason, RequestId: "req_1"}
	return &v1.StreamResponse{Frame: &v1.StreamResponse_Closing{Closing: frame}}
}

// says makes the next session send these frames, wait for goOn, and end with an error or a frame.
func (f *fake) says(end any, frames ...*v1.StreamResponse) (goOn context.CancelFunc) {
	wait, goOn := context.WithCancel(context.Background())
	f.streams <- func(stream grpc.ServerStreamingServer[v1.StreamResponse]) error {
		for _, frame := range frames {
			if err := stream.Send(frame); err != nil {
				return err
			}
		}
		select {
		case <-wait.Done():
		case <-stream.Context().Done():
		}
		if last, ok := end.(*v1.StreamResponse); ok {
			return stream.Send(last)
		}
		err, _ := end.(error)
		return err
	}
	return goOn
}

func next(t *testing.T, inbox *Subscription) *Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	message, err := inbox.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

func TestAMessageIsHandedOutOnceThroughReconnectsAndItsLostAcknowledgementIsResent(t *testing.T) {
	one, two, three := uuid.NewString(), uuid.NewString(), uuid.NewString()
	f := newFake(t)
	breaks := f.says(draining, opened("s1"), delivery(one), delivery(two))
	c := client(t, f)
	inbox := c.Subscribe(context.Background())
	first, second := next(t, inbox), next(t, inbox)
	if first.GetId() != one || second.GetId() != two {
		t.Fatal(first, second)
	}
	first.Ack()
	if err := inbox.Flush(context.Background()); err != nil || fmt.Sprint(<-f.acks) != fmt.Sprint([]string{one}) || f.calls[0].session != "s1" {
		t.Fatal(err, f.calls)
	}
	ends := f.says(closing(ShutdownApproved), opened("s2"), delivery(one), delivery(two), delivery(three))
	breaks()
	if third := next(t, inbox); third.GetId() != three {
		t.Fatal(third)
	}
	if again := <-f.acks; len(again) != 1 || again[0] != one {
		t.Error(again)
	}
	ends()
	for message := range inbox.Messages() {
		t.Error(message)
	}
	if inbox.End() != (End{ShutdownApproved, "req_1"}) || inbox.Err() != nil {
		t.Error(inbox.End(), inbox.Err())
	}
}

func TestShutdownRequestsComeFirstAndTheEndBeforeAllMessages(t *testing.T) {
	f := newFake(t)
	ends := f.says(nil, opened("s1"), delivery("a"), delivery("b"), shutdown("c"), shutdown("d"), delivery("e"))
	inbox := client(t, f).Subscribe(context.Background())
	await(inbox, 3)
	for _, id := range []string{"c", "d", "a"} {
		if message := next(t, inbox); message.GetId() != id {
			t.Error(id, message)
		}
	}
	f.says(refusal(codes.Aborted, "SESSION_SUPERSEDED"))()
	ends()
	if inbox.End().Reason != Superseded {
		t.Error(inbox.End())
	}
	if message, err := inbox.Next(context.Background()); err != io.EOF {
		t.Error(message, err)
	}
}

// await waits until this many messages besides shutdown requests wait to be taken.
func await(inbox *Subscription, count int) {
	for waiting := 0; waiting < count; time.Sleep(time.Millisecond) {
		inbox.mu.Lock()
		waiting = len(inbox.waiting)
		inbox.mu.Unlock()
	}
}

// The reader used to stop at 4,096 waiting messages, so that it saw neither a shutdown request nor the end behind them.
func TestAShutdownRequestAndTheEndOvertakeUnreadMessages(t *testing.T) {
	frames := []*v1.StreamResponse{opened("s1")}
	for n := range 5000 {
		frames = append(frames, delivery(fmt.Sprint(n)))
	}
	f := newFake(t)
	ends := f.says(closing(ShutdownApproved), append(frames, shutdown("last"), delivery("after it"))...)
	inbox := client(t, f).Subscribe(context.Background())
	await(inbox, 5001)
	if message := next(t, inbox); message.GetId() != "last" {
		t.Error(message)
	}
	ends()
	if inbox.End().Reason != ShutdownApproved {
		t.Error(inbox.End())
	}
}

func TestAProxyErrorDoesNotEndAnEstablishedSubscription(t *testing.T) {
	proxy := httptest.NewServer(http.NotFoundHandler()) // speaks only HTTP/1.1
	t.Cleanup(proxy.Close)
	f := newFake(t)
	breaks := f.says(draining, opened("s1"), delivery("a"))
	inbox := client(t, f, &fake{address: proxy.URL}).Subscribe(context.Background())
	next(t, inbox)
	f.says(nil, opened("s2"), delivery("b"))
	breaks()
	if message := next(t, inbox); message.GetId() != "b" {
		t.Error(message)
	}
	inbox = client(t, &fake{address: proxy.URL}).Subscribe(context.Background())
	if inbox.Err() == nil {
		t.Error("no coordinator has ever answered there")
	}
}

func TestAnUnknownCloseReasonEndsOnlyTheSession(t *testing.T) {
	f := newFake(t)
	f.says(closing(99), opened("s1"))()
	f.says(closing(TeamDeleted), opened("s2"))()
	if inbox := client(t, f).Subscribe(context.Background()); inbox.End().Reason != TeamDeleted {
		t.Error(inbox.End())
	}
}

func TestASilentSessionIsReplaced(t *testing.T) {
	f := newFake(t)
	f.says(nil, opened("s1")) // then silence; the limit is three times 100 ms, but at least 1 s
	f.says(refusal(codes.Unauthenticated, "CREDENTIAL_INVALID"))()
	began := time.Now()
	inbox := client(t, f).Subscribe(context.Background())
	var e *Error
	if !errors.As(inbox.Err(), &e) || e.Reason != "CREDENTIAL_INVALID" || time.Since(began) < time.Second {
		t.Error(inbox.Err(), time.Since(began))
	}
}

func TestACallSupersededByOurOwnNextSessionIsRetriedInIt(t *testing.T) {
	f := newFake(t, refusal(codes.Aborted, "SESSION_SUPERSEDED"), nil, refusal(codes.Aborted, "SESSION_SUPERSEDED"))
	breaks := f.says(draining, opened("s1"), delivery("a"))
	ends := f.says(closing(Superseded), opened("s2"), delivery("b"))
	c := client(t, f)
	inbox := c.Subscribe(context.Background())
	next(t, inbox)
	f.onCall = func() { time.AfterFunc(50*time.Millisecond, breaks) }
	if _, err := c.Send(context.Background(), "ann", "hi", "hello"); err != nil || f.calls[0].session != "s1" || f.calls[1].session != "s2" {
		t.Error(err, f.calls)
	}
	next(t, inbox)
	f.onCall = func() { time.AfterFunc(50*time.Millisecond, ends) }
	var e *Error
	if _, err := c.Send(context.Background(), "ann", "hi", "hello"); !errors.As(err, &e) || e.Reason != "SESSION_SUPERSEDED" {
		t.Error("another process has taken over: ", err)
	}
}

func TestASupersededAcknowledgementEndsASubscriptionWhoseStreamIsSilent(t *testing.T) {
	f := newFake(t, refusal(codes.Aborted, "SESSION_SUPERSEDED"))
	first := opened("s1")
	first.GetOpened().HeartbeatInterval = durationpb.New(time.Minute) // a silent stream is not reopened meanwhile
	defer f.says(nil, first, delivery(uuid.NewString()))()
	inbox := client(t, f).Subscribe(context.Background())
	next(t, inbox).Ack()
	if message, err := inbox.Next(context.Background()); err != io.EOF || inbox.End().Reason != Superseded {
		t.Error(message, err, inbox.End())
	}
}

func TestASubscriptionEndsWithItsContextOrItsClient(t *testing.T) {
	c := client(t, newFake(t))
	ctx, cancel := context.WithCancel(context.Background())
	inbox := c.Subscribe(ctx)
	cancel()
	if !errors.Is(inbox.Err(), context.Canceled) || !errors.Is(inbox.Flush(context.Background()), context.Canceled) {
		t.Error(inbox.Err())
	}
	inbox = c.Subscribe(context.Background())
	c.Close()
	if err := inbox.Err(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheOldestMessageIsForgottenWhenTheWindowIsFull(t *testing.T) {
	w := window{acked: map[string]bool{}}
	for n := range remembered + 1 {
		w.put(fmt.Sprint(n), n%2 == 0)
	}
	w.put("7", true)
	_, isFirst := w.acked["0"]
	if isFirst || !w.acked["7"] || !w.acked["2"] || len(w.acked) != remembered || len(w.order) != remembered {
		t.Error(isFirst, len(w.acked), len(w.order))
	}
}

func TestAcknowledgementsInQuickSuccessionShareACallUnlessTheyAreUrgent(t *testing.T) {
	// So long that only the first acknowledgement and urgent ones are sent.
	defer func(pause time.Duration) { ackPause = pause }(ackPause)
	ackPause = time.Hour
	for window, half := range map[uint32]int{0: 32, 64: 32, 5: 3} {
		f := newFake(t)
		ends := f.says(closing(ShutdownApproved), opened("s1"))
		inbox := client(t, f).Subscribe(context.Background(), func(r *v1.StreamRequest) { r.UnackedMessagesMax = window })
		ack := func(count int) (ids []string) {
			for range count {
				ids = append(ids, uuid.NewString())
				inbox.Ack(ids[len(ids)-1])
			}
			return ids
		}
		sent := func(ids []string) {
			t.Helper()
			if got := <-f.acks; !slices.Equal(got, ids) {
				t.Fatal(len(got), len(ids))
			}
		}
		sent(ack(1))
		waiting := ack(half - 1)
		if err := inbox.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		sent(waiting)
		sent(ack(half))
		last := ack(2)
		ends()
		sent(last)
	}
}

func TestWithoutAFlushTheNextCallBegins20MsAfterTheOneBefore(t *testing.T) {
	if took := timeOfTwoAcks(t, newFake(t)); took < 20*time.Millisecond {
		t.Error(took)
	}
}

func TestAfterASlowCallTheNextOneBeginsUpTo100MsAfterIt(t *testing.T) {
	f := newFake(t)
	f.onCall = func() { time.Sleep(ackPauseMax / ackPauseInCalls) } // what is tested is how long it takes
	if took := timeOfTwoAcks(t, f); took < ackPauseMax {
		t.Error(took)
	}
}

func timeOfTwoAcks(t *testing.T, f *fake) time.Duration {
	t.Helper()
	f.says(nil, opened("s1"))
	inbox, began := client(t, f).Subscribe(context.Background()), time.Now()
	for range 2 {
		id := uuid.NewString()
		inbox.Ack(id)
		if got := <-f.acks; len(got) != 1 || got[0] != id {
			t.Fatal(got)
		}
	}
	return time.Since(began)
}
