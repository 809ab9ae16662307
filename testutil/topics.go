package testutil

import (
	"fmt"
)

// CreateTopic makes a topic. Settings are checked as a real broker checks them.
func (c *Cluster) CreateTopic(name string, partitions int32, configs map[string]string) error {
	if c.closed.Load() {
		return ErrClosed
	}
	for _, k := range sortedKeys(configs) {
		if err := checkConfig(k, configs[k]); err != nil {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	if err := c.k.CreateTopic(name, partitions, configs); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

// DeleteTopic removes a topic, its records and the groups' offsets of it.
func (c *Cluster) DeleteTopic(name string) error {
	if c.closed.Load() {
		return ErrClosed
	}
	if err := c.k.DeleteTopic(name); err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return nil
}

// RecreateTopic deletes a topic and makes it again: the same name, another topic id, offsets from 0.
func (c *Cluster) RecreateTopic(name string, partitions int32, configs map[string]string) error {
	if err := c.DeleteTopic(name); err != nil {
		return err
	}
	return c.CreateTopic(name, partitions, configs)
}

// DeleteRecords moves the log start of a partition to offset; -1 moves it to the end.
func (c *Cluster) DeleteRecords(topic string, partition int32, offset int64) error {
	if c.closed.Load() {
		return ErrClosed
	}
	if err := c.k.DeleteRecords(topic, partition, offset); err != nil {
		return fmt.Errorf("delete records of %s/%d below %d: %w", topic, partition, offset, err)
	}
	return nil
}

// Offsets gives the first offset of a partition and the one that the next record will get.
func (c *Cluster) Offsets(topic string, partition int32) (first, next int64, err error) {
	if c.closed.Load() {
		return 0, 0, ErrClosed
	}
	p := c.k.PartitionInfo(topic, partition)
	if p == nil {
		return 0, 0, fmt.Errorf("offsets of %s/%d: no such partition", topic, partition)
	}
	return p.LogStartOffset, p.HighWatermark, nil
}

// Committed gives what a group has committed in Kafka; offset -1 where it has not.
func (c *Cluster) Committed(group, topic string, partition int32) (offset int64, metadata string, err error) {
	if c.closed.Load() {
		return -1, "", ErrClosed
	}
	if g := c.k.GroupInfo(group); g != nil {
		if k, ok := g.Commits[topic][partition]; ok {
			return k.Offset, k.Metadata, nil
		}
	}
	return -1, "", nil
}
