package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicSpec is how the coordination topic is made.
type TopicSpec struct {
	Name       string
	Partitions int32
	Retention  time.Duration
	MayCreate  bool // make it, or add partitions
}

// adminWait is how long a broker may take to make a topic, in addition to the limit of every request.
const adminWait = 3 * time.Second

// EnsureTopic makes the coordination topic where it is missing, grows it to Partitions where it is smaller, and checks
// its settings (PROTOCOL.md §3). Warnings are for the log. mayGrow is asked before it grows (never grow a topic that
// holds text records of the original younger than an hour). Of several processes that do this at once each succeeds.
// It waits, within ctx, until every partition that was just made has a leader.
func (c *Client) EnsureTopic(ctx context.Context, s TopicSpec, mayGrow func(Topic) error) (Topic, []string, error) {
	ctx, done := c.bound(ctx)
	defer done()
	e := &ensure{c: c, spec: s, mayGrow: mayGrow}
	for {
		t, end, err := e.step(ctx)
		if err != nil && (!Retriable(err) || ctx.Err() != nil) {
			return t, e.warnings, c.outcome(fmt.Errorf("coordination topic %s: %w", s.Name, err))
		}
		if end && err == nil {
			return t, e.warnings, nil
		}
		if stop := pause(ctx); stop != nil {
			if err == nil {
				err = fmt.Errorf("%w: some partitions have no leader yet", ErrNotLeader)
			}
			return t, e.warnings, c.outcome(fmt.Errorf("coordination topic %s: %w: %w", s.Name, stop, err))
		}
	}
}

// ensure is where an EnsureTopic has got to.
type ensure struct {
	c        *Client
	spec     TopicSpec
	mayGrow  func(Topic) error
	checked  bool
	made     bool // we made or grew it
	warnings []string
}

// step looks and takes the next step; end: all is as it should be.
func (e *ensure) step(ctx context.Context) (t Topic, end bool, err error) {
	ts, err := e.c.Topics(ctx, e.spec.Name)
	if err != nil {
		return t, false, err
	}
	t = ts[e.spec.Name]
	switch {
	case errors.Is(t.Err, ErrUnknownTopic):
		if !e.spec.MayCreate {
			return t, false, fmt.Errorf("%w, and making it is switched off: make it with %s", ErrUnknownTopic, e.recipe(3))
		}
		e.made = true
		return t, false, e.create(ctx)
	case Unauthorized(t.Err):
		return t, false, fmt.Errorf("%w, and Write", t.Err)
	case t.Err != nil:
		return t, false, t.Err
	}
	if !e.checked {
		if err := e.check(ctx, t); err != nil {
			return t, false, err
		}
		e.checked = true
	}
	if len(t.Partitions) < int(e.spec.Partitions) {
		return t, false, e.grow(ctx, t)
	}
	headless := 0
	for _, p := range t.Partitions {
		if p.Leader < 0 {
			headless++
		}
	}
	if headless > 0 && !e.made {
		e.warn("%d partitions have no leader: groups whose shard is one of them wait for it", headless)
	}
	return t, headless == 0 || !e.made, nil
}

func (e *ensure) warn(format string, args ...any) {
	e.warnings = append(e.warnings, fmt.Sprintf(format, args...))
}

// setting of the topic.
type setting struct{ name, value string }

func (e *ensure) settings(replicas int) []setting {
	ss := []setting{
		{"cleanup.policy", "delete"},
		{"message.timestamp.type", "LogAppendTime"},
		{"retention.ms", strconv.FormatInt(e.spec.Retention.Milliseconds(), 10)},
	}
	if replicas == 3 {
		ss = append(ss, setting{"min.insync.replicas", "2"})
	}
	return ss
}

// recipe tells a person how to make the topic.
func (e *ensure) recipe(replicas int) string {
	all := make([]string, 0, 4)
	for _, s := range e.settings(replicas) {
		all = append(all, s.name+"="+s.value)
	}
	return fmt.Sprintf("%d partitions, replication factor %d, %s", e.spec.Partitions, replicas, strings.Join(all, ", "))
}

// create makes the topic. That somebody else has just made it is fine.
func (e *ensure) create(ctx context.Context) error {
	replicas := max(1, min(3, len(e.c.Brokers())))
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(adminWait / time.Millisecond)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = e.spec.Name, e.spec.Partitions, int16(replicas)
	for _, s := range e.settings(replicas) {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = s.name, kmsg.StringPtr(s.value)
		t.Configs = append(t.Configs, cfg)
	}
	req.Topics = append(req.Topics, t)
	resp, err := e.c.askController(ctx, req, 2, 7)
	if err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if t.Topic != e.spec.Name {
			continue
		}
		err := brokerError(t.ErrorCode, t.ErrorMessage)
		switch {
		case err == nil || errors.Is(err, sarama.ErrTopicAlreadyExists):
			return nil
		case Unauthorized(err):
			return fmt.Errorf("make it: %w: grant Create on it, or make it with %s", err, e.recipe(replicas))
		}
		return fmt.Errorf("make it: %w", err)
	}
	return fmt.Errorf("make it: %w", ErrIncomplete)
}

