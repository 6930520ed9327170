package teamwire

import (
	"context"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

func (f *fake) WaitForDecision(_ context.Context, request *v1.WaitForDecisionRequest) (*v1.WaitForDecisionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits, f.asked = append(f.waits, request.GetRequestId()), append(f.asked, request.GetTimeout().AsDuration())
	if len(f.decisions) == 0 {
		return nil, status.Error(codes.Unavailable, "gone")
	}
	if f.decisions[0] == broken {
		f.decisions = f.decisions[1:]
		time.Sleep(f.holds)
		f.holds = 1200 * time.Millisecond
		return nil, status.Error(codes.Unavailable, "broken")
	}
	decided := &v1.Request{Member: "ann", Incarnation: 2, Reason: "why", State: f.decisions[0]}
	f.decisions = f.decisions[min(1, len(f.decisions)-1):]
	return &v1.WaitForDecisionResponse{Request: decided}, nil
}

func (f *fake) ListMembers(_ context.Context, request *v1.ListMembersRequest) (*v1.ListMembersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens = append(f.tokens, request.GetPageToken())
	if len(f.pages) == 0 {
		return nil, status.Error(codes.Unavailable, "gone")
	}
	page := f.pages[0]
	f.pages = f.pages[min(1, len(f.pages)-1):]
	return page, nil
}

func (f *fake) CreateTeam(_ context.Context, request *v1.CreateTeamRequest) (*v1.CreateTeamResponse, error) {
	credential := "twm:" + request.GetName() + ":" + request.GetLeadName() + ":0123456789abcdef"
	return &v1.CreateTeamResponse{Team: &v1.Team{Name: request.GetName()}, Credential: credential}, nil
}

func (f *fake) Invite(_ context.Context, request *v1.InviteRequest) (*v1.InviteResponse, error) {
	return &v1.InviteResponse{JoinString: request.GetTeam() + "/" + request.GetMember()}, nil
}

func (f *fake) ForceStop(_ context.Context, request *v1.ForceStopRequest) (*v1.ForceStopResponse, error) {
	return &v1.ForceStopResponse{Member: &v1.Member{Name: request.GetMember(), LastSummary: request.GetReason()}}, nil
}

func (f *fake) DeleteTeam(ctx context.Context, request *v1.DeleteTeamRequest) (*v1.DeleteTeamResponse, error) {
	return &v1.DeleteTeamResponse{}, f.answer(ctx, "", request.GetTeam())
}

const (
	broken   = v1.RequestState(-1) // the call fails
	approved = v1.RequestState_REQUEST_STATE_APPROVED
	stopping = v1.MemberState_MEMBER_STATE_STOPPING
	exited   = v1.MemberState_MEMBER_STATE_EXITED
)

func page(token string, members ...*v1.Member) *v1.ListMembersResponse {
	return &v1.ListMembersResponse{Members: members, NextPageToken: token}
}

func ann(state v1.MemberState, incarnation uint64) *v1.Member {
	code := int32(3)
	member := &v1.Member{Name: "Ann", Incarnation: incarnation, State: state}
	if state == exited {
		member.Exit = &v1.ExitReport{Code: &code}
	}
	return member
}

func TestAShutdownWaitsForTheDecisionAndTheExitThroughAllPages(t *testing.T) {
	f := newFake(t)
	f.decisions = []v1.RequestState{v1.RequestState_REQUEST_STATE_PENDING, approved}
	f.pages = []*v1.ListMembersResponse{
		page("more", &v1.Member{Name: "lead"}), page("", ann(stopping, 2)),
		page("more", &v1.Member{Name: "lead"}), page("", ann(exited, 2)),
	}
	ended, err := client(t, f).Shutdown(context.Background(), "ann", "done", 20*time.Second)
	if err != nil || ended.Request.GetState() != approved || ended.Exit.GetCode() != 3 {
		t.Error(ended, err)
	}
	if !reflect.DeepEqual(f.tokens, []string{"", "more", "", "more"}) {
		t.Error(f.tokens)
	}
}

func TestARejectedShutdownHasNoExitAndAPendingOneIsJoined(t *testing.T) {
	f := newFake(t, refusalWith(codes.FailedPrecondition, "SHUTDOWN_PENDING", map[string]string{"request_id": "req_9"}))
	f.decisions = []v1.RequestState{v1.RequestState_REQUEST_STATE_REJECTED}
	ended, err := client(t, f).Shutdown(context.Background(), "ann", "", time.Minute)
	if err != nil || ended.Request.GetReason() != "why" || ended.Exit != nil || f.waits[0] != "req_9" {
		t.Error(ended, err, f.waits)
	}
}

func TestAShutdownEndsWithoutAnExitIfANewLifeHasBegunOrTheTimeIsOver(t *testing.T) {
	for _, c := range []struct {
		member   *v1.Member
		patience time.Duration
	}{{ann(v1.MemberState_MEMBER_STATE_ACTIVE, 3), time.Minute}, {ann(stopping, 2), 0}} {
		f := newFake(t)
		f.decisions, f.pages = []v1.RequestState{approved}, []*v1.ListMembersResponse{page("", c.member)}
		ended, err := client(t, f).Shutdown(context.Background(), "ann", "", c.patience)
		if err != nil || ended.Request.GetState() != approved || ended.Exit != nil {
			t.Error(ended, err)
		}
	}
}

func TestAShutdownEndsInTimeWithoutAnExitIfTheCoordinatorIsGone(t *testing.T) {
	f := newFake(t)
	f.decisions = []v1.RequestState{approved}
	c := client(t, f)
	c.patience = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended, err := c.Shutdown(ctx, "ann", "", time.Second)
	if err != nil || ended.Request.GetState() != approved || ended.Exit != nil {
		t.Error(ended, err)
	}
}

func TestAWaitForADecisionEndsInTimeIfTheCoordinatorIsGone(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	_, err := client(t, newFake(t)).WaitDecision(ctx, "req_1", time.Second)
	if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
		t.Error(err)
	}
}

