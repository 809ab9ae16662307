package window

import "testing"

// BenchmarkAddDone finishes each message before the next is handed out.
func BenchmarkAddDone(b *testing.B) {
	b.ReportAllocs()
	w, o := New(0, 10_000), int64(0)
	for b.Loop() {
		w.Add(o)
		w.Done(o)
		o++
	}
	if w.Position() != o {
		b.Fatal("a message is missing")
	}
}

// BenchmarkReverse hands out 1,000 messages at a time and finishes them from the last to the first. ns/op: one message.
func BenchmarkReverse(b *testing.B) {
	b.ReportAllocs()
	w := New(0, 10_000)
	for o := int64(0); o < int64(b.N); o += 1000 {
		for i := range int64(1000) {
			w.Add(o + i)
		}
		for i := int64(999); i >= 0; i-- {
			w.Done(o + i)
		}
	}
	if w.Pending() != 0 {
		b.Fatal("a message is missing")
	}
}

// BenchmarkSparse is BenchmarkReverse on offsets of which every seventh is a hole.
func BenchmarkSparse(b *testing.B) {
	b.ReportAllocs()
	w := New(0, 10_000)
	offset := func(i int64) int64 { return i + i/6 }
	for o := int64(0); o < int64(b.N); o += 1000 {
		for i := range int64(1000) {
			w.Add(offset(o + i))
		}
		for i := int64(999); i >= 0; i-- {
			w.Done(offset(o + i))
		}
	}
	if w.Pending() != 0 {
		b.Fatal("a message is missing")
	}
}

// BenchmarkStuck has one message in hand for ever and all others finished behind it, 9,999 at most. ns/op: one message.
func BenchmarkStuck(b *testing.B) {
	b.ReportAllocs()
	w, o := New(0, 10_000), int64(0)
	for b.Loop() {
		if w.Full() {
			w.Done(w.Position())
		}
		w.Add(o)
		if w.Position() != o {
			w.Done(o)
		}
		o++
	}
}

// BenchmarkAdd shows what handing out alone costs; the window is made anew when it is full.
func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	w, o := New(0, 1<<14), int64(0)
	for b.Loop() {
		if !w.Add(o) {
			*w = Window{ring: w.ring, limit: w.limit, next: o}
			w.Add(o)
		}
		o++
	}
}
