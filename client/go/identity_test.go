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
	for _, name := range []string{"ADDRESS", "CREDENTIAL", "TEAM", "CA", "CERT", "KEY", "AS"} {
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
