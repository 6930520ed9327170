package teamwire

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

func TestAddressesAreParsedOrRefused(t *testing.T) {
	for text, read := range map[string][]string{
		"http://127.0.0.1:7420":     {"127.0.0.1:7420", "127.0.0.1:7420"},
		"localhost:7420":            {"localhost:7420", "localhost:7420"},
		"HTTPS://Coord.Example/":    {"coord.example:443", "coord.example:443"},
		"a_b":                       {"a_b:80", "a_b:80"},
		"https://[::1]:7420":        {"[::1]:7420", "[::1]:7420"},
		"https://a:1, https://b:2/": {"a:1", "b:2"},
	} {
		if addresses, isTLS, err := parseAddresses(text); !reflect.DeepEqual(addresses, read) || err != nil || isTLS != strings.HasPrefix(strings.ToLower(text), "https") {
			t.Errorf("%s: %q %v %v", text, addresses, isTLS, err)
		}
	}
	for _, text := range []string{
		"", "http://", "ftp://x", "a b", "http://a/b", "http://u@a", "http://a:0", "http://a:65536", "http://a:+1",
		"http://[::1", "http://[::1]x", "http://[fe80::1%25eth0]", "http://[:::]", "http://a:1:2", "a?b", "a#b", "::1", "a,", "http://a,https://b",
		"a\x00b", strings.Repeat("a,", 16) + "a", strings.Repeat("a", 300),
	} {
		if addresses, _, err := parseAddresses(text); err == nil {
			t.Errorf("%s: %q", text, addresses)
		}
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
