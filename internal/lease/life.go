package lease

// life is one life of a topic: the id that Kafka gave it then, and the lives before that are still remembered. It is
// never changed, and what a topic's partitions know alike they share.
type life struct {
	id     TopicID
	before *life
}

// topicID is the id of the life; zero: unknown. l may be nil.
func (l *life) topicID() TopicID {
	if l == nil {
		return TopicID{}
	}
	return l.id
}

// replaced gives the ids that were replaced, oldest first. l may be nil.
func (l *life) replaced() []TopicID {
	if l == nil || l.before == nil {
		return nil
	}
	return append(l.before.replaced(), l.before.id)
}

// replaces tells whether id is one that another has replaced. l may be nil.
func (l *life) replaces(id TopicID) bool {
	if l == nil || id.IsZero() {
		return false
	}
	for b := l.before; b != nil; b = b.before {
		if b.id == id {
			return true
		}
	}
	return false
}

// newest gives the life with at most n-1 before it. l may be nil.
func (l *life) newest(n int) *life {
	if l == nil || n == 0 {
		return nil
	}
	before := l.before.newest(n - 1)
	if before == l.before {
		return l
	}
	return &life{l.id, before}
}

func (l *life) equal(o *life) bool {
	for ; l != o; l, o = l.before, o.before {
		if l == nil || o == nil || l.id != o.id {
			return false
		}
	}
	return true
}

// live gives the life of the topic with this id and these before it.
func (t *topic) live(id TopicID, before *life) *life {
	if t.life == nil || t.life.id != id || !t.life.before.equal(before) {
		t.life = &life{id, before}
	}
	return t.life
}
