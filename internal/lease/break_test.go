//go:build marshalbreak

package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/mutants"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// What a simulation breaks is really broken: each log ends in a world that the rule forbids.
func TestBrokenRules(t *testing.T) {
	forbidden := map[rule.Rule]func(s *script) bool{
		rule.Epoch: func(s *script) bool {
			s.join("a")
			s.heartbeat("a", at("t/0", s.claim("a", "t/0")-1, 5))
			p, _ := s.w.Progress("t", 0)
			return p.Next == 5
		},
		rule.CAS: func(s *script) bool {
			s.join("a", "b")
			s.heartbeat("a")
			s.evict("b", "a", 0)
			return s.w.Instance(id("a")).Status == Ended
		},
		rule.Seq: func(s *script) bool {
			s.join("a")
			s.writeSeq("a", 5, Record{Kind: KindHeartbeat})
			s.writeSeq("a", 4, Record{Kind: KindClaim, Claim: Claim{Keys: keys("t/0")}})
			return s.w.HeldCount(id("a")) == 1
		},
		rule.FirstJoin: func(s *script) bool {
			s.writeSeq("a", 4, Record{Kind: KindHeartbeat})
			return s.w.Instance(id("a")) != nil
		},
		rule.BaseSeen: func(s *script) bool {
			s.join("a", "b")
			s.base(0, 5)
			return s.w.Instance(id("a")) == nil
		},
		rule.Successor: func(s *script) bool {
			s.join("a", "b")
			s.park("b", time.Second)
			s.release("a", "b", releasing("t/0", s.claim("a", "t/0")))
			return s.w.HeldCount(id("b")) == 1
		},
		rule.TakeoverOrder: func(s *script) bool {
			s.joinAs("old", "client")
			s.joinAs("next", "client")
			s.takeover("next", "old", s.claim("old", "t/0"))
			return s.w.HeldCount(id("next")) == 1
		},
		rule.ParkedClient: func(s *script) bool {
			s.join("a", "b")
			s.claim("a", "t/0")
			s.park("a", time.Second)
			s.claim("b", "t/0")
			return s.w.HeldCount(id("b")) == 1
		},
		rule.TokenOnce: func(s *script) bool {
			s.append(Record{Kind: KindJoin, Instance: id("a"), Seq: 1, Join: Join{TokenBase: 7 << 20}})
			s.append(Record{Kind: KindJoin, Instance: id("b"), Seq: 1, Join: Join{TokenBase: 5 << 20}})
			return s.w.TokenBase() == 5<<20
		},
		rule.EndedMemory: func(s *script) bool {
			s.join("a")
			rec := Record{Kind: KindLeave, Instance: id("a"), Seq: 2, Offset: s.next}
			s.w.Apply(&rec, nil)
			parsed, err := ParseWorld(s.w.AppendBinary(nil))
			require.NoError(t, err)
			return parsed.Instance(id("a")) == nil
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

// TestBrokenByFuzz breaks one rule after the other: random logs that find nothing prove nothing.
func TestBrokenByFuzz(t *testing.T) {
	const logs, length = 20_000, 3000
	for _, r := range mutants.For(mutants.Fuzz) {
		t.Run(r.String(), func(t *testing.T) {
			t.Cleanup(func() { rule.Break(rule.None) })
			rule.Break(r)
			for n := range logs {
				_, trace, err := judgeLog(randomBytes(uint64(n), length))
				if err != nil {
					check, _, _ := strings.Cut(err.Error(), ":")
					t.Logf("caught by %s after %d logs, %d records\n%s\n%v", check, n+1, len(trace), tail(trace), err)
					return
				}
			}
			t.Errorf("nobody noticed in %d logs", logs)
		})
	}
}
