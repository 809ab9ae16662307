package lease

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Sentences of PROTOCOL.md about what is ignored as a whole.

// §5: a record that is malformed, or over a limit, changes nothing at all: it does not renew its author, and its seq may be used
// again.
func TestAMalformedJoinDoesNotRenew(t *testing.T) {
	for reason, change := range map[Reason]func(*Join){
		Malformed: func(j *Join) { j.TokenBase = MaxTokenBase },
		TooMany:   func(j *Join) { j.Interests = make([]Interest, MaxJoinSize/32) },
	} {
		s := newScript(t)
		s.join("a")
		before := *s.w.Instance(id("a"))
		rec := join("client-a")
		change(&rec.Join)
		s.writeSeq("a", 2, rec)
		s.ignored(reason)
		assert.Equal(t, before, *s.w.Instance(id("a")))
		s.writeSeq("a", 2, Record{Kind: KindHeartbeat})
		s.happened()
		assert.Equal(t, s.w.Last(), s.renewed("a"))
	}
}

// §5.3: the order of the checks. Who has ended is not heard, whatever it writes; a malformed record is malformed although it is
// an echo too.
func TestTheAuthorIsLookedAtBeforeTheValues(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	s.leave("a")
	bad := join("client")
	bad.Join.Interests = []Interest{{Topics: []TopicInterest{{strings.Repeat("t", MaxTopicName+1), 1}}}}
	s.writeSeq("a", 9, bad)
	s.ignored(AuthorEnded)
	s.writeSeq("c", 9, bad)
	s.ignored(AuthorUnknown)
	s.writeSeq("b", 1, bad)
	s.ignored(Malformed)
}