func TestAWaitThatBrokeAsksOnlyForTheRestOfItsTime(t *testing.T) {
	f := newFake(t)
	f.decisions = []v1.RequestState{broken, approved}
	if _, err := client(t, f).WaitDecision(context.Background(), "req_1", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if len(f.asked) != 2 || f.asked[1] >= f.asked[0] {
		t.Error(f.asked)
	}
}

func TestAnOutageDuringAWaitCountsFromItsOwnFirstFailure(t *testing.T) {
	f := newFake(t)
	f.decisions = []v1.RequestState{broken, broken, approved}
	c := client(t, f)
	c.patience = time.Second
	if request, err := c.WaitDecision(context.Background(), "req_1", 20*time.Second); err != nil || request.GetState() != approved {
		t.Error(request, err)
	}
}

func TestCreatingATeamReturnsTheClientOfItsLead(t *testing.T) {
	ctx, f := context.Background(), newFake(t)
	operator := client(t, f)
	t.Setenv("TEAMWIRE_TEAM", "other")
	zoe, err := operator.CreateTeam(ctx, "blue", "zoe")
	if err != nil || zoe.Name != "zoe" || zoe.Team != "blue" {
		t.Fatal(zoe, err)
	}
	t.Cleanup(zoe.Close)
	if invited, err := zoe.Invite(ctx, "ann"); err != nil || invited.GetJoinString() != "blue/ann" {
		t.Error(invited, err)
	}
	if stopped, err := zoe.ForceStop(ctx, "ann", "stuck"); err != nil || stopped.GetName() != "ann" || stopped.GetLastSummary() != "stuck" {
		t.Error(stopped, err)
	}
	if _, err := zoe.HandOver(ctx, "ann"); err != nil {
		t.Error(err)
	}
	if err := zoe.DeleteTeam(ctx, "blue"); err != nil || f.calls[len(f.calls)-1].team != "blue" {
		t.Error(err, f.calls)
	}
}

func TestAFlushWithoutAcknowledgementsSendsNone(t *testing.T) {
	f := newFake(t)
	inbox := client(t, f).Subscribe(context.Background())
	if err := inbox.Flush(context.Background()); err != nil || len(f.calls) != 0 {
		t.Error(err, f.calls)
	}
}
