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

// TLS says whom a client trusts and what it shows. Certificates and keys are PEM, or the path of a file.
type TLS struct {
	// CA is the only authority to trust. Empty: the one with the Fingerprint, or else those of the system.
	CA string
	// Fingerprint is the SHA-256 of a certificate in the coordinator's chain, in hexadecimal digits.
	Fingerprint string
	// Cert is the client's certificate, and Key the key of it.
	Cert, Key string
}

// Format keeps keys and credentials out of logs.
func (TLS) Format(out fmt.State, _ rune) { fmt.Fprint(out, "(not shown)") }

// MarshalText keeps keys and credentials out of logs.
func (TLS) MarshalText() ([]byte, error) { return []byte("(not shown)"), nil }

// fill takes from another what is not set.
func (t *TLS) fill(from TLS) {
	if t.CA == "" && t.Fingerprint == "" {
		t.CA, t.Fingerprint = from.CA, from.Fingerprint
	}
	if t.Cert == "" && t.Key == "" {
		t.Cert, t.Key = from.Cert, from.Key
	}
}

// config returns how to speak TLS with a host.
func (t TLS) config(host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	ca, err := readPEM("authority", t.CA)
	cert, certErr := readPEM("client's certificate", t.Cert)
	key, keyErr := readPEM("client's key", t.Key)
	if err := errors.Join(err, certErr, keyErr); err != nil {
		return nil, err
	}
	if len(cert)+len(key) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("teamwire: the client's certificate and key do not go together: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("teamwire: the authority to trust holds no certificate in PEM")
		}
	} else if t.Fingerprint != "" {
		fingerprint, err := hex.DecodeString(strings.TrimPrefix(t.Fingerprint, "sha256:"))
		if err != nil || len(fingerprint) != sha256.Size {
			return nil, errors.New("teamwire: a fingerprint is sha256: and 64 hexadecimal digits")
		}
		config.InsecureSkipVerify = true // by the system's authorities; verify takes their place
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, [sha256.Size]byte(fingerprint), host)
		}
	}
	return config, nil
}

// verify trusts the one certificate of a chain that has the fingerprint as the only authority.
func verify(chain []*x509.Certificate, fingerprint [sha256.Size]byte, host string) error {
	isNamed := func(certificate *x509.Certificate) bool { return sha256.Sum256(certificate.Raw) == fingerprint }
	root := slices.IndexFunc(chain, isNamed)
	if root < 0 {
		return errors.New("tls: the coordinator does not show the certificate that the join string is for. Ask for a new " +
			"join string; if that does not help, somebody may be in between")
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(chain[root])
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between})
	return err
}

// readPEM reads PEM, or the file that has it. The path is left out of the error: it may be a key that lacks a line.
func readPEM(what, given string) ([]byte, error) {
	if given == "" || strings.Contains(given, "-----BEGIN") {
		return []byte(given), nil
	}
	text, err := os.ReadFile(given)
	if err != nil {
		return nil, fmt.Errorf("teamwire: the file of the %s cannot be read: %w", what, errors.Unwrap(err))
	}
	return text, nil
}
