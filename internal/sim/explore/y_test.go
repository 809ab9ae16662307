package explore
import ("testing";"fmt";"math/rand/v2";"slices")
func TestY(t *testing.T) {
	c := Named("seek")
	sp, plain := newSpace(c), newSpace(c)
	plain.plain = true; sp.grain = 1
	b, _ := sp.setUp(); q0, _ := plain.setUp()
	for seed := range uint64(40) {
	s, p := b, q0
	rng := rand.New(rand.NewPCG(seed, 1))
	var log []string
	for range 60 {
		can, also := sp.actions(&s, nil), plain.actions(&p, nil)
		lines, al := linesOf(sp, &s, can), linesOf(plain, &p, also)
		for i := range sp.cfg.Procs {
			if s.local[i] >= 0 {
				x, y := sp.handing(i, s.local[i], s.age[i]), plain.handing(i, p.local[i], p.age[i])
				if x != y {
					for _, l := range log { fmt.Println(l) }
					l, m := sp.locals[s.local[i]], plain.locals[p.local[i]]
					fmt.Println(seed, i, x, y, s.age, p.age, l.now, m.now, l.m.Trust().Mono-l.now, m.m.Trust().Mono-m.now, l.digestS(sp), m.digestS(plain))
					fmt.Printf("%+v\n%+v\n", l.m.Trust(), m.m.Trust())
					fmt.Println(l.clock(false), m.clock(false))
					t.FailNow()
				}
			}
		}
		if len(can) == 0 { break }
		i := rng.IntN(len(can))
		log = append(log, lines[i])
		n, ok, _ := sp.apply(s, can[i])
		q, _, _ := plain.apply(p, also[slices.Index(al, lines[i])])
		if ok { s, p = n, q }
	}
	}
}
func (l *local) digestS(sp *space) string { return fmt.Sprintf("%x", sp.digest(0, l)) }
