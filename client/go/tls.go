package teamwire

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// TLS is what a client trusts and presents. Certificates and keys are PEM or file paths.
type TLS struct {
	// CA is the only authority to trust. If empty: the certificate with the Fingerprint, else the system's authorities.
	CA string
	// Fingerprint is the hexadecimal SHA-256 of a certificate in the coordinator's chain.
	Fingerprint string
	// Cert is the client certificate and Key its key.
	Cert, Key string
}

// Format keeps keys out of logs.
func (TLS) Format(out fmt.State, _ rune) { fmt.Fprint(out, "(redacted)") }

// MarshalText keeps keys out of logs.
func (TLS) MarshalText() ([]byte, error) { return []byte("(redacted)"), nil }

// fill sets what is empty from another.
func (t *TLS) fill(from TLS) {
	if t.CA == "" && t.Fingerprint == "" {
		t.CA, t.Fingerprint = from.CA, from.Fingerprint
	}
	if t.Cert == "" && t.Key == "" {
		t.Cert, t.Key = from.Cert, from.Key
	}
}

// config returns the TLS configuration for a host.
func (t TLS) config(host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	ca, err := readPEM("CA", t.CA)
	cert, certErr := readPEM("client certificate", t.Cert)
	key, keyErr := readPEM("client key", t.Key)
	if err := errors.Join(err, certErr, keyErr); err != nil {
		return nil, err
	}
	if len(cert)+len(key) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("teamwire: the client certificate and key do not match: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("teamwire: the CA contains no PEM certificate")
		}
	} else if t.Fingerprint != "" {
		fingerprint, err := hex.DecodeString(strings.TrimPrefix(t.Fingerprint, "sha256:"))
		if err != nil || len(fingerprint) != sha256.Size {
			return nil, errors.New("teamwire: a fingerprint is sha256: followed by 64 hexadecimal digits")
		}
		config.InsecureSkipVerify = true // verify replaces the system's authorities
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, [sha256.Size]byte(fingerprint), host)
		}
	}
	return config, nil
}

// verify checks a chain with its one certificate that has the fingerprint as the only authority.
func verify(chain []*x509.Certificate, fingerprint [sha256.Size]byte, host string) error {
	isPinned := func(certificate *x509.Certificate) bool { return sha256.Sum256(certificate.Raw) == fingerprint }
	root := slices.IndexFunc(chain, isPinned)
	if root < 0 {
		return errors.New("tls: the coordinator does not present the certificate that the join string names. Ask for a " +
			"new join string; if that does not help, the connection may be intercepted")
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(chain[root])
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: intermediates})
	return err
}

// readPEM returns PEM, or reads it from a file. Errors omit the path: it may be a truncated key.
func readPEM(what, given string) ([]byte, error) {
	if given == "" || strings.Contains(given, "-----BEGIN") {
		return []byte(given), nil
	}
	text, err := os.ReadFile(given)
	if err != nil {
		return nil, fmt.Errorf("teamwire: cannot read the file of the %s: %w", what, errors.Unwrap(err))
	}
	return text, nil
}
