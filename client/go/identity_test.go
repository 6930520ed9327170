package teamwire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheIdentityIsSelectedAndNeverGuessed(t *testing.T) {
	file := contextFile{}
	for _, who := range []string{"lead@b", "Bob@A", "lead@A", "solo@c"} {
		member, team, _ := strings.Cut(who, "@")
		file.Identities = append(file.Identities, identity{Member: member, Team: team})
	}
	for _, test := range []struct{ as, team, current, chosen string }{
		{chosen: ""},
		{current: "Bob@A", chosen: "Bob@A"},
		{current: "bob@a", team: "a", chosen: "Bob@A"},
		{current: "Bob@A", team: "c", chosen: "solo@c"},
		{current: "Bob@A", as: "LEAD", team: "a", chosen: "lead@A"},
		{current: "Bob@A", as: "lead", chosen: ""},
		{as: "bob", chosen: "Bob@A"},
		{as: "bob@a", team: "b", chosen: ""},
		{current: "Bob@A", as: "eve", chosen: ""},
		{team: "A", chosen: ""},
		{team: "c", chosen: "solo@c"},
		{current: "gone@A", team: "c", chosen: "solo@c"},
	} {
		file.Current = test.current
		found, err := file.choose(test.as, test.team)
		if chosen := found.Member + "@" + found.Team; err == nil && chosen != test.chosen || (err != nil) != (test.chosen == "") {
			t.Errorf("%+v: %s, %v", test, chosen, err)
		}
	}
}

// environment clears the machine's variables, and writes a context file.
func environment(t *testing.T, text string) {
	for _, name := range []string{"ADDRESS", "CREDENTIAL", "TEAM", "CA", "CERT", "KEY", "AS", "RUN", "MEMBER"} {
		t.Setenv("TEAMWIRE_"+name, "")
	}
	path := filepath.Join(t.TempDir(), "context.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEAMWIRE_CONTEXT", path)
}

const bob = `{"current": null, "identities": [{"team": "acme", "member": "bob", "address": "https://a:1",
	"credential": "twm:acme:bob:0123456789abcdef", "tls": {"fingerprint": "sha256:00", "cert": "me.crt", "key": "me.key"}}]}`

func TestPrecedenceIsOptionsThenEnvironmentThenContextFile(t *testing.T) {
	environment(t, bob)
	o := Options{}
	if err := o.complete(); err != nil || o.Address != "https://a:1" || o.Fingerprint != "sha256:00" || o.Cert != "me.crt" {
		t.Errorf("not the context file's: %q %v", o.Address, err)
	}
	t.Setenv("TEAMWIRE_ADDRESS", "b:2")
	t.Setenv("TEAMWIRE_CA", "ca.crt")
	o = Options{}
	if err := o.complete(); err != nil || o.Address != "b:2" || o.CA != "ca.crt" || o.Fingerprint != "" || o.Key != "me.key" {
		t.Errorf("not the environment's: %q %v", o.Address, err)
	}
	t.Setenv("TEAMWIRE_CREDENTIAL", "twm:acme:ann:0123456789abcdef")
	o = Options{Address: "c:3"}
	if err := o.complete(); err != nil || o.Address != "c:3" || o.Key != "" || o.Credential != "twm:acme:ann:0123456789abcdef" {
		t.Errorf("not the program's: %q %v", o.Address, err)
	}
}

