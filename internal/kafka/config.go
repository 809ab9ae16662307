package kafka

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// The time limits of every connection. They are short because a lease lasts seconds: a broker that is silent for longer
// must cost one try, not the lease. The user's own limits are for other work and are not taken.
const (
	dialLimit = time.Second     // of the TCP handshake, name resolution included
	ioLimit   = 2 * time.Second // of a request beyond what the broker may wait by order
	openLimit = 4 * time.Second // of opening a connection with TLS and SASL
	headStart = 100 * time.Millisecond
	pauseMin  = 50 * time.Millisecond
	pauseMax  = 100 * time.Millisecond
	restLimit = time.Second // in which an address that has refused us is not asked again
	recheck   = time.Second // between two chances for sarama to authenticate a session again
)

// settings are what is taken from the user.
type settings struct {
	clientID string
	rack     string
	user     *sarama.Config // never nil; only Net is read
}

func newSettings(name string, user *sarama.Config) (settings, error) {
	if user == nil {
		user = sarama.NewConfig()
		user.ClientID = name
	}
	own := *user // not to see later changes
	s := settings{clientID: own.ClientID, rack: own.RackID, user: &own}
	if s.clientID == "" || s.clientID == sarama.NewConfig().ClientID {
		s.clientID = name
	}
	if err := s.config(&dialer{}).Validate(); err != nil {
		return s, fmt.Errorf("sarama configuration: %w", err)
	}
	return s, nil
}

// config is for one connection: sarama stops a connection's metrics when it closes, so each has its own registry.
// sarama dials through d, which does TLS itself, inside whatever proxy the user has: the connection that d keeps is
// then the one that carries frames.
func (s settings) config(d *dialer) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.ApiVersionsRequest = true
	c.ClientID = s.clientID
	c.Net.SASL = s.user.Net.SASL
	c.Net.DialTimeout, c.Net.ReadTimeout, c.Net.WriteTimeout = dialLimit, ioLimit, ioLimit
	c.Net.Proxy.Enable, c.Net.Proxy.Dialer = true, d
	return c
}

// dialer makes the dialer of one connection.
func (s settings) dialer() *dialer {
	n := &s.user.Net
	d := &dialer{net: net.Dialer{Timeout: dialLimit, KeepAlive: n.KeepAlive, LocalAddr: n.LocalAddr}}
	d.bare = n.SASL.Enable && (n.SASL.Version == sarama.SASLHandshakeV0 || n.SASL.Mechanism == sarama.SASLTypeGSSAPI)
	if n.Proxy.Enable {
		d.proxy = n.Proxy.Dialer
	}
	if n.TLS.Enable {
		d.tls = tlsConfig(n.TLS.Config)
	}
	return d
}

// seeds cleans the user's list of addresses.
func seeds(brokers []string) ([]string, error) {
	var all []string
	for _, b := range brokers {
		for _, a := range strings.Split(b, ",") {
			if a = strings.TrimSpace(a); a != "" {
				all = append(all, a)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no broker addresses given")
	}
	for _, a := range all {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, fmt.Errorf("broker address %q: %w", a, err)
		}
	}
	return all, nil
}
