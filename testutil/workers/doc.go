// Package workers runs worker processes that share topics, and the load that they work on, for whoever disturbs them and has
// the judge look at it afterwards: the demo, and the tests with real processes.
//
//	func main() {
//		workers.Serve() // where this program was started as a worker it is one, and does not return
//		...
//		p, err := workers.Start(workers.Worker{Process: "w1", Client: "w1", Group: "g", Topics: []string{"orders"}, ...})
//		...
//		p.Kill() // kill -9
//	}
package workers