func TestAnUnusableIdentityIsRefusedWithARemedy(t *testing.T) {
	for _, text := range []string{"", "[]", "{", `{"identities": []}`, `{"identities": 7}`} {
		environment(t, text)
		if err := new(Options).complete(); err == nil || !strings.Contains(err.Error(), "teamwire: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
	environment(t, bob)
	t.Setenv("TEAMWIRE_CREDENTIAL", "secret\nvalue")
	if err := new(Options).complete(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	environment(t, bob)
	o := Options{Credential: "twm:acme:bob:SECRET", TLS: TLS{Key: "-----BEGIN SECRET"}}
	client, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text, _ := json.Marshal(o)
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s", o, o, &o, o), fmt.Sprintf("%v %+v %#v", client, client, client), string(text)} {
		if strings.Contains(shown, "SECRET") {
			t.Error(shown)
		}
	}
}

func TestACredentialForHTTPSIsNotSentOverHTTP(t *testing.T) {
	for _, address := range []string{"http://a:1", "a:1"} {
		environment(t, bob)
		if _, err := open(Options{Address: address}); err == nil || !strings.Contains(err.Error(), "bob@acme was saved for https://a:1, so") {
			t.Errorf("option %s: %v", address, err)
		}
		to := func(o *Options) { o.Address = address }
		if _, err := Join(t.Context(), "twj:acme:x:0123456789abcdef@https://a:1", "", to); err == nil || !strings.Contains(err.Error(), "not sent over http") {
			t.Errorf("join %s: %v", address, err)
		}
		t.Setenv("TEAMWIRE_ADDRESS", address)
		if _, err := open(Options{}); err == nil || !strings.Contains(err.Error(), "not sent over http") {
			t.Errorf("environment %s: %v", address, err)
		}
	}
}

func TestACredentialForPlainLoopbackIsNotSentThereUnasked(t *testing.T) {
	environment(t, strings.Replace(bob, "https://a:1", "http://localhost:1", 1))
	if _, err := open(Options{}); err == nil || !strings.Contains(err.Error(), "any program on this machine can listen") {
		t.Errorf("%v", err)
	}
	t.Setenv("TEAMWIRE_ADDRESS", "http://localhost:1")
	c, err := open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestTheDefaultAddressIsTheSocketInTheStateDirectory(t *testing.T) {
	environment(t, bob)
	t.Setenv("TEAMWIRE_STATE_DIR", "/a b")
	o := Options{Credential: "two:x"}
	if err := o.complete(); err != nil || o.Address != "unix:///a%20b/coordinator.sock" {
		t.Errorf("%q %v", o.Address, err)
	}
}

func TestWithinARunnerOnlyTheRunnersMemberIsUsed(t *testing.T) {
	const own, lead = "twm:acme:ann:0123456789abcdef", "twm:acme:lead:0123456789abcdef"
	within := func(given string, pairs ...string) error {
		environment(t, bob)
		for _, pair := range append([]string{"RUN=run-1", "MEMBER=ann", "CREDENTIAL=" + own}, pairs...) {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv("TEAMWIRE_"+name, value)
		}
		return (&Options{Credential: given}).complete()
	}
	for _, err := range []error{within(""), within(own), within("", "AS=Ann@Acme", "TEAM=ACME")} {
		if err != nil {
			t.Error(err)
		}
	}
	for n, err := range []error{
		within(lead), within("twj:acme:x:0123456789abcdef"), within("", "CREDENTIAL="), within("", "CREDENTIAL="+lead),
		within("", "CREDENTIAL=two:0123456789abcdef", "MEMBER="), within("", "TEAM=blue"), within("", "AS=lead"), within("", "AS=ann@blue"),
	} {
		if err == nil || !strings.Contains(err.Error(), "runs under `teamwire run`") || strings.Contains(err.Error(), "0123456789abcdef") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestAContextFileThatOtherUsersCanAccessIsRefused(t *testing.T) {
	environment(t, bob)
	for _, mode := range []os.FileMode{0o644, 0o620, 0o602} {
		if err := os.Chmod(os.Getenv("TEAMWIRE_CONTEXT"), mode); err != nil {
			t.Fatal(err)
		}
		if err := new(Options).complete(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(mode %o), so it is not trusted", mode)) {
			t.Errorf("%o: %v", mode, err)
		}
	}
}

func TestASocketIsAnotherUsersIfNoOneElseCouldHavePutItThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	const other = 65_534
	directory, err := os.MkdirTemp("/run", "teamwire-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	path := filepath.Join(directory, "c.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		owner   int
		mode    os.FileMode
		refusal string
	}{{other, 0o755, ""}, {other, 0o775, "can be changed by others"}, {other - 1, 0o755, "belongs to user 65533"}} {
		for place, owner := range map[string]int{directory: test.owner, path: other} {
			if err := os.Chown(place, owner, -1); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(directory, test.mode); err != nil {
			t.Fatal(err)
		}
		err := refuseForeignSocket(path)
		if (err == nil) != (test.refusal == "") || err != nil && !strings.Contains(err.Error(), test.refusal) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
