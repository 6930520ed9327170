package teamwire

import (
	"context"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

// InviteHost creates a join token for a host of this name, or if empty of any free one.
func (c *Client) InviteHost(ctx context.Context, name string) (*v1.InviteResponse, error) {
	return c.Teams.Invite(ctx, &v1.InviteRequest{Member: name, Host: true})
}

// JoinHost joins a team as a host with a join string, as `teamwire invite --host` prints it, and returns the host's client. See
// [Join].
func JoinHost(ctx context.Context, joinString, name string, options ...func(*Options)) (*Client, error) {
	return join(ctx, joinString, &v1.JoinRequest{Name: name, Host: true}, with(options))
}

// Spawn orders a member from a host. If host is empty, the coordinator chooses one. The reply has the Member, which is still
// spawning, and the order as its Request: WaitDecision waits for the start. Hosts.Spawn has more options.
func (c *Client) Spawn(ctx context.Context, name, profile, prompt, host string) (*v1.SpawnResponse, error) {
	return c.Hosts.Spawn(ctx, &v1.SpawnRequest{Name: name, Profile: profile, Prompt: prompt, Host: host})
}

// AllHosts lists all hosts in the order in which they first joined, including those that have exited.
func (c *Client) AllHosts(ctx context.Context) ([]*v1.Host, error) {
	var hosts []*v1.Host
	for request := (&v1.ListHostsRequest{PageSize: pageMax}); ; {
		page, err := c.Hosts.ListHosts(ctx, request)
		hosts = append(hosts, page.GetHosts()...)
		if request.PageToken = page.GetNextPageToken(); err != nil || request.PageToken == "" {
			return hosts, err
		}
	}
}

// UpdateHost says what the caller, a host, offers from now on. It returns the host after the change.
func (c *Client) UpdateHost(ctx context.Context, offer *v1.HostOffer) (*v1.Host, error) {
	reply, err := c.Hosts.UpdateHost(ctx, &v1.UpdateHostRequest{Offer: offer})
	return reply.GetHost(), err
}

// TakeOrder takes an order that the caller, a host, has in its inbox as a SpawnOrder. The reply has the order as its Request, and
// the JoinToken of the member to start, a secret. The token of an earlier call is void.
func (c *Client) TakeOrder(ctx context.Context, requestID string) (*v1.TakeOrderResponse, error) {
	return c.Hosts.TakeOrder(ctx, &v1.TakeOrderRequest{RequestId: requestID})
}

// RefuseOrder refuses an order as a host. It returns the order, which is still pending if another host has it now.
func (c *Client) RefuseOrder(ctx context.Context, requestID, reason string, tryAnotherHost bool) (*v1.Request, error) {
	refusal := &v1.RefuseOrderRequest{RequestId: requestID, Reason: reason, TryAnotherHost: tryAnotherHost}
	reply, err := c.Hosts.RefuseOrder(ctx, refusal)
	return reply.GetRequest(), err
}

// ReportExit reports that nothing runs anymore of the member that the caller, a host, started for this order. A nil exit means
// that it is unknown how it ended.
func (c *Client) ReportExit(ctx context.Context, requestID string, exit *v1.ExitReport) error {
	_, err := c.Hosts.ReportExit(ctx, &v1.ReportExitRequest{RequestId: requestID, Exit: exit})
	return err
}
