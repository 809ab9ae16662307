package lease

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runLog applies a log made of bytes, and fails the test where judgeLog finds something. It gives what occurred.
func runLog(t testing.TB, input []byte) map[string]int {
	occurred, trace, err := judgeLog(input)
	require.NoError(t, err, "%s", tail(trace))
	return occurred
}

// judgeLog applies a log made of bytes to a world and to the model, and checks after each record that S2, S4, S5 and S6 hold,
// that the world is as good as its bytes and its copy, and that it is the model's. It gives what occurred, the log, and the
// first thing that is wrong, which begins with the name of the check.
func judgeLog(input []byte) (occurred map[string]int, trace []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	src := newSource(input)
	w, m := NewWorld(TopicID{9}), newModel(TopicID{9})
	occurred = map[string]int{}
	before := takeImage(w)
	for err == nil && !src.done() {
		rec := src.record(w)
		trace = append(trace, show(&rec))
		old := w.Clone()
		oldBytes := w.AppendBinary(nil)
		events := w.Apply(&rec, nil)
		m.apply(&rec)
		for _, e := range events {
			occurred[eventNames[e.Kind]]++
			occurred[reasonNames[e.Reason]]++
		}
		after := takeImage(w)
		err = cmp.Or(checkStep(before, after, &rec, events), checkWorld(w), checkCopy(w, old, oldBytes, &rec, events), checkModel(w, m))
		before = after
	}
	return occurred, trace, err
}

// checkCopy checks that a copy from before the record did not change with its original, goes the same way, and that Version tells
// whether what a plan depends on has changed.
func checkCopy(w, old *World, oldBytes []byte, rec *Record, events []Event) error {
	if !bytes.Equal(oldBytes, old.AppendBinary(nil)) {
		return errors.New("copy: it changed with its original")
	}
	if (w.Version() == old.Version()) != (planDump(w) == planDump(old)) {
		return errors.New("version: what a plan depends on, or its version, changed without the other")
	}
	if again := old.Apply(rec, nil); !slices.Equal(events, again) || old.Digest() != w.Digest() {
		return errors.New("copy: it went another way")
	}
	return nil
}

func checkModel(w *World, m *model) error {
	got, want := dumpWorld(w, someIDs, slices.Concat(someKeys, otherKeys), someTopics), m.dump(someTopics)
	if got != want {
		return fmt.Errorf("model: the world is\n%s\nand should be\n%s", got, want)
	}
	return nil
}

// show tells a record by what its kind gives a meaning to.
func show(r *Record) string {
	content := map[Kind]any{
		KindJoin: r.Join, KindHeartbeat: r.Heartbeat, KindClaim: r.Claim, KindRelease: r.Release, KindLeave: []any{r.Leave, r.Release},
		KindEvict: r.Evict, KindDirective: r.Directive, KindBase: r.Base,
	}
	return fmt.Sprintf("%d: kind %d by %s seq %d %+v", r.Offset, r.Kind, name(r.Instance), r.Seq, content[r.Kind])
}

