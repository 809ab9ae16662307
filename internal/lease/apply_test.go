package lease

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJoinClaimHeartbeatReleaseLeave(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0", "t/1", "u")
	s.happened("granted a t/0 @102", "granted a t/1 @102", "granted a u @102")
	s.heartbeat("a", at("t/0", e, 5), at("u/3", e, 7))
	s.happened("progressed a t/0 @102 =5", "progressed a u/3 @102 =7")
	s.claim("b", "t", "t/0", "u/9")
	s.happened("refused b t by a: held by other", "refused b t/0 by a: held by other", "refused b u/9 by a: held by other")
	o := s.release("a", "b", releasing("t/0", e, 9))
	s.happened("progressed a t/0 @102 =9", "handed over b t/0 @105 by a")
	s.holds("b", "t/0", o)
	s.leave("a")
	s.happened("left a", "released a t/1 @102", "released a u @102")
	s.status("a", Ended)
	assert.Equal(t, 1, s.w.HeldCount(id("b")))
}