// grow adds partitions.
func (e *ensure) grow(ctx context.Context, t Topic) error {
	should := fmt.Sprintf("it has %d partitions and needs %d: add them with kafka-topics.sh --alter --topic %s --partitions %[2]d",
		len(t.Partitions), e.spec.Partitions, e.spec.Name)
	if !e.spec.MayCreate {
		return errors.New(should)
	}
	if e.mayGrow != nil {
		if err := e.mayGrow(t); err != nil {
			return fmt.Errorf("it has %d partitions and needs %d: %w", len(t.Partitions), e.spec.Partitions, err)
		}
		e.mayGrow = nil
	}
	e.made = true
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = int32(adminWait / time.Millisecond)
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = e.spec.Name, e.spec.Partitions
	req.Topics = append(req.Topics, rt)
	resp, err := e.c.askController(ctx, req, 0, 3)
	if err != nil {
		return fmt.Errorf("add partitions: %w", err)
	}
	for _, t := range resp.(*kmsg.CreatePartitionsResponse).Topics {
		if t.Topic != e.spec.Name {
			continue
		}
		err := brokerError(t.ErrorCode, t.ErrorMessage)
		switch {
		case err == nil || errors.Is(err, sarama.ErrInvalidPartitions): // the latter: somebody else was faster
			return nil
		case Unauthorized(err):
			return fmt.Errorf("%w: %s", err, should)
		}
		return fmt.Errorf("add partitions: %w", err)
	}
	return fmt.Errorf("add partitions: %w", ErrIncomplete)
}

// check refuses settings under which the log would not be one, and warns of those that make it weaker.
func (e *ensure) check(ctx context.Context, t Topic) error {
	replicas := 0
	for _, p := range t.Partitions {
		if replicas == 0 || p.Replicas < replicas {
			replicas = p.Replicas
		}
	}
	cfg, err := e.describe(ctx)
	if err != nil && Retriable(err) {
		return fmt.Errorf("describe its settings: %w", err)
	}
	if replicas == 1 {
		e.warn("replication factor 1: while the broker of a partition is away nobody can renew a claim, and if its disk is lost all claims are; use 3")
	}
	if Unauthorized(err) || errors.Is(err, ErrUnsupportedVersion) {
		e.warn("its settings could not be checked (%v): cleanup.policy must be delete and unclean.leader.election.enable false", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("describe its settings: %w", err)
	}
	if v := cfg["cleanup.policy"]; strings.Contains(v, "compact") {
		return fmt.Errorf("cleanup.policy is %s: compaction removes records that others still need; set it to delete", v)
	}
	if cfg["unclean.leader.election.enable"] == "true" {
		return errors.New("unclean.leader.election.enable is true: an unclean election loses claims that were confirmed; set it to false for this topic")
	}
	if v, ok := cfg["message.timestamp.type"]; ok && v != "LogAppendTime" {
		e.warn("message.timestamp.type is %s: it serves, but times that are shown are the writers', and a group that was away for long starts more slowly; set it to LogAppendTime", v)
	}
	if v, ok := cfg["min.insync.replicas"]; ok && v == "1" && replicas > 1 {
		e.warn("min.insync.replicas is 1: the loss of one broker can lose claims that were confirmed; set it to 2")
	}
	return nil
}

// describe gives the settings that check looks at.
func (e *ensure) describe(ctx context.Context) (map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, e.spec.Name
	r.ConfigNames = []string{"cleanup.policy", "unclean.leader.election.enable", "message.timestamp.type", "min.insync.replicas"}
	req.Resources = append(req.Resources, r)
	resp, err := e.c.askAny(ctx, req, 0, 4)
	if err != nil {
		return nil, err
	}
	for _, r := range resp.(*kmsg.DescribeConfigsResponse).Resources {
		if r.ResourceName != e.spec.Name {
			continue
		}
		if err := brokerError(r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
		got := make(map[string]string, len(r.Configs))
		for _, c := range r.Configs {
			if c.Value != nil {
				got[c.Name] = *c.Value
			}
		}
		return got, nil
	}
	return nil, ErrIncomplete
}

// askController puts a question to the controller, once.
func (c *Client) askController(ctx context.Context, req kmsg.Request, lo, hi int16) (kmsg.Response, error) {
	c.mu.Lock()
	addr, ok := c.brokers[c.controller]
	c.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("controller: %w", ErrUnknownBroker)
	}
	return c.ask(ctx, addr, req, lo, hi, adminWait)
}
