package testutil

import (
	"fmt"
	"slices"
)

// Plant spoils true evidence in one way, to show that it is seen: "overlap", "loss" or "regression", which the judge is to see, "stale"
// (a hand-out under an old token after a hand-over) or "released" (a hand-out after the end of its claim), which Linearize is to see.
// It fails where the evidence has no place for it.
func Plant(e *Evidence, what string) error {
	switch what {
	case "overlap":
		return plantOverlap(e)
	case "loss":
		return plantLoss(e)
	case "regression":
		return plantRegression(e)
	case "stale":
		return plantLate(e, what, func(over, by Holding) bool { return !by.Over && by.Place == over.Place && by.Token > over.Token })
	case "released":
		return plantLate(e, what, func(over, by Holding) bool { return by == over })
	}
	return fmt.Errorf("plant %q: there are overlap, loss, regression, stale and released", what)
}

// plantOverlap adds a process that is handed a message between two of another's claim.
func plantOverlap(e *Evidence) error {
	for i := range e.Logs {
		for k, x := range e.Logs[i].Handouts {
			for _, x2 := range e.Logs[i].Handouts[k+1:] {
				if x2.Place == x.Place && x2.Token == x.Token && x2.Before-x.After >= 4 {
					y := x2
					y.Token, y.Before, y.After = x.Token+1, x.After+1, x2.Before-1
					e.Logs = append(e.Logs, ProcessLog{Process: "planted", Handouts: []Handout{y}})
					return nil
				}
			}
		}
	}
	return fmt.Errorf("plant overlap: no claim was handed two messages")
}

// plantLoss wipes out every trace of the messages of one call.
func plantLoss(e *Evidence) error {
	for i := range e.Logs {
		if len(e.Logs[i].Handouts) == 0 {
			continue
		}
		gone := e.Logs[i].Handouts[0]
		meets := func(p Place, first, last int64) bool {
			return p == gone.Place && first <= gone.Last && last >= gone.First
		}
		for k := range e.Logs {
			l := &e.Logs[k]
			l.Handouts = slices.DeleteFunc(slices.Clone(l.Handouts),
				func(h Handout) bool { return meets(h.Place, h.First, h.Last) })
			l.Finishes = slices.DeleteFunc(slices.Clone(l.Finishes),
				func(f Finish) bool { return meets(f.Place, f.First, f.Last) })
		}
		return nil
	}
	return fmt.Errorf("plant loss: nobody was handed anything")
}

// plantRegression hands a claim its first message again, right after its last.
func plantRegression(e *Evidence) error {
	for i := range e.Logs {
		l := &e.Logs[i]
		if len(l.Handouts) == 0 {
			continue
		}
		again := l.Handouts[0]
		for _, h := range l.Handouts {
			if h.Place == again.Place && h.Token == again.Token {
				again.Before, again.After = max(again.Before, h.After+1), max(again.After, h.After+2)
			}
		}
		l.Handouts = append(slices.Clone(l.Handouts), again)
		return nil
	}
	return fmt.Errorf("plant regression: nobody was handed anything")
}

// plantLate hands an owner one more message under the token of a claim that is over, right after somebody has written down something.
func plantLate(e *Evidence, what string, after func(over, by Holding) bool) error {
	for i := range e.Logs {
		l := &e.Logs[i]
		for _, over := range l.Holdings {
			at := slices.IndexFunc(l.Handouts, func(h Handout) bool { return h.Place == over.Place && h.Token == over.Token })
			if !over.Over || at < 0 {
				continue
			}
			for k := range e.Logs {
				for _, by := range e.Logs[k].Holdings {
					if !after(over, by) {
						continue
					}
					late := l.Handouts[at]
					for _, h := range l.Handouts {
						if h.Place == over.Place && h.Token == over.Token {
							late.First = max(late.First, h.Last+1)
						}
					}
					late.Last, late.Before, late.After = late.First, by.Noted+1, by.Noted+2
					l.Handouts = append(slices.Clone(l.Handouts), late)
					return nil
				}
			}
		}
	}
	return fmt.Errorf("plant %s: no claim that was handed a message has ended", what)
}
