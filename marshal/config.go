package main

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal/internal/scram"
)

// properties are those of a file like Kafka's client.properties.
type properties map[string]string

// readProperties reads "name=value" lines; those that begin with # or ! are comments, and a backslash at the end goes on.
func readProperties(r io.Reader) (properties, error) {
	p := properties{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		for strings.HasSuffix(line, `\`) && lines.Scan() {
			n++
			line = strings.TrimSuffix(line, `\`) + strings.TrimSpace(lines.Text())
		}
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("line %d: no = in it", n)
		}
		p[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return p, lines.Err()
}

// known are the properties about security that are heeded. Another one of their families is refused: to leave one out in silence
// could mean to connect otherwise than the file says. What has to do with neither is left to other programs.
var known = map[string]bool{
	"security.protocol": true, "sasl.mechanism": true, "sasl.jaas.config": true, "sasl.username": true, "sasl.password": true,
	"ssl.ca.location": true, "ssl.certificate.location": true, "ssl.key.location": true, "ssl.endpoint.identification.algorithm": true,
	"ssl.truststore.type": true, "ssl.truststore.location": true, "ssl.keystore.type": true, "ssl.keystore.location": true,
}

// protocols are those that heed a family of properties.
var protocols = map[string]string{"ssl": "SSL or SASL_SSL", "sasl": "SASL_SSL or SASL_PLAINTEXT"}

var login = regexp.MustCompile(`\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"`)

// config makes a configuration of the connection of them.
func (p properties) config() (*sarama.Config, error) {
	var errs []error
	for name := range p {
		family, _, _ := strings.Cut(name, ".")
		if (family == "ssl" || family == "sasl" || family == "security") && !known[name] {
			errs = append(errs, fmt.Errorf("%s is not supported", name))
		}
		if (family == "ssl" || family == "sasl") && p["security.protocol"] == "" {
			errs = append(errs, fmt.Errorf("%s is set and security.protocol is not, so it would go unheeded and the connection in plain text: set security.protocol=%s", name, protocols[family]))
		}
	}
	c := sarama.NewConfig()
	c.RackID = p["client.rack"]
	protocol := cmp.Or(strings.ToUpper(p["security.protocol"]), "PLAINTEXT")
	switch protocol {
	case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		errs = append(errs, fmt.Errorf("security.protocol=%s: use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", protocol))
	}
	if strings.HasSuffix(protocol, "SSL") {
		errs = append(errs, p.tls(c))
	}
	if strings.HasPrefix(protocol, "SASL") {
		errs = append(errs, p.sasl(c))
	}
	return c, errors.Join(errs...)
}

func (p properties) sasl(c *sarama.Config) error {
	user, password := p["sasl.username"], p["sasl.password"]
	for _, m := range login.FindAllStringSubmatch(p["sasl.jaas.config"], -1) {
		value := strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(m[2])
		if m[1] == "username" {
			user = value
		} else {
			password = value
		}
	}
	s := &c.Net.SASL
	s.Enable, s.User, s.Password = true, user, password
	switch s.Mechanism = sarama.SASLMechanism(p["sasl.mechanism"]); s.Mechanism {
	case sarama.SASLTypePlaintext:
	case sarama.SASLTypeSCRAMSHA256, sarama.SASLTypeSCRAMSHA512:
		s.SCRAMClientGeneratorFunc = scram.Generator(s.Mechanism, nil)
	default:
		return fmt.Errorf("sasl.mechanism=%s: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
	}
	if user == "" {
		return errors.New("no user: set sasl.username and sasl.password, or sasl.jaas.config with username=\"…\" password=\"…\"")
	}
	return nil
}

func (p properties) tls(c *sarama.Config) error {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	c.Net.TLS.Enable, c.Net.TLS.Config = true, t
	ca, cert := p["ssl.ca.location"], p["ssl.certificate.location"]
	for what, file := range map[string]*string{"truststore": &ca, "keystore": &cert} {
		location := p["ssl."+what+".location"]
		if location == "" {
			continue
		}
		if kind := p["ssl."+what+".type"]; !strings.EqualFold(kind, "PEM") {
			return fmt.Errorf("ssl.%s.type=%s: only PEM can be read; export it (keytool -exportcert -rfc, openssl pkcs12 -nodes)", what, cmp.Or(kind, "JKS"))
		}
		*file = cmp.Or(*file, location)
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("certificate authority: %w", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("certificate authority: there is no certificate in %s (PEM)", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, cmp.Or(p["ssl.key.location"], cert))
		if err != nil {
			return fmt.Errorf("certificate of this client: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	if algorithm, set := p["ssl.endpoint.identification.algorithm"]; set && algorithm == "" {
		anyName(t)
	}
	return nil
}

// anyName checks who has signed a broker's certificate, but not whose name is in it.
func anyName(t *tls.Config) {
	t.InsecureSkipVerify = true //nolint:gosec // VerifyConnection does all but the name
	t.VerifyConnection = func(s tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: t.RootCAs, Intermediates: x509.NewCertPool()}
		for _, c := range s.PeerCertificates[1:] {
			o.Intermediates.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(o)
		return err
	}
}
