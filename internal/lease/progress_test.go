package lease

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §5 Heartbeat, and §5.5.

func TestProgressMovesForTheHolderWithExactlyThisEpoch(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0")
	s.heartbeat("a", at("t/0", e, 5))
	s.happened("progressed a t/0 @102 =5")
	s.heartbeat("a", at("t/0", e-1, 6))
	s.happened("ignored a t/0: old epoch")
	s.heartbeat("a", at("t/0", e+1, 6))
	s.happened("ignored a t/0: old epoch")
	s.heartbeat("b", at("t/0", e, 6))
	s.happened("ignored b t/0: not held")
	s.heartbeat("a", at("t/1", e, 6), at("u/0", e, 6), at("t/-1", e, 6), at("t/-7", e, 6))
	s.happened("ignored a t/1: not held", "ignored a u/0: not held", "ignored a t: not held", "ignored a t/-7: not held")
	s.progress("t/0", 5)
}

func TestProgressMovesForTheHolderOfTheWholeTopic(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t")
	s.heartbeat("a", at("t/3", e, 5), at("t/0", e, 6), at("t/1", e-1, 6), at("t", e, 6), at("t/-3", e, 6))
	s.happened("progressed a t/3 @102 =5", "progressed a t/0 @102 =6", "ignored a t/1: old epoch", "ignored a t: malformed", "ignored a t/-3: malformed")
	s.heartbeat("b", at("t/3", e, 9))
	s.happened("ignored b t/3: not held")
	s.progress("t/3", 5)
	_, known := s.w.Progress("t", WholeTopic)
	assert.False(t, known)
	_, known = s.w.Progress("t", 1)
	assert.False(t, known)
}

func TestProgressNeverGoesDown(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0")
	s.heartbeat("a", at("t/0", e, 5))
	s.heartbeat("a", at("t/0", e, 4))
	s.happened("ignored a t/0: behind")
	s.heartbeat("a", at("t/0", e, 5))
	s.happened("progressed a t/0 @101 =5")
	s.heartbeat("a", at("t/0", e, -1))
	s.happened("ignored a t/0: malformed")
	s.heartbeat("a", at("t/0", e, math.MaxInt64))
	s.happened("progressed a t/0 @101 =9223372036854775807")
}

func TestAnotherTopicIDReplacesTheKnownOne(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0")
	s.heartbeat("a", atID("t/0", "A", e, 100))
	s.heartbeat("a", atID("t/0", "B", e, 5))
	s.happened("progressed a t/0 @101 =5")
	p, _ := s.w.Progress("t", 0)
	assert.Equal(t, Progress{TopicID: topicID("B"), Next: 5, Replaced: []TopicID{topicID("A")}, Client: "client-a", Epoch: e}, p)
}

func TestAnEntryWithARememberedIDIsSkipped(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0")
	s.heartbeat("a", atID("t/0", "A", e, 100))
	for i, topic := range []string{"B", "C", "D", "E"} {
		s.heartbeat("a", atID("t/0", topic, e, int64(i)))
		s.heartbeat("a", atID("t/0", "A", e, 200))
		s.happened("ignored a t/0: old topic")
	}
	s.progress("t/0", 3)
	s.heartbeat("a", atID("t/0", "F", e, 1)) // the newest four: B, C, D, E
	s.heartbeat("a", atID("t/0", "B", e, 1))
	s.happened("ignored a t/0: old topic")
	s.heartbeat("a", atID("t/0", "A", e, 1))
	s.happened("progressed a t/0 @101 =1")
	p, _ := s.w.Progress("t", 0)
	assert.Equal(t, []TopicID{topicID("C"), topicID("D"), topicID("E"), topicID("F")}, p.Replaced)
}

func TestZeroTopicIDOfAnEntryComparesAsEqual(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0")
	s.heartbeat("a", at("t/0", e, 5))
	s.heartbeat("a", atID("t/0", "A", e, 4))
	s.happened("ignored a t/0: behind")
	s.heartbeat("a", atID("t/0", "A", e, 6))
	p, _ := s.w.Progress("t", 0)
	assert.Equal(t, topicID("A"), p.TopicID, "what was unknown is known now")
	assert.Empty(t, p.Replaced)
	s.heartbeat("a", at("t/0", e, 5))
	s.happened("ignored a t/0: behind")
	s.heartbeat("a", at("t/0", e, 7))
	p, _ = s.w.Progress("t", 0)
	assert.Equal(t, Progress{TopicID: topicID("A"), Next: 7, Client: "client-a", Epoch: e}, p)
}

