//go:build integration

package integration

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/replay"
)

// verify replays what the group has written to the coordination topic by the rules of `marshal verify`.
func (s *stage) verify() {
	log := logrus.New()
	log.SetOutput(io.Discard)
	options := []marshal.Option{marshal.WithLogger(log), marshal.WithoutTopicCreation()}
	if s.coordination != "" {
		options = append(options, marshal.WithTopic(s.coordination))
	}
	c, err := marshal.DialContext(s.within(patience), "verify", s.addrs, options...)
	if !assert.NoError(s.t, err, "verifying the log") {
		return
	}
	defer c.Terminate()
	r, err := replay.Log(s.within(patience), c, s.group)
	assert.NoError(s.t, err)
	assert.NoError(s.t, r.Err())
	s.t.Logf("verify: %d records, %d replayed, %d findings", r.Records, r.Replayed, len(r.Findings))
}

// linearize has porcupine look for an order in which there was one owner at a time.
func (s *stage) linearize() {
	logs, err := testutil.ReadHandoutLogs(s.dir)
	if !assert.NoError(s.t, err) {
		return
	}
	l := testutil.Linearize(testutil.Evidence{Logs: logs, FastReclaim: s.fastReclaim, Recreated: s.recreated})
	s.t.Logf("porcupine: %d operations, %s, %d left out", l.Operations, l.Line(), l.LeftOut)
	if l.Keys > 0 { // a flow may hand out nothing
		assert.NoError(s.t, l.Err())
	}
}

// spoiling says what TestASpoiledFlow is to spoil.
const spoiling = "MARSHAL_SPOIL"

// Whatever a flow looks at itself, its stage looks at its log and its histories: one is run with each spoiled.
func TestEveryFlowEndsWithTheRules(t *testing.T) {
	apart(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for spoil, says := range map[string]string{
		"nothing": "porcupine: ",
		"log":     "foreign: a message of 8 bytes that cannot be read",
		"history": "not linearizable",
	} {
		run := exec.CommandContext(t.Context(), self, "-test.run", "^TestASpoiledFlow$", "-test.v")
		run.Env = append(os.Environ(), spoiling+"="+spoil)
		out, err := run.CombinedOutput()
		assert.Equal(t, spoil == "nothing", err == nil, "%s: %s", spoil, out)
		assert.Contains(t, string(out), says)
	}
}

func TestASpoiledFlow(t *testing.T) {
	what := os.Getenv(spoiling)
	if what == "" {
		t.Skip("for TestEveryFlowEndsWithTheRules")
	}
	s := open(t, apartLog)
	topic := s.topic("t", 1, nil)
	s.fill(topic, 1, 10)
	s.start(s.worker("a", []string{topic}))
	s.balanced(1, 1)
	s.finish()
	switch what {
	case "log":
		p := s.client.NewProducer(s.coordination, s.shard())
		defer p.Close()
		_, err := p.Append(s.within(patience), []kafka.Message{{Key: []byte(s.group), Value: []byte("nonsense")}})
		require.NoError(t, err)
	case "history":
		place := testutil.Place{Topic: topic}
		_, token := s.handed(place, 0)
		now := testutil.Now()
		s.notes.Handout(now, now+1, topic, 0, token, 10)
	}
}
