package marshal

import (
	"fmt"
	"time"
)

// What InstanceState.Status can be.
const (
	isAlive    = "alive"
	isSilent   = "silent"
	isOverdue  = "overdue"
	isParked   = "parked"
	isReplaced = "replaced"
)

// silence is how long nothing was heard of it: as measured, or else by the broker's time stamps.
func (i *InstanceState) silence(now time.Time) time.Duration {
	if i.Silent >= 0 {
		return i.Silent
	}
	return now.Sub(i.LastHeartbeat)
}

// status finds what it is. namesake: there is one of its client id that is not parked.
func (i *InstanceState) status(namesake bool, now time.Time) string {
	silent := i.silence(now)
	switch {
	case i.Parked && i.Claims == 0 && namesake:
		return isReplaced
	case i.Parked:
		return isParked
	case silent > i.TTL:
		return isOverdue
	case silent > 2*i.TTL/5:
		return isSilent
	}
	return isAlive
}

// holders says of each instance why what it holds stands still, if it does.
func (s *State) holders(now time.Time) map[string]string {
	alone := true
	for _, i := range s.Instances {
		alone = alone && i.Status != isAlive && i.Status != isSilent
	}
	why := map[string]string{}
	for n := range s.Instances {
		i := &s.Instances[n]
		why[i.Instance] = i.why(alone, now)
	}
	return why
}

// why says for whom the keys of an instance are kept, or since when it is silent. alone: nobody is there to evict it.
func (i *InstanceState) why(alone bool, now time.Time) string {
	silent := i.silence(now).Round(100 * time.Millisecond)
	left := i.TTL - i.silence(now)
	kept := fmt.Sprintf("parked, kept for the next run of %s", printable(i.Client))
	switch {
	case i.Parked && left > 0:
		return fmt.Sprintf("%s, for up to %v more, until %s", kept, left.Round(time.Second), now.Add(left).UTC().Format("15:04:05Z"))
	case i.Parked && alone:
		return kept + ", whose time is over; nobody is there to take over: start a process"
	case i.Parked:
		return kept + ", whose time is over: free soon"
	case i.Status == isOverdue && alone:
		return fmt.Sprintf("its holder looks dead, last heard of %v ago, and nobody is there to take over: start a process", silent)
	case i.Status == isOverdue:
		return fmt.Sprintf("its holder looks dead, last heard of %v ago, its lease was %v: to be evicted by the others", silent, i.TTL)
	case i.Status == isSilent:
		return fmt.Sprintf("its holder was last heard of %v ago, its lease is %v", silent, i.TTL)
	}
	return ""
}
