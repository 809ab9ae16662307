//go:build marshalbreak

package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// Each script ends in what the rule forbids, if it is broken.
func TestBrokenRules(t *testing.T) {
	forbidden := map[rule.Rule]func(s *script) bool{
		// It was silent for most of its ttl when the log went away: what is missing nobody can prove before the log is back.
		rule.OpenGap: func(s *script) bool {
			p := s.process("p", Config{}, want(some(2)))
			q := s.process("q", Config{}, want(some(2)))
			s.until(5*time.Second, "balance", func() bool { return q.runs() == 1 })
			q.silent = true
			s.until(10*time.Second, "silence", func() bool { return p.m.LiveTime(q.id) > 8*time.Second })
			s.outage = true
			s.pass(time.Hour)
			return len(p.of(lease.KindEvict)) > 0
		},
		rule.TakeoverOrder: func(s *script) bool {
			old := s.process("old", Config{Client: "c"}, want(some(4)))
			s.pass(3 * time.Second)
			p := s.process("new", Config{Client: "c"}, fast(some(4)))
			s.pass(2 * time.Second)
			return len(p.of(lease.KindEvict)) > 0 && old.ended
		},
	}
	for r, is := range forbidden {
		t.Run(r.String(), func(t *testing.T) {
			t.Cleanup(func() { rule.Break(rule.None) })
			require.False(t, is(newScript(t)), "kept")
			rule.Break(r)
			require.True(t, is(newScript(t)), "broken")
			t.Logf("caught by the script after 1 log")
		})
	}
}