func tail(trace []string) string {
	var b bytes.Buffer
	for _, line := range trace[max(0, len(trace)-12):] {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// planDump is what a plan depends on, as text: all that Version must tell apart, and nothing else.
func planDump(w *World) string {
	var b strings.Builder
	for in := range w.Instances() {
		unheard := false
		for o := range w.Instances() {
			unheard = unheard || in.Status == Alive && o.Status == Alive && o.Client == in.Client && o.FirstJoin > in.Renewed
		}
		fmt.Fprintln(&b, in.ID[:], in.Client, in.Host, in.TTL, in.MaxVersion, in.Status, in.FirstJoin, in.Interests, in.Pinned, unheard)
		for _, k := range someKeys {
			fmt.Fprintln(&b, w.Unfit(in.ID, k))
		}
	}
	for k, l := range w.Leases() {
		fmt.Fprintln(&b, k, l)
	}
	return b.String()
}

// image is what S4, S5 and S6 are about, taken from outside.
type image struct {
	last      int64
	leases    map[Key]Lease
	progress  map[Key]Progress
	instances map[InstanceID]Instance
}

func takeImage(w *World) image {
	im := image{w.Last(), map[Key]Lease{}, map[Key]Progress{}, map[InstanceID]Instance{}}
	for k, l := range w.Leases() {
		im.leases[k] = l
	}
	for k, p := range w.AllProgress() {
		im.progress[k] = p
	}
	for _, id := range someIDs {
		if in := w.Instance(id); in != nil {
			im.instances[id] = *in
		}
	}
	return im
}

// checkStep checks what one record may have changed. It knows nothing of how.
func checkStep(before, after image, rec *Record, events []Event) error {
	if rec.Kind == KindBase && len(after.instances) == 0 {
		return nil
	}
	author := rec.Instance
	for k, l := range after.leases {
		old, was := before.leases[k]
		switch {
		case was && old == l:
		case l.Epoch != rec.Offset:
			return fmt.Errorf("S5: lease on %v with epoch %d, by a record at %d", k, l.Epoch, rec.Offset)
		case was && old.Epoch >= l.Epoch:
			return fmt.Errorf("S5: epoch of %v went from %d to %d", k, old.Epoch, l.Epoch)
		case was && old.Instance != l.Instance && old.Instance != author && rec.Kind != KindEvict && before.instances[old.Instance].Status != IsParked:
			return fmt.Errorf("S6: %v was taken from %v by a record that is neither its own nor an Evict", k, old.Instance)
		}
	}
	for k, old := range before.leases {
		if _, is := after.leases[k]; !is && old.Instance != author && rec.Kind != KindEvict && before.instances[old.Instance].Status != IsParked {
			return fmt.Errorf("S6: %v was freed by a record of another", k)
		}
	}
	for k, old := range before.progress {
		p, is := after.progress[k]
		switch {
		case !is:
			return fmt.Errorf("S4: progress of %v is gone", k)
		case p.Epoch < old.Epoch:
			return fmt.Errorf("S5: last epoch of %v went from %d to %d", k, old.Epoch, p.Epoch)
		case rec.Kind == KindDirective || p.Next == old.Next && p.TopicID == old.TopicID:
		case p.TopicID == old.TopicID && p.Next < old.Next:
			return fmt.Errorf("S4: progress of %v went from %d to %d", k, old.Next, p.Next)
		case before.leases[k].Instance != author && before.leases[Key{k.Topic, WholeTopic}].Instance != author:
			return fmt.Errorf("S6: progress of %v was moved by somebody who does not hold it", k)
		}
		if len(p.Replaced) > MaxReplaced {
			return fmt.Errorf("S4: %d replaced topic ids of %v", len(p.Replaced), k)
		}
	}
	for id, in := range after.instances {
		old, was := before.instances[id]
		switch {
		case id == author:
		case !was:
			return fmt.Errorf("S6: %v was made by another", id)
		case in.Status != old.Status && rec.Kind != KindEvict:
			return fmt.Errorf("S6: the status of %v was changed by another", id)
		case in.Status != Ended && (in.Renewed != old.Renewed || in.Seq != old.Seq):
			return fmt.Errorf("S6: %v was renewed by another", id)
		}
	}
	return checkEvents(before, after, events)
}

// checkEvents checks that the events tell exactly which leases changed hands.
func checkEvents(before, after image, events []Event) error {
	told := map[Key]Lease{}
	for k, l := range before.leases {
		told[k] = l
	}
	for _, e := range events {
		switch e.Kind {
		case Granted, HandedOver, TakenOver:
			told[e.Key] = Lease{e.Instance, e.Epoch}
		case Released:
			if told[e.Key] != (Lease{e.Instance, e.Epoch}) {
				return fmt.Errorf("event: %v released by %v, who did not hold it", e.Key, e.Instance)
			}
			delete(told, e.Key)
		case Sought:
			if e.Epoch == NoEpoch {
				break
			}
			if _, ok := told[e.Key]; ok {
				told[e.Key] = Lease{e.Instance, e.Epoch}
			} else {
				told[Key{e.Key.Topic, WholeTopic}] = Lease{e.Instance, e.Epoch}
			}
		}
	}
	for k, l := range told {
		if after.leases[k] != l {
			return fmt.Errorf("event: told of %v %v, it is %v", k, l, after.leases[k])
		}
	}
	if len(told) != len(after.leases) {
		return fmt.Errorf("event: told of %d leases of %d", len(told), len(after.leases))
	}
	return nil
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return b[:n]
}

// Random logs, and a proof that they reach everything there is.
func TestRandomLogsMatchTheModel(t *testing.T) {
	occurred := map[string]int{}
	for seed := range 40 {
		for what, n := range runLog(t, randomBytes(uint64(seed), 3000)) {
			occurred[what] += n
		}
	}
	t.Log(occurred)
	for _, what := range eventNames {
		assert.NotZero(t, occurred[what], "%s never happened", what)
	}
	for reason, what := range reasonNames {
		if reason != TooMany { // see TestLimits
			assert.NotZero(t, occurred[what], "%s was never a reason", what)
		}
	}
}

func FuzzApply(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 500))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		runLog(t, input[:min(len(input), 5000)])
	})
}

func FuzzParseWorld(f *testing.F) {
	for seed := range uint64(20) {
		src, w := newSource(randomBytes(seed, 600)), NewWorld(TopicID{9})
		for !src.done() {
			rec := src.record(w)
			w.Apply(&rec, nil)
		}
		f.Add(w.AppendBinary(nil))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		w, err := ParseWorld(input)
		if err != nil {
			return
		}
		require.Equal(t, input, w.AppendBinary(nil))
		require.NoError(t, checkWorld(w))
		// What was read is a world to live in.
		src := newSource(input)
		for range 20 {
			rec := src.record(w)
			if rec.Offset < 0 { // the last offset there is has been used
				return
			}
			w.Apply(&rec, nil)
			require.NoError(t, checkWorld(w))
		}
	})
}
