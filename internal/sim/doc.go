// Package sim proves the shipped protocol code: many real members (internal/member, with history.Log and policy.Planner)
// over one virtual log, in virtual time, from one seed.
//
// One run is one seed. Everything that happens in it - delays, losses, clock rates, crashes, what the applications do -
// comes from one random source, so the same seed gives the same run, and a seed that failed can be run again with its
// trace. Real time is s.now; no code under test sees it. Every process has three clocks of its own (clock.go) and every
// decision of the code under test is made by these.
//
//	scenario, faults ──> process (start, follow, apply, step) ──> member.Output ──> producer ──> network ──> vlog
//	                         ^                                        |                                       |
//	                         └── fetch <── network <──────────────────┼───────────────────────────────────────┤
//	                                                                  v                                       v
//	                                                     claims, application (S3, S4)          reference world (S1 .. S7)
//
// What must hold (PROTOCOL.md §9) is checked by code that shares nothing with what it checks: the reference (reference.go)
// compares the world before and after each record at the moment when the log takes it; hands.go asks every member after
// each of its steps what it would hand out; app.go judges the hand-outs themselves; quiet.go asks at the end, when
// all faults are over, whether everybody came to rest.
package sim
