// Package integration holds the tests of whole flows: worker processes that join, end, crash, freeze and restart, and what
// happens to topics and brokers meanwhile. They run on a real Apache Kafka, started for them:
//
//	make integration                              one broker, then three
//	make integration BROKERS=1 FLOWS=Handover     a part; FLOWS is a regular expression for names of tests
//
// A test prints its figures in lines that contain "figure: ". Those that make sense there run on the embedded broker too:
//
//	go test -tags integration -v ./integration
package integration
