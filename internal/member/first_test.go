package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFirst(t *testing.T) {
	s := newScript(t)
	a := s.process("a", Config{}, want(some(4)))
	s.pass(time.Second)
	require.Len(t, a.keys, 4)
	b := s.process("b", Config{}, want(some(4)))
	s.until(3*time.Second, "share", func() bool { return b.runs() == 2 })
	require.Len(t, a.keys, 2)
	t.Log(a.kinds(0), b.kinds(0), s.now)
	b.leave(false, 0)
	s.until(3*time.Second, "share", func() bool { return b.left })
	s.pass(10 * ms)
	require.Len(t, a.keys, 4)
	c := s.process("c", Config{}, want(some(4)))
	s.until(3*time.Second, "share", func() bool { return c.runs() == 2 })
	c.crashed = true
	n := s.now
	s.until(30*time.Second, "share", func() bool { return a.runs() == 4 })
	t.Log(s.now - n)
}
