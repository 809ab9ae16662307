package secure

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

// right is one operation on one resource.
type right struct {
	kind sarama.AclResourceType
	name string
	op   sarama.AclOperation
}

func (l *lab) grant(rights ...right) {
	l.t.Helper()
	for _, r := range rights {
		acl := &sarama.Acl{Principal: "User:" + Limited, Host: "*", Operation: r.op, PermissionType: sarama.AclPermissionAllow}
		require.NoError(l.t, l.admin.CreateACLs([]*sarama.ResourceAcls{{Resource: r.resource(), Acls: []*sarama.Acl{acl}}}))
	}
}

func (l *lab) revoke(r right) {
	l.t.Helper()
	who, host := "User:"+Limited, "*"
	gone, err := l.admin.DeleteACL(sarama.AclFilter{
		ResourceType: r.kind, ResourceName: &r.name, ResourcePatternTypeFilter: sarama.AclPatternLiteral, Principal: &who, Host: &host,
		Operation: r.op, PermissionType: sarama.AclPermissionAllow,
	}, false)
	require.NoError(l.t, err)
	require.NotEmpty(l.t, gone)
}

func (r right) resource() sarama.Resource {
	return sarama.Resource{ResourceType: r.kind, ResourceName: r.name, ResourcePatternType: sarama.AclPatternLiteral}
}

// site is a group of the limited user, with a coordination topic of its own.
type site struct {
	*lab
	topic, group, coordination string

	// all that a worker needs; the first only where it makes the coordination topic
	create, readLog, writeLog, readGroup, readTopic right
}

func newSite(t *testing.T, open func(*testing.T, Kind) *Brokers) *site {
	s := &site{lab: newLab(t, open, SASL)}
	s.topic, s.group = s.names(2)
	s.coordination = "marshal-" + unique()
	s.logs[s.group] = s.coordination
	s.create = right{sarama.AclResourceTopic, s.coordination, sarama.AclOperationCreate}
	s.readLog = right{sarama.AclResourceTopic, s.coordination, sarama.AclOperationRead}
	s.writeLog = right{sarama.AclResourceTopic, s.coordination, sarama.AclOperationWrite}
	s.readGroup = right{sarama.AclResourceGroup, s.group, sarama.AclOperationRead}
	s.readTopic = right{sarama.AclResourceTopic, s.topic, sarama.AclOperationRead}
	s.produce(s.topic, 2, 5)
	return s
}

func (s *site) limited() (*process, error) {
	return s.join("a", s.group, as(sarama.SASLTypeSCRAMSHA512, Limited), marshal.WithTopic(s.coordination), marshal.WithoutTopicCreation())
}

// mustLimited joins; rights that were granted just now may take a moment to count.
func (s *site) mustLimited() (p *process) {
	s.t.Helper()
	eventually(s.t, "joins", func() bool {
		var err error
		p, err = s.limited()
		return err == nil
	})
	return p
}

// made has somebody make the coordination topic who may.
func (s *site) made() *site {
	s.t.Helper()
	cfg, _ := s.config(as(sarama.SASLTypePlaintext, Worker))
	c, err := marshal.Dial("maker", s.Addrs, marshal.WithSaramaConfig(cfg), marshal.WithTopic(s.coordination), marshal.WithLogger(testutil.Logger(s.t)))
	require.NoError(s.t, err)
	c.Terminate()
	return s
}

