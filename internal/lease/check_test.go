package lease

import (
	"bytes"
	"errors"
	"fmt"
)

// checkWorld checks what must hold of any world by what it says of itself, and that its bytes, its digest and its copy
// are as good as it is.
func checkWorld(w *World) error {
	if err := checkOwners(w); err != nil {
		return err
	}
	b := w.AppendBinary(nil)
	parsed, err := ParseWorld(b)
	if err != nil {
		return fmt.Errorf("S1: own bytes: %w", err)
	}
	copied := w.Clone()
	for what, o := range map[string]*World{"parsed": parsed, "copied": copied} {
		switch {
		case !bytes.Equal(b, o.AppendBinary(nil)):
			return fmt.Errorf("S1: %s: other bytes", what)
		case w.Digest() != o.Digest():
			return fmt.Errorf("S1: %s: other digest", what)
		case w.Version() != o.Version():
			return fmt.Errorf("S1: %s: other version", what)
		}
		if err := checkOwners(o); err != nil {
			return fmt.Errorf("%w (%s)", err, what)
		}
	}
	return nil
}

// checkOwners checks S2, and that all that can be asked for tells the same.
func checkOwners(w *World) error {
	if err := checkCounts(w); err != nil {
		return err
	}
	whole := map[string]bool{}
	held := map[InstanceID]int{}
	epochs := 0
	var before *Key
	var instances []InstanceID
	for in := range w.Instances() {
		instances = append(instances, in.ID)
	}
	var placed []Lease
	for _, h := range w.Holdings() {
		placed = append(placed, Lease{instances[h.Place], h.Epoch})
	}
	for k, l := range w.Leases() {
		if len(placed) == 0 || placed[0] != l {
			return fmt.Errorf("Holdings differ from Leases at %v", k)
		}
		placed = placed[1:]
		if before != nil && !less(*before, k) {
			return fmt.Errorf("leases out of order at %v", k)
		}
		before = &k
		in := w.Instance(l.Instance)
		switch {
		case in == nil || in.Status == Ended:
			return fmt.Errorf("S2: %v is held by somebody who is not there", k)
		case l.Epoch > w.Last() || l.Epoch <= in.FirstJoin:
			return fmt.Errorf("S5: %v has epoch %d of no time of its owner", k, l.Epoch)
		}
		if k.Partition == WholeTopic {
			whole[k.Topic] = true
		} else if whole[k.Topic] {
			return fmt.Errorf("S2: %s is held whole and in parts", k.Topic)
		}
		if got, ok := w.Lease(k); !ok || got != l {
			return fmt.Errorf("Lease(%v) differs from Leases", k)
		}
		if c, got, ok := w.Conflict(k); !ok || got != l || c != k {
			return fmt.Errorf("Conflict(%v) differs from Leases", k)
		}
		if k.Partition >= 0 {
			if o, got, ok := w.Owner(k.Topic, k.Partition); !ok || got != l || o != k {
				return fmt.Errorf("Owner(%v) differs from Leases", k)
			}
			if _, _, ok := w.Conflict(Key{k.Topic, WholeTopic}); !ok {
				return fmt.Errorf("%v does not conflict with its topic", k)
			}
		} else if o, _, ok := w.Owner(k.Topic, 7); !ok || o != k {
			return fmt.Errorf("%v does not cover partition 7", k)
		}
		held[l.Instance]++
		epochs++
	}
	last := Key{}
	for k, p := range w.AllProgress() {
		if !less(last, k) {
			return fmt.Errorf("progress out of order at %v", k)
		}
		if got, ok := w.Progress(k.Topic, k.Partition); !ok || got.Next != p.Next || got.Epoch != p.Epoch {
			return fmt.Errorf("Progress(%v) differs from AllProgress", k)
		}
		last = k
	}
	present := int64(-1)
	for in := range w.Instances() {
		if in.Status == Ended || in.FirstJoin <= present {
			return errors.New("Instances: an ended one, or out of order")
		}
		present = in.FirstJoin
		n := 0
		for k, l := range w.HeldBy(in.ID) {
			if got, ok := w.Lease(k); !ok || got != l || l.Instance != in.ID {
				return fmt.Errorf("HeldBy tells of %v", k)
			}
			n++
		}
		if n != held[in.ID] || n != w.HeldCount(in.ID) {
			return fmt.Errorf("HeldBy yields %d of %d", n, held[in.ID])
		}
		epochs -= n
	}
	if epochs != 0 {
		return errors.New("Leases and HeldBy differ in number")
	}
	return nil
}

func less(a, b Key) bool {
	return a.Topic < b.Topic || a.Topic == b.Topic && a.Partition < b.Partition
}
