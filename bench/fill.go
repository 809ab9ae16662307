package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// fill makes a topic and writes it: batches are made here and not by a producer, so that they are what is said, each time.
func fill(ctx context.Context, c content) error {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.NewPtrProduceRequest().Key(), 9) // later ones name topics by their ids
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses()...), kgo.MaxVersions(versions))
	if err != nil {
		return err
	}
	defer cl.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = c.topic(), partitions, 1
	forever := kmsg.NewCreateTopicsRequestTopicConfig()
	forever.Name, forever.Value = "retention.ms", kmsg.StringPtr("-1") // the times of the records are always the same
	t.Configs = append(t.Configs, forever)
	create.Topics = append(create.Topics, t)
	answer, err := create.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); err != nil {
		return fmt.Errorf("create topic %s: %w", c.topic(), err)
	}
	if err := fillPartitions(ctx, cl, c); err != nil {
		return errors.Join(fmt.Errorf("fill %s: %w", c.topic(), err), remove(c))
	}
	return nil
}

func fillPartitions(ctx context.Context, cl *kgo.Client, c content) error {
	var filling sync.WaitGroup
	errs := make(chan error, partitions)
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for p := range int32(partitions) {
		filling.Go(func() {
			free <- struct{}{}
			errs <- fillPartition(ctx, cl, c, p)
			<-free
		})
	}
	filling.Wait()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return all
}

func fillPartition(ctx context.Context, cl *kgo.Client, c content, partition int32) error {
	codec, err := kgo.DefaultCompressor(map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(), "snappy": kgo.SnappyCompression(), "gzip": kgo.GzipCompression(),
	}[c.Codec])
	if err != nil {
		return err
	}
	w := newWriter(c, partition)
	var records []byte
	var n int32
	for w.left > 0 {
		records, n = w.batch(records[:0])
		b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
			FirstTimestamp: writtenAt, MaxTimestamp: writtenAt, NumRecords: n, LastOffsetDelta: n - 1, Records: records}
		if codec != nil {
			squeezed, kind := codec.Compress(new(bytes.Buffer), records)
			b.Records, b.Attributes = squeezed, int16(kind)
		}
		if err := send(ctx, cl, c.topic(), partition, seal(b.AppendTo(nil))); err != nil {
			return err
		}
	}
	return nil
}

// seal fills in the length and the checksum of a batch.
func seal(b []byte) []byte {
	const lengthAt, crcAt, attributesAt = 8, 17, 21
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-lengthAt-4))
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// send writes a batch; again while a new topic's leader does not know yet that it is.
func send(ctx context.Context, cl *kgo.Client, topic string, partition int32, batch []byte) error {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = -1, 30_000
	r.Topics = append(r.Topics, t)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for range 200 {
		answer, err := r.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		if err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode); !kerr.IsRetriable(err) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("nobody leads partition %d", partition)
}
