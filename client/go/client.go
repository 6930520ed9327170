// Package teamwire is the Go client of teamwire: join a team of agents, send messages, and read the inbox.
//
// A [Client] holds the generated stubs for every call of the protocol, and helpers for the most common ones. Each call is
// retried with the same idempotency key until its outcome is known; a refused one returns an [*Error] with its reason.
// [Client.Subscribe] hands out each message of the caller's inbox once, through reconnects. Every call honors its context,
// and [Client.Close] ends all goroutines and connections.
package teamwire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

// Client calls a coordinator, or one of several that share a store. It connects on first use, and reconnects when needed. It
// is safe for concurrent use.
type Client struct {
	Messages v1.MessageServiceClient
	Teams    v1.TeamServiceClient
	Requests v1.RequestServiceClient
	Tasks    v1.TaskServiceClient
	History  v1.HistoryServiceClient
	Hosts    v1.HostServiceClient
	Watches  v1.WatchServiceClient
	Access   v1.AccessServiceClient
	Audit    v1.AuditServiceClient

	// Name is the caller's name. Empty if the credential is not a member's.
	Name string
	// Team is the caller's team. Empty for an operator that has chosen none.
	Team string

	options    func() Options // a function, so that printing a Client shows no credential
	bearer     func() string
	isOperator bool
	patience   time.Duration
	conns      []*grpc.ClientConn
	place      atomic.Int32 // the index of the one that new calls use
	isTrusted  atomic.Bool  // a coordinator has answered, so a TLS failure may be temporary
	session    atomic.Pointer[session]
	ctx        context.Context // canceled by Close
	cancel     context.CancelFunc
	running    sync.WaitGroup
}

// Connect creates a client and gets its team from the coordinator, so a wrong address or credential fails here.
func Connect(ctx context.Context, options ...func(*Options)) (*Client, error) {
	c, err := open(with(options))
	if err != nil || c.isOperator && c.Team == "" { // an operator without a team has nothing to get
		return c, err
	}
	reply, err := c.Teams.GetTeam(ctx, &v1.GetTeamRequest{})
	if err != nil {
		c.Close()
		return nil, err
	}
	c.Team = reply.GetTeam().GetName()
	return c, nil
}

// Join joins a team with a join string, as `teamwire invite` prints it, or a bare join token, and returns the new member's
// client. name may be empty if the token is bound to one.
func Join(ctx context.Context, joinString, name string, options ...func(*Options)) (*Client, error) {
	return join(ctx, joinString, &v1.JoinRequest{Name: name}, with(options))
}

func join(ctx context.Context, joinString string, request *v1.JoinRequest, o Options) (*Client, error) {
	token, place, hasPlace := strings.Cut(strings.TrimSpace(joinString), "@")
	addresses, fingerprint, isPinned := strings.Cut(place, "+")
	if token == "" || hasPlace && addresses == "" || isPinned && (fingerprint == "" || !isHTTPS(addresses)) {
		return nil, errors.New("teamwire: the join string is malformed: paste it exactly as `teamwire invite` printed it")
	}
	o.Credential, o.Address = token, cmp.Or(o.Address, addresses)
	o.fill(TLS{Fingerprint: fingerprint})
	if isHTTPS(addresses) {
		o.bound = fmt.Sprintf("the join string is for %s, so it", addresses)
	}
	c, err := open(o)
	if err != nil {
		return nil, err
	}
	joined, err := c.Teams.Join(ctx, request)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.bearer = func() string { return "Bearer " + joined.GetCredential() }
	c.Name, c.Team = joined.GetMember().GetName(), joined.GetTeam().GetName()
	return c, nil
}

