package testutil

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates for brokers and clients on this machine. Whoever has it among its roots trusts them.
type Authority struct{ signer tls.Certificate }

// Names of the files that Save writes.
const (
	caFile    = "ca.pem"
	caKeyFile = "ca-key.pem"
)

const day = 24 * time.Hour

// NewAuthority makes one that is valid for a year.
func NewAuthority() (*Authority, error) {
	now := time.Now()
	signer, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "tests"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(365 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return &Authority{signer}, nil
}

// LoadAuthority reads what Save has written into a folder.
func LoadAuthority(dir string) (*Authority, error) {
	signer, err := tls.LoadX509KeyPair(filepath.Join(dir, caFile), filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, fmt.Errorf("load the certificate authority: %w", err)
	}
	return &Authority{signer}, nil
}

// Save writes it into a folder: ca.pem for those who are to trust it, and its key.
func (a *Authority) Save(dir string) error {
	if err := writePEM(filepath.Join(dir, caFile), &pem.Block{Type: "CERTIFICATE", Bytes: a.signer.Certificate[0]}); err != nil {
		return err
	}
	key, err := keyBlock(a.signer)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, caKeyFile), key)
}

// Pool is what a client needs to trust its certificates.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.signer.Leaf)
	return pool
}

// Issue makes a certificate for name, for 127.0.0.1 and localhost as a server, and as a client. It is valid for a day, up to end:
// one that has passed makes an expired one.
func (a *Authority) Issue(name string, end time.Time) (tls.Certificate, error) {
	c, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: end.Add(-day), NotAfter: end,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, &a.signer)
	if err != nil {
		return c, fmt.Errorf("make a certificate for %s: %w", name, err)
	}
	return c, nil
}

// SaveCertificate writes a key and its certificate into one file, as a Kafka broker reads them.
func SaveCertificate(file string, c tls.Certificate) error {
	key, err := keyBlock(c)
	if err != nil {
		return err
	}
	return writePEM(file, key, &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}

// sign makes a key and a certificate, signed by who, or by itself.
func sign(c *x509.Certificate, who *tls.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return tls.Certificate{}, err
	}
	parent, signer := c, any(key)
	if who != nil {
		parent, signer = who.Leaf, who.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

func keyBlock(c tls.Certificate) (*pem.Block, error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("write a private key: %w", err)
	}
	return &pem.Block{Type: "PRIVATE KEY", Bytes: der}, nil
}

func writePEM(file string, blocks ...*pem.Block) error {
	var all []byte
	for _, b := range blocks {
		all = append(all, pem.EncodeToMemory(b)...)
	}
	return os.WriteFile(file, all, 0o600)
}
