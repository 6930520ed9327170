package teamwire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// certify returns a certificate, self-signed without a parent.
func certify(t *testing.T, parent *x509.Certificate, by *ecdsa.PrivateKey, long time.Duration, hosts ...string) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(long), DNSNames: hosts,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: parent == nil,
	}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func TestOnlyTheCertificateWithTheFingerprintIsTrusted(t *testing.T) {
	ca, caKey := certify(t, nil, nil, time.Hour)
	other, otherKey := certify(t, nil, nil, time.Hour)
	good, _ := certify(t, ca, caKey, time.Hour, "a.example")
	expired, _ := certify(t, ca, caKey, -time.Minute, "a.example")
	forged, _ := certify(t, other, otherKey, time.Hour, "a.example")
	for name, test := range map[string]struct {
		chain  []*x509.Certificate
		host   string
		wanted bool
	}{
		"by name":               {[]*x509.Certificate{good, ca}, "a.example", true},
		"by IP address":         {[]*x509.Certificate{good, other, ca}, "127.0.0.1", true},
		"another host":          {[]*x509.Certificate{good, ca}, "b.example", false},
		"expired":               {[]*x509.Certificate{expired, ca}, "a.example", false},
		"not in the chain":      {[]*x509.Certificate{good, other}, "a.example", false},
		"shown but not issuing": {[]*x509.Certificate{forged, other, ca}, "a.example", false},
	} {
		if err := verify(test.chain, sha256.Sum256(ca.Raw), test.host); (err == nil) != test.wanted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMalformedPEMIsRefusedWithoutQuotingIt(t *testing.T) {
	const secret = "MHcCAQEEIBkg0AWkOGC"
	for _, options := range []TLS{
		{CA: secret}, {CA: "-----BEGIN " + secret}, {Cert: secret}, {Key: secret}, {Key: strings.Repeat(secret, 500)},
		{Cert: "-----BEGIN " + secret, Key: "-----BEGIN " + secret}, {Fingerprint: secret}, {Fingerprint: "sha256:00"},
	} {
		if _, err := options.config("a"); err == nil || strings.Contains(err.Error(), secret) || !strings.HasPrefix(err.Error(), "teamwire: ") {
			t.Error(err)
		}
	}
}