// open creates a client. It does not connect.
func open(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	addresses, err := parseAddresses(o.Address)
	if err != nil {
		return nil, err
	}
	if o.bound != "" && addresses[0].scheme == "http" {
		return nil, fmt.Errorf("teamwire: %s is not sent over http: write the address with https://, or leave it out "+
			"(TEAMWIRE_ADDRESS)", o.bound)
	}
	c := &Client{
		patience: o.Patience, Team: o.Team,
		options: func() Options { return o }, bearer: func() string { return "Bearer " + o.Credential },
	}
	// A credential names its kind and owner in clear text: two:SECRET, twm:TEAM:MEMBER:SECRET.
	parts := strings.Split(o.Credential, ":")
	if c.isOperator = parts[0] == "two"; parts[0] == "twm" && len(parts) == 4 {
		c.Name = parts[2]
	}
	if c.Team == "" && len(parts) == 4 {
		c.Team = parts[1]
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.session.Store(noSession)
	for _, address := range addresses {
		if address.scheme == "unix" {
			// A missing one may appear. Every connection is checked, too.
			if err := refuseForeignSocket(address.place); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.Close()
				return nil, err
			}
		}
		conn, err := o.dial(address)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	c.place.Store(rand.Int32N(int32(len(c.conns))))
	c.Messages, c.Teams, c.Requests = v1.NewMessageServiceClient(c), v1.NewTeamServiceClient(c), v1.NewRequestServiceClient(c)
	c.Tasks, c.History, c.Hosts = v1.NewTaskServiceClient(c), v1.NewHistoryServiceClient(c), v1.NewHostServiceClient(c)
	c.Watches, c.Access, c.Audit = v1.NewWatchServiceClient(c), v1.NewAccessServiceClient(c), v1.NewAuditServiceClient(c)
	return c, nil
}

// dial returns a connection to an address, which connects on first use.
func (o Options) dial(address address) (*grpc.ClientConn, error) {
	target, creds := "dns:///"+address.place, insecure.NewCredentials()
	options := o.DialOptions
	switch address.scheme {
	case "https":
		host, _, _ := net.SplitHostPort(address.place)
		config, err := o.config(host)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	case "unix":
		target = "passthrough:///localhost"
		options = append([]grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if err := refuseForeignSocket(address.place); err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, "unix", address.place)
		})}, options...)
	}
	return grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		// Try the addresses of a name one after the other, in random order.
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"pick_first":{"shuffleAddressList":true}}]}`),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: delayMin, Multiplier: 2, Jitter: 0.5, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 20 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true,
		}),
	}, options...)...)
}

// Close ends all calls, subscriptions and connections. Acknowledgements that are not flushed are lost, and their messages are
// redelivered.
func (c *Client) Close() {
	c.cancel()
	c.running.Wait()
	for _, conn := range c.conns {
		_ = conn.Close() // it only reports that it was already closed
	}
}

func isHTTPS(address string) bool { return strings.HasPrefix(strings.ToLower(address), "https:") }

var addressForm = regexp.MustCompile(`^(?:(https?)://)?(?:([a-z0-9._-]{1,253})|\[([0-9a-f:.]+)\])(?::([0-9]{1,5}))?/?$`)

// address is where a coordinator is: HOST:PORT, or with the scheme unix the path of a socket.
type address struct{ scheme, place string }

// parseAddresses returns a single address twice, so that the client has a second connection to switch to. Errors do not quote
// the text: it may be a join string.
func parseAddresses(text string) (addresses []address, err error) {
	parts := strings.Split(text, ",")
	for n, part := range parts {
		parsed, err := parseAddress(strings.TrimSpace(part))
		if err != nil || len(parts) > 16 {
			return nil, fmt.Errorf("teamwire: address %d is malformed: write https://HOST:PORT, http://HOST:PORT or unix:///PATH, or "+
				"up to 16 of them separated by commas", n+1)
		}
		if n > 0 && addresses[0].scheme != parsed.scheme {
			return nil, errors.New("teamwire: the addresses mix http, https and unix")
		}
		addresses = append(addresses, parsed)
	}
	if len(addresses) == 1 {
		addresses = append(addresses, addresses[0])
	}
	return addresses, nil
}

var errMalformed = errors.New("malformed")

func parseAddress(text string) (address, error) {
	if scheme, path, _ := strings.Cut(text, "://"); strings.EqualFold(scheme, "unix") {
		path, err := url.PathUnescape(path)
		if err != nil || !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "\x00") {
			return address{}, errMalformed
		}
		return address{"unix", path}, nil
	}
	form := addressForm.FindStringSubmatch(strings.ToLower(text))
	if form == nil || form[3] != "" && net.ParseIP(form[3]) == nil {
		return address{}, errMalformed
	}
	scheme, host := cmp.Or(form[1], "http"), cmp.Or(form[2], form[3])
	port := cmp.Or(form[4], map[string]string{"http": "80", "https": "443"}[scheme])
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return address{}, errMalformed
	}
	return address{scheme, net.JoinHostPort(host, port)}, nil
}

// isUnproven returns whether any program of this machine could listen at one of the addresses.
func isUnproven(text string) bool {
	addresses, _ := parseAddresses(text)
	return slices.ContainsFunc(addresses, func(a address) bool {
		host, _, _ := net.SplitHostPort(a.place)
		isLocal := host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
		return a.scheme == "http" && isLocal
	})
}
