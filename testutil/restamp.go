package testutil

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Places in the header of a record batch (magic 2).
const (
	lengthAt       = 8
	magicAt        = 16
	crcAt          = 17
	attributesAt   = 21 // from here on the CRC counts
	maxTimestampAt = 35
	batchHeader    = 61
)

const codecBits = 7 // of the attributes

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// restamp gives every record of a batch the time now (Unix ms). The batch still says CreateTime: kfake would break the
// checksum of one that says LogAppendTime. What is no batch comes back as it is, for the broker to refuse.
func restamp(raw []byte, now int64) []byte {
	var b kmsg.RecordBatch
	if len(raw) < batchHeader || raw[magicAt] != 2 || b.ReadFrom(raw) != nil {
		return raw
	}
	if b.NumRecords > 1 {
		records, ok := withoutDeltas(b)
		if !ok {
			return raw
		}
		b.Records = records
		b.Attributes &^= codecBits
	}
	b.FirstTimestamp, b.MaxTimestamp = now, now
	return seal(b.AppendTo(nil))
}

// withoutDeltas is the records of a batch, uncompressed and all of one time. A single record has no delta, so nobody
// needs to look into it.
func withoutDeltas(b kmsg.RecordBatch) ([]byte, bool) {
	in := b.Records
	if codec := kgo.CompressionCodecType(b.Attributes & codecBits); codec != kgo.CodecNone {
		var err error
		if in, err = kgo.DefaultDecompressor().Decompress(in, codec); err != nil {
			return nil, false
		}
	}
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		l, n := binary.Varint(in)
		if n <= 0 || l < 0 || l > int64(len(in)-n) {
			return nil, false
		}
		size := n + int(l)
		var r kmsg.Record
		if r.ReadFrom(in[:size]) != nil {
			return nil, false
		}
		in = in[size:]
		r.TimestampDelta, r.TimestampDelta64 = 0, 0
		out = appendRecord(out, r)
	}
	return out, true
}

// appendRecord writes a record with its true length.
func appendRecord(dst []byte, r kmsg.Record) []byte {
	r.Length = 0
	at := len(dst)
	dst = r.AppendTo(dst)
	r.Length = int32(len(dst) - at - 1) // a length of 0 took one byte
	return r.AppendTo(dst[:at])
}

// seal fills in the length and the checksum of a batch.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-lengthAt-4))
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], castagnoli))
	return b
}
