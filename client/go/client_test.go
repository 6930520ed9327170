package teamwire

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

func TestAddressesAreParsedOrRefused(t *testing.T) {
	for text, read := range map[string][]address{
		"http://127.0.0.1:7420":     {{"http", "127.0.0.1:7420"}, {"http", "127.0.0.1:7420"}},
		"localhost:7420":            {{"http", "localhost:7420"}, {"http", "localhost:7420"}},
		"HTTPS://Coord.Example/":    {{"https", "coord.example:443"}, {"https", "coord.example:443"}},
		"a_b":                       {{"http", "a_b:80"}, {"http", "a_b:80"}},
		"https://[::1]:7420":        {{"https", "[::1]:7420"}, {"https", "[::1]:7420"}},
		"https://a:1, https://b:2/": {{"https", "a:1"}, {"https", "b:2"}},
		"unix:///A%20b/c.sock":      {{"unix", "/A b/c.sock"}, {"unix", "/A b/c.sock"}},
	} {
		if addresses, err := parseAddresses(text); !reflect.DeepEqual(addresses, read) || err != nil {
			t.Errorf("%s: %q %v", text, addresses, err)
		}
	}
	for _, text := range []string{
		"", "http://", "ftp://x", "a b", "http://a/b", "http://u@a", "http://a:0", "http://a:65536", "http://a:+1",
		"http://[::1", "http://[::1]x", "http://[fe80::1%25eth0]", "http://[:::]", "http://a:1:2", "a?b", "a#b", "::1", "a,", "http://a,https://b",
		"a\x00b", strings.Repeat("a,", 16) + "a", strings.Repeat("a", 300), "unix://a", "unix:///", "unix:///a/", "unix:///a%00", "unix:///%zz",
		"unix:///a,http://b",
	} {
		if addresses, err := parseAddresses(text); err == nil {
			t.Errorf("%s: %q", text, addresses)
		}
	}
}

func TestAUnixSocketIsUsedUnlessOthersCouldHavePutItThere(t *testing.T) {
	directory := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(directory, "c.sock"))
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, listener)
	f.address = "unix://" + listener.Addr().String()
	if _, err := client(t, f).Teams.SetLead(t.Context(), &v1.SetLeadRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(directory, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := open(Options{Address: f.address, Credential: "x"}); err == nil || !strings.Contains(err.Error(), "can be changed by others") {
		t.Errorf("%v", err)
	}
	if len(f.calls) != 1 {
		t.Errorf("calls: %v", f.calls)
	}
}

func TestAMalformedJoinStringIsRefusedWithoutQuotingIt(t *testing.T) {
	environment(t, bob)
	const token = "twj:acme:x1:SECRET"
	for _, text := range []string{
		"", "@https://a", token + "@", token + "@ftp://a", token + "@https://a+sha256:00", token + "@https://a+md5:00", token + "@https://a+",
		token + "@http://a+sha256:" + strings.Repeat("00", 32), token + "@https://a@https://b", "\x00" + token, token + " x@https://a",
	} {
		client, err := Join(context.Background(), text, "eve")
		if err == nil || client != nil || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "Unavailable") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestClientsSpreadOverTheAddressesOfAName(t *testing.T) {
	one, two := newFake(t), newFake(t)
	names := manual.NewBuilderWithScheme("dns")
	names.InitialState(resolver.State{Addresses: []resolver.Address{
		{Addr: strings.TrimPrefix(one.address, "http://")}, {Addr: strings.TrimPrefix(two.address, "http://")},
	}})
	for range 64 {
		c, err := open(Options{Address: "name", Credential: "x", DialOptions: []grpc.DialOption{grpc.WithResolvers(names)}, Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Send(context.Background(), "ann", "hi", "hello"); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	if len(one.calls) == 0 || len(two.calls) == 0 || len(one.calls)+len(two.calls) != 64 {
		t.Error(len(one.calls), len(two.calls))
	}
}
