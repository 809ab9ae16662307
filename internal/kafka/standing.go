package kafka

import "sync/atomic"

// standing is what our connections to one address have come to: it tells a broker that is being restarted, and hangs up, from one
// that does not accept how this process speaks or who its user is, which many show by hanging up too.
type standing struct {
	proven atomic.Bool  // somebody there has answered a question behind the one for versions, so the settings were right then
	hangUp atomic.Int32 // openings in a row, since then, at which it hung up
}

// manyHangUps in a row are no restart: whoever restarts soon refuses, or answers.
const manyHangUps = 10

// answered notes that a connection works.
func (s *standing) answered() {
	if !s.proven.Load() || s.hangUp.Load() != 0 {
		s.proven.Store(true)
		s.hangUp.Store(0)
	}
}

// suspects takes that an opening failed, and tells whether the settings may be why.
func (s *standing) suspects(err error) bool {
	return hungUp(err) && (s.hangUp.Add(1) >= manyHangUps || !s.proven.Load())
}

// standingOf is that of an address.
func (c *Client) standingOf(addr string) *standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.standings[addr]
	if s == nil {
		s = new(standing)
		c.standings[addr] = s
	}
	return s
}
