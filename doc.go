// Package marshal shares the partitions (or whole topics) of Kafka out among the processes of a group, with nothing but one
// Kafka topic, __marshal, as the place of agreement: no group coordinator, no ZooKeeper, no database.
//
// A process claims, heartbeats and releases by records in that topic. Everybody replays it into the same world state, so
// everybody knows who holds what, and computes the same plan of who should:
//
//	    __marshal (32 shards; a group's records are in one)
//	      |  read                                ^  append
//	      v                                      |
//	rationalizer --> world state --> member --> outbox        one member per Marshaler
//	                                   |
//	                                   v  start, drain, stop
//	data topics --> fetcher --> claims (window, gate) --> Consumer --> your code
//	                                   ^                                  |
//	                                   +------------- Commit -------------+
//
// A worker is a Marshaler, a Consumer of it, and a loop:
//
//	m, err := marshal.NewMarshaler("worker-7", "billing", []string{"localhost:9092"})
//	if err != nil {
//		return err
//	}
//	c, err := m.NewConsumer([]string{"orders"}, marshal.ConsumerOptions{})
//	if err != nil {
//		return err
//	}
//	context.AfterFunc(untilSIGTERM, m.Terminate) // closes the channel, hands over
//	for msg := range c.ConsumeChannel() {
//		handle(msg)
//		if err := c.Commit(msg); err != nil {
//			log.Print(err) // the claim was lost: somebody else gets the message again
//		}
//	}
//	m.Terminate() // waits until all is handed over
//
// There is more than one way:
//
//   - to read: ConsumeChannel, FetchMessage and ReadMessage, Messages, Batches (the fastest), or Claims with one unit of work per partition
//   - to commit: Commit per message, in any order; CommitMessages and Flush wait until it is durable
//   - to hold: partitions, or whole topics (ClaimEntireTopic), shared out by the plan; Marshaler.Claim for one by hand
//   - to move: Seek and SeekTime on the running group, Pause and Resume in this process
//   - to end: Terminate hands over; Consumer.Terminate(false) keeps the keys for the next run of the client id
//   - to look in: Events, Healthy, State, Stats, Lag; from outside KafkaCluster.State with WithAllGroups, KafkaCluster.Log, and the command
//     marshal
//
// A call that can block takes a context, or has a limit that its comment names. API.md lists every name with the test that shows it.
//
// What it promises: a partition has one owner at a time, whatever clocks and pauses do, in the sense that no two
// processes are handed its messages at once; work in hand may outlive a claim, which is what Message.Token is for. Each
// message is handed out at least once, and the position never passes a message that was not committed. PROTOCOL.md has the
// rules and the proof of each, README.md the figures.
package marshal
