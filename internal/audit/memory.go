package audit

// memory is a map that forgets the oldest when it is full.
type memory[K comparable, V any] struct {
	limit int
	have  map[K]V
	order []K // in the order of their coming; once it is full a ring
	next  int // the place of the oldest, once it is full
}

func newMemory[K comparable, V any](limit int) memory[K, V] {
	return memory[K, V]{limit: limit, have: map[K]V{}}
}

func (m *memory[K, V]) add(k K, v V) {
	if _, ok := m.have[k]; ok {
		m.have[k] = v
		return
	}
	m.have[k] = v
	if !m.full() {
		m.order = append(m.order, k)
		return
	}
	delete(m.have, m.order[m.next])
	m.order[m.next] = k
	m.next = (m.next + 1) % m.limit
}

func (m *memory[K, V]) find(k K) (V, bool) {
	v, ok := m.have[k]
	return v, ok
}

// full tells whether something may have been forgotten.
func (m *memory[K, V]) full() bool { return len(m.order) == m.limit }

// oldest is the one that came first of those that are there, once it is full.
func (m *memory[K, V]) oldest() K { return m.order[m.next] }
