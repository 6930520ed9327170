package teamwire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// Options are a client's identity and the address of its coordinator. Empty fields come from the environment and, if neither
// has a credential, from the context file that `teamwire join` writes.
type Options struct {
	// Address is https://HOST:PORT, http://HOST:PORT or unix:///PATH, or up to 16 of coordinators that share a store, separated
	// by commas. Environment: TEAMWIRE_ADDRESS. Default: the socket of this user's coordinator on this machine.
	Address string
	// Credential is a secret. Environment: TEAMWIRE_CREDENTIAL.
	Credential string
	// Team is filled into requests that name none; only an operator needs it. Environment: TEAMWIRE_TEAM.
	Team string
	// TLS applies to https addresses. Environment: TEAMWIRE_CA, TEAMWIRE_CERT, TEAMWIRE_KEY.
	TLS
	// Patience limits all attempts of a call together, or for a call that waits at the coordinator, those of one outage. Zero means
	// 10 minutes. The call's context may end it sooner.
	Patience time.Duration
	// DialOptions are passed to gRPC, for example a stats handler that records traces.
	DialOptions []grpc.DialOption

	// bound says that the credential belongs to https addresses; empty if it may be sent to any.
	bound string
}

func with(options []func(*Options)) (o Options) {
	for _, set := range options {
		set(&o)
	}
	return o
}

var credentialForm = regexp.MustCompile(`^[!-~]+$`)

// complete fills empty fields from the environment and the context file.
func (o *Options) complete() error {
	if err := checkWithinRunner(o.Credential); err != nil {
		return err
	}
	o.Credential = cmp.Or(o.Credential, os.Getenv("TEAMWIRE_CREDENTIAL"))
	o.Address = cmp.Or(o.Address, os.Getenv("TEAMWIRE_ADDRESS"))
	o.Team = cmp.Or(o.Team, os.Getenv("TEAMWIRE_TEAM"))
	o.fill(TLS{CA: os.Getenv("TEAMWIRE_CA"), Cert: os.Getenv("TEAMWIRE_CERT"), Key: os.Getenv("TEAMWIRE_KEY")})
	if o.Credential == "" {
		identity, err := readIdentity(o.Team)
		if err != nil {
			return err
		}
		if o.Address == "" && isUnproven(identity.Address) {
			return fmt.Errorf("teamwire: %s@%s was saved for %s, where any program on this machine can listen, so its credential is "+
				"not sent there unasked: if the coordinator is there, set TEAMWIRE_ADDRESS", identity.Member, identity.Team, identity.Address)
		}
		o.Credential, o.Address = identity.Credential, cmp.Or(o.Address, identity.Address)
		o.fill(identity.TLS)
		if isHTTPS(identity.Address) {
			o.bound = fmt.Sprintf("%s@%s was saved for %s, so its credential", identity.Member, identity.Team, identity.Address)
		}
	}
	if !credentialForm.MatchString(o.Credential) {
		return errors.New("teamwire: the credential has invalid characters: paste it exactly as it was issued")
	}
	o.Address = cmp.Or(o.Address, defaultAddress())
	o.Patience = cmp.Or(o.Patience, 10*time.Minute)
	return nil
}

// defaultAddress returns the socket of this user's coordinator, in its state directory.
func defaultAddress() string {
	home, _ := os.UserHomeDir()
	directory := cmp.Or(os.Getenv("XDG_STATE_HOME"), filepath.Join(home, ".local", "state"))
	state := cmp.Or(os.Getenv("TEAMWIRE_STATE_DIR"), filepath.Join(directory, "teamwire"))
	path := (&url.URL{Path: filepath.Join(state, "coordinator.sock")}).EscapedPath()
	return "unix://" + strings.ReplaceAll(path, ",", "%2C")
}

// contextFile holds this user's identities, one per team and member.
type contextFile struct {
	Current    string
	Identities []identity
}

type identity struct {
	Team, Member, Address, Credential string
	TLS                               TLS
}

func readIdentity(team string) (identity, error) {
	home, _ := os.UserHomeDir()
	directory := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	path := cmp.Or(os.Getenv("TEAMWIRE_CONTEXT"), filepath.Join(directory, "teamwire", "context.json"))
	if err := refuseShared(path); err != nil {
		return identity{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return identity{}, fmt.Errorf("teamwire: set TEAMWIRE_CREDENTIAL, or `teamwire join` a team: %w", err)
	}
	var file contextFile
	if err := json.Unmarshal(text, &file); err != nil {
		return identity{}, fmt.Errorf("teamwire: cannot read %s: %w", path, err)
	}
	return file.choose(os.Getenv("TEAMWIRE_AS"), team)
}

// choose returns the named identity, else the current one, else the only one. A non-empty team limits the choice to it.
func (f contextFile) choose(as, team string) (identity, error) {
	matching := func(who string) (found []identity) {
		member, of, _ := strings.Cut(who, "@")
		for _, i := range f.Identities {
			fits := func(wanted, is string) bool { return wanted == "" || strings.EqualFold(wanted, is) }
			if fits(member, i.Member) && fits(of, i.Team) && fits(team, i.Team) {
				found = append(found, i)
			}
		}
		return found
	}
	found := matching(as)
	if current := matching(f.Current); as == "" && len(current) == 1 {
		found = current
	}
	if len(found) != 1 {
		return identity{}, fmt.Errorf("teamwire: %d identities of the context file match: set TEAMWIRE_AS to the NAME or "+
			"NAME@TEAM of one, and unset TEAMWIRE_TEAM or set it to that team", len(found))
	}
	return found[0], nil
}
