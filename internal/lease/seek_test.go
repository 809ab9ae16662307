package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §8.

func TestSeekGivesAHeldKeyANewEpochWithTheSameOwner(t *testing.T) {
	s := newScript(t)
	s.join("a", "tool")
	e := s.claim("a", "t/0")
	s.heartbeat("a", at("t/0", e, 50))
	o := s.seek("tool", "t/0", "", 7, NoEpoch)
	s.happened("sought a t/0 @104 =7")
	s.holds("a", "t/0", o)
	s.progress("t/0", 7)
	assert.Equal(t, 1, s.w.HeldCount(id("a")))

	// Everything in flight under the old epoch is void.
	s.heartbeat("a", at("t/0", e, 51))
	s.happened("ignored a t/0: old epoch")
	s.release("a", "", releasing("t/0", e, 51))
	s.happened("ignored a t/0: old epoch")
	s.heartbeat("a", at("t/0", o, 8))
	s.happened("progressed a t/0 @104 =8")
}

func TestSeekOfAFreeKeySetsProgressAndGivesNoEpoch(t *testing.T) {
	s := newScript(t)
	s.join("a", "tool")
	s.seek("tool", "t/1", "A", 7, NoEpoch)
	s.happened("sought t/1 @-1 =7")
	s.isFree("t/1")
	p, _ := s.w.Progress("t", 1)
	assert.Equal(t, Progress{TopicID: topicID("A"), Next: 7, Epoch: NoEpoch}, p)

	e := s.claim("a", "t/0")
	s.release("a", "", releasing("t/0", e, 50))
	version := s.w.Version()
	s.seek("tool", "t/0", "", 7, NoEpoch)
	s.progress("t/0", 7)
	p, _ = s.w.Progress("t", 0)
	assert.Equal(t, Progress{Next: 7, Client: "client-a", Epoch: e}, p, "the last owner is who it was")
	assert.Equal(t, version, s.w.Version())
}

func TestSeekOfAPartitionUnderAWholeTopicLeaseGivesThatLeaseTheNewEpoch(t *testing.T) {
	s := newScript(t)
	s.join("a", "tool")
	e := s.claim("a", "t")
	s.heartbeat("a", at("t/0", e, 50), at("t/1", e, 60))
	o := s.seek("tool", "t/0", "", 7, e)
	s.happened("sought a t/0 @104 =7")
	s.holds("a", "t", o)
	s.isFree("t/0")
	s.progress("t/0", 7)
	s.progress("t/1", 60)
	s.heartbeat("a", at("t/1", e, 61))
	s.happened("ignored a t/1: old epoch")
}

func TestSeekOfATopicGivesEachLeaseOnItsPartitionsTheNewEpoch(t *testing.T) {
	s := newScript(t)
	s.write("a", wanting("client", TopicInterest{"t", 3}))
	s.join("b", "tool")
	e := s.claim("a", "t/0", "u/0")
	s.claim("b", "t/7")
	s.heartbeat("a", at("t/0", e, 50))
	o := s.seek("tool", "t", "A", 7, NoEpoch)
	s.happened("sought t @-1 =7", "sought a t/0 @106 =7", "sought b t/7 @106 =7")
	s.holds("a", "t/0", o)
	s.holds("b", "t/7", o)
	s.holds("a", "u/0", e)
	for _, k := range []string{"t/0", "t/1", "t/2", "t/7"} { // those of the count, and those that are known beside
		s.progress(k, 7)
	}
	_, known := s.w.Progress("t", 3)
	assert.False(t, known)
}

func TestSeekOfATopicHeldWhole(t *testing.T) {
	s := newScript(t)
	s.write("a", wanting("client", TopicInterest{"t", 2}))
	e := s.claim("a", "t")
	s.heartbeat("a", at("t/5", e, 50))
	o := s.seek("a", "t", "", 7, e)
	s.happened("sought a t @103 =7")
	s.holds("a", "t", o)
	for _, k := range []string{"t/0", "t/1", "t/5"} {
		s.progress(k, 7)
	}
}

func TestSeekThatNamesAnEpochDoesNothingIfThatIsNoLongerTheKeys(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0", "u")
	s.heartbeat("a", at("t/0", e, 5))
	version := s.w.Version()
	s.seek("a", "t/0", "", 7, e-1)
	s.happened("ignored a t/0: old epoch")
	s.seek("a", "u/3", "", 7, e+1)
	s.happened("ignored a u/3: old epoch")
	s.seek("a", "u", "", 7, e+1)
	s.happened("ignored a u: old epoch")
	s.seek("a", "t/1", "", 7, e)
	s.happened("ignored a t/1: not held")
	s.seek("a", "t", "", 7, e)
	s.happened("ignored a t: not held")
	s.seek("a", "t/0", "", 7, -2)
	s.happened("ignored a t/0: old epoch")
	assert.Equal(t, version, s.w.Version())
	s.progress("t/0", 5)
	_, known := s.w.Progress("u", 3)
	assert.False(t, known)
	o := s.seek("a", "t/0", "", 3, e)
	s.happened("sought a t/0 @110 =3")
	s.holds("a", "t/0", o)
}

func TestSeekTreatsTopicIDsAsHeartbeat(t *testing.T) {
	s := newScript(t)
	s.join("a")
	s.seek("a", "t/0", "A", 9, NoEpoch)
	s.seek("a", "t/0", "", 8, NoEpoch)
	s.seek("a", "t/0", "B", 7, NoEpoch)
	p, _ := s.w.Progress("t", 0)
	assert.Equal(t, Progress{TopicID: topicID("B"), Next: 7, Replaced: []TopicID{topicID("A")}, Epoch: NoEpoch}, p)
	s.seek("a", "t/0", "A", 6, NoEpoch)
	s.happened("ignored a t/0: old topic")
	s.seek("a", "t", "A", 6, NoEpoch)
	s.happened("ignored a t: old topic")
	s.progress("t/0", 7)
}

func TestSeekOfNonsenseDoesNothing(t *testing.T) {
	s := newScript(t)
	s.join("a")
	s.seek("a", "t/0", "", -1, NoEpoch)
	s.happened("ignored a t/0: malformed")
	s.seek("a", "t/-2", "", 1, NoEpoch)
	s.happened("ignored a t/-2: malformed")
	s.seek("a", "/0", "", 1, NoEpoch)
	s.happened("ignored a: malformed")
	s.seek("a", "nobody knows it", "", 1, NoEpoch)
	s.happened("sought nobody knows it @-1 =1")
	assert.Zero(t, s.w.topics.count, "it leaves nothing behind")
}

func TestSeekIsWrittenByAJoinedInstance(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	s.park("a", time.Minute)
	s.seek("a", "t/0", "", 7, NoEpoch)
	s.ignored(AuthorParked)
	s.leave("b")
	s.seek("b", "t/0", "", 7, NoEpoch)
	s.ignored(AuthorEnded)
	s.seek("nobody", "t/0", "", 7, NoEpoch)
	s.ignored(AuthorUnknown)
	_, known := s.w.Progress("t", 0)
	assert.False(t, known)
}

func TestADirectiveOfAnotherKindRenewsItsAuthorAndDoesNothingMore(t *testing.T) {
	s := newScript(t)
	s.join("a")
	o := s.write("a", Record{Kind: KindDirective, Directive: Directive{Kind: 9, Key: key("t/0"), Next: 5, Epoch: NoEpoch}})
	s.happened()
	assert.Equal(t, o, s.renewed("a"))
	_, known := s.w.Progress("t", 0)
	assert.False(t, known)
}