func TestOneRecordNamesOneIDPerTopic(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0", "t/1", "u/0")
	s.heartbeat("a", at("t/0", e, 1), atID("t/1", "A", e, 2), atID("t/0", "B", e, 3), atID("u/0", "B", e, 4), atID("t/0", "A", e, 5))
	s.happened("progressed a t/0 @101 =1", "progressed a t/1 @101 =2", "ignored a t/0: malformed",
		"progressed a u/0 @101 =4", "progressed a t/0 @101 =5")
	s.heartbeat("a", atID("t/0", "B", e, 3))
	s.happened("progressed a t/0 @101 =3")
}

func TestLoadIsKept(t *testing.T) {
	s := newScript(t)
	s.join("a")
	s.write("a", Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Load: Load{InFlight: 3, Lag: -4}}})
	assert.Equal(t, Load{3, -4}, s.w.Instance(id("a")).Load)
	s.claim("a", "t/0")
	assert.Equal(t, Load{3, -4}, s.w.Instance(id("a")).Load)
}

func TestAnnouncementIsToldLast(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0")
	s.write("a", Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Announces: true, Topics: []TopicProgress{at("t/0", e, 5)}}})
	s.happened("progressed a t/0 @101 =5", "announced a")
}

func TestAFreeKeyKeepsItsProgressAndItsLastOwner(t *testing.T) {
	s := newScript(t)
	s.join("a", "b", "c")
	e := s.claim("a", "t/0", "t/1")
	s.heartbeat("a", atID("t/0", "A", e, 5))
	s.evict("b", "a", s.renewed("a"))
	want := Progress{TopicID: topicID("A"), Next: 5, Client: "client-a", Epoch: e}
	p, known := s.w.Progress("t", 0)
	assert.True(t, known)
	assert.Equal(t, want, p)
	p, known = s.w.Progress("t", 1)
	assert.True(t, known)
	assert.Equal(t, Progress{Next: NoProgress, Client: "client-a", Epoch: e}, p)

	// also when the instance itself is forgotten
	s.foreign(2 * EndedMemory)
	p, _ = s.w.Progress("t", 0)
	assert.Equal(t, want, p)

	// the next owner starts there
	f := s.claim("b", "t/0")
	p, _ = s.w.Progress("t", 0)
	assert.Equal(t, Progress{TopicID: topicID("A"), Next: 5, Client: "client-b", Epoch: f}, p)
}

func TestTheLastOwnerOfAPartitionMayBeThatOfItsTopic(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0")
	s.release("a", "", releasing("t/0", e, 5))
	f := s.claim("b", "t")
	p, _ := s.w.Progress("t", 0)
	assert.Equal(t, Progress{Next: 5, Client: "client-b", Epoch: f}, p)
	s.release("b", "", releasing("t", f))
	p, _ = s.w.Progress("t", 0)
	assert.Equal(t, Progress{Next: 5, Client: "client-b", Epoch: f}, p)
	g := s.claim("a", "t/0")
	p, _ = s.w.Progress("t", 0)
	assert.Equal(t, Progress{Next: 5, Client: "client-a", Epoch: g}, p)
}

// S6: "records of a former owner change nothing: not owner, not progress, not liveness of anyone else."
func TestRecordsOfAFormerOwnerChangeNothing(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0")
	s.heartbeat("a", at("t/0", e, 5))
	f := s.release("a", "b", releasing("t/0", e, 6))
	b := s.renewed("b")
	s.heartbeat("a", at("t/0", e, 50))
	s.happened("ignored a t/0: not held")
	s.release("a", "", releasing("t/0", e, 60))
	s.happened("ignored a t/0: not held")
	s.leave("a", releasing("t/0", e, 70))
	s.happened("ignored a t/0: not held", "left a")
	s.heartbeat("a", at("t/0", e, 80))
	s.ignored(AuthorEnded)
	s.holds("b", "t/0", f)
	s.progress("t/0", 6)
	assert.Equal(t, b, s.renewed("b"))
}
