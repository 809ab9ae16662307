// Package testutil is what tests of a program that uses Kafka need around them: an embedded broker that behaves like a
// real one, network faults that hit one client and not its neighbour, and two that tell from the logs of several processes, each in
// its own way, whether two of them owned one partition at the same time: [Judge], who looks for lost messages and what came twice
// too, and [Linearize], which has porcupine look for an order in which there was one owner at a time.
//
//	c := testutil.NewCluster(t, testutil.WithBrokers(3))       // gone when the test ends
//	require.NoError(t, c.CreateTopic("orders", 12, nil))
//	first, err := c.Produce("orders", 0, testutil.Text("a"), testutil.Text("b"))
//	f := c.Faults().Add(testutil.Fault{Client: "worker-1", Keys: testutil.Reads, Do: testutil.Drop})
//	...                                                        // worker-1 writes, and reads nothing
//	f.Remove()
//
// # The broker
//
// It is kfake, with these differences to Apache Kafka mended: message.timestamp.type=LogAppendTime, offsets of a group
// that never committed, commit metadata over 4,096 bytes, timestamps more than an hour ahead, names and values of topic
// settings, CreatePartitions to the same count, aborted transactions of an answer that is full, and connections that outlive
// their broker.
//
// These stay, so whatever depends on them is to be tested on a real broker: the answer to a Produce carries no append
// time, and a restamped batch says CreateTime; time queries on LogAppendTime topics are exact to the record, not to the
// batch; a partition never is without a leader, and no election loses records; an out-of-range fetch is answered with
// the true log start; there are no quotas.
//
// # Outside of tests
//
// [Start] gives the same cluster to a program, and other processes on the machine reach it by TCP.
package testutil