// rights: who lacks one hears which, and goes on when it is granted.
func rights(t *testing.T, open func(*testing.T, Kind) *Brokers) {
	t.Run("a worker with its rights, which makes the coordination topic", func(t *testing.T) {
		s := newSite(t, open)
		s.grant(s.create, s.readLog, s.writeLog, s.readGroup, s.readTopic)
		eventually(t, "joins", func() bool {
			p, err := s.join("a", s.group, as(sarama.SASLTypeSCRAMSHA512, Limited), marshal.WithTopic(s.coordination))
			if err == nil {
				s.works(p)
			}
			return err == nil
		})
	})
	t.Run("a worker with its rights, where the topic is there", func(t *testing.T) {
		s := newSite(t, open).made()
		s.grant(s.readLog, s.writeLog, s.readGroup, s.readTopic)
		s.works(s.mustLimited())
	})

	t.Run("an observer, which needs to read the coordination topic alone", func(t *testing.T) {
		s := newSite(t, open).made()
		s.mustJoin("a", s.group, as(sarama.SASLTypePlaintext, Worker), marshal.WithTopic(s.coordination)).consume(s.topic)
		s.grant(s.readLog)
		var o *marshal.KafkaCluster
		eventually(t, "dials", func() bool {
			cfg, _ := s.config(as(sarama.SASLTypeSCRAMSHA512, Limited))
			var err error
			o, err = marshal.Dial("observer", s.Addrs, marshal.WithSaramaConfig(cfg), marshal.WithTopic(s.coordination), marshal.WithAllGroups(), marshal.WithLogger(testutil.Logger(t)))
			return err == nil
		})
		defer o.Terminate()
		eventually(t, "sees the group's claims", func() bool {
			for _, state := range o.State() {
				if state.Group == s.group && len(state.Keys) == 2 && state.Keys[0].Client == "a" && state.Keys[1].Client == "a" {
					return true
				}
			}
			return false
		})
	})

	for _, c := range []struct {
		name  string
		there bool // the coordination topic
		grant func(*site) []right
		lacks func(*site) string
	}{
		{"nothing", true, func(*site) []right { return nil }, func(s *site) string { return "Read on topic " + s.coordination + ", and Write" }},
		{"no right to create the coordination topic", false, func(s *site) []right { return []right{s.readLog, s.writeLog} }, func(*site) string { return "grant Create on it" }},
		{"no right to read the coordination topic", true, func(s *site) []right { return []right{s.writeLog} }, func(s *site) string { return "Read on topic " + s.coordination }},
		{"no right to write the coordination topic", true, func(s *site) []right { return []right{s.readLog} }, func(s *site) string { return "Write on topic " + s.coordination }},
	} {
		t.Run("start with "+c.name, func(t *testing.T) {
			s := newSite(t, open)
			if c.there {
				s.made()
			}
			s.grant(c.grant(s)...)
			eventually(t, "hears what it lacks: "+c.lacks(s), func() bool {
				begin := time.Now()
				err := s.starts(3 * time.Second)
				t.Logf("after %v: %v", time.Since(begin).Round(time.Millisecond), err)
				assert.Less(t, time.Since(begin), 6*time.Second)
				require.ErrorIs(t, err, marshal.ErrAuthorization)
				return contains(err, c.lacks(s)) // what was granted just now may take a moment to count
			})
		})
	}

	for _, c := range []struct {
		name      string
		lacks     func(*site) right
		says      string
		whole     bool // the error is of the topic
		described bool // the topic may be described
	}{
		{"read the group", func(s *site) right { return s.readGroup }, "Read on group ", false, true},
		{"know of a data topic", func(s *site) right { return s.readTopic }, "Read on topic ", true, false},
		{"read a data topic", func(s *site) right { return s.readTopic }, "Read on topic ", false, true},
	} {
		t.Run("readers hear that they may not "+c.name, func(t *testing.T) {
			s := newSite(t, open).made()
			lacks := c.lacks(s)
			for _, r := range []right{s.readLog, s.writeLog, s.readGroup, s.readTopic} {
				if r != lacks {
					s.grant(r)
				}
			}
			if c.described {
				s.grant(right{sarama.AclResourceTopic, s.topic, sarama.AclOperationDescribe})
			}
			p := s.mustLimited().consume(s.topic)
			eventually(t, "a *PartitionError", func() bool {
				return p.problem(func(err error) bool {
					pe, ok := errors.AsType[*marshal.PartitionError](err)
					return ok && errors.Is(err, marshal.ErrAuthorization) && contains(err, c.says+lacks.name) && pe.Topic == s.topic && (pe.Partition == -1) == c.whole
				}) != nil
			})
			eventually(t, "and the log says it", func() bool { return p.told.has("warning", c.says+lacks.name) })
			s.grant(lacks)
			eventually(t, "reads when it is granted", func() bool { return p.count() == 10 })
			p.end()
		})
	}

	for _, c := range []struct {
		name string
		of   func(*site) right
		says string
	}{
		{"read", func(s *site) right { return s.readLog }, "Read on topic "},
		{"write", func(s *site) right { return s.writeLog }, "Write on topic "},
	} {
		t.Run("hand-out stops without the right to "+c.name+" the coordination topic", func(t *testing.T) {
			s := newSite(t, open).made()
			s.grant(s.readLog, s.writeLog, s.readGroup, s.readTopic)
			p := s.mustLimited().consume(s.topic)
			eventually(t, "reads", func() bool { return p.count() == 10 })
			s.revoke(c.of(s))
			eventually(t, "it stops, and the log says why", func() bool {
				return p.told.has("warning", "hand-out is suspended") && p.told.has("warning", c.says+s.coordination)
			})
			s.grant(c.of(s))
			s.produce(s.topic, 2, 5)
			eventually(t, "it goes on", func() bool { return p.count() >= 20 })
			p.end()
		})
	}
}

// works: it reads all, and its offsets are committed.
func (s *site) works(p *process) {
	s.t.Helper()
	p.consume(s.topic)
	eventually(s.t, "reads", func() bool { return p.count() == 10 })
	s.committed(s.group, s.topic, 2, 5)
	p.end()
	assert.Nil(s.t, p.problem(func(error) bool { return true }), "without a problem")
}

// starts tries to join within a limit.
func (s *site) starts(most time.Duration) error {
	s.t.Helper()
	cfg, _ := s.config(as(sarama.SASLTypeSCRAMSHA512, Limited))
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	c, err := marshal.DialContext(ctx, "limited", s.Addrs, marshal.WithSaramaConfig(cfg), marshal.WithTopic(s.coordination), marshal.WithLogger(testutil.Logger(s.t)), marshal.WithLease(s.TTL, 0))
	if err != nil {
		return err
	}
	defer c.Terminate()
	_, err = c.NewMarshalerContext(ctx, "a", s.group)
	return err
}
