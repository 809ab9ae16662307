package lease

import (
	"slices"
	"strings"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// declare takes what a Join says into the world and gives its author, a new instance if in is nil. It gives nil, and
// changes nothing, where that would go over a limit.
func (a *application) declare(in *instance) *instance {
	w, j := a.w, &a.rec.Join
	client, host := j.Client, j.Host
	var old []Interest
	var oldSize int
	if in != nil {
		client, host, old, oldSize = in.Client, in.Host, in.Interests, in.size
	}
	size := joinSize(client, host, j.Interests, j.Pinned)
	if len(client) > MaxLabel || len(host) > MaxLabel || size > MaxJoinSize || w.joins-oldSize+size > MaxJoinsSize ||
		in == nil && len(w.present) >= MaxInstances || !w.restate(old, j.Interests) {
		return nil
	}
	w.joins += size - oldSize
	if in == nil {
		in = w.create(a.rec)
	}
	in.size = size
	in.Interests, in.Pinned = w.own(j.Interests), w.copyKeys(j.Pinned)
	w.disown(old)
	w.sumInstance(in)
	return in
}

func (w *World) create(rec *Record) *instance {
	j := &rec.Join
	in := &instance{
		Instance: Instance{
			ID: rec.Instance, Client: strings.Clone(j.Client), Host: strings.Clone(j.Host),
			TTL: min(max(j.TTL, MinTTL), MaxTTL), MaxVersion: j.MaxVersion, Status: Alive, FirstJoin: rec.Offset, Renewed: rec.Offset,
		},
	}
	if w.tokenBase == 0 || rule.Broken(rule.TokenOnce) {
		w.tokenBase = j.TokenBase
	}
	w.admit(in)
	return in
}

// admit puts an instance that is alive or parked into the indices.
func (w *World) admit(in *instance) {
	in.hash = hashID(in.ID)
	w.instances[in.ID] = in
	w.present = append(w.present, in)
	if in.Status == Alive {
		w.versions[in.MaxVersion]++
		w.clients[in.Client] = append(w.clients[in.Client], in)
		w.sumQuiet(in.Client)
	}
}

func (w *World) copyKeys(from []Key) []Key {
	to := slices.Clone(from)
	for i := range to {
		if t := w.topics.find(to[i].Topic); t != nil {
			to[i].Topic = t.name
		} else {
			to[i].Topic = strings.Clone(to[i].Topic)
		}
	}
	return to
}

func (a *application) join(first bool) {
	if first {
		a.event(Joined, a.author.ID)
		return
	}
	a.event(Interested, a.author.ID)
	a.unmark(a.author)
	if rule.Broken(rule.TTLOnce) {
		a.author.TTL = min(max(a.rec.Join.TTL, MinTTL), MaxTTL)
		a.w.sumInstance(a.author)
	}
}
