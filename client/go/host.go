package teamwire

import (
	"context"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

// JoinHost joins a team as a host with a join string, as `teamwire invite --host` prints it, and returns the host's client. See
// [Join].
func JoinHost(ctx context.Context, joinString, name string, options ...func(*Options)) (*Client, error) {
	return join(ctx, joinString, &v1.JoinRequest{Name: name, Host: true}, with(options))
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
