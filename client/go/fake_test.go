package teamwire

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a scripted coordinator.
type fake struct {
	v1.UnimplementedMessageServiceServer
	v1.UnimplementedTeamServiceServer
	v1.UnimplementedRequestServiceServer
	address string

	mu        sync.Mutex
	onCall    func()  // runs once, when the next call arrives
	answers   []error // to the next calls; nil, or none left, means success
	calls     []call
	decisions []v1.RequestState
	pages     []*v1.ListMembersResponse
	waits     []string // the requests waited for
	asked     []time.Duration
	holds     time.Duration // how long the next broken wait lasts
	tokens    []string      // the pages listed
	streams   chan func(grpc.ServerStreamingServer[v1.StreamResponse]) error
	acks      chan []string
}

// call is a call that a fake has answered.
type call struct{ authorization, session, key, team string }

func newFake(t *testing.T, answers ...error) *fake {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, listener, answers...)
}

// serve starts a fake that accepts connections from a listener.
func serve(t *testing.T, listener net.Listener, answers ...error) *fake {
	f := &fake{
		address: "http://" + listener.Addr().String(), answers: answers, acks: make(chan []string, 9),
		streams: make(chan func(grpc.ServerStreamingServer[v1.StreamResponse]) error, 9),
	}
	server := grpc.NewServer()
	v1.RegisterMessageServiceServer(server, f)
	v1.RegisterTeamServiceServer(server, f)
	v1.RegisterRequestServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return f
}

// client returns a client of one or more fakes, tried in this order.
func client(t *testing.T, fakes ...*fake) *Client {
	o := Options{Credential: "twm:acme:bob:0123456789abcdef", Team: "acme", Patience: 10 * time.Second}
	for n, f := range fakes {
		o.Address += map[bool]string{true: ","}[n > 0] + f.address
	}
	c, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	c.place.Store(0)
	t.Cleanup(c.Close)
	return c
}

func (f *fake) answer(ctx context.Context, key, team string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onCall != nil {
		f.onCall()
		f.onCall = nil
	}
	headers, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string { return append(headers.Get(name), "")[0] }
	f.calls = append(f.calls, call{first("authorization"), first("teamwire-session"), key, team})
	if len(f.answers) == 0 {
		return nil
	}
	answer := f.answers[0]
	f.answers = f.answers[1:]
	return answer
}

func (f *fake) Send(ctx context.Context, request *v1.SendRequest) (*v1.SendResponse, error) {
	return &v1.SendResponse{MessageId: "1"}, f.answer(ctx, request.GetIdempotencyKey(), request.GetTeam())
}

func (f *fake) SetLead(ctx context.Context, request *v1.SetLeadRequest) (*v1.SetLeadResponse, error) {
	return &v1.SetLeadResponse{}, f.answer(ctx, "", request.GetTeam())
}

func (f *fake) Ack(ctx context.Context, request *v1.AckRequest) (*v1.AckResponse, error) {
	err := f.answer(ctx, "", "")
	if err == nil {
		f.acks <- request.GetMessageIds()
	}
	return &v1.AckResponse{}, err
}

func (f *fake) Stream(_ *v1.StreamRequest, stream grpc.ServerStreamingServer[v1.StreamResponse]) error {
	select {
	case do := <-f.streams:
		return do(stream)
	case <-stream.Context().Done():
		return nil
	}
}

// refusal returns an error as a coordinator sends it.
func refusal(code codes.Code, reason string, more ...protoadapt.MessageV1) error {
	return refusalWith(code, reason, map[string]string{"closest": "bob"}, more...)
}

func refusalWith(code codes.Code, reason string, metadata map[string]string, more ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Domain: "teamwire", Reason: reason, Metadata: metadata}
	refused, err := status.New(code, "no").WithDetails(append(more, info)...)
	if err != nil {
		panic(err)
	}
	return refused.Err()
}

var draining = refusal(codes.Unavailable, "DRAINING")

func retryIn(delay time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
}
