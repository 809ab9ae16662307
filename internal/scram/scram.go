// Package scram logs in by SCRAM (RFC 5802) on connections that sarama opens, which leaves that to its user. The exchange itself is
// franz-go's; like it, names and passwords go as they are, without SASLprep.
package scram

import (
	"context"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Generator is what c.Net.SASL.SCRAMClientGeneratorFunc wants, for SCRAM-SHA-256 or SCRAM-SHA-512. password is asked at each log-in;
// nil: it is the one of the configuration.
func Generator(mechanism sarama.SASLMechanism, password func() string) func() sarama.SCRAMClient {
	return func() sarama.SCRAMClient {
		return &client{sha512: mechanism == sarama.SASLTypeSCRAMSHA512, password: password}
	}
}

// client is one log-in.
type client struct {
	sha512   bool
	password func() string

	session sasl.Session
	first   []byte // what is to be said first; nil: it was
	done    bool
}

// Begin starts the exchange.
func (c *client) Begin(user, password, authzID string) (err error) {
	if c.password != nil {
		password = c.password()
	}
	auth := scram.Auth{User: user, Pass: password, Zid: authzID}
	mechanism := auth.AsSha256Mechanism()
	if c.sha512 {
		mechanism = auth.AsSha512Mechanism()
	}
	c.done = false
	c.session, c.first, err = mechanism.Authenticate(context.Background(), "")
	return err
}

// Step answers a challenge; the first is empty.
func (c *client) Step(challenge string) (string, error) {
	if c.first != nil {
		first := c.first
		c.first = nil
		return string(first), nil
	}
	done, answer, err := c.session.Challenge([]byte(challenge))
	c.done = done && err == nil
	return string(answer), err
}

// Done tells whether the exchange is over.
func (c *client) Done() bool { return c.done }
