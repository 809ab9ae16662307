package explore

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// Bounds of a Config, so that a state has a fixed size.
const (
	maxProcs  = 4
	maxKeys   = 4
	maxFlight = 24
	maxWishes = 8
)

// Config is one exploration.
type Config struct {
	Name, About string
	Procs       []Proc
	Keys        []lease.Key   // that are watched
	Quantum     time.Duration // by which time advances
	Setup       string        // script that leads to the first state
	Records     int           // how many records may be appended after it
	Written     int           // how many records each process may write after it
	Copies      int           // how many of the records may be appended and stay on their way
	Messages    int           // of each partition, for the application to take and finish
	Wishes      []Wish        // what may happen once, at any time
	Batches     bool          // a process may read all that there is at once, beside one by one
	Acks        bool          // who appended hears of it, so may find out that it is deaf
	Authors     []Author      // instead of processes: they write what they like (pens.go)
	Own         bool          // each process has a log of its own: snapshots are asked for, which is a matter of its clock
}

// Proc is one process, which runs one member at a time.
type Proc struct {
	Name, Client string        // Client defaults to Name
	TTL          time.Duration // defaults to a second
	Rate         int           // of its clocks, in thousandths of true time; defaults to 1000
	Wanted       member.Wanted
	Written      int  // instead of the Config's; negative: none
	Newcomer     bool // it cannot read what is in the log when it starts, so it has to find or write a base
}

// WishKind tells the wishes apart.
type WishKind uint8

// What an operator, an application or fate may wish.
const (
	Start   WishKind = iota + 1 // the process begins
	Leave                       // Terminate(true)
	Park                        // Terminate(false)
	Abandon                     // Terminate whose time is up
	Seek                        // to Next
)

var wishNames = [...]string{Start: "start", Leave: "leave", Park: "park", Abandon: "abandon", Seek: "seek"}

// Wish is one of them.
type Wish struct {
	Proc string
	Kind WishKind
	Key  lease.Key
	Next int64
}

func (c *Config) proc(name string) int {
	for i := range c.Procs {
		if c.Procs[i].Name == name {
			return i
		}
	}
	return -1
}

func (p *Proc) client() string {
	if p.Client == "" {
		return p.Name
	}
	return p.Client
}

func (p *Proc) ttl() time.Duration {
	if p.TTL == 0 {
		return time.Second
	}
	return p.TTL
}

// written is how many records a process may write after the set-up.
func (c *Config) written(proc int) int {
	if n := c.Procs[proc].Written; n != 0 {
		return max(n, 0)
	}
	return c.Written
}

// step is how far the clocks of a process go while true time goes on by d.
func (p *Proc) step(d time.Duration) time.Duration {
	if p.Rate == 0 {
		return d
	}
	return d * time.Duration(p.Rate) / 1000
}

// horizon is how far back a process looks at most: longer than a ttl at any rate, and than whatever a member waits for that
// is not asked for by name.
func (c *Config) horizon() time.Duration {
	ttl := time.Duration(0)
	for i := range c.Procs {
		ttl = max(ttl, c.Procs[i].ttl())
	}
	return ttl + ttl/2
}

// oldest is the largest age that is told apart, in quanta.
func (c *Config) oldest() uint8 { return uint8(min(c.horizon()/c.Quantum, 250)) }
